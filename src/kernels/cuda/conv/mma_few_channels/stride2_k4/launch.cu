/* launch.cu - conv_fprop and conv_dgrad of few channels of x, filters of 4 x 4 and 3 x 3 and
 * strides of 2: the last layer of a generator and the first of a discriminator (compute capability
 * 9.0).
 *
 * Memory bounds them, so each row of y comes, or goes, by TMA loads and nothing is rearranged:
 * a warp takes rows of 32 pixels with all channels by itself, in a ring of its own. In dgrad it
 * multiplies each pixel with all taps of all channels of x (im2col's matrix, transposed) and adds
 * what meets: rows by what the warp with the row before it has kept, columns by a shuffle; a block
 * makes the row before its first again. In fprop taps are read from a window on x, and rows leave
 * by TMA loads. Weights come once, to registers; FP32 is three TF32 MMAs of halves, 8 of
 * the depth summed alone, and has its weights in shared memory. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/dgrad_mainloop.cuh"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/fprop_mainloop.cuh"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/launch.cuh"

static_assert(sizeof(uf_stride2_k4_plan) + 2 * sizeof(CUtensorMap) <= 4000, "kernel parameters");

struct stride2_k4_call {
    uf_context *context;
    uf_conv_direction direction;
    const uf_conv_kernel_args *args;
    const uf_stride2_k4_plan &plan;

    template <typename Tile>
    uf_status run() const {
        const uf_launch how = stride2_k4_launch(plan);
        CUtensorMap rows, windows;
        const bool dgrad = direction == UF_CONV_DGRAD;
        UF_TRY(stride2_k4_map_rows(context, args->y, dgrad ? Tile::PIECES : 1, &rows));
        if (dgrad) {
            return uf_cuda_launch(context, "conv_stride2_k4_dgrad", how,
                                  conv_stride2_k4_dgrad<Tile>, rows, plan);
        }
        UF_TRY(stride2_k4_map_windows(context, args->x, &windows));
        return uf_cuda_launch(context, "conv_stride2_k4_fprop", how, conv_stride2_k4_fprop<Tile>,
                              windows, rows, plan);
    }
};

extern "C" uf_status uf_cuda_conv_stride2_k4(uf_context *context, uf_conv_direction direction,
                                             const uf_conv_kernel_args *args) {
    uf_stride2_k4_plan plan;
    if (!uf_stride2_k4_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_stride2_k4 does not take these arguments");
    }
    const stride2_k4_call call = {context, direction, args, plan};
    return stride2_k4_by_math<__nv_bfloat16, UF_STRIDE2_K4_F32_WARPS, UF_STRIDE2_K4_BF16_WARPS, 1,
                              UF_STRIDE2_K4_RESIDENT>(args, plan, call);
}
