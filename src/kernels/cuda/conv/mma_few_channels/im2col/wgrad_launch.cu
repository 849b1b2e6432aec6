/* wgrad_launch.cu - conv_wgrad for few channels on tensor cores (mma.sync): bound by memory.
 *
 * A GEMM: rows are columns of w, 16 channels and taps; columns are 8 channels of y;
 * the depth is pixels. So 8 channels of y fill a tensor core, where conv_wgrad_mma pads them to 16.
 * A block walks boxes of pixels; the rows of x that some tap reads and those of y come as they lie
 * in memory, in aligned copies of 16 bytes, one or two boxes ahead: no copy is made for a stride,
 * an element's width or a row that is not aligned (im2col/wgrad_plan.h). Operands are gathered
 * from there, by elements, and rounded or split in registers. bf16 tensors are multiplied as they
 * are. FP32 is three TF32 MMAs, each 8 pixels summed alone.
 *
 * Shares of the pixels follow from the shape; conv_direct_wgrad_add adds their sums in order,
 * repairs what is not finite and writes w. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static wgrad_im2col_args arguments(const uf_conv_kernel_args *args,
                                   const uf_wgrad_im2col_plan &im2col) {
    wgrad_im2col_args made;
    made.im2col = im2col;
    direct_wgrad_begin(args, &made.sums);
    direct_wgrad_plan &p = made.sums;
    p.lanes_g = 1;
    p.tile_k = im2col.n * 8;
    p.tile_c = im2col.tile_c;
    p.tile_taps = p.taps;
    p.columns = (im2col.tile_c * p.taps + 3) / 4 * 4;
    p.tiles_g = p.groups;
    p.tiles_k = im2col.tiles_k;
    p.tiles_c = im2col.tiles_c;
    p.tiles_t = 1;
    p.tiles = p.tiles_g * p.tiles_k * p.tiles_c;
    p.splits = im2col.splits;
    direct_choose_adders(p);
    return made;
}

template <typename T, uf_mma_math MATH, int N, int M>
static uf_status launch(uf_context *context, const wgrad_im2col_args &args) {
    typedef wgrad_im2col_tile<T, MATH, N, M> Tile;
    const uf_launch how = {dim3((unsigned)args.sums.tiles, (unsigned)args.sums.splits),
                           args.im2col.warps_m * args.im2col.warps_p * 32,
                           (size_t)args.im2col.shared, false, 0};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_im2col", how, conv_wgrad_im2col<Tile>, args));
    return direct_launch_add<T>(context, args.sums);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_tile(uf_context *context, const wgrad_im2col_args &args) {
    constexpr int LOW = MATH == UF_MMA_TF32X3 ? 2 : 3, HIGH = MATH == UF_MMA_TF32X3 ? 2 : 5;
    const int32_t m = args.im2col.m;
    switch (args.im2col.n) {
    case 1:
        return m == 8 ? launch<T, MATH, 1, 8>(context, args) : launch<T, MATH, 1, 4>(context, args);
    case 2:
        return m == 6 ? launch<T, MATH, 2, 6>(context, args) : launch<T, MATH, 2, 3>(context, args);
    default:
        return m == HIGH ? launch<T, MATH, 4, HIGH>(context, args)
                         : launch<T, MATH, 4, LOW>(context, args);
    }
}

extern "C" size_t uf_cuda_conv_wgrad_im2col_workspace(uf_conv_direction,
                                                      const uf_conv_kernel_args *args) {
    uf_wgrad_im2col_plan plan;
    return uf_wgrad_im2col_plan_of(args, &plan) ? direct_wgrad_workspace(arguments(args, plan).sums)
                                                : 0;
}

extern "C" uf_status uf_cuda_conv_wgrad_im2col(uf_context *context, uf_conv_direction,
                                               const uf_conv_kernel_args *args) {
    uf_wgrad_im2col_plan plan;
    if (!uf_wgrad_im2col_plan_of(args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_im2col does not take these arguments");
    }
    const wgrad_im2col_args made = arguments(args, plan);
    return args->x.dtype == UF_BF16     ? launch_tile<uint16_t, UF_MMA_BF16>(context, made)
           : args->math == UF_MATH_FP32 ? launch_tile<float, UF_MMA_TF32X3>(context, made)
           : args->math == UF_MATH_TF32 ? launch_tile<float, UF_MMA_TF32>(context, made)
                                        : launch_tile<float, UF_MMA_BF16>(context, made);
}
