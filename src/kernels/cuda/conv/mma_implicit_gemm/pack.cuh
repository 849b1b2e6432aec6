/* pack.cuh - the kernels before and after conv_mma: packing weights, adding splits. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_PACK_CUH
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_PACK_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/arch/sm90_dependent_launch.cuh"

/* Weights in the order in which lanes read them:
 * [group][tile of N][tap][chunk][step][n / 8][lane][register], zeros where there is no channel. A
 * warp makes one [step][n / 8] for some taps, so that it reads rows of taps and writes whole lines.
 */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_mma_pack(const __grid_constant__ mma_conv p, int64_t warps) {
    uf_overlap_launches();
    const int lane = (int)threadIdx.x & 31;
    int64_t rest = (int64_t)blockIdx.x * (UF_BLOCK / 32) + ((int)threadIdx.x >> 5);
    if (rest >= warps) {
        return;
    }
    const int32_t taps_w = p.axis[1].kernel;
    const int64_t taps = (int64_t)p.axis[0].kernel * taps_w;
    const int eighth = (int)(rest % (Tile::N / 8));
    rest /= Tile::N / 8;
    const int step = (int)(rest % Tile::STEPS);
    rest /= Tile::STEPS;
    const int32_t chunk = (int32_t)(rest % p.chunks);
    const int64_t tile = rest / p.chunks; /* of all groups */
    const int64_t group = tile / p.blocks_n;
    const int32_t n = (int32_t)(tile % p.blocks_n) * Tile::N + eighth * 8 + (lane >> 2);
    constexpr int PARTS = Tile::MATH == UF_MMA_BF16 ? 2 : 1;
    const float *from[2][PARTS];
    bool there[2][PARTS];
#pragma unroll
    for (int reg = 0; reg < 2; ++reg) {
#pragma unroll
        for (int half = 0; half < PARTS; ++half) {
            const int32_t c = chunk * Tile::DEPTH + mma_k_of<Tile>(step, reg, lane & 3, half);
            there[reg][half] = n < p.written_per_group && c < p.read_per_group;
            from[reg][half] = there[reg][half]
                                  ? p.weight + group * p.w_group + n * p.w_written + c * p.w_read
                                  : p.weight;
        }
    }
    for (int64_t first = (int64_t)blockIdx.y * MMA_PACK_TAPS; first < taps;
         first += (int64_t)gridDim.y * MMA_PACK_TAPS) {
#pragma unroll
        for (int i = 0; i < MMA_PACK_TAPS; ++i) {
            const int64_t tap = first + i;
            if (tap >= taps) {
                return;
            }
            const int64_t offset = tap / taps_w * p.w_row + tap % taps_w * p.w_column;
            uint32_t word[2];
#pragma unroll
            for (int reg = 0; reg < 2; ++reg) {
                float value[2] = {0.0f, 0.0f};
#pragma unroll
                for (int half = 0; half < PARTS; ++half) {
                    value[half] = there[reg][half] ? from[reg][half][offset] : 0.0f;
                }
                word[reg] = Tile::MATH == UF_MMA_BF16   ? uf_pack_bf16(value[0], value[1])
                            : Tile::MATH == UF_MMA_TF32 ? uf_round_tf32(value[0])
                                                        : __float_as_uint(value[0]);
            }
            uint32_t *const to = p.packed +
                                 ((tile * taps + tap) * p.chunks + chunk) * Tile::B_WORDS +
                                 ((step * (Tile::N / 8) + eighth) * 32 + lane) * 2;
            *(uint2 *)to = make_uint2(word[0], word[1]);
        }
    }
}

/* The sum of the splits in order, and the rest of the epilogue. Grid: pixels of the batch,
 * channels. */
template <typename T = float>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_mma_add(const __grid_constant__ mma_conv p) {
    uf_overlap_launches();
    const mma_axis &rows = p.axis[0], &columns = p.axis[1];
    const int32_t channels = p.groups * p.written_per_group;
    const int32_t plane = rows.written * columns.written;
    const int32_t pixel = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    if (pixel >= p.batch * plane) {
        return;
    }
    const int32_t n = pixel / plane;
    const int32_t in_plane = pixel - n * plane;
    const int32_t h = in_plane / columns.written;
    const int32_t w = in_plane - h * columns.written;
    const int64_t offset =
        n * p.written_stride[0] + h * p.written_stride[2] + w * p.written_stride[3];
    for (int32_t channel = (int32_t)blockIdx.y; channel < channels; channel += (int32_t)gridDim.y) {
        const float *from = p.partial + ((int64_t)n * channels + channel) * plane + in_plane;
        float value = 0.0f;
#pragma unroll 8
        for (int32_t split = 0; split < p.splits; ++split, from += p.partial_count) {
            value += *from;
        }
        if (!mma_finite(value)) {
            /* The phase of the element; fprop has one, its step is 1. */
            const mma_walk down = mma_walk_of(&rows, (h + rows.padding) % rows.phases);
            const mma_walk across = mma_walk_of(&columns, (w + columns.padding) % columns.phases);
            const int32_t read_h =
                (h - down.out_first) / rows.out_step * rows.in_step + down.in_first;
            const int32_t read_w =
                (w - across.out_first) / columns.out_step * columns.in_step + across.in_first;
            const int32_t group = channel / p.written_per_group;
            value = mma_exact<T>(p, down, across, group, channel - group * p.written_per_group, n,
                                 read_h, read_w);
        }
        mma_finish<T>(p, channel, offset + channel * p.written_stride[1], value);
    }
}

#endif
