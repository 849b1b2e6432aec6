/* launch.cu - conv_fprop and conv_dgrad for few channels, where memory is the bound.
 *
 * Cells: one step of the written side with all its phases (geometry.h), at one element of the read
 * side per in_step. A block has a tile of cells; the window that they read lies in shared memory,
 * loaded once, and a filter tap is an offset into it that is the same for all cells: lanes are
 * neighbouring cells of the padded rows, so addresses differ by constants and no bank conflict
 * occurs. A value that is read feeds the column phases that share it and some channels: L x C
 * multiply-adds per value, P x L x C sums in a lane's registers. Row phases go one after the other;
 * those without taps are filled with the epilogue of 0.
 *
 * Way out: with one column phase, lanes hold neighbours. With more, a warp passes a pair of
 * channels through shared memory so that it writes runs of neighbours. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/depthwise/launch.h"
#include "kernels/cuda/conv/simt_direct/launch.h"

extern "C" uf_status uf_cuda_conv_direct(uf_context *context, uf_conv_direction direction,
                                         const uf_conv_kernel_args *args) {
    uf_depthwise_plan depthwise;
    if (uf_depthwise_plan_of(direction, args, &depthwise)) {
        return args->x.dtype == UF_BF16 ? uf_cuda_conv_depthwise_bf16(context, &depthwise)
                                        : uf_cuda_conv_depthwise(context, &depthwise);
    }
    uf_direct_plan plan;
    if (!uf_direct_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_direct does not take these arguments");
    }
    return args->x.dtype == UF_BF16 ? uf_direct_launch_bf16(context, &plan)
                                    : uf_direct_launch_f32(context, &plan);
}
