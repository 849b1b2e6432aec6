/* wgrad_launch.cu - conv_wgrad of few channels of x, filters of 4 x 4 and 3 x 3 and strides
 * of 2, as stride2_k4/launch.cu has fprop and dgrad of them (compute capability 9.0).
 *
 * A warp brings rows of 32 pixels of y with all channels, and the window on x that they meet, as
 * they lie in memory, and has sums of all of w in registers: rows of a MMA are channels of y,
 * its columns taps of channels of x, its depth pixels. In FP32 two warps do, each of half of w.
 *
 * Shares of the pixels follow from the shape; conv_stride2_k4_wgrad_add adds their sums in order,
 * repairs what is not finite and writes w. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/launch.cuh"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/wgrad_mainloop.cuh"

static_assert(sizeof(stride2_k4_wgrad_args) + 2 * sizeof(CUtensorMap) <= 4000, "kernel parameters");

static stride2_k4_wgrad_args arguments(const uf_conv_kernel_args *args,
                                       const uf_stride2_k4_plan &columns) {
    stride2_k4_wgrad_args made;
    made.columns = columns;
    direct_wgrad_begin(args, &made.sums);
    direct_wgrad_plan &p = made.sums;
    p.tiles = 1;
    p.splits = columns.blocks;
    /* Of a block's sums, which lie as fragments have them. */
    p.size = UF_STRIDE2_K4_SMALL * columns.channels * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_FILTER;
    return made;
}

struct stride2_k4_wgrad_call {
    uf_context *context;
    const uf_conv_kernel_args *args;
    const stride2_k4_wgrad_args &made;

    template <typename Tile>
    uf_status run() const {
        CUtensorMap rows, windows;
        UF_TRY(stride2_k4_map_rows(context, args->y, 1, &rows));
        UF_TRY(stride2_k4_map_windows(context, args->x, &windows));
        UF_TRY(uf_cuda_launch(context, "conv_stride2_k4_wgrad", stride2_k4_launch(made.columns),
                              conv_stride2_k4_wgrad<Tile>, rows, windows, made));
        const unsigned blocks = (unsigned)(made.sums.size / 4 / STRIDE2_K4_CELLS);
        const uf_launch how = {dim3(blocks), UF_BLOCK, 0, true, 0};
        return uf_cuda_launch(context, "conv_stride2_k4_wgrad_add", how,
                              conv_stride2_k4_wgrad_add<typename Tile::T, Tile::C>, made.sums);
    }
};

extern "C" size_t uf_cuda_conv_stride2_k4_wgrad_workspace(uf_conv_direction direction,
                                                          const uf_conv_kernel_args *args) {
    uf_stride2_k4_plan plan;
    return uf_stride2_k4_plan_of(direction, args, &plan)
               ? direct_wgrad_workspace(arguments(args, plan).sums)
               : 0;
}

extern "C" uf_status uf_cuda_conv_stride2_k4_wgrad(uf_context *context, uf_conv_direction direction,
                                                   const uf_conv_kernel_args *args) {
    uf_stride2_k4_plan plan;
    if (!uf_stride2_k4_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_stride2_k4_wgrad does not take these arguments");
    }
    const stride2_k4_wgrad_args made = arguments(args, plan);
    const stride2_k4_wgrad_call call = {context, args, made};
    return stride2_k4_by_math<uint16_t, UF_STRIDE2_K4_WGRAD_WARPS, UF_STRIDE2_K4_WGRAD_WARPS,
                              UF_STRIDE2_K4_WGRAD_SHARE, UF_STRIDE2_K4_WGRAD_RESIDENT>(args, plan,
                                                                                       call);
}
