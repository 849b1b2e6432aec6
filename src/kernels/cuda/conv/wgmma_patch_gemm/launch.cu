/* launch.cu - wgmma_implicit_gemm/launch.cu where taps are apart: the filter is as large as the
 * stride (1 x 1, U-Net's 2 x 2, a vision transformer's 16 x 16), nothing is padded, and each
 * element of the large side belongs to one of the small side.
 *
 * Then no tap shifts a pixel, and nothing is gained by rearranging what is read. Rows of a MMA
 * are 64 places of the small side, in the order of memory; its columns are written channels, times
 * the columns of the filter where the large side is written; and K is read channels, times the
 * columns of the filter where that is read. Pixels are the first operand, from registers: tensor
 * copies bring channels under 256 pixels to shared memory as they are, and a lane finds its words
 * there, four pixels of a channel (or two of two columns) at a time. For the tensor core K has no
 * order, so channels are summed in one that has no bank conflicts; weights are packed to match once
 * per call.
 *
 * Pointwise layers are one row per image (conv/flatten.h). Where the large side is written up to
 * four columns of a filter are a unit, and columns of MMAs are units: of one row of the filter, or
 * of all of them where channels are few. TMA loads need steps of 16 bytes; where one column of
 * one row is read, steps of 8 or 4 do, by cp.async of four warps. Few tiles of long sums are shared
 * by the blocks of a cluster (wgmma_patch_gemm/epilogue_cluster.cuh).
 *
 * One warp fills stages; two warpgroups of consumers have 128 pixels each and share the weights. A
 * lane ends with neighbours in memory: results leave from registers, 128 bytes at a time.
 *
 * FP32: x = big + small, in registers; the sums of a stage, 32 of K, go to ordinary registers, of
 * brief sums those of each step. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

/* What is read as [image][filter row][row][channel][column]; a box is a run, the channels of a
 * stage and the rows of a tile. */
static uf_status map_read(uf_context *context, const uf_view &read, const uf_patch_plan &plan,
                          CUtensorMap *map) {
    const int64_t pitch = read.stride[2];
    uf_tensor_boxes boxes = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        0,
        5,
        {(int64_t)plan.width * plan.tile.side, read.extent[1], plan.height, plan.read_rows,
         read.extent[0]},
        {1, read.stride[1], pitch * plan.read_rows, pitch, read.stride[0]},
        {UF_PATCH_RUN / plan.tile.element, plan.tile.channels, UF_PATCH_PIXELS >> plan.log, 1, 1},
        CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
    uf_cuda_tensor_element(read.dtype, &boxes);
    return uf_cuda_tensor_map(context, boxes, read.data, map);
}

/* What a thread writes at once; the fast ways know cheap activations alone. A lane's run lies in
 * one row, and all runs begin where their size does. */
static int32_t vectors_of(const uf_patch_plan &plan, const uf_view &written, bool cheap) {
    const int64_t element = plan.tile.element, spread = plan.tile.spread;
    const int64_t most = 16 / (spread * element), run = most < 4 ? most : 4;
    const bool runs = run == 1 || plan.across == 1;
    const int64_t bytes = (runs ? run : 1) * spread * element;
    if (plan.threes) {
        return PATCH_THREES;
    }
    if (!cheap || written.stride[3] != 1 || (bytes != 16 && bytes != 8) ||
        (runs && plan.row % run != 0) || (!runs && spread != 4) ||
        (uintptr_t)written.data % (uintptr_t)bytes != 0) {
        return PATCH_SINGLY;
    }
    for (int axis = 0; axis < 3; ++axis) {
        if (written.extent[axis] > 1 && written.stride[axis] * element % bytes != 0) {
            return PATCH_SINGLY;
        }
    }
    return runs ? PATCH_RUNS : PATCH_COLUMNS;
}

size_t wgmma_patch_workspace(const uf_patch_plan &plan) {
    return (size_t)(plan.weight_bytes + plan.tiles * plan.splits * UF_PATCH_GROUPS);
}

uf_status wgmma_patch_launch(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const uf_patch_plan &plan,
                             const mma_conv &conv) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view &read = dgrad ? args->y : args->x, &written = dgrad ? args->x : args->y;
    patch_conv p;
    memset((void *)&p, 0, sizeof p);
    p.conv = conv;
    p.plan = plan;
    p.unfinished = (uint8_t *)args->workspace + plan.weight_bytes;
    CUtensorMap map;
    memset((void *)&map, 0, sizeof map);
    for (p.piece = plan.piece; (uintptr_t)read.data % (uintptr_t)p.piece != 0;) {
        p.piece /= 2;
    }
    if (p.piece < 4 || (p.piece < 16 && (plan.read_rows * plan.tile.side > 1 ||
                                         (int64_t)plan.width * plan.tile.element % p.piece != 0))) {
        p.piece = 0;
    }
    if (p.piece == 16) {
        UF_TRY(map_read(context, read, plan, &map));
    }
    p.columns_first = dgrad;
    p.cheap = !conv.accumulate && (conv.activation == UF_ACTIVATION_RELU ||
                                   conv.activation == UF_ACTIVATION_LEAKY_RELU ||
                                   conv.activation == UF_ACTIVATION_IDENTITY);
    p.vectors = vectors_of(plan, written, p.cheap);
    p.stepped = p.vectors == PATCH_RUNS && plan.fold == 1;
    p.plain =
        conv.scale == nullptr && conv.shift == nullptr && conv.activation == UF_ACTIVATION_IDENTITY;
    if (args->x.dtype == UF_BF16) {
        return wgmma_patch_launch_bf16(context, p, map);
    }
    switch (uf_mma_math_of(args)) {
    case UF_MMA_BF16:
        return wgmma_patch_launch_f32_bf16(context, p, map);
    case UF_MMA_TF32:
        return wgmma_patch_launch_tf32(context, p, map);
    default:
        UF_TRY(plan.brief ? wgmma_patch_launch_fp32_brief(context, p, map)
                          : wgmma_patch_launch_fp32(context, p, map));
        return wgmma_patch_launch_exact(context, p);
    }
}
