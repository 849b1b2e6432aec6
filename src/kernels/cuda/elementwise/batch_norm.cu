/* clang-format off */
/* batch_norm.cu - batch normalisation over (N, H, W) per channel.
 * The formulas stand at uf_batch_norm_kernel_args.
 * One block walks one channel, so statistics need neither workspace nor a second launch, and their
 * order of addition depends on the shape alone. Sums are in f64. Bound by memory, and by the number
 * of channels when there are fewer of them than multiprocessors. */
/* clang-format on */
#include "kernels/cuda/elementwise/activation.cuh"

enum { CHANNEL_BLOCK = 512 };

/* Element `i` of a channel, 0 <= i < N*H*W. */
template <typename T, typename I>
static __device__ __forceinline__ int64_t channel_offset(const uf_cuda_view<T> &view, I channel,
                                                         I i) {
    const uf_position<I> at = uf_locate<I>(i, (I)1, (I)view.extent[2], (I)view.extent[3]);
    return uf_offset(view, at.n, channel, at.h, at.w);
}

template <typename T>
static __device__ __forceinline__ double per_channel(const uf_cuda_view<T> &view, int64_t channel,
                                                     double absent) {
    return view.data == nullptr ? absent : (double)view.data[channel * view.stride[1]];
}

template <typename T>
struct batch_norm_views {
    uf_cuda_view<T> input, output, weight, bias, running_mean, running_var;
    uf_cuda_view<double> save_mean, save_invstd; /* f64 for either element type, see kernels.h */
    uf_cuda_view<T> grad_output, grad_input, grad_weight, grad_bias;
};

template <typename T, typename I>
static __global__ void __launch_bounds__(CHANNEL_BLOCK)
    batch_norm_statistics(batch_norm_views<T> views, int64_t *num_batches_tracked, I count,
                          double eps, double momentum) {
    __shared__ double shared[32];
    const I c = (I)blockIdx.x;
    if (blockIdx.x == 0 && threadIdx.x == 0 && num_batches_tracked != nullptr) {
        ++*num_batches_tracked;
    }
    if (count == 0) {
        return;
    }
    double sum = 0;
    for (I i = (I)threadIdx.x; i < count; i += CHANNEL_BLOCK) {
        sum += (double)views.input.data[channel_offset(views.input, c, i)];
    }
    const double mean = uf_block_sum(sum, shared) / (double)count;
    sum = 0;
    for (I i = (I)threadIdx.x; i < count; i += CHANNEL_BLOCK) {
        const double difference =
            (double)views.input.data[channel_offset(views.input, c, i)] - mean;
        sum += difference * difference;
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x != 0) {
        return;
    }
    views.save_mean.data[c * views.save_mean.stride[1]] = mean;
    views.save_invstd.data[c * views.save_invstd.stride[1]] = 1.0 / sqrt(sum / (double)count + eps);
    if (views.running_mean.data != nullptr) {
        T *const running = views.running_mean.data + c * views.running_mean.stride[1];
        *running = (T)((1.0 - momentum) * (double)*running + momentum * mean);
    }
    if (views.running_var.data != nullptr) {
        T *const running = views.running_var.data + c * views.running_var.stride[1];
        *running =
            (T)((1.0 - momentum) * (double)*running + momentum * sum / ((double)count - 1.0));
    }
}

/* z = x*a + b, one rounding: forward and backward see the same bits. */
static __device__ __forceinline__ float normalized(float x, float a, float b) {
    return fmaf(x, a, b);
}

static __device__ __forceinline__ double normalized(double x, double a, double b) {
    return fma(x, a, b);
}

/* g = grad_output * activation'(z) as a number of its own: no fused multiply-add takes the product
 * unrounded. */
template <typename T>
static __device__ __forceinline__ double gradient_behind(uf_activation_kind kind, T p,
                                                         T grad_output, T z) {
    const T derivative = uf_activate_derivative(kind, z, uf_activate(kind, z, p), p);
    if constexpr (sizeof(T) == sizeof(double)) {
        return __dmul_rn(grad_output, derivative);
    } else {
        return (double)__fmul_rn(grad_output, derivative);
    }
}

/* Grid: x over pieces of a plane, y over (n, c) planes, so that a thread computes a channel's scale
 * once. */
template <typename T, typename I>
static __global__ void batch_norm_normalize(batch_norm_views<T> views, uf_activation_kind kind, T p,
                                            bool training, double eps, I planes, I plane) {
    const I channels = (I)views.input.extent[1];
    const I width = (I)views.input.extent[3];
    for (I of = (I)blockIdx.y * (I)blockDim.y + (I)threadIdx.y; of < planes;
         of += (I)gridDim.y * (I)blockDim.y) {
        const I n = of / channels;
        const I c = of - n * channels;
        double mean, invstd;
        if (training) {
            mean = per_channel(views.save_mean, c, 0.0);
            invstd = per_channel(views.save_invstd, c, 1.0);
        } else {
            mean = per_channel(views.running_mean, c, 0.0);
            invstd = 1.0 / sqrt(per_channel(views.running_var, c, 1.0) + eps);
        }
        const double scale = invstd * per_channel(views.weight, c, 1.0);
        const T a = (T)scale;
        const T b = (T)(per_channel(views.bias, c, 0.0) - mean * scale);
        for (I i = (I)blockIdx.x * (I)blockDim.x + (I)threadIdx.x; i < plane;
             i += (I)gridDim.x * (I)blockDim.x) {
            const I h = i / width;
            const I w = i - h * width;
            const T x = views.input.data[uf_offset(views.input, n, c, h, w)];
            views.output.data[uf_offset(views.output, n, c, h, w)] =
                uf_activate(kind, normalized(x, a, b), p);
        }
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(CHANNEL_BLOCK)
    batch_norm_backward(batch_norm_views<T> views, uf_activation_kind kind, T p, bool training,
                        double eps, I count, bool accumulate_input, bool accumulate_params) {
    __shared__ double shared[32];
    const I c = (I)blockIdx.x;
    double mean, invstd;
    if (training) {
        mean = per_channel(views.save_mean, c, 0.0);
        invstd = per_channel(views.save_invstd, c, 1.0);
    } else {
        mean = per_channel(views.running_mean, c, 0.0);
        invstd = 1.0 / sqrt(per_channel(views.running_var, c, 1.0) + eps);
    }
    const double scale = invstd * per_channel(views.weight, c, 1.0);
    const T z_scale = (T)scale;
    const T z_shift = (T)(per_channel(views.bias, c, 0.0) - mean * scale);
    const auto gradient = [&](I i) {
        const T g = views.grad_output.data[channel_offset(views.grad_output, c, i)];
        const T x = views.input.data[channel_offset(views.input, c, i)];
        return gradient_behind(kind, p, g, normalized(x, z_scale, z_shift));
    };
    double sum = 0;
    double dot = 0;
    if (training || views.grad_weight.data != nullptr || views.grad_bias.data != nullptr) {
        for (I i = (I)threadIdx.x; i < count; i += CHANNEL_BLOCK) {
            const double g = gradient(i);
            const double x = (double)views.input.data[channel_offset(views.input, c, i)];
            sum += g;
            dot += g * (x - mean);
        }
        sum = uf_block_sum(sum, shared);
        dot = uf_block_sum(dot, shared) * invstd;
    }
    if (threadIdx.x == 0) {
        if (views.grad_weight.data != nullptr) {
            T *const to = views.grad_weight.data + c * views.grad_weight.stride[1];
            *to = (T)(accumulate_params ? (double)*to + dot : dot);
        }
        if (views.grad_bias.data != nullptr) {
            T *const to = views.grad_bias.data + c * views.grad_bias.stride[1];
            *to = (T)(accumulate_params ? (double)*to + sum : sum);
        }
    }
    if (views.grad_input.data == nullptr) {
        return;
    }
    /* grad_input = scale*g + b*x + offset */
    const double b = training ? -scale * invstd * dot / (double)count : 0.0;
    const double offset = training ? -scale * sum / (double)count - b * mean : 0.0;
    for (I i = (I)threadIdx.x; i < count; i += CHANNEL_BLOCK) {
        const double g = gradient(i);
        const double x =
            training ? (double)views.input.data[channel_offset(views.input, c, i)] : 0.0;
        T *const to = views.grad_input.data + channel_offset(views.grad_input, c, i);
        const T value = (T)(scale * g + (b * x + offset));
        *to = accumulate_input ? *to + value : value;
    }
}

template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    batch_norm_fold(uf_cuda_view<T> running_mean, uf_cuda_view<T> running_var,
                    uf_cuda_view<T> weight, uf_cuda_view<T> bias, uf_cuda_view<T> input_bias,
                    double eps, uf_cuda_view<T> scale, uf_cuda_view<T> shift) {
    UF_EACH(int64_t, c, scale.extent[1]) {
        const double a = per_channel(weight, c, 1.0) / sqrt(per_channel(running_var, c, 1.0) + eps);
        const double offset = per_channel(input_bias, c, 0.0) - per_channel(running_mean, c, 0.0);
        scale.data[c * scale.stride[1]] = (T)a;
        shift.data[c * shift.stride[1]] = (T)(per_channel(bias, c, 0.0) + offset * a);
    }
}

template <typename T>
static batch_norm_views<T> views_of(const uf_batch_norm_kernel_args &args) {
    batch_norm_views<T> views;
    views.input = uf_cuda_view_of<T>(args.input);
    views.output = uf_cuda_view_of<T>(args.output);
    views.weight = uf_cuda_view_of<T>(args.weight);
    views.bias = uf_cuda_view_of<T>(args.bias);
    views.running_mean = uf_cuda_view_of<T>(args.running_mean);
    views.running_var = uf_cuda_view_of<T>(args.running_var);
    views.save_mean = uf_cuda_view_of<double>(args.save_mean);
    views.save_invstd = uf_cuda_view_of<double>(args.save_invstd);
    views.grad_output = uf_cuda_view_of<T>(args.grad_output);
    views.grad_input = uf_cuda_view_of<T>(args.grad_input);
    views.grad_weight = uf_cuda_view_of<T>(args.grad_weight);
    views.grad_bias = uf_cuda_view_of<T>(args.grad_bias);
    return views;
}

/* The workspace holds statistics that the caller does not keep. */
static uf_view statistics_in(void *memory, const uf_view &input, size_t index) {
    const size_t bytes = uf_align_up((size_t)input.extent[1] * sizeof(double));
    return uf_view_nchw((char *)memory + index * bytes, UF_F64, 1, input.extent[1], 1, 1);
}

static bool keeps_statistics(const uf_batch_norm_kernel_args *args) {
    return args->save_mean.data != NULL && args->save_invstd.data != NULL;
}

extern "C" size_t uf_cuda_batch_norm_forward_workspace(uf_context *context,
                                                       const uf_batch_norm_kernel_args *args) {
    (void)context;
    if (!args->training || keeps_statistics(args)) {
        return 0;
    }
    return 2 * uf_align_up((size_t)args->input.extent[1] * sizeof(double));
}

static int64_t channel_count(const uf_view &view) {
    return view.extent[0] * view.extent[2] * view.extent[3];
}

extern "C" uf_status uf_cuda_batch_norm_forward(uf_context *context,
                                                const uf_batch_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("batch_norm_forward", args->input.dtype));
    uf_batch_norm_kernel_args call = *args;
    const int64_t count = channel_count(args->input);
    const int64_t channels = args->input.extent[1];
    const int64_t planes = args->input.extent[0] * channels;
    const int64_t plane = args->input.extent[2] * args->input.extent[3];
    const cudaStream_t stream = uf_cuda_stream(context);
    if (args->training) {
        if (!keeps_statistics(args)) {
            if (args->workspace_size < uf_cuda_batch_norm_forward_workspace(context, args)) {
                UF_FAIL(UF_ERROR_INTERNAL, "batch_norm_forward was given %zu bytes of workspace",
                        args->workspace_size);
            }
            call.save_mean = statistics_in(args->workspace, args->input, 0);
            call.save_invstd = statistics_in(args->workspace, args->input, 1);
        }
        const unsigned blocks = channels > 0 ? (unsigned)channels : 1u;
        UF_DISPATCH(args->input.dtype, count,
                    batch_norm_statistics<T, I><<<blocks, CHANNEL_BLOCK, 0, stream>>>(
                        views_of<T>(call), args->num_batches_tracked, (I)(channels > 0 ? count : 0),
                        args->eps, args->momentum));
        UF_TRY(uf_cuda_launched(context, "batch_norm_statistics"));
    }
    if (planes == 0 || plane == 0) {
        return UF_OK;
    }
    const dim3 block = plane >= UF_BLOCK ? dim3(UF_BLOCK, 1)
                       : plane > 16      ? dim3(32, 8)
                                         : dim3(8, 32);
    const int64_t across = (plane + (int64_t)block.x * 4 - 1) / ((int64_t)block.x * 4);
    const int64_t down = (planes + block.y - 1) / block.y;
    const dim3 grid((unsigned)(across > 65535 ? 65535 : across),
                    (unsigned)(down > 65535 ? 65535 : down));
    UF_DISPATCH(args->input.dtype, planes > plane ? planes : plane,
                batch_norm_normalize<T, I><<<grid, block, 0, stream>>>(
                    views_of<T>(call), args->activation.kind, (T)args->activation.parameter,
                    args->training, args->eps, (I)planes, (I)plane));
    return uf_cuda_launched(context, "batch_norm_normalize");
}

extern "C" uf_status uf_cuda_batch_norm_backward(uf_context *context,
                                                 const uf_batch_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("batch_norm_backward", args->grad_output.dtype));
    const int64_t count = channel_count(args->grad_output);
    if (count == 0 || args->grad_output.extent[1] == 0) {
        return UF_OK;
    }
    UF_DISPATCH(
        args->grad_output.dtype, count,
        batch_norm_backward<T, I>
        <<<(unsigned)args->grad_output.extent[1], CHANNEL_BLOCK, 0, uf_cuda_stream(context)>>>(
            views_of<T>(*args), args->activation.kind, (T)args->activation.parameter,
            args->training, args->eps, (I)count, args->grad_input_mode == UF_ACCUMULATE,
            args->grad_param_mode == UF_ACCUMULATE));
    return uf_cuda_launched(context, "batch_norm_backward");
}

template <typename T>
static void launch_fold(uf_context *context, const uf_batch_norm_fold_kernel_args *args) {
    batch_norm_fold<T><<<uf_blocks(args->scale.extent[1]), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
        uf_cuda_view_of<T>(args->running_mean), uf_cuda_view_of<T>(args->running_var),
        uf_cuda_view_of<T>(args->weight), uf_cuda_view_of<T>(args->bias),
        uf_cuda_view_of<T>(args->input_bias), args->eps, uf_cuda_view_of<T>(args->scale),
        uf_cuda_view_of<T>(args->shift));
}

extern "C" uf_status uf_cuda_batch_norm_fold(uf_context *context,
                                             const uf_batch_norm_fold_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("batch_norm_fold", args->scale.dtype));
    if (args->scale.dtype == UF_F64) {
        launch_fold<double>(context, args);
    } else {
        launch_fold<float>(context, args);
    }
    return uf_cuda_launched(context, "batch_norm_fold");
}
