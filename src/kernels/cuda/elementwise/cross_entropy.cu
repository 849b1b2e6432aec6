/* cross_entropy.cu - cross-entropy of logits (outer, classes, inner) with class indices. A row is a
 * warp's where its logits lie side by side and are many, else a thread's: then neighbours read
 * neighbours. Sums are in f64. Bound by memory. */
#include "kernels/cuda/elementwise/sum.cuh"

static __device__ __forceinline__ float exponential(float x) {
    return expf(x);
}

static __device__ __forceinline__ double exponential(double x) {
    return exp(x);
}

/* The largest logit of a row whose LANES threads all get it, and the sum of exp(x - largest). */
template <typename T, int LANES>
static __device__ __forceinline__ typename uf_arithmetic<T>::type
row_sum(const T *x, int64_t classes, int64_t stride, int lane, double *sum) {
    typedef typename uf_arithmetic<T>::type R;
    R largest = (R)x[0];
    for (int64_t c = lane; c < classes; c += LANES) {
        const R value = (R)x[c * stride];
        largest = value > largest ? value : largest;
    }
    for (int step = LANES / 2; step > 0; step /= 2) {
        const R other = __shfl_xor_sync(0xffffffffu, largest, step);
        largest = other > largest ? other : largest;
    }
    double own = 0;
    for (int64_t c = lane; c < classes; c += LANES) {
        own += (double)exponential((R)x[c * stride] - largest);
    }
    for (int step = LANES / 2; step > 0; step /= 2) {
        own += __shfl_xor_sync(0xffffffffu, own, step);
    }
    *sum = own;
    return largest;
}

/* `output` has a place for each row, or is NULL; then `partial` gets the sum of each block's rows.
 */
template <typename T, int LANES>
static __global__ void __launch_bounds__(UF_BLOCK)
    cross_entropy_rows(const T *input, const int64_t *target, int64_t rows, int64_t classes,
                       int64_t inner, typename uf_arithmetic<T>::type *output, double *partial) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    __shared__ double shared[32];
    const int lane = (int)threadIdx.x % LANES;
    const int64_t row = (int64_t)blockIdx.x * (UF_BLOCK / LANES) + (int)threadIdx.x / LANES;
    double value = 0;
    if (row < rows) {
        const T *const x = input + row / inner * inner * classes + row % inner;
        const int64_t t = target[row];
        double sum;
        const R largest = row_sum<T, LANES>(x, classes, inner, lane, &sum);
        value = t >= 0 && t < classes ? (double)largest - (double)(R)x[t * inner] + log(sum)
                                      : (double)NAN;
        if (output != NULL && lane == 0) {
            output[row] = (R)value;
        }
    }
    if (partial != NULL) {
        const double sum = uf_block_sum(lane == 0 ? value : 0.0, shared);
        if (threadIdx.x == 0) {
            partial[blockIdx.x] = sum;
        }
    }
}

/* `step` is 0 where one element of grad_output stands for all rows. */
template <typename T, int LANES>
static __global__ void __launch_bounds__(UF_BLOCK)
    cross_entropy_gradient(const T *input, const int64_t *target, int64_t rows, int64_t classes,
                           int64_t inner, const typename uf_arithmetic<T>::type *grad_output,
                           int64_t step, int64_t divisor, T *grad_input, bool accumulate) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    const int lane = (int)threadIdx.x % LANES;
    const int64_t row = (int64_t)blockIdx.x * (UF_BLOCK / LANES) + (int)threadIdx.x / LANES;
    if (row >= rows) {
        return; /* a warp leaves as one where it shares a row */
    }
    const int64_t first = row / inner * inner * classes + row % inner;
    const T *const x = input + first;
    const int64_t t = target[row];
    double sum;
    const R largest = row_sum<T, LANES>(x, classes, inner, lane, &sum);
    const R inverse = (R)(1.0 / sum);
    const R scale = t >= 0 && t < classes ? grad_output[row * step] / (R)divisor : (R)NAN;
    for (int64_t c = lane; c < classes; c += LANES) {
        const int64_t i = c * inner;
        const R share = exponential((R)x[i] - largest) * inverse;
        const R grad = scale * (c == t ? share - (R)1 : share);
        T *const to = grad_input + first + i;
        *to = (T)(accumulate ? (R)*to + grad : grad);
    }
}

typedef struct row_plan {
    int64_t rows, divisor;
    bool warps; /* a warp a row */
    unsigned blocks;
} row_plan;

static row_plan plan_of(const uf_cross_entropy_kernel_args *args) {
    row_plan plan;
    plan.rows = args->outer * args->inner;
    plan.divisor = args->reduction == UF_REDUCTION_MEAN ? plan.rows : 1;
    plan.warps = args->inner == 1 && args->classes >= 32;
    const int64_t per_block = plan.warps ? UF_BLOCK / 32 : UF_BLOCK;
    plan.blocks = (unsigned)((plan.rows + per_block - 1) / per_block);
    return plan;
}

static_assert(UF_BLOCK / 32 >= UF_CROSS_ENTROPY_ROWS, "the workspace has a place for each block");

template <typename T>
static uf_status forward_as(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const row_plan plan = plan_of(args);
    const bool none = args->reduction == UF_REDUCTION_NONE;
    R *const output = none ? (R *)args->output.data : NULL;
    double *const partial = none ? NULL : (double *)args->workspace;
    if (plan.rows > 0) {
        const auto kernel = plan.warps ? cross_entropy_rows<T, 32> : cross_entropy_rows<T, 1>;
        UF_TRY((uf_cuda_launch(context, "cross_entropy_rows", {dim3(plan.blocks), UF_BLOCK}, kernel,
                               (const T *)args->input.data, (const int64_t *)args->target.data,
                               plan.rows, args->classes, args->inner, output, partial)));
    }
    if (none) {
        return UF_OK;
    }
    return uf_cuda_launch(context, "cross_entropy_forward", {dim3(1), UF_BLOCK}, uf_sum_pieces<R>,
                          partial, plan.blocks, 1.0 / (double)plan.divisor,
                          uf_cuda_view_of<R>(args->output), false);
}

extern "C" uf_status uf_cuda_cross_entropy_forward(uf_context *context,
                                                   const uf_cross_entropy_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("cross_entropy_forward", args->input.dtype));
    UF_TRY(uf_sum_needs("cross_entropy_forward", args->workspace_size,
                        uf_cross_entropy_workspace(args)));
    return args->input.dtype == UF_F64    ? forward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? forward_as<uf_bf16>(context, args)
                                          : forward_as<float>(context, args);
}

template <typename T>
static uf_status backward_as(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const row_plan plan = plan_of(args);
    const auto kernel = plan.warps ? cross_entropy_gradient<T, 32> : cross_entropy_gradient<T, 1>;
    return uf_cuda_launch(context, "cross_entropy_backward", {dim3(plan.blocks), UF_BLOCK}, kernel,
                          (const T *)args->input.data, (const int64_t *)args->target.data,
                          plan.rows, args->classes, args->inner, (const R *)args->grad_output.data,
                          args->reduction == UF_REDUCTION_NONE ? 1 : 0, plan.divisor,
                          (T *)args->grad_input.data, args->mode == UF_ACCUMULATE);
}

extern "C" uf_status uf_cuda_cross_entropy_backward(uf_context *context,
                                                    const uf_cross_entropy_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("cross_entropy_backward", args->input.dtype));
    if (args->outer * args->inner == 0) {
        return UF_OK;
    }
    return args->input.dtype == UF_F64    ? backward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? backward_as<uf_bf16>(context, args)
                                          : backward_as<float>(context, args);
}
