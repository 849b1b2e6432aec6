/* conv_wgmma_halves.cu - conv_fprop and conv_dgrad in FP32 by three products of f16 halves on
 * Hopper (sm_90a): the tiles of conv_wgmma.cu, twice the channels per chunk.
 *
 * A pass over both tensors finds their ranges; packing makes scales of these (halves.h) and halves
 * of what it packs. Sums with a small half have units of their own: those of up to 128 of K come
 * first, and are added to ordinary registers before the big ones begin. A tile with a doubtful sum,
 * or every tile where tensors are beyond f16's exponents, is left to TF32 halves: they are launched
 * behind, and find in most calls that nothing is. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_implicit_gemm/conv_mma_ends.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/conv_mma_plan.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/conv_wgmma_launch.cuh"
#include "kernels/cuda/device/launch.cuh"

/* As in conv_wgmma.cu, which has each of them in FP32 too. */
#define UF_WGMMA_HALVES_TILES                                                                      \
    UF_WGMMA_TILE(UF_MATH_HALVES, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                  \
    UF_WGMMA_TILE(UF_MATH_HALVES, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                  \
    UF_WGMMA_PACKED_TILES(UF_MATH_HALVES, false, UF_F32, float)                                    \
    UF_WGMMA_TILE(UF_MATH_HALVES, 1, 1, true, true, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_HALVES, 2, 1, true, true, WGMMA_ALONE, UF_F32, float)                    \
    UF_WGMMA_TILE(UF_MATH_HALVES, 2, 1, true, false, WGMMA_CLUSTERS, UF_F32, float)                \
    UF_WGMMA_TILE(UF_MATH_HALVES, 2, 1, true, false, WGMMA_SHARERS, UF_F32, float)                 \
    UF_WGMMA_TILE(UF_MATH_HALVES, 1, 1, false, false, WGMMA_MERGED, UF_F32, float)                 \
    UF_WGMMA_TILE(UF_MATH_HALVES, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)

/* Halves of weights and of the tensor that is read, behind the pass; block 0 leaves the scales for
 * the kernels after this one. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack_halves(const __grid_constant__ wgmma_conv p,
                           const __grid_constant__ wgmma_packing packing, uf_halves_found found,
                           float products) {
    __shared__ uf_halves_range shared[64];
    uf_wait_for_launcher();
    uf_launch_dependents();
    const uf_halves_scales scales = uf_halves_gather(found, products, shared);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *p.scales = scales;
        *p.doubts = 0;
    }
    wgmma_pack_begin(p);
    if (scales.fits != 0) {
        wgmma_pack_block<UF_MATH_HALVES, float>(p, packing, (int32_t)blockIdx.x, scales.a,
                                                scales.b);
    }
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Workspace: ranges and scales, then what either kind of halves needs: those of TF32 take twice the
 * room, unless loaders make their windows. */
struct halves_room {
    int64_t packed, blocks, parts, unfinished, doubtful, all;
};

static halves_room halves_room_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                  const uf_wgmma_geometry &geometry) {
    const uf_wgmma_geometry again = uf_wgmma_again(direction, args, &geometry);
    halves_room room;
    room.packed = UF_HALVES_BYTES;
    room.blocks = room.packed +
                  larger(packed_bytes(geometry, args->groups), packed_bytes(again, args->groups));
    room.parts = room.blocks + larger(blocks_bytes(direction, args, geometry),
                                      blocks_bytes(direction, args, again));
    room.unfinished = room.parts + sharers_bytes(geometry);
    room.doubtful = room.unfinished + geometry.tiles * geometry.wm;
    room.all = room.doubtful + geometry.tiles * geometry.wm;
    return room;
}

template <typename Tile>
static uf_status launch(uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    CUtensorMap map;
    wgmma_packing packing;
    int64_t pack_blocks;
    UF_TRY(
        prepare_packing<Tile>(context, direction, args, p, blocks, &packing, &map, &pack_blocks));
    uf_halves_found found;
    UF_TRY(uf_halves_find(context, dgrad ? &args->y : &args->x, &args->w, args->workspace, &found));
    const uf_launch pack = {dim3((unsigned)pack_blocks), UF_BLOCK, 0, true, 0};
    const float products =
        (float)p.conv.read_per_group * (float)(args->w.extent[2] * args->w.extent[3]);
    UF_TRY(uf_cuda_launch(context, "conv_wgmma_pack_halves", pack, conv_wgmma_pack_halves, p,
                          packing, found, products));
    return launch_product<Tile>(context, p, map, processors);
}

extern "C" size_t uf_cuda_conv_halves_workspace(uf_conv_direction direction,
                                                const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_halves_of(direction, &canonical, &geometry)
               ? (size_t)halves_room_of(direction, &canonical, geometry).all
               : 0;
}

static uf_status launch_tile(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks) {
    const wgmma_crew crew = wgmma_crew_of(p);
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, CREW, DTYPE, STORED)                             \
    if (p.wm == WM && p.nt == NT && p.packed == PACKED && (p.packed && p.runs_log > 0) == WIDE &&  \
        crew == CREW) {                                                                            \
        return launch<wgmma_tile<MATH, WM, NT, PACKED, WIDE, CREW, STORED>>(context, direction,    \
                                                                            args, p, blocks);      \
    }
    UF_WGMMA_HALVES_TILES
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_halves has no tile of %d x %d", (int)p.wm, (int)p.nt);
}

extern "C" uf_status uf_cuda_conv_halves(uf_context *context, uf_conv_direction direction,
                                         const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    if (!uf_wgmma_halves_of(direction, &canonical, &p)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_halves was given a geometry that it does not take");
    }
    const halves_room room = halves_room_of(direction, &canonical, p);
    char *const memory = (char *)args->workspace;
    p.conv = mma_plan_of(direction, &canonical).conv;
    p.conv.packed = (uint32_t *)(memory + room.packed);
    p.parts = (float *)(memory + room.parts);
    p.part_done = (int32_t *)(memory + room.parts + parts_bytes(p));
    p.unfinished = (uint8_t *)memory + room.unfinished;
    p.doubtful = (uint8_t *)memory + room.doubtful;
    p.scales = (uf_halves_scales *)(memory + UF_HALVES_FOUND_BYTES);
    p.doubts = (int32_t *)(p.scales + 1);
    UF_TRY(launch_tile(context, direction, &canonical, p, memory + room.blocks));
    wgmma_conv again = p;
    *(uf_wgmma_geometry *)&again = uf_wgmma_again(direction, &canonical, &p);
    return wgmma_again_launch(context, direction, &canonical, again, memory + room.blocks);
}
