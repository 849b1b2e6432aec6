/* sm80_warp_mma.cuh - the MMAs of a warp for one step of K: M x N fragments of sums. */
#ifndef UF_KERNELS_CUDA_ARCH_SM80_WARP_MMA_CUH
#define UF_KERNELS_CUDA_ARCH_SM80_WARP_MMA_CUH

#include "kernels/cuda/arch/sm80_mma_split.cuh"

/* c += a b. FP32 splits each operand into TF32 parts, the second in a_small and b_small: the tensor
 * core truncates what it adds to, so each step's sum is made alone, small MMAs first, and added by
 * ordinary instructions. */
template <uf_mma_math MATH, int M, int N>
static __device__ __forceinline__ void
mma_warp(const uint32_t (&a)[M][4], const uint32_t (&a_small)[M][4], const uint32_t (&b)[N][2],
         const uint32_t (&b_small)[N][2], float (&c)[M][N][4]) {
    if (MATH == UF_MMA_TF32X3) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            float part[M][4] = {};
#pragma unroll
            for (int mma = 0; mma < 3; ++mma) {
#pragma unroll
                for (int i = 0; i < M; ++i) {
                    uf_mma_tf32(part[i], mma == 0 ? a_small[i] : a[i],
                                mma == 1 ? b_small[j] : b[j]);
                }
            }
#pragma unroll
            for (int i = 0; i < M; ++i) {
#pragma unroll
                for (int reg = 0; reg < 4; ++reg) {
                    c[i][j][reg] += part[i][reg];
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < M; ++i) {
#pragma unroll
            for (int j = 0; j < N; ++j) {
                if (MATH == UF_MMA_BF16) {
                    uf_mma_bf16(c[i][j], a[i], b[j]);
                } else {
                    uf_mma_tf32(c[i][j], a[i], b[j]);
                }
            }
        }
    }
}

#endif
