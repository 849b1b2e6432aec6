/* pad.cu - pad2d and its gradient. Forward: one thread per output element finds its source.
 * Backward: one thread per element of grad_input adds the elements of grad_output that copied it,
 * in a fixed order. Bound by memory. */
#include "kernels/cuda/device/element.cuh"

/* The source of element `o` of the padded axis; -1: zero padding. */
static __device__ __forceinline__ int64_t pad_source(uf_pad_mode mode, int64_t o, int64_t before,
                                                     int64_t extent) {
    int64_t i = o - before;
    if (i >= 0 && i < extent) {
        return i;
    }
    switch (mode) {
    case UF_PAD_REPLICATE:
        return i < 0 ? 0 : extent - 1;
    case UF_PAD_REFLECT:
        return i < 0 ? -i : 2 * (extent - 1) - i;
    default:
        return -1;
    }
}

/* The padded positions that copy element `i`: up to three ranges [first, last], ascending. */
struct pad_targets {
    int64_t first[3], last[3];
    int count;
};

static __device__ __forceinline__ pad_targets pad_targets_of(uf_pad_mode mode, int64_t i,
                                                             int64_t before, int64_t after,
                                                             int64_t extent) {
    pad_targets targets;
    targets.count = 0;
    const int64_t own = i + before;
    int64_t first = own;
    int64_t last = own;
    if (mode == UF_PAD_REPLICATE) {
        first = i == 0 ? 0 : own;
        last = i == extent - 1 ? own + after : own;
    } else if (mode == UF_PAD_REFLECT && i >= 1 && i <= before) {
        targets.first[targets.count] = targets.last[targets.count] = before - i;
        ++targets.count;
    }
    targets.first[targets.count] = first;
    targets.last[targets.count] = last;
    ++targets.count;
    const int64_t from_end = extent - 1 - i;
    if (mode == UF_PAD_REFLECT && from_end >= 1 && from_end <= after) {
        targets.first[targets.count] = targets.last[targets.count] = before + extent - 1 + from_end;
        ++targets.count;
    }
    return targets;
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    pad_forward(uf_pad_mode mode, int64_t left, int64_t top, uf_cuda_view<T> input,
                uf_cuda_view<T> output, I count) {
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        const uf_position<I> at =
            uf_locate<I>(i, (I)output.extent[1], (I)output.extent[2], (I)output.extent[3]);
        const int64_t h = pad_source(mode, at.h, top, input.extent[2]);
        const int64_t w = pad_source(mode, at.w, left, input.extent[3]);
        const T value = h < 0 || w < 0 ? (T)0.0f : input.data[uf_offset(input, at.n, at.c, h, w)];
        output.data[uf_offset(output, at.n, at.c, at.h, at.w)] = value;
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    pad_backward(uf_pad_mode mode, int64_t left, int64_t right, int64_t top, int64_t bottom,
                 uf_cuda_view<T> grad_output, uf_cuda_view<T> grad_input, I count,
                 bool accumulate) {
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        const uf_position<I> at = uf_locate<I>(i, (I)grad_input.extent[1], (I)grad_input.extent[2],
                                               (I)grad_input.extent[3]);
        const pad_targets rows = pad_targets_of(mode, at.h, top, bottom, grad_input.extent[2]);
        const pad_targets columns = pad_targets_of(mode, at.w, left, right, grad_input.extent[3]);
        typedef typename uf_arithmetic<T>::type R;
        uf_long_sum<R> sum;
        sum.clear();
        for (int r = 0; r < rows.count; ++r) {
            for (int64_t h = rows.first[r]; h <= rows.last[r]; ++h) {
                for (int c = 0; c < columns.count; ++c) {
                    for (int64_t w = columns.first[c]; w <= columns.last[c]; ++w) {
                        sum.add((R)grad_output.data[uf_offset(grad_output, at.n, at.c, h, w)]);
                    }
                }
            }
        }
        T *const to = grad_input.data + uf_offset(grad_input, at.n, at.c, at.h, at.w);
        *to = (T)(accumulate ? (R)*to + sum.total() : sum.total());
    }
}

extern "C" uf_status uf_cuda_pad_forward(uf_context *context, const uf_pad_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("pad_forward", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(args->output.dtype, count,
                       return uf_cuda_launch(context, "pad_forward",
                                             {dim3(uf_blocks(count)), UF_BLOCK}, pad_forward<T, I>,
                                             args->pad_mode, args->left, args->top,
                                             uf_cuda_view_of<T>(args->input),
                                             uf_cuda_view_of<T>(args->output), (I)count));
}

extern "C" uf_status uf_cuda_pad_backward(uf_context *context, const uf_pad_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("pad_backward", args->grad_input.dtype));
    const int64_t count = uf_view_count(&args->grad_input);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(args->grad_input.dtype, count,
                       return uf_cuda_launch(context, "pad_backward",
                                             {dim3(uf_blocks(count)), UF_BLOCK}, pad_backward<T, I>,
                                             args->pad_mode, args->left, args->right, args->top,
                                             args->bottom, uf_cuda_view_of<T>(args->grad_output),
                                             uf_cuda_view_of<T>(args->grad_input), (I)count,
                                             args->mode == UF_ACCUMULATE));
}
