/* launch_split_f16.cu - conv_fprop and conv_dgrad in FP32 by 3xF16 on Hopper (sm_90a).
 *
 * Computes: fprop and dgrad of f32 tensors in FP32, with the tiles of launch.cu.
 *
 * Shapes and limits: as launch.cu, and sums of at least 128 products. No swap-AB, no patch GEMM.
 *
 * GEMM mapping (M, N, K): as launch.cu, with twice the channels per chunk.
 *
 * Data path: a range pass reads both tensors. Packing scales each by a power of two
 * (arch/split_f16.h) and writes large and small parts.
 *
 * Precision: 3xF16. Sums with a small part have accumulators of their own. Without registers for
 * these they come first, up to 128 of K at a time, and are promoted apart. A tile with a sum out of
 * range, or every tile where tensors exceed f16's exponents, gets a range flag. The TF32 kernels
 * follow: they compute flagged tiles again, and end at once where there are none.
 *
 * Split and order of sums: as launch.cu.
 *
 * Bound by: shared memory, by count.
 *
 * Chosen when: FP32 layers have channels enough to pay for the range pass. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/launch.cuh"
#include "kernels/cuda/device/launch.cuh"

/* Packs parts of weights and of the read tensor, after the range pass. CTA 0 stores the scales for
 * the kernels that follow. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack_split_f16(const __grid_constant__ wgmma_conv p,
                              const __grid_constant__ wgmma_packing packing,
                              uf_split_f16_found found, float mmas) {
    __shared__ uf_split_f16_range shared[64];
    uf_overlap_launches();
    const uf_split_f16_scales scales = uf_split_f16_gather(found, mmas, shared);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *p.scales = scales;
        *p.range_flags = 0;
    }
    wgmma_pack_begin(p);
    if (scales.fits != 0) {
        wgmma_pack_block<UF_MMA_F16X3, float>(p, packing, (int32_t)blockIdx.x, scales.a, scales.b);
    }
}

/* Packs weights for later calls, and stores their range as two elements. Scales of weights depend
 * on their range alone; where there is none, every sum of a later call sets its range flag. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack_split_f16_weights(const __grid_constant__ wgmma_conv p,
                                      const __grid_constant__ wgmma_packing packing,
                                      uf_split_f16_found found, uint32_t *elements) {
    __shared__ uf_split_f16_range shared[64];
    uf_overlap_launches();
    uf_split_f16_range weights, other;
    uf_split_f16_ranges(found, shared, &weights, &other);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        elements[0] = weights.largest;
        elements[1] = weights.least + 1;
    }
    if (uf_split_f16_holds(weights)) {
        const float scale = uf_split_f16_scale_of(weights, uf_split_f16_as_float);
        wgmma_pack_block<UF_MMA_F16X3, float>(p, packing, (int32_t)blockIdx.x, 1.0f, scale);
    }
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Byte offsets in the workspace: ranges and scales, then the larger of the needs of 3xF16 and
 * 3xTF32. TF32 parts take twice the room unless producer warps make the windows. Packed weights
 * that outlive the call (`apart`) are those of 3xF16 alone. */
struct split_f16_room {
    int64_t packed, blocks, parts, unfinished, flagged, all;
};

static split_f16_room split_f16_room_of(uf_conv_direction direction,
                                        const uf_conv_kernel_args *args,
                                        const uf_wgmma_split_f16_plan &plan, bool apart) {
    const uf_wgmma_geometry &geometry = plan.geometry, &fixup = plan.fixup;
    split_f16_room room;
    room.packed = UF_SPLIT_F16_BYTES;
    room.blocks = room.packed + larger(apart ? 0 : uf_wgmma_packed_bytes(&geometry, args->groups),
                                       uf_wgmma_packed_bytes(&fixup, args->groups));
    room.parts = room.blocks + larger(blocks_bytes(direction, args, geometry),
                                      blocks_bytes(direction, args, fixup));
    room.unfinished = room.parts + stream_k_bytes(geometry);
    room.flagged = room.unfinished + geometry.tiles * geometry.wm;
    room.all = room.flagged + geometry.tiles * geometry.wm;
    return room;
}

template <typename Tile>
static uf_status launch(uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                        int processors) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    CUtensorMap map;
    wgmma_packing packing;
    int64_t pack_blocks;
    UF_TRY(
        prepare_packing<Tile>(context, direction, args, p, blocks, &packing, &map, &pack_blocks));
    uf_split_f16_found found;
    const uf_launch pack = {dim3((unsigned)pack_blocks), UF_BLOCK};
    if (args->packing == UF_CONV_PACK_ONLY) {
        const uf_view one = uf_view_nchw(args->w.data, UF_F32, 1, 1, 1, 1); /* not looked at */
        UF_TRY(uf_split_f16_find(context, &args->w, &one, args->workspace, &found));
        return uf_cuda_launch(context, "conv_wgmma_pack_split_f16_weights", pack,
                              conv_wgmma_pack_split_f16_weights, p, packing, found,
                              (uint32_t *)args->packed);
    }
    const uf_view range = uf_view_nchw(args->packed, UF_F32, 1, 1, 1, 2);
    UF_TRY(uf_split_f16_find(context, dgrad ? &args->y : &args->x,
                             args->packing == UF_CONV_PACKED ? &range : &args->w, args->workspace,
                             &found));
    const float mmas =
        (float)p.conv.read_per_group * (float)(args->w.extent[2] * args->w.extent[3]);
    UF_TRY(uf_cuda_launch(context, "conv_wgmma_pack_split_f16", pack, conv_wgmma_pack_split_f16, p,
                          packing, found, mmas));
    return launch_mma<Tile>(context, p, map, processors);
}

extern "C" size_t uf_wgmma_split_f16_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *canonical,
                                               const uf_wgmma_split_f16_plan *plan, bool apart) {
    return (size_t)split_f16_room_of(direction, canonical, *plan, apart).all;
}

static uf_status launch_tile(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                             int processors) {
    const wgmma_scheduler scheduler = uf_wgmma_scheduler_of(&p);
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, SCHEDULER, DTYPE, STORED)                        \
    if (p.wm == WM && p.nt == NT && p.packed == PACKED && (p.packed && p.runs_log > 0) == WIDE &&  \
        scheduler == SCHEDULER) {                                                                  \
        return launch<wgmma_tile<MATH, WM, NT, PACKED, WIDE, SCHEDULER, STORED>>(                  \
            context, direction, args, p, blocks, processors);                                      \
    }
    UF_WGMMA_TILES_SPLIT_F16
#undef UF_WGMMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_split_f16 has no tile of %d x %d", (int)p.wm, (int)p.nt);
}

extern "C" uf_status uf_conv_launch_wgmma_split_f16(uf_context *context,
                                                    const uf_conv_problem *problem,
                                                    const uf_conv_plan *plan) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
    const int processors = problem->gpu->multiprocessors;
    const uf_wgmma_split_f16_plan &own = *UF_CONV_CONST_PLAN_OF(uf_wgmma_split_f16_plan, plan);
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    *(uf_wgmma_geometry *)&p = own.geometry;
    const bool apart = canonical.packing != UF_CONV_PACK_IN_CALL;
    const split_f16_room room = split_f16_room_of(direction, &canonical, own, apart);
    char *const memory = (char *)canonical.workspace;
    p.conv = uf_mma_bound(&own.mma, direction, &canonical);
    p.conv.packed = (uint32_t *)(apart ? (char *)canonical.packed + UF_WGMMA_SPLIT_F16_RANGE_BYTES
                                       : memory + room.packed);
    p.parts = (float *)(memory + room.parts);
    p.part_done = (int32_t *)(memory + room.parts + parts_bytes(p));
    p.unfinished = (uint8_t *)memory + room.unfinished;
    p.flagged = (uint8_t *)memory + room.flagged;
    p.scales = (uf_split_f16_scales *)(memory + UF_SPLIT_F16_FOUND_BYTES);
    p.range_flags = (int32_t *)(p.scales + 1);
    UF_TRY(launch_tile(context, direction, &canonical, p, memory + room.blocks, processors));
    if (canonical.packing == UF_CONV_PACK_ONLY) {
        return UF_OK;
    }
    wgmma_conv fixup = p;
    *(uf_wgmma_geometry *)&fixup = own.fixup;
    fixup.conv.packed = (uint32_t *)(memory + room.packed);
    uf_conv_kernel_args packing = canonical;
    packing.packing = UF_CONV_PACK_IN_CALL; /* of the rare parts in TF32 */
    return wgmma_fixup_launch(context, direction, &packing, fixup, memory + room.blocks,
                              processors);
}
