/* sm90_wgmma_f16.cuh - `wgmma` of f16, accumulated in f32; operands as for bf16. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_WGMMA_F16_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_WGMMA_F16_CUH

#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

#if UF_HAS_WGMMA

struct uf_wgmma_f16; /* K = 16, words hold pairs */

#define UF_WGMMA_F4(d, i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define UF_WGMMA_F16(d, i)                                                                         \
    UF_WGMMA_F4(d, i), UF_WGMMA_F4(d, (i) + 4), UF_WGMMA_F4(d, (i) + 8), UF_WGMMA_F4(d, (i) + 12)
#include "kernels/cuda/arch/sm90_wgmma_mma_f16.inc"
#undef UF_WGMMA_F16
#undef UF_WGMMA_F4

#endif

#endif
