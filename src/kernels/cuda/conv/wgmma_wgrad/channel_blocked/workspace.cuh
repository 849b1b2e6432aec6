/* workspace.cuh - the workspace of channel_blocked/launch.cu and split_f16/launch.cu: the copies of
 * x and y, and the sums. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_WORKSPACE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_WORKSPACE_CUH

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.cuh"

struct channel_blocked_call {
    channel_blocked x, y;
    wgrad_channel_blocked mma;
    channel_blocked_sums sums;
    size_t bytes; /* of workspace */
};

static inline int64_t channel_blocked_aligned(int64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Channels of y that a block loads. */
static inline int32_t channel_blocked_channels(const uf_channel_blocked_plan &p) {
    return p.twin > 0 ? UF_CHANNEL_BLOCKED_ROWS / 2 : p.rows * UF_CHANNEL_BLOCKED_ROWS;
}

/* For a call that has its plan: x, y where it is packed, and the sums behind them, from `at` on.
 * `pieces`: tensors of each; 2: one of big f16 parts and one of small ones. */
static inline void channel_blocked_lay_out(const uf_conv_kernel_args *args, int32_t pieces,
                                           char *at, channel_blocked_call *call) {
    static const int32_t one[2] = {1, 1}, none[1][2] = {{0, 0}};
    const uf_channel_blocked_plan &p = call->mma.plan;
    const int32_t mul[2] = {p.axis[0].mul, p.axis[1].mul};
    const int32_t images_log[2] = {p.axis[0].images_log, p.axis[1].images_log};
    call->x =
        channel_blocked_of(&args->x, UF_MMA_BF16, args->groups, p.x_planes, mul, images_log, at);
    channel_blocked_classes(&call->x, p.class_of, p.classes);
    at += channel_blocked_aligned(pieces * channel_blocked_bytes(call->x));
    call->y =
        channel_blocked_of(&args->y, UF_MMA_BF16, args->groups, p.y_planes, one, images_log, at);
    channel_blocked_classes(&call->y, none, 1);
    at += p.source == UF_CHANNEL_BLOCKED_PACKED
              ? channel_blocked_aligned(pieces * channel_blocked_bytes(call->y))
              : 0;
    call->sums = channel_blocked_sums_of(args, p.width, p.splits, (float *)at);
    call->mma.partial = call->sums.partial;
    call->mma.sum_rows = call->sums.rows;
    call->mma.row_tiles = call->sums.tiles_m;
    call->bytes = (size_t)(at - (char *)args->workspace) + channel_blocked_sums_bytes(call->sums);
}

/* TMA map of the tensor y: boxes of 32 pixels of a row and the channels of a block, swizzled so
 * that fragments are free of bank conflicts. */
static inline uf_status channel_blocked_map_y(uf_context *context, const uf_conv_kernel_args *args,
                                              const uf_channel_blocked_plan &p, CUtensorMap *map) {
    const bool f32 = p.source == UF_CHANNEL_BLOCKED_F32;
    return uf_cuda_view_map(
        context, args->y, 32, 1, channel_blocked_channels(p),
        f32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        f32 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_64B, map);
}

#endif
