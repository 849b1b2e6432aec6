/* strided.h - arithmetic over operands of any strides: with broadcasting, along permuted or cut
 * axes, and sums over some axes.
 *
 * All operands share one index space. Operand k has the element of an index at the sum of
 * index[axis] * stride[k][axis]; a stride of 0 repeats an element along its axis. Operand 0 is what
 * is written. An axis along which it repeats is summed over. */
#ifndef UF_KERNELS_STRIDED_H
#define UF_KERNELS_STRIDED_H

#include <unfurl/ops.h>

UF_BEGIN_DECLS

#define UF_STRIDED_OPERANDS 4 /* the result and up to three that are read */

typedef struct uf_strided {
    int32_t rank, operands;
    int64_t extent[UF_MAX_RANK];
    int64_t stride[UF_STRIDED_OPERANDS][UF_MAX_RANK]; /* in elements */
} uf_strided;

/* The term that is made of the operands a, b and c (strided_terms.def). */
typedef enum uf_term {
#define UF_TERM(name, operands, expression) UF_TERM_##name,
#include "kernels/strided_terms.def"
#undef UF_TERM
    UF_TERM_COUNT
} uf_term;

/* broadcast: output = factor * term, for every index; no axis of the output repeats.
 * reduce: output = the sum of factor * term over the axes along which the output repeats.
 * Either adds to the output with ACCUMULATE. One element type; bf16 computes in f32. Sums are made
 * in f64, in an order that the shapes decide, and rounded once. In broadcast the output may be the
 * memory of an operand that has its strides. */
typedef struct uf_strided_kernel_args {
    uf_term term;
    uf_dtype dtype;
    uf_strided space;
    void *data[UF_STRIDED_OPERANDS]; /* the output, then a, b and c: as many as space.operands */
    double factor;
    bool makes_f32; /* of reduce: the output is f32, all else is bf16 */
    uf_write_mode mode;
    void *workspace; /* of reduce */
    size_t workspace_size;
} uf_strided_kernel_args;

/* An index space of `shape` with the first operand in C order; more are added behind it. */
uf_strided uf_strided_of(const uf_shape *shape);

/* Strides of a contiguous tensor of `shape` in C order. */
void uf_strided_contiguous(const uf_shape *shape, int64_t stride[UF_MAX_RANK]);

/* The strides with which a tensor of `shape` fills the axes of `whole`, as PyTorch broadcasts: axes
 * are matched from the last one on, an extent of 1 repeats. `own` has the tensor's own strides. */
void uf_strided_broadcast(const uf_shape *whole, const uf_shape *shape,
                          const int64_t own[UF_MAX_RANK], int64_t stride[UF_MAX_RANK]);

/* The same elements in the same order over fewer axes: those of extent 1 go, neighbours that all
 * operands walk as one become one. At least one axis is left. */
void uf_strided_simplify(uf_strided *space);

/* Sort the axes by the output's stride, the largest first, so that what is written lies side by
 * side. Every element goes where it went; the order of the walk changes. */
void uf_strided_sort(uf_strided *space);

int64_t uf_strided_count(const uf_strided *space);

/* Does the output repeat along an axis, so that `reduce` is needed? */
bool uf_strided_repeats(const uf_strided *space);

/* From one index to the next, in C order of all axes but the last `inner`. */
typedef struct uf_strided_walk {
    int32_t axes; /* that are walked: the first ones */
    int64_t index[UF_MAX_RANK];
    int64_t offset[UF_STRIDED_OPERANDS];
} uf_strided_walk;

uf_strided_walk uf_strided_walk_from(const uf_strided *space, int32_t inner, int64_t number);
void uf_strided_next(const uf_strided *space, uf_strided_walk *walk);

/* The two halves of a sum: the outputs, and the terms of each output. Both are simple. `columns`:
 * neighbours in memory belong to neighbouring outputs, not to one output's sum. */
typedef struct uf_strided_reduction {
    uf_strided kept, reduced;
    bool columns;
} uf_strided_reduction;

uf_strided_reduction uf_reduction_of(const uf_strided *space);

/* UF_OK, or why the arguments are not legal. */
uf_status uf_broadcast_check(const uf_strided_kernel_args *args);
uf_status uf_reduce_check(const uf_strided_kernel_args *args);

UF_END_DECLS

#endif
