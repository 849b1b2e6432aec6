/* reduce.cu - channel_sum and the losses: f64 sums over pieces of a fixed size, which a second
 * launch adds in a fixed order. Bound by memory. */
#include "kernels/cuda/device/element.cuh"

#define FN(name) uf_##name
#define UF_INLINE static __device__ __forceinline__
#define REAL float
#define MATH(name) name##f
#include "kernels/loss_math.inc"
#undef REAL
#undef MATH
#define REAL double
#define MATH(name) name
#include "kernels/loss_math.inc"
#undef REAL
#undef MATH
#undef UF_INLINE
#undef FN

enum { PIECE = 16384 /* elements that one block adds */ };

static int64_t pieces_of(int64_t count) {
    return (count + PIECE - 1) / PIECE;
}

/* Grid: x over pieces of a channel, y over channels. partial is [channel][piece]. */
template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    channel_sum_pieces(uf_cuda_view<T> input, double *partial, I count) {
    __shared__ double shared[32];
    const I channels = (I)input.extent[1];
    for (I c = (I)blockIdx.y; c < channels; c += (I)gridDim.y) {
        const I begin = (I)blockIdx.x * PIECE;
        const I end = count - begin < PIECE ? count : begin + PIECE;
        double sum = 0;
        for (I i = begin + (I)threadIdx.x; i < end; i += UF_BLOCK) {
            const uf_position<I> at = uf_locate<I>(i, (I)1, (I)input.extent[2], (I)input.extent[3]);
            sum += (double)input.data[uf_offset(input, at.n, c, at.h, at.w)];
        }
        sum = uf_block_sum(sum, shared);
        if (threadIdx.x == 0) {
            partial[(int64_t)c * gridDim.x + blockIdx.x] = sum;
        }
    }
}

/* One block per output element adds its partial sums; output = factor * sum. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    sum_pieces(const double *partial, int64_t pieces, double factor, uf_cuda_view<T> output,
               bool accumulate) {
    __shared__ double shared[32];
    const double *const own = partial + (int64_t)blockIdx.x * pieces;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < pieces; i += UF_BLOCK) {
        sum += own[i];
    }
    sum = factor * uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        T *const to = output.data + (int64_t)blockIdx.x * output.stride[1];
        *to = (T)(accumulate ? (double)*to + sum : sum);
    }
}

template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_pieces(uf_loss_kind kind, const T *input, const T *target, double *partial,
                int64_t count) {
    __shared__ double shared[32];
    const int64_t begin = (int64_t)blockIdx.x * PIECE;
    const int64_t end = count - begin < PIECE ? count : begin + PIECE;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += UF_BLOCK) {
        typedef typename uf_arithmetic<T>::type R;
        sum += (double)uf_loss_value(kind, (R)input[i], (R)target[i]);
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_gradient(uf_loss_kind kind, const T *input, const T *target,
                  const typename uf_arithmetic<T>::type *grad_output, T *grad_input, int64_t count,
                  bool accumulate) {
    typedef typename uf_arithmetic<T>::type R;
    const R factor = *grad_output / (R)count;
    UF_EACH(int64_t, i, count) {
        const R grad = factor * uf_loss_derivative(kind, (R)input[i], (R)target[i]);
        grad_input[i] = (T)(accumulate ? (R)grad_input[i] + grad : grad);
    }
}

static uf_status needs_workspace(const char *kernel, size_t given, size_t needed) {
    if (given < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s was given %zu bytes of workspace and needs %zu", kernel,
                given, needed);
    }
    return UF_OK;
}

static int64_t channel_count(const uf_view &view) {
    return view.extent[0] * view.extent[2] * view.extent[3];
}

extern "C" size_t uf_cuda_channel_sum_workspace(uf_context *context,
                                                const uf_channel_sum_kernel_args *args) {
    (void)context;
    return (size_t)(pieces_of(channel_count(args->input)) * args->input.extent[1]) * sizeof(double);
}

extern "C" uf_status uf_cuda_channel_sum(uf_context *context,
                                         const uf_channel_sum_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("channel_sum", args->input.dtype));
    UF_TRY(needs_workspace("channel_sum", args->workspace_size,
                           uf_cuda_channel_sum_workspace(context, args)));
    const int64_t count = channel_count(args->input);
    const int64_t pieces = pieces_of(count);
    const int64_t channels = args->input.extent[1];
    double *const partial = (double *)args->workspace;
    const cudaStream_t stream = uf_cuda_stream(context);
    if (channels == 0) {
        return UF_OK;
    }
    if (pieces > 0) {
        const dim3 grid((unsigned)pieces, (unsigned)(channels > 65535 ? 65535 : channels));
        UF_DISPATCH_STORED(args->input.dtype, count,
                           channel_sum_pieces<T, I><<<grid, UF_BLOCK, 0, stream>>>(
                               uf_cuda_view_of<T>(args->input), partial, (I)count));
        UF_TRY(uf_cuda_launched(context, "channel_sum_pieces"));
    }
    const bool accumulate = args->mode == UF_ACCUMULATE;
    UF_DISPATCH_STORED(args->output.dtype, channels,
                       sum_pieces<T><<<(unsigned)channels, UF_BLOCK, 0, stream>>>(
                           partial, pieces, 1.0, uf_cuda_view_of<T>(args->output), accumulate));
    return uf_cuda_launched(context, "channel_sum");
}

extern "C" size_t uf_cuda_loss_workspace(uf_context *context, const uf_loss_kernel_args *args) {
    (void)context;
    return (size_t)pieces_of(uf_view_count(&args->input)) * sizeof(double);
}

template <typename T>
static uf_status loss_forward_as(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    const int64_t pieces = pieces_of(count);
    double *const partial = (double *)args->workspace;
    const cudaStream_t stream = uf_cuda_stream(context);
    if (pieces > 0) {
        loss_pieces<T><<<(unsigned)pieces, UF_BLOCK, 0, stream>>>(
            args->kind, (const T *)args->input.data, (const T *)args->target.data, partial, count);
        UF_TRY(uf_cuda_launched(context, "loss_pieces"));
    }
    /* The mean over no element is 0/0, as in PyTorch. */
    typedef typename uf_arithmetic<T>::type R;
    sum_pieces<R><<<1, UF_BLOCK, 0, stream>>>(partial, pieces, 1.0 / (double)count,
                                              uf_cuda_view_of<R>(args->output), false);
    return uf_cuda_launched(context, "loss_forward");
}

extern "C" uf_status uf_cuda_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_forward", args->input.dtype));
    UF_TRY(needs_workspace("loss_forward", args->workspace_size,
                           uf_cuda_loss_workspace(context, args)));
    return args->input.dtype == UF_F64    ? loss_forward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_forward_as<__nv_bfloat16>(context, args)
                                          : loss_forward_as<float>(context, args);
}

template <typename T>
static uf_status loss_backward_as(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    loss_gradient<T><<<uf_blocks(count), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
        args->kind, (const T *)args->input.data, (const T *)args->target.data,
        (const typename uf_arithmetic<T>::type *)args->grad_output.data, (T *)args->grad_input.data,
        count, args->mode == UF_ACCUMULATE);
    return uf_cuda_launched(context, "loss_backward");
}

extern "C" uf_status uf_cuda_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_backward", args->input.dtype));
    if (uf_view_count(&args->input) == 0) {
        return UF_OK;
    }
    return args->input.dtype == UF_F64    ? loss_backward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_backward_as<__nv_bfloat16>(context, args)
                                          : loss_backward_as<float>(context, args);
}
