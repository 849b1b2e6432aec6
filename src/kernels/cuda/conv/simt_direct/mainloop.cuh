/* mainloop.cuh - the kernel of simt_direct/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_direct/load.cuh"
#include "kernels/cuda/conv/simt_direct/epilogue.cuh"

template <int N>
static __device__ __forceinline__ void direct_weights(float (&to)[N], const float *from) {
    if (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 four = *(const float4 *)(from + i);
            to[i] = four.x;
            to[i + 1 < N ? i + 1 : 0] = four.y;
            to[i + 2 < N ? i + 2 : 0] = four.z;
            to[i + 3 < N ? i + 3 : 0] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            to[i] = from[i];
        }
    }
}

/* The products of one offset into the window, of all channels of the chunk, for N phases from FIRST
 * on. */
template <typename Tile, int FIRST, int N>
static __device__ __forceinline__ void direct_multiply(float (&sum)[Tile::L][Tile::C][Tile::P],
                                                       const float *in, const float *weight,
                                                       int channels, int channel_words) {
#pragma unroll(Tile::BLOCKS)
    for (int c = 0; c < channels; ++c) {
        float value[Tile::P];
#pragma unroll
        for (int i = 0; i < Tile::P; ++i) {
            value[i] = in[32 * i];
        }
#pragma unroll
        for (int l = 0; l < N; ++l) {
            float factor[Tile::STEP];
            direct_weights(factor, weight + l * Tile::STEP);
#pragma unroll
            for (int k = 0; k < Tile::C; ++k) {
#pragma unroll
                for (int i = 0; i < Tile::P; ++i) {
                    sum[FIRST + l][k][i] = fmaf(value[i], factor[k], sum[FIRST + l][k][i]);
                }
            }
        }
        in += channel_words;
        weight += N * Tile::STEP;
    }
}

/* Runs begin at the first phase unless dilation and stride mix them: then they are single ones. */
template <typename Tile, int N>
static __device__ __forceinline__ void
direct_run(float (&sum)[Tile::L][Tile::C][Tile::P], const uf_direct_run &run, const float *in,
           const float *weight, int channels, int channel_words) {
    if (run.first == 0 && run.count == N) {
        direct_multiply<Tile, 0, N>(sum, in, weight, channels, channel_words);
    } else if (N > 1 && run.first == N - 1) {
        direct_multiply<Tile, N - 1, 1>(sum, in, weight, channels, channel_words);
    } else if constexpr (N > 1) {
        direct_run<Tile, N - 1>(sum, run, in, weight, channels, channel_words);
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(Tile::RATION, Tile::BLOCKS)
    conv_direct(const __grid_constant__ uf_direct_conv p) {
    extern __shared__ __align__(16) float direct_shared[];
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    const int lane = (int)threadIdx.x & 31;
    const direct_warp me = direct_warp_of<Tile>(p);
    const int32_t buffer_words = p.input_words + p.weight_words;
    float *const stage = direct_shared + p.buffers * buffer_words + me.number * p.stage_words;

    const direct_coord at = direct_coord_of(p);

    const float *const mine = direct_shared + me.first_cell + lane;
    const float *const my_weights =
        direct_shared + p.input_words + me.c * p.kernel[0] * p.kernel[1] * p.chunk * Tile::STEP;
    const int32_t first_channel = direct_first_channel<Tile>(p, at, me);

    /* Step i of shared memory has the channels of chunk i mod chunks. While one is multiplied, the
     * next is loaded. */
    const int32_t steps =
        p.chunks == 1 ? 1 : (rows.live + p.warps_h - 1) / p.warps_h * p.passes * p.chunks;
    int32_t step = 0;
    uf_overlap_launches();
    direct_load<Tile>(p, at, 0, direct_shared);
    direct_fill_rows<Tile>(p, at, first_channel, me.h * p.warps_m + me.m, p.warps_h * p.warps_m);
    if (columns.live < columns.out_step) { /* phases without taps stay 0 */
        for (int32_t i = lane; i < p.stage_words; i += 32) {
            stage[i] = 0.0f;
        }
    }
    for (int32_t turn = 0; turn < rows.live; turn += p.warps_h) {
        const int32_t row = turn + me.h; /* a live row phase */
        for (int32_t pass = 0; pass < p.passes; ++pass) {
            float sum[Tile::L][Tile::C][Tile::P] = {};
            for (int32_t chunk = 0; chunk < p.chunks; ++chunk) {
                const int32_t channels = min(p.chunk, p.read_per_group - chunk * p.chunk);
                if (step < steps) {
                    if (p.buffers == 1 && step > 0) {
                        __syncthreads(); /* the last chunk has been used */
                        direct_load<Tile>(p, at, chunk, direct_shared);
                    }
                    direct_copies_wait();
                    __syncthreads();
                    if (++step < steps && p.buffers > 1) {
                        direct_load<Tile>(p, at, chunk + 1 < p.chunks ? chunk + 1 : 0,
                                          direct_shared + (step & 1) * buffer_words);
                    }
                }
                const int32_t buffer = p.buffers == 1 ? 0 : ((step - 1) & 1) * buffer_words;
                if (row >= rows.live) {
                    continue;
                }
                for (int32_t t = p.row_begin[row]; t < p.row_begin[row + 1]; ++t) {
                    for (int32_t r = p.pass_begin[pass]; r < p.pass_begin[pass + 1]; ++r) {
                        direct_run<Tile, Tile::L>(
                            sum, p.run[r], mine + buffer + p.row[t].offset + p.run[r].offset,
                            my_weights + buffer +
                                (p.row[t].tap * p.kernel[1] + p.run[r].column) * p.chunk *
                                    Tile::STEP,
                            channels, p.channel_words);
                    }
                }
            }
            if (row >= rows.live) {
                continue;
            }
            if (!direct_all_finite<Tile>(p, sum, me.first_cell)) {
                direct_store_exact<Tile>(p, row, pass);
            } else if (Tile::L == 1 && columns.out_step == 1) { /* more phases are of a step */
                direct_store_plain<Tile>(p, at, sum, me.first_cell, rows.phase[row], first_channel,
                                         stage);
            } else {
                direct_store_phases<Tile>(p, at, sum, me.first_cell, rows.phase[row], pass,
                                          first_channel, stage);
            }
        }
    }
}

#endif
