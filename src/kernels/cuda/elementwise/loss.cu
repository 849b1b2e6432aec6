/* loss.cu - the losses of losses.def: elementwise, or f64 sums over pieces. Pieces and the elements
 * of a thread are functions of the shape alone; where tensors are aligned, a thread moves 16 bytes
 * at a time. Bound by memory. */
#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/elementwise/sum.cuh"

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

static int64_t pieces_of(int64_t count) {
    return uf_div_up(count, loss_piece(count));
}

/* Not inlined: each element of a vector would have a copy of every loss. */
template <typename R>
static __device__ __noinline__ R loss_value(uf_loss_kind kind, R x, R t, R beta) {
    return uf_loss_value(kind, x, t, beta);
}

/* By x, or by t (OTHER). */
template <bool OTHER, typename R>
static __device__ __noinline__ R loss_slope(uf_loss_kind kind, R x, R t, R beta) {
    return OTHER ? uf_loss_other_derivative(kind, x, t, beta)
                 : uf_loss_derivative(kind, x, t, beta);
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

/* Vectors are the same elements whether they are aligned or not: so is the order of the sum. A
 * block that is alone writes factor * sum to `whole`. */
template <typename T, int WIDTH, bool ALIGNED>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_pieces(uf_loss_kind kind, const T *input, const T *target, double beta, double *partial,
                int64_t piece, int64_t count, double factor,
                typename uf_arithmetic<T>::type *whole) {
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
                sum += (double)loss_value(kind, (R)x.get(j), (R)t.get(j), (R)beta);
            }
        }
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0 && gridDim.x == 1) {
        *whole = (R)(factor * sum);
    } else if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_elements(uf_loss_kind kind, const T *input, const T *target, double beta,
                  typename uf_arithmetic<T>::type *output, int64_t count) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    UF_EACH(int64_t, i, count) {
        output[i] = uf_loss_value(kind, (R)input[i], (R)target[i], (R)beta);
    }
}

/* The gradient by the input, or by the target (OTHER). `step` is 0 where one element of grad_output
 * stands for all. */
template <typename T, bool OTHER, int WIDTH, bool ALIGNED>
static __global__ void __launch_bounds__(UF_BLOCK)
    loss_gradient(uf_loss_kind kind, const T *input, const T *target, double beta,
                  const typename uf_arithmetic<T>::type *grad_output, int64_t step, int64_t divisor,
                  T *gradient, int64_t count, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    UF_EACH(int64_t, v, (count + WIDTH - 1) / WIDTH) {
        const int64_t i = v * WIDTH;
        const uf_pack<T, WIDTH> x = load_some<T, WIDTH, ALIGNED>(input, i, count);
        const uf_pack<T, WIDTH> t = load_some<T, WIDTH, ALIGNED>(target, i, count);
        R factor = grad_output[i * step] / (R)divisor;
        uf_pack<T, WIDTH> made;
        if (accumulate) {
            made = load_some<T, WIDTH, ALIGNED>(gradient, i, count);
        }
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            if (step != 0 && i + j < count) {
                factor = grad_output[(i + j) * step] / (R)divisor;
            }
            made.set(j, uf_product(accumulate, (R)made.get(j), factor,
                                   loss_slope<OTHER>(kind, (R)x.get(j), (R)t.get(j), (R)beta)));
        }
        store_some<T, WIDTH, ALIGNED>(gradient, i, count, made);
    }
}

extern "C" size_t uf_cuda_loss_workspace(uf_context *context, const uf_loss_kernel_args *args) {
    (void)context;
    return args->reduction == UF_REDUCTION_NONE
               ? 0
               : (size_t)pieces_of(uf_view_count(&args->input)) * sizeof(double);
}

/* The second operand, or the first one for a kind that reads none. */
static const void *second_of(const uf_loss_kernel_args *args) {
    return args->target.data != NULL ? args->target.data : args->input.data;
}

template <typename T>
static uf_status loss_forward_as(uf_context *context, const uf_loss_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const int64_t count = uf_view_count(&args->input);
    const int64_t piece = loss_piece(count);
    const int64_t pieces = pieces_of(count);
    enum { WIDTH = uf_vector<T>::COUNT };
    const T *const input = (const T *)args->input.data;
    const T *const target = (const T *)second_of(args);
    double *const partial = (double *)args->workspace;
    if (args->reduction == UF_REDUCTION_NONE) {
        if (count == 0) {
            return UF_OK;
        }
        return uf_cuda_launch(context, "loss_elements", {dim3(uf_blocks(count)), UF_BLOCK},
                              loss_elements<T>, args->kind, input, target, args->beta,
                              (R *)args->output.data, count);
    }
    /* The mean over no element is 0/0, as in PyTorch. */
    const double factor = 1.0 / (double)uf_loss_divisor(args);
    if (pieces > 0) {
        const bool aligned = uf_is_aligned<T, WIDTH>(input) && uf_is_aligned<T, WIDTH>(target);
        UF_TRY(uf_cuda_launch(context, "loss_pieces", {dim3((unsigned)pieces), UF_BLOCK},
                              aligned ? loss_pieces<T, WIDTH, true> : loss_pieces<T, WIDTH, false>,
                              args->kind, input, target, args->beta, partial, piece, count, factor,
                              (R *)args->output.data));
    }
    return pieces == 1
               ? UF_OK
               : uf_cuda_launch(context, "loss_forward", {dim3(1), UF_BLOCK}, uf_sum_pieces<R>,
                                partial, pieces, factor, uf_cuda_view_of<R>(args->output), false);
}

extern "C" uf_status uf_cuda_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_forward", args->input.dtype));
    UF_TRY(
        uf_sum_needs("loss_forward", args->workspace_size, uf_cuda_loss_workspace(context, args)));
    return args->input.dtype == UF_F64    ? loss_forward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_forward_as<uf_bf16>(context, args)
                                          : loss_forward_as<float>(context, args);
}

template <typename T, bool OTHER>
static uf_status loss_gradient_as(uf_context *context, const uf_loss_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const int64_t count = uf_view_count(&args->input);
    const uf_view *const gradient = OTHER ? &args->grad_target : &args->grad_input;
    const uf_write_mode mode = OTHER ? args->grad_target_mode : args->mode;
    enum { WIDTH = uf_vector<T>::COUNT };
    const bool aligned = uf_is_aligned<T, WIDTH>(args->input.data) &&
                         uf_is_aligned<T, WIDTH>(second_of(args)) &&
                         uf_is_aligned<T, WIDTH>(gradient->data);
    return uf_cuda_launch(
        context, "loss_backward", {dim3(uf_blocks(uf_div_up(count, WIDTH))), UF_BLOCK},
        aligned ? loss_gradient<T, OTHER, WIDTH, true> : loss_gradient<T, OTHER, WIDTH, false>,
        args->kind, (const T *)args->input.data, (const T *)second_of(args), args->beta,
        (const R *)args->grad_output.data, args->reduction == UF_REDUCTION_NONE ? 1 : 0,
        uf_loss_divisor(args), (T *)gradient->data, count, mode == UF_ACCUMULATE);
}

template <typename T>
static uf_status loss_backward_as(uf_context *context, const uf_loss_kernel_args *args) {
    if (args->grad_input.data != NULL) {
        UF_TRY((loss_gradient_as<T, false>(context, args)));
    }
    return args->grad_target.data != NULL ? loss_gradient_as<T, true>(context, args) : UF_OK;
}

extern "C" uf_status uf_cuda_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("loss_backward", args->input.dtype));
    if (uf_view_count(&args->input) == 0) {
        return UF_OK;
    }
    return args->input.dtype == UF_F64    ? loss_backward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? loss_backward_as<uf_bf16>(context, args)
                                          : loss_backward_as<float>(context, args);
}
