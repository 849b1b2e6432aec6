/* norm_columns.cu - norms whose statistics are of elements `inner` apart: layer norm over the
 * channels of each pixel.
 *
 * A block takes 32 neighbouring statistics: the lanes of a warp read one run of memory, and eight
 * warps share the elements of a statistic. It reads them twice or three times, from the second on
 * out of the caches. Bound by memory. Sums of eight elements are in the type that computes, all
 * others in f64, in an order that the shape decides. */
#include "kernels/cuda/norm/norm.cuh"

enum { LANES = 32, WARPS = 8, STEPS = 8 /* elements whose sum is added in f64 */ };

/* The statistic of a thread, and where its elements are: first, first + inner and so on. */
struct column {
    int64_t o, i, first;
    bool works; /* false beyond the last one */
};

template <typename T>
static __device__ __forceinline__ column column_of(const uf_norm_call<T> &call, int64_t tiles) {
    const uf_norm_layout &layout = call.layout;
    column made;
    made.o = blockIdx.x / (uint32_t)tiles;
    made.i = (int64_t)(blockIdx.x - (uint32_t)made.o * (uint32_t)tiles) * LANES +
             (int64_t)threadIdx.x % LANES;
    made.works = made.i < layout.inner;
    made.first = made.o * layout.size * layout.inner + made.i;
    return made;
}

/* Two sums over the elements s of a statistic, in each of its threads; f(s, parts) adds one element
 * to both. All threads of the block call it. */
template <typename R, typename F>
static __device__ __forceinline__ double2 column_sums(int64_t size, bool works,
                                                      double2 (*shared)[LANES + 1], F f) {
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    double2 sum = {0.0, 0.0};
    for (int64_t s = warp; works && s < size;) {
        R parts[2] = {(R)0, (R)0};
#pragma unroll
        for (int step = 0; step < STEPS; ++step, s += WARPS) {
            if (s < size) {
                f(s, parts);
            }
        }
        sum.x += (double)parts[0];
        sum.y += (double)parts[1];
    }
    shared[warp][lane] = sum;
    __syncthreads();
    double2 total = shared[0][lane];
    for (int other = 1; other < WARPS; ++other) {
        total.x += shared[other][lane].x;
        total.y += shared[other][lane].y;
    }
    __syncthreads();
    return total;
}

template <typename T, typename R>
static __global__ void __launch_bounds__(LANES *WARPS, 3)
    norm_columns_forward(uf_norm_call<T> call, int64_t tiles) {
    uf_overlap_launches();
    __shared__ double2 shared[WARPS][LANES + 1];
    const column me = column_of(call, tiles);
    const int64_t size = call.layout.size, inner = call.layout.inner;
    const T *const x = call.x + me.first;
    const R pivot = me.works ? (R)uf_load<T, 1>(x).get(0) : (R)0;
    const double2 sum = column_sums<R>(size, me.works, shared, [&](int64_t s, R *parts) {
        parts[0] += (R)uf_load<T, 1>(x + s * inner).get(0) - pivot;
    });
    const double mean = (double)pivot + sum.x / (double)size;
    const uf_norm_statistic<R> centre = uf_norm_statistic_of<R>(mean, 1.0);
    const double2 scatter = column_sums<R>(size, me.works, shared, [&](int64_t s, R *parts) {
        const R distance = uf_norm_hat(centre, (R)uf_load<T, 1>(x + s * inner).get(0));
        parts[0] += distance * distance;
    });
    if (!me.works) {
        return;
    }
    const double invstd = 1.0 / sqrt(scatter.x / (double)size + call.eps);
    const int64_t statistic = me.o * inner + me.i;
    if (threadIdx.x < LANES) {
        call.mean[statistic] = mean;
        call.invstd[statistic] = invstd;
    }
    const uf_norm_statistic<R> of = uf_norm_statistic_of<R>(mean, invstd);
    const int64_t base = me.o % call.layout.groups * call.params;
    for (int64_t s = threadIdx.x / LANES; s < size; s += WARPS) {
        const R hat = uf_norm_hat(of, (R)uf_load<T, 1>(x + s * inner).get(0));
        const auto z = uf_norm_z<T, R>(hat, (R)uf_norm_weight(call, base + s),
                                       (R)uf_norm_bias(call, base + s));
        call.to[me.first + s * inner] = (T)uf_norm_activate(call.kind, z, call.parameter);
    }
}

template <typename R>
struct column_gradient {
    R h, hat;
};

template <typename T, typename R>
static __device__ __forceinline__ column_gradient<R>
gradient_at(const uf_norm_call<T> &call, const uf_norm_statistic<R> &of, int64_t e, int64_t p) {
    column_gradient<R> made;
    const R weight = (R)uf_norm_weight(call, p);
    made.hat = uf_norm_hat(of, (R)uf_load<T, 1>(call.x + e).get(0));
    made.h = uf_norm_gradient<T, R>(call, made.hat, weight, (R)uf_norm_bias(call, p),
                                    uf_load<T, 1>(call.g + e).get(0)) *
             weight;
    return made;
}

template <typename T, typename R>
static __global__ void __launch_bounds__(LANES *WARPS, 3)
    norm_columns_backward(uf_norm_call<T> call, int64_t tiles) {
    uf_overlap_launches();
    __shared__ double2 shared[WARPS][LANES + 1];
    typedef typename uf_norm_call<T>::param param;
    const column me = column_of(call, tiles);
    const int64_t size = call.layout.size, inner = call.layout.inner;
    const int64_t statistic = me.o * inner + me.i;
    const int64_t base = me.o % call.layout.groups * call.params;
    const uf_norm_statistic<R> of = uf_norm_statistic_of<R>(
        me.works ? call.mean[statistic] : 0.0, me.works ? call.invstd[statistic] : 0.0);
    const auto at = [&](int64_t s) {
        return gradient_at<T, R>(call, of, me.first + s * inner, base + s);
    };
    const double2 sums = column_sums<R>(size, me.works, shared, [&](int64_t s, R *parts) {
        const column_gradient<R> made = at(s);
        parts[0] += made.h;
        parts[1] += made.h * made.hat;
    });
    const R mean_h = (R)(sums.x / (double)size), mean_dot = (R)(sums.y / (double)size);
    /* grad_input may be grad_output's memory: each element is read and written by one thread. */
    for (int64_t s = threadIdx.x / LANES; me.works && s < size; s += WARPS) {
        const column_gradient<R> made = at(s);
        T *const to = call.to + me.first + s * inner;
        const param value = (param)(of.invstd * (made.h - mean_h - made.hat * mean_dot));
        *to = (T)(call.accumulate ? uf_load<T, 1>(to).get(0) + value : value);
    }
}

template <typename T, typename R>
static uf_status run(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    const int64_t tiles = uf_div_up(args->layout.inner, LANES);
    uf_norm_call<T> call = uf_norm_call_of<T>(args);
    call.to = static_cast<T *>(backward ? args->grad_input.data : args->output.data);
    call.accumulate = backward && args->grad_input_mode == UF_ACCUMULATE;
    void (*const kernel)(uf_norm_call<T>, int64_t) =
        backward ? norm_columns_backward<T, R> : norm_columns_forward<T, R>;
    return uf_cuda_launch(context, backward ? "norm_columns_backward" : "norm_columns_forward",
                          {dim3((unsigned)(args->layout.outer * tiles)), LANES * WARPS}, kernel,
                          call, tiles);
}

uf_status uf_norm_columns_run(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    if (args->layout.size <= UF_NORM_EXACT) {
        UF_NORM_DISPATCH(args->input.dtype, return (run<T, double>(context, args, backward)));
    }
    UF_NORM_DISPATCH(args->input.dtype,
                     return (run<T, typename uf_norm_call<T>::param>(context, args, backward)));
}
