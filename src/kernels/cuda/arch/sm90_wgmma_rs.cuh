/* sm90_wgmma_rs.cuh - `wgmma` with operand A in registers. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_WGMMA_RS_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_WGMMA_RS_CUH

#include "kernels/cuda/arch/sm90_wgmma.cuh"

#if UF_HAS_WGMMA

/* run(d, a, b, add): as uf_wgmma_mma, with a in registers. */
template <typename Type, int N>
struct uf_wgmma_mma_rs;

#define UF_WGMMA_F4(d, i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define UF_WGMMA_F16(d, i)                                                                         \
    UF_WGMMA_F4(d, i), UF_WGMMA_F4(d, (i) + 4), UF_WGMMA_F4(d, (i) + 8), UF_WGMMA_F4(d, (i) + 12)
#include "kernels/cuda/arch/sm90_wgmma_mma_rs.inc"
#undef UF_WGMMA_F16
#undef UF_WGMMA_F4

#endif

#endif
