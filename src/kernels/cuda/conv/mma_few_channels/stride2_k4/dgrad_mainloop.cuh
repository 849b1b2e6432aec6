/* dgrad_mainloop.cuh - the dgrad kernel of stride2_k4/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_DGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_DGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/load_weights.cuh"

#if UF_HAS_WGMMA

/* Loads 16 pixels and DEPTH channels of a tile of y, from step * DEPTH, M times. In TF32 words 0
 * and 1 are channel 2q of the eight, words 2 and 3 channel 2q + 1. */
template <typename Tile, int M>
static __device__ __forceinline__ void stride2_k4_pixels(const unsigned char *tile, int step,
                                                         stride2_k4_fragment<Tile> (&a)[M]) {
    if constexpr (Tile::MATH == UF_MMA_BF16) {
        const int lane = (int)threadIdx.x & 31;
        const uint32_t from =
            uf_shared_address(tile) +
            stride2_k4_at<Tile>((lane & 7) + ((lane & 16) >> 1), (lane & 8) >> 3) +
            (uint32_t)(step * Tile::DEPTH * Tile::ROW);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            uf_load_matrices_transposed(a[m].big, from ^ (uint32_t)(m * 32));
        }
    } else {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                a[m].set(i, *(const uint32_t *)(tile + stride2_k4_word_at<Tile>(m, i & 1, i >> 1) +
                                                step * Tile::DEPTH * Tile::ROW));
            }
        }
    }
}

/* The exact fix-up of rows 2 * row and 2 * row + 1 of x, counted from the first row of the padding.
 * MMAs multiply absent elements too, and 0 times infinity is NaN. */
template <typename Tile>
static __device__ __noinline__ void stride2_k4_exact_rows(const uf_stride2_k4_plan &p, int32_t n,
                                                          int32_t row) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const int32_t width = conv.axis[1].written;
    direct_coord at = {};
    at.n = n;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x & 31; i < UF_STRIDE2_K4_STRIDE * Tile::C * width;
         i += 32) {
        const int32_t line = i / width;
        const int32_t w = i - line * width, c = line / UF_STRIDE2_K4_STRIDE;
        const int32_t h =
            UF_STRIDE2_K4_STRIDE * row + line % UF_STRIDE2_K4_STRIDE - conv.padding[0];
        if ((uint32_t)h < (uint32_t)conv.axis[0].written) {
            direct_channel<T>(conv, at,
                              c)[h * conv.written_stride[2] + w * conv.written_stride[3]] =
                (T)direct_finish(conv, direct_epilogue_of<T>(conv, c),
                                 direct_exact<T>(conv, at, c, h, w));
        }
    }
}

/* Combines columns and stores rows 2 * row and 2 * row + 1 of x. An even lane has taps s = 0 and 1
 * of pixel w, an odd lane s = 2 and 3. The even lane makes column 2w + 1 of x, counted from the
 * first column of the padding, with s = 3 of pixel w - 1. The odd lane makes column 2w + 2 with s =
 * 0 of pixel w + 1. Each sends the sum that the other's neighbour lacks. */
template <typename Tile>
static __device__ __forceinline__ void
stride2_k4_store(const uf_stride2_k4_plan &p, const float (&sum)[2][Tile::N][4],
                 const stride2_k4_coord &coord, const float2 *scale_shift) {
    typedef typename Tile::T T;
    constexpr int EIGHTS = UF_STRIDE2_K4_PIXELS / 8;
    const uf_direct_conv &conv = p.conv;
    const int lane = (int)threadIdx.x & 31;
    const bool odd = (lane & 1) != 0, edge = odd ? lane >= 28 : lane < 4;
    const int from = (odd ? lane + 3 : lane - 3) & 31;
    float out[Tile::C][EIGHTS];
    float probe = 0.0f;
#pragma unroll
    for (int c = 0; c < Tile::C; ++c) {
#pragma unroll
        for (int e = 0; e < EIGHTS; ++e) {
            const float(&mine)[4] = sum[e / 2][2 * c];
            const float first = mine[e % 2 * 2], second = mine[e % 2 * 2 + 1];
            const float before = e == 0 ? 0.0f : sum[(e - 1) / 2][2 * c][(e + 1) % 2 * 2 + 1];
            const float behind =
                e + 1 == EIGHTS ? 0.0f : sum[(e + 1) % EIGHTS / 2][2 * c][(e + 1) % 2 * 2];
            const float send = odd ? (edge ? before : second) : (edge ? behind : first);
            out[c][e] = (odd ? first : second) + __shfl_sync(0xffffffffu, send, from);
            probe = fmaf(out[c][e], 0.0f, probe);
        }
    }
    if (!__all_sync(0xffffffffu, probe == 0.0f)) {
        stride2_k4_exact_rows<Tile>(p, coord.n, coord.row);
        return;
    }
    const int32_t h = UF_STRIDE2_K4_STRIDE * coord.row + (lane >> 1 & 1) - conv.padding[0];
    const int32_t w = UF_STRIDE2_K4_STRIDE * (lane >> 2) + 1 + (lane & 1) - conv.padding[1];
    if ((uint32_t)h >= (uint32_t)conv.axis[0].written) {
        return;
    }
    T *const to = (T *)conv.written + coord.n * conv.written_stride[0] +
                  h * conv.written_stride[2] + w * conv.written_stride[3];
    if (p.scaled) {
#pragma unroll
        for (int c = 0; c < Tile::C; ++c) {
#pragma unroll
            for (int e = 0; e < EIGHTS; ++e) {
                out[c][e] = fmaf(out[c][e], scale_shift[c].x, scale_shift[c].y);
            }
        }
    }
    uf_activate_all<Tile::C * EIGHTS>(conv.activation, conv.parameter, &out[0][0]);
#pragma unroll
    for (int c = 0; c < Tile::C; ++c) {
#pragma unroll
        for (int e = 0; e < EIGHTS; ++e) {
            const int32_t on = UF_STRIDE2_K4_STRIDE * 8 * e;
            if ((uint32_t)(w + on) < (uint32_t)conv.axis[1].written) {
                to[c * conv.written_stride[1] + on * conv.written_stride[3]] = (T)out[c][e];
            }
        }
    }
}

#endif

/* Row j of y contributes to rows 2j to 2j + 3 of x. It completes the first two with the sums that
 * row j - 1 kept, and keeps those of the others for row j + 1. */
template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    conv_stride2_k4_dgrad(const __grid_constant__ CUtensorMap rows,
                          const __grid_constant__ uf_stride2_k4_plan p) {
#if UF_HAS_WGMMA
    typedef typename Tile::T T;
    extern __shared__ __align__(1024) unsigned char stride2_k4_shared[];
    constexpr int STEPS = UF_STRIDE2_K4_SMALL / Tile::DEPTH, PIECES = Tile::PIECES;
    const uf_direct_conv &conv = p.conv;
    const int lane = (int)threadIdx.x & 31;
    const int32_t warp = stride2_k4_warp();
    stride2_k4_ring<PIECES> ring = stride2_k4_ring_of<Tile, PIECES>(p, stride2_k4_shared);
    uint64_t *const kept_full =
        (uint64_t *)stride2_k4_shared + Tile::WARPS * UF_STRIDE2_K4_STAGES * PIECES;
    uint64_t *const kept_empty = kept_full + Tile::WARPS;
    float2 *const scale_shift = (float2 *)(kept_empty + Tile::WARPS);
    if (lane == 0) {
        uf_barrier_init(kept_full + warp, 32);
        uf_barrier_init(kept_empty + warp, 32);
    }
    /* The row before the first is computed too; only the next row needs its sums. */
    const int32_t first = stride2_k4_first_unit(p, blockIdx.x),
                  end = stride2_k4_first_unit(p, blockIdx.x + 1);
    const int32_t begin = first - (stride2_k4_coord_of(p, first).row > 0 ? 1 : 0);
    uf_launch_dependents();
    uf_wait_for_launcher();
    stride2_k4_weights<Tile, STEPS, Tile::N, false> weights;
    weights.fetch(p);
    float2 epilogue = make_float2(1.0f, 0.0f);
    if ((int)threadIdx.x < Tile::C) {
        epilogue = direct_epilogue_behind_wait<T>(conv, (int32_t)threadIdx.x);
    }
    stride2_k4_begin<Tile>(p, &rows, nullptr, begin + warp, end, ring);
    if ((int)threadIdx.x < Tile::C) { /* after the first loads are issued: it has yet to arrive */
        scale_shift[threadIdx.x] = epilogue;
    }
    weights.keep(p, (uint4 *)(stride2_k4_shared + p.kept_at),
                 (uint4 *)(stride2_k4_shared + p.weight_at));
    __syncthreads();

    float4 *const mine = (float4 *)(stride2_k4_shared + p.kept_at + warp * p.kept_bytes) + lane;
    const int32_t other = (warp + Tile::WARPS - 1) % Tile::WARPS;
    const float4 *const before =
        (const float4 *)(stride2_k4_shared + p.kept_at + other * p.kept_bytes) + lane;
    uint32_t parity = 0; /* parity of this warp's kept sums */
    uint32_t other_parity =
        warp == 0; /* parity of the other's; warp 0 reads from its second row on */
#pragma unroll 1
    for (int32_t unit = begin + warp; unit < end; unit += Tile::WARPS) {
        const unsigned char *const tile = ring.stage(p);
        float sum[2][Tile::N][4] = {};
#pragma unroll(Tile::PARTS == 2 ? 1 : PIECES)
        for (int piece = 0; piece < PIECES; ++piece) {
            ring.wait(piece);
#pragma unroll
            for (int i = 0; i < STEPS / PIECES; ++i) {
                const int step = piece * (STEPS / PIECES) + i;
                stride2_k4_fragment<Tile> a[2];
                stride2_k4_pixels<Tile>(tile, step, a);
                weights.multiply(sum, a, step);
            }
        }
        stride2_k4_next<Tile>(p, &rows, nullptr, unit, end, ring);

        uf_barrier_wait(kept_empty + warp, parity ^ 1);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int c = 0; c < Tile::C; ++c) {
                const float(&last)[4] = sum[m][2 * c + 1];
                mine[(m * Tile::C + c) * 32] = make_float4(last[0], last[1], last[2], last[3]);
            }
        }
        uf_barrier_arrive(kept_full + warp);
        parity ^= 1;

        const stride2_k4_coord coord = stride2_k4_coord_of(p, unit);
        if (unit > begin) {
            uf_barrier_wait(kept_full + other, other_parity);
            if (coord.row > 0) {
#pragma unroll
                for (int m = 0; m < 2; ++m) {
#pragma unroll
                    for (int c = 0; c < Tile::C; ++c) {
                        const float4 four = before[(m * Tile::C + c) * 32];
                        sum[m][2 * c][0] += four.x;
                        sum[m][2 * c][1] += four.y;
                        sum[m][2 * c][2] += four.z;
                        sum[m][2 * c][3] += four.w;
                    }
                }
            }
            uf_barrier_arrive(kept_empty + other);
        }
        other_parity ^= 1;
        if (unit >= first) {
            stride2_k4_store<Tile>(p, sum, coord, scale_shift);
        }
    }
#endif
}

#endif
