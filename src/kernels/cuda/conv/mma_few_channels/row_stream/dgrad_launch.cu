/* dgrad_launch.cu - conv_dgrad of few channels and long rows, as fast as
 * memory takes what is written (compute capability 9.0).
 *
 * A block has a multiprocessor for itself and walks down a run of rows. Warps have roles. Producer
 * warps bring each line that is read once, as records of 16 bytes of the depth, rounded or halved.
 * Product warps take tiles of a row by turns (mma.sync): rows of a MMA are written channels,
 * columns are cells. Writers send a row when all its tiles are staged. Rows of a plane follow each
 * other in memory, so what a row leaves of a sector is the begin of the next one's first: whole
 * sectors alone are written but at a run's ends. Rows without taps come from lines of constants.
 * FP32 is three TF32 MMAs of halves, each 8 of the depth summed alone. Where a sum of a tile is
 * not finite, its warp makes the tile again one by one.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_row_stream_dgrad_conv) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH, int L>
static uf_status launch(uf_context *context, const uf_row_stream_dgrad_plan &plan) {
    typedef row_stream_dgrad_tile<T, MATH, L> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, plan.shared, false, 0};
    return uf_cuda_launch(context, "conv_row_stream_dgrad", how, conv_row_stream_dgrad<Tile>,
                          plan.stream);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_phases(uf_context *context, const uf_row_stream_dgrad_plan &plan) {
    switch (plan.phases) {
    case 1:
        return launch<T, MATH, 1>(context, plan);
    case 2:
        return launch<T, MATH, 2>(context, plan);
    case 3:
        return launch<T, MATH, 3>(context, plan);
    default:
        return launch<T, MATH, 4>(context, plan);
    }
}

extern "C" uf_status uf_cuda_conv_row_stream_dgrad(uf_context *context, uf_conv_direction direction,
                                                   const uf_conv_kernel_args *args) {
    uf_row_stream_dgrad_plan plan;
    if (!uf_row_stream_dgrad_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_row_stream_dgrad does not take these arguments");
    }
    return args->x.dtype == UF_BF16     ? launch_phases<__nv_bfloat16, UF_MMA_BF16>(context, plan)
           : args->math == UF_MATH_FP32 ? launch_phases<float, UF_MMA_TF32X3>(context, plan)
           : args->math == UF_MATH_TF32 ? launch_phases<float, UF_MMA_TF32>(context, plan)
                                        : launch_phases<float, UF_MMA_BF16>(context, plan);
}
