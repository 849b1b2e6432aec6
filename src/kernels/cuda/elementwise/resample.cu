/* resample.cu - upsampling by the nearest element or between four, and its gradient. One thread
 * finds where a pixel's sources or targets are, which takes f64, and serves that pixel of several
 * images and channels (planes). Backward gathers: each element adds its weighted gradients, rows
 * and columns ascending. Bound by memory. */
#include "kernels/cuda/device/element.cuh"

enum {
    FULL_GRID = 4096, /* blocks; beyond it threads take more planes */
    AT_ONCE = 4       /* planes whose sums share the weights */
};

template <typename T, typename I>
static __device__ __forceinline__ T *plane_of(const uf_cuda_view<T> &view, I plane) {
    const I n = plane / (I)view.extent[1];
    return view.data + n * view.stride[0] + (plane - n * (I)view.extent[1]) * view.stride[1];
}

/* for (I pixel = ...) over the pixels, and for (I plane = ...) over the planes, in groups of
 * `at_once`: x and y of block and grid. */
#define EACH_PIXEL(I, pixel, pixels)                                                               \
    for (I pixel = (I)(blockIdx.x * blockDim.x + threadIdx.x); pixel < (pixels);                   \
         pixel += (I)(gridDim.x * blockDim.x))
#define EACH_PLANE(I, plane, planes, at_once)                                                      \
    for (I plane = (I)(blockIdx.y * blockDim.y + threadIdx.y) * (at_once); plane < (planes);       \
         plane += (I)(gridDim.y * blockDim.y) * (at_once))

template <typename T, bool BLEND, typename I>
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    resample_forward(uf_resample_axis rows, uf_resample_axis columns, uf_cuda_view<T> input,
                     uf_cuda_view<T> output, I pixels, I planes) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    EACH_PIXEL(I, pixel, pixels) {
        const I row = pixel / (I)columns.out;
        const I column = pixel - row * (I)columns.out;
        const int64_t h = uf_resample_source(&rows, row);
        const int64_t w = uf_resample_source(&columns, column);
        const int64_t to = row * output.stride[2] + column * output.stride[3];
        const int64_t from = h * input.stride[2] + w * input.stride[3];
        const int64_t down = h + 1 < rows.in ? input.stride[2] : 0;
        const int64_t right = w + 1 < columns.in ? input.stride[3] : 0;
        const R below = BLEND ? (R)uf_resample_distance(&rows, h, row) : (R)0;
        const R part = BLEND ? (R)uf_resample_distance(&columns, w, column) : (R)0;
        EACH_PLANE(I, plane, planes, 1) {
            const T *const x = plane_of(input, plane) + from;
            T *const y = plane_of(output, plane) + to;
            if (BLEND) {
                const R upper = ((R)1 - part) * (R)x[0] + part * (R)x[right];
                const R lower = ((R)1 - part) * (R)x[down] + part * (R)x[down + right];
                *y = (T)(((R)1 - below) * upper + below * lower);
            } else {
                *y = *x;
            }
        }
    }
}

template <typename T, bool BLEND, typename I>
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    resample_backward(uf_resample_axis rows, uf_resample_axis columns, uf_cuda_view<T> grad_output,
                      uf_cuda_view<T> grad_input, I pixels, I planes, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    EACH_PIXEL(I, pixel, pixels) {
        const I h = pixel / (I)columns.in;
        const I w = pixel - h * (I)columns.in;
        int64_t upper, lower, left, right;
        uf_resample_targets(&rows, BLEND, h, &upper, &lower);
        uf_resample_targets(&columns, BLEND, w, &left, &right);
        EACH_PLANE(I, first, planes, AT_ONCE) {
            const T *from[AT_ONCE];
            uf_long_sum<R> sum[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                /* The last plane again where there are no more. */
                from[j] = plane_of(grad_output, first + j < planes ? first + j : planes - 1);
                sum[j].clear();
            }
#pragma unroll 1
            for (int64_t r = upper; r < lower; ++r) {
                const double down = uf_resample_weight(&rows, BLEND, h, r);
#pragma unroll 1
                for (int64_t c = left; c < right; ++c) {
                    const R weight = (R)(down * uf_resample_weight(&columns, BLEND, w, c));
                    const int64_t at = r * grad_output.stride[2] + c * grad_output.stride[3];
#pragma unroll
                    for (int j = 0; j < AT_ONCE; ++j) {
                        sum[j].add(weight * (R)from[j][at]);
                    }
                }
            }
            const int64_t at = h * grad_input.stride[2] + w * grad_input.stride[3];
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                if (first + j < planes) {
                    T *const to = plane_of(grad_input, first + j) + at;
                    *to = (T)(accumulate ? (R)*to + sum[j].total() : sum[j].total());
                }
            }
        }
    }
}

/* Blocks of UF_BLOCK threads, one for each pixel of a small image, the rest for its neighbouring
 * planes; and as many of them as fill the GPU. */
static uf_launch launch_of(int64_t pixels, int64_t planes) {
    unsigned width = 1;
    while (width < UF_BLOCK && width < pixels) {
        width *= 2;
    }
    const unsigned height = UF_BLOCK / width;
    const int64_t across = (pixels + width - 1) / width;
    const unsigned x = (unsigned)(across < (1 << 20) ? across : 1 << 20);
    const int64_t most = x < FULL_GRID ? FULL_GRID / x : 1;
    const int64_t down = (planes + height - 1) / height;
    uf_launch made;
    made.block = dim3(width, height);
    made.grid = dim3(x, (unsigned)(down < most ? down : most));
    return made;
}

template <typename T, typename I>
static uf_status launch_forward(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_view &output = args->output;
    const int64_t pixels = output.extent[2] * output.extent[3];
    const int64_t planes = output.extent[0] * output.extent[1];
    const auto kernel = args->blend ? resample_forward<T, true, I> : resample_forward<T, false, I>;
    const uf_launch launch = launch_of(pixels, planes);
    return uf_cuda_launch(context, "resample_forward", launch, kernel, args->axis[0], args->axis[1],
                          uf_cuda_view_of<T>(args->input), uf_cuda_view_of<T>(output), (I)pixels,
                          (I)planes);
}

template <typename T, typename I>
static uf_status launch_backward(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_view &gradient = args->grad_input;
    const int64_t pixels = gradient.extent[2] * gradient.extent[3];
    const int64_t planes = gradient.extent[0] * gradient.extent[1];
    const auto kernel =
        args->blend ? resample_backward<T, true, I> : resample_backward<T, false, I>;
    const uf_launch launch = launch_of(pixels, (planes + AT_ONCE - 1) / AT_ONCE);
    return uf_cuda_launch(context, "resample_backward", launch, kernel, args->axis[0],
                          args->axis[1], uf_cuda_view_of<T>(args->grad_output),
                          uf_cuda_view_of<T>(gradient), (I)pixels, (I)planes,
                          args->mode == UF_ACCUMULATE);
}

extern "C" uf_status uf_cuda_resample_forward(uf_context *context,
                                              const uf_resample_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_resample_check(args, false));
    UF_DISPATCH_STORED(args->output.dtype, uf_view_count(&args->output),
                       return (launch_forward<T, I>(context, args)));
}

extern "C" uf_status uf_cuda_resample_backward(uf_context *context,
                                               const uf_resample_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_resample_check(args, true));
    UF_DISPATCH_STORED(args->grad_input.dtype, uf_view_count(&args->grad_input),
                       return (launch_backward<T, I>(context, args)));
}
