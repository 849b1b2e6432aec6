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
#include "kernels/cuda/conv_wgrad_wgmma.cuh"

static_assert(sizeof(wgmma_conv) <= 4000, "kernel parameters");
#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_barriers) == UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

/* math, warpgroups of 64 channels, products of 128 pixels, packed windows */
#define UF_WGMMA_TILES                                                                             \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 2, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 2, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 2, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 1, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 2, false)                                                       \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_FP32, 1, 2, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_FP32, 2, 2, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_TF32, 1, 2, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_TF32, 2, 2, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_BF16, 1, 2, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 1, true)                                                        \
    UF_WGMMA_TILE(UF_MATH_BF16, 2, 2, true)

/* Workspace: packed weights, packed windows, a byte per tile and warpgroup. */
static int64_t packed_bytes(const uf_wgmma_geometry &geometry, int64_t groups) {
    return groups * geometry.first_tap[geometry.phases * geometry.classes] * geometry.channel_blocks *
           geometry.chunks * UF_WGMMA_WEIGHTS;
}

static int64_t packed_window_bytes(const uf_wgmma_geometry &geometry) {
    return geometry.packed ? geometry.window_count * geometry.depth * geometry.window_rows *
                                 (UF_WGMMA_PLANES * 16)
                           : 0;
}

/* A launch that need not wait for the kernel before it: uf_wait_for_launcher does. */
static cudaLaunchConfig_t early(int64_t blocks, int threads, int32_t shared, cudaStream_t stream,
                                cudaLaunchAttribute *attribute) {
    cudaLaunchConfig_t config;
    memset((void *)&config, 0, sizeof config);
    memset((void *)attribute, 0, sizeof *attribute);
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)shared;
    config.stream = stream;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

static int64_t blocks_of(int64_t threads) {
    return (threads + UF_BLOCK - 1) / UF_BLOCK;
}

template <typename Tile>
static uf_status launch_product(uf_context *context, const wgmma_conv &p, int processors) {
    cudaLaunchAttribute attribute;
    UF_CUDA_TRY(context, cudaFuncSetAttribute((const void *)conv_wgmma<Tile>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              p.shared));
    const int64_t most = (int64_t)processors * Tile::BLOCKS;
    const cudaLaunchConfig_t config = early(p.tiles < most ? p.tiles : most, Tile::THREADS, p.shared,
                                            uf_cuda_stream(context), &attribute);
    UF_CUDA_TRY(context, cudaLaunchKernelEx(&config, conv_wgmma<Tile>, p));
    return uf_cuda_launched(context, "conv_wgmma");
}

template <typename Tile>
static uf_status launch_wgrad(uf_context *context, const uf_conv_kernel_args *args,
                              const uf_wgmma_geometry &geometry) {
    const cudaStream_t stream = uf_cuda_stream(context);
    const wgmma_wgrad g = wgmma_wgrad_of(args, geometry, Tile::PARTS);
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    const int64_t threads = (int64_t)g.row_threads + g.column_threads;
    conv_wgrad_wgmma_pack<Tile><<<(unsigned)blocks_of(threads), UF_BLOCK, 0, stream>>>(g);
    UF_TRY(uf_cuda_launched(context, "conv_wgrad_wgmma_pack"));
    UF_TRY(launch_product<Tile>(context, g.product, processors));
    const unsigned per_tile = (unsigned)((int64_t)g.sums.rows * g.sums.columns * g.sums.adders / UF_BLOCK);
    conv_wgrad_mma_add<<<(unsigned)g.sums.tiles * per_tile, UF_BLOCK, 0, stream>>>(g.sums);
    return uf_cuda_launched(context, "conv_wgrad_mma_add");
}

template <typename Tile>
static uf_status launch(uf_context *context, const wgmma_conv &p) {
    const cudaStream_t stream = uf_cuda_stream(context);
    cudaLaunchAttribute attribute;
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    wgmma_packing packing;
    packing.weights = p.conv.groups * p.channel_blocks * p.chunks *
                      (Tile::DEPTH / Tile::PER_PIECE) * UF_WGMMA_ROWS;
    packing.weight_blocks = (int32_t)blocks_of(packing.weights);
    packing.tap_groups =
        (p.first_tap[p.phases * p.classes] + WGMMA_PACK_TAPS - 1) / WGMMA_PACK_TAPS;
    packing.windows =
        Tile::PACKED ? (int32_t)(p.window_count * p.depth * Tile::PARTS * p.window_rows) : 0;
    const int64_t pack_blocks =
        (int64_t)packing.weight_blocks * packing.tap_groups + blocks_of(packing.windows);
    if (pack_blocks > 0) {
        conv_wgmma_pack<Tile><<<(unsigned)pack_blocks, UF_BLOCK, 0, stream>>>(p, packing);
        UF_TRY(uf_cuda_launched(context, "conv_wgmma_pack"));
    }
    UF_TRY(launch_product<Tile>(context, p, processors));
    if (!Tile::FP32) {
        return UF_OK;
    }
    const int64_t flags = blocks_of(p.tiles * p.wm);
    const cudaLaunchConfig_t repair =
        early(flags < processors ? flags : processors, UF_BLOCK, 0, stream, &attribute);
    UF_CUDA_TRY(context, cudaLaunchKernelEx(&repair, conv_wgmma_repair, p));
    return uf_cuda_launched(context, "conv_wgmma_repair");
}

extern "C" size_t uf_cuda_conv_wgrad_wgmma_workspace(uf_conv_direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    return uf_wgmma_wgrad_geometry_of(args, &geometry)
               ? (size_t)(wgmma_wgrad_row_bytes(geometry, args->groups) +
                          packed_window_bytes(geometry) +
                          wgmma_wgrad_partial_bytes(geometry, args->groups))
               : 0;
}

extern "C" size_t uf_cuda_conv_wgmma_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_geometry_of(direction, &canonical, &geometry)
               ? (size_t)(packed_bytes(geometry, args->groups) + packed_window_bytes(geometry) +
                          geometry.tiles * geometry.wm)
               : 0;
}

extern "C" uf_status uf_cuda_conv_wgrad_wgmma(uf_context *context, uf_conv_direction,
                                              const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    if (!uf_wgmma_wgrad_geometry_of(args, &geometry)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a weight gradient that it does not take");
    }
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED)                                                        \
    if (PACKED && args->math == MATH && geometry.wm == WM && geometry.nt == NT) {                  \
        return launch_wgrad<wgmma_tile<MATH, WM, NT, true>>(context, args, geometry);              \
    }
    UF_WGMMA_TILES
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma has no tile of %d x %d for math %d", (int)geometry.wm,
            (int)geometry.nt, (int)args->math);
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
    p.packed_windows = (char *)args->workspace + packed_bytes(p, args->groups);
    p.unfinished = (uint8_t *)p.packed_windows + packed_window_bytes(p);
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED)                                                        \
    if (args->math == MATH && p.wm == WM && p.nt == NT && p.packed == PACKED) {                    \
        return launch<wgmma_tile<MATH, WM, NT, PACKED>>(context, p);                               \
    }
    UF_WGMMA_TILES
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma has no tile of %d x %d for math %d", (int)p.wm,
            (int)p.nt, (int)args->math);
}
