/* conv_wgmma_launch.cuh - the host side of conv_wgmma.cu and conv_wgmma_halves.cu: the workspace
 * and the launch of a product. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_LAUNCH_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/conv_wgmma_ends.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/conv_wgmma_kernel.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(wgmma_conv) <= 4000, "kernel parameters");
#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_barriers) <= UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

/* Every number of warpgroups and products with packed windows. */
#define UF_WGMMA_PACKED_TILES(MATH, WIDE, DTYPE, STORED)                                           \
    UF_WGMMA_TILE(MATH, 1, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 1, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)

static inline wgmma_crew wgmma_crew_of(const wgmma_conv &p) {
    return p.merged        ? WGMMA_MERGED
           : p.sharers > 0 ? WGMMA_SHARERS
           : p.splits > 1  ? WGMMA_CLUSTERS
                           : WGMMA_ALONE;
}

/* Workspace: packed weights, the read tensor in blocks, what sharers leave for each other, a byte
 * per tile and warpgroup. */
static inline int64_t packed_bytes(const uf_wgmma_geometry &geometry, int64_t groups) {
    return groups * geometry.first_tap[geometry.phases * geometry.classes] *
           geometry.channel_blocks * geometry.chunks * geometry.planes * 16 *
           (geometry.columns > 0 ? geometry.columns : UF_WGMMA_ROWS);
}

static inline uf_math math_of(const uf_conv_kernel_args *args) {
    return args->x.dtype == UF_F32 ? args->math : UF_MATH_BF16;
}

static inline conv_blocks blocks_of_read(uf_conv_direction direction,
                                         const uf_conv_kernel_args *args,
                                         const uf_wgmma_geometry &geometry, void *to) {
    const int32_t mul[2] = {geometry.axis[0].mul, geometry.axis[1].mul};
    const int32_t images_log[2] = {geometry.axis[0].images_log, geometry.axis[1].images_log};
    conv_blocks made =
        conv_blocks_of(direction == UF_CONV_DGRAD ? &args->y : &args->x,
                       geometry.halves ? UF_MATH_HALVES : math_of(args), args->groups,
                       geometry.chunks * geometry.planes, mul, images_log, to);
    if (geometry.line > 0) {
        conv_blocks_line(&made, geometry.stack, geometry.line, geometry.line_first,
                         geometry.line_parts, uf_wgmma_line_end(&geometry));
    } else if (geometry.stack > 0) {
        conv_blocks_stack(&made, geometry.stack);
    }
    conv_blocks_classes(&made, geometry.class_of, geometry.classes);
    return made;
}

static inline int64_t blocks_bytes(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                   const uf_wgmma_geometry &geometry) {
    return geometry.packed ? conv_blocks_bytes(blocks_of_read(direction, args, geometry, nullptr))
                           : 0;
}

static inline int64_t parts_bytes(const uf_wgmma_geometry &geometry) {
    return (int64_t)geometry.sharers * geometry.wm * geometry.nt * UF_WGMMA_SUMS;
}

static inline int64_t sharers_bytes(const uf_wgmma_geometry &geometry) {
    return parts_bytes(geometry) + (int64_t)geometry.sharers * geometry.wm * 4;
}

static inline int64_t blocks_of(int64_t threads) {
    return (threads + UF_BLOCK - 1) / UF_BLOCK;
}

template <typename Tile>
static uf_status launch_product(uf_context *context, const wgmma_conv &p, const CUtensorMap &map,
                                int processors) {
    const int64_t most = (int64_t)processors * Tile::BLOCKS;
    const int64_t blocks = Tile::SHARED     ? p.sharers
                           : Tile::SPLIT    ? p.tiles * p.splits
                           : p.tiles < most ? p.tiles
                                            : most;
    const uf_launch how = {dim3((unsigned)blocks), Tile::THREADS, (size_t)p.shared, true,
                           Tile::SPLIT ? p.splits : 0};
    return uf_cuda_launch(context, "conv_wgmma", how, conv_wgmma<Tile>, p, map);
}

/* What a launch packs beside weights, and where tensor copies find it; the number of blocks. */
template <typename Tile>
static uf_status prepare_packing(uf_context *context, uf_conv_direction direction,
                                 const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                                 wgmma_packing *packing, CUtensorMap *map, int64_t *pack_blocks) {
    memset((void *)map, 0, sizeof *map);
    *packing = wgmma_packing_of(p, Tile::FP32, sizeof(typename Tile::stored));
    *pack_blocks = packing->weight_blocks;
    if (Tile::PACKED) {
        packing->read = blocks_of_read(direction, args, p, blocks);
        packing->pairs = blocks_paired(packing->read, sizeof(typename Tile::stored)) &&
                         conv_blocks_bytes(packing->read) <= WGMMA_PAIRS_BYTES;
        *pack_blocks += packing->pairs ? blocks_pairs_count(packing->read)
                                       : conv_blocks_count<Tile::MATH>(packing->read);
        if (*pack_blocks > INT32_MAX) {
            UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a tensor too large to pack");
        }
        UF_TRY(conv_blocks_map(context, packing->read, p.axis[1].extent, p.axis[0].extent,
                               p.image_products, p.planes * p.depth, map));
    }
    return UF_OK;
}

#endif
