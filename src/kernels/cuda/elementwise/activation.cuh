/* activation.cuh - activations.def as device functions. */
#ifndef UF_KERNELS_CUDA_ACTIVATION_CUH
#define UF_KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/device/device.cuh"

#define FN(name) uf_act_##name
#define UF_INLINE static __device__ __forceinline__
#define REAL float
#define MATH(name) name##f
#include "kernels/activation_math.inc"
#undef REAL
#undef MATH
#define REAL double
#define MATH(name) name
#include "kernels/activation_math.inc"
#undef REAL
#undef MATH
#undef UF_INLINE
#undef FN

/* Any activation; q is the maximum of kinds with two parameters. Not inlined: each value of a lane
 * would have a copy of every activation, too much for the instruction cache and for registers. */
template <typename T>
static __device__ __noinline__ T uf_activate_one(uf_activation_kind kind, T x, T p, T q = (T)0) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        return uf_act_##name(x, p, q);
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return x;
    }
}

/* The kind is the same for a whole grid: the switch diverges in no warp. The short and the common
 * activations are inlined. */
template <typename T>
static __device__ __forceinline__ T uf_activate(uf_activation_kind kind, T x, T p) {
    switch (kind) {
    case UF_ACTIVATION_IDENTITY:
        return x;
    case UF_ACTIVATION_RELU:
        return uf_act_relu(x, p, (T)0);
    case UF_ACTIVATION_LEAKY_RELU:
        return uf_act_leaky_relu(x, p, (T)0);
    case UF_ACTIVATION_TANH:
        return uf_act_tanh(x, p, (T)0);
    case UF_ACTIVATION_SIGMOID:
        return uf_act_sigmoid(x, p, (T)0);
    default:
        return uf_activate_one(kind, x, p);
    }
}

/* Four at once, for the chains of four overlap: the kernels that call this have few warps. */
static __device__ __noinline__ float4 uf_tanh_four(float4 x) {
    return make_float4(uf_act_tanh(x.x, 0.0f, 0.0f), uf_act_tanh(x.y, 0.0f, 0.0f),
                       uf_act_tanh(x.z, 0.0f, 0.0f), uf_act_tanh(x.w, 0.0f, 0.0f));
}

/* COUNT values, a multiple of 4; the short activations are inlined. */
template <int COUNT>
static __device__ __forceinline__ void uf_activate_all(uf_activation_kind kind, float parameter,
                                                       float *values) {
    static_assert(COUNT % 4 == 0, "values are taken by fours");
    if (kind == UF_ACTIVATION_RELU) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = uf_activate(UF_ACTIVATION_RELU, values[i], 0.0f);
        }
    } else if (kind == UF_ACTIVATION_LEAKY_RELU) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = uf_activate(UF_ACTIVATION_LEAKY_RELU, values[i], parameter);
        }
    } else if (kind == UF_ACTIVATION_TANH) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            const float4 four =
                uf_tanh_four(make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]));
            values[i] = four.x;
            values[i + 1] = four.y;
            values[i + 2] = four.z;
            values[i + 3] = four.w;
        }
    } else if (kind != UF_ACTIVATION_IDENTITY) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = uf_activate_one(kind, values[i], parameter);
        }
    }
}

template <typename T>
static __device__ __forceinline__ T uf_activate_derivative(uf_activation_kind kind, T x, T y, T p,
                                                           T q = (T)0) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        return uf_act_##name##_derivative(x, y, p, q);
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return (T)1;
    }
}

/* Not inlined, for the same reason. */
template <typename T>
static __device__ __noinline__ T uf_derive_one(uf_activation_kind kind, T x, T y, T p, T q) {
    return uf_activate_derivative(kind, x, y, p, q);
}

/* COUNT values at once: the kind is asked once for all of them. The short and the common
 * activations are inlined, as in uf_activate. */
template <int COUNT, typename R>
static __device__ __forceinline__ void uf_activate_vector(uf_activation_kind kind, R p, R q,
                                                          R *values) {
#define EACH(expression)                                                                           \
    _Pragma("unroll") for (int j = 0; j < COUNT; ++j) {                                            \
        values[j] = expression;                                                                    \
    }                                                                                              \
    return
    switch (kind) {
    case UF_ACTIVATION_IDENTITY:
        return;
    case UF_ACTIVATION_RELU:
        EACH(uf_act_relu(values[j], p, q));
    case UF_ACTIVATION_LEAKY_RELU:
        EACH(uf_act_leaky_relu(values[j], p, q));
    case UF_ACTIVATION_TANH:
        EACH(uf_act_tanh(values[j], p, q));
    case UF_ACTIVATION_SIGMOID:
        EACH(uf_act_sigmoid(values[j], p, q));
    default:
        EACH(uf_activate_one(kind, values[j], p, q));
    }
#undef EACH
}

/* x = the derivatives at inputs x and outputs y */
template <int COUNT, typename R>
static __device__ __forceinline__ void uf_derive_vector(uf_activation_kind kind, R p, R q, R *x,
                                                        const R *y) {
#define EACH(expression)                                                                           \
    _Pragma("unroll") for (int j = 0; j < COUNT; ++j) {                                            \
        x[j] = expression;                                                                         \
    }                                                                                              \
    return
    switch (kind) {
    case UF_ACTIVATION_RELU:
        EACH(uf_act_relu_derivative(x[j], y[j], p, q));
    case UF_ACTIVATION_LEAKY_RELU:
        EACH(uf_act_leaky_relu_derivative(x[j], y[j], p, q));
    case UF_ACTIVATION_TANH:
        EACH(uf_act_tanh_derivative(x[j], y[j], p, q));
    case UF_ACTIVATION_SIGMOID:
        EACH(uf_act_sigmoid_derivative(x[j], y[j], p, q));
    default:
        EACH(uf_derive_one(kind, x[j], y[j], p, q));
    }
#undef EACH
}

#endif
