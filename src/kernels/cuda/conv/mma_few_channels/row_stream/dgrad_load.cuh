/* dgrad_load.cuh - a block's run of rows, its weights, and the ring of lines that it reads. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_LOAD_CUH

#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

template <typename Element, uf_mma_math MATH_, int L_>
struct row_stream_dgrad_tile {
    typedef Element T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int L = L_;                            /* live phases across */
    static constexpr int N = UF_ROW_STREAM_DGRAD_CELLS / 8; /* 8-cell blocks */
    static constexpr int CELLS = 8 * N;
    static constexpr int PARTS = MATH == UF_MMA_TF32X3 ? 2 : 1;
    static constexpr int UNIT = MATH == UF_MMA_BF16 ? 8 : 4;
};

/* A run: cells below each other in one slice of channels of a group, as many as a block has. */
struct row_stream_run {
    int32_t n, group, first,
        channels;        /* image; group; first written channel within the group, and channels */
    int32_t cell, cells; /* first cell; cells */
    int32_t base;        /* row of phase 0 of the first cell, maybe outside */
    int32_t begin, end;  /* rows that the run writes: begin to end - 1 */
};

static __device__ __forceinline__ row_stream_run
row_stream_run_of(const uf_row_stream_dgrad_conv &p, int32_t at, int32_t until) {
    const uf_direct_axis &rows = p.conv.axis[0];
    row_stream_run run;
    const int32_t family = at / rows.cells;
    run.cell = at - family * rows.cells;
    run.cells = min(rows.cells - run.cell, until - at);
    run.cell += rows.cell_first;
    int32_t rest = family / p.slices;
    run.first = (family - rest * p.slices) * UF_ROW_STREAM_DGRAD_CHANNELS;
    run.channels = min(p.conv.written_per_group - run.first, (int32_t)UF_ROW_STREAM_DGRAD_CHANNELS);
    run.n = rest / p.conv.groups;
    run.group = rest - run.n * p.conv.groups;
    run.base = rows.out_step * run.cell - rows.out_shift;
    run.begin = max(run.base, 0);
    run.end = min(run.base + rows.out_step * run.cells, rows.written);
    return run;
}

#if UF_HAS_WGMMA

/* The row h of a written channel of the run. */
template <typename T>
static __device__ __forceinline__ T *
row_stream_row(const uf_direct_conv &conv, const row_stream_run &run, int32_t channel, int32_t h) {
    return (T *)conv.written + run.n * conv.written_stride[0] +
           (run.group * conv.written_per_group + run.first + channel) * conv.written_stride[1] +
           h * (int64_t)conv.written_stride[2];
}

/* Loads weights as fragments: rows are written channels, K is a step's two units. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_load_weights(const uf_row_stream_dgrad_conv &p, const row_stream_run &run,
                        const uint8_t *fragments, uint32_t *weights) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
    const uf_direct_conv &conv = p.conv;
    const int32_t words = p.fragment_begin[conv.axis[0].live] * 128;
    const T *const from = (const T *)conv.weight + run.group * conv.w_group;
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x; i < words; i += (int32_t)blockDim.x) {
        const int32_t fragment = i >> 7, lane = i >> 2 & 31;
        const uf_row_stream_dgrad_step &step = p.step[fragments[2 * fragment]];
        const int32_t phase = fragments[2 * fragment + 1];
        const int32_t half = i >> 1 & 1;
        const int32_t channel = (lane >> 2) + (i & 1) * 8;
        const int32_t column = step.column[half];
        const int32_t tap = column == UF_ROW_STREAM_DGRAD_NONE ? UF_ROW_STREAM_DGRAD_NONE
                                                               : p.column_tap[phase][column];
        const T *const mine = from + (run.first + channel) * conv.w_written +
                              step.row_tap * conv.w_row + tap * conv.w_column;
        float value[2] = {};
#pragma unroll
        for (int j = 0; j < PER_WORD; ++j) {
            const int32_t read = step.unit[half] * Tile::UNIT + (lane & 3) * PER_WORD + j;
            if (tap != UF_ROW_STREAM_DGRAD_NONE && channel < run.channels &&
                read < conv.read_per_group) {
                value[j] = direct_get(mine + read * conv.w_read);
            }
        }
        uint32_t *const to = weights + fragment * (128 * Tile::PARTS) + (i & 127);
        if (Tile::MATH == UF_MMA_TF32X3) {
            mma_split_tf32(value[0], to, to + 128 * (Tile::PARTS - 1));
        } else if (Tile::MATH == UF_MMA_TF32) {
            *to = uf_round_tf32(value[0]);
        } else {
            *to = uf_pack_bf16(value[0], value[1]);
        }
    }
}

/* V neighbours of a line, one load. */
template <typename T, int V>
struct row_stream_dgrad_vector {
    typedef T type;
};

template <>
struct row_stream_dgrad_vector<float, 4> {
    typedef float4 type;
};

template <>
struct row_stream_dgrad_vector<uf_bf16, 4> {
    typedef uint2 type;
};

static __device__ __forceinline__ float row_stream_element(const float4 &four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

static __device__ __forceinline__ float row_stream_element(const uint2 &four, int i) {
    const uint32_t two = i < 2 ? four.x : four.y;
    return __uint_as_float((i & 1) == 0 ? two << 16 : two & 0xffff0000u);
}

static __device__ __forceinline__ float row_stream_element(float one, int) {
    return one;
}

static __device__ __forceinline__ float row_stream_element(uf_bf16 one, int) {
    return (float)one;
}

/* Loads the lines of the run into the ring as 16-byte records of channels. A producer has every
 * `producers`-th line. It issues the loads before the ring has room, because the stores delay them.
 * Records outside the image stay zero from the beginning. */
template <typename Tile, int V>
static __device__ __forceinline__ void
row_stream_load(const uf_row_stream_dgrad_conv &p, const row_stream_run &run, int32_t warp,
                int32_t &turn, uf_ring &ring, uint64_t *full, uint64_t *empty, char *lines) {
    typedef typename Tile::T T;
    typedef typename row_stream_dgrad_vector<T, V>::type Vector;
    /* Units in flight: 64 registers of loads. */
    constexpr int BATCH = V == 1 ? 4 : 64 * 4 / (Tile::UNIT * V * (int)sizeof(T));
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t per = (int32_t)p.by_chunks.divisor, chunks = per * p.units;
    const int32_t first = columns.cell_first + columns.low;
    const int64_t spacing = conv.read_stride[1];
    const T *const image = (const T *)conv.read + run.n * conv.read_stride[0] +
                           (int64_t)run.group * conv.read_per_group * spacing;
#pragma unroll 1
    for (int32_t line = 0; line < run.cells + p.lines - 1; ++line) {
        if (turn == warp) {
            const int32_t h = run.cell + rows.low + line;
            const bool inside = (uint32_t)h < (uint32_t)rows.read;
            const T *const row = image + h * conv.read_stride[2];
            char *const to = lines + ring.index * p.line_bytes;
            bool waited = false;
#pragma unroll 1
            for (int32_t base = 0; base < chunks; base += BATCH) {
                Vector value[BATCH][Tile::UNIT];
#pragma unroll
                for (int b = 0; b < BATCH; ++b) {
                    const int32_t unit = direct_divide(p.by_chunks, base + b);
                    const int32_t w = ((base + b - unit * per) * 32 + lane) * V;
                    const bool there = inside && base + b < chunks && w < columns.read;
                    const int32_t left = there ? conv.read_per_group - unit * Tile::UNIT : 0;
                    const T *from = row + (unit * Tile::UNIT * spacing + w * conv.read_stride[3]);
#pragma unroll
                    for (int j = 0; j < Tile::UNIT; ++j) {
                        value[b][j] = Vector();
                        if (j < left) {
                            value[b][j] = __ldg((const Vector *)from);
                        }
                        from += spacing;
                    }
                }
                if (!waited) {
                    uf_barrier_wait(empty + ring.index, ring.parity ^ 1);
                    waited = true;
                }
#pragma unroll
                for (int b = 0; b < BATCH; ++b) {
                    const int32_t unit = direct_divide(p.by_chunks, base + b);
                    const int32_t w = ((base + b - unit * per) * 32 + lane) * V;
                    char *const at = to + unit * p.plane + (w - first) * 16;
                    const bool there = base + b < chunks && w < columns.read;
#pragma unroll
                    for (int k = 0; k < V; ++k) {
                        if (there && (uint32_t)(w - first + k) < (uint32_t)p.records) {
                            float element[Tile::UNIT];
#pragma unroll
                            for (int j = 0; j < Tile::UNIT; ++j) {
                                element[j] = row_stream_element(value[b][j], k);
                            }
                            uint4 big, small;
                            mma_words<Tile::MATH>(element, &big, &small);
                            *(uint4 *)(at + 16 * k) = big;
                            if (Tile::PARTS == 2) {
                                *(uint4 *)(at + 16 * k + p.small) = small;
                            }
                        }
                    }
                }
            }
            uf_barrier_arrive(full + ring.index);
        }
        turn = turn + 1 == p.producers ? 0 : turn + 1;
        ring.next(p.ring);
    }
}

#endif

#endif
