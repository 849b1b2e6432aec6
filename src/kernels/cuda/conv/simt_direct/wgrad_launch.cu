/* wgrad_launch.cu - main loop "wgrad" of simt_direct.
 *
 * Computes: wgrad of few channels, groups, depthwise layers and large strides.
 * Shapes and limits: filters up to 11 x 11; offsets within a box fit 32 bits. f32 and bf16.
 * GEMM mapping: M = k, N = (c, r, s), K = pixels of y. A block has a tile of w in registers and
 *     walks its share of the pixels in boxes (wgrad_plan.h).
 * Data path: y and the x that some tap reads go to shared memory by cp.async (bf16: through
 *     registers), one or two boxes ahead. Lanes are columns of w: a lane's x is one word free
 *     of bank conflicts, its y four pixels that the warp shares. Groups of one or two pairs (k,
 *     c) stay in registers (wgrad_load.cuh).
 * Precision: FFMA in f32; bf16 tensors are rounded once. Sums that are not finite are computed
 *     again from the tensors.
 * Split and order of sums: splits follow from the shape alone; a second kernel adds them in
 *     order, by two-sums.
 * Bound by: FFMAs and shared memory; memory for depthwise layers.
 * Chosen when: the cost of its multiply-adds is the least of all variants'.
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/simt_direct/wgrad_mainloop.cuh"
#include "kernels/cuda/conv/simt_direct/wgrad_load.cuh"
#include "kernels/cuda/device/launch.cuh"

template <typename T>
uf_status direct_launch_add(uf_context *context, const direct_wgrad_plan &plan) {
    const int64_t threads = UF_BLOCK / plan.adders;
    const int64_t units = plan.size / 4 / plan.adder_rows;
    const unsigned blocks = (unsigned)(plan.tiles * uf_div_up(units, threads));
    const uf_launch how = {dim3(blocks), UF_BLOCK};
    return uf_cuda_launch(context, "conv_direct_wgrad_add", how, conv_direct_wgrad_add<T>, plan);
}

template uf_status direct_launch_add<float>(uf_context *, const direct_wgrad_plan &);
template uf_status direct_launch_add<uint16_t>(uf_context *, const direct_wgrad_plan &);

template <typename T, int KT, int CT>
static uf_status launch(uf_context *context, const direct_wgrad_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.tiles, (unsigned)plan.splits), DIRECT_THREADS,
                           (size_t)plan.shared_bytes};
    UF_TRY(uf_cuda_launch(context, "conv_direct_wgrad", how, conv_direct_wgrad<T, KT, CT>, plan));
    return direct_launch_add<T>(context, plan);
}

template <typename T, int R, int STEP>
static uf_status launch_rows(uf_context *context, const direct_wgrad_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.tiles, (unsigned)plan.splits), DIRECT_THREADS};
    UF_TRY(uf_cuda_launch(context, "conv_direct_wgrad_rows", how,
                          conv_direct_wgrad_rows<T, R, R, STEP>, plan));
    return direct_launch_add<T>(context, plan);
}

template <typename T, int R>
static uf_status launch_rows_step(uf_context *context, const direct_wgrad_plan &plan) {
    return plan.rows_step == 1 ? launch_rows<T, R, 1>(context, plan)
                               : launch_rows<T, R, 2>(context, plan);
}

template <typename T>
static uf_status launch_tile(uf_context *context, const direct_wgrad_plan &plan) {
    if (plan.rows) {
        return plan.taps_w == 3   ? launch_rows_step<T, 3>(context, plan)
               : plan.taps_w == 4 ? launch_rows_step<T, 4>(context, plan)
                                  : launch_rows_step<T, 5>(context, plan);
    }
#define UF_DIRECT_WGRAD_TILE(ID, KT, CT)                                                           \
    if (plan.tile_id == ID) {                                                                      \
        return launch<T, KT, CT>(context, plan);                                                   \
    }
    UF_DIRECT_WGRAD_TILES
#undef UF_DIRECT_WGRAD_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_direct_wgrad has no tile %d", plan.tile_id);
}

extern "C" uf_status uf_conv_launch_simt_direct_wgrad(uf_context *context,
                                                      const uf_conv_problem *problem,
                                                      const uf_conv_plan *chosen) {
    const uf_conv_kernel_args *args = problem->args;
    direct_wgrad_plan plan = *UF_CONV_CONST_PLAN_OF(direct_wgrad_plan, chosen);
    plan.x = args->x.data;
    plan.y = args->y.data;
    plan.w = args->w.data;
    plan.partial = (float *)args->workspace;
    return args->x.dtype == UF_BF16 ? launch_tile<uint16_t>(context, plan)
                                    : launch_tile<float>(context, plan);
}
