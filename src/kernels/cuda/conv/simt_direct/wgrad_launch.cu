/* wgrad_launch.cu - conv_wgrad by FFMAs, f32 and bf16 tensors (sums in f32): few channels,
 * groups, depthwise, large strides.
 *
 * A block has a tile of w in registers and walks its share of the pixels in boxes: y and the x that
 * some tap reads go to shared memory by cp.async (bf16: through registers), two or three boxes
 * ahead. Lanes are columns (c, r, s) of w, so that a lane's x is one word free of bank conflicts
 * and its y four pixels that the warp shares. Shares follow from the shape; their sums go to the
 * workspace and a second kernel adds them in order and writes w. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/simt_direct/wgrad_mainloop.cuh"
#include "kernels/cuda/conv/simt_direct/wgrad_load.cuh"
#include "kernels/cuda/device/launch.cuh"

template <typename T, int KT, int CT>
static uf_status launch(uf_context *context, const direct_wgrad_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.tiles, (unsigned)plan.splits), DIRECT_THREADS,
                           (size_t)plan.shared_bytes, false, 0};
    UF_TRY(uf_cuda_launch(context, "conv_direct_wgrad", how, conv_direct_wgrad<T, KT, CT>, plan));
    return direct_launch_add<T>(context, plan);
}

template <typename T, int R, int STEP>
static uf_status launch_rows(uf_context *context, const direct_wgrad_plan &plan) {
    const dim3 grid((unsigned)plan.tiles, (unsigned)plan.splits);
    conv_direct_wgrad_rows<T, R, R, STEP>
        <<<grid, DIRECT_THREADS, 0, uf_cuda_stream(context)>>>(plan);
    UF_TRY(uf_cuda_launched(context, "conv_direct_wgrad_rows"));
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

extern "C" size_t uf_cuda_conv_wgrad_direct_workspace(uf_conv_direction,
                                                      const uf_conv_kernel_args *args) {
    direct_wgrad_plan plan;
    return uf_direct_wgrad_plan_of(args, &plan) ? uf_direct_wgrad_workspace(&plan) : 0;
}

extern "C" uf_status uf_cuda_conv_wgrad_direct(uf_context *context, uf_conv_direction,
                                               const uf_conv_kernel_args *args) {
    direct_wgrad_plan plan;
    if (!uf_direct_wgrad_plan_of(args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_direct_wgrad has no plan for these arguments");
    }
    return args->x.dtype == UF_BF16 ? launch_tile<uint16_t>(context, plan)
                                    : launch_tile<float>(context, plan);
}
