/* weight_norm.h - arguments of the kernels that make a layer's weight of other parameters.
 *
 * A weight is seen as a matrix: element (o, r, i) of (outer, rows, inner) is in row r and column
 * o * inner + i. Tensors are contiguous. Parameters are f32 or f64; output and grad_output have
 * their type, or are bf16 beside f32. Sums are in f64, in an order that the shape decides. */
#ifndef UF_KERNELS_WEIGHT_NORM_H
#define UF_KERNELS_WEIGHT_NORM_H

#include "core/tensor.h"

UF_BEGIN_DECLS

typedef struct uf_weight_matrix {
    int64_t outer, rows, inner;
} uf_weight_matrix;

/* The matrix whose rows are axis `dim` of a shape. */
static inline uf_weight_matrix uf_weight_matrix_of(const uf_shape *shape, int32_t dim) {
    uf_weight_matrix matrix = {1, shape->extent[dim], 1};
    for (int32_t i = 0; i < shape->rank; ++i) {
        matrix.outer *= i < dim ? shape->extent[i] : 1;
        matrix.inner *= i > dim ? shape->extent[i] : 1;
    }
    return matrix;
}

/* With n the Euclidean norm of each row of v:
 *   weight_norm_forward:  output = v * (g / n), norms = n
 *   weight_norm_backward: d = sum over a row of grad_output * v,
 *                         grad_g = d / n, grad_v = g / n * (grad_output - v * d / n^2) */
typedef struct uf_weight_norm_kernel_args {
    uf_weight_matrix matrix;
    uf_view v, g;   /* g: one element per row */
    uf_view norms;  /* f64, one per row: written by forward, read by backward */
    uf_view output; /* forward */
    uf_view grad_output, grad_v, grad_g; /* backward; absent gradients are not made */
    uf_write_mode grad_v_mode, grad_g_mode;
} uf_weight_norm_kernel_args;

/* spectral_norm_forward: in training one power iteration, v = W^T u / max(|W^T u|, eps) and
 * u = W v / max(|W v|, eps), rounded to their type in place; then output = W / sigma with
 * sigma = u . W v.
 * spectral_norm_backward: u and v count as constants,
 *   grad_weight = (grad_output - sum(grad_output * W) / sigma * u v^T) / sigma.
 * saved: f64, u, v and sigma of the forward call, one behind the other. */
typedef struct uf_spectral_norm_kernel_args {
    uf_weight_matrix matrix;
    uf_view weight, u, v; /* one element per row and per column */
    uf_view saved;
    bool training;
    double eps;
    uf_view output;                   /* forward */
    uf_view grad_output, grad_weight; /* backward */
    uf_write_mode mode;               /* of grad_weight */
    void *workspace;                  /* backward */
    size_t workspace_size;
} uf_spectral_norm_kernel_args;

static inline int64_t uf_weight_columns(const uf_weight_matrix *matrix) {
    return matrix->outer * matrix->inner;
}

/* Elements of `saved`. */
static inline int64_t uf_spectral_norm_saved(const uf_weight_matrix *matrix) {
    return matrix->rows + uf_weight_columns(matrix) + 1;
}

/* Scratch of backward, on any device: a sum per row, and their sum. */
static inline size_t uf_spectral_norm_workspace(const uf_weight_matrix *matrix) {
    return (size_t)(matrix->rows + 1) * sizeof(double);
}

uf_status uf_weight_norm_check(const uf_weight_norm_kernel_args *args, bool backward);
uf_status uf_spectral_norm_check(const uf_spectral_norm_kernel_args *args, bool backward);

UF_END_DECLS

#endif
