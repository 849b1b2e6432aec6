/* loss.h - what the kernels of the losses take. kernels.h includes it. */
#ifndef UF_KERNELS_LOSS_H
#define UF_KERNELS_LOSS_H

/* The second operand of a kind of loss. */
typedef enum uf_loss_operand {
    UF_LOSS_ALONE = 0, /* there is none */
    UF_LOSS_TARGET,    /* no gradient reaches it */
    UF_LOSS_PAIR       /* a gradient does */
} uf_loss_operand;

static inline uf_loss_operand uf_loss_second(uf_loss_kind kind) {
    switch (kind) {
#define UF_LOSS(name, text, second, value, derivative, other_derivative)                           \
    case UF_LOSS_##name:                                                                           \
        return UF_LOSS_##second;
#include "kernels/losses.def"
#undef UF_LOSS
    case UF_LOSS_COUNT:
        break;
    }
    return UF_LOSS_ALONE;
}

/* loss_forward: output (one element) = sum of the loss over input and target, over the divisor;
 *   without reduction every element, in an output of the input's shape.
 * loss_backward: grad_input = grad_output (one element or the input's shape) * derivative /
 * divisor, and grad_target likewise. One of them may be absent. Contiguous views. output and
 * grad_output are f32 where input and target are bf16. Sums are in f64 over blocks of a fixed size,
 * added in order. */
typedef struct uf_loss_kernel_args {
    uf_loss_kind kind;
    uf_reduction reduction;
    int64_t divisor; /* of MEAN; 0: the number of elements */
    double beta;
    uf_view input, target, output;
    uf_view grad_output, grad_input, grad_target;
    uf_write_mode mode, grad_target_mode; /* of grad_input, of grad_target */
    void *workspace;
    size_t workspace_size;
} uf_loss_kernel_args;

static inline int64_t uf_loss_divisor(const uf_loss_kernel_args *args) {
    return args->reduction != UF_REDUCTION_MEAN ? 1
           : args->divisor != 0                 ? args->divisor
                                                : uf_view_count(&args->input);
}

/* cross_entropy_forward: per row (outer, inner) of input (outer, classes, inner), contiguous,
 *   log(sum over classes of exp(x)) - x[target], as output of `rows` elements without reduction,
 *   else their sum or mean in one element.
 * cross_entropy_backward: grad_input = grad_output * (softmax - one at the target), over the rows
 * of a MEAN. target is i64, one element a row; one outside the classes makes the row NaN. output
 * and grad_output are f32 where input is bf16. Sums are in f64. */
typedef struct uf_cross_entropy_kernel_args {
    uf_reduction reduction;
    int64_t outer, classes, inner;
    uf_view input, target, output;
    uf_view grad_output, grad_input;
    uf_write_mode mode;
    void *workspace; /* uf_cross_entropy_workspace; of forward */
    size_t workspace_size;
} uf_cross_entropy_kernel_args;

#define UF_CROSS_ENTROPY_ROWS 8 /* of one partial sum, at least */

static inline size_t uf_cross_entropy_workspace(const uf_cross_entropy_kernel_args *args) {
    const int64_t rows = args->outer * args->inner;
    return args->reduction == UF_REDUCTION_NONE
               ? 0
               : (size_t)((rows + UF_CROSS_ENTROPY_ROWS - 1) / UF_CROSS_ENTROPY_ROWS) *
                     sizeof(double);
}

#endif
