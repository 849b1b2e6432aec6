/* launch.cu - main loop "depthwise" of simt_direct.
 *
 * Computes: fprop and dgrad of groups with few channels, where moving memory is all there is to
 *     do.
 * Shapes and limits: one to four channels of a group on either side; square filters up to 7 and
 *     steps of 1 or 2 that plan.h lists; no dilation; dense rows. f32 and bf16.
 * GEMM mapping: none. A thread computes 4 or 8 rows of 1 to 8 neighbours of one channel, all
 *     column phases, so that a warp writes runs.
 * Data path: global memory to registers, as vectors where rows are aligned; all loads of a
 *     thread are independent. Neighbouring threads find what they share in the first-level
 *     cache. Short rows, and elements without vectors, are stored through shared memory: a
 *     block's as one range.
 * Precision: FFMA in f32; bf16 tensors are rounded once. A thread whose sums are not finite
 *     computes its elements again, one by one.
 * Split and order of sums: no split; channels, then rows of the window, then its columns.
 * Bound by: memory.
 * Chosen when: it takes the problem and the time of its tensors (gpu_h200.def) is the least.
 */
#include "kernels/cuda/conv/depthwise/launch.h"
#include "kernels/cuda/conv/registry.h"

extern "C" uf_status uf_conv_launch_simt_depthwise(uf_context *context,
                                                   const uf_conv_problem *problem,
                                                   const uf_conv_plan *chosen) {
    uf_depthwise_plan plan = *UF_CONV_CONST_PLAN_OF(uf_depthwise_plan, chosen);
    uf_direct_describe(&plan.depthwise.conv, problem->args, problem->direction == UF_CONV_DGRAD);
    return problem->args->x.dtype == UF_BF16 ? uf_depthwise_launch_bf16(context, &plan)
                                             : uf_depthwise_launch_f32(context, &plan);
}
