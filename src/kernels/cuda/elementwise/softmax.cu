/* softmax.cu - softmax along an axis, and its gradient. LANES threads share a line: one where
 * neighbouring lines are neighbours in memory or lines are short, else a warp or a block. Forward
 * reads a line three times, mostly from caches: its maximum, its sum, its results. Sums are in f64,
 * lanes added in a fixed order. Bound by memory. */
#include "kernels/cuda/device/element.cuh"

enum {
    SHORT_LINE = 8,      /* up to it a thread does for a line */
    WARP_LINE = 1024,    /* up to it a warp does */
    MANY_LINES = 1 << 14 /* a thread each keeps a GPU busy */
};

struct largest {
    template <typename V>
    __device__ __forceinline__ V operator()(V a, V b) const {
        return a > b ? a : b;
    }
};

struct added {
    template <typename V>
    __device__ __forceinline__ V operator()(V a, V b) const {
        return a + b;
    }
};

/* All lanes' values, combined in a fixed order, in every lane. `shared` has UF_BLOCK / 32 elements
 * and is free again after the call. */
template <int LANES, typename V, typename C>
static __device__ __forceinline__ V share(V value, V *shared, C combine) {
    if constexpr (LANES >= 32) {
#pragma unroll
        for (int distance = 16; distance > 0; distance >>= 1) {
            value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
        }
    }
    if constexpr (LANES > 32) {
        if (threadIdx.x % 32 == 0) {
            shared[threadIdx.x / 32] = value;
        }
        __syncthreads();
        value = shared[0];
#pragma unroll
        for (int warp = 1; warp < UF_BLOCK / 32; ++warp) {
            value = combine(value, shared[warp]);
        }
        __syncthreads();
    }
    return value;
}

/* Where the first element of a line is. */
template <typename I>
static __device__ __forceinline__ I line_begin(I line, I extent, I inner) {
    const I outer = line / inner;
    return outer * extent * inner + (line - outer * inner);
}

template <typename T, typename I, int LANES>
static __global__ void __launch_bounds__(UF_BLOCK)
    softmax_forward(const T *input, T *output, I extent, I inner, I lines) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    __shared__ R shared_most[UF_BLOCK / 32];
    __shared__ double shared_sum[UF_BLOCK / 32];
    const I lane = (I)threadIdx.x % LANES;
    const I step = (I)gridDim.x * (UF_BLOCK / LANES);
    for (I line = (I)blockIdx.x * (UF_BLOCK / LANES) + (I)threadIdx.x / LANES; line < lines;
         line += step) {
        const T *const from = input + line_begin(line, extent, inner);
        T *const to = output + line_begin(line, extent, inner);
        R most = (R)from[0];
        double sum = 0;
        for (I s = lane; s < extent; s += LANES) {
            const R x = (R)from[s * inner];
            most = x > most ? x : most;
        }
        most = share<LANES>(most, shared_most, largest());
        for (I s = lane; s < extent; s += LANES) {
            sum += (double)exp((R)from[s * inner] - most);
        }
        sum = share<LANES>(sum, shared_sum, added());
        for (I s = lane; s < extent; s += LANES) {
            to[s * inner] = (T)(exp((R)from[s * inner] - most) / (R)sum);
        }
    }
}

template <typename T, typename I, int LANES>
static __global__ void __launch_bounds__(UF_BLOCK)
    softmax_backward(const T *output, const T *grad_output, T *grad_input, I extent, I inner,
                     I lines, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    __shared__ double shared[UF_BLOCK / 32];
    const I lane = (I)threadIdx.x % LANES;
    const I step = (I)gridDim.x * (UF_BLOCK / LANES);
    for (I line = (I)blockIdx.x * (UF_BLOCK / LANES) + (I)threadIdx.x / LANES; line < lines;
         line += step) {
        const I begin = line_begin(line, extent, inner);
        double sum = 0;
        for (I s = lane; s < extent; s += LANES) {
            const I at = begin + s * inner;
            sum += (double)(R)output[at] * (double)(R)grad_output[at];
        }
        sum = share<LANES>(sum, shared, added());
        for (I s = lane; s < extent; s += LANES) {
            const I at = begin + s * inner;
            const R value = (R)output[at] * (R)((double)(R)grad_output[at] - sum);
            grad_input[at] = (T)(accumulate ? (R)grad_input[at] + value : value);
        }
    }
}

static int lanes_of(const uf_softmax_kernel_args *args) {
    const bool neighbours = args->inner > 1 && args->outer * args->inner >= MANY_LINES;
    return args->extent <= SHORT_LINE || neighbours ? 1 : args->extent <= WARP_LINE ? 32 : UF_BLOCK;
}

template <typename T, typename I, int LANES>
static uf_status launch(uf_context *context, const uf_softmax_kernel_args *args, bool backward) {
    const int64_t lines = args->outer * args->inner;
    const uf_launch how = {dim3(uf_blocks(lines * LANES)), UF_BLOCK};
    if (backward) {
        return uf_cuda_launch(context, "softmax_backward", how, softmax_backward<T, I, LANES>,
                              (const T *)args->output.data, (const T *)args->grad_output.data,
                              (T *)args->grad_input.data, (I)args->extent, (I)args->inner, (I)lines,
                              args->mode == UF_ACCUMULATE);
    }
    return uf_cuda_launch(context, "softmax_forward", how, softmax_forward<T, I, LANES>,
                          (const T *)args->input.data, (T *)args->output.data, (I)args->extent,
                          (I)args->inner, (I)lines);
}

template <typename T, typename I>
static uf_status launch_lanes(uf_context *context, const uf_softmax_kernel_args *args,
                              bool backward) {
    const int lanes = lanes_of(args);
    return lanes == 1    ? launch<T, I, 1>(context, args, backward)
           : lanes == 32 ? launch<T, I, 32>(context, args, backward)
                         : launch<T, I, UF_BLOCK>(context, args, backward);
}

static uf_status run(uf_context *context, const uf_softmax_kernel_args *args, bool backward) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_softmax_check(args, backward));
    UF_DISPATCH_STORED(args->output.dtype, uf_view_count(&args->output),
                       return (launch_lanes<T, I>(context, args, backward)));
}

extern "C" uf_status uf_cuda_softmax_forward(uf_context *context,
                                             const uf_softmax_kernel_args *args) {
    return run(context, args, false);
}

extern "C" uf_status uf_cuda_softmax_backward(uf_context *context,
                                              const uf_softmax_kernel_args *args) {
    return run(context, args, true);
}
