/* conv_thin_load.cuh - what conv_thin has before it computes: tiles, windows and weights in shared
 * memory. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_THIN_LOAD_CUH

#include "kernels/cuda/conv_direct_load.cuh"
#include "kernels/cuda/conv_thin_plan.h"
#include "kernels/cuda/mma_split.cuh"

/* PARTS: 2 splits operands into big and small halves (three products), 1 rounds them. N eights of
 * columns and M sixteens of cells per warp. */
template <typename Element, uf_math MATH_, int N_>
struct thin_tile {
    typedef Element T;
    static constexpr uf_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MATH_FP32 ? 2 : 1, N = N_,
                         M = N == 8 && PARTS == 2 ? 1
                             : N > 2              ? 2
                                                  : 4; /* uf_thin_rows */
};

/* An operand of the one product of TF32 and BF16; what bf16 holds is exact in TF32. */
template <typename Tile>
static __device__ __forceinline__ uint32_t thin_round(float value) {
    return sizeof(typename Tile::T) == 2 ? __float_as_uint(value)
           : Tile::MATH == UF_MATH_BF16  ? uf_pack_bf16(0.0f, value)
                                         : uf_round_tf32(value);
}

static __device__ __forceinline__ direct_place thin_place_of(const uf_thin_conv &p, int32_t group,
                                                             int32_t tile) {
    const uf_direct_axis &rows = p.conv.axis[0], &columns = p.conv.axis[1];
    direct_place at;
    const int32_t down = direct_divide(p.by_tiles_w, tile);
    at.cell[1] = columns.cell_first + (tile - down * columns.tiles) * columns.tile;
    at.n = direct_divide(p.by_tiles_h, down);
    at.cell[0] = rows.cell_first + (down - at.n * rows.tiles) * rows.tile;
    at.group = group;
    at.slice = 0;
    return at;
}

/* `width` neighbours to shared memory, or zeros, as they are stored. */
template <typename T>
static __device__ __forceinline__ void thin_copy(T *to, const T *from, int32_t width, bool take) {
#if UF_HAS_MMA
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(to);
    const int bytes = width * (int)sizeof(T);
    const int size = take ? bytes : 0;
    if (bytes == 16) {
        uf_copy_async16(to, from, take);
    } else if (bytes == 8) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(shared), "l"(from),
                     "r"(size)
                     : "memory");
    } else if (bytes == 4) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared), "l"(from),
                     "r"(size)
                     : "memory");
    } else {
        *to = take ? *from : (T)0.0f;
    }
#endif
}

static __device__ __forceinline__ float thin_get(const float *shared) {
    return *shared;
}

static __device__ __forceinline__ float thin_get(const __nv_bfloat16 *shared) {
    return __uint_as_float((uint32_t) * (const uint16_t *)shared << 16);
}

/* A line of the window, the elements of one channel and row: where it lies in memory from the
 * window's first, and in shared memory. The same for all tiles, so it is made once. */
struct __align__(16) thin_line {
    int64_t from;
    int32_t to;
    int16_t channel, row;
};

static __device__ __forceinline__ void thin_make_lines(const uf_thin_conv &p, thin_line *lines) {
    const uf_direct_axis &rows = p.conv.axis[0];
    for (int32_t i = (int32_t)threadIdx.x; i < p.lines; i += (int32_t)blockDim.x) {
        const int32_t plane = direct_divide(p.conv.by_places, i);
        const int32_t place = i - plane * rows.places;
        const int32_t c = direct_divide(p.conv.by_residues, plane);
        const int32_t residue = plane - c * rows.residues;
        const int32_t row = place * rows.in_step + rows.residue[residue];
        thin_line line;
        line.from = c * p.conv.read_stride[1] + row * p.conv.read_stride[2];
        line.to = c * p.conv.channel_words + residue * p.conv.plane + place * p.conv.pitch;
        line.channel = (int16_t)c;
        line.row = (int16_t)row;
        lines[i] = line;
    }
}

/* The window of a chunk of channels, zeros outside and beyond the last channel. */
template <typename T>
static __device__ __forceinline__ void thin_load(const uf_thin_conv &p, const direct_place &at,
                                                 int32_t first_channel, const thin_line *lines,
                                                 T *window) {
    const uf_direct_axis &rows = p.conv.axis[0], &columns = p.conv.axis[1];
    const int32_t h0 = at.cell[0] * rows.in_step + rows.low;
    const int32_t across = ((int32_t)threadIdx.x & ((1 << p.conv.group_bits) - 1)) * p.width;
    const int32_t w0 = at.cell[1] * columns.in_step + columns.low + across;
    const int32_t next = p.width << p.conv.group_bits;
    const T *const from =
        (const T *)p.conv.read + at.n * p.conv.read_stride[0] +
        ((int64_t)at.group * p.conv.read_per_group + first_channel) * p.conv.read_stride[1] +
        h0 * p.conv.read_stride[2] + w0 * p.conv.read_stride[3];
    const int64_t from_next = next * p.conv.read_stride[3];
    const int32_t channels = p.conv.read_per_group - first_channel;
    window += across;
#pragma unroll 2
    for (int32_t i = (int32_t)threadIdx.x >> p.conv.group_bits; i < p.lines;
         i += (int32_t)blockDim.x >> p.conv.group_bits) {
        const thin_line line = lines[i];
        const bool inside =
            (uint32_t)(h0 + line.row) < (uint32_t)rows.read && line.channel < channels;
        const int32_t limit = inside ? columns.read : 0;
        const T *line_from = from + line.from;
        T *to = window + line.to;
#pragma unroll 1
        for (int32_t w = w0, left = columns.span - across; left > 0; w += next, left -= next) {
            const bool take = (uint32_t)w < (uint32_t)limit;
            thin_copy(to, take ? line_from : (const T *)p.conv.read, p.width, take);
            line_from += from_next;
            to += next;
        }
    }
}

/* Depth element `deep` of a chunk: its channel and offsets. */
struct thin_deep {
    int32_t c, row, column;
};

static __device__ __forceinline__ thin_deep thin_deep_of(const uf_thin_conv &p, int32_t deep) {
    thin_deep made;
    int32_t rest;
    deep = deep < p.depth ? deep : 0;
    if (p.channels_first) {
        rest = deep / p.conv.chunk;
        made.c = deep - rest * p.conv.chunk;
        made.row = rest / p.offsets[1];
        made.column = rest - made.row * p.offsets[1];
    } else {
        rest = deep / p.offsets[1];
        made.column = deep - rest * p.offsets[1];
        made.c = rest / p.offsets[0];
        made.row = rest - made.c * p.offsets[0];
    }
    return made;
}

/* The part's weights by [slice][chunk][step][eight of columns][lane][2], big halves and then small
 * ones where there are such; zeros where a phase does not read. */
template <typename Tile>
static __device__ __forceinline__ void thin_load_weights(const uf_thin_conv &p, int32_t group,
                                                         int32_t part, const uint32_t *columns,
                                                         float *weights) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const T *const from = (const T *)conv.weight + group * conv.w_group;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t blocks =
        p.part_slices * conv.chunks * p.steps; /* of N eights of columns and 8 of the depth */
#pragma unroll 1
    for (int32_t block = (int32_t)threadIdx.x >> 5; block < blocks; block += p.warps) {
        int32_t rest = block / p.steps;
        const int32_t first = (block - rest * p.steps) * 8 + (lane & 3);
        const int32_t slice = rest / conv.chunks;
        const int32_t chunk = rest - slice * conv.chunks;
        const int32_t first_pair = (part * p.part_slices + slice) * p.slice_pairs;
        thin_deep deep[2];
        int32_t channel[2];
        const T *place[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            deep[i] = thin_deep_of(p, first + 4 * i);
            channel[i] =
                first + 4 * i < p.depth ? chunk * conv.chunk + deep[i].c : conv.read_per_group;
            place[i] = from + channel[i] * conv.w_read;
        }
        float *to = weights + (block * Tile::N * 32 + lane) * 2 * Tile::PARTS;
#pragma unroll 2
        for (int n = 0; n < Tile::N; ++n) {
            const uint32_t column = columns[n * 8 + (lane >> 2)];
            const int32_t pair = first_pair + (int32_t)(column >> 8);
            const bool there = column >> 8 < (uint32_t)p.slice_pairs && pair < p.pairs;
            const int32_t row_phase = there ? direct_divide(p.by_written, pair) : 0;
            const int64_t written = (pair - row_phase * conv.written_per_group) * conv.w_written;
            float value[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint8_t r = p.row_tap[row_phase][deep[i].row];
                const uint8_t s = p.column_tap[column & 255][deep[i].column];
                value[i] = 0.0f;
                if (there && channel[i] < conv.read_per_group && r != UF_THIN_NONE &&
                    s != UF_THIN_NONE) {
                    value[i] = direct_get(place[i] + written + r * conv.w_row + s * conv.w_column);
                }
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (Tile::PARTS == 1) {
                    to[i] = __uint_as_float(thin_round<Tile>(value[i]));
                } else {
                    uint32_t big, small;
                    mma_halves_by_bits(value[i], &big, &small);
                    to[i] = __uint_as_float(big);
                    to[2 + i] = __uint_as_float(small);
                }
            }
            to += 64 * Tile::PARTS;
        }
    }
}

#endif
