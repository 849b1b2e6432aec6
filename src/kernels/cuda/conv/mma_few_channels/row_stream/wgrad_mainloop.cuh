/* wgrad_mainloop.cuh - the kernel of row_stream/wgrad_launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_direct/wgrad_reduce.cuh"
#include "kernels/cuda/conv/mma_few_channels/row_stream/rows.cuh"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/arch/sm80_mma_split.cuh"

/* S columns of the filter. A warp has all of a tile of w for some of the pixels: a fragment of 16
 * channels of x for each column of the filter, and one of 8 channels of y for each row. */
template <typename Element, uf_mma_math MATH_, int S_>
struct row_stream_wgrad_tile {
    typedef Element T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MMA_TF32X3 ? 2 : 1, S = S_,
                         LAGS = UF_ROW_STREAM_WGRAD_LAGS;
    static constexpr int DEPTH = MATH == UF_MMA_BF16 ? 16 : 8;   /* pixels of an MMA */
    static constexpr int TOGETHER = MATH == UF_MMA_BF16 ? 2 : 1; /* pixels of a word of y */
};

struct row_stream_wgrad_args {
    direct_wgrad_plan sums; /* tensors and geometry; the reduction of the splits */
    uf_row_stream_wgrad_plan stream;
};

/* Rows of pixels, `row` to end - 1, from pixel `column`, in `steps` steps of DEPTH pixels. Steps
 * before `before` and from `behind` on read columns outside the image. */
struct row_stream_wgrad_coord {
    int32_t n, row, end, column, steps, before, behind;
    uint32_t corner; /* low 32 bits of row_stream_wgrad_corner */
    row_stream_inside inside;
};

static_assert(2 * UF_ROW_STREAM_WGRAD_STAGES * sizeof(uint64_t) + sizeof(row_stream_wgrad_coord) <=
                  UF_ROW_STREAM_WGRAD_HEAD,
              "barriers and what a block makes are before the rows");

/* Columns inside the image for the tile that begins at pixel `column`. */
static __device__ __forceinline__ row_stream_inside
row_stream_wgrad_inside_at(const row_stream_wgrad_args &args, int32_t column) {
    const direct_wgrad_plan &p = args.sums;
    return row_stream_inside_of(column * p.stride[1] - p.padding[1],
                                min(args.stream.tile, p.small[1] - column), p.stride[1],
                                args.stream.taps, p.dilation[1], p.large[1]);
}

template <typename Tile>
static __device__ __forceinline__ row_stream_wgrad_coord
row_stream_wgrad_coord_of(const row_stream_wgrad_args &args) {
    const uf_row_stream_wgrad_plan &p = args.stream;
    const direct_wgrad_plan &sums = args.sums;
    row_stream_wgrad_coord at;
    int32_t rest = (int32_t)blockIdx.y;
    at.column = rest % p.tiles_w * p.tile;
    rest /= p.tiles_w;
    at.row = rest % p.bands * p.band;
    at.end = min(at.row + p.band, sums.small[0]);
    at.n = rest / p.bands;
    at.steps = min(p.tile, sums.small[1] - at.column) / Tile::DEPTH;
    at.inside = row_stream_wgrad_inside_at(args, at.column);
    const int32_t step = Tile::DEPTH * sums.stride[1]; /* columns of x of a step */
    /* the last column that the first step reads */
    const int32_t first = step - sums.stride[1] + (p.taps - 1) * sums.dilation[1];
    at.before = min((at.inside.begin + step - 1) / step, at.steps);
    at.behind = min(max(at.inside.end - first + step - 1, 0) / step, at.steps);
    return at;
}

/* The element of the tile's first channel in row 0 that the first tap of its first pixel reads,
 * inside the image or not. */
template <typename T>
static __device__ __forceinline__ const T *
row_stream_wgrad_corner(const row_stream_wgrad_args &args, const row_stream_wgrad_coord &at,
                        const direct_wgrad_tile &tile) {
    const direct_wgrad_plan &p = args.sums;
    return (const T *)p.x + at.n * p.x_stride[0] +
           ((int64_t)tile.group * p.c_per_group + tile.c) * p.x_stride[1] +
           (at.column * p.stride[1] - p.padding[1]);
}

#if UF_HAS_WGMMA

/* The producer warp: lanes 0 to 15 load a row of x each, the next eight a row of y. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_wgrad_produce(const row_stream_wgrad_args &args, const row_stream_wgrad_coord &at,
                         const direct_wgrad_tile &tile, uint32_t xs, uint32_t ys, uint64_t *full,
                         uint64_t *empty) {
    typedef typename Tile::T T;
    const uf_row_stream_wgrad_plan &p = args.stream;
    const direct_wgrad_plan &sums = args.sums;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const bool of_x = lane < UF_ROW_STREAM_WGRAD_C;
    const int32_t k = lane - UF_ROW_STREAM_WGRAD_C;
    const row_stream_inside &inside = at.inside;
    const int32_t pixels = min(p.tile, sums.small[1] - at.column);
    const bool there = of_x ? inside.end > inside.begin : k < tile.rows;
    const uint32_t length =
        (uint32_t)((of_x ? inside.end - inside.begin : pixels) * (int32_t)sizeof(T));
    const T *const first =
        of_x ? row_stream_wgrad_corner<T>(args, at, tile) + inside.begin + lane * sums.x_stride[1]
             : (const T *)sums.y + at.n * sums.y_stride[0] +
                   ((int64_t)tile.group * sums.k_per_group + tile.k + k) * sums.y_stride[1] +
                   at.column;
    const int64_t down = of_x ? sums.x_stride[2] : sums.y_stride[2];
    /* Offset from the stage's corner; the first channel's corner is `shift` bytes after the stage's
     * begin. */
    const int32_t offset =
        of_x ? lane * p.pitch_x + inside.begin * (int32_t)sizeof(T) : k * p.pitch_y;
    uf_ring x_at = {0, 0}, y_at = {0, 0};
#pragma unroll 1
    for (int32_t row = at.row; row < at.end + Tile::LAGS - 1; ++row) {
        const int32_t h = row * sums.stride[0] - sums.padding[0];
        const bool take = there && (of_x ? (uint32_t)h < (uint32_t)sums.large[0] : row < at.end);
        const T *const from = first + (of_x ? h : row) * down;
        const uint32_t head = (uint32_t)(uintptr_t)from & 15u;
        const uint32_t bytes = take ? (head + length + 15u) & ~15u : 0u;
        const uint32_t sum = __reduce_add_sync(0xffffffffu, bytes);
        /* head = (shift + offset) mod 16, so the destination is aligned */
        const uint32_t shift = (head - (uint32_t)offset) & 15u;
        uint64_t *const barrier = full + x_at.index;
        uf_barrier_wait(empty + x_at.index, x_at.parity ^ 1);
        if (lane == 0) {
            uf_barrier_expect(barrier, sum);
        }
        __syncwarp();
        if (take) {
            uf_copy_bulk((of_x ? xs + x_at.index * p.x_bytes : ys + y_at.index * p.y_bytes) +
                             shift + offset - head,
                         (const char *)from - head, bytes, barrier);
        }
        x_at.next(p.stages);
        y_at.next(p.rows_y - 1);
    }
}

/* Converts a word of an operand: splits it in FP32, rounds it in TF32. */
template <typename Tile>
static __device__ __forceinline__ void row_stream_wgrad_round(uint32_t word, uint32_t *big,
                                                              uint32_t *small) {
    if (Tile::MATH == UF_MMA_TF32X3) {
        mma_split_tf32_by_bits(__uint_as_float(word), big, small);
    } else {
        *big = mma_round_by_bits(__uint_as_float(word));
    }
}

/* Reads threadIdx.x again, so that no register keeps it. */
static __device__ __forceinline__ int32_t row_stream_wgrad_thread() {
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* Bytes from a channel's corner to a lane's first pixel of a step. */
template <typename Tile>
static __device__ __forceinline__ uint32_t
row_stream_wgrad_first(const row_stream_wgrad_args &args) {
    return (threadIdx.x & 3) * Tile::TOGETHER * (uint32_t)args.sums.stride[1] *
           (uint32_t)sizeof(typename Tile::T);
}

/* Multiplies DEPTH pixels of a row of x with the rows of y that its taps meet. x: address of this
 * lane's first channel and pixel. y: begins of rows of its channel, by row of the filter; `at`: its
 * pixel in them. ODD: pairs of y begin in the middle of a word. EDGE: only the part `valid` of this
 * lane's first channel is inside the image. */
template <typename Tile, bool ODD, bool EDGE>
static __device__ __forceinline__ void
row_stream_wgrad_multiply(uint32_t x, const row_stream_valid &valid,
                          const uint32_t (&y)[Tile::LAGS], uint32_t at, uint32_t eight_channels,
                          uint32_t pixel, uint32_t across, float (&sum)[Tile::S][Tile::LAGS][4]) {
    constexpr int LAGS = Tile::LAGS;
    uint32_t by[LAGS][2], by_small[LAGS][2];
#pragma unroll
    for (int lag = 0; lag < LAGS; ++lag) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t from = y[lag] + (at + 16 * i);
            const uint32_t word =
                ODD ? __byte_perm(row_stream_word(from - 2), row_stream_word(from + 2), 0x5432)
                    : row_stream_word(from);
            if (Tile::MATH == UF_MMA_BF16) {
                by[lag][i] = word;
            } else {
                row_stream_wgrad_round<Tile>(word, &by[lag][i], &by_small[lag][i]);
            }
        }
    }
#pragma unroll
    for (int s = 0; s < Tile::S; ++s, x += across) {
        uint32_t big[4], small[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t on = (i & 1) * eight_channels;
            if (Tile::MATH == UF_MMA_BF16) {
                uint32_t half[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const uint32_t from = x + ((i >> 1) * 8 + j) * pixel;
                    half[j] = !EDGE || valid.holds(from) ? row_stream_half(from + on) : 0;
                }
                big[i] = __byte_perm(half[0], half[1], 0x5410);
            } else {
                const uint32_t from = x + (i >> 1) * 4 * pixel;
                row_stream_wgrad_round<Tile>(!EDGE || valid.holds(from) ? row_stream_word(from + on)
                                                                        : 0,
                                             &big[i], &small[i]);
            }
        }
        if (Tile::PARTS == 2) {
            /* The tensor core truncates what it adds to: each step is summed alone. */
            float part[LAGS][4] = {};
#pragma unroll
            for (int turn = 0; turn < 3; ++turn) {
#pragma unroll
                for (int lag = 0; lag < LAGS; ++lag) {
                    uf_mma_tf32(part[lag], turn == 0 ? small : big,
                                turn == 1 ? by_small[lag] : by[lag]);
                }
            }
#pragma unroll
            for (int lag = 0; lag < LAGS; ++lag) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum[s][lag][i] += part[lag][i];
                }
            }
        } else {
#pragma unroll
            for (int lag = 0; lag < LAGS; ++lag) {
                if (Tile::MATH == UF_MMA_BF16) {
                    uf_mma_bf16(sum[s][lag], big, by[lag]);
                } else {
                    uf_mma_tf32(sum[s][lag], big, by[lag]);
                }
            }
        }
    }
}

template <typename Tile, bool ODD, bool EDGE>
static __device__ __forceinline__ void
row_stream_wgrad_step(const row_stream_wgrad_args &args, const row_stream_valid &valid,
                      int32_t step, uint32_t stage, const uint32_t (&rows)[Tile::LAGS],
                      float (&sum)[Tile::S][Tile::LAGS][4]) {
    constexpr int32_t BYTES = (int32_t)sizeof(typename Tile::T);
    const uint32_t pixel = (uint32_t)(args.sums.stride[1] * BYTES);
    row_stream_wgrad_multiply<Tile, ODD, EDGE>(stage + (uint32_t)(step * Tile::DEPTH) * pixel,
                                               valid, rows, (uint32_t)(step * Tile::DEPTH * BYTES),
                                               (uint32_t)(8 * args.stream.pitch_x), pixel,
                                               (uint32_t)(args.sums.dilation[1] * BYTES), sum);
}

/* Runs this warp's steps of a row from `step`, and advances `step` to its first of the next row.
 * The steps inside the image come first, then, backwards, the others. In one loop the compiler
 * would spill the sums. */
template <typename Tile, bool ODD>
static __device__ __forceinline__ void
row_stream_wgrad_row(const row_stream_wgrad_args &args, const row_stream_wgrad_coord &at,
                     int32_t &step, uint32_t stage, const uint32_t (&rows)[Tile::LAGS],
                     float (&sum)[Tile::S][Tile::LAGS][4]) {
    const row_stream_valid all = {};
    const int32_t before = at.before, behind = at.behind;
    while (step < before) {
        step += UF_ROW_STREAM_WGRAD_WARPS;
    }
#pragma unroll 1
    for (; step < behind; step += UF_ROW_STREAM_WGRAD_WARPS) {
        row_stream_wgrad_step<Tile, ODD, false>(args, all, step, stage, rows, sum);
    }
    const int32_t steps = at.steps;
    while (step < steps) {
        step += UF_ROW_STREAM_WGRAD_WARPS;
    }
    const row_stream_valid valid = row_stream_valid_of(
        at.inside, stage - row_stream_wgrad_first<Tile>(args), (int32_t)sizeof(typename Tile::T));
#pragma unroll 1
    for (int32_t back = step - UF_ROW_STREAM_WGRAD_WARPS; back >= 0;
         back -= UF_ROW_STREAM_WGRAD_WARPS) {
        if (back < at.before || back >= at.behind) {
            row_stream_wgrad_step<Tile, ODD, true>(args, valid, back, stage, rows, sum);
        }
    }
    step -= steps;
}

template <typename Tile>
static __device__ __forceinline__ void
row_stream_wgrad_consume(const row_stream_wgrad_args &args, const row_stream_wgrad_coord &at,
                         const direct_wgrad_tile &tile, uint32_t xs, uint32_t ys, uint64_t *full,
                         uint64_t *empty, float (&sum)[Tile::S][Tile::LAGS][4]) {
    typedef typename Tile::T T;
    constexpr int32_t BYTES = (int32_t)sizeof(T);
    const uf_row_stream_wgrad_plan &p = args.stream;
    const direct_wgrad_plan &sums = args.sums;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const uint32_t my_x = (uint32_t)((lane >> 2) * p.pitch_x) + row_stream_wgrad_first<Tile>(args);
    /* address of this lane's channel and pixel */
    const uint32_t first_y =
        ys + ((uint32_t)(uintptr_t)sums.y & 15u) +
        (uint32_t)((lane >> 2) * p.pitch_y + (lane & 3) * Tile::TOGETHER * BYTES);
    const bool odd = (first_y & 2u) != 0;
    uint32_t rows[Tile::LAGS]; /* rows of y that this row of x meets */
#pragma unroll
    for (int lag = 0; lag < Tile::LAGS; ++lag) {
        rows[lag] = first_y + p.zeros_at;
    }
    uf_ring x_at = {0, 0};
    uint32_t next_y = 0; /* bytes from the first row of y */
    /* Warps take steps in turn, from row to row. */
    int32_t step = (int32_t)threadIdx.x >> 5;
#pragma unroll 1
    for (int32_t row = at.row; row < at.end + Tile::LAGS - 1; ++row) {
        const int32_t h = row * sums.stride[0] - sums.padding[0];
#pragma unroll
        for (int lag = Tile::LAGS - 1; lag > 0; --lag) {
            rows[lag] = rows[lag - 1];
        }
        rows[0] = first_y + (row < at.end ? next_y : p.zeros_at);
        next_y += (uint32_t)p.y_bytes;
        next_y = next_y == p.zeros_at ? 0 : next_y;
        uf_barrier_wait(full + x_at.index, x_at.parity);
        if ((uint32_t)h < (uint32_t)sums.large[0]) {
            const uint32_t coord = at.corner + (uint32_t)h * (uint32_t)sums.x_stride[2] * BYTES;
            const uint32_t stage = xs + (uint32_t)(x_at.index * p.x_bytes) + (coord & 15u) + my_x;
            if (BYTES == 2 && odd) {
                row_stream_wgrad_row<Tile, BYTES == 2>(args, at, step, stage, rows, sum);
            } else {
                row_stream_wgrad_row<Tile, false>(args, at, step, stage, rows, sum);
            }
        }
        uf_barrier_release(empty + x_at.index, (row_stream_wgrad_thread() & 31) == 0);
        x_at.next(p.stages);
    }
}

#endif

/* blockIdx.x: tile; blockIdx.y: split of the pixels. */
template <typename Tile>
static __global__ void __launch_bounds__((UF_ROW_STREAM_WGRAD_WARPS + 1) * 32, 2)
    conv_row_stream_wgrad(const __grid_constant__ row_stream_wgrad_args args) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char row_stream_wgrad_shared[];
    const uf_row_stream_wgrad_plan &p = args.stream;
    uint64_t *const full = (uint64_t *)row_stream_wgrad_shared;
    uint64_t *const empty = full + UF_ROW_STREAM_WGRAD_STAGES;
    unsigned char *const rows_x = row_stream_wgrad_shared + UF_ROW_STREAM_WGRAD_HEAD;
    unsigned char *const rows_y = rows_x + p.stages * p.x_bytes;
    /* In shared memory, because registers are few. */
    row_stream_wgrad_coord &at = *(row_stream_wgrad_coord *)(empty + UF_ROW_STREAM_WGRAD_STAGES);
    const direct_wgrad_tile tile = direct_wgrad_tile_of(&args.sums, (int32_t)blockIdx.x);
    if (threadIdx.x == 0) {
        at = row_stream_wgrad_coord_of<Tile>(args);
        at.corner = (uint32_t)(uintptr_t)row_stream_wgrad_corner<typename Tile::T>(args, at, tile);
#pragma unroll 1
        for (int32_t i = 0; i < p.stages; ++i) {
            uf_barrier_init(full + i, 1);
            uf_barrier_init(empty + i, UF_ROW_STREAM_WGRAD_WARPS);
        }
        uf_barrier_init_fence();
    }
    /* Zeros the row that stands for absent rows of y, and channels beyond the last. */
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.rows_y * p.y_bytes / 16;
         i += (int32_t)blockDim.x) {
        ((uint4 *)rows_y)[i] = make_uint4(0u, 0u, 0u, 0u);
    }
    uf_fence_async_shared();
    __syncthreads();
    uf_overlap_launches();
    if (threadIdx.x >= 32 * UF_ROW_STREAM_WGRAD_WARPS) {
        row_stream_wgrad_produce<Tile>(args, at, tile, uf_shared_address(rows_x),
                                       uf_shared_address(rows_y), full, empty);
        return;
    }
    constexpr int SUMS = Tile::S * Tile::LAGS * 4;
    float sum[Tile::S][Tile::LAGS][4] = {};
    row_stream_wgrad_consume<Tile>(args, at, tile, uf_shared_address(rows_x),
                                   uf_shared_address(rows_y), full, empty, sum);

    /* Once every warp has read all rows, stages each warp's sums and adds them in order, by rows of
     * w. */
    float *const sums = (float *)rows_x;
    uf_named_barrier(1, 32 * UF_ROW_STREAM_WGRAD_WARPS);
    const int32_t thread = row_stream_wgrad_thread();
    float *const mine = sums + (thread >> 5) * (SUMS * 32) + (thread & 31);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        mine[i * 32] = sum[i / (Tile::LAGS * 4)][i / 4 % Tile::LAGS][i & 3];
    }
    uf_named_barrier(1, 32 * UF_ROW_STREAM_WGRAD_WARPS);
    constexpr int TAPS = Tile::LAGS * Tile::S, COLUMNS = UF_ROW_STREAM_WGRAD_C * TAPS;
    float *const to =
        args.sums.partial + ((int64_t)blockIdx.y * args.sums.tiles + blockIdx.x) * args.sums.size;
#pragma unroll 1
    for (int32_t i = thread; i < UF_ROW_STREAM_WGRAD_K * COLUMNS;
         i += 32 * UF_ROW_STREAM_WGRAD_WARPS) {
        const int32_t k = i / COLUMNS;
        const int32_t c = (i - k * COLUMNS) / TAPS;
        const int32_t tap = i % TAPS;
        const int32_t lag = tap / Tile::S;
        const int32_t lane = (c & 7) * 4 + k / 2;
        const float *from =
            sums + (((tap - lag * Tile::S) * Tile::LAGS + lag) * 4 + (c >> 3) * 2 + (k & 1)) * 32 +
            lane;
        float all = 0.0f;
#pragma unroll
        for (int warp = 0; warp < UF_ROW_STREAM_WGRAD_WARPS; ++warp) {
            all += from[warp * (SUMS * 32)];
        }
        to[i] = all;
    }
#endif
}

#endif
