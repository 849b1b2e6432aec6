/* activation.cu - output = f(input), and grad_input = grad_output * f'. 16 bytes a thread where all
 * tensors are aligned rows (uf_rows), else one element a thread, any strides; bound by memory. */
#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/elementwise/activation.cuh"

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_forward(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                       typename uf_arithmetic<T>::type q, uf_cuda_view<T> input,
                       uf_cuda_view<T> output, I count, bool flat) {
    uf_overlap_launches();
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
        output.data[to] = (T)uf_activate_one(kind, (R)input.data[from], p, q);
    }
}

/* input or output may be absent: the derivative does not read it then. */
template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_backward(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                        typename uf_arithmetic<T>::type q, uf_cuda_view<T> input,
                        uf_cuda_view<T> output, uf_cuda_view<T> grad_output,
                        uf_cuda_view<T> grad_input, I count, bool flat, bool accumulate) {
    uf_overlap_launches();
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
        T *const to = grad_input.data + offset(grad_input);
        const R old = accumulate ? (R)*to : (R)0;
        *to = (T)uf_product(accumulate, old, (R)grad_output.data[offset(grad_output)],
                            uf_activate_derivative(kind, x, y, p, q));
    }
}

/* Vectors of aligned rows. The last count % WIDTH elements of a row take threads of its first
 * block. */
template <typename T, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_forward_vectors(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                               typename uf_arithmetic<T>::type q, uf_row_tensor<const T> inputs,
                               uf_row_tensor<T> outputs, int64_t count) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    const T *const input = inputs.row();
    T *const output = outputs.row();
    UF_EACH(int64_t, v, count / WIDTH) {
        uf_pack<T, WIDTH> pack = uf_load<T, WIDTH>(input + v * WIDTH);
        R values[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = (R)pack.get(j);
        }
        uf_activate_vector<WIDTH>(kind, p, q, values);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            pack.set(j, values[j]);
        }
        uf_store(output + v * WIDTH, pack);
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        output[i] = (T)uf_activate_one(kind, (R)input[i], p, q);
    }
}

template <typename T, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_backward_vectors(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                                typename uf_arithmetic<T>::type q, uf_row_tensor<const T> inputs,
                                uf_row_tensor<const T> outputs, uf_row_tensor<const T> grad_outputs,
                                uf_row_tensor<T> grad_inputs, int64_t count, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    const T *const input = inputs.row(), *const output = outputs.row();
    const T *const grad_output = grad_outputs.row();
    T *const grad_input = grad_inputs.row();
    UF_EACH(int64_t, v, count / WIDTH) {
        const int64_t at = v * WIDTH;
        uf_pack<T, WIDTH> made = uf_load<T, WIDTH>(grad_output + at), x, y, old;
        if (input != nullptr) {
            x = uf_load<T, WIDTH>(input + at);
        }
        if (output != nullptr) {
            y = uf_load<T, WIDTH>(output + at);
        }
        if (accumulate) {
            old = uf_load<T, WIDTH>(grad_input + at);
        }
        R slope[WIDTH], result[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            slope[j] = input != nullptr ? (R)x.get(j) : (R)0;
            result[j] = output != nullptr ? (R)y.get(j) : (R)0;
        }
        uf_derive_vector<WIDTH>(kind, p, q, slope, result);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            made.set(j, uf_product(accumulate, (R)old.get(j), (R)made.get(j), slope[j]));
        }
        uf_store(grad_input + at, made);
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        const R x = input != nullptr ? (R)input[i] : (R)0;
        const R y = output != nullptr ? (R)output[i] : (R)0;
        const R old = accumulate ? (R)grad_input[i] : (R)0;
        grad_input[i] = (T)uf_product(accumulate, old, (R)grad_output[i],
                                      uf_activate_derivative(kind, x, y, p, q));
    }
}

template <typename T>
static uf_status forward_as(uf_context *context, const uf_activation_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    const uf_rows rows = uf_rows_of<2>({&args->input, &args->output});
    const auto parameter = (typename uf_arithmetic<T>::type)args->activation.parameter;
    const auto maximum = (typename uf_arithmetic<T>::type)args->maximum;
    if (rows.rows > 0 && uf_row_is_aligned<T, WIDTH>(rows, args->input) &&
        uf_row_is_aligned<T, WIDTH>(rows, args->output)) {
        return uf_cuda_launch(context, "activation_forward", uf_row_blocks(rows, WIDTH),
                              activation_forward_vectors<T, WIDTH>, args->activation.kind,
                              parameter, maximum, uf_row_tensor_of<const T>(rows, args->input),
                              uf_row_tensor_of<T>(rows, args->output), rows.count);
    }
    const int64_t count = uf_view_count(&args->output);
    UF_DISPATCH_INDEX(count, return uf_cuda_launch(
                                 context, "activation_forward", {dim3(uf_blocks(count)), UF_BLOCK},
                                 activation_forward<T, I>, args->activation.kind, parameter,
                                 maximum, uf_cuda_view_of<T>(args->input),
                                 uf_cuda_view_of<T>(args->output), (I)count, rows.rows == 1));
}

template <typename T>
static uf_status backward_as(uf_context *context, const uf_activation_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    const uf_view *const views[] = {&args->grad_input, &args->grad_output, &args->input,
                                    &args->output};
    const uf_rows rows = uf_rows_of(views);
    const auto parameter = (typename uf_arithmetic<T>::type)args->activation.parameter;
    const auto maximum = (typename uf_arithmetic<T>::type)args->maximum;
    bool vectors = rows.rows > 0;
    for (const uf_view *view : views) {
        vectors = vectors && (view->data == nullptr || uf_row_is_aligned<T, WIDTH>(rows, *view));
    }
    if (vectors) {
        return uf_cuda_launch(context, "activation_backward", uf_row_blocks(rows, WIDTH),
                              activation_backward_vectors<T, WIDTH>, args->activation.kind,
                              parameter, maximum, uf_row_tensor_of<const T>(rows, args->input),
                              uf_row_tensor_of<const T>(rows, args->output),
                              uf_row_tensor_of<const T>(rows, args->grad_output),
                              uf_row_tensor_of<T>(rows, args->grad_input), rows.count,
                              args->mode == UF_ACCUMULATE);
    }
    const int64_t count = uf_view_count(&args->grad_input);
    UF_DISPATCH_INDEX(
        count, return uf_cuda_launch(
                   context, "activation_backward", {dim3(uf_blocks(count)), UF_BLOCK},
                   activation_backward<T, I>, args->activation.kind, parameter, maximum,
                   uf_cuda_view_of<T>(args->input), uf_cuda_view_of<T>(args->output),
                   uf_cuda_view_of<T>(args->grad_output), uf_cuda_view_of<T>(args->grad_input),
                   (I)count, rows.rows == 1, args->mode == UF_ACCUMULATE));
}

extern "C" uf_status uf_cuda_activation_forward(uf_context *context,
                                                const uf_activation_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("activation_forward", args->output.dtype));
    if (uf_view_count(&args->output) == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED_TYPE(args->output.dtype, return forward_as<T>(context, args));
}

extern "C" uf_status uf_cuda_activation_backward(uf_context *context,
                                                 const uf_activation_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("activation_backward", args->grad_input.dtype));
    if (uf_view_count(&args->grad_input) == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED_TYPE(args->grad_input.dtype, return backward_as<T>(context, args));
}
