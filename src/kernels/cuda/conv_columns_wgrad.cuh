/* conv_columns_wgrad.cuh - the kernel of conv_columns_wgrad.cu. */
#ifndef UF_KERNELS_CUDA_CONV_COLUMNS_WGRAD_CUH
#define UF_KERNELS_CUDA_CONV_COLUMNS_WGRAD_CUH

#include "kernels/cuda/conv_columns.cuh"
#include "kernels/cuda/conv_direct_wgrad_add.cuh"

struct columns_wgrad_args {
    uf_columns_plan columns;
    direct_wgrad_plan sums; /* tensors and geometry; how the blocks' sums are added */
};

#if UF_HAS_WGMMA

/* 16 channels of DEPTH pixels, from step * DEPTH on, M times. */
template <typename Tile, int M>
static __device__ __forceinline__ void columns_channels(const unsigned char *tile, int step,
                                                        columns_fragment<Tile> (&a)[M]) {
    const int lane = (int)threadIdx.x & 31;
    if constexpr (Tile::MATH == UF_MATH_BF16) {
        const uint32_t from = (uf_shared_address(tile) + columns_at<Tile>(lane & 15, lane >> 4)) ^
                              (uint32_t)(step * 32);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            uf_load_matrices(a[m].big, from + (uint32_t)(m * 16 * Tile::ROW));
        }
    } else {
        const uint32_t first = columns_at<Tile>(lane >> 2, 0) + (uint32_t)(lane & 3) * 4;
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t on = (uint32_t)(step * 32 + (i >> 1) * 16);
                a[m].set(i, *(const uint32_t *)(tile + (first ^ on) +
                                                (m * 16 + (i & 1) * 8) * Tile::ROW));
            }
        }
    }
}

/* What columns 8n to 8n + 7 are of DEPTH pixels, from step * DEPTH on; `shift`: from the window's
 * begin to the first tap of pixel 0. */
template <typename Tile>
static __device__ __forceinline__ columns_by<Tile> columns_of(const uint32_t *window, int32_t shift,
                                                              int step, int n) {
    const int lane = (int)threadIdx.x & 31, q = lane & 3;
    const int r = lane >> 4; /* of the two rows of the filter */
    const int s = (lane >> 2 & 3) + shift;
    const uint32_t *const from =
        window + (2 * n + r) * Tile::WINDOW_ROW +
        (Tile::MATH == UF_MATH_BF16 ? 2 * q + (s >> 1) : UF_COLUMNS_STRIDE * q + s);
    columns_by<Tile> by;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int on = step * 16 + 8 * i; /* words */
        if (Tile::MATH == UF_MATH_BF16) {
            by.word[i] = __byte_perm(from[on], from[on + 1], (s & 1) != 0 ? 0x7632 : 0x5410);
        } else {
            by.set(i, __uint_as_float(from[on]));
        }
    }
    return by;
}

#endif

/* The warps that share rows have all of w, each of some channels of y: a row takes half the time of
 * one warp, the last one too, and half as many sums are to be added in the end. Those of rings, and
 * then of blocks, are added in order. */
template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    conv_columns_wgrad(const __grid_constant__ CUtensorMap rows,
                       const __grid_constant__ CUtensorMap windows,
                       const __grid_constant__ columns_wgrad_args args) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char columns_shared[];
    constexpr int M = UF_COLUMNS_SMALL / 16 / Tile::SHARE, N = Tile::N;
    constexpr int G = N > 6 ? N / 2 : N; /* eights of columns whose products are made together */
    const uf_columns_plan &p = args.columns;
    const direct_wgrad_plan &w = args.sums;
    const int32_t warp = columns_warp();
    columns_ring<1> ring = columns_ring_of<Tile, 1>(p, columns_shared);
    const int32_t begin = columns_first(p, blockIdx.x), end = columns_first(p, blockIdx.x + 1);
    uf_launch_dependents();
    uf_wait_for_launcher();
    const int32_t number = warp / Tile::SHARE, share = warp % Tile::SHARE;
    columns_begin<Tile, 1>(p, &rows, &windows, begin + number, end, ring);
    float sum[M][N][4] = {};
#pragma unroll 1
    for (int32_t unit = begin + number; unit < end; unit += Tile::RINGS) {
        const unsigned char *const tile = ring.stage(p);
        ring.wait(0);
        const uint32_t *const window = (const uint32_t *)(tile + p.tile_bytes);
#pragma unroll(Tile::PARTS == 2 ? 1 : 4)
        for (int step = 0; step < UF_COLUMNS_PIXELS / Tile::DEPTH; ++step) {
            columns_fragment<Tile> a[M];
            columns_channels<Tile>(tile + share * (M * 16 * Tile::ROW), step, a);
#pragma unroll
            for (int n = 0; n < N; n += G) {
                columns_by<Tile> by[G];
#pragma unroll
                for (int g = 0; g < G; ++g) {
                    by[g] = columns_of<Tile>(window, p.window_shift, step, n + g);
                }
                columns_multiply<Tile>(sum, a, by, n);
            }
        }
        columns_next<Tile, 1>(p, &rows, &windows, unit, end, ring);
    }

    /* Every warp has read all that has come; then each one's sums, added in order, leave by rows of
     * w. */
    __syncthreads();
    constexpr int PART = M * N * 4, SUMS = PART * Tile::SHARE;
    float *const sums = (float *)(columns_shared + UF_COLUMNS_HEAD);
    float *const mine = sums + warp * (PART * 32) + ((int32_t)threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        mine[i * 32] = sum[i / (N * 4)][i / 4 % N][i & 3];
    }
    __syncthreads();
    float *const to = w.partial + (int64_t)blockIdx.x * w.size;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < SUMS * 32; i += Tile::THREADS) {
        float all = 0.0f;
#pragma unroll
        for (int other = 0; other < Tile::RINGS; ++other) {
            all += sums[other * (SUMS * 32) + i];
        }
        /* Where a fragment has it. */
        const int sum = i >> 5, n = sum / 4 % N, q = i & 3;
        const int k = sum / 4 / N * 16 + (sum >> 1 & 1) * 8 + (i >> 2 & 7);
        const int c = n / 2, r = (n & 1) * 2 + (q >> 1), s = (q & 1) * 2 + (sum & 1);
        if (r * w.taps_w < w.taps && s < w.taps_w) {
            to[k * w.columns + c * w.taps + r * w.taps_w + s] = all;
        }
    }
#endif
}

#endif
