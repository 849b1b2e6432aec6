/* load.cuh - the tile of a block of conv_direct, and its window and weights in shared memory. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LOAD_CUH

#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/arch/sm80_mma.cuh"

/* x / by.divisor, 0 <= x < 2^31 */
static __device__ __forceinline__ int32_t direct_divide(const uf_direct_divisor &by, int32_t x) {
    return by.divisor == 1 ? x : (int32_t)(__umulhi((uint32_t)x, by.multiplier) >> by.shift);
}

template <typename T>
static __device__ __forceinline__ float direct_get(const T *from) {
    return (float)__ldg(from);
}

/* One element, or four aligned ones, to shared memory; zeros and no read unless `take`. */
static __device__ __forceinline__ void direct_copy(float *to, const float *from, bool take) {
#if UF_HAS_MMA
    uf_copy_async4(to, from, take);
#else
    *to = take ? __ldg(from) : 0.0f;
#endif
}

static __device__ __forceinline__ void direct_copy4(float *to, const float *from, bool take) {
#if UF_HAS_MMA
    uf_copy_async16(to, from, take);
#else
    *(float4 *)to = take ? __ldg((const float4 *)from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
}

/* bf16 becomes f32 in registers, which an asynchronous copy cannot do. */
static __device__ __forceinline__ void direct_copy(float *to, const uf_bf16 *from, bool take) {
    *to = take ? direct_get(from) : 0.0f;
}

static __device__ __forceinline__ void direct_copy4(float *to, const uf_bf16 *from, bool take) {
    const uint2 pairs = take ? __ldg((const uint2 *)from) : make_uint2(0u, 0u);
    *(float4 *)to =
        make_float4(__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u),
                    __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000u));
}

static __device__ __forceinline__ void direct_copies_wait() {
    uf_copy_async_commit();
    uf_copy_async_wait<0>();
}

/* Channels C of a warp, of which STEP floats of weights per phase are kept (aligned), L column
 * phases, P cells per lane. */
template <typename Element, int L_, int C_, int P_>
struct direct_tile {
    typedef Element T;
    static constexpr int AHEAD =
        sizeof(T) == 4 ? 2 : 4; /* copies unrolled: those of bf16 wait for their loads */
    static constexpr int L = L_, C = C_, P = P_;
    static constexpr int STEP = C == 3 ? 4 : C; /* uf_direct_weight_step */
    static constexpr int CELLS = 32 * P;        /* of a warp */
    static constexpr int TOGETHER =
        C % 2 == 0 ? 2 : 1; /* channels staged together: uf_direct_stage_words */
    /* Blocks per multiprocessor that registers are rationed for; the epilogue of phases needs some
     * more. */
    static constexpr int BLOCKS = L * C * P > (L > 1 ? 63 : 64) ? 1 : 2;
    /* Threads of such a block: twelve warps where few blocks share a multiprocessor, though none
     * has more than UF_DIRECT_WARPS; without it the largest tiles take registers for half as many.
     */
    static constexpr int RATION = BLOCKS == 1 ? 384 : UF_DIRECT_WARPS * 32;
};

struct direct_coord {
    int32_t n, group, slice, cell[2]; /* the first cells */
};

static __device__ __forceinline__ direct_coord direct_coord_of(const uf_direct_conv &p) {
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    direct_coord at;
    int32_t rest = (int32_t)blockIdx.x;
    at.slice = rest % p.slices;
    rest /= p.slices;
    at.cell[1] = columns.cell_first + rest % columns.tiles * columns.tile;
    rest /= columns.tiles;
    at.cell[0] = rows.cell_first + rest % rows.tiles * rows.tile;
    rest /= rows.tiles;
    at.group = rest % p.groups;
    at.n = rest / p.groups;
    return at;
}

/* A warp of a block: by cells, channels and row phases, and its first cell. */
struct direct_warp {
    int32_t number, m, c, h, first_cell;
};

template <typename Tile>
static __device__ __forceinline__ direct_warp direct_warp_of(const uf_direct_conv &p) {
    direct_warp me;
    me.number = (int32_t)threadIdx.x >> 5;
    me.m = me.number % p.warps_m;
    me.c = me.number / p.warps_m % p.warps_c;
    me.h = me.number / (p.warps_m * p.warps_c);
    me.first_cell = p.row_warps > 0
                        ? me.m / p.row_warps * p.pitch + me.m % p.row_warps * Tile::CELLS
                        : me.m * Tile::CELLS;
    return me;
}

template <typename Tile>
static __device__ __forceinline__ int32_t direct_first_channel(const uf_direct_conv &p,
                                                               const direct_coord &at,
                                                               const direct_warp &me) {
    return (at.slice * p.warps_c + me.c) * Tile::C;
}

/* The window of a chunk of channels, zeros outside. A group of 2^group_bits lanes loads a line: the
 * elements of one row and one residue. */
template <typename Tile>
static __device__ void direct_load_window(const uf_direct_conv &p, const direct_coord &at,
                                          int first_channel, int channels, float *window) {
    typedef typename Tile::T T;
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    const int32_t h0 = at.cell[0] * rows.in_step + rows.low;
    const int32_t w0 = at.cell[1] * columns.in_step + columns.low;
    const T *const from = (const T *)p.read + at.n * p.read_stride[0] +
                          ((int64_t)at.group * p.read_per_group + first_channel) * p.read_stride[1];
    const int32_t residues = rows.residues * columns.residues;
    const int32_t lines = channels * residues * rows.coords;
    const int32_t group_mask = (1 << p.group_bits) - 1;
    const int32_t across0 = (int32_t)threadIdx.x & group_mask;
    const int32_t step = p.vector ? 4 : columns.in_step;
    for (int32_t line = (int32_t)threadIdx.x >> p.group_bits; line < lines;
         line += (int32_t)blockDim.x >> p.group_bits) {
        const int32_t plane = direct_divide(p.by_coords, line);
        const int32_t coord = line - plane * rows.coords;
        int32_t c = plane;
        int32_t h = h0 + coord * rows.in_step;
        int32_t w = w0;
        if (residues != 1) {
            c = direct_divide(p.by_residues, plane);
            const int32_t residue = plane - c * residues;
            const int32_t row_residue = residue / columns.residues;
            h += rows.residue[row_residue];
            w += columns.residue[residue - row_residue * columns.residues];
        }
        const bool inside = (uint32_t)h < (uint32_t)rows.read;
        const int32_t limit = inside ? columns.read : 0;
        const T *const line_from =
            from + c * p.read_stride[1] + (inside ? h : 0) * p.read_stride[2];
        float *const to = window + plane * p.plane + coord * p.pitch;
        if (p.vector) {
#pragma unroll Tile::AHEAD
            for (int32_t across = across0 * 4; across < p.pitch; across += (group_mask + 1) * 4) {
                const bool take = (uint32_t)(w + across) < (uint32_t)limit;
                direct_copy4(to + across, line_from + (take ? w + across : 0), take);
            }
        } else {
            int32_t column = w + across0 * step;
#pragma unroll Tile::AHEAD
            for (int32_t across = across0; across < columns.coords; across += group_mask + 1) {
                const bool take = (uint32_t)column < (uint32_t)limit;
                direct_copy(to + across, line_from + (take ? column : 0) * p.read_stride[3], take);
                column += (group_mask + 1) * step;
            }
        }
    }
}

/* The block's weights of a chunk: [channels of a warp][filter row][weight column][channel][STEP];
 * phases of one run lie together, so that a run's part is [channel][phase][STEP]. */
template <typename Tile>
static __device__ void direct_load_weights(const uf_direct_conv &p, const direct_coord &at,
                                           int first_channel, int channels, float *weights) {
    typedef typename Tile::T T;
    const int32_t part = p.kernel[0] * p.kernel[1] * p.chunk;
    const int32_t pairs = p.warps_c * Tile::C * p.chunk; /* of written and read channels */
    const T *const from = (const T *)p.weight + at.group * p.w_group + first_channel * p.w_read;
    /* A warp stays with one tap, so that its offsets are the same for all lanes. */
    for (int32_t tap = (int32_t)threadIdx.x >> 5; tap < p.kernel[0] * p.kernel[1];
         tap += (int32_t)blockDim.x >> 5) {
        const int32_t r = tap / p.kernel[1];
        const int32_t column = tap - r * p.kernel[1];
        const uf_direct_run &run = p.run[p.column_run[column]];
        const int32_t phases = run.count;
        const T *const tap_from = from + r * p.w_row + p.column_tap[column] * p.w_column;
        float *const to =
            weights +
            ((r * p.kernel[1] + run.column) * p.chunk + (column - run.column)) * Tile::STEP;
#pragma unroll 4
        for (int32_t pair = (int32_t)threadIdx.x & 31; pair < pairs; pair += 32) {
            const int32_t k = direct_divide(p.by_chunk, pair);
            const int32_t c = pair - k * p.chunk;
            const int32_t written = at.slice * p.warps_c * Tile::C + k;
            const bool there = written < p.written_per_group && c < channels;
            const int32_t block = k / Tile::C;
            direct_copy(to + (block * part + c * phases) * Tile::STEP + (k - block * Tile::C),
                        tap_from + (there ? written * p.w_written + c * p.w_read : 0), there);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void direct_load(const uf_direct_conv &p, const direct_coord &at,
                                                   int32_t chunk, float *to) {
    const int32_t channels = min(p.chunk, p.read_per_group - chunk * p.chunk);
    direct_load_window<Tile>(p, at, chunk * p.chunk, channels, to);
    direct_load_weights<Tile>(p, at, chunk * p.chunk, channels, to + p.input_words);
}

#endif
