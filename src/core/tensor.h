/* tensor.h - the tensor's insides and views of it. */
#ifndef UF_CORE_TENSOR_H
#define UF_CORE_TENSOR_H

#include <unfurl/ops.h>
#include <unfurl/tensor.h>

#include "core/context.h"
#include "core/object.h"

UF_BEGIN_DECLS

struct uf_tensor {
    uf_object
        object; /* of a tensor with memory of its own; others belong to a store or a program */
    uf_context *context;
    uf_dtype dtype;
    uf_shape shape;
    int64_t count;
    void *data;
    bool *is_given; /* of a store's tensor: set when it gets contents; NULL elsewhere */
    uint64_t
        *version; /* of a store's tensor: the store's, which an upload raises; NULL elsewhere */
    bool owns_data;
};

/* The size of a tensor, or INVALID_ARGUMENT with a message that begins with `what`. */
uf_status uf_tensor_bytes(const char *what, uf_dtype dtype, const uf_shape *shape, size_t *bytes);

/* A tensor struct over memory that somebody else owns; uf_tensor_destroy leaves it alone. */
uf_tensor uf_tensor_over(uf_context *context, void *data, uf_dtype dtype, const uf_shape *shape);

/* The tensor's contents have changed: its store has a new version. */
static inline void uf_tensor_changed(uf_tensor *tensor) {
    if (tensor->version != NULL) {
        *tensor->version += 1;
    }
}

/* The tensor as the kernels see it. Rank 4 is (N, C, H, W); rank 3 (N, C, 1, L); rank 2 (N, C, 1,
 * 1); rank 1 (1, C, 1, 1); rank 0 all ones. Ranks above 4 fold the outermost extents into N. */
uf_view uf_view_of(void *data, uf_dtype dtype, const uf_shape *shape);

int64_t uf_view_count(const uf_view *view);
bool uf_view_is_contiguous(const uf_view *view);

/* Convert `count` elements between host types; F16, BF16, F32, F64, I64. Rounds to nearest even. */
void uf_convert(void *to, uf_dtype to_type, const void *from, uf_dtype from_type, int64_t count);

/* *product = a*b; true when it does not fit. */
static inline bool uf_mul_overflows(int64_t a, int64_t b, int64_t *product) {
    return __builtin_mul_overflow(a, b, product);
}

UF_END_DECLS

#endif
