/* launch.cu - conv_wgrad in FP32 by three MMAs of split f16 (arch/split_f16.h) on Hopper's
 * `wgmma` (sm_90a): what `wgmma_channel_blocked` is in FP32. Windows, taps and shares are those of
 * channel_blocked/launch.cu; what differs is this.
 *
 * Scales: a pass over tensors of gigabytes would cost a fifth of the MMAs. Of a large tensor a
 * sample is read instead, and its largest element gets an exponent of 10 instead of 14. What is
 * larger by 16 times and more makes an infinity of its halves, and so sums that are not finite.
 * What is so small that halves lack bits is counted, by who sees every element: the kernel that
 * rearranges a tensor, or, where y is read as it is, who splits it.
 *
 * Data path: x is split into halves and rearranged once, a tensor of big halves and one of small
 * ones behind it; y is read as it is where its rows are aligned and a third stage fits, and split
 * in place by the consumers, while MMAs of the stage before run; else rearranged too. Of a
 * stage of 128 pixels MMAs with a small half are summed first, then those of big halves; both
 * sums go to ordinary registers.
 *
 * The end: sums of the shares are added, and a span of w that has a sum which is not finite, or
 * which elements without all their bits might have spoiled, is not written but marked. What is
 * marked is made by three TF32 MMAs (register_a/launch.cu), whose kernels follow always, and end
 * at once where nothing is. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/workspace.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/launch.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

static_assert(sizeof(wgrad_channel_blocked) <= 4000, "kernel parameters");

enum {
    ALL = 1 << 20,     /* elements of a tensor that are all looked at */
    SAMPLE = 1 << 16,  /* words of four, else; by strides, elements */
    MOST_BLOCKS = 132, /* for each tensor */
    STATE_BYTES = 256
};

struct split_f16_call : channel_blocked_call {
    split_f16_epilogue candidate;
    uf_wgrad_fixup fixup;
    void *rest; /* workspace of the kernel that makes things again */
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

static bool call_of(const uf_conv_kernel_args *args, bool packed, split_f16_call *call) {
    memset((void *)call, 0, sizeof *call);
    const uf_channel_blocked_plan &p = call->mma.plan;
    if (!uf_wgrad_channel_blocked_plan_of(args, packed, &call->mma.plan)) {
        return false;
    }
    char *at = (char *)args->workspace;
    const channel_blocked_sums w = channel_blocked_sums_of(args, p.width, p.splits, nullptr);
    split_f16_epilogue &candidate = call->candidate;
    candidate.state = (split_f16_state *)at;
    at += STATE_BYTES;
    candidate.marks = (uint8_t *)at;
    at += channel_blocked_aligned(w.items);
    candidate.mmas = (float)args->y.extent[0] * (float)args->y.extent[2] * (float)args->y.extent[3];
    call->fixup.any = &candidate.state->fixup;
    call->fixup.spans = candidate.marks;
    call->fixup.per_row = w.spans;
    call->fixup.span_log = w.span_log;
    call->rest = at;
    channel_blocked_lay_out(args, 2, at, call);
    return true;
}

/* Of the kernel that may follow, whose workspace begins where that of this one's tensors does. */
static size_t rest_bytes(const uf_conv_kernel_args *args, const split_f16_call &call) {
    return (size_t)((char *)call.rest - (char *)args->workspace) +
           uf_cuda_conv_wgrad_rs_workspace(UF_CONV_WGRAD, args);
}

extern "C" size_t uf_cuda_conv_wgrad_split_f16_workspace(uf_conv_direction,
                                                         const uf_conv_kernel_args *args) {
    /* Where y will be is not always known yet. */
    size_t most = 0;
    for (int packed = 0; packed < 2; ++packed) {
        split_f16_call call;
        if (call_of(args, packed != 0, &call)) {
            const size_t rest = rest_bytes(args, call);
            const size_t bytes = call.bytes > rest ? call.bytes : rest;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static uf_status launch_most(uf_context *context, const split_f16_tensor &x,
                             const split_f16_tensor &y, split_f16_state *state) {
    const int64_t per_block = 4 * UF_BLOCK;
    int64_t blocks[2] = {(x.count + per_block - 1) / per_block,
                         (y.count + per_block - 1) / per_block};
    for (int i = 0; i < 2; ++i) {
        blocks[i] = blocks[i] < 1 ? 1 : blocks[i] > MOST_BLOCKS ? (int64_t)MOST_BLOCKS : blocks[i];
    }
    UF_CUDA_TRY(context,
                cudaMemsetAsync(state, 0, sizeof(split_f16_state), uf_cuda_stream(context)));
    conv_wgrad_split_f16_most<<<(unsigned)(blocks[0] + blocks[1]), UF_BLOCK, 0,
                                uf_cuda_stream(context)>>>(x, y, (int32_t)blocks[0], state);
    return uf_cuda_launched(context, "conv_wgrad_split_f16_most");
}

template <typename Tile>
static uf_status launch_mma(uf_context *context, const split_f16_call &call) {
    const wgrad_channel_blocked &mma = call.mma;
    const uf_launch how = {dim3((unsigned)mma.plan.blocks), Tile::THREADS, (size_t)mma.plan.shared,
                           true, 0};
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

extern "C" uf_status uf_cuda_conv_wgrad_split_f16(uf_context *context, uf_conv_direction,
                                                  const uf_conv_kernel_args *args) {
    split_f16_call call;
    if (!call_of(args, (uintptr_t)args->y.data % 16 != 0, &call)) {
        UF_FAIL(UF_ERROR_INTERNAL,
                "conv_wgrad_split_f16 was given a geometry that it does not take");
    }
    UF_TRY(make_maps(context, args, &call));
    const split_f16_tensor x = tensor_of(&args->x), y = tensor_of(&args->y);
    call.candidate.x_all = x.all;
    call.candidate.y_all = y.all;
    UF_TRY(launch_most(context, x, y, call.candidate.state));
    const bool packed = call.mma.plan.source == UF_CHANNEL_BLOCKED_PACKED;
    const int64_t x_blocks = channel_blocked_count<UF_MMA_F16X3, true>(call.x),
                  y_blocks = packed ? channel_blocked_count<UF_MMA_F16X3, true>(call.y) : 0;
    const uf_launch pack = {dim3((unsigned)(x_blocks + y_blocks)), UF_BLOCK, 0, true, 0};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_split_f16_pack", pack, conv_wgrad_split_f16_pack,
                          call.x, call.y, (int32_t)x_blocks, x.all, y.all, call.candidate.state));
    UF_TRY(packed ? launch_tile<UF_CHANNEL_BLOCKED_PACKED>(context, call)
                  : launch_tile<UF_CHANNEL_BLOCKED_F32>(context, call));
    UF_TRY((channel_blocked_add<float, split_f16_epilogue>(context, call.sums, call.candidate)));
    uf_conv_kernel_args rest = *args;
    rest.workspace = call.rest;
    return uf_cuda_conv_wgrad_rs_fixup(context, &rest, &call.fixup);
}
