/* activation.cu - output = f(input), and grad_input = grad_output * f'. One thread per element, any
 * strides; bound by memory. */
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/elementwise/activation.cuh"

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_forward(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                       uf_cuda_view<T> input, uf_cuda_view<T> output, I count, bool flat) {
    UF_EACH(I, i, count) {
        int64_t from = i;
        int64_t to = i;
        if (!flat) {
            const uf_position<I> at =
                uf_locate<I>(i, (I)output.extent[1], (I)output.extent[2], (I)output.extent[3]);
            from = uf_offset(input, at.n, at.c, at.h, at.w);
            to = uf_offset(output, at.n, at.c, at.h, at.w);
        }
        typedef typename uf_arithmetic<T>::type R;
        output.data[to] = (T)uf_activate(kind, (R)input.data[from], p);
    }
}

/* input or output may be absent: the derivative does not read it then. */
template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_backward(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                        uf_cuda_view<T> input, uf_cuda_view<T> output, uf_cuda_view<T> grad_output,
                        uf_cuda_view<T> grad_input, I count, bool flat, bool accumulate) {
    UF_EACH(I, i, count) {
        uf_position<I> at = {0, 0, 0, 0};
        if (!flat) {
            at = uf_locate<I>(i, (I)grad_input.extent[1], (I)grad_input.extent[2],
                              (I)grad_input.extent[3]);
        }
        const auto offset = [&](const uf_cuda_view<T> &view) {
            return flat ? (int64_t)i : uf_offset(view, at.n, at.c, at.h, at.w);
        };
        typedef typename uf_arithmetic<T>::type R;
        const R x = input.data != nullptr ? (R)input.data[offset(input)] : (R)0;
        const R y = output.data != nullptr ? (R)output.data[offset(output)] : (R)0;
        const R grad =
            (R)grad_output.data[offset(grad_output)] * uf_activate_derivative(kind, x, y, p);
        T *const to = grad_input.data + offset(grad_input);
        *to = (T)(accumulate ? (R)*to + grad : grad);
    }
}

static bool flat_or_absent(const uf_view *view) {
    return view->data == NULL || uf_view_is_contiguous(view);
}

extern "C" uf_status uf_cuda_activation_forward(uf_context *context,
                                                const uf_activation_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("activation_forward", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    const bool flat = flat_or_absent(&args->input) && flat_or_absent(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(
        args->output.dtype, count,
        activation_forward<T, I><<<uf_blocks(count), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
            args->activation.kind, (typename uf_arithmetic<T>::type)args->activation.parameter,
            uf_cuda_view_of<T>(args->input), uf_cuda_view_of<T>(args->output), (I)count, flat));
    return uf_cuda_launched(context, "activation_forward");
}

extern "C" uf_status uf_cuda_activation_backward(uf_context *context,
                                                 const uf_activation_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("activation_backward", args->grad_input.dtype));
    const int64_t count = uf_view_count(&args->grad_input);
    const bool flat = flat_or_absent(&args->input) && flat_or_absent(&args->output) &&
                      flat_or_absent(&args->grad_output) && flat_or_absent(&args->grad_input);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(
        args->grad_input.dtype, count,
        activation_backward<T, I><<<uf_blocks(count), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
            args->activation.kind, (typename uf_arithmetic<T>::type)args->activation.parameter,
            uf_cuda_view_of<T>(args->input), uf_cuda_view_of<T>(args->output),
            uf_cuda_view_of<T>(args->grad_output), uf_cuda_view_of<T>(args->grad_input), (I)count,
            flat, args->mode == UF_ACCUMULATE));
    return uf_cuda_launched(context, "activation_backward");
}
