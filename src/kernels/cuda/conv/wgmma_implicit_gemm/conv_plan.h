/* conv_plan.h - launches by a geometry that is planned already, for fallbacks, and their workspace.
 */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_CONV_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_CONV_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"

UF_BEGIN_DECLS

/* 3xF16 tiles, and the same tiles in 3xTF32 for those whose range flag is set. */
typedef struct uf_wgmma_split_f16_plan {
    uf_wgmma_geometry geometry, fixup;
} uf_wgmma_split_f16_plan;

/* False where the main loop does not take the problem: types, 32-bit positions and tiles, geometry.
 */
bool uf_wgmma_take(const uf_conv_problem *problem, uf_wgmma_geometry *geometry);

/* launch.cu and launch_split_f16.cu; `canonical` as from uf_wgmma_canonical. */
size_t uf_wgmma_workspace(uf_conv_direction direction, const uf_conv_kernel_args *canonical,
                          const uf_wgmma_geometry *geometry);
size_t uf_wgmma_split_f16_workspace(uf_conv_direction direction,
                                    const uf_conv_kernel_args *canonical,
                                    const uf_wgmma_split_f16_plan *plan);

/* launch.cu. */
uf_status uf_wgmma_run(uf_context *context, const uf_conv_problem *problem,
                       const uf_wgmma_geometry *geometry);

UF_END_DECLS

#endif
