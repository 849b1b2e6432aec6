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

/* The kind is the same for a whole grid: the switch diverges in no warp. */
template <typename T>
static __device__ __forceinline__ T uf_activate(uf_activation_kind kind, T x, T p) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        return uf_act_##name(x, p);
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return x;
    }
}

/* Not inlined: each value of a lane would have a copy of every activation, too much for the
 * instruction cache. */
static __device__ __noinline__ float uf_activate_one(uf_activation_kind kind, float value,
                                                     float parameter) {
    return uf_activate(kind, value, parameter);
}

/* COUNT values; the short activations are inlined. */
template <int COUNT>
static __device__ __forceinline__ void uf_activate_all(uf_activation_kind kind, float parameter,
                                                       float *values) {
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
    } else if (kind != UF_ACTIVATION_IDENTITY) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = uf_activate_one(kind, values[i], parameter);
        }
    }
}

template <typename T>
static __device__ __forceinline__ T uf_activate_derivative(uf_activation_kind kind, T x, T y, T p) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        return uf_act_##name##_derivative(x, y, p);
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return (T)1;
    }
}

/* COUNT values at once: the kind is asked once for all of them. */
template <int COUNT, typename R>
static __device__ __forceinline__ void uf_activate_vector(uf_activation_kind kind, R p, R *values) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        _Pragma("unroll") for (int j = 0; j < COUNT; ++j) {                                        \
            values[j] = uf_act_##name(values[j], p);                                               \
        }                                                                                          \
        return;
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return;
    }
}

/* x = the derivatives at inputs x and outputs y */
template <int COUNT, typename R>
static __device__ __forceinline__ void uf_derive_vector(uf_activation_kind kind, R p, R *x,
                                                        const R *y) {
    switch (kind) {
#define UF_ACTIVATION(KIND, name, forward, needs, derivative)                                      \
    case UF_ACTIVATION_##KIND:                                                                     \
        _Pragma("unroll") for (int j = 0; j < COUNT; ++j) {                                        \
            x[j] = uf_act_##name##_derivative(x[j], y[j], p);                                      \
        }                                                                                          \
        return;
#include "kernels/activations.def"
#undef UF_ACTIVATION
    default:
        return;
    }
}

#endif
