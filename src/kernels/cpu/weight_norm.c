/* weight_norm.c - weights made of other parameters, on the CPU. A unit is a row of the matrix, or a
 * piece of its columns; what is summed over units is added in their order. */
#include "kernels/kernels.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

enum { PIECE = 4096 /* columns of a unit */ };

typedef struct spectral_loop {
    const uf_spectral_norm_kernel_args *args;
    double *u, *v; /* saved */
    double sigma;
    double total; /* of grad_output * weight */
    double *dots; /* of each row */
} spectral_loop;

/* Element (o, r, i) of a weight. */
static int64_t at(const uf_weight_matrix *matrix, int64_t o, int64_t r) {
    return (o * matrix->rows + r) * matrix->inner;
}

static double norm_of(const double *values, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i] * values[i];
    }
    return sqrt(sum);
}

/* NaN stays. */
static double at_least(double norm, double eps) {
    return norm < eps ? eps : norm;
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/weight_norm.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/weight_norm.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/weight_norm.inc"
#include "kernels/cpu/real_end.inc"

/* Functions for one type of the values beside the parameters. */
typedef struct functions {
    uf_unit_function weight_norm_row, weight_norm_gradient;
    uf_unit_function columns, rows, scale, dot, gradient;
    void (*iterate_v)(spectral_loop *), (*iterate_u)(spectral_loop *);
} functions;

#define FUNCTIONS(type)                                                                            \
    {                                                                                              \
        weight_norm_row_##type, weight_norm_gradient_##type, spectral_columns_##type,              \
            spectral_row_##type, spectral_scale_##type, spectral_dot_##type,                       \
            spectral_gradient_##type, iterate_v_##type, iterate_u_##type                           \
    }

static const functions by_type[] = {
    [UF_F32] = FUNCTIONS(f32), [UF_F64] = FUNCTIONS(f64), [UF_BF16] = FUNCTIONS(bf16)};

uf_status uf_cpu_weight_norm_forward(uf_context *context, const uf_weight_norm_kernel_args *args) {
    uf_weight_norm_kernel_args loop = *args;
    uf_parallel_for(context, args->matrix.rows, by_type[args->output.dtype].weight_norm_row, &loop);
    return UF_OK;
}

uf_status uf_cpu_weight_norm_backward(uf_context *context, const uf_weight_norm_kernel_args *args) {
    uf_weight_norm_kernel_args loop = *args;
    uf_parallel_for(context, args->matrix.rows,
                    by_type[args->grad_output.dtype].weight_norm_gradient, &loop);
    return UF_OK;
}

static spectral_loop loop_of(const uf_spectral_norm_kernel_args *args) {
    spectral_loop loop = {.args = args, .u = args->saved.data};
    loop.v = loop.u + args->matrix.rows;
    loop.dots = args->workspace;
    return loop;
}

uf_status uf_cpu_spectral_norm_forward(uf_context *context,
                                       const uf_spectral_norm_kernel_args *args) {
    const functions *of = &by_type[args->output.dtype];
    const uf_weight_matrix *matrix = &args->matrix;
    spectral_loop loop = loop_of(args);
    if (args->training) {
        const int64_t pieces = (matrix->inner + PIECE - 1) / PIECE;
        uf_parallel_for(context, matrix->outer * pieces, of->columns, &loop);
    }
    of->iterate_v(&loop);
    uf_parallel_for(context, matrix->rows, of->rows, &loop);
    of->iterate_u(&loop);
    loop.v[uf_weight_columns(matrix)] = loop.sigma;
    uf_parallel_for(context, matrix->rows, of->scale, &loop);
    return UF_OK;
}

uf_status uf_cpu_spectral_norm_backward(uf_context *context,
                                        const uf_spectral_norm_kernel_args *args) {
    const functions *of = &by_type[args->grad_output.dtype];
    spectral_loop loop = loop_of(args);
    loop.sigma = loop.v[uf_weight_columns(&args->matrix)];
    uf_parallel_for(context, args->matrix.rows, of->dot, &loop);
    for (int64_t r = 0; r < args->matrix.rows; ++r) {
        loop.total += loop.dots[r];
    }
    uf_parallel_for(context, args->matrix.rows, of->gradient, &loop);
    return UF_OK;
}
