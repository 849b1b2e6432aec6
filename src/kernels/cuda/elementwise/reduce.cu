/* reduce.cu - channel_sum and the losses: f64 sums over pieces, which a second launch adds in a
 * fixed order. Pieces and the elements of a thread are functions of the shape alone; where tensors
 * are aligned, a thread moves 16 bytes at a time. Bound by memory. */
#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/elementwise/channel.cuh"

#define FN(name) uf_##name
#define UF_INLINE static __device__ __forceinline__
#define REAL float
#define MATH(name) name##f
#include "kernels/loss_math.inc"
#undef REAL
#undef MATH
#define REAL double
#define MATH(name) name
#include "kernels/loss_math.inc"
#undef REAL
#undef MATH
#undef UF_INLINE
#undef FN

enum {
    LEAST_PIECE = 2048, /* elements of a loss that one block adds at least, */
    MOST_PIECES = 2048  /* as long as there are not more blocks than one can add the sums of */
};

static int64_t loss_piece(int64_t count) {
    int64_t piece = LEAST_PIECE;
    while (uf_div_up(count, piece) > MOST_PIECES) {
        piece *= 2;
    }
    return piece;
}

/* partial is [channel][piece]; each block has one piece of one channel or of several. */
template <typename T, int WIDTH, bool WHOLE>
static __global__ void __launch_bounds__(UF_CHANNEL_BLOCK)
    channel_sum_pieces(uf_channel_plan plan, uf_planes<T> input, double *partial,
                       int64_t channels) {
    uf_overlap_launches();
    __shared__ double2 shared[UF_CHANNEL_BLOCK];
    enum { KEPT = WHOLE ? 4 : 1 };
    const uf_channel_thread me = uf_channel_thread_of(plan, channels, blockIdx.x);
    const uf_channel_walk walk = uf_channel_begin(plan, me, me.piece);
    T *plane = uf_plane_of(input, me, walk);
    int64_t p = walk.p;
    double2 sum = {0.0, 0.0};
#pragma unroll 1
    for (int32_t left = walk.left; left > 0; left -= KEPT) {
        uf_pack<T, WIDTH> x[KEPT];
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            if (k < left) {
                x[k] = uf_load_vector<WIDTH, WHOLE>(input, plane, p);
            }
            plane = uf_next_plane(input, plane, uf_channel_step(&plan, &p));
        }
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
#pragma unroll
            for (int j = 0; k < left && j < WIDTH; ++j) {
                sum.x += (double)x[k].get(j);
            }
        }
    }
    sum = uf_channel_sum2(plan, me, sum, shared);
    if (me.works && me.member == 0) {
        partial[me.channel * plan.pieces + me.piece] = sum.x;
    }
}

/* One block per output element adds its partial sums; output = factor * sum. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    sum_pieces(const double *partial, int64_t pieces, double factor, uf_cuda_view<T> output,
               bool accumulate) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const double *const own = partial + (int64_t)blockIdx.x * pieces;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < pieces; i += UF_BLOCK) {
        sum += own[i];
    }
    sum = factor * uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        T *const to = output.data + (int64_t)blockIdx.x * output.stride[1];
        *to = (T)(accumulate ? (double)*to + sum : sum);
    }
}

/* Not inlined: each element of a vector would have a copy of every loss. */
template <typename R>
static __device__ __noinline__ R loss_value(uf_loss_kind kind, R x, R t) {
    return uf_loss_value(kind, x, t);
}

template <typename R>
static __device__ __noinline__ R loss_slope(uf_loss_kind kind, R x, R t) {
    return uf_loss_derivative(kind, x, t);
}

/* The WIDTH elements from `at` on; those from `count` on are 0. */
template <typename T, int WIDTH, bool ALIGNED>
static __device__ __forceinline__ uf_pack<T, WIDTH> load_some(const T *from, int64_t at,
                                                              int64_t count) {
    typedef typename uf_arithmetic<T>::type R;
    if (ALIGNED && at + WIDTH <= count) {
        return uf_load<T, WIDTH>(from + at);
    }
    uf_pack<T, WIDTH> made;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        made.set(j, at + j < count ? (R)from[at + j] : (R)0);
    }
    return made;
}

template <typename T, int WIDTH, bool ALIGNED>
static __device__ __forceinline__ void store_some(T *to, int64_t at, int64_t count,
                                                  const uf_pack<T, WIDTH> &pack) {
    if (ALIGNED && at + WIDTH <= count) {
        uf_store(to + at, pack);
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        if (at + j < count) {
            to[at + j] = (T)pack.get(j);
        }
    }
}

/* Vectors are the same elements whether they are aligned or not: so is the order of the sum. */
template <typename T, int WIDTH, bool ALIGNED>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_pieces(uf_loss_kind kind, const T *input, const T *target, double *partial, int64_t piece,
                int64_t count) {
    uf_overlap_launches();
    __shared__ double shared[32];
    typedef typename uf_arithmetic<T>::type R;
    const int64_t begin = (int64_t)blockIdx.x * piece;
    const int64_t end = count - begin < piece ? count : begin + piece;
    double sum = 0;
    for (int64_t i = begin + (int64_t)threadIdx.x * WIDTH; i < end; i += UF_BLOCK * WIDTH) {
        const uf_pack<T, WIDTH> x = load_some<T, WIDTH, ALIGNED>(input, i, end);
        const uf_pack<T, WIDTH> t = load_some<T, WIDTH, ALIGNED>(target, i, end);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            if (i + j < end) {
                sum += (double)loss_value(kind, (R)x.get(j), (R)t.get(j));
            }
        }
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

template <typename T, int WIDTH, bool ALIGNED>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_gradient(uf_loss_kind kind, const T *input, const T *target,
                  const typename uf_arithmetic<T>::type *grad_output, T *grad_input, int64_t count,
                  bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    const R factor = *grad_output / (R)count;
    UF_EACH(int64_t, v, (count + WIDTH - 1) / WIDTH) {
        const int64_t i = v * WIDTH;
        const uf_pack<T, WIDTH> x = load_some<T, WIDTH, ALIGNED>(input, i, count);
        const uf_pack<T, WIDTH> t = load_some<T, WIDTH, ALIGNED>(target, i, count);
        uf_pack<T, WIDTH> made;
        if (accumulate) {
            made = load_some<T, WIDTH, ALIGNED>(grad_input, i, count);
        }
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            made.set(j, uf_product(accumulate, (R)made.get(j), factor,
                                   loss_slope(kind, (R)x.get(j), (R)t.get(j))));
        }
        store_some<T, WIDTH, ALIGNED>(grad_input, i, count, made);
    }
}

static uf_status needs_workspace(const char *kernel, size_t given, size_t needed) {
    if (given < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s was given %zu bytes of workspace and needs %zu", kernel,
                given, needed);
    }
    return UF_OK;
}

/* Partial sums of a channel; 0 where it has no element. */
static int64_t channel_pieces(const uf_view &input) {
    return uf_view_count(&input) == 0
               ? 0
               : uf_channel_plan_of(input.extent, uf_dtype_size(input.dtype)).pieces;
}

extern "C" size_t uf_cuda_channel_sum_workspace(uf_context *context,
                                                const uf_channel_sum_kernel_args *args) {
    (void)context;
    return (size_t)(channel_pieces(args->input) * args->input.extent[1]) * sizeof(double);
}

template <typename T>
static uf_status sum_channel_pieces(uf_context *context, const uf_channel_sum_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    const uf_channel_plan plan = uf_channel_plan_of(args->input.extent, sizeof(T));
    const uf_planes<T> input = uf_planes_of<T>(args->input, plan);
    const auto kernel = plan.width == 1 ? channel_sum_pieces<T, 1, false>
                        : input.whole   ? channel_sum_pieces<T, WIDTH, true>
                                        : channel_sum_pieces<T, WIDTH, false>;
    return uf_cuda_launch(context, "channel_sum_pieces",
                          {dim3((unsigned)(plan.groups * plan.pieces)), UF_CHANNEL_BLOCK}, kernel,
                          plan, input, (double *)args->workspace, args->input.extent[1]);
}

extern "C" uf_status uf_cuda_channel_sum(uf_context *context,
                                         const uf_channel_sum_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("channel_sum", args->input.dtype));
    UF_TRY(needs_workspace("channel_sum", args->workspace_size,
                           uf_cuda_channel_sum_workspace(context, args)));
    const int64_t pieces = channel_pieces(args->input);
    const int64_t channels = args->input.extent[1];
    if (channels == 0) {
        return UF_OK;
    }
    if (pieces > 0) {
        UF_DISPATCH_STORED_TYPE(args->input.dtype, UF_TRY(sum_channel_pieces<T>(context, args)));
    }
    const bool accumulate = args->mode == UF_ACCUMULATE;
    UF_DISPATCH_STORED_TYPE(
        args->output.dtype,
        return uf_cuda_launch(context, "channel_sum", {dim3((unsigned)channels), UF_BLOCK},
                              sum_pieces<T>, (const double *)args->workspace, pieces, 1.0,
                              uf_cuda_view_of<T>(args->output), accumulate));
}

extern "C" size_t uf_cuda_loss_workspace(uf_context *context, const uf_loss_kernel_args *args) {
    (void)context;
    const int64_t count = uf_view_count(&args->input);
    return (size_t)uf_div_up(count, loss_piece(count)) * sizeof(double);
}

template <typename T>
static uf_status loss_forward_as(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    const int64_t piece = loss_piece(count);
    const int64_t pieces = uf_div_up(count, piece);
    enum { WIDTH = uf_vector<T>::COUNT };
    const bool aligned =
        uf_is_aligned<T, WIDTH>(args->input.data) && uf_is_aligned<T, WIDTH>(args->target.data);
    const auto kernel = aligned ? loss_pieces<T, WIDTH, true> : loss_pieces<T, WIDTH, false>;
    double *const partial = (double *)args->workspace;
    const cudaStream_t stream = uf_cuda_stream(context);
    if (pieces > 0) {
        UF_TRY(uf_cuda_launch(context, "loss_pieces", {dim3((unsigned)pieces), UF_BLOCK}, kernel,
                              args->kind, (const T *)args->input.data, (const T *)args->target.data,
                              partial, piece, count));
    }
    /* The mean over no element is 0/0, as in PyTorch. */
    typedef typename uf_arithmetic<T>::type R;
    return uf_cuda_launch(context, "loss_forward", {dim3(1), UF_BLOCK}, sum_pieces<R>, partial,
                          pieces, 1.0 / (double)count, uf_cuda_view_of<R>(args->output), false);
}

extern "C" uf_status uf_cuda_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_forward", args->input.dtype));
    UF_TRY(needs_workspace("loss_forward", args->workspace_size,
                           uf_cuda_loss_workspace(context, args)));
    return args->input.dtype == UF_F64    ? loss_forward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_forward_as<__nv_bfloat16>(context, args)
                                          : loss_forward_as<float>(context, args);
}

template <typename T>
static uf_status loss_backward_as(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    enum { WIDTH = uf_vector<T>::COUNT };
    const bool aligned = uf_is_aligned<T, WIDTH>(args->input.data) &&
                         uf_is_aligned<T, WIDTH>(args->target.data) &&
                         uf_is_aligned<T, WIDTH>(args->grad_input.data);
    const auto kernel = aligned ? loss_gradient<T, WIDTH, true> : loss_gradient<T, WIDTH, false>;
    return uf_cuda_launch(context, "loss_backward",
                          {dim3(uf_blocks(uf_div_up(count, WIDTH))), UF_BLOCK}, kernel, args->kind,
                          (const T *)args->input.data, (const T *)args->target.data,
                          (const typename uf_arithmetic<T>::type *)args->grad_output.data,
                          (T *)args->grad_input.data, count, args->mode == UF_ACCUMULATE);
}

extern "C" uf_status uf_cuda_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_backward", args->input.dtype));
    if (uf_view_count(&args->input) == 0) {
        return UF_OK;
    }
    return args->input.dtype == UF_F64    ? loss_backward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_backward_as<__nv_bfloat16>(context, args)
                                          : loss_backward_as<float>(context, args);
}
