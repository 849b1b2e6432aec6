/* conv_wgmma.cu - conv_fprop and conv_dgrad on Hopper's warpgroup products (sm_90a).
 *
 * Both directions are one dense correlation per phase (geometry.h). A block makes WM x 64 written
 * channels by NT x 128 pixels of one phase; the products' rows are channels and their columns
 * pixels, in runs of 8 neighbours of a row (or of the same place in several images, where rows are
 * short).
 *
 * Data path: a window is the part of the read side that a tile's taps see of 16 (TF32: 32, BF16:
 * 64) channels. In shared memory it is [plane of K][position][16 bytes], K-major as TF32 needs it.
 * Without swizzle a tile may begin at any position: a filter tap is an offset in a descriptor, and
 * nothing is gathered twice. Strided reads (fprop) have a window per class of taps. Windows come by
 * one tensor copy each from a tensor that was rounded and rearranged before (conv_blocks.cuh), or
 * are made here: lanes read neighbouring pixels of one channel, round or split in registers, and
 * write 16 bytes of channels; runs side by side then have their columns to themselves. Weights are
 * packed once per call in the order of use and come by bulk copies. Warps have roles: loaders,
 * feeders, and consumers that issue products and nothing else until the tile is done.
 *
 * Where few channels are written, pixels are the rows: conv_wgmma_narrow.cu; and so where taps are
 * apart: conv_wgmma_apart.cu.
 *
 * FP32: x = big + small, products small*big + big*small + big*big; the tensor core's accumulator
 * truncates, so it goes to ordinary registers every 64 of K. A tile with a result that is not
 * finite is computed again by FFMAs. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv.h"
#include "kernels/cuda/conv_flat.h"
#include "kernels/cuda/conv_mma_ends.cuh"
#include "kernels/cuda/conv_mma_plan.cuh"
#include "kernels/cuda/conv_wgmma_kernel.cuh"
#include "kernels/cuda/conv_wgmma_ends.cuh"

static_assert(sizeof(wgmma_conv) <= 4000, "kernel parameters");
#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_barriers) <= UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

/* math, warpgroups of 64 channels, products of 128 pixels, packed windows, wide patches, who makes
 * a tile, elements of tensors */
#define UF_WGMMA_TILES                                                                             \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 2, false, false, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_PACKED_TILES(UF_MATH_FP32, false, UF_F32, float)                                      \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, true, true, WGMMA_ALONE, UF_F32, float)                      \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, true, true, WGMMA_ALONE, UF_F32, float)                      \
    UF_WGMMA_PACKED_TILES(UF_MATH_TF32, false, UF_F32, float)                                      \
    UF_WGMMA_PACKED_TILES(UF_MATH_TF32, true, UF_F32, float)                                       \
    UF_WGMMA_PACKED_TILES(UF_MATH_BF16, false, UF_F32, float)                                      \
    UF_WGMMA_PACKED_TILES(UF_MATH_BF16, true, UF_F32, float)                                       \
    UF_WGMMA_PACKED_TILES(UF_MATH_BF16, false, UF_BF16, __nv_bfloat16)                             \
    UF_WGMMA_PACKED_TILES(UF_MATH_BF16, true, UF_BF16, __nv_bfloat16)                              \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, true, false, WGMMA_CLUSTERS, UF_F32, float)                  \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, true, false, WGMMA_SHARERS, UF_F32, float)                   \
    UF_WGMMA_SHARED_TILES(UF_MATH_TF32, UF_F32, float)                                             \
    UF_WGMMA_SHARED_TILES(UF_MATH_BF16, UF_F32, float)                                             \
    UF_WGMMA_SHARED_TILES(UF_MATH_BF16, UF_BF16, __nv_bfloat16)                                    \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, false, false, WGMMA_MERGED, UF_F32, float)                   \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 1, true, false, WGMMA_MERGED, UF_BF16, __nv_bfloat16)

#define UF_WGMMA_PACKED_TILES(MATH, WIDE, DTYPE, STORED)                                           \
    UF_WGMMA_TILE(MATH, 1, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 1, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)

#define UF_WGMMA_SHARED_TILES(MATH, DTYPE, STORED)                                                 \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 2, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_SHARERS, DTYPE, STORED)

/* Workspace: packed weights, the read tensor in blocks, what sharers leave for each other, a byte
 * per tile and warpgroup. */
static int64_t packed_bytes(const uf_wgmma_geometry &geometry, int64_t groups) {
    return groups * geometry.first_tap[geometry.phases * geometry.classes] *
           geometry.channel_blocks * geometry.chunks * geometry.planes * 16 *
           (geometry.columns > 0 ? geometry.columns : UF_WGMMA_ROWS);
}

static uf_math math_of(const uf_conv_kernel_args *args) {
    return args->x.dtype == UF_F32 ? args->math : UF_MATH_BF16;
}

static conv_blocks blocks_of_read(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                  const uf_wgmma_geometry &geometry, void *to) {
    const int32_t mul[2] = {geometry.axis[0].mul, geometry.axis[1].mul};
    const int32_t images_log[2] = {geometry.axis[0].images_log, geometry.axis[1].images_log};
    conv_blocks made =
        conv_blocks_of(direction == UF_CONV_DGRAD ? &args->y : &args->x, math_of(args),
                       args->groups, geometry.chunks * geometry.planes, mul, images_log, to);
    if (geometry.line > 0) {
        conv_blocks_line(&made, geometry.stack, geometry.line, geometry.line_first,
                         geometry.line_parts, uf_wgmma_line_end(&geometry));
    } else if (geometry.stack > 0) {
        conv_blocks_stack(&made, geometry.stack);
    }
    for (int32_t klass = 0; klass < geometry.classes; ++klass) {
        for (int axis = 0; axis < 2; ++axis) {
            const int32_t residue = geometry.class_of[klass][axis];
            if (made.class_of[axis][residue] < 0) {
                conv_blocks_class(&made, axis, residue);
            }
        }
    }
    return made;
}

static int64_t blocks_bytes(uf_conv_direction direction, const uf_conv_kernel_args *args,
                            const uf_wgmma_geometry &geometry) {
    return geometry.packed ? conv_blocks_bytes(blocks_of_read(direction, args, geometry, nullptr))
                           : 0;
}

static int64_t parts_bytes(const uf_wgmma_geometry &geometry) {
    return (int64_t)geometry.sharers * geometry.wm * geometry.nt * UF_WGMMA_SUMS;
}

static int64_t sharers_bytes(const uf_wgmma_geometry &geometry) {
    return parts_bytes(geometry) + (int64_t)geometry.sharers * geometry.wm * 4;
}

static int64_t blocks_of(int64_t threads) {
    return (threads + UF_BLOCK - 1) / UF_BLOCK;
}

template <typename Tile>
static uf_status launch_product(uf_context *context, const wgmma_conv &p, const CUtensorMap &map,
                                int processors) {
    cudaLaunchAttribute attributes[2];
    UF_CUDA_TRY(context,
                cudaFuncSetAttribute((const void *)conv_wgmma<Tile>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, p.shared));
    const int64_t most = (int64_t)processors * Tile::BLOCKS;
    const int64_t blocks = Tile::SHARED     ? p.sharers
                           : Tile::SPLIT    ? p.tiles * p.splits
                           : p.tiles < most ? p.tiles
                                            : most;
    cudaLaunchConfig_t config =
        wgmma_early(blocks, Tile::THREADS, p.shared, uf_cuda_stream(context), attributes);
    if (Tile::SPLIT) {
        attributes[1].id = cudaLaunchAttributeClusterDimension;
        attributes[1].val.clusterDim.x = (unsigned)p.splits;
        attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
        config.numAttrs = 2;
    }
    UF_CUDA_TRY(context, cudaLaunchKernelEx(&config, conv_wgmma<Tile>, p, map));
    return uf_cuda_launched(context, "conv_wgmma");
}

static uf_status launch_repair(uf_context *context, const wgmma_conv &p, int processors) {
    cudaLaunchAttribute attribute;
    const int64_t flags = blocks_of(p.tiles * p.wm);
    const cudaLaunchConfig_t repair = wgmma_early(flags < processors ? flags : processors, UF_BLOCK,
                                                  0, uf_cuda_stream(context), &attribute);
    UF_CUDA_TRY(context, cudaLaunchKernelEx(&repair, conv_wgmma_repair, p));
    return uf_cuda_launched(context, "conv_wgmma_repair");
}

template <typename Tile>
static uf_status launch(uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks) {
    const cudaStream_t stream = uf_cuda_stream(context);
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    CUtensorMap map;
    memset((void *)&map, 0, sizeof map);
    wgmma_packing packing = wgmma_packing_of(p, Tile::FP32, sizeof(typename Tile::stored));
    int64_t pack_blocks = packing.weight_blocks;
    if (Tile::PACKED) {
        packing.read = blocks_of_read(direction, args, p, blocks);
        packing.pairs = blocks_paired(packing.read, sizeof(typename Tile::stored)) &&
                        conv_blocks_bytes(packing.read) <= WGMMA_PAIRS_BYTES;
        pack_blocks += packing.pairs ? blocks_pairs_count(packing.read)
                                     : conv_blocks_count<Tile::MATH>(packing.read);
        if (pack_blocks > INT32_MAX) {
            UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a tensor too large to pack");
        }
        UF_TRY(conv_blocks_map(context, packing.read, p.axis[1].extent, p.axis[0].extent,
                               p.image_products, p.planes * p.depth, &map));
    }
    if (pack_blocks > 0) {
        conv_wgmma_pack<Tile::MATH, typename Tile::stored>
            <<<(unsigned)pack_blocks, UF_BLOCK, 0, stream>>>(p, packing);
        UF_TRY(uf_cuda_launched(context, "conv_wgmma_pack"));
    }
    UF_TRY(launch_product<Tile>(context, p, map, processors));
    return Tile::FP32 ? launch_repair(context, p, processors) : UF_OK;
}

static uf_status launch_narrow(uf_context *context, const wgmma_conv &p, uf_dtype stored,
                               uf_math math) {
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    UF_TRY(wgmma_narrow_launch(context, p, stored, math));
    return math == UF_MATH_FP32 ? launch_repair(context, p, processors) : UF_OK;
}

extern "C" size_t uf_cuda_conv_wgmma_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_apart_plan apart;
    uf_wgmma_geometry geometry;
    if (uf_apart_plan_of(direction, &canonical, &apart)) {
        return wgmma_apart_workspace(apart);
    }
    return uf_wgmma_geometry_of(direction, &canonical, &geometry)
               ? (size_t)(packed_bytes(geometry, args->groups) +
                          blocks_bytes(direction, &canonical, geometry) + sharers_bytes(geometry) +
                          geometry.tiles * geometry.wm)
               : 0;
}

extern "C" uf_status uf_cuda_conv_wgmma(uf_context *context, uf_conv_direction direction,
                                        const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_apart_plan apart;
    if (uf_apart_plan_of(direction, &canonical, &apart)) {
        const uf_conv_kernel_args flat = uf_conv_flat(&canonical);
        return wgmma_apart_launch(context, direction, &flat, apart,
                                  mma_plan_of(direction, &flat).conv);
    }
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    if (!uf_wgmma_geometry_of(direction, &canonical, &p)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a geometry that it does not take");
    }
    p.conv = mma_plan_of(direction, &canonical).conv;
    char *const blocks = (char *)args->workspace + packed_bytes(p, args->groups);
    char *const parts = blocks + blocks_bytes(direction, &canonical, p);
    p.parts = (float *)parts;
    p.part_done = (int32_t *)(parts + parts_bytes(p));
    p.unfinished = (uint8_t *)parts + sharers_bytes(p);
    const uf_math math = math_of(args);
    if (p.columns > 0) {
        return launch_narrow(context, p, args->x.dtype, math);
    }
    const wgmma_crew crew = p.merged        ? WGMMA_MERGED
                            : p.sharers > 0 ? WGMMA_SHARERS
                            : p.splits > 1  ? WGMMA_CLUSTERS
                                            : WGMMA_ALONE;
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, CREW, DTYPE, STORED)                             \
    if (args->x.dtype == DTYPE && math == MATH && p.wm == WM && p.nt == NT &&                      \
        p.packed == PACKED && (p.packed && p.runs_log > 0) == WIDE && crew == CREW) {              \
        return launch<wgmma_tile<MATH, WM, NT, PACKED, WIDE, CREW, STORED>>(                       \
            context, direction, &canonical, p, blocks);                                            \
    }
    UF_WGMMA_TILES
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma has no tile of %d x %d for math %d", (int)p.wm,
            (int)p.nt, (int)args->math);
}
