/* launch.cu - convolutions of few channels with 4x4 filters at stride 2 (mma.sync, sm_90).
 *
 * Computes: conv_fprop and conv_dgrad: the first layer of a discriminator, the last of a generator.
 * Shapes and limits: filters of 3 or 4 rows and columns, stride 2, one group; at most 4 channels of
 *   x and 64 of y; in dgrad rows of y of at most 32 pixels. plan.h has the rest.
 * GEMM mapping: M = 32 pixels of a row of y; fprop: N = channels of y, K = taps of all channels of
 *   x; dgrad: N = taps of all channels of x, K = channels of y.
 * Data path: each warp has a ring of its own and takes rows of 32 pixels with all channels. dgrad:
 *   TMA loads rows of y; the warp multiplies each pixel with all taps and adds what meets (col2im):
 *   rows with the part that the warp of the row before has kept, columns by a shuffle. A block
 *   computes the row before its first again. fprop: TMA loads windows on x, from which taps are
 *   read, and stores rows of y. Weights are loaded once, to registers; in FP32, split, to shared
 *   memory.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone; TF32 and BF16 are one MMA. Rows with a sum
 *   that is not finite are computed again by FFMAs.
 * Split and order of sums: K is not split; dgrad adds the two rows of y that meet in a fixed order.
 * Bound by: the begin and the end of a call, and in FP32 the tensor cores.
 * Chosen when: the shape allows it. Unaligned tensors go to simt_direct (fallback.c).
 */
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
            /* FP32 weights of four channels leave no room for two stages: no plan asks for them. */
            if constexpr (Tile::PARTS == 1 || Tile::C < UF_STRIDE2_K4_LARGE) {
                return uf_cuda_launch(context, "conv_stride2_k4_dgrad", how,
                                      conv_stride2_k4_dgrad<Tile>, rows, plan);
            } else {
                UF_FAIL(UF_ERROR_INTERNAL,
                        "conv_stride2_k4_dgrad has no tile of %d channels in FP32", Tile::C);
            }
        }
        UF_TRY(stride2_k4_map_windows(context, args->x, &windows));
        return uf_cuda_launch(context, "conv_stride2_k4_fprop", how, conv_stride2_k4_fprop<Tile>,
                              windows, rows, plan);
    }
};

extern "C" uf_status uf_stride2_k4_launch(uf_context *context, const uf_conv_problem *problem,
                                          const uf_stride2_k4_plan *own) {
    uf_stride2_k4_plan plan = *own;
    uf_direct_describe(&plan.conv, problem->args, problem->direction == UF_CONV_DGRAD);
    const stride2_k4_call call = {context, problem->direction, problem->args, plan};
    return stride2_k4_by_math<uf_bf16, UF_STRIDE2_K4_F32_WARPS, UF_STRIDE2_K4_BF16_WARPS, 1,
                              UF_STRIDE2_K4_RESIDENT>(problem->args, plan, call);
}
