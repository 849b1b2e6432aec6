/* pool.cu - max and average pooling, and their gradients. Forward: one thread per output element
 * walks its window. Backward: one thread per element of grad_input adds its part of the windows
 * that have it, in a fixed order; the maximum's place is found again, where the element equals the
 * maximum. Bound by memory. */
#include <math_constants.h>

#include "kernels/cuda/device/element.cuh"

struct pool_axes {
    uf_pool_axis rows, columns;
    bool count_include_pad;
};

static pool_axes pool_axes_of(const uf_pool_kernel_args *args) {
    pool_axes made;
    made.rows = args->axis[0];
    made.columns = args->axis[1];
    made.count_include_pad = args->count_include_pad;
    return made;
}

template <typename T, bool MAX, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    pool_forward(pool_axes axes, uf_cuda_view<T> input, uf_cuda_view<T> output, I count) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    UF_EACH(I, i, count) {
        const uf_position<I> at =
            uf_locate<I>(i, (I)output.extent[1], (I)output.extent[2], (I)output.extent[3]);
        int64_t top, left;
        const int64_t height = uf_pool_window(&axes.rows, at.h, &top);
        const int64_t width = uf_pool_window(&axes.columns, at.w, &left);
        const T *const corner = input.data + uf_offset(input, at.n, at.c, top, left);
        R most = -(R)CUDART_INF;
        uf_long_sum<R> sum;
        sum.clear();
#pragma unroll 1
        for (int64_t r = 0; r < height; ++r) {
            const T *const row = corner + r * axes.rows.dilation * input.stride[2];
#pragma unroll 1
            for (int64_t s = 0; s < width; ++s) {
                const R x = (R)row[s * axes.columns.dilation * input.stride[3]];
                if (MAX) {
                    most = x > most || x != x ? x : most;
                } else {
                    sum.add(x);
                }
            }
        }
        if (!MAX) {
            const int64_t size = uf_pool_size(&axes.rows, axes.count_include_pad, at.h) *
                                 uf_pool_size(&axes.columns, axes.count_include_pad, at.w);
            most = sum.total() / (R)size;
        }
        output.data[uf_offset(output, at.n, at.c, at.h, at.w)] = (T)most;
    }
}

/* Does window (o, p) of the image, whose maximum is that of element (h, w), pass its gradient to
 * that element? The first of several equal ones has it, of NaNs the last. */
template <typename T, typename R>
static __device__ bool is_taken(const pool_axes &axes, const uf_cuda_view<T> &input, const T *image,
                                int64_t o, int64_t p, int64_t h, int64_t w, R most) {
    int64_t top, left;
    const int64_t height = uf_pool_window(&axes.rows, o, &top);
    const int64_t width = uf_pool_window(&axes.columns, p, &left);
    bool taken = false;
    for (int64_t r = 0; r < height; ++r) {
        for (int64_t s = 0; s < width; ++s) {
            const int64_t row = top + r * axes.rows.dilation;
            const int64_t column = left + s * axes.columns.dilation;
            const R x = (R)image[row * input.stride[2] + column * input.stride[3]];
            if (x == most) {
                return row == h && column == w;
            }
            taken = x != x ? row == h && column == w : taken;
        }
    }
    return taken;
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    max_pool_backward(pool_axes axes, uf_cuda_view<T> input, uf_cuda_view<T> output,
                      uf_cuda_view<T> grad_output, uf_cuda_view<T> grad_input, I count,
                      bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    UF_EACH(I, i, count) {
        const uf_position<I> at = uf_locate<I>(i, (I)grad_input.extent[1], (I)grad_input.extent[2],
                                               (I)grad_input.extent[3]);
        const T *const image = input.data + uf_offset(input, at.n, at.c, 0, 0);
        const R x = (R)image[at.h * input.stride[2] + at.w * input.stride[3]];
        int64_t upper, lower, left, right;
        uf_pool_targets(&axes.rows, at.h, &upper, &lower);
        uf_pool_targets(&axes.columns, at.w, &left, &right);
        uf_long_sum<R> sum;
        sum.clear();
#pragma unroll 1
        for (int64_t o = upper; o < lower; ++o) {
#pragma unroll 1
            for (int64_t p = left; p < right; ++p) {
                const R y = (R)output.data[uf_offset(output, at.n, at.c, o, p)];
                if ((x == y || (x != x && y != y)) && uf_pool_has(&axes.rows, o, at.h) &&
                    uf_pool_has(&axes.columns, p, at.w) &&
                    is_taken<T, R>(axes, input, image, o, p, at.h, at.w, y)) {
                    sum.add((R)grad_output.data[uf_offset(grad_output, at.n, at.c, o, p)]);
                }
            }
        }
        T *const to = grad_input.data + uf_offset(grad_input, at.n, at.c, at.h, at.w);
        *to = (T)(accumulate ? (R)*to + sum.total() : sum.total());
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    avg_pool_backward(pool_axes axes, uf_cuda_view<T> grad_output, uf_cuda_view<T> grad_input,
                      I count, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    UF_EACH(I, i, count) {
        const uf_position<I> at = uf_locate<I>(i, (I)grad_input.extent[1], (I)grad_input.extent[2],
                                               (I)grad_input.extent[3]);
        int64_t upper, lower, left, right;
        uf_pool_targets(&axes.rows, at.h, &upper, &lower);
        uf_pool_targets(&axes.columns, at.w, &left, &right);
        uf_long_sum<R> sum;
        sum.clear();
#pragma unroll 1
        for (int64_t o = upper; o < lower; ++o) {
            const int64_t height = uf_pool_size(&axes.rows, axes.count_include_pad, o);
#pragma unroll 1
            for (int64_t p = left; p < right; ++p) {
                const int64_t size =
                    height * uf_pool_size(&axes.columns, axes.count_include_pad, p);
                sum.add((R)grad_output.data[uf_offset(grad_output, at.n, at.c, o, p)] / (R)size);
            }
        }
        T *const to = grad_input.data + uf_offset(grad_input, at.n, at.c, at.h, at.w);
        *to = (T)(accumulate ? (R)*to + sum.total() : sum.total());
    }
}

template <typename T, typename I>
static uf_status launch_forward(uf_context *context, const uf_pool_kernel_args *args) {
    const int64_t count = uf_view_count(&args->output);
    const auto kernel =
        args->kind == UF_POOL_MAX ? pool_forward<T, true, I> : pool_forward<T, false, I>;
    return uf_cuda_launch(context, "pool_forward", {dim3(uf_blocks(count)), UF_BLOCK}, kernel,
                          pool_axes_of(args), uf_cuda_view_of<T>(args->input),
                          uf_cuda_view_of<T>(args->output), (I)count);
}

template <typename T, typename I>
static uf_status launch_backward(uf_context *context, const uf_pool_kernel_args *args) {
    const int64_t count = uf_view_count(&args->grad_input);
    const uf_launch how = {dim3(uf_blocks(count)), UF_BLOCK};
    const bool accumulate = args->mode == UF_ACCUMULATE;
    if (args->kind == UF_POOL_MAX) {
        return uf_cuda_launch(context, "max_pool_backward", how, max_pool_backward<T, I>,
                              pool_axes_of(args), uf_cuda_view_of<T>(args->input),
                              uf_cuda_view_of<T>(args->output),
                              uf_cuda_view_of<T>(args->grad_output),
                              uf_cuda_view_of<T>(args->grad_input), (I)count, accumulate);
    }
    return uf_cuda_launch(context, "avg_pool_backward", how, avg_pool_backward<T, I>,
                          pool_axes_of(args), uf_cuda_view_of<T>(args->grad_output),
                          uf_cuda_view_of<T>(args->grad_input), (I)count, accumulate);
}

extern "C" uf_status uf_cuda_pool_forward(uf_context *context, const uf_pool_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_pool_check(args, false));
    UF_DISPATCH_STORED(args->output.dtype, uf_view_count(&args->output),
                       return (launch_forward<T, I>(context, args)));
}

extern "C" uf_status uf_cuda_pool_backward(uf_context *context, const uf_pool_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_pool_check(args, true));
    UF_DISPATCH_STORED(args->grad_input.dtype, uf_view_count(&args->grad_input),
                       return (launch_backward<T, I>(context, args)));
}
