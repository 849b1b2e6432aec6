/* wgrad_launch.cu - weight gradient of few channels on tensor cores (mma.sync).
 *
 * Computes: conv_wgrad.
 * Shapes and limits: columns of x are contiguous; at most 1024 taps and a column stride of 64; some
 *   box of pixels fits shared memory twice.
 * GEMM mapping: M = channels of x times taps, in blocks of 16; N = channels of y, in blocks of 8; K
 *   = pixels. So 8 channels of y fill an MMA, where mma_implicit_gemm pads them to 16.
 * Data path: a block walks boxes of pixels. The rows of x and y that a box reads come unconverted
 *   by 16-byte cp.async, one or two boxes ahead, whatever the stride or the alignment
 *   (im2col/wgrad_plan.h). Operands are gathered from there by elements and rounded or split in
 *   registers.
 * Precision: FP32 is 3xTF32, each 8 pixels summed alone; TF32 and BF16 are one MMA; bf16 tensors
 *   are multiplied as they are. The reduction computes sums that are not finite again by FFMAs.
 * Split and order of sums: the shape alone splits the pixels; conv_direct_wgrad_add adds the splits
 *   in order and writes w.
 * Bound by: memory.
 * Chosen when: few channels meet short rows, long strides or other filters than row_stream's.
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

template <typename T, uf_mma_math MATH, int N, int M>
static uf_status launch(uf_context *context, const wgrad_im2col_args &args) {
    typedef wgrad_im2col_tile<T, MATH, N, M> Tile;
    const uf_launch how = {dim3((unsigned)args.sums.tiles, (unsigned)args.sums.splits),
                           args.im2col.warps_m * args.im2col.warps_p * 32,
                           (size_t)args.im2col.shared};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_im2col", how, conv_wgrad_im2col<Tile>, args));
    return direct_launch_add<T>(context, args.sums);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_tile(uf_context *context, const wgrad_im2col_args &args) {
    constexpr int LOW = MATH == UF_MMA_TF32X3 ? 2 : 3, HIGH = MATH == UF_MMA_TF32X3 ? 2 : 5;
    switch (args.im2col.n) {
    case 1:
        return launch<T, MATH, 1, 4>(context, args);
    case 2:
        return launch<T, MATH, 2, 3>(context, args);
    default:
        return args.im2col.m == HIGH ? launch<T, MATH, 4, HIGH>(context, args)
                                     : launch<T, MATH, 4, LOW>(context, args);
    }
}

extern "C" uf_status uf_conv_launch_mma_im2col_wgrad(uf_context *context,
                                                     const uf_conv_problem *problem,
                                                     const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    wgrad_im2col_args made;
    made.im2col = *UF_CONV_CONST_PLAN_OF(uf_wgrad_im2col_plan, plan);
    uf_direct_wgrad_begin_tiles(args, made.im2col.n * 8, made.im2col.tile_c,
                                uf_wgrad_im2col_columns(&made.im2col), made.im2col.splits,
                                &made.sums);
    return args->x.dtype == UF_BF16     ? launch_tile<uint16_t, UF_MMA_BF16>(context, made)
           : args->math == UF_MATH_FP32 ? launch_tile<float, UF_MMA_TF32X3>(context, made)
           : args->math == UF_MATH_TF32 ? launch_tile<float, UF_MMA_TF32>(context, made)
                                        : launch_tile<float, UF_MMA_BF16>(context, made);
}
