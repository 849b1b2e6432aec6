/* wgrad_mainloop.cuh - the kernels of stride2_k4/wgrad_launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/load.cuh"
#include "kernels/cuda/conv/simt_direct/wgrad_reduce.cuh"

struct stride2_k4_wgrad_args {
    uf_stride2_k4_plan plan;
    direct_wgrad_plan sums; /* tensors and geometry; the partial sums of the blocks */
};

#if UF_HAS_WGMMA

/* Loads 16 channels of DEPTH pixels, from step * DEPTH, M times. */
template <typename Tile, int M>
static __device__ __forceinline__ void stride2_k4_channels(const unsigned char *tile, int step,
                                                           stride2_k4_fragment<Tile> (&a)[M]) {
    const int lane = (int)threadIdx.x & 31;
    if constexpr (Tile::MATH == UF_MMA_BF16) {
        const uint32_t from =
            (uf_shared_address(tile) + stride2_k4_at<Tile>(lane & 15, lane >> 4)) ^
            (uint32_t)(step * 32);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            uf_load_matrices(a[m].big, from + (uint32_t)(m * 16 * Tile::ROW));
        }
    } else {
        const uint32_t first = stride2_k4_at<Tile>(lane >> 2, 0) + (uint32_t)(lane & 3) * 4;
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

/* Loads columns 8n to 8n + 7 of DEPTH pixels, from step * DEPTH. `shift`: elements from the
 * window's begin to the first tap of pixel 0. */
template <typename Tile>
static __device__ __forceinline__ stride2_k4_by<Tile>
stride2_k4_of(const uint32_t *window, int32_t shift, int step, int n) {
    const int lane = (int)threadIdx.x & 31, q = lane & 3;
    const int r = lane >> 4; /* row of the two of the filter */
    const int s = (lane >> 2 & 3) + shift;
    const uint32_t *const from =
        window + (2 * n + r) * Tile::WINDOW_ROW +
        (Tile::MATH == UF_MMA_BF16 ? 2 * q + (s >> 1) : UF_STRIDE2_K4_STRIDE * q + s);
    stride2_k4_by<Tile> by;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int on = step * 16 + 8 * i; /* words from the first pixel */
        if (Tile::MATH == UF_MMA_BF16) {
            by.word[i] = __byte_perm(from[on], from[on + 1], (s & 1) != 0 ? 0x7632 : 0x5410);
        } else {
            by.set(i, __uint_as_float(from[on]));
        }
    }
    return by;
}

#endif

/* The warps that share rows have all of w, each for some channels of y. A row then takes half the
 * time of one warp, and half as many sums are added at the end. Sums of rings, and then of blocks,
 * are added in order. */
template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    conv_stride2_k4_wgrad(const __grid_constant__ CUtensorMap rows,
                          const __grid_constant__ CUtensorMap windows,
                          const __grid_constant__ stride2_k4_wgrad_args args) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char stride2_k4_shared[];
    constexpr int M = UF_STRIDE2_K4_SMALL / 16 / Tile::SHARE, N = Tile::N;
    /* 8-column blocks whose MMAs are in flight together: as many as registers allow. */
    constexpr int G = Tile::SHARE == 1 ? 2 : N > 6 ? N / 2 : N;
    const uf_stride2_k4_plan &p = args.plan;
    const int32_t warp = stride2_k4_warp();
    stride2_k4_ring<1> ring = stride2_k4_ring_of<Tile, 1>(p, stride2_k4_shared);
    const int32_t begin = stride2_k4_first_unit(p, blockIdx.x),
                  end = stride2_k4_first_unit(p, blockIdx.x + 1);
    uf_launch_dependents();
    uf_wait_for_launcher();
    const int32_t number = warp / Tile::SHARE, share = warp % Tile::SHARE;
    stride2_k4_begin<Tile>(p, &rows, &windows, begin + number, end, ring);
    float sum[M][N][4] = {};
#pragma unroll 1
    for (int32_t unit = begin + number; unit < end; unit += Tile::RINGS) {
        const unsigned char *const tile = ring.stage(p);
        ring.wait(0);
        const uint32_t *const window = (const uint32_t *)(tile + p.tile_bytes);
#pragma unroll(Tile::PARTS == 2 ? 1 : 4)
        for (int step = 0; step < UF_STRIDE2_K4_PIXELS / Tile::DEPTH; ++step) {
            stride2_k4_fragment<Tile> a[M];
            stride2_k4_channels<Tile>(tile + share * (M * 16 * Tile::ROW), step, a);
#pragma unroll
            for (int n = 0; n < N; n += G) {
                stride2_k4_by<Tile> by[G];
#pragma unroll
                for (int g = 0; g < G; ++g) {
                    by[g] = stride2_k4_of<Tile>(window, p.window_shift, step, n + g);
                }
                stride2_k4_multiply<Tile>(sum, a, by, n);
            }
        }
        stride2_k4_next<Tile>(p, &rows, &windows, unit, end, ring);
    }

    /* Once every warp has read its rows, adds the sums of rings in order and stores them as
     * fragments. The reduction computes where they belong while it waits for memory. */
    __syncthreads();
    constexpr int PART = M * N * 32, CELLS = PART * Tile::SHARE;
    static_assert(CELLS % Tile::THREADS == 0, "as much for each");
    float4 *const sums = (float4 *)(stride2_k4_shared + UF_STRIDE2_K4_HEAD);
    float4 *const mine = sums + warp * PART + ((int32_t)threadIdx.x & 31);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const float(&four)[4] = sum[m][n];
            mine[(m * N + n) * 32] = make_float4(four[0], four[1], four[2], four[3]);
        }
    }
    __syncthreads();
    float4 *const to =
        (float4 *)args.sums.partial + (int64_t)blockIdx.x * CELLS + (int32_t)threadIdx.x;
#pragma unroll
    for (int i = 0; i < CELLS; i += Tile::THREADS) {
        float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int other = 0; other < Tile::RINGS; ++other) {
            const float4 four = sums[other * CELLS + i + (int)threadIdx.x];
            all.x += four.x;
            all.y += four.y;
            all.z += four.z;
            all.w += four.w;
        }
        to[i] = all;
    }
#endif
}

/* The element of w that element e of fragment cell `cell` of a block's sums belongs to; false:
 * none. */
template <int C>
static __device__ __forceinline__ bool stride2_k4_sum_of(const direct_wgrad_plan &p, int32_t cell,
                                                         int32_t e, direct_element *at) {
    constexpr int32_t eights = 2 * C;
    const int32_t lane = cell & 31, q = lane & 3;
    const int32_t m = (cell >> 5) / eights, n = (cell >> 5) - m * eights;
    const int32_t r = (n & 1) * 2 + (q >> 1), s = (q & 1) * 2 + (e & 1);
    at->group = 0;
    at->k = m * 16 + (e >> 1) * 8 + (lane >> 2);
    at->c = n >> 1;
    at->tap = r * p.taps_w + s;
    return at->k < p.k_per_group && r * p.taps_w < p.taps && s < p.taps_w;
}

/* ADDERS: threads that share the blocks' sums of a cell. CELLS: cells of a block. LAST:
 * neighbouring threads that add the ADDERS' sums of an element. */
enum {
    STRIDE2_K4_ADDERS = 32,
    STRIDE2_K4_CELLS = UF_BLOCK / STRIDE2_K4_ADDERS,
    STRIDE2_K4_LAST = 8
};

/* Adds the sums of all blocks, always in the same order. Latency of memory is all that bounds it:
 * all loads of a thread are in flight at once, and destinations are computed before. */
template <typename T, int C>
static __global__ void __launch_bounds__(UF_BLOCK, 3)
    conv_stride2_k4_wgrad_add(const __grid_constant__ direct_wgrad_plan p) {
#if UF_HAS_WGMMA
    constexpr int ROUNDS = (UF_STRIDE2_K4_WGRAD_BLOCKS + STRIDE2_K4_ADDERS - 1) / STRIDE2_K4_ADDERS;
    constexpr int CELLS = UF_STRIDE2_K4_SMALL * C * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_FILTER / 4;
    constexpr int ELEMENTS = STRIDE2_K4_CELLS * 4;
    static_assert(ELEMENTS * STRIDE2_K4_LAST == UF_BLOCK &&
                      STRIDE2_K4_ADDERS % STRIDE2_K4_LAST == 0,
                  "a block's work");
    /* The pitch puts eight rows in different banks. */
    __shared__ __align__(16) float totals[STRIDE2_K4_ADDERS][ELEMENTS + 4];
    __shared__ float values[ELEMENTS];
    __shared__ float scratch[32];
    const int32_t first = (int32_t)blockIdx.x * STRIDE2_K4_CELLS;
    const int32_t cell = (int32_t)threadIdx.x % STRIDE2_K4_CELLS;
    const int32_t adder = (int32_t)threadIdx.x / STRIDE2_K4_CELLS;
    const int32_t element = (int32_t)threadIdx.x / STRIDE2_K4_LAST;
    const int32_t part = (int32_t)threadIdx.x % STRIDE2_K4_LAST;
    direct_element at;
    const bool there = stride2_k4_sum_of<C>(p, first + element / 4, element % 4, &at) && part == 0;
    T *const to = direct_address<T>(p, at);
    const float4 *const from = (const float4 *)p.partial + adder * CELLS + first + cell;
    const int32_t mine = p.splits - adder;
    uf_launch_dependents();
    uf_wait_for_launcher();
    float4 four[ROUNDS];
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        four[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i * STRIDE2_K4_ADDERS < mine) {
            four[i] = from[i * (STRIDE2_K4_ADDERS * CELLS)];
        }
    }
    uf_long_sum<float> sum[4] = {
        {four[0].x, 0.0f}, {four[0].y, 0.0f}, {four[0].z, 0.0f}, {four[0].w, 0.0f}};
#pragma unroll
    for (int i = 1; i < ROUNDS; ++i) {
        sum[0].add(four[i].x);
        sum[1].add(four[i].y);
        sum[2].add(four[i].z);
        sum[3].add(four[i].w);
    }
    *(float4 *)&totals[adder][cell * 4] =
        make_float4(sum[0].total(), sum[1].total(), sum[2].total(), sum[3].total());
    __syncthreads();
    uf_long_sum<float> all;
    all.clear();
#pragma unroll
    for (int i = 0; i < STRIDE2_K4_ADDERS; i += STRIDE2_K4_LAST) {
        all.add(totals[i + part][element]);
    }
#pragma unroll
    for (int distance = STRIDE2_K4_LAST / 2; distance > 0; distance /= 2) {
        const float high = __shfl_down_sync(0xffffffffu, all.high, distance, STRIDE2_K4_LAST);
        const float low = __shfl_down_sync(0xffffffffu, all.low, distance, STRIDE2_K4_LAST);
        all.add(high);
        all.low += low;
    }
    const float value = all.total();
    const bool spoiled = there && !direct_finite(value);
    if (there && !spoiled) {
        direct_write_element(p, to, value);
    }
    if (__syncthreads_or(spoiled)) {
        if (part == 0) {
            values[element] = value;
        }
        __syncthreads();
#pragma unroll 1
        for (int32_t i = 0; i < ELEMENTS; ++i) {
            direct_element other;
            if (!direct_finite(values[i]) &&
                stride2_k4_sum_of<C>(p, first + i / 4, i % 4, &other)) {
                const float exact = uf_block_sum(
                    direct_exact<T>(p, other, (int64_t)threadIdx.x, UF_BLOCK), scratch);
                if (threadIdx.x == 0) {
                    direct_write<T>(p, other, exact);
                }
            }
        }
    }
#endif
}

#endif
