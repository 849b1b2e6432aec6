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

/* Infinities, and inputs that round to one, make three rounded products NaN where a chain of FFMAs
 * is not. */
static __device__ __forceinline__ bool mma_finite(float value) {
    return fabsf(value) <= FLT_MAX;
}

/* 16 bytes of K as the products take them: 4 values rounded to TF32, 8 rounded to bf16, or (FP32)
 * the big halves of 4 and their small ones. */
template <uf_math MATH>
static __device__ __forceinline__ void mma_words(const float *values, uint4 *words, uint4 *small) {
    uint32_t word[4], rest[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (MATH == UF_MATH_FP32) {
            mma_halves(values[i], &word[i], &rest[i]);
        } else if (MATH == UF_MATH_TF32) {
            word[i] = uf_round_tf32(values[i]);
        } else {
            word[i] = uf_pack_bf16(values[2 * i], values[2 * i + 1]);
        }
    }
    *words = make_uint4(word[0], word[1], word[2], word[3]);
    *small = make_uint4(rest[0], rest[1], rest[2], rest[3]);
}

#endif
