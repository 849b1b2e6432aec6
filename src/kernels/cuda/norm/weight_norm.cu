/* weight_norm.cu - weights made of other parameters: weight norm in one launch in either direction,
 * a block for each row; spectral norm in a launch for each product and norm. Sums are in f64, each
 * by one block or one thread in a fixed order. Bound by memory, and by launches where weights are
 * small. */
#include "kernels/cuda/device/element.cuh"

/* Element `i` of row `r`, of a row's columns. */
static __device__ __forceinline__ int64_t element_of(const uf_weight_matrix &matrix, int64_t r,
                                                     int64_t i) {
    if (matrix.outer == 1) {
        return r * matrix.inner + i; /* spares a division */
    }
    const int64_t o = i / matrix.inner;
    return (o * matrix.rows + r) * matrix.inner + (i - o * matrix.inner);
}

/* Grid: a block for each row. */
template <typename T, typename S>
static __global__ void __launch_bounds__(UF_BLOCK)
    weight_norm_rows(uf_weight_matrix matrix, const T *v, const T *g, double *norms, S *output) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const int64_t r = blockIdx.x;
    const int64_t columns = matrix.outer * matrix.inner;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        const double value = (double)v[element_of(matrix, r, i)];
        sum += value * value;
    }
    const double norm = sqrt(uf_block_sum(sum, shared));
    const double factor = (double)g[r] / norm;
    if (threadIdx.x == 0) {
        norms[r] = norm;
    }
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        const int64_t at = element_of(matrix, r, i);
        output[at] = (S)(T)((double)v[at] * factor);
    }
}

template <typename T, typename S>
static __global__ void __launch_bounds__(UF_BLOCK)
    weight_norm_gradients(uf_weight_matrix matrix, const T *v, const T *g, const double *norms,
                          const S *grad_output, T *grad_v, bool add_v, T *grad_g, bool add_g) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const int64_t r = blockIdx.x;
    const int64_t columns = matrix.outer * matrix.inner;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        const int64_t at = element_of(matrix, r, i);
        sum += (double)(T)grad_output[at] * (double)v[at];
    }
    const double dot = uf_block_sum(sum, shared);
    const double norm = norms[r];
    if (threadIdx.x == 0 && grad_g != nullptr) {
        grad_g[r] = (T)((add_g ? (double)grad_g[r] : 0.0) + dot / norm);
    }
    if (grad_v == nullptr) {
        return;
    }
    const double factor = (double)g[r] / norm;
    const double along = dot / (norm * norm);
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        const int64_t at = element_of(matrix, r, i);
        const double across = (double)(T)grad_output[at] - (double)v[at] * along;
        grad_v[at] = (T)((add_v ? (double)grad_v[at] : 0.0) + factor * across);
    }
}

enum { LANES = 32, GROUPS = UF_BLOCK / LANES };

/* sums = W^T u: a block for each 32 columns. A warp takes every eighth row; their sums are added in
 * the order of the warps. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_columns(uf_weight_matrix matrix, const T *weight, const T *u, double *sums) {
    uf_overlap_launches();
    __shared__ double parts[GROUPS][LANES];
    const int64_t columns = matrix.outer * matrix.inner;
    const int lane = (int)threadIdx.x % LANES;
    const int group = (int)threadIdx.x / LANES;
    const int64_t i = (int64_t)blockIdx.x * LANES + lane;
    double sum = 0;
    if (i < columns) {
        const T *const column = weight + element_of(matrix, 0, i);
        for (int64_t r = group; r < matrix.rows; r += GROUPS) {
            sum += (double)column[r * matrix.inner] * (double)u[r];
        }
    }
    parts[group][lane] = sum;
    __syncthreads();
    if (group == 0 && i < columns) {
        double total = 0;
        for (int g = 0; g < GROUPS; ++g) {
            total += parts[g][lane];
        }
        sums[i] = total;
    }
}

/* sums = W v: a block for each row. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_rows(uf_weight_matrix matrix, const T *weight, const double *v, double *sums) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const int64_t r = blockIdx.x;
    const int64_t columns = matrix.outer * matrix.inner;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        sum += (double)weight[element_of(matrix, r, i)] * v[i];
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        sums[r] = sum;
    }
}

/* One block. In training the buffer becomes sums / max(|sums|, eps); the sums become the buffer.
 * *sigma, where it is wanted, is the new buffer times the old sums. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_normalize(int64_t count, bool training, double eps, T *buffer, double *sums,
                       double *sigma) {
    uf_overlap_launches();
    __shared__ double shared[32];
    double norm = 1;
    if (training) {
        double square = 0;
        for (int64_t i = threadIdx.x; i < count; i += UF_BLOCK) {
            square += sums[i] * sums[i];
        }
        norm = sqrt(uf_block_sum(square, shared));
        norm = norm < eps ? eps : norm; /* NaN stays */
    }
    double product = 0;
    for (int64_t i = threadIdx.x; i < count; i += UF_BLOCK) {
        const double sum = training || sigma != nullptr ? sums[i] : 0;
        const T value = training ? (T)(sum / norm) : buffer[i];
        product += (double)value * sum;
        buffer[i] = value;
        sums[i] = (double)value;
    }
    product = uf_block_sum(product, shared);
    if (threadIdx.x == 0 && sigma != nullptr) {
        *sigma = product;
    }
}

template <typename T, typename S>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_scale(int64_t count, const T *weight, const double *sigma, S *output) {
    uf_overlap_launches();
    const double divisor = *sigma;
    UF_EACH(int64_t, i, count) {
        output[i] = (S)(T)((double)weight[i] / divisor);
    }
}

/* dots[r] = the sum over row r of grad_output * weight: a block for each row. */
template <typename T, typename S>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_dots(uf_weight_matrix matrix, const T *weight, const S *grad_output, double *dots) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const int64_t r = blockIdx.x;
    const int64_t columns = matrix.outer * matrix.inner;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += UF_BLOCK) {
        const int64_t at = element_of(matrix, r, i);
        sum += (double)(T)grad_output[at] * (double)weight[at];
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        dots[r] = sum;
    }
}

/* dots[count] = the sum of dots: one block. */
static __global__ void __launch_bounds__(UF_BLOCK) spectral_total(int64_t count, double *dots) {
    uf_overlap_launches();
    __shared__ double shared[32];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += UF_BLOCK) {
        sum += dots[i];
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        dots[count] = sum;
    }
}

/* `saved` is u, v, sigma. */
template <typename T, typename S>
static __global__ void __launch_bounds__(UF_BLOCK)
    spectral_gradient(uf_weight_matrix matrix, const double *saved, const double *total,
                      const S *grad_output, T *grad_weight, bool accumulate) {
    uf_overlap_launches();
    const int64_t columns = matrix.outer * matrix.inner;
    const double *const v = saved + matrix.rows;
    const double sigma = v[columns];
    const double along = *total / sigma;
    UF_EACH(int64_t, at, columns * matrix.rows) {
        const int64_t line = at / matrix.inner;
        const int64_t o = line / matrix.rows;
        const int64_t r = line - o * matrix.rows;
        const int64_t i = o * matrix.inner + (at - line * matrix.inner);
        const double across = (double)(T)grad_output[at] - along * saved[r] * v[i];
        grad_weight[at] = (T)((accumulate ? (double)grad_weight[at] : 0.0) + across / sigma);
    }
}

/* Run `statement` with T bound to the parameters' type and S to that of the values beside them. */
#define DISPATCH(values, ...)                                                                      \
    do {                                                                                           \
        if ((values) == UF_F64) {                                                                  \
            typedef double T;                                                                      \
            typedef double S;                                                                      \
            __VA_ARGS__;                                                                           \
        } else if ((values) == UF_BF16) {                                                          \
            typedef float T;                                                                       \
            typedef uf_bf16 S;                                                                     \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            typedef float S;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

extern "C" uf_status uf_cuda_weight_norm_forward(uf_context *context,
                                                 const uf_weight_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("weight_norm_forward", args->output.dtype));
    DISPATCH(args->output.dtype,
             return uf_cuda_launch(
                 context, "weight_norm_forward", {dim3((unsigned)args->matrix.rows), UF_BLOCK},
                 weight_norm_rows<T, S>, args->matrix, (const T *)args->v.data,
                 (const T *)args->g.data, (double *)args->norms.data, (S *)args->output.data));
}

extern "C" uf_status uf_cuda_weight_norm_backward(uf_context *context,
                                                  const uf_weight_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("weight_norm_backward", args->grad_output.dtype));
    DISPATCH(args->grad_output.dtype,
             return uf_cuda_launch(
                 context, "weight_norm_backward", {dim3((unsigned)args->matrix.rows), UF_BLOCK},
                 weight_norm_gradients<T, S>, args->matrix, (const T *)args->v.data,
                 (const T *)args->g.data, (const double *)args->norms.data,
                 (const S *)args->grad_output.data, (T *)args->grad_v.data,
                 args->grad_v_mode == UF_ACCUMULATE, (T *)args->grad_g.data,
                 args->grad_g_mode == UF_ACCUMULATE));
}

template <typename T, typename S>
static uf_status spectral_forward_as(uf_context *context,
                                     const uf_spectral_norm_kernel_args *args) {
    const uf_weight_matrix matrix = args->matrix;
    const int64_t columns = uf_weight_columns(&matrix);
    const int64_t count = columns * matrix.rows;
    const T *const weight = (const T *)args->weight.data;
    double *const u = (double *)args->saved.data;
    double *const v = u + matrix.rows;
    double *const sigma = v + columns;
    if (args->training) {
        UF_TRY(uf_cuda_launch(context, "spectral_columns",
                              {dim3((unsigned)((columns + LANES - 1) / LANES)), UF_BLOCK},
                              spectral_columns<T>, matrix, weight, (const T *)args->u.data, v));
    }
    UF_TRY(uf_cuda_launch(context, "spectral_normalize", {dim3(1), UF_BLOCK}, spectral_normalize<T>,
                          columns, args->training, args->eps, (T *)args->v.data, v, nullptr));
    UF_TRY(uf_cuda_launch(context, "spectral_rows", {dim3((unsigned)matrix.rows), UF_BLOCK},
                          spectral_rows<T>, matrix, weight, v, u));
    UF_TRY(uf_cuda_launch(context, "spectral_normalize", {dim3(1), UF_BLOCK}, spectral_normalize<T>,
                          matrix.rows, args->training, args->eps, (T *)args->u.data, u, sigma));
    return uf_cuda_launch(context, "spectral_norm_forward", {dim3(uf_blocks(count)), UF_BLOCK},
                          spectral_scale<T, S>, count, weight, sigma, (S *)args->output.data);
}

extern "C" uf_status uf_cuda_spectral_norm_forward(uf_context *context,
                                                   const uf_spectral_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("spectral_norm_forward", args->output.dtype));
    uf_status status;
    DISPATCH(args->output.dtype, status = (spectral_forward_as<T, S>(context, args)));
    return status;
}

template <typename T, typename S>
static uf_status spectral_backward_as(uf_context *context,
                                      const uf_spectral_norm_kernel_args *args) {
    const uf_weight_matrix matrix = args->matrix;
    const int64_t count = uf_weight_columns(&matrix) * matrix.rows;
    double *const dots = (double *)args->workspace;
    UF_TRY(uf_cuda_launch(context, "spectral_dots", {dim3((unsigned)matrix.rows), UF_BLOCK},
                          spectral_dots<T, S>, matrix, (const T *)args->weight.data,
                          (const S *)args->grad_output.data, dots));
    UF_TRY(uf_cuda_launch(context, "spectral_total", {dim3(1), UF_BLOCK}, spectral_total,
                          matrix.rows, dots));
    return uf_cuda_launch(context, "spectral_norm_backward", {dim3(uf_blocks(count)), UF_BLOCK},
                          spectral_gradient<T, S>, matrix, (const double *)args->saved.data,
                          dots + matrix.rows, (const S *)args->grad_output.data,
                          (T *)args->grad_weight.data, args->mode == UF_ACCUMULATE);
}

extern "C" uf_status uf_cuda_spectral_norm_backward(uf_context *context,
                                                    const uf_spectral_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("spectral_norm_backward", args->grad_output.dtype));
    uf_status status;
    DISPATCH(args->grad_output.dtype, status = (spectral_backward_as<T, S>(context, args)));
    return status;
}
