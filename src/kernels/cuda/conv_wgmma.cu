/* conv_wgmma.cu - conv_fprop and conv_dgrad on Hopper's warpgroup products (sm_90a).
 *
 * Both directions are one dense correlation per phase (geometry.h). A block makes WM x 64 written channels by NT x 128
 * pixels of one phase; the products' rows are channels and their columns pixels, in runs of 8 neighbours of a row (or of
 * the same place in several images, where rows are short).
 *
 * Data path: a window, the part of the read side that a tile's taps see of 16 (TF32: 32, BF16: 64) channels, is loaded
 * once: lanes read neighbouring pixels of one channel, round or split in registers, and write 16 bytes of channels, so
 * that shared memory holds [plane of K][position][16 bytes], K-major as TF32 needs it. Without swizzle a tile may begin
 * at any position: a filter tap is an offset in a descriptor, and nothing is gathered twice. Strided reads (fprop) have
 * a window per class of taps. Weights are packed once per call in the order of use and come by bulk copies. Warps have
 * roles: loaders, feeders of weights, and consumers that issue products and nothing else until the tile is done.
 *
 * FP32: x = big + small, products small*big + big*small + big*big; the tensor core's accumulator truncates, so it goes
 * to ordinary registers every 64 of K. A tile with a result that is not finite is computed again by FFMAs. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv.h"
#include "kernels/cuda/conv_mma_ends.cuh"
#include "kernels/cuda/conv_mma_plan.cuh"
#include "kernels/cuda/conv_wgmma_kernel.cuh"
#include "kernels/cuda/conv_wgmma_ends.cuh"

static_assert(sizeof(wgmma_conv) <= 4000, "kernel parameters");
#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_barriers) == UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

/* math, warpgroups of 64 channels, products of 128 pixels */
#define UF_WGMMA_TILES                                                                             \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 2)                                                              \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 2)                                                              \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 2)                                                              \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 1)                                                              \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 2)

static int64_t packed_bytes(const uf_wgmma_geometry &geometry, int64_t groups) {
    return groups * geometry.first_tap[geometry.phases * geometry.classes] * geometry.channel_blocks *
           geometry.chunks * UF_WGMMA_WEIGHTS;
}

template <typename Tile>
static uf_status launch(uf_context *context, const wgmma_conv &p) {
    const cudaStream_t stream = uf_cuda_stream(context);
    const int64_t pieces = (int64_t)p.conv.groups * p.channel_blocks * p.chunks *
                           (Tile::DEPTH / Tile::PER_PIECE) * UF_WGMMA_ROWS;
    const int32_t taps = p.first_tap[p.phases * p.classes];
    int processors = 0;
    if (taps > 0) {
        const dim3 grid((unsigned)((pieces + UF_BLOCK - 1) / UF_BLOCK),
                        (unsigned)((taps + WGMMA_PACK_TAPS - 1) / WGMMA_PACK_TAPS));
        conv_wgmma_pack<Tile><<<grid, UF_BLOCK, 0, stream>>>(p, pieces);
        UF_TRY(uf_cuda_launched(context, "conv_wgmma_pack"));
    }
    UF_CUDA_TRY(context, cudaFuncSetAttribute((const void *)conv_wgmma<Tile>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              p.shared));
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    const int64_t most = (int64_t)processors * Tile::BLOCKS;
    conv_wgmma<Tile><<<(unsigned)(p.tiles < most ? p.tiles : most), Tile::THREADS,
                       (size_t)p.shared, stream>>>(p);
    UF_TRY(uf_cuda_launched(context, "conv_wgmma"));
    if (!Tile::FP32) {
        return UF_OK;
    }
    conv_wgmma_repair<<<(unsigned)processors, UF_BLOCK, 0, stream>>>(p);
    return uf_cuda_launched(context, "conv_wgmma_repair");
}

extern "C" size_t uf_cuda_conv_wgmma_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_geometry_of(direction, &canonical, &geometry)
               ? (size_t)(packed_bytes(geometry, args->groups) + geometry.tiles * geometry.wm)
               : 0;
}

extern "C" uf_status uf_cuda_conv_wgmma(uf_context *context, uf_conv_direction direction,
                                        const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    if (!uf_wgmma_geometry_of(direction, &canonical, &p)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a geometry that it does not take");
    }
    p.conv = mma_plan_of(direction, &canonical).conv;
    p.unfinished = (uint8_t *)args->workspace + packed_bytes(p, args->groups);
#define UF_WGMMA_TILE(MATH, WM, NT)                                                                \
    if (args->math == MATH && p.wm == WM && p.nt == NT) {                                          \
        return launch<wgmma_tile<MATH, WM, NT>>(context, p);                                       \
    }
    UF_WGMMA_TILES
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma has no tile of %d x %d for math %d", (int)p.wm, (int)p.nt,
            (int)args->math);
}
