/* pad.cu - pad2d and its gradient. Lanes share a row, so that where it lies is found once for many
 * elements: found for each, it took 10 us where the bytes take 3. Forward, an element finds its
 * source. Backward, an element of grad_input adds the elements of grad_output that copied it, in a
 * fixed order. Bound by memory. */
#include "kernels/cuda/device/element.cuh"

/* The source of element `o` of the padded axis; -1: zero padding. */
template <typename I>
static __device__ __forceinline__ I pad_source(uf_pad_mode mode, I o, I before, I extent) {
    const I i = o - before;
    if (i >= 0 && i < extent) {
        return i;
    }
    switch (mode) {
    case UF_PAD_REPLICATE:
        return i < 0 ? 0 : extent - 1;
    case UF_PAD_REFLECT:
        return i < 0 ? -i : extent - 1 - (i - (extent - 1)); /* twice the extent may not fit */
    default:
        return -1;
    }
}

/* The padded positions that copy element `i`: three ranges [first, last], ascending; those on
 * either side are for reflections, and empty without. */
template <typename I>
struct pad_targets {
    I first[3], last[3];
};

template <typename I>
static __device__ __forceinline__ pad_targets<I> pad_targets_of(uf_pad_mode mode, I i, I before,
                                                                I after, I extent) {
    const I own = i + before;
    const I from_end = extent - 1 - i;
    pad_targets<I> targets = {{1, own, 1}, {0, own, 0}};
    if (mode == UF_PAD_REPLICATE) {
        targets.first[1] = i == 0 ? 0 : own;
        targets.last[1] = from_end == 0 ? own + after : own;
    }
    if (mode == UF_PAD_REFLECT && i >= 1 && i <= before) {
        targets.first[0] = targets.last[0] = before - i;
    }
    if (mode == UF_PAD_REFLECT && from_end >= 1 && from_end <= after) {
        targets.first[2] = targets.last[2] = before + extent - 1 + from_end;
    }
    return targets;
}

/* A view whose offsets fit the index type: 64-bit products cost more than the bytes. */
template <typename T, typename I>
struct pad_view {
    T *data;
    I extent[4], stride[4];

    __device__ __forceinline__ T *line(I n, I c, I h) const {
        return data + (n * stride[0] + c * stride[1] + h * stride[2]);
    }
};

template <typename T, typename I>
static pad_view<T, I> pad_view_of(const uf_view &view) {
    pad_view<T, I> made;
    made.data = static_cast<T *>(view.data);
    for (int axis = 0; axis < 4; ++axis) {
        made.extent[axis] = (I)view.extent[axis];
        made.stride[axis] = (I)view.stride[axis];
    }
    return made;
}

/* Elements from the first of either view to its last: what an index has to hold. */
static int64_t reach_of(const uf_view &a, const uf_view &b) {
    int64_t reach[2] = {1, 1};
    for (int axis = 0; axis < 4; ++axis) {
        reach[0] += (a.extent[axis] - 1) * a.stride[axis];
        reach[1] += (b.extent[axis] - 1) * b.stride[axis];
    }
    return reach[0] > reach[1] ? reach[0] : reach[1];
}

/* Rows of a view (N, C, H, W), each for 2^lanes_log2 neighbours of a block. */
template <typename I>
struct pad_row {
    I row, step;
    int lane, lanes;

    __device__ __forceinline__ explicit pad_row(int lanes_log2) {
        lanes = 1 << lanes_log2;
        lane = (int)threadIdx.x & (lanes - 1);
        row = (I)blockIdx.x * (UF_BLOCK >> lanes_log2) + ((I)threadIdx.x >> lanes_log2);
        step = (I)gridDim.x * (UF_BLOCK >> lanes_log2);
    }
};

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK, 4)
    pad_forward(uf_pad_mode mode, I left, I top, pad_view<T, I> input, pad_view<T, I> output,
                I rows, int lanes_log2) {
    uf_overlap_launches();
    for (pad_row<I> r(lanes_log2); r.row < rows; r.row += r.step) {
        const uf_position<I> at =
            uf_locate<I>(r.row, output.extent[0], output.extent[1], output.extent[2]);
        const I h = pad_source<I>(mode, at.w, top, input.extent[2]);
        const T *const from = input.line(at.c, at.h, h < 0 ? 0 : h);
        T *const to = output.line(at.c, at.h, at.w);
#pragma unroll 2
        for (I w = (I)r.lane; w < output.extent[3]; w += (I)r.lanes) {
            const I source = pad_source<I>(mode, w, left, input.extent[3]);
            to[w * output.stride[3]] =
                h < 0 || source < 0 ? (T)0.0f : from[source * input.stride[3]];
        }
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    pad_backward(uf_pad_mode mode, I left, I right, I top, I bottom, pad_view<T, I> grad_output,
                 pad_view<T, I> grad_input, I rows, int lanes_log2, bool accumulate) {
    uf_overlap_launches();
    for (pad_row<I> r(lanes_log2); r.row < rows; r.row += r.step) {
        const uf_position<I> at =
            uf_locate<I>(r.row, grad_input.extent[0], grad_input.extent[1], grad_input.extent[2]);
        const pad_targets<I> lines =
            pad_targets_of<I>(mode, at.w, top, bottom, grad_input.extent[2]);
        const T *const from = grad_output.line(at.c, at.h, 0);
        T *const to = grad_input.line(at.c, at.h, at.w);
        for (I i = (I)r.lane; i < grad_input.extent[3]; i += (I)r.lanes) {
            const pad_targets<I> columns =
                pad_targets_of<I>(mode, i, left, right, grad_input.extent[3]);
            typedef typename uf_arithmetic<T>::type R;
            uf_long_sum<R> sum;
            sum.clear();
#pragma unroll
            for (int l = 0; l < 3; ++l) {
                for (I h = lines.first[l]; h <= lines.last[l]; ++h) {
#pragma unroll
                    for (int c = 0; c < 3; ++c) {
                        for (I w = columns.first[c]; w <= columns.last[c]; ++w) {
                            sum.add((R)from[h * grad_output.stride[2] + w * grad_output.stride[3]]);
                        }
                    }
                }
            }
            T *const element = to + i * grad_input.stride[3];
            *element = (T)(accumulate ? (R)*element + sum.total() : sum.total());
        }
    }
}

/* As many lanes as a row fills, a warp at most. */
static int lanes_log2_of(int64_t width) {
    int log2 = 5;
    while (log2 > 0 && (int64_t)1 << (log2 - 1) >= width) {
        --log2;
    }
    return log2;
}

extern "C" uf_status uf_cuda_pad_forward(uf_context *context, const uf_pad_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("pad_forward", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    const int lanes_log2 = lanes_log2_of(args->output.extent[3]);
    const int64_t rows = count / args->output.extent[3];
    UF_DISPATCH_STORED(args->output.dtype, reach_of(args->input, args->output),
                       return uf_cuda_launch(context, "pad_forward",
                                             {dim3(uf_blocks(rows << lanes_log2)), UF_BLOCK},
                                             pad_forward<T, I>, args->pad_mode, (I)args->left,
                                             (I)args->top, pad_view_of<T, I>(args->input),
                                             pad_view_of<T, I>(args->output), (I)rows, lanes_log2));
}

extern "C" uf_status uf_cuda_pad_backward(uf_context *context, const uf_pad_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("pad_backward", args->grad_input.dtype));
    const int64_t count = uf_view_count(&args->grad_input);
    if (count == 0) {
        return UF_OK;
    }
    const int lanes_log2 = lanes_log2_of(args->grad_input.extent[3]);
    const int64_t rows = count / args->grad_input.extent[3];
    UF_DISPATCH_STORED(args->grad_input.dtype, reach_of(args->grad_output, args->grad_input),
                       return uf_cuda_launch(
                           context, "pad_backward", {dim3(uf_blocks(rows << lanes_log2)), UF_BLOCK},
                           pad_backward<T, I>, args->pad_mode, (I)args->left, (I)args->right,
                           (I)args->top, (I)args->bottom, pad_view_of<T, I>(args->grad_output),
                           pad_view_of<T, I>(args->grad_input), (I)rows, lanes_log2,
                           args->mode == UF_ACCUMULATE));
}
