/* conv_wgrad_blocks_call.cuh - what the host sides of conv_wgrad_blocks.cu and
 * conv_wgrad_halves.cu have in common: where a call's tensors and sums are in the workspace. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_BLOCKS_CALL_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_BLOCKS_CALL_CUH

#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks_add.cuh"

struct blocks_call {
    conv_blocks x, y;
    wgrad_blocks product;
    blocks_sums sums;
    size_t bytes; /* of workspace */
};

static inline int64_t blocks_aligned(int64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Channels of y that a block copies. */
static inline int32_t blocks_channels(const uf_blocks_plan &p) {
    return p.twin > 0 ? UF_BLOCKS_ROWS / 2 : p.rows * UF_BLOCKS_ROWS;
}

/* Once the call has its plan: x and, where it is rearranged, y, `pieces` of each (2: big halves and
 * small ones), and behind them the sums, from `at` on. */
static inline void blocks_lay_out(const uf_conv_kernel_args *args, int32_t pieces, char *at,
                                  blocks_call *call) {
    static const int32_t one[2] = {1, 1}, none[1][2] = {{0, 0}};
    const uf_blocks_plan &p = call->product.plan;
    const int32_t mul[2] = {p.axis[0].mul, p.axis[1].mul};
    const int32_t images_log[2] = {p.axis[0].images_log, p.axis[1].images_log};
    call->x = conv_blocks_of(&args->x, UF_MATH_BF16, args->groups, p.x_planes, mul, images_log, at);
    conv_blocks_classes(&call->x, p.class_of, p.classes);
    at += blocks_aligned(pieces * conv_blocks_bytes(call->x));
    call->y = conv_blocks_of(&args->y, UF_MATH_BF16, args->groups, p.y_planes, one, images_log, at);
    conv_blocks_classes(&call->y, none, 1);
    at += p.source == UF_BLOCKS_PACKED ? blocks_aligned(pieces * conv_blocks_bytes(call->y)) : 0;
    call->sums = blocks_sums_of(args, p.width, p.splits, (float *)at);
    call->product.partial = call->sums.partial;
    call->product.sum_rows = call->sums.rows;
    call->product.row_tiles = call->sums.tiles_m;
    call->bytes = (size_t)(at - (char *)args->workspace) + blocks_sums_bytes(call->sums);
}

/* y as it is, by boxes of 32 pixels of a row and the channels of a block; their pieces of 16 bytes
 * change places so that fragments are free of bank conflicts. */
static inline uf_status blocks_map_y(uf_context *context, const uf_conv_kernel_args *args,
                                     const uf_blocks_plan &p, CUtensorMap *map) {
    const bool f32 = p.source == UF_BLOCKS_F32;
    return uf_cuda_view_map(
        context, args->y, 32, 1, blocks_channels(p),
        f32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        f32 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_64B, map);
}

#endif
