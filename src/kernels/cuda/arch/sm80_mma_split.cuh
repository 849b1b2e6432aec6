/* sm80_mma_split.cuh - FP32 by three TF32 MMAs, and when the result must be made another way. */
#ifndef UF_KERNELS_CUDA_ARCH_SM80_MMA_SPLIT_CUH
#define UF_KERNELS_CUDA_ARCH_SM80_MMA_SPLIT_CUH

#include <cfloat>

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/arch/sm80_mma.cuh"

/* x = big + small to 22 bits. The tensor core ignores the 13 low bits of a word, so adding half of
 * what the lowest kept bit is worth rounds; a NaN is kept by `big`. */
static __device__ __forceinline__ void mma_split_tf32(float x, uint32_t *big, uint32_t *small) {
    *big = uf_round_tf32(x);
    *small = __float_as_uint(x - __uint_as_float(*big)) + 0x1000u;
}

/* The same where cvt.rna, three instructions and more on 9.0, is too slow: big by an integer sum
 * and a mask; small as it is, and the tensor core drops its low bits. Whatever is not finite, or
 * rounds to an infinity, makes at least one half that is not finite. */
static __device__ __forceinline__ void mma_split_tf32_by_bits(float x, uint32_t *big,
                                                              uint32_t *small) {
    *big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    *small = __float_as_uint(x - __uint_as_float(*big));
}

/* big by Veltkamp's split, in arithmetic that is twice as fast as that on bits; x above FLT_MAX /
 * 8193 makes it NaN. */
static __device__ __forceinline__ void mma_split_tf32_by_mmas(float x, uint32_t *big,
                                                              uint32_t *small) {
    const float scaled = __fmul_rn(x, 8193.0f);
    const float rounded = __fsub_rn(scaled, __fsub_rn(scaled, x));
    *big = __float_as_uint(rounded);
    *small = __float_as_uint(__fsub_rn(x, rounded)) + 0x1000u;
}

/* To nearest in TF32: the tensor core ignores the 13 low bits of a word, which cvt.rna would clear.
 */
static __device__ __forceinline__ uint32_t mma_round_by_bits(float x) {
    const uint32_t bits = __float_as_uint(x);
    return fabsf(x) < __int_as_float(0x7f800000) ? bits + 0x1000u : bits;
}

/* Infinities, and inputs that round to one, make three rounded MMAs NaN where a chain of FFMAs
 * is not. */
static __device__ __forceinline__ bool mma_finite(float value) {
    return fabsf(value) <= FLT_MAX;
}

/* 16 bytes of K as the MMAs take them: 4 values rounded to TF32, 8 rounded to bf16, or (FP32)
 * the big halves of 4 and their small ones. */
template <uf_mma_math MATH>
static __device__ __forceinline__ void mma_words(const float *values, uint4 *words, uint4 *small) {
    uint32_t word[4], rest[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (MATH == UF_MMA_TF32X3) {
            mma_split_tf32(values[i], &word[i], &rest[i]);
        } else if (MATH == UF_MMA_TF32) {
            word[i] = uf_round_tf32(values[i]);
        } else {
            word[i] = uf_pack_bf16(values[2 * i], values[2 * i + 1]);
        }
    }
    *words = make_uint4(word[0], word[1], word[2], word[3]);
    *small = make_uint4(rest[0], rest[1], rest[2], rest[3]);
}

#endif
