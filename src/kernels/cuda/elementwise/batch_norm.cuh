/* batch_norm.cuh - arguments of batch norm's kernels, and the arithmetic of one element. */
#ifndef UF_KERNELS_CUDA_BATCH_NORM_CUH
#define UF_KERNELS_CUDA_BATCH_NORM_CUH

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/channel.cuh"

/* One number per channel; absent ones have no data. */
template <typename T>
struct channel_values {
    T *data;
    int64_t stride;
};

template <typename T>
static channel_values<T> channel_values_of(const uf_view &view) {
    const channel_values<T> made = {static_cast<T *>(view.data), view.stride[1]};
    return made;
}

template <typename T>
static __device__ __forceinline__ double value_at(const channel_values<T> &of, int64_t c,
                                                  double absent) {
    return of.data == nullptr ? absent : (double)of.data[c * of.stride];
}

template <typename T>
struct norm_call {
    typedef typename uf_arithmetic<T>::type real;
    uf_channel_plan plan;
    int64_t channels;
    double count; /* elements of a channel */
    uf_planes<T> x, to;
    uf_planes<T> g; /* of backward */
    channel_values<real> weight, bias, running_mean, running_var, grad_weight, grad_bias;
    channel_values<double> save_mean, save_invstd;
    int64_t *num_batches_tracked;
    double2 *partial; /* [channel][piece] */
    double eps, momentum;
    uf_activation_kind kind;
    real parameter;
    bool training, adds_to_input, adds_to_parameters;
};

enum norm_phase {
    NORM_ALONE, /* a block makes all of its channels' sums itself, and needs no workspace */
    NORM_SUMS,  /* the sums of one piece, into the workspace */
    NORM_APPLY  /* one piece, with the sums in the workspace */
};

/* ---- arithmetic of one element ---- */

/* Long functions are not inlined: there would be a copy for each element that a thread has. */
template <typename R>
static __device__ __noinline__ R activate_one(uf_activation_kind kind, R z, R p) {
    return uf_activate(kind, z, p);
}

template <typename R>
static __device__ __noinline__ R derive_one(uf_activation_kind kind, R z, R p) {
    return uf_activate_derivative(kind, z, uf_activate(kind, z, p), p);
}

template <typename R>
static __device__ __forceinline__ R activated(uf_activation_kind kind, R z, R p) {
    switch (kind) {
    case UF_ACTIVATION_IDENTITY:
        return z;
    case UF_ACTIVATION_RELU:
        return uf_activate(UF_ACTIVATION_RELU, z, p);
    case UF_ACTIVATION_LEAKY_RELU:
        return uf_activate(UF_ACTIVATION_LEAKY_RELU, z, p);
    default:
        return activate_one(kind, z, p);
    }
}

template <typename R>
static __device__ __forceinline__ R derivative(uf_activation_kind kind, R z, R p) {
    switch (kind) {
    case UF_ACTIVATION_RELU:
        return uf_activate_derivative(UF_ACTIVATION_RELU, z, uf_activate(UF_ACTIVATION_RELU, z, p),
                                      p);
    case UF_ACTIVATION_LEAKY_RELU:
        return uf_activate_derivative(UF_ACTIVATION_LEAKY_RELU, z, (R)0, p);
    default:
        return derive_one(kind, z, p);
    }
}

/* The numbers of a channel: z = x*a + b. */
template <typename R>
struct norm_numbers {
    double mean, invstd, scale;
    R a, b;
};

template <typename T>
static __device__ __forceinline__ norm_numbers<typename norm_call<T>::real>
numbers_of(const norm_call<T> &call, int64_t c, double mean, double invstd) {
    typedef typename norm_call<T>::real real;
    norm_numbers<real> made;
    made.mean = mean;
    made.invstd = invstd;
    made.scale = invstd * value_at(call.weight, c, 1.0);
    made.a = (real)made.scale;
    made.b = (real)(value_at(call.bias, c, 0.0) - mean * made.scale);
    return made;
}

static __device__ __forceinline__ float normalized(const norm_numbers<float> &of, float x) {
    return fmaf(x, of.a, of.b);
}

static __device__ __forceinline__ double normalized(const norm_numbers<double> &of, double x) {
    return fma(x, of.a, of.b);
}

/* A product that no fused multiply-add takes unrounded: z and g have the bits of two kernels. */
static __device__ __forceinline__ float rounded_product(float a, float b) {
    return __fmul_rn(a, b);
}

static __device__ __forceinline__ double rounded_product(double a, double b) {
    return __dmul_rn(a, b);
}

/* grad_output * activation'(z) */
template <typename T, typename R>
static __device__ __forceinline__ R gradient_at(const norm_call<T> &call,
                                                const norm_numbers<R> &numbers, R x, R g) {
    if (call.kind == UF_ACTIVATION_IDENTITY) {
        return g;
    }
    return rounded_product(g, derivative(call.kind, normalized(numbers, x), call.parameter));
}

/* ---- a thread's vectors ---- */

/* Vectors of a tensor that a thread has in registers: forward reads one tensor, backward two. */
enum { KEPT_FORWARD = UF_CHANNEL_STEPS, KEPT_BACKWARD = 4 };

/* f(k, at) for those of the next KEPT vectors that are there; `at` moves behind them. */
template <int KEPT, typename F>
static __device__ __forceinline__ void each_vector(const uf_channel_plan &plan, int64_t steps_left,
                                                   uf_channel_cursor &at, const F &f) {
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (k < steps_left && at.i < plan.vectors) {
            f(k, at);
        }
        uf_channel_next(&plan, &at);
    }
}

#endif
