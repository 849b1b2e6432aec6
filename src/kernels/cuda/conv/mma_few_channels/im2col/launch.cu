/* launch.cu - conv_fprop and conv_dgrad for few channels on tensor cores (mma.sync).
 *
 * A GEMM: rows are cells (one step of the written side with all its phases), columns
 * are written channels times live phases, the depth is everything that a cell reads: read channels
 * times different offsets, with zero weights where a phase does not read at an offset. Column
 * phases of few channels thus fill a tensor core that neither phase could, and what all phases read
 * is loaded and rounded once.
 *
 * Blocks are persistent and keep their weights in shared memory, in the order of fragments. The
 * window of a tile of cells comes as it lies in memory, one ahead: in aligned copies of 16, 8 or 4
 * bytes, or, where lines are long, by `cp.async.bulk` copies of whole lines, which then lie as in
 * memory modulo 16 bytes. The block goes over it once and makes records: 16 bytes of the depth side
 * by side, rounded (TF32), in bf16, or as they are (FP32, whose halves are made in registers). A
 * fragment of 16 cells and two such units is one ldmatrix, wherever the cells are: neighbours of a
 * unit are 16 bytes apart, an odd number of times that for every stride. FP32 is three TF32
 * MMAs, each 8 of the depth summed alone; TF32 is one, and so is BF16, of 16 of the depth.
 * Results meet in shared memory as elements, at the same places modulo 16 bytes as in memory, and
 * leave by `cp.async.bulk` copies of whole sectors; with an activation, or added to what is there,
 * as floats and by rows of the tile. Where a sum is not finite, the block makes a slice of a tile
 * again one by one.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/launch.h"

extern "C" uf_status uf_cuda_conv_im2col(uf_context *context, uf_conv_direction direction,
                                         const uf_conv_kernel_args *args) {
    uf_im2col_plan plan;
    if (!uf_im2col_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_im2col does not take these arguments");
    }
    uf_im2col_launch_type *const launch = args->x.dtype == UF_BF16     ? uf_im2col_launch_bf16
                                          : args->math == UF_MATH_FP32 ? uf_im2col_launch_fp32
                                          : args->math == UF_MATH_TF32 ? uf_im2col_launch_tf32
                                                                       : uf_im2col_launch_f32_bf16;
    return launch(context, &plan);
}
