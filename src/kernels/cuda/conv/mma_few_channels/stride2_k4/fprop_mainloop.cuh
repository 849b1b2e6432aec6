/* fprop_mainloop.cuh - the fprop kernel of stride2_k4/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_FPROP_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_FPROP_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/load_weights.cuh"

#if UF_HAS_WGMMA

/* Loads DEPTH taps of 16 pixels, from step * DEPTH, M times. `shift`: elements from the window's
 * begin to the first tap of pixel 0. Two neighbours of bf16 are a word, or parts of two. */
template <typename Tile, int M>
static __device__ __forceinline__ void stride2_k4_taps(const uint32_t *window, int32_t shift,
                                                       int step,
                                                       stride2_k4_fragment<Tile> (&a)[M]) {
    constexpr bool PAIRS = Tile::MATH == UF_MMA_BF16;
    constexpr int PIXEL =
        UF_STRIDE2_K4_STRIDE * (int)sizeof(typename Tile::T) / 4; /* words from pixel to pixel */
    constexpr int HALF =
        Tile::DEPTH / 2 / UF_STRIDE2_K4_FILTER; /* rows of the filter in half of DEPTH */
    const int lane = (int)threadIdx.x & 31, pixel = lane >> 2, q = lane & 3;
    const uint32_t *const first =
        window + pixel * PIXEL +
        (PAIRS ? (q >> 1) * Tile::WINDOW_ROW + (q & 1) + (shift >> 1) : q + shift);
    const uint32_t selector = (shift & 1) != 0 ? 0x5432 : 0x3210;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t *const from = first + (2 * step + (i >> 1)) * HALF * Tile::WINDOW_ROW +
                                         (16 * m + (i & 1) * 8) * PIXEL;
            a[m].set(i, PAIRS ? __byte_perm(from[0], from[1], selector) : from[0]);
        }
    }
}

/* The exact fix-up of a row of y of a strip, in its stage. */
template <typename Tile>
static __device__ __noinline__ void stride2_k4_exact_tile(const uf_stride2_k4_plan &p,
                                                          const stride2_k4_coord &coord,
                                                          unsigned char *to) {
    typedef typename Tile::T T;
    constexpr int PIECE = 16 / (int)sizeof(T);
    const uf_direct_conv &conv = p.conv;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t w = coord.strip * UF_STRIDE2_K4_PIXELS + lane;
    direct_coord at = {};
    at.n = coord.n;
    if (w < conv.axis[1].written) {
#pragma unroll 1
        for (int32_t channel = 0; channel < conv.written_per_group; ++channel) {
            ((T *)(to + stride2_k4_at<Tile>(channel, lane / PIECE)))[lane % PIECE] =
                (T)direct_finish(conv, direct_epilogue_of<T>(conv, channel),
                                 direct_exact<T>(conv, at, channel, coord.row, w));
        }
    }
}

/* Stages sums for a TMA store. */
template <typename Tile>
static __device__ __forceinline__ void
stride2_k4_stage(const float (&sum)[2][UF_STRIDE2_K4_SMALL / 8][4], unsigned char *to) {
    if constexpr (Tile::MATH == UF_MMA_BF16) {
        const int lane = (int)threadIdx.x & 31;
        const uint32_t first = uf_shared_address(to) + stride2_k4_at<Tile>(lane & 7, lane >> 3);
#pragma unroll
        for (int n = 0; n < UF_STRIDE2_K4_SMALL / 8; ++n) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float(&four)[4] = sum[i >> 1][n];
                words[i] = uf_pack_bf16(four[(i & 1) * 2], four[(i & 1) * 2 + 1]);
            }
            uf_store_matrices_transposed(words, first + (uint32_t)(n * 8 * Tile::ROW));
        }
    } else {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int n = 0; n < UF_STRIDE2_K4_SMALL / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    *(float *)(to + stride2_k4_word_at<Tile>(m, i >> 1, i & 1) +
                               n * 8 * Tile::ROW) = sum[m][n][i];
                }
            }
        }
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    conv_stride2_k4_fprop(const __grid_constant__ CUtensorMap windows,
                          const __grid_constant__ CUtensorMap rows,
                          const __grid_constant__ uf_stride2_k4_plan p) {
#if UF_HAS_WGMMA
    typedef typename Tile::T T;
    extern __shared__ __align__(1024) unsigned char stride2_k4_shared[];
    constexpr int STEPS = 8 * Tile::N / Tile::DEPTH, N = UF_STRIDE2_K4_SMALL / 8;
    const uf_direct_conv &conv = p.conv;
    const int lane = (int)threadIdx.x & 31;
    const int32_t warp = stride2_k4_warp();
    stride2_k4_ring<1> ring = stride2_k4_ring_of<Tile, 1>(p, stride2_k4_shared);
    float2 *const scale_shift =
        (float2 *)((uint64_t *)stride2_k4_shared + Tile::WARPS * UF_STRIDE2_K4_STAGES);
    const int32_t begin = stride2_k4_first_unit(p, blockIdx.x),
                  end = stride2_k4_first_unit(p, blockIdx.x + 1);
    uf_launch_dependents();
    uf_wait_for_launcher();
    stride2_k4_weights<Tile, STEPS, N, true> weights;
    weights.fetch(p);
    float2 epilogue = make_float2(1.0f, 0.0f);
    if ((int32_t)threadIdx.x < conv.written_per_group) {
        epilogue = direct_epilogue_behind_wait<T>(conv, (int32_t)threadIdx.x);
    }
    stride2_k4_begin<Tile>(p, nullptr, &windows, begin + warp, end, ring);
    if (threadIdx.x <
        UF_STRIDE2_K4_SMALL) { /* after the first loads are issued: it has yet to arrive */
        scale_shift[threadIdx.x] = epilogue;
    }
    weights.keep(p, (uint4 *)(stride2_k4_shared + p.kept_at),
                 (uint4 *)(stride2_k4_shared + p.weight_at));
    __syncthreads();

    const bool by_turns = p.kept_tiles > 1;
    uint32_t turn = 0;
    unsigned char *const staged = stride2_k4_shared + p.kept_at + warp * p.kept_bytes;
#pragma unroll 1
    for (int32_t unit = begin + warp; unit < end; unit += Tile::WARPS) {
        const uint32_t *const window = (const uint32_t *)ring.stage(p);
        ring.wait(0);
        float sum[2][N][4] = {};
#pragma unroll(Tile::PARTS == 2 ? 4 : STEPS)
        for (int step = 0; step < STEPS; ++step) {
            stride2_k4_fragment<Tile> a[2];
            stride2_k4_taps<Tile>(window, p.window_shift, step, a);
            weights.multiply(sum, a, step);
        }
        stride2_k4_next<Tile>(p, nullptr, &windows, unit, end, ring);

        float probe = 0.0f;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 epilogue = p.scaled ? scale_shift[n * 8 + 2 * (lane & 3) + (i & 1)]
                                                 : make_float2(1.0f, 0.0f);
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    probe = fmaf(sum[m][n][i], 0.0f, probe);
                    if (p.scaled) {
                        sum[m][n][i] = fmaf(sum[m][n][i], epilogue.x, epilogue.y);
                    }
                }
            }
        }
        uf_activate_all<2 * N * 4>(conv.activation, conv.parameter, &sum[0][0][0]);
        const stride2_k4_coord coord = stride2_k4_coord_of(p, unit);
        if (lane == 0) {
            if (by_turns) {
                uf_store_bulk_wait<1>();
            } else {
                uf_store_bulk_wait<0>();
            }
        }
        __syncwarp();
        if (__all_sync(0xffffffffu, probe == 0.0f)) {
            stride2_k4_stage<Tile>(sum, staged + turn);
        } else {
            stride2_k4_exact_tile<Tile>(p, coord, staged + turn);
        }
        uf_fence_async_shared();
        __syncwarp();
        if (lane == 0) {
            uf_store_tensor(&rows, coord.strip * UF_STRIDE2_K4_PIXELS, coord.row, 0, coord.n,
                            uf_shared_address(staged + turn));
            uf_store_bulk_commit();
        }
        turn ^= by_turns ? UF_STRIDE2_K4_SMALL * Tile::ROW : 0;
    }
    if (lane == 0) {
        uf_store_bulk_wait<0>();
    }
#endif
}

#endif
