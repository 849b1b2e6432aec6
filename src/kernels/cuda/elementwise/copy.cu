/* copy.cu - output = input or output += input, any strides, also of another type; and output =
 * value. 16 bytes a thread of the wider type where the tensors are aligned rows (uf_rows), else one
 * element a thread. Bound by memory. And zeros in several spans, a row of blocks for each. */
#include <type_traits>

#include "kernels/cuda/device/vector.cuh"

template <typename From, typename To, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    copy_elements(uf_cuda_view<From> input, uf_cuda_view<To> output, I count, bool flat,
                  bool accumulate) {
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
        typedef typename uf_arithmetic<From>::type R;
        const From value = input.data[from];
        if (accumulate) { /* one rounding, of the sum */
            output.data[to] = (To)((R)output.data[to] + (R)value);
        } else {
            output.data[to] = (To)value;
        }
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    fill_elements(uf_cuda_view<T> output, T value, I count, bool flat) {
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        int64_t to = i;
        if (!flat) {
            const uf_position<I> at =
                uf_locate<I>(i, (I)output.extent[1], (I)output.extent[2], (I)output.extent[3]);
            to = uf_offset(output, at.n, at.c, at.h, at.w);
        }
        output.data[to] = value;
    }
}

/* Vectors of aligned rows. The last count % WIDTH elements of a row take threads of its first
 * block. */
template <typename From, typename To, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK)
    copy_vectors(uf_row_tensor<const From> inputs, uf_row_tensor<To> outputs, int64_t count,
                 bool accumulate) {
    uf_overlap_launches();
    const From *const input = inputs.row();
    To *const output = outputs.row();
    typedef typename uf_arithmetic<From>::type R;
    UF_EACH(int64_t, v, count / WIDTH) {
        const uf_pack<From, WIDTH> from = uf_load<From, WIDTH>(input + v * WIDTH);
        uf_pack<To, WIDTH> to;
        if (accumulate) {
            to = uf_load<To, WIDTH>(output + v * WIDTH);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                to.set(j, (R)to.get(j) + (R)from.get(j));
            }
        } else if constexpr (std::is_same<From, To>::value) {
            to = from; /* bit by bit, NaN too */
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                to.set(j, (R)from.get(j));
            }
        }
        uf_store(output + v * WIDTH, to);
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        output[i] = accumulate ? (To)((R)output[i] + (R)input[i]) : (To)input[i];
    }
}

/* The same of one row. */
template <typename T, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK) fill_vectors(T *output, T value, int64_t count) {
    uf_overlap_launches();
    uf_pack<T, WIDTH> pack;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        pack.set(j, value);
    }
    UF_EACH(int64_t, v, count / WIDTH) {
        uf_store(output + v * WIDTH, pack);
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        output[i] = value;
    }
}

template <typename From, typename To>
static uf_status copy_as(uf_context *context, const uf_copy_kernel_args *args) {
    enum { WIDTH = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)) };
    const uf_rows rows = uf_rows_of<2>({&args->input, &args->output});
    if (rows.rows > 0 && uf_row_is_aligned<From, WIDTH>(rows, args->input) &&
        uf_row_is_aligned<To, WIDTH>(rows, args->output)) {
        return uf_cuda_launch(
            context, "copy", uf_row_blocks(rows, WIDTH), copy_vectors<From, To, WIDTH>,
            uf_row_tensor_of<const From>(rows, args->input),
            uf_row_tensor_of<To>(rows, args->output), rows.count, args->mode == UF_ACCUMULATE);
    }
    const int64_t count = uf_view_count(&args->output);
    UF_DISPATCH_INDEX(
        count, return uf_cuda_launch(context, "copy", {dim3(uf_blocks(count)), UF_BLOCK},
                                     copy_elements<From, To, I>, uf_cuda_view_of<From>(args->input),
                                     uf_cuda_view_of<To>(args->output), (I)count, rows.rows == 1,
                                     args->mode == UF_ACCUMULATE));
}

extern "C" uf_status uf_cuda_convert(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_dtype from = args->input.dtype, to = args->output.dtype;
    if (uf_view_count(&args->output) == 0) {
        return UF_OK;
    }
    if (from == UF_BF16 && to == UF_F32) {
        return copy_as<uf_bf16, float>(context, args);
    }
    if (from == UF_F32 && to == UF_BF16) {
        return copy_as<float, uf_bf16>(context, args);
    }
    if (from == to) {
        switch (to) {
        case UF_F32:
            return copy_as<float, float>(context, args);
        case UF_F64:
            return copy_as<double, double>(context, args);
        case UF_BF16:
            return copy_as<uf_bf16, uf_bf16>(context, args);
        case UF_I64:
            return copy_as<int64_t, int64_t>(context, args);
        default:
            break;
        }
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "copy on a GPU does not make %s of %s", uf_dtype_name(to),
            uf_dtype_name(from));
}

extern "C" uf_status uf_cuda_copy(uf_context *context, const uf_copy_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_convert(context, args);
}

template <typename T>
static uf_status fill_as(uf_context *context, const uf_fill_kernel_args *args, T value) {
    const int64_t count = uf_view_count(&args->output);
    const bool flat = uf_view_is_contiguous(&args->output);
    enum { WIDTH = uf_vector<T>::COUNT };
    if (flat && uf_is_aligned<T, WIDTH>(args->output.data)) {
        return uf_cuda_launch(context, "fill", {dim3(uf_blocks(count / WIDTH)), UF_BLOCK},
                              fill_vectors<T, WIDTH>, (T *)args->output.data, value, count);
    }
    UF_DISPATCH_INDEX(count,
                      return uf_cuda_launch(context, "fill", {dim3(uf_blocks(count)), UF_BLOCK},
                                            fill_elements<T, I>, uf_cuda_view_of<T>(args->output),
                                            value, (I)count, flat));
}

extern "C" uf_status uf_cuda_fill(uf_context *context, const uf_fill_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    if (uf_view_count(&args->output) == 0) {
        return UF_OK;
    }
    switch (args->output.dtype) {
    case UF_F32:
        return fill_as<float>(context, args, (float)args->value);
    case UF_F64:
        return fill_as<double>(context, args, args->value);
    case UF_BF16: {
        uint16_t value = 0;
        uf_convert(&value, UF_BF16, &args->value, UF_F64, 1); /* one rounding, as the CPU's */
        return fill_as<uint16_t>(context, args, value);
    }
    case UF_I64: {
        int64_t value = 0;
        uf_convert(&value, UF_I64, &args->value, UF_F64, 1); /* the CPU's rule for this cast */
        return fill_as<int64_t>(context, args, value);
    }
    default:
        UF_FAIL(UF_ERROR_UNSUPPORTED, "fill on a GPU takes f32, f64, bf16 and i64, not %s",
                uf_dtype_name(args->output.dtype));
    }
}

/* blockIdx.y is the span. */
static __global__ void __launch_bounds__(UF_BLOCK) zero_spans(uf_zero_kernel_args args) {
    uf_overlap_launches();
    const uf_zero_span span = args.spans[blockIdx.y];
    float4 *const memory = (float4 *)((char *)args.memory + span.offset);
    UF_EACH(int64_t, i, span.size / (int64_t)sizeof(float4)) {
        memory[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

extern "C" uf_status uf_cuda_zero(uf_context *context, const uf_zero_kernel_args *args) {
    int64_t most = 0; /* bytes of a span */
    UF_TRY(uf_cuda_enter(context));
    for (int32_t i = 0; i < args->count; ++i) {
        most = args->spans[i].size > most ? args->spans[i].size : most;
    }
    if (most == 0) {
        return UF_OK;
    }
    const unsigned blocks = uf_blocks(most / (int64_t)sizeof(float4));
    return uf_cuda_launch(context, "zero", {dim3(blocks, (unsigned)args->count), UF_BLOCK},
                          zero_spans, *args);
}
