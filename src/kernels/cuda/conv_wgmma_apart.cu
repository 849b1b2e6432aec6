/* conv_wgmma_apart.cu - conv_wgmma.cu where taps are apart: the filter is as large as the stride
 * (1 x 1, or U-Net's 2 x 2), nothing is padded, and each element of the large side belongs to one
 * of the small side.
 *
 * Then no tap shifts a pixel, and nothing is gained by rearranging what is read. Rows of a product
 * are 64 places of the small side, in the order of memory; its columns are written channels, times
 * the columns of the filter where the large side is written; and K is read channels, times the
 * columns of the filter where that is read. Pixels are the first operand, from registers: tensor
 * copies bring channels under 256 pixels to shared memory as they are, and a lane finds its words
 * there, four pixels of a channel (or two of two columns) at a time. For the tensor core K has no
 * order, so channels are summed in one that has no bank conflicts; weights are packed to match once
 * per call.
 *
 * One warp fills stages; two warpgroups of consumers have 128 pixels each and share the weights. A
 * lane ends with neighbours in memory: results leave from registers, 128 bytes at a time.
 *
 * FP32: x = big + small, in registers; the sums of a stage, 32 of K, go to ordinary registers, of
 * brief sums those of each step. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv_wgmma_apart.cuh"
#include "kernels/cuda/conv_wgmma.cuh"
#include "kernels/cuda/tensor_map.cuh"

#if UF_HAS_WGMMA
static_assert(sizeof(apart_barriers) <= UF_APART_BARRIERS, "what the plan counts on");
#endif

template <typename Tile>
static uf_status launch(uf_context *context, const apart_conv &p, const CUtensorMap &map) {
    const cudaStream_t stream = uf_cuda_stream(context);
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    if (p.plan.stage_bytes != Tile::STAGE_BYTES || p.plan.tile.planes != Tile::PLANES) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_apart was given the plan of another tile");
    }
    const int64_t pieces =
        (int64_t)p.conv.groups * p.plan.column_tiles * p.plan.stages * Tile::PLANES * Tile::COLUMNS;
    if (pieces > INT32_MAX) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_apart was given a filter too large to pack");
    }
    conv_wgmma_apart_pack<Tile>
        <<<(unsigned)((pieces + UF_BLOCK - 1) / UF_BLOCK), UF_BLOCK, 0, stream>>>(p,
                                                                                  (int32_t)pieces);
    UF_TRY(uf_cuda_launched(context, "conv_wgmma_apart_pack"));
    UF_CUDA_TRY(context,
                cudaFuncSetAttribute((const void *)conv_wgmma_apart<Tile>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, p.plan.shared));
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config =
        wgmma_early(p.plan.tiles < processors ? p.plan.tiles : processors, Tile::THREADS,
                    p.plan.shared, stream, &attribute);
    UF_CUDA_TRY(context, cudaLaunchKernelEx(&config, conv_wgmma_apart<Tile>, p, map));
    UF_TRY(uf_cuda_launched(context, "conv_wgmma_apart"));
    if (Tile::FP32) {
        const int64_t flags = (p.plan.tiles * UF_APART_GROUPS + UF_BLOCK - 1) / UF_BLOCK;
        const cudaLaunchConfig_t repair =
            wgmma_early(flags < processors ? flags : processors, UF_BLOCK, 0, stream, &attribute);
        UF_CUDA_TRY(context, cudaLaunchKernelEx(&repair, conv_wgmma_apart_repair, p));
        UF_TRY(uf_cuda_launched(context, "conv_wgmma_apart_repair"));
    }
    return UF_OK;
}

template <uf_math MATH, typename T, bool BRIEF = false>
static uf_status launch_sides(uf_context *context, const apart_conv &p, const CUtensorMap &map) {
    if (p.plan.tile.side == 4) {
        return launch<apart_tile<MATH, 4, 1, T, BRIEF>>(context, p, map);
    }
    if (p.plan.tile.side == 2) {
        return launch<apart_tile<MATH, 2, 1, T, BRIEF>>(context, p, map);
    }
    if (p.plan.tile.spread == 4) {
        return launch<apart_tile<MATH, 1, 4, T, BRIEF>>(context, p, map);
    }
    if (p.plan.tile.spread == 2) {
        return launch<apart_tile<MATH, 1, 2, T, BRIEF>>(context, p, map);
    }
    return launch<apart_tile<MATH, 1, 1, T, BRIEF>>(context, p, map);
}

/* What is read as [image][filter row][row][channel][column]; a box is a run, the channels of a
 * stage and the rows of a tile. */
static uf_status map_read(uf_context *context, const uf_view &read, const uf_apart_plan &plan,
                          CUtensorMap *map) {
    const int64_t pitch = read.stride[2];
    uf_tensor_boxes boxes = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        0,
        5,
        {(int64_t)plan.width * plan.tile.side, read.extent[1], plan.height, plan.read_rows,
         read.extent[0]},
        {1, read.stride[1], pitch * plan.read_rows, pitch, read.stride[0]},
        {UF_APART_RUN / plan.tile.element, plan.tile.channels, UF_APART_PIXELS >> plan.log, 1, 1},
        CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
    uf_cuda_tensor_element(read.dtype, &boxes);
    return uf_cuda_tensor_map(context, boxes, read.data, map);
}

size_t wgmma_apart_workspace(const uf_apart_plan &plan) {
    return (size_t)(plan.weight_bytes + plan.tiles * UF_APART_GROUPS);
}

uf_status wgmma_apart_launch(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const uf_apart_plan &plan,
                             const mma_conv &conv) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view &read = dgrad ? args->y : args->x, &written = dgrad ? args->x : args->y;
    const int64_t element = args->x.dtype == UF_BF16 ? 2 : 4;
    apart_conv p;
    memset((void *)&p, 0, sizeof p);
    p.conv = conv;
    p.plan = plan;
    p.unfinished = (uint8_t *)args->workspace + plan.weight_bytes;
    CUtensorMap map;
    memset((void *)&map, 0, sizeof map);
    p.bulk = (uintptr_t)read.data % 16 == 0;
    if (p.bulk) {
        UF_TRY(map_read(context, read, plan, &map));
    }
    /* A lane's run lies in one row, and all runs begin where 16 bytes (bf16 of one column: 8) do.
     */
    const int64_t run = element == 2 && plan.tile.spread == 1 ? 8 : 16;
    p.vectors = plan.row % 4 == 0 && written.stride[3] == 1 &&
                (uintptr_t)written.data % (uintptr_t)run == 0 &&
                written.stride[0] * element % run == 0 && written.stride[1] * element % run == 0 &&
                written.stride[2] * element % run == 0;
    if (args->x.dtype == UF_BF16) {
        return launch_sides<UF_MATH_BF16, __nv_bfloat16>(context, p, map);
    }
    switch (args->math) {
    case UF_MATH_BF16:
        return launch_sides<UF_MATH_BF16, float>(context, p, map);
    case UF_MATH_TF32:
        return launch_sides<UF_MATH_TF32, float>(context, p, map);
    default:
        return plan.brief ? launch_sides<UF_MATH_FP32, float, true>(context, p, map)
                          : launch_sides<UF_MATH_FP32, float>(context, p, map);
    }
}
