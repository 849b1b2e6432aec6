/* norm.cuh - what the kernels of the norms of one image share: the call as the device sees it, the
 * arithmetic of one element, sums. */
#ifndef UF_KERNELS_CUDA_NORM_CUH
#define UF_KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/norm.h"

/* A statistic of so few elements is computed with in f64: where it has two, nearly all of
 * grad_input cancels. Beyond that, elements are computed with in their own type and sums of a few
 * of them are added in f64. */
enum { UF_NORM_EXACT = 16 };

/* T is the type of the tensors; R, in what follows, that of the arithmetic. */
template <typename T>
struct uf_norm_call {
    typedef typename uf_arithmetic<T>::type param;
    uf_norm_layout layout;
    int64_t params; /* of one group */
    const T *x, *g; /* input, grad_output */
    T *to;          /* output or grad_input */
    const param *weight, *bias;
    double *mean, *invstd;
    double eps;
    uf_activation_kind kind;
    param parameter;
    bool accumulate; /* into `to` */
    int64_t pieces;  /* of a row */
    double2 *partial;
    double2 *sums; /* backward: mean(h) and mean(h*xhat) of each row, where a row has pieces */
};

template <typename T>
static uf_norm_call<T> uf_norm_call_of(const uf_norm_kernel_args *args) {
    typedef typename uf_norm_call<T>::param param;
    uf_norm_call<T> made = {};
    made.layout = args->layout;
    made.params = args->layout.size / args->layout.run;
    made.x = static_cast<const T *>(args->input.data);
    made.g = static_cast<const T *>(args->grad_output.data);
    made.weight = static_cast<const param *>(args->weight.data);
    made.bias = static_cast<const param *>(args->bias.data);
    made.mean = static_cast<double *>(args->save_mean.data);
    made.invstd = static_cast<double *>(args->save_invstd.data);
    made.eps = args->eps;
    made.kind = args->activation.kind;
    made.parameter = (param)args->activation.parameter;
    made.pieces = 1;
    return made;
}

/* A mean as a sum of two numbers: f32 alone would round what is left of x after it. */
template <typename R>
struct uf_norm_statistic {
    R high, low, invstd;
};

template <typename R>
static __device__ __forceinline__ uf_norm_statistic<R> uf_norm_statistic_of(double mean,
                                                                            double invstd) {
    uf_norm_statistic<R> made;
    made.high = (R)mean;
    made.low = (R)(mean - (double)made.high);
    made.invstd = (R)invstd;
    return made;
}

template <typename R>
static __device__ __forceinline__ R uf_norm_hat(const uf_norm_statistic<R> &of, R x) {
    return ((x - of.high) - of.low) * of.invstd;
}

/* z = xhat*weight + bias, rounded as it is stored where no activation follows. Forward and backward
 * use this one function: they see the same bits. */
template <typename T, typename R>
static __device__ __forceinline__ typename uf_norm_call<T>::param uf_norm_z(R hat, R weight,
                                                                            R bias) {
    return (typename uf_norm_call<T>::param)fma(hat, weight, bias);
}

/* Not inlined: each value of a thread would have a copy of every activation. */
template <typename P>
static __device__ __noinline__ P uf_norm_other_activation(uf_activation_kind kind, P z,
                                                          P parameter) {
    return uf_activate(kind, z, parameter);
}

template <typename P>
static __device__ __noinline__ P uf_norm_other_derivative(uf_activation_kind kind, P z,
                                                          P parameter) {
    return uf_activate_derivative(kind, z, uf_activate(kind, z, parameter), parameter);
}

template <typename P>
static __device__ __forceinline__ P uf_norm_activate(uf_activation_kind kind, P z, P parameter) {
    return kind == UF_ACTIVATION_IDENTITY ? z
           : kind == UF_ACTIVATION_RELU   ? uf_activate(UF_ACTIVATION_RELU, z, parameter)
                                          : uf_norm_other_activation(kind, z, parameter);
}

/* grad_output * act'(z) */
template <typename T, typename R>
static __device__ __forceinline__ R uf_norm_gradient(const uf_norm_call<T> &call, R hat, R weight,
                                                     R bias, typename uf_norm_call<T>::param g) {
    if (call.kind == UF_ACTIVATION_IDENTITY) {
        return (R)g;
    }
    const auto z = uf_norm_z<T, R>(hat, weight, bias);
    return (R)(g * (call.kind == UF_ACTIVATION_RELU
                        ? uf_activate_derivative(UF_ACTIVATION_RELU, z,
                                                 uf_activate(UF_ACTIVATION_RELU, z, call.parameter),
                                                 call.parameter)
                        : uf_norm_other_derivative(call.kind, z, call.parameter)));
}

template <typename T>
static __device__ __forceinline__ typename uf_norm_call<T>::param
uf_norm_weight(const uf_norm_call<T> &call, int64_t p) {
    typedef typename uf_norm_call<T>::param param;
    return call.weight != nullptr ? call.weight[p] : (param)1;
}

template <typename T>
static __device__ __forceinline__ typename uf_norm_call<T>::param
uf_norm_bias(const uf_norm_call<T> &call, int64_t p) {
    typedef typename uf_norm_call<T>::param param;
    return call.bias != nullptr ? call.bias[p] : (param)0;
}

/* The sum over the TEAM threads that share a row, in each of them, in a fixed order. */
template <int TEAM>
static __device__ __forceinline__ double uf_norm_team_sum(double value, double *shared) {
    if constexpr (TEAM > 32) {
        return uf_block_sum(value, shared);
    } else {
        (void)shared;
        for (int distance = 16; distance > 0; distance >>= 1) {
            value += __shfl_xor_sync(0xffffffffu, value, distance);
        }
        return value;
    }
}

/* norm_rows.cu: inner = 1; norm_columns.cu: inner > 1. The workspace is enough wherever tensors
 * begin. */
size_t uf_norm_rows_workspace(const uf_norm_kernel_args *args, bool backward);
uf_status uf_norm_rows_run(uf_context *context, const uf_norm_kernel_args *args, bool backward);
uf_status uf_norm_columns_run(uf_context *context, const uf_norm_kernel_args *args, bool backward);

/* Run `statement` with T bound to the type of the tensors. */
#define UF_NORM_DISPATCH(type, ...)                                                                \
    do {                                                                                           \
        if ((type) == UF_F64) {                                                                    \
            typedef double T;                                                                      \
            __VA_ARGS__;                                                                           \
        } else if ((type) == UF_BF16) {                                                            \
            typedef uf_bf16 T;                                                                     \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

#endif
