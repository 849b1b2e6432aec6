/* embedding.h - rows of a matrix, chosen by indices, and the gradient of the matrix.
 *
 * A part of kernels.h. */
#ifndef UF_KERNELS_EMBEDDING_H
#define UF_KERNELS_EMBEDDING_H

/* weight has `count` rows of `width`; all views are contiguous:
 *   embedding_forward:   output[i] = weight[indices[i]], a row of NaN for an index outside of
 *                        0 to count - 1
 *   embedding_backward:  grad_weight[r] = or += the sum of grad_output[i] where indices[i] is r, in
 *                        f64, by ascending i; other indices are in no sum
 * The weight and its gradient have the type of the output, f32 beside bf16. */
typedef struct uf_embedding_kernel_args {
    uf_view indices; /* i64 */
    int64_t count, width;
    uf_view weight, output;           /* forward */
    uf_view grad_output, grad_weight; /* backward */
    uf_write_mode mode;               /* of grad_weight */
} uf_embedding_kernel_args;

uf_status uf_embedding_check(const uf_embedding_kernel_args *args, bool backward);

#endif
