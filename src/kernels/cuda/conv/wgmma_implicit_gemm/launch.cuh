/* launch.cuh - workspace and launches that launch.cu and launch_split_f16.cu share. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAUNCH_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/kernel.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(wgmma_conv) <= 4000, "kernel parameters");
#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_barriers) <= UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

/* Workspace: packed weights (uf_wgmma_packed_bytes), the channel-blocked copy of the read tensor,
 * partial sums of stream-K CTAs, a byte per tile and warpgroup. */
static inline channel_blocked blocks_of_read(uf_conv_direction direction,
                                             const uf_conv_kernel_args *args,
                                             const uf_wgmma_geometry &geometry, void *to) {
    const int32_t mul[2] = {geometry.axis[0].mul, geometry.axis[1].mul};
    const int32_t images_log[2] = {geometry.axis[0].images_log, geometry.axis[1].images_log};
    channel_blocked made =
        channel_blocked_of(direction == UF_CONV_DGRAD ? &args->y : &args->x,
                           geometry.split_f16 ? UF_MMA_F16X3 : uf_mma_math_of(args), args->groups,
                           geometry.chunks * geometry.planes, mul, images_log, to);
    if (geometry.line > 0) {
        channel_blocked_line(&made, geometry.stack, geometry.line, geometry.line_first,
                             geometry.line_parts, uf_wgmma_line_end(&geometry));
    } else if (geometry.stack > 0) {
        channel_blocked_stack(&made, geometry.stack);
    }
    channel_blocked_classes(&made, geometry.class_of, geometry.classes);
    return made;
}

static inline int64_t blocks_bytes(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                   const uf_wgmma_geometry &geometry) {
    const channel_blocked blocks = blocks_of_read(direction, args, geometry, nullptr);
    return geometry.packed ? channel_blocked_bytes(&blocks) : 0;
}

static inline int64_t parts_bytes(const uf_wgmma_geometry &geometry) {
    return (int64_t)geometry.stream_k * geometry.wm * geometry.nt * UF_WGMMA_SUMS;
}

static inline int64_t stream_k_bytes(const uf_wgmma_geometry &geometry) {
    return parts_bytes(geometry) + (int64_t)geometry.stream_k * geometry.wm * 4;
}

static inline int64_t blocks_of(int64_t threads) {
    return (threads + UF_BLOCK - 1) / UF_BLOCK;
}

template <typename Tile>
static uf_status launch_mma(uf_context *context, const wgmma_conv &p, const CUtensorMap &map,
                            int processors) {
    const int64_t most = (int64_t)processors * Tile::BLOCKS;
    const int64_t blocks = Tile::SHARED     ? p.stream_k
                           : Tile::SPLIT    ? p.tiles * p.splits
                           : p.tiles < most ? p.tiles
                                            : most;
    const uf_launch how = {dim3((unsigned)blocks), Tile::THREADS, (size_t)p.shared,
                           Tile::SPLIT ? p.splits : 0};
    return uf_cuda_launch(context, "conv_wgmma", how, conv_wgmma<Tile>, p, map);
}

/* Prepares packing of weights and, for packed windows, of the read tensor with its TMA map, as far
 * as the call packs them; counts the CTAs that pack. */
template <typename Tile>
static uf_status prepare_packing(uf_context *context, uf_conv_direction direction,
                                 const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                                 wgmma_packing *packing, CUtensorMap *map, int64_t *pack_blocks) {
    memset((void *)map, 0, sizeof *map);
    *packing = wgmma_packing_of(p, Tile::FP32, sizeof(typename Tile::stored));
    if (args->packing == UF_CONV_PACKED) {
        /* CTA 0 has other work: that of wgmma_pack_begin, and the scales of split parts. */
        packing->weights = 0;
        packing->weight_blocks = !Tile::PACKED && (p.stream_k > 0 || Tile::SPLIT_F16) ? 1 : 0;
    }
    *pack_blocks = packing->weight_blocks;
    if (Tile::PACKED && args->packing != UF_CONV_PACK_ONLY) {
        packing->read = blocks_of_read(direction, args, p, blocks);
        packing->pairs = channel_blocked_paired(packing->read, sizeof(typename Tile::stored)) &&
                         channel_blocked_bytes(&packing->read) <= WGMMA_PAIRS_BYTES;
        *pack_blocks += packing->pairs ? channel_blocked_pairs_count(packing->read)
                                       : channel_blocked_count<Tile::MATH>(packing->read);
        if (*pack_blocks > INT32_MAX) {
            UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a tensor too large to pack");
        }
        UF_TRY(channel_blocked_map(context, packing->read, p.axis[1].extent, p.axis[0].extent,
                                   p.image_mmas, p.planes * p.depth, map));
    }
    return UF_OK;
}

#endif
