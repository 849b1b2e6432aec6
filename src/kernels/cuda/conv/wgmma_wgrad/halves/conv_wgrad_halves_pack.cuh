/* conv_wgrad_halves_pack.cuh - scales of conv_wgrad_halves.cu, and tensors of halves; elements that
 * are too small for these are counted. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_HALVES_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_HALVES_PACK_CUH

#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks.cuh"
#include "kernels/cuda/arch/halves.cuh"

enum {
    HALVES_TOP_SAMPLED = 10, /* exponent of the largest element of a sample, scaled */
    HALVES_LEAST = -14,     /* and of the least that has all bits: smaller ones have errors of up to
                               2^-37 */
    HALVES_MOST_POWER = 112 /* that is no denormal without its scale */
};
static_assert(HALVES_LEAST - HALVES_MOST_POWER == -126, "an exponent of f32");

/* What kernels of a call tell each other; zero at first. */
struct halves_state {
    uint32_t most[2]; /* bits of the largest element seen of x and y */
    uint32_t again;   /* something must be made again */
    uint32_t unused;
    unsigned long long tiny; /* elements without all their bits: small, but not zero */
};

/* A tensor whose largest element is sought: as one span, or by its strides; all of it, or a sample
 * of `count` words of four elements (single ones, by strides). */
struct halves_tensor {
    const float *data;
    int64_t extent[4], stride[4];
    int64_t elements, count;
    bool dense, all;
};

/* log2 of what a tensor is multiplied by. Ordinary elements that the sample missed may be 16 times
 * as large as those that it has. */
static __device__ __forceinline__ int32_t halves_power(uint32_t most, bool all) {
    const int32_t top = all ? UF_HALVES_TOP : HALVES_TOP_SAMPLED;
    return most == 0 ? 0 : min(top - uf_halves_exponent(most), HALVES_MOST_POWER);
}

static __device__ __forceinline__ float halves_scale(uint32_t most, bool all) {
    return __uint_as_float(uf_halves_power(halves_power(most, all)));
}

/* Elements too small for their halves, before they are scaled: what becomes zero by that counts. */
struct halves_lost {
    uint32_t tiny, bound; /* those whose bits, less one, are below `bound` */

    __device__ __forceinline__ explicit halves_lost(float scale) {
        tiny = 0;
        bound = uf_halves_power(HALVES_LEAST) + uf_halves_power(0) - __float_as_uint(scale) - 1;
    }

    /* No branches: this is done among products. */
    template <int COUNT>
    __device__ __forceinline__ void see(const float (&value)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            tiny += (__float_as_uint(value[i]) & 0x7fffffffu) - 1 < bound ? 1 : 0;
        }
    }

    /* All lanes of a warp. */
    __device__ __forceinline__ void tell(halves_state *state) const {
        uint32_t sum = tiny;
        for (int distance = 16; distance > 0; distance >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (sum != 0 && (threadIdx.x & 31) == 0) {
            atomicAdd(&state->tiny, (unsigned long long)sum);
        }
    }
};

/* ---- scales ---- */

static __device__ __forceinline__ uint32_t halves_size(float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

/* The largest finite element of each tensor, or of a sample of it: the first blocks look at x. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_halves_most(const __grid_constant__ halves_tensor x,
                           const __grid_constant__ halves_tensor y, int32_t x_blocks,
                           halves_state *state) {
    uf_launch_dependents();
    const bool of_x = (int32_t)blockIdx.x < x_blocks;
    const halves_tensor &t = of_x ? x : y;
    const int64_t first = ((int64_t)blockIdx.x - (of_x ? 0 : x_blocks)) * UF_BLOCK + threadIdx.x;
    const int64_t step = (int64_t)(of_x ? x_blocks : (int32_t)gridDim.x - x_blocks) * UF_BLOCK;
    uint32_t most = 0;
    if (t.dense) {
        const int64_t words = t.elements / 4;
        const bool aligned = (uintptr_t)t.data % 16 == 0;
        const double apart = t.all ? 1.0 : (double)words / (double)t.count;
#pragma unroll 4
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t word = t.all ? i : (int64_t)((double)i * apart);
            const float *const at = t.data + 4 * word;
            if (aligned) {
                const float4 four = *(const float4 *)at;
                most = max(max(most, halves_size(four.x)), halves_size(four.y));
                most = max(max(most, halves_size(four.z)), halves_size(four.w));
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    most = max(most, halves_size(at[j]));
                }
            }
        }
        if (first < t.elements - 4 * words) {
            most = max(most, halves_size(t.data[4 * words + first]));
        }
    } else {
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t element =
                t.all ? i : (int64_t)((double)i * ((double)t.elements / (double)t.count));
            const uf_position<int64_t> at =
                uf_locate<int64_t>(element, t.extent[1], t.extent[2], t.extent[3]);
            most = max(most, halves_size(t.data[at.n * t.stride[0] + at.c * t.stride[1] +
                                                at.h * t.stride[2] + at.w * t.stride[3]]));
        }
    }
    const uf_halves_range range = {most, 0xffffffffu};
    most = uf_halves_warp(range).largest;
    if (most != 0 && (threadIdx.x & 31) == 0) {
        atomicMax(&state->most[of_x ? 0 : 1], most);
    }
}

/* ---- packing ---- */

/* All threads of a block: block `block` of conv_blocks_count, big halves and small ones apart. */
static __device__ __forceinline__ void halves_make(const conv_blocks &b, float scale, int32_t block,
                                                   halves_state *state) {
    halves_lost lost(scale);
    conv_blocks_make<UF_MATH_HALVES, float, true>(b, block, scale, lost);
    if (__any_sync(0xffffffffu, lost.tiny != 0)) {
        lost.tell(state);
    }
}

/* The first blocks make x, the others y. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_halves_pack(const __grid_constant__ conv_blocks x,
                           const __grid_constant__ conv_blocks y, int32_t x_blocks, bool x_all,
                           bool y_all, halves_state *state) {
    const int32_t block = (int32_t)blockIdx.x;
    uf_launch_dependents();
    uf_wait_for_launcher();
    if (block < x_blocks) {
        halves_make(x, halves_scale(__ldcg(&state->most[0]), x_all), block, state);
    } else {
        halves_make(y, halves_scale(__ldcg(&state->most[1]), y_all), block - x_blocks, state);
    }
}

#endif
