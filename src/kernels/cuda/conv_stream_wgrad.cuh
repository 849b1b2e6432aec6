/* conv_stream_wgrad.cuh - the kernel of conv_stream_wgrad.cu. */
#ifndef UF_KERNELS_CUDA_CONV_STREAM_WGRAD_CUH
#define UF_KERNELS_CUDA_CONV_STREAM_WGRAD_CUH

#include "kernels/cuda/conv_direct_wgrad_add.cuh"
#include "kernels/cuda/conv_stream_rows.cuh"
#include "kernels/cuda/conv_stream_wgrad_plan.h"
#include "kernels/cuda/mma_split.cuh"

/* S columns of the filter. A warp has all of a tile of w for some of the pixels: for each column of
 * the filter a fragment of 16 channels of x, for each row of it eight of y. */
template <typename Element, uf_math MATH_, int S_>
struct stream_wgrad_tile {
    typedef Element T;
    static constexpr uf_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MATH_FP32 ? 2 : 1, S = S_, LAGS = UF_STREAM_WGRAD_LAGS;
    static constexpr int DEPTH = MATH == UF_MATH_BF16 ? 16 : 8; /* pixels of a product */
};

struct stream_wgrad_args {
    direct_wgrad_plan sums; /* tensors and geometry; how the splits are added */
    uf_stream_wgrad_plan stream;
};

/* Rows of pixels from `row` to before `end`, from pixel `column` on. */
struct stream_wgrad_place {
    int32_t n, row, end, column;
};

static __device__ __forceinline__ stream_wgrad_place
stream_wgrad_place_of(const stream_wgrad_args &args) {
    const uf_stream_wgrad_plan &p = args.stream;
    stream_wgrad_place at;
    int32_t rest = (int32_t)blockIdx.y;
    at.column = rest % p.tiles_w * p.tile;
    rest /= p.tiles_w;
    at.row = rest % p.bands * p.band;
    at.end = min(at.row + p.band, args.sums.small[0]);
    at.n = rest / p.bands;
    return at;
}

/* Of a tile from pixel `column` on. */
static __device__ __forceinline__ stream_inside
stream_wgrad_inside_at(const stream_wgrad_args &args, int32_t column) {
    const direct_wgrad_plan &p = args.sums;
    return stream_inside_of(column * p.stride[1] - p.padding[1],
                            min(args.stream.tile, p.small[1] - column), p.stride[1],
                            args.stream.taps, p.dilation[1], p.large[1]);
}

/* The element of the tile's first channel that the first tap of its first pixel would meet in row
 * 0, inside or not. */
template <typename T>
static __device__ __forceinline__ const T *stream_wgrad_corner(const stream_wgrad_args &args,
                                                               const stream_wgrad_place &at,
                                                               const direct_tile &tile) {
    const direct_wgrad_plan &p = args.sums;
    return (const T *)p.x + at.n * p.x_stride[0] +
           ((int64_t)tile.group * p.c_per_group + tile.c) * p.x_stride[1] +
           (at.column * p.stride[1] - p.padding[1]);
}

#if UF_HAS_WGMMA

/* One warp: lanes 0 to 15 bring a channel's row of x each, the next eight one of y. */
template <typename Tile>
static __device__ __forceinline__ void
stream_wgrad_produce(const stream_wgrad_args &args, const stream_wgrad_place &at,
                     const direct_tile &tile, uint32_t xs, uint32_t ys, uint64_t *full,
                     uint64_t *empty) {
    typedef typename Tile::T T;
    const uf_stream_wgrad_plan &p = args.stream;
    const direct_wgrad_plan &sums = args.sums;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const bool of_x = lane < UF_STREAM_WGRAD_C;
    const int32_t k = lane - UF_STREAM_WGRAD_C;
    const stream_inside inside = stream_wgrad_inside_at(args, at.column);
    const int32_t pixels = min(p.tile, sums.small[1] - at.column);
    const bool there = of_x ? inside.end > inside.begin : k < tile.rows;
    const uint32_t length =
        (uint32_t)((of_x ? inside.end - inside.begin : pixels) * (int32_t)sizeof(T));
    const T *const first =
        of_x ? stream_wgrad_corner<T>(args, at, tile) + inside.begin + lane * sums.x_stride[1]
             : (const T *)sums.y + at.n * sums.y_stride[0] +
                   ((int64_t)tile.group * sums.k_per_group + tile.k + k) * sums.y_stride[1] +
                   at.column;
    const int64_t down = of_x ? sums.x_stride[2] : sums.y_stride[2];
    /* From the corner of the stage, whose first channel's is `shift` bytes late. */
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
        /* head = (shift + offset) mod 16 of the row, so what follows is aligned */
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

/* What has not come of a tile's rows of x, from pixel `column` on. */
template <typename Tile>
static __device__ __noinline__ void stream_wgrad_zero(const stream_wgrad_args &args, int32_t column,
                                                      uint32_t corner) {
    stream_zero_outside<(int)sizeof(typename Tile::T)>(stream_wgrad_inside_at(args, column), corner,
                                                       args.stream.pitch_x, UF_STREAM_WGRAD_C);
}

/* Steps of a row that meet columns before the image, the first so many; and behind it, from one on.
 */
struct stream_wgrad_edges {
    int16_t before, behind;
};

template <typename Tile>
static __device__ __forceinline__ stream_wgrad_edges
stream_wgrad_edges_of(const stream_wgrad_args &args, int32_t column, int32_t steps) {
    const direct_wgrad_plan &p = args.sums;
    const stream_inside inside = stream_wgrad_inside_at(args, column);
    const int32_t step = Tile::DEPTH * p.stride[1]; /* columns */
    /* The last column that the first step meets. */
    const int32_t first = step - p.stride[1] + (args.stream.taps - 1) * p.dilation[1];
    stream_wgrad_edges edges;
    edges.before = (int16_t)min((inside.begin + step - 1) / step, steps);
    edges.behind = (int16_t)min(max(inside.end - first + step - 1, 0) / step, steps);
    return edges;
}

/* A warp that begins a row with `step` meets such columns. */
static __device__ __forceinline__ bool stream_wgrad_meets(const stream_wgrad_edges &edges,
                                                          int32_t step, int32_t steps) {
    const int32_t last = step + (steps - 1 - step) / UF_STREAM_WGRAD_WARPS * UF_STREAM_WGRAD_WARPS;
    return step < steps && (step < edges.before || last >= edges.behind);
}

/* Two neighbours in the depth of an operand's row: of FP32 halves, of bf16 pairs of pixels. */
template <typename Tile>
static __device__ __forceinline__ void stream_wgrad_round(uint32_t word, uint32_t *big,
                                                          uint32_t *small) {
    if (Tile::MATH == UF_MATH_FP32) {
        mma_halves_by_bits(__uint_as_float(word), big, small);
    } else {
        *big = mma_round_by_bits(__uint_as_float(word));
    }
}

/* DEPTH pixels of a row of x and the rows of y that its taps meet. x: of this lane's first channel
 * and pixel; y: where a row of its channel begins, by row of the filter, and its pixel at `at`;
 * ODD: pairs of y begin in the middle of a word. */
template <typename Tile, bool ODD>
static __device__ __forceinline__ void
stream_wgrad_multiply(uint32_t x, const uint32_t (&y)[Tile::LAGS], uint32_t at,
                      uint32_t eight_channels, uint32_t pixel, uint32_t across,
                      float (&sum)[Tile::S][Tile::LAGS][4]) {
    constexpr int LAGS = Tile::LAGS;
    uint32_t by[LAGS][2], by_small[LAGS][2];
#pragma unroll
    for (int lag = 0; lag < LAGS; ++lag) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t from = y[lag] + (at + 16 * i);
            const uint32_t word =
                ODD ? __byte_perm(stream_word(from - 2), stream_word(from + 2), 0x5432)
                    : stream_word(from);
            if (Tile::MATH == UF_MATH_BF16) {
                by[lag][i] = word;
            } else {
                stream_wgrad_round<Tile>(word, &by[lag][i], &by_small[lag][i]);
            }
        }
    }
#pragma unroll
    for (int s = 0; s < Tile::S; ++s, x += across) {
        uint32_t big[4], small[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t from = x + (i & 1) * eight_channels;
            if (Tile::MATH == UF_MATH_BF16) {
                const uint32_t first = from + (i >> 1) * 8 * pixel;
                big[i] = __byte_perm(stream_half(first), stream_half(first + pixel), 0x5410);
            } else {
                stream_wgrad_round<Tile>(stream_word(from + (i >> 1) * 4 * pixel), &big[i],
                                         &small[i]);
            }
        }
        if (Tile::PARTS == 2) {
            /* The tensor core truncates what it adds to: each step is summed alone. */
            float part[LAGS][4] = {};
#pragma unroll
            for (int lag = 0; lag < LAGS; ++lag) {
                uf_mma_tf32(part[lag], small, by[lag]);
            }
#pragma unroll
            for (int lag = 0; lag < LAGS; ++lag) {
                uf_mma_tf32(part[lag], big, by_small[lag]);
            }
#pragma unroll
            for (int lag = 0; lag < LAGS; ++lag) {
                uf_mma_tf32(part[lag], big, by[lag]);
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
                if (Tile::MATH == UF_MATH_BF16) {
                    uf_mma_bf16(sum[s][lag], big, by[lag]);
                } else {
                    uf_mma_tf32(sum[s][lag], big, by[lag]);
                }
            }
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
stream_wgrad_consume(const stream_wgrad_args &args, const stream_wgrad_place &at,
                     const direct_tile &tile, uint32_t xs, uint32_t ys, uint64_t *full,
                     uint64_t *empty, float (&sum)[Tile::S][Tile::LAGS][4]) {
    typedef typename Tile::T T;
    constexpr int32_t BYTES = (int32_t)sizeof(T);
    constexpr int32_t TOGETHER = Tile::MATH == UF_MATH_BF16 ? 2 : 1; /* pixels of a word of y */
    const uf_stream_wgrad_plan &p = args.stream;
    const direct_wgrad_plan &sums = args.sums;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t steps = min(p.tile, sums.small[1] - at.column) / Tile::DEPTH;
    const stream_wgrad_edges edges = stream_wgrad_edges_of<Tile>(args, at.column, steps);
    const uint32_t corner = (uint32_t)(uintptr_t)stream_wgrad_corner<T>(args, at, tile);
    const uint32_t pixel = (uint32_t)(sums.stride[1] * BYTES);
    const uint32_t my_x =
        (uint32_t)((lane >> 2) * p.pitch_x) + (uint32_t)((lane & 3) * TOGETHER) * pixel;
    /* Of this lane's channel and pixel. */
    const uint32_t first_y = ys + ((uint32_t)(uintptr_t)sums.y & 15u) +
                             (uint32_t)((lane >> 2) * p.pitch_y + (lane & 3) * TOGETHER * BYTES);
    const bool odd = (first_y & 2u) != 0;
    const uint32_t none = first_y + (uint32_t)((p.rows_y - 1) * p.y_bytes); /* zeros */
    uint32_t rows[Tile::LAGS]; /* of y that this row of x meets */
#pragma unroll
    for (int lag = 0; lag < Tile::LAGS; ++lag) {
        rows[lag] = none;
    }
    uf_ring x_at = {0, 0};
    uint32_t next_y = first_y;
    /* Warps take steps in turn, on from row to row. */
    int32_t step = (int32_t)threadIdx.x >> 5;
#pragma unroll 1
    for (int32_t row = at.row; row < at.end + Tile::LAGS - 1; ++row) {
        const int32_t h = row * sums.stride[0] - sums.padding[0];
#pragma unroll
        for (int lag = Tile::LAGS - 1; lag > 0; --lag) {
            rows[lag] = rows[lag - 1];
        }
        rows[0] = row < at.end ? next_y : none;
        next_y += (uint32_t)p.y_bytes;
        next_y = next_y == none ? first_y : next_y;
        uf_barrier_wait(full + x_at.index, x_at.parity);
        if ((uint32_t)h < (uint32_t)sums.large[0]) {
            const uint32_t place = corner + (uint32_t)h * (uint32_t)sums.x_stride[2] * BYTES;
            uint32_t stage = xs + (uint32_t)(x_at.index * p.x_bytes) + (place & 15u);
            if (stream_wgrad_meets(edges, step, steps)) {
                stream_wgrad_zero<Tile>(args, at.column, stage);
            }
            stage += my_x;
#pragma unroll 1
            for (; step < steps; step += UF_STREAM_WGRAD_WARPS) {
                const uint32_t x = stage + (uint32_t)(step * Tile::DEPTH) * pixel;
                const uint32_t here = (uint32_t)(step * Tile::DEPTH * BYTES);
                const uint32_t eight = (uint32_t)(8 * p.pitch_x);
                const uint32_t across = (uint32_t)(sums.dilation[1] * BYTES);
                if (BYTES == 2 && odd) {
                    stream_wgrad_multiply<Tile, BYTES == 2>(x, rows, here, eight, pixel, across,
                                                            sum);
                } else {
                    stream_wgrad_multiply<Tile, false>(x, rows, here, eight, pixel, across, sum);
                }
            }
            step -= steps;
        }
        uf_barrier_release(empty + x_at.index, lane == 0);
        x_at.next(p.stages);
    }
}

#endif

/* blockIdx.x: tile; blockIdx.y: split. */
template <typename Tile>
static __global__ void __launch_bounds__((UF_STREAM_WGRAD_WARPS + 1) * 32, 2)
    conv_stream_wgrad(const __grid_constant__ stream_wgrad_args args) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char stream_wgrad_shared[];
    const uf_stream_wgrad_plan &p = args.stream;
    uint64_t *const full = (uint64_t *)stream_wgrad_shared;
    uint64_t *const empty = full + UF_STREAM_WGRAD_STAGES;
    unsigned char *const rows_x = stream_wgrad_shared + UF_STREAM_WGRAD_HEAD;
    unsigned char *const rows_y = rows_x + p.stages * p.x_bytes;
    const stream_wgrad_place at = stream_wgrad_place_of(args);
    const direct_tile tile = direct_tile_of(args.sums, (int32_t)blockIdx.x);
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int32_t i = 0; i < p.stages; ++i) {
            uf_barrier_init(full + i, 1);
            uf_barrier_init(empty + i, UF_STREAM_WGRAD_WARPS);
        }
        uf_barrier_init_fence();
    }
    /* Rows of y that none meets, and channels beyond the last. */
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.rows_y * p.y_bytes / 16;
         i += (int32_t)blockDim.x) {
        ((uint4 *)rows_y)[i] = make_uint4(0u, 0u, 0u, 0u);
    }
    uf_fence_async_shared();
    __syncthreads();
    if (threadIdx.x >= 32 * UF_STREAM_WGRAD_WARPS) {
        stream_wgrad_produce<Tile>(args, at, tile, uf_shared_address(rows_x),
                                   uf_shared_address(rows_y), full, empty);
        return;
    }
    constexpr int SUMS = Tile::S * Tile::LAGS * 4;
    float sum[Tile::S][Tile::LAGS][4] = {};
    stream_wgrad_consume<Tile>(args, at, tile, uf_shared_address(rows_x), uf_shared_address(rows_y),
                               full, empty, sum);

    /* Every warp has read all rows; then each one's sums, added in order, leave by rows of w. */
    float *const sums = (float *)rows_x;
    uf_named_barrier(1, 32 * UF_STREAM_WGRAD_WARPS);
    float *const mine =
        sums + ((int32_t)threadIdx.x >> 5) * (SUMS * 32) + ((int32_t)threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        mine[i * 32] = sum[i / (Tile::LAGS * 4)][i / 4 % Tile::LAGS][i & 3];
    }
    uf_named_barrier(1, 32 * UF_STREAM_WGRAD_WARPS);
    constexpr int TAPS = Tile::LAGS * Tile::S, COLUMNS = UF_STREAM_WGRAD_C * TAPS;
    float *const to =
        args.sums.partial + ((int64_t)blockIdx.y * args.sums.tiles + blockIdx.x) * args.sums.size;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < UF_STREAM_WGRAD_K * COLUMNS;
         i += 32 * UF_STREAM_WGRAD_WARPS) {
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
        for (int warp = 0; warp < UF_STREAM_WGRAD_WARPS; ++warp) {
            all += from[warp * (SUMS * 32)];
        }
        to[i] = all;
    }
#endif
}

#endif
