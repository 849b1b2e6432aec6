/* launch.cu - conv_fprop and conv_dgrad where the filter is as large as its stride (sm_90a).
 *
 * Computes: fprop and dgrad as one GEMM over patches; a main loop of the variant
 * wgmma_implicit_gemm. U-Net's 2 x 2, 1 x 1, a vision transformer's 16 x 16.
 *
 * Shapes and limits: kernel = stride, at most 32; no padding; x = y times stride. Planes or rows
 * are multiples of 16 bytes for TMA; where one column of one row is read, of 8 or 4 for `cp.async`.
 * Pointwise layers are one row per image (conv/flatten.h).
 *
 * GEMM mapping (M, N, K): 64 pixels of the small side; 128 (FP32: 64) written channels; read
 * channels. Filter columns multiply N where the large side is written, and K where it is read. Up
 * to four written columns of a filter row are a unit. Where channels are few, a tile has units of
 * all filter rows.
 *
 * Data path: no tap shifts a pixel, so nothing is rearranged. One warp fills stages: TMA brings
 * channels under 256 pixels as they lie in memory. Two consumer warpgroups have 128 pixels each and
 * share the weights. A comes from registers: a lane loads four pixels of a channel (or two of two
 * columns) at a time. The tensor core sums K in any order, so channels follow in one without bank
 * conflicts, and weights are packed before it to match. A lane ends with neighbours in memory:
 * results leave from registers, 128 bytes at a time.
 *
 * Precision: 3xTF32, promoted every stage (32 of K), for short sums every step; TF32; BF16. FFMAs
 * compute FP32 tiles again that are not finite.
 *
 * Split and order of sums: few tiles with a long K share a cluster, which adds in the order of its
 * CTAs (epilogue_cluster.cuh).
 *
 * Bound by: stores, which add to the MMAs, and shared memory.
 *
 * Chosen when: the shape allows it; it then takes precedence over the general kernel's tiles. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_patch_gemm/conv_plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

/* The read side as [image][filter row][row][channel][column]. A box is a run, the channels of a
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

/* A thread's store. All but single elements need a cheap activation, a lane's pixels in one row,
 * and alignment to the store. */
static int32_t vectors_of(const uf_patch_plan &plan, const uf_view &written, bool cheap) {
    const int64_t element = plan.tile.element, spread = plan.tile.spread;
    const int64_t most = 16 / (spread * element), run = most < 4 ? most : 4;
    const bool runs = run == 1 || plan.across == 1;
    const int64_t bytes = (runs ? run : 1) * spread * element;
    if (plan.threes) {
        return PATCH_THREES;
    }
    /* Single columns in rows of a filter have no epilogue of vectors: no network was seen with a
     * filter of one column and several rows. */
    if (!cheap || written.stride[3] != 1 || (bytes != 16 && bytes != 8) ||
        (plan.tile.spread == 1 && plan.fold > 1) || (runs && plan.row % run != 0) ||
        (!runs && spread != 4) || (uintptr_t)written.data % (uintptr_t)bytes != 0) {
        return PATCH_SINGLY;
    }
    for (int axis = 0; axis < 3; ++axis) {
        if (written.extent[axis] > 1 && written.stride[axis] * element % bytes != 0) {
            return PATCH_SINGLY;
        }
    }
    return runs ? PATCH_RUNS : PATCH_COLUMNS;
}

extern "C" uf_status uf_patch_run(uf_context *context, const uf_conv_problem *problem,
                                  const uf_patch_conv_plan *own) {
    const uf_patch_plan &plan = own->patch;
    const int processors = problem->gpu->multiprocessors;
    const uf_conv_kernel_args flat = uf_patch_args_of(problem), *const args = &flat;
    const bool dgrad = problem->direction == UF_CONV_DGRAD;
    const uf_view &read = dgrad ? args->y : args->x, &written = dgrad ? args->x : args->y;
    patch_conv p;
    memset((void *)&p, 0, sizeof p);
    p.conv = uf_mma_bound(&own->mma, problem->direction, args);
    p.plan = plan;
    p.unfinished = (uint8_t *)uf_conv_behind_packed(args, plan.weight_bytes);
    const uf_conv_packing packing = args->packing;
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
    p.cheap = !p.conv.accumulate && (p.conv.activation == UF_ACTIVATION_RELU ||
                                     p.conv.activation == UF_ACTIVATION_LEAKY_RELU ||
                                     p.conv.activation == UF_ACTIVATION_IDENTITY);
    p.vectors = vectors_of(plan, written, p.cheap);
    p.stepped = p.vectors == PATCH_RUNS && plan.fold == 1;
    p.plain = p.conv.scale == nullptr && p.conv.shift == nullptr &&
              p.conv.activation == UF_ACTIVATION_IDENTITY;
    if (args->x.dtype == UF_BF16) {
        return wgmma_patch_launch_bf16(context, p, map, packing, processors);
    }
    switch (uf_mma_math_of(args)) {
    case UF_MMA_BF16:
        return wgmma_patch_launch_f32_bf16(context, p, map, packing, processors);
    case UF_MMA_TF32:
        return wgmma_patch_launch_tf32(context, p, map, packing, processors);
    default:
        UF_TRY(plan.brief ? wgmma_patch_launch_fp32_brief(context, p, map, packing, processors)
                          : wgmma_patch_launch_fp32(context, p, map, packing, processors));
        return packing == UF_CONV_PACK_ONLY ? UF_OK
                                            : wgmma_patch_launch_exact(context, p, processors);
    }
}
