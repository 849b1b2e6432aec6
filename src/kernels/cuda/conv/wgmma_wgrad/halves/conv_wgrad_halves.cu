/* conv_wgrad_halves.cu - conv_wgrad in FP32 by three products of f16 halves (halves.h) on Hopper's
 * warpgroup products (sm_90a): what `blocks` is in FP32. Windows, taps and shares are those of
 * conv_wgrad_blocks.cu; what differs is this.
 *
 * Scales: a pass over tensors of gigabytes would cost a fifth of the products. Of a large tensor a
 * sample is read instead, and its largest element gets an exponent of 10 instead of 14. What is
 * larger by 16 times and more makes an infinity of its halves, and so sums that are not finite.
 * What is so small that halves lack bits is counted, by who sees every element: the kernel that
 * rearranges a tensor, or, where y is read as it is, who splits it.
 *
 * Data path: x is split into halves and rearranged once, a tensor of big halves and one of small
 * ones behind it; y is read as it is where its rows are aligned and a third stage fits, and split
 * in place by the consumers, while products of the stage before run; else rearranged too. Of a
 * stage of 128 pixels products with a small half are summed first, then those of big halves; both
 * sums go to ordinary registers.
 *
 * The end: sums of the shares are added, and a span of w that has a sum which is not finite, or
 * which elements without all their bits might have spoiled, is not written but marked. What is
 * marked is made by three TF32 products (conv_wgrad_lines.cu), whose kernels follow always, and end
 * at once where nothing is. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks_call.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/halves/conv_wgrad_halves.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/halves/conv_wgrad_halves.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/tensor_map.cuh"

static_assert(sizeof(wgrad_blocks) <= 4000, "kernel parameters");

enum {
    ALL = 1 << 20,     /* elements of a tensor that are all looked at */
    SAMPLE = 1 << 16,  /* words of four, else; by strides, elements */
    MOST_BLOCKS = 132, /* for each tensor */
    STATE_BYTES = 256
};

struct halves_call : blocks_call {
    halves_way way;
    uf_wgrad_again again;
    void *rest; /* workspace of the kernel that makes things again */
};

static halves_tensor tensor_of(const uf_view *view) {
    halves_tensor made;
    memset((void *)&made, 0, sizeof made);
    made.data = (const float *)view->data;
    made.elements = uf_view_count(view);
    for (int axis = 0; axis < 4; ++axis) {
        made.extent[axis] = view->extent[axis];
        made.stride[axis] = view->stride[axis];
    }
    made.dense = uf_halves_dense(view);
    made.all = made.elements <= (made.dense ? (int64_t)ALL : (int64_t)SAMPLE);
    made.count = !made.all ? (int64_t)SAMPLE : made.dense ? made.elements / 4 : made.elements;
    return made;
}

static bool call_of(const uf_conv_kernel_args *args, bool packed, halves_call *call) {
    memset((void *)call, 0, sizeof *call);
    const uf_blocks_plan &p = call->product.plan;
    if (!uf_wgrad_blocks_plan_of(args, packed, &call->product.plan)) {
        return false;
    }
    char *at = (char *)args->workspace;
    const blocks_sums w = blocks_sums_of(args, p.width, p.splits, nullptr);
    halves_way &way = call->way;
    way.state = (halves_state *)at;
    at += STATE_BYTES;
    way.marks = (uint8_t *)at;
    at += blocks_aligned(w.items);
    way.products = (float)args->y.extent[0] * (float)args->y.extent[2] * (float)args->y.extent[3];
    call->again.any = &way.state->again;
    call->again.spans = way.marks;
    call->again.per_row = w.spans;
    call->again.span_log = w.span_log;
    call->rest = at;
    blocks_lay_out(args, 2, at, call);
    return true;
}

/* Of the kernel that may follow, whose workspace begins where that of this one's tensors does. */
static size_t rest_bytes(const uf_conv_kernel_args *args, const halves_call &call) {
    return (size_t)((char *)call.rest - (char *)args->workspace) +
           uf_cuda_conv_wgrad_lines_workspace(UF_CONV_WGRAD, args);
}

extern "C" size_t uf_cuda_conv_wgrad_halves_workspace(uf_conv_direction,
                                                      const uf_conv_kernel_args *args) {
    /* Where y will be is not always known yet. */
    size_t most = 0;
    for (int packed = 0; packed < 2; ++packed) {
        halves_call call;
        if (call_of(args, packed != 0, &call)) {
            const size_t rest = rest_bytes(args, call);
            const size_t bytes = call.bytes > rest ? call.bytes : rest;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static uf_status launch_most(uf_context *context, const halves_tensor &x, const halves_tensor &y,
                             halves_state *state) {
    const int64_t per_block = 4 * UF_BLOCK;
    int64_t blocks[2] = {(x.count + per_block - 1) / per_block,
                         (y.count + per_block - 1) / per_block};
    for (int i = 0; i < 2; ++i) {
        blocks[i] = blocks[i] < 1 ? 1 : blocks[i] > MOST_BLOCKS ? (int64_t)MOST_BLOCKS : blocks[i];
    }
    UF_CUDA_TRY(context, cudaMemsetAsync(state, 0, sizeof(halves_state), uf_cuda_stream(context)));
    conv_wgrad_halves_most<<<(unsigned)(blocks[0] + blocks[1]), UF_BLOCK, 0,
                             uf_cuda_stream(context)>>>(x, y, (int32_t)blocks[0], state);
    return uf_cuda_launched(context, "conv_wgrad_halves_most");
}

template <typename Tile>
static uf_status launch_product(uf_context *context, const halves_call &call) {
    const wgrad_blocks &product = call.product;
    const uf_launch how = {dim3((unsigned)product.plan.blocks), Tile::THREADS,
                           (size_t)product.plan.shared, true, 0};
    return uf_cuda_launch(context, "conv_wgrad_halves", how, conv_wgrad_halves<Tile>, product,
                          call.way.y_all, call.way.state);
}

/* Kernels of wide tiles for y as it is are never asked for. */
template <uf_blocks_source SOURCE>
static uf_status launch_tile(uf_context *context, const halves_call &call) {
#define UF_BLOCKS_TILE(ID, WIDTH, UNITS, ACROSS, ROWS)                                             \
    if (call.product.plan.tile_id == ID) {                                                         \
        constexpr uf_blocks_source OF =                                                            \
            WIDTH * UNITS <= UF_HALVES_SPLITTING ? SOURCE : UF_BLOCKS_PACKED;                      \
        return launch_product<blocks_tile<WIDTH, UNITS, ACROSS, ROWS, OF, true>>(context, call);   \
    }
    UF_HALVES_TILES
#undef UF_BLOCKS_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_halves has no tile %d", (int)call.product.plan.tile_id);
}

static uf_status make_maps(uf_context *context, const uf_conv_kernel_args *args,
                           halves_call *call) {
    const uf_blocks_plan &p = call->product.plan;
    conv_blocks halves[2] = {call->x, call->y};
    for (int i = 0; i < 2; ++i) {
        halves[i].planes *= 2;
    }
    UF_TRY(conv_blocks_map(context, halves[0], p.axis[1].extent, p.axis[0].extent, 1, p.width / 8,
                           &call->product.x));
    if (p.source != UF_BLOCKS_PACKED) {
        return blocks_map_y(context, args, p, &call->product.y);
    }
    return conv_blocks_map(context, halves[1], p.axis[1].patch, p.y_rows, 1, blocks_channels(p) / 8,
                           &call->product.y);
}

extern "C" uf_status uf_cuda_conv_wgrad_halves(uf_context *context, uf_conv_direction,
                                               const uf_conv_kernel_args *args) {
    halves_call call;
    if (!call_of(args, (uintptr_t)args->y.data % 16 != 0, &call)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_halves was given a geometry that it does not take");
    }
    UF_TRY(make_maps(context, args, &call));
    const halves_tensor x = tensor_of(&args->x), y = tensor_of(&args->y);
    call.way.x_all = x.all;
    call.way.y_all = y.all;
    UF_TRY(launch_most(context, x, y, call.way.state));
    const bool packed = call.product.plan.source == UF_BLOCKS_PACKED;
    const int64_t x_blocks = conv_blocks_count<UF_MATH_HALVES, true>(call.x),
                  y_blocks = packed ? conv_blocks_count<UF_MATH_HALVES, true>(call.y) : 0;
    const uf_launch pack = {dim3((unsigned)(x_blocks + y_blocks)), UF_BLOCK, 0, true, 0};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_halves_pack", pack, conv_wgrad_halves_pack, call.x,
                          call.y, (int32_t)x_blocks, x.all, y.all, call.way.state));
    UF_TRY(packed ? launch_tile<UF_BLOCKS_PACKED>(context, call)
                  : launch_tile<UF_BLOCKS_F32>(context, call));
    UF_TRY((blocks_add<float, halves_way>(context, call.sums, call.way)));
    uf_conv_kernel_args rest = *args;
    rest.workspace = call.rest;
    return uf_cuda_conv_wgrad_lines_again(context, &rest, &call.again);
}
