/* pack.cuh - the scales of split_f16/launch.cu, and its channel-blocked tensors of f16 parts. It
 * counts elements that are too small for these. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PACK_CUH

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/mainloop.cuh"
#include "kernels/cuda/arch/split_f16.cuh"

enum {
    SPLIT_F16_TOP_SAMPLED = 10, /* exponent of the largest element of a sample, scaled */
    SPLIT_F16_LEAST = -14,      /* exponent of the least that has all bits: errors of smaller ones
                                   are up to 2^-37 */
    SPLIT_F16_MOST_POWER = 112  /* largest log2 of a scale: the least element is then no denormal */
};
static_assert(SPLIT_F16_LEAST - SPLIT_F16_MOST_POWER == -126, "an exponent of f32");

/* State that the kernels of a call share; zero at first. */
struct split_f16_state {
    uint32_t most[2]; /* bits of the largest element seen of x and y */
    uint32_t fixup;   /* some span is marked */
    uint32_t unused;
    unsigned long long tiny; /* elements that lost bits: small, but not zero */
};

/* A tensor whose largest element is sought. */
struct split_f16_tensor {
    const float *data;
    int64_t extent[4], stride[4];
    int64_t elements;
    int64_t count; /* reads: words of four elements (dense), or elements */
    bool dense;    /* one span of memory */
    bool all;      /* read whole, not sampled */
};

/* log2 of a tensor's scale. It leaves room for elements 16 times as large as those of a sample. */
static __device__ __forceinline__ int32_t split_f16_power(uint32_t most, bool all) {
    const int32_t top = all ? UF_SPLIT_F16_TOP : SPLIT_F16_TOP_SAMPLED;
    return most == 0 ? 0 : min(top - uf_split_f16_exponent(most), SPLIT_F16_MOST_POWER);
}

static __device__ __forceinline__ float split_f16_scale(uint32_t most, bool all) {
    return __uint_as_float(uf_split_f16_power(split_f16_power(most, all)));
}

/* Counts elements too small for their parts. They are compared before the scale, by which some
 * become zero. */
struct split_f16_lost {
    uint32_t tiny;  /* elements so far */
    uint32_t bound; /* those count whose bits, less one, are below it */

    __device__ __forceinline__ explicit split_f16_lost(float scale) {
        tiny = 0;
        bound = uf_split_f16_power(SPLIT_F16_LEAST) + uf_split_f16_power(0) -
                __float_as_uint(scale) - 1;
    }

    /* No branches: it runs among MMAs. */
    template <int COUNT>
    __device__ __forceinline__ void see(const float (&value)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            tiny += (__float_as_uint(value[i]) & 0x7fffffffu) - 1 < bound ? 1 : 0;
        }
    }

    /* All lanes of a warp. */
    __device__ __forceinline__ void tell(split_f16_state *state) const {
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

static __device__ __forceinline__ uint32_t split_f16_size(float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

/* A kernel, because behind a memset the next one could not start early. */
static __global__ void conv_wgrad_split_f16_clear(split_f16_state *state) {
    uf_overlap_launches();
    *state = split_f16_state{};
}

/* The largest finite element of each tensor, or of a sample of it: the first blocks read x. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_split_f16_most(const __grid_constant__ split_f16_tensor x,
                              const __grid_constant__ split_f16_tensor y, int32_t x_blocks,
                              split_f16_state *state) {
    uf_overlap_launches();
    const bool of_x = (int32_t)blockIdx.x < x_blocks;
    const split_f16_tensor &t = of_x ? x : y;
    const int64_t first = ((int64_t)blockIdx.x - (of_x ? 0 : x_blocks)) * UF_BLOCK + threadIdx.x;
    const int64_t step = (int64_t)(of_x ? x_blocks : (int32_t)gridDim.x - x_blocks) * UF_BLOCK;
    uint32_t most = 0;
    if (t.dense) {
        const int64_t words = t.elements / 4;
        const bool aligned = (uintptr_t)t.data % 16 == 0;
        const double patch = t.all ? 1.0 : (double)words / (double)t.count;
#pragma unroll 4
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t word = t.all ? i : (int64_t)((double)i * patch);
            const float *const at = t.data + 4 * word;
            if (aligned) {
                const float4 four = *(const float4 *)at;
                most = max(max(most, split_f16_size(four.x)), split_f16_size(four.y));
                most = max(max(most, split_f16_size(four.z)), split_f16_size(four.w));
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    most = max(most, split_f16_size(at[j]));
                }
            }
        }
        if (first < t.elements - 4 * words) {
            most = max(most, split_f16_size(t.data[4 * words + first]));
        }
    } else {
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t element =
                t.all ? i : (int64_t)((double)i * ((double)t.elements / (double)t.count));
            const uf_position<int64_t> at =
                uf_locate<int64_t>(element, t.extent[1], t.extent[2], t.extent[3]);
            most = max(most, split_f16_size(t.data[at.n * t.stride[0] + at.c * t.stride[1] +
                                                   at.h * t.stride[2] + at.w * t.stride[3]]));
        }
    }
    const uf_split_f16_range range = {most, 0xffffffffu};
    most = uf_split_f16_warp(range).largest;
    if (most != 0 && (threadIdx.x & 31) == 0) {
        atomicMax(&state->most[of_x ? 0 : 1], most);
    }
}

/* ---- packing ---- */

/* For all threads: block `block` of channel_blocked_count, big and small parts in separate tensors.
 */
static __device__ __forceinline__ void split_f16_make(const channel_blocked &b, float scale,
                                                      int32_t block, split_f16_state *state) {
    split_f16_lost lost(scale);
    channel_blocked_make<UF_MMA_F16X3, float, true>(b, block, scale, lost);
    if (__any_sync(0xffffffffu, lost.tiny != 0)) {
        lost.tell(state);
    }
}

/* The first x_blocks blocks pack x, the others y. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_split_f16_pack(const __grid_constant__ channel_blocked x,
                              const __grid_constant__ channel_blocked y, int32_t x_blocks,
                              bool x_all, bool y_all, split_f16_state *state) {
    const int32_t block = (int32_t)blockIdx.x;
    uf_launch_dependents();
    uf_wait_for_launcher();
    if (block < x_blocks) {
        split_f16_make(x, split_f16_scale(__ldcg(&state->most[0]), x_all), block, state);
    } else {
        split_f16_make(y, split_f16_scale(__ldcg(&state->most[1]), y_all), block - x_blocks, state);
    }
}

#endif
