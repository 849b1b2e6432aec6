/* call.cuh - arguments of the kernels of channel_blocked/launch.cu and split_f16/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_CALL_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_CALL_CUH

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.cuh"

struct channel_blocked_call {
    channel_blocked x, y;
    wgrad_channel_blocked mma;
    channel_blocked_sums sums;
};

/* Channels of y that a block loads. */
static inline int32_t channel_blocked_channels(const uf_channel_blocked_plan &p) {
    return p.twin > 0 ? UF_CHANNEL_BLOCKED_ROWS / 2 : p.rows * UF_CHANNEL_BLOCKED_ROWS;
}

/* All arguments but the TMA maps; the plan's workspace begins at byte `begin` of args' one. */
static inline void channel_blocked_call_of(const uf_conv_kernel_args *args,
                                           const uf_channel_blocked_plan &plan, size_t begin,
                                           channel_blocked_call *call) {
    char *const at = (char *)args->workspace;
    const uf_channel_blocked_workspace w = uf_channel_blocked_workspace_of(args, &plan, begin);
    call->mma.plan = plan;
    call->x = w.x;
    call->x.to = at + w.x_at;
    call->y = w.y;
    call->y.to = at + w.y_at;
    call->sums = channel_blocked_sums_of(args, w.reduction, (float *)(at + w.sums_at));
    call->mma.partial = call->sums.partial;
    call->mma.sum_rows = call->sums.rows;
    call->mma.row_tiles = call->sums.tiles_m;
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
