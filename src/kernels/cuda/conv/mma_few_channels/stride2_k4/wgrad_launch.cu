/* wgrad_launch.cu - weight gradient of few channels with 4x4 filters at stride 2 (mma.sync, sm_90).
 *
 * Computes: conv_wgrad.
 * Shapes and limits: as stride2_k4/launch.cu.
 * GEMM mapping: M = channels of y; N = taps of all channels of x; K = pixels.
 * Data path: TMA loads rows of 32 pixels of y with all channels, and the window on x that they
 *   meet, into a warp's ring. The warp keeps the sums of all of w in registers; in FP32 two warps
 *   keep half each.
 * Precision: FP32 is 3xTF32, each 8 pixels summed alone; TF32 and BF16 are one MMA. The reduction
 *   computes sums that are not finite again by FFMAs.
 * Split and order of sums: the shape alone splits the pixels among blocks and rings; rings are
 *   added in order, and conv_stride2_k4_wgrad_add adds the blocks in order and writes w.
 * Bound by: the begin and the end of a call, and in FP32 the tensor cores.
 * Chosen when: the shape allows it. Unaligned tensors go to simt_direct (fallback.c).
 */
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/launch.cuh"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/wgrad_mainloop.cuh"

static_assert(sizeof(stride2_k4_wgrad_args) + 2 * sizeof(CUtensorMap) <= 4000, "kernel parameters");

static stride2_k4_wgrad_args arguments(const uf_conv_kernel_args *args,
                                       const uf_stride2_k4_plan &plan) {
    stride2_k4_wgrad_args made;
    made.plan = plan;
    uf_direct_wgrad_begin(args, &made.sums);
    direct_wgrad_plan &p = made.sums;
    p.tiles = 1;
    p.splits = plan.blocks;
    /* sums of a block, in the order of fragments */
    p.size = uf_stride2_k4_wgrad_size(&plan);
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
        UF_TRY(uf_cuda_launch(context, "conv_stride2_k4_wgrad", stride2_k4_launch(made.plan),
                              conv_stride2_k4_wgrad<Tile>, rows, windows, made));
        const unsigned blocks = (unsigned)(made.sums.size / 4 / STRIDE2_K4_CELLS);
        const uf_launch how = {dim3(blocks), UF_BLOCK};
        return uf_cuda_launch(context, "conv_stride2_k4_wgrad_add", how,
                              conv_stride2_k4_wgrad_add<typename Tile::T, Tile::C>, made.sums);
    }
};

extern "C" uf_status uf_stride2_k4_launch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                                const uf_stride2_k4_plan *own) {
    const uf_conv_kernel_args *args = problem->args;
    stride2_k4_wgrad_args made = arguments(args, *own);
    uf_direct_describe(&made.plan.conv, args, false);
    const stride2_k4_wgrad_call call = {context, args, made};
    return stride2_k4_by_math<uint16_t, UF_STRIDE2_K4_WGRAD_WARPS, UF_STRIDE2_K4_WGRAD_WARPS,
                              UF_STRIDE2_K4_WGRAD_SHARE, UF_STRIDE2_K4_WGRAD_RESIDENT>(
        args, made.plan, call);
}
