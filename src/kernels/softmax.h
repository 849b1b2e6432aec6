/* softmax.h - softmax along one axis. */
#ifndef UF_KERNELS_SOFTMAX_H
#define UF_KERNELS_SOFTMAX_H

#include <unfurl/ops.h>

UF_BEGIN_DECLS

/* Contiguous tensors of outer * extent * inner elements; a line is the `extent` elements
 * (o * extent + s) * inner + i of one o and one i.
 *   softmax_forward:   output = exp(input - m) / sum of exp(input - m),  m the line's maximum
 *   softmax_backward:  grad_input = output * (grad_output - sum of grad_output * output)
 * Sums in f64, in an order that the shape decides. output may be input's memory, grad_input
 * grad_output's. */
typedef struct uf_softmax_kernel_args {
    int64_t outer, extent, inner;
    uf_view input;                   /* forward */
    uf_view output;                  /* written by forward, read by backward */
    uf_view grad_output, grad_input; /* backward */
    uf_write_mode mode;              /* of grad_input */
} uf_softmax_kernel_args;

/* UF_OK, or why the arguments are not legal. */
uf_status uf_softmax_check(const uf_softmax_kernel_args *args, bool backward);

UF_END_DECLS

#endif
