/* launch.cu - wgmma_split_f16: the weight gradient of channel-blocked tensors in FP32 by 3xF16.
 *
 * Computes: conv_wgrad, as channel_blocked/launch.cu.
 *
 * Shapes and limits: sm_90a; f32 tensors in FP32. Those of channel_blocked/launch.cu, and of
 * register_a/launch.cu, which fixes results up.
 *
 * GEMM mapping (M, N, K): that of channel_blocked/launch.cu, three MMAs of f16 for one.
 *
 * Data path: a kernel samples both tensors for their scales. The next splits x and writes it
 * channel-blocked: a tensor of the big f16 parts and one of the small ones behind it. y comes from
 * the tensor itself where TMA takes its rows and three stages fit. Consumers then split it in
 * place, during the MMAs of the stage before. Else y is packed too.
 *
 * Precision: that of FP32 (arch/split_f16.h). The scale puts the largest element of the sample at
 * an exponent of 10; for a tensor that is read whole, at 14. An element 16 times as large, and
 * more, has an infinite part, and sums that are not finite. Elements too small to keep all bits are
 * counted where every element is seen: by the packing kernel, or by the consumers that split y.
 *
 * Split and order of sums: of a stage of 128 pixels MMAs with a small part are summed first, then
 * those of big parts; both sums are promoted to f32 registers. Shares follow from the shape, and
 * the last kernel adds them in their order. A span of w is marked, not written, where a sum is not
 * finite or within the error that the counted elements may have made. Kernels of
 * register_a/launch.cu follow always: they compute marked spans by 3xTF32, and end at once where
 * there are none.
 *
 * Bound by: MMAs, and by the conversions of consumers that split y.
 *
 * Chosen when: FP32 has many pixels, several taps and enough channels to fill the units. */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/call.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/launch.h"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/plan.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

static_assert(sizeof(wgrad_channel_blocked) <= 4000, "kernel parameters");

enum {
    ALL = 1 << 20,   /* elements of the largest contiguous tensor that is read whole */
    SAMPLE = 1 << 16 /* 16-byte words of others; elements where they are not contiguous */
};
static_assert(sizeof(split_f16_state) <= UF_SPLIT_F16_STATE_BYTES, "workspace of the state");

struct split_f16_call : channel_blocked_call {
    split_f16_epilogue candidate;
    uf_wgrad_fixup fixup;
    void *fixup_workspace;
};

static split_f16_tensor tensor_of(const uf_view *view) {
    split_f16_tensor made;
    memset((void *)&made, 0, sizeof made);
    made.data = (const float *)view->data;
    made.elements = uf_view_count(view);
    for (int axis = 0; axis < 4; ++axis) {
        made.extent[axis] = view->extent[axis];
        made.stride[axis] = view->stride[axis];
    }
    made.dense = uf_split_f16_dense(view);
    made.all = made.elements <= (made.dense ? (int64_t)ALL : (int64_t)SAMPLE);
    made.count = !made.all ? (int64_t)SAMPLE : made.dense ? made.elements / 4 : made.elements;
    return made;
}

static void call_of(const uf_conv_kernel_args *args, const uf_channel_blocked_plan &plan,
                    split_f16_call *call) {
    char *const at = (char *)args->workspace;
    const size_t begin = uf_split_f16_marks_end(args, &plan);
    memset((void *)call, 0, sizeof *call);
    channel_blocked_call_of(args, plan, begin, call);
    split_f16_epilogue &candidate = call->candidate;
    candidate.state = (split_f16_state *)at;
    candidate.marks = (uint8_t *)(at + UF_SPLIT_F16_STATE_BYTES);
    candidate.mmas = (float)args->y.extent[0] * (float)args->y.extent[2] * (float)args->y.extent[3];
    call->fixup.any = &candidate.state->fixup;
    call->fixup.spans = candidate.marks;
    call->fixup.per_row = call->sums.spans;
    call->fixup.span_log = call->sums.span_log;
    call->fixup_workspace = at + begin;
}

static uf_status launch_most(uf_context *context, const split_f16_tensor &x,
                             const split_f16_tensor &y, split_f16_state *state) {
    const int64_t per_block = 4 * UF_BLOCK;
    const int64_t most = uf_cuda_gpu(context)->multiprocessors; /* blocks of a tensor */
    int64_t blocks[2] = {uf_div_up(x.count, per_block), uf_div_up(y.count, per_block)};
    for (int i = 0; i < 2; ++i) {
        blocks[i] = blocks[i] < 1 ? 1 : blocks[i] > most ? most : blocks[i];
    }
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_split_f16_clear", {dim3(1), 1},
                          conv_wgrad_split_f16_clear, state));
    return uf_cuda_launch(context, "conv_wgrad_split_f16_most",
                          {dim3((unsigned)(blocks[0] + blocks[1])), UF_BLOCK},
                          conv_wgrad_split_f16_most, x, y, (int32_t)blocks[0], state);
}

template <typename Tile>
static uf_status launch_mma(uf_context *context, const split_f16_call &call) {
    const wgrad_channel_blocked &mma = call.mma;
    const uf_launch how = {dim3((unsigned)mma.plan.blocks), Tile::THREADS, (size_t)mma.plan.shared};
    return uf_cuda_launch(context, "conv_wgrad_split_f16", how, conv_wgrad_split_f16<Tile>, mma,
                          call.candidate.y_all, call.candidate.state);
}

template <uf_channel_blocked_source SOURCE>
static uf_status launch_tile(uf_context *context, const split_f16_call &call) {
#define UF_CHANNEL_BLOCKED_TILE(ID, WIDTH, UNITS, ACROSS, ROWS)                                    \
    if constexpr (SOURCE == UF_CHANNEL_BLOCKED_PACKED ||                                           \
                  UF_SPLIT_F16_SPLITS_Y(WIDTH, UNITS, ROWS)) {                                     \
        if (call.mma.plan.tile_id == ID) {                                                         \
            return launch_mma<channel_blocked_tile<WIDTH, UNITS, ACROSS, ROWS, SOURCE, true>>(     \
                context, call);                                                                    \
        }                                                                                          \
    }
    UF_SPLIT_F16_TILES
#undef UF_CHANNEL_BLOCKED_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_split_f16 has no tile %d of source %d",
            (int)call.mma.plan.tile_id, (int)SOURCE);
}

static uf_status make_maps(uf_context *context, const uf_conv_kernel_args *args,
                           split_f16_call *call) {
    const uf_channel_blocked_plan &p = call->mma.plan;
    channel_blocked split_f16[2] = {call->x, call->y};
    for (int i = 0; i < 2; ++i) {
        split_f16[i].planes *= 2;
    }
    UF_TRY(channel_blocked_map(context, split_f16[0], p.axis[1].extent, p.axis[0].extent, 1,
                               p.width / 8, &call->mma.x));
    if (p.source != UF_CHANNEL_BLOCKED_PACKED) {
        return channel_blocked_map_y(context, args, p, &call->mma.y);
    }
    return channel_blocked_map(context, split_f16[1], p.axis[1].patch, p.y_rows, 1,
                               channel_blocked_channels(p) / 8, &call->mma.y);
}

extern "C" uf_status uf_conv_launch_wgmma_split_f16_wgrad(uf_context *context,
                                                          const uf_conv_problem *problem,
                                                          const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    const uf_split_f16_wgrad_plan &own = *UF_CONV_CONST_PLAN_OF(uf_split_f16_wgrad_plan, plan);
    split_f16_call call;
    call_of(args, *uf_channel_blocked_plan_for(&own.mma, args), &call);
    UF_TRY(make_maps(context, args, &call));
    const split_f16_tensor x = tensor_of(&args->x), y = tensor_of(&args->y);
    call.candidate.x_all = x.all;
    call.candidate.y_all = y.all;
    UF_TRY(launch_most(context, x, y, call.candidate.state));
    const bool packed = call.mma.plan.source == UF_CHANNEL_BLOCKED_PACKED;
    const int64_t x_blocks = channel_blocked_count<UF_MMA_F16X3, true>(call.x),
                  y_blocks = packed ? channel_blocked_count<UF_MMA_F16X3, true>(call.y) : 0;
    const uf_launch pack = {dim3((unsigned)(x_blocks + y_blocks)), UF_BLOCK};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_split_f16_pack", pack, conv_wgrad_split_f16_pack,
                          call.x, call.y, (int32_t)x_blocks, x.all, y.all, call.candidate.state));
    UF_TRY(packed ? launch_tile<UF_CHANNEL_BLOCKED_PACKED>(context, call)
                  : launch_tile<UF_CHANNEL_BLOCKED_F32>(context, call));
    UF_TRY((channel_blocked_add_with<float, float>(context, call.sums, call.candidate)));
    uf_conv_kernel_args fixup = *args;
    fixup.workspace = call.fixup_workspace;
    return uf_cuda_conv_wgrad_rs_fixup(context, &fixup, &own.fixup, &call.fixup);
}
