/* batch_norm.cuh - arguments of batch norm's kernels, and the arithmetic of one element. */
#ifndef UF_KERNELS_CUDA_BATCH_NORM_CUH
#define UF_KERNELS_CUDA_BATCH_NORM_CUH

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/norm/channel.cuh"

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
    NORM_ALONE, /* a block makes all of its channels' sums itself, and needs no workspace; a kernel
                   for this phase alone keeps them whole: one piece, of KEPT_ALONE steps at most */
    NORM_SUMS,  /* the sums of one piece, into the workspace */
    NORM_APPLY, /* one piece, with the sums in the workspace */
    NORM_ANY    /* of a kernel: the launch says which */
};

/* ---- arithmetic of one element ---- */

/* Not inlined, as uf_activate_one: there would be a copy for each element that a thread has. */
template <typename R>
static __device__ __noinline__ R derive_one(uf_activation_kind kind, R z, R p) {
    return uf_activate_derivative(kind, z, uf_activate_one(kind, z, p), p);
}

/* `values` of one vector go through the activation. The kind is asked once for all of them. */
template <int WIDTH, typename R>
static __device__ __forceinline__ void activate_vector(uf_activation_kind kind, R p, R *values) {
    switch (kind) {
    case UF_ACTIVATION_IDENTITY:
        return;
    case UF_ACTIVATION_RELU:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = uf_activate(UF_ACTIVATION_RELU, values[j], p);
        }
        return;
    case UF_ACTIVATION_LEAKY_RELU:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = uf_activate(UF_ACTIVATION_LEAKY_RELU, values[j], p);
        }
        return;
    default:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = uf_activate_one(kind, values[j], p);
        }
    }
}

/* values = the activation's derivatives at `values` */
template <int WIDTH, typename R>
static __device__ __forceinline__ void derive_vector(uf_activation_kind kind, R p, R *values) {
    switch (kind) {
    case UF_ACTIVATION_RELU:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const R y = uf_activate(UF_ACTIVATION_RELU, values[j], p);
            values[j] = uf_activate_derivative(UF_ACTIVATION_RELU, values[j], y, p);
        }
        return;
    case UF_ACTIVATION_LEAKY_RELU:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = uf_activate_derivative(UF_ACTIVATION_LEAKY_RELU, values[j], (R)0, p);
        }
        return;
    default:
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values[j] = derive_one(kind, values[j], p);
        }
    }
}

/* The numbers of a channel: z = x*a + b. */
template <typename R>
struct norm_numbers {
    double mean, invstd, scale;
    R a, b;
};

/* A channel's weight and bias. Kernels read them before they wait for anything else. */
struct norm_affine {
    double weight, bias;
};

template <typename T>
static __device__ __forceinline__ norm_affine affine_of(const norm_call<T> &call,
                                                        const uf_channel_thread &me) {
    norm_affine made = {1.0, 0.0};
    if (me.works) {
        made.weight = value_at(call.weight, me.channel, 1.0);
        made.bias = value_at(call.bias, me.channel, 0.0);
    }
    return made;
}

template <typename R>
static __device__ __forceinline__ norm_numbers<R> numbers_of(const norm_affine &affine, double mean,
                                                             double invstd) {
    norm_numbers<R> made;
    made.mean = mean;
    made.invstd = invstd;
    made.scale = invstd * affine.weight;
    made.a = (R)made.scale;
    made.b = (R)(affine.bias - mean * made.scale);
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

/* made = grad_output * activation'(z) */
template <int WIDTH, typename T, typename R>
static __device__ __forceinline__ void
gradients_at(const norm_call<T> &call, const norm_numbers<R> &numbers, const uf_pack<T, WIDTH> &x,
             const uf_pack<T, WIDTH> &g, R *made) {
    if (call.kind == UF_ACTIVATION_IDENTITY) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            made[j] = (R)g.get(j);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        made[j] = normalized(numbers, (R)x.get(j));
    }
    derive_vector<WIDTH>(call.kind, call.parameter, made);
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        made[j] = rounded_product((R)g.get(j), made[j]);
    }
}

/* ---- a thread's vectors ---- */

/* Vectors of a tensor that a thread has in registers. A block that makes a channel alone has all of
 * them, and the loads of all are under way at once: two such blocks are resident. Blocks of pieces
 * are small instead, so that three or four are, and one loads while another stores. Each phase is a
 * kernel, a fraction of the code of all: instructions come from memory too. */
enum { KEPT_ALONE = UF_CHANNEL_STEPS, KEPT_FORWARD = 4, KEPT_BACKWARD = 2 };

/* f64 has registers instead: its activations are long. */
#define NORM_BOUNDS(T, PHASE)                                                                      \
    __launch_bounds__(UF_CHANNEL_BLOCK, sizeof(T) == 8                                  ? 1        \
                                        : (PHASE) == NORM_SUMS && sizeof(T) == 4        ? 4        \
                                        : (PHASE) == NORM_SUMS || (PHASE) == NORM_APPLY ? 3        \
                                                                                        : 2)

/* A vector in each tensor: the planes that it is in, and its number there. */
template <typename T>
struct norm_place {
    int64_t p;
    T *x, *g, *to;
};

template <typename T>
static __device__ __forceinline__ norm_place<T>
place_of(const norm_call<T> &call, const uf_channel_thread &me, const uf_channel_walk &walk) {
    const norm_place<T> made = {walk.p, uf_plane_of(call.x, me, walk),
                                uf_plane_of(call.g, me, walk), uf_plane_of(call.to, me, walk)};
    return made;
}

/* f(k, at) for those of the next KEPT vectors that there are; `at` moves behind them. */
template <int KEPT, typename T, typename F>
static __device__ __forceinline__ void each_vector(const norm_call<T> &call, int32_t left,
                                                   norm_place<T> &at, const F &f) {
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (k < left) {
            f(k, at);
        }
        const bool wraps = uf_channel_step(&call.plan, &at.p);
        at.x = uf_next_plane(call.x, at.x, wraps);
        at.g = uf_next_plane(call.g, at.g, wraps);
        at.to = uf_next_plane(call.to, at.to, wraps);
    }
}

/* f(k) for those of the next KEPT vectors that there are: they are in registers. */
template <int KEPT, typename F>
static __device__ __forceinline__ void each_kept(int32_t left, const F &f) {
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (k < left) {
            f(k);
        }
    }
}

/* A block's number. The second launch goes through memory backwards: it begins with what the first
 * has read last, which is in the cache. */
static __device__ __forceinline__ uint32_t norm_block(norm_phase phase) {
    return phase == NORM_APPLY ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

#endif
