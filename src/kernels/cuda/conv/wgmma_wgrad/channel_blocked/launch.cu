/* launch.cu - wgmma_channel_blocked: the weight gradient of channel-blocked tensors in BF16.
 *
 * Computes: conv_wgrad, D[k][(tap, c)] = the sum over pixels of y[k][pixel] * x[c][pixel at tap].
 *
 * Shapes and limits: sm_90a; bf16 tensors, or f32 tensors multiplied as bf16. Up to 64 taps, a
 * window of at most 128 positions along each axis, and two stages in shared memory.
 *
 * GEMM mapping (M, N, K): M = channels of y of a group (64 an MMA), N = 32 or 64 channels of x at
 * one tap (a unit), K = pixels (16 an MMA, 128 a stage). With at most 32 channels of y in a group,
 * rows 32 to 63 are the same channels of an image row further up. They make the next tap down.
 *
 * Data path: a first kernel rounds x and writes it channel-blocked (transform/channel_blocked.cuh).
 * Eight pixels of eight channels are then 128 contiguous bytes, an MN-major operand that begins at
 * any position. A tap is so an offset in a descriptor, and no tap has a copy of its own; strided
 * reads have a window for each class of taps. y goes through registers, so that one fragment
 * serves all units. It comes from the tensor itself where TMA takes its rows and these have 32
 * pixels and more; else it is rearranged too. One lane issues the TMA loads.
 *
 * Precision: operands are bf16, rounded to nearest; sums are f32, at most 16384 pixels in the
 * tensor core, which truncates. Sums that are not finite are computed again by FFMAs.
 *
 * Split and order of sums: a block sums a share of the tiles of pixels, which the shape decides.
 * The shares' sums go to the workspace, and a last kernel adds them in their order.
 *
 * Bound by: MMAs; with few channels of y or wide windows by shared memory or the L2 cache; for
 * small problems by the kernel that rearranges x.
 *
 * Chosen when: the filter has several taps and channels fill the units; the patch wgrad
 * (wgmma_patch_gemm/wgrad) goes first where it applies. */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/call.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/pack.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

static_assert(sizeof(wgrad_channel_blocked) <= 4000, "kernel parameters");

template <typename T>
static __device__ __forceinline__ void channel_blocked_pack(const channel_blocked &blocks,
                                                            bool paired, int32_t block) {
    if (sizeof(T) == 2 && paired) {
        channel_blocked_make_pairs(blocks, block);
    } else {
        channel_blocked_make<UF_MMA_BF16, T>(blocks, block);
    }
}

static int64_t pack_count(const channel_blocked &blocks, bool paired) {
    return paired ? channel_blocked_pairs_count(blocks)
                  : channel_blocked_count<UF_MMA_BF16>(blocks);
}

/* The first x_blocks blocks rearrange x, the others y. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_channel_blocked_pack(const __grid_constant__ channel_blocked x,
                                    const __grid_constant__ channel_blocked y, int32_t x_blocks,
                                    bool x_paired, bool y_paired) {
    const int32_t block = (int32_t)blockIdx.x;
    uf_overlap_launches();
    if (block < x_blocks) {
        channel_blocked_pack<T>(x, x_paired, block);
    } else {
        channel_blocked_pack<T>(y, y_paired, block - x_blocks);
    }
}

template <typename T>
static uf_status launch_pack(uf_context *context, const channel_blocked_call &call) {
    const bool x_paired = channel_blocked_paired(call.x, sizeof(T)),
               y_paired = channel_blocked_paired(call.y, sizeof(T));
    const int64_t x_blocks = pack_count(call.x, x_paired);
    const int64_t y_blocks =
        call.mma.plan.source == UF_CHANNEL_BLOCKED_PACKED ? pack_count(call.y, y_paired) : 0;
    return uf_cuda_launch(context, "conv_wgrad_channel_blocked_pack",
                          {dim3((unsigned)(x_blocks + y_blocks)), UF_BLOCK},
                          conv_wgrad_channel_blocked_pack<T>, call.x, call.y, (int32_t)x_blocks,
                          x_paired, y_paired);
}

template <typename Tile>
static uf_status launch_mma(uf_context *context, const wgrad_channel_blocked &mma) {
    const uf_launch how = {dim3((unsigned)mma.plan.blocks), Tile::THREADS, (size_t)mma.plan.shared};
    return uf_cuda_launch(context, "conv_wgrad_channel_blocked", how,
                          conv_wgrad_channel_blocked<Tile>, mma);
}

template <uf_channel_blocked_source SOURCE>
static uf_status launch_tile(uf_context *context, const wgrad_channel_blocked &mma) {
#define UF_CHANNEL_BLOCKED_TILE(ID, WIDTH, UNITS, ACROSS, ROWS)                                    \
    if (mma.plan.tile_id == ID) {                                                                  \
        return launch_mma<channel_blocked_tile<WIDTH, UNITS, ACROSS, ROWS, SOURCE>>(context, mma); \
    }
    UF_CHANNEL_BLOCKED_TILES
#undef UF_CHANNEL_BLOCKED_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_channel_blocked has no tile %d", (int)mma.plan.tile_id);
}

static uf_status launch_source(uf_context *context, const wgrad_channel_blocked &mma) {
    switch (mma.plan.source) {
    case UF_CHANNEL_BLOCKED_BF16:
        return launch_tile<UF_CHANNEL_BLOCKED_BF16>(context, mma);
    case UF_CHANNEL_BLOCKED_F32:
        return launch_tile<UF_CHANNEL_BLOCKED_F32>(context, mma);
    default:
        return launch_tile<UF_CHANNEL_BLOCKED_PACKED>(context, mma);
    }
}

static uf_status make_maps(uf_context *context, const uf_conv_kernel_args *args,
                           channel_blocked_call *call) {
    const uf_channel_blocked_plan &p = call->mma.plan;
    UF_TRY(channel_blocked_map(context, call->x, p.axis[1].extent, p.axis[0].extent, 1, p.width / 8,
                               &call->mma.x));
    if (p.source != UF_CHANNEL_BLOCKED_PACKED) {
        return channel_blocked_map_y(context, args, p, &call->mma.y);
    }
    return channel_blocked_map(context, call->y, p.axis[1].patch, p.y_rows, 1,
                               channel_blocked_channels(p) / 8, &call->mma.y);
}

template <typename T>
uf_status channel_blocked_add(uf_context *context, const channel_blocked_sums &sums) {
    const channel_blocked_as_they_are epilogue{};
    if (sums.wide) {
        return channel_blocked_add_with<T, float>(context, sums, epilogue);
    }
    return channel_blocked_add_with<uf_bf16, uf_bf16>(context, sums, epilogue);
}

template uf_status channel_blocked_add<float>(uf_context *, const channel_blocked_sums &);
template uf_status channel_blocked_add<uf_bf16>(uf_context *, const channel_blocked_sums &);

template <typename T>
static uf_status launch_all(uf_context *context, const channel_blocked_call &call) {
    UF_TRY(launch_pack<T>(context, call));
    UF_TRY(launch_source(context, call.mma));
    return channel_blocked_add<T>(context, call.sums);
}

extern "C" uf_status uf_channel_blocked_launch(uf_context *context, const uf_conv_kernel_args *args,
                                               const uf_channel_blocked_plans *plans) {
    channel_blocked_call call;
    memset((void *)&call, 0, sizeof call);
    channel_blocked_call_of(args, *uf_channel_blocked_plan_for(plans, args), 0, &call);
    UF_TRY(make_maps(context, args, &call));
    return args->x.dtype == UF_BF16 ? launch_all<uf_bf16>(context, call)
                                    : launch_all<float>(context, call);
}

extern "C" uf_status uf_conv_launch_wgmma_channel_blocked(uf_context *context,
                                                          const uf_conv_problem *problem,
                                                          const uf_conv_plan *plan) {
    return uf_channel_blocked_launch(context, problem->args,
                                     UF_CONV_CONST_PLAN_OF(uf_channel_blocked_plans, plan));
}
