/* activation_double.cu - grad_source (+)= grad_output * grad * f''(source). One thread per element,
 * any strides; bound by memory. */
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/elementwise/activation.cuh"

#define FN(name) uf_act_##name
#define UF_INLINE static __device__ __forceinline__
#define REAL float
#define MATH(name) name##f
#include "kernels/activation_curves.inc"
#undef REAL
#undef MATH
#define REAL double
#define MATH(name) name
#include "kernels/activation_curves.inc"
#undef REAL
#undef MATH
#undef UF_INLINE
#undef FN

/* f'' of what f' reads. The kind is the same for a whole grid: the switch diverges in no warp. */
template <typename T>
static __device__ __forceinline__ T curve_of(uf_activation_kind kind, T source, T p) {
    switch (kind) {
#define UF_STRAIGHT(KIND)
#define UF_CURVED(KIND, name, second)                                                              \
    case UF_ACTIVATION_##KIND:                                                                     \
        return uf_act_##name##_curve(source, source, p);
#include "kernels/activation_curves.def"
#undef UF_CURVED
#undef UF_STRAIGHT
    default:
        return (T)0;
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    activation_double_backward(uf_activation_kind kind, typename uf_arithmetic<T>::type p,
                               uf_cuda_view<T> source, uf_cuda_view<T> grad_output,
                               uf_cuda_view<T> grad, uf_cuda_view<T> grad_source, I count,
                               bool flat, bool accumulate) {
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        uf_position<I> at = {0, 0, 0, 0};
        if (!flat) {
            at = uf_locate<I>(i, (I)grad_source.extent[1], (I)grad_source.extent[2],
                              (I)grad_source.extent[3]);
        }
        const auto offset = [&](const uf_cuda_view<T> &view) {
            return flat ? (int64_t)i : uf_offset(view, at.n, at.c, at.h, at.w);
        };
        typedef typename uf_arithmetic<T>::type R;
        const R product = (R)grad_output.data[offset(grad_output)] * (R)grad.data[offset(grad)];
        const R curve = curve_of(kind, (R)source.data[offset(source)], p);
        T *const to = grad_source.data + offset(grad_source);
        *to = (T)uf_product(accumulate, accumulate ? (R)*to : (R)0, product, curve);
    }
}

template <typename T>
static uf_status backward_as(uf_context *context, const uf_activation_double_kernel_args *args) {
    const int64_t count = uf_view_count(&args->grad_source);
    const bool flat =
        uf_view_is_contiguous(&args->source) && uf_view_is_contiguous(&args->grad_output) &&
        uf_view_is_contiguous(&args->grad) && uf_view_is_contiguous(&args->grad_source);
    UF_DISPATCH_INDEX(count,
                      return uf_cuda_launch(
                          context, "activation_double_backward", {dim3(uf_blocks(count)), UF_BLOCK},
                          activation_double_backward<T, I>, args->activation.kind,
                          (typename uf_arithmetic<T>::type)args->activation.parameter,
                          uf_cuda_view_of<T>(args->source), uf_cuda_view_of<T>(args->grad_output),
                          uf_cuda_view_of<T>(args->grad), uf_cuda_view_of<T>(args->grad_source),
                          (I)count, flat, args->mode == UF_ACCUMULATE));
}

extern "C" uf_status
uf_cuda_activation_double_backward(uf_context *context,
                                   const uf_activation_double_kernel_args *args) {
    UF_TRY(uf_activation_double_check(args));
    UF_TRY(uf_cuda_enter(context));
    if (uf_view_count(&args->grad_source) == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED_TYPE(args->source.dtype, return backward_as<T>(context, args));
}
