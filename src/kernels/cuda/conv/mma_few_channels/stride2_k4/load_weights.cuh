/* load_weights.cuh - weights of stride2_k4/launch.cu: from memory through shared memory to
 * fragments. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LOAD_WEIGHTS_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LOAD_WEIGHTS_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/load.cuh"

#if UF_HAS_WGMMA

/* Weights as operand B of STEPS x N MMAs, kept for the whole block: in registers, or, in FP32, in
 * shared memory, 16 bytes a lane. TAPS_DOWN: rows are taps and columns are channels of y; else the
 * reverse. */
template <typename Tile, int STEPS, int N, bool TAPS_DOWN>
struct stride2_k4_weights {
    typedef typename Tile::T T;
    static constexpr int TAPS = Tile::C * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_FILTER;
    static constexpr int VECTOR = 16 / (int)sizeof(T); /* elements of a 16-byte cell */
    /* The scratch holds weights as memory does, the taps of a channel of y side by side, with a
     * cell between channels. Cells of eight channels, and words of every other one, then lie in
     * different banks. */
    static constexpr int CELLS = TAPS / VECTOR,
                         PITCH = CELLS + 1; /* cells of a channel; with padding */
    static_assert(UF_STRIDE2_K4_SMALL * PITCH * 16 == UF_STRIDE2_K4_SCRATCH(Tile::C, sizeof(T)),
                  "plan");
    static_assert(N % 2 == 0, "load() takes two");

    static constexpr int ALL = UF_STRIDE2_K4_SMALL * CELLS;
    static constexpr int SHARE = (ALL + Tile::THREADS - 1) / Tile::THREADS;

    stride2_k4_by<Tile> by[Tile::PARTS == 2 ? 1 : STEPS][Tile::PARTS == 2 ? 1 : N];
    const uint4 *shared;
    uint4 raw[SHARE];

    /* Loads weights before rows are requested, because they would queue behind those. Nothing
     * waits. __ldg is not used: the compiler may move it before the wait for the preceding
     * kernel. */
    __device__ __forceinline__ void fetch(const uf_stride2_k4_plan &p) {
        const uint4 *const from = (const uint4 *)p.conv.weight + threadIdx.x;
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            raw[i] = make_uint4(0u, 0u, 0u, 0u);
            if ((int)threadIdx.x + i * Tile::THREADS < p.weight_vectors) {
                raw[i] = from[i * Tile::THREADS];
            }
        }
    }

    /* An f32 as load() needs it: rounded unless it is split later. */
    static __device__ __forceinline__ uint32_t rounded(uint32_t word) {
        return Tile::MATH == UF_MMA_TF32 ? mma_round_by_bits(__uint_as_float(word)) : word;
    }

    static __device__ __forceinline__ void write(uint4 *scratch, int channel, int tap,
                                                 float value) {
        T *const to = (T *)(scratch + channel * PITCH) + tap;
        *to = (T)__uint_as_float(rounded(__float_as_uint(value)));
    }

    /* Writes the fetched words of 4x4 filters, and zeros beyond the last channel. */
    __device__ __forceinline__ void store(uint4 *scratch) const {
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            const uint32_t at = threadIdx.x + (uint32_t)(i * Tile::THREADS);
            if ((i + 1) * Tile::THREADS <= ALL || at < (uint32_t)ALL) {
                scratch[at + at / (uint32_t)CELLS] = make_uint4(
                    rounded(raw[i].x), rounded(raw[i].y), rounded(raw[i].z), rounded(raw[i].w));
            }
        }
    }

    /* Element e of fetched vector i. */
    __device__ __forceinline__ float element(int i, int e) const {
        const uint32_t word[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
        return __uint_as_float(VECTOR == 4    ? word[e & 3]
                               : (e & 1) == 0 ? word[e / 2 & 3] << 16
                                              : word[e / 2 & 3] & 0xffff0000u);
    }

    /* The same for smaller filters, whose zeros are already there. */
    __device__ __forceinline__ void scatter(const uf_stride2_k4_plan &p, uint4 *scratch) const {
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            const int at = (int)threadIdx.x + i * Tile::THREADS;
            if (at < p.weight_vectors) {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    const int filter = direct_divide(p.by_taps, at * VECTOR + e);
                    const int tap = at * VECTOR + e - filter * (int)p.by_taps.divisor;
                    const int r = direct_divide(p.by_filter_row, tap);
                    const int s = tap - r * (int)p.by_filter_row.divisor;
                    write(scratch, filter / Tile::C, filter % Tile::C * 16 + r * 4 + s,
                          element(i, e));
                }
            }
        }
    }

    /* Loads weights element by element where vectors cannot, with zeros beyond the filter. */
    static __device__ __noinline__ void gather(const uf_stride2_k4_plan &p, uint4 *scratch) {
        const uf_direct_conv &conv = p.conv;
        const int channels = TAPS_DOWN ? conv.written_per_group : conv.read_per_group;
        const int64_t by_channel = TAPS_DOWN ? conv.w_written : conv.w_read;
        const int64_t by_c = TAPS_DOWN ? conv.w_read : conv.w_written;
#pragma unroll 8
        for (int i = (int)threadIdx.x; i < UF_STRIDE2_K4_SMALL * TAPS; i += Tile::THREADS) {
            const int channel = i / TAPS, tap = i % TAPS;
            const int c = tap >> 4, r = tap >> 2 & 3, s = tap & 3;
            const bool there = channel < channels && r < conv.kernel[0] && s < conv.kernel[1];
            const T *const from = (const T *)conv.weight + channel * by_channel + c * by_c +
                                  r * conv.w_row + s * conv.w_column;
            write(scratch, channel, tap, there ? (float)*from : 0.0f);
        }
    }

    /* Called by all threads; `scratch` is free after the next __syncthreads. */
    __device__ __forceinline__ void keep(const uf_stride2_k4_plan &p, uint4 *scratch, uint4 *to) {
        if (p.weight_vectors == 0) {
            gather(p, scratch);
        } else if (p.by_taps.divisor == 16) {
            store(scratch);
        } else {
#pragma unroll 1
            for (int i = (int)threadIdx.x; i < UF_STRIDE2_K4_SMALL * PITCH; i += Tile::THREADS) {
                scratch[i] = make_uint4(0u, 0u, 0u, 0u);
            }
            __syncthreads();
            scatter(p, scratch);
        }
        __syncthreads();
        if constexpr (Tile::PARTS == 2) {
            const int lane = (int)threadIdx.x & 31;
            shared = to + lane;
            /* Each warp has some channels, so that few address computations remain. */
            constexpr int ACROSS = TAPS_DOWN ? N / 2 : STEPS, ALONG = TAPS_DOWN ? STEPS : N / 2;
            static_assert(ACROSS % Tile::WARPS == 0, "as much for each");
#pragma unroll 1
            for (int across = stride2_k4_warp(); across < ACROSS; across += Tile::WARPS) {
#pragma unroll
                for (int along = 0; along < ALONG; ++along) {
                    const int step = TAPS_DOWN ? along : across;
                    const int n = 2 * (TAPS_DOWN ? across : along);
                    stride2_k4_by<Tile> made[2];
                    load(made, scratch, step, n);
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        to[(step * N + n + i) * 32 + lane] = make_uint4(
                            made[i].word[0], made[i].word[1], made[i].word[2], made[i].word[3]);
                    }
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    load(&by[step][n], scratch, step, n);
                }
            }
        }
    }

    /* Loads the words of columns 8n to 8n + 15. Cells are rows of matrices; f32 cells cannot be
     * transposed by ldmatrix. */
    static __device__ __forceinline__ void load(stride2_k4_by<Tile> *made, const uint4 *scratch,
                                                int step, int n) {
        const int lane = (int)threadIdx.x & 31;
        uint32_t word[4];
        if constexpr (TAPS_DOWN) {
            uf_load_matrices(word,
                             uf_shared_address(scratch + ((lane & 7) + (lane >> 4) * 8) * PITCH +
                                               (lane >> 3 & 1)) +
                                 (uint32_t)(n * 8 * PITCH + 2 * step) * 16);
        } else if constexpr (Tile::MATH == UF_MMA_BF16) {
            uf_load_matrices_transposed(
                word, uf_shared_address(scratch + (lane & 15) * PITCH + (lane >> 4)) +
                          (uint32_t)(step * 16 * PITCH + n) * 16);
        } else {
            /* Channels in the order of stride2_k4_pixels: a lane's two are neighbours. */
            const uint32_t *const from =
                (const uint32_t *)(scratch + 2 * (lane & 3) * PITCH) + (lane >> 2);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                word[i] = from[(step * 8 + (i & 1)) * PITCH * 4 + (n + (i >> 1)) * 8];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (Tile::PARTS == 2) {
                made[i >> 1].set(i & 1, __uint_as_float(word[i]));
            } else {
                made[i >> 1].word[i & 1] = word[i];
            }
        }
    }

    template <int M>
    __device__ __forceinline__ void
    multiply(float (&sum)[M][N][4], const stride2_k4_fragment<Tile> (&a)[M], int step) const {
        if constexpr (Tile::PARTS == 2) {
            stride2_k4_by<Tile> all[N];
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const uint4 words = shared[(step * N + n) * 32];
                all[n].word[0] = words.x;
                all[n].word[1] = words.y;
                all[n].word[2] = words.z;
                all[n].word[3] = words.w;
            }
            stride2_k4_multiply<Tile>(sum, a, all, 0);
        } else {
            stride2_k4_multiply<Tile>(sum, a, by[step], 0);
        }
    }
};

#endif

#endif
