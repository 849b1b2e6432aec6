/* launch.cu - convolution whose small side is one pixel, each tap with a pixel of its own on the
 * large side (the first layer of a generator, the last of a discriminator): MMAs of plain
 * matrices, with columns j = (c, r, s), dgrad  x[n][j] = sum over k of y[n][k] w[k][j], fprop
 * y[n][k] = sum over j of x[n][j] w[k][j], wgrad  w[k][j] = sum over n of y[n][k] x[n][j].
 *
 * By multiply-adds whatever the math: such layers are a fraction of a GFLOP, latency and launches
 * are most of their time, and packing for tensor cores would be another launch. Tiles of 64 x 64;
 * 32 of the sum at a time go through registers to shared memory, two buffers, one barrier. Where
 * tiles are few the sum is split by shape alone, and a second launch adds the pieces in order. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/simt_gemm/mainloop.cuh"

enum {
    GEMM_FILL = 264,   /* blocks that fill a large GPU twice over */
    GEMM_CHAIN = 1024, /* MMAs added one after the other, at most */
};

static int32_t div_up(int64_t a, int64_t b) {
    return (int32_t)((a + b - 1) / b);
}

static bool aligned(const void *data, size_t element, int64_t group, int64_t other) {
    return (uintptr_t)data % (4 * element) == 0 && group % 4 == 0 && other % 4 == 0;
}

/* `deep` or `across`, whichever is 1, is how neighbours lie. */
static gemm_operand operand_of(const uf_view &view, int64_t group, int64_t across, int64_t deep,
                               bool along_deep) {
    gemm_operand operand = {view.data, group, across, deep, false};
    operand.vector =
        (along_deep ? deep : across) == 1 &&
        aligned(view.data, uf_dtype_size(view.dtype), group, along_deep ? across : deep);
    return operand;
}

static gemm_call call_of(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view &x = args->x, &w = args->w, &y = args->y;
    const int64_t k_per_group = w.extent[0] / args->groups;
    const int64_t taps = w.extent[2] * w.extent[3];
    const int64_t columns = w.extent[1] * taps;
    const int64_t x_group = columns, y_group = k_per_group * y.stride[1],
                  w_group = k_per_group * w.stride[0];
    gemm_call call;
    memset(&call, 0, sizeof call);
    call.groups = (int32_t)args->groups;
    call.per_channel = 1;
    call.c_column = 1;
    const uf_view *written = &x;
    switch (direction) {
    case UF_CONV_DGRAD:
        call.m = (int32_t)y.extent[0];
        call.n = (int32_t)columns;
        call.k = (int32_t)k_per_group;
        call.a = operand_of(y, y_group, y.stride[0], y.stride[1], true);
        call.b = operand_of(w, w_group, 1, w.stride[0], false);
        call.c_group = x_group;
        call.c_row = x.stride[0];
        call.per_channel = (int32_t)taps;
        break;
    case UF_CONV_FPROP:
        written = &y;
        call.m = (int32_t)y.extent[0];
        call.n = (int32_t)k_per_group;
        call.k = (int32_t)columns;
        call.a = operand_of(x, x_group, x.stride[0], 1, true);
        call.b = operand_of(w, w_group, w.stride[0], 1, true);
        call.c_group = y_group;
        call.c_row = y.stride[0];
        call.c_column = y.stride[1];
        break;
    default:
        written = &w;
        call.m = (int32_t)k_per_group;
        call.n = (int32_t)columns;
        call.k = (int32_t)y.extent[0];
        call.a = operand_of(y, y_group, y.stride[1], y.stride[0], false);
        call.b = operand_of(x, x_group, 1, x.stride[0], false);
        call.c_group = w_group;
        call.c_row = w.stride[0];
        break;
    }
    call.c = written->data;
    call.c_vector = call.c_column == 1 &&
                    aligned(call.c, uf_dtype_size(written->dtype), call.c_group, call.c_row);
    call.accumulate = args->mode == UF_ACCUMULATE;
    if (direction != UF_CONV_WGRAD) {
        const uf_epilogue &epilogue = args->epilogue;
        call.scale = epilogue.scale.data;
        call.scale_stride = epilogue.scale.stride[1];
        call.shift = epilogue.shift.data;
        call.shift_stride = epilogue.shift.stride[1];
        call.activation = epilogue.activation.kind;
        call.parameter = (float)epilogue.activation.parameter;
    }
    call.tiles_m = div_up(call.m, GEMM_TILE);
    call.tiles_n = div_up(call.n, GEMM_TILE);
    const int64_t tiles = (int64_t)call.tiles_m * call.tiles_n * call.groups;
    /* Enough blocks, each with two tiles' depth at the least; and short chains. */
    int64_t splits = tiles < GEMM_FILL ? GEMM_FILL / tiles : 1;
    const int64_t most = call.k / (2 * GEMM_DEPTH) > 1 ? call.k / (2 * GEMM_DEPTH) : 1;
    splits = splits < most ? splits : most;
    splits = splits * GEMM_CHAIN < call.k ? div_up(call.k, GEMM_CHAIN) : splits;
    call.split_depth = div_up(div_up(call.k, splits), GEMM_DEPTH) * GEMM_DEPTH;
    call.splits = div_up(call.k, call.split_depth);
    call.partial = (float *)args->workspace;
    return call;
}

template <typename T, bool A_DEEP, bool B_DEEP>
static uf_status launch(uf_context *context, const gemm_call &call) {
    const int64_t blocks = (int64_t)call.tiles_m * call.tiles_n * call.splits * call.groups;
    conv_gemm<T, A_DEEP, B_DEEP>
        <<<(unsigned)blocks, GEMM_THREADS, 0, uf_cuda_stream(context)>>>(call);
    UF_TRY(uf_cuda_launched(context, "conv_gemm"));
    if (call.splits > 1) {
        const int64_t size = (int64_t)call.groups * call.m * call.n;
        conv_gemm_add<T>
            <<<(unsigned)((size + 31) / 32), 32 * GEMM_ADDERS, 0, uf_cuda_stream(context)>>>(call);
        UF_TRY(uf_cuda_launched(context, "conv_gemm_add"));
    }
    return UF_OK;
}

template <typename T>
static uf_status run(uf_context *context, uf_conv_direction direction, const gemm_call &call) {
    return direction == UF_CONV_DGRAD   ? launch<T, true, false>(context, call)
           : direction == UF_CONV_FPROP ? launch<T, true, true>(context, call)
                                        : launch<T, false, false>(context, call);
}

extern "C" size_t uf_cuda_conv_gemm_workspace(uf_conv_direction direction,
                                              const uf_conv_kernel_args *args) {
    const gemm_call call = call_of(direction, args);
    return call.splits > 1 ? (size_t)call.splits * call.groups * call.m * call.n * sizeof(float)
                           : 0;
}

extern "C" uf_status uf_cuda_conv_gemm(uf_context *context, uf_conv_direction direction,
                                       const uf_conv_kernel_args *args) {
    const gemm_call call = call_of(direction, args);
    return args->x.dtype == UF_BF16 ? run<__nv_bfloat16>(context, direction, call)
                                    : run<float>(context, direction, call);
}
