/* mma_split.cuh - FP32 by three TF32 products, and when the result must be made another way. */
#ifndef UF_KERNELS_CUDA_MMA_SPLIT_CUH
#define UF_KERNELS_CUDA_MMA_SPLIT_CUH

#include <cfloat>

#include "kernels/cuda/mma.cuh"

/* x = big + small to 22 bits. The tensor core ignores the 13 low bits of a word, so adding half of
 * what the lowest kept bit is worth rounds; a NaN is kept by `big`. */
static __device__ __forceinline__ void mma_halves(float x, uint32_t *big, uint32_t *small) {
    *big = uf_round_tf32(x);
    *small = __float_as_uint(x - __uint_as_float(*big)) + 0x1000u;
}

/* Infinities, and inputs that round to one, make three rounded products NaN where a chain of FFMAs is not. */
static __device__ __forceinline__ bool mma_finite(float value) {
    return fabsf(value) <= FLT_MAX;
}

#endif
