/* tensor.h - element types, shapes, and tensors in a context's memory. */
#ifndef UNFURL_TENSOR_H
#define UNFURL_TENSOR_H

#include <unfurl/context.h>

UF_BEGIN_DECLS

typedef enum uf_dtype {
    UF_F32 = 0,
    UF_F64,
    UF_BF16, /* uint16_t, the upper half of an f32: of tensors, not of stores */
    UF_F16,  /* in files only */
    UF_I64   /* counters */
} uf_dtype;

/* Bytes per element; 0 for a value that is no uf_dtype. */
UF_API size_t uf_dtype_size(uf_dtype dtype);
UF_API const char *uf_dtype_name(uf_dtype dtype); /* "f32" */

#define UF_MAX_RANK 8

/* Extents, outermost first. Rank 0 is a scalar. Images are (N, C, H, W). */
typedef struct uf_shape {
    int32_t rank;
    int64_t extent[UF_MAX_RANK];
} uf_shape;

/* A shape from 1 to 8 extents: UF_SHAPE(64, 100, 1, 1); UF_SCALAR has none. */
#ifndef __cplusplus
#define UF_SHAPE(...)                                                                              \
    uf_shape_from((const int64_t[]){__VA_ARGS__},                                                  \
                  (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#else
#define UF_SHAPE(...) uf_shape_of(__VA_ARGS__)
#endif
#define UF_SCALAR uf_shape_from(NULL, 0)

/* Copies `rank` extents; a rank outside 0..UF_MAX_RANK gives rank -1, which every function
 * refuses. */
UF_API uf_shape uf_shape_from(const int64_t *extent, int32_t rank);

/* False for a rank outside 0..UF_MAX_RANK, whatever the other one is. */
UF_API bool uf_shape_equal(const uf_shape *a, const uf_shape *b);

/* The number of elements, or -1 when the rank is not legal, an extent is negative or the product
 * passes 2^62. */
UF_API int64_t uf_shape_count(const uf_shape *shape);

/* Write "(64, 100, 1, 1)" into `text`, always terminated; "(no shape)" for a rank that is not
 * legal. Returns `text`. */
UF_API char *uf_shape_format(const uf_shape *shape, char *text, size_t size);

typedef struct uf_tensor uf_tensor;

/* A contiguous tensor in the context's device memory, not initialised. Destroyed by the caller, or
 * with its context. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_tensor_create(uf_context *context, uf_dtype dtype, uf_shape shape,
                                               uf_tensor **tensor);
UF_API void uf_tensor_destroy(uf_tensor *tensor); /* NULL is legal */

/* NULL has F32, rank -1, 0 and NULL. */
UF_API uf_dtype uf_tensor_dtype(const uf_tensor *tensor);
UF_API uf_shape uf_tensor_shape(const uf_tensor *tensor);
UF_API int64_t uf_tensor_count(const uf_tensor *tensor);
UF_API void *uf_tensor_data(const uf_tensor *tensor); /* device memory; borrowed */

/* Copy the whole tensor from or to `host`: uf_tensor_count elements of the tensor's own type, in C
 * order. Overwrites. `upload` returns when `host` may be reused; `download` waits for all earlier
 * work of the context and returns when `host` is filled. Errors: INVALID_ARGUMENT, DEVICE. */
UF_API UF_NODISCARD uf_status uf_tensor_upload(uf_tensor *tensor, const void *host);
UF_API UF_NODISCARD uf_status uf_tensor_download(const uf_tensor *tensor, void *host);

/* The same with `count` elements of `dtype` on the host, converted to or from the tensor's type
 * (rounding to nearest even). Errors: also SHAPE when `count` is not the tensor's. */
UF_API UF_NODISCARD uf_status uf_tensor_upload_as(uf_tensor *tensor, uf_dtype dtype,
                                                  const void *host, int64_t count);
UF_API UF_NODISCARD uf_status uf_tensor_download_as(const uf_tensor *tensor, uf_dtype dtype,
                                                    void *host, int64_t count);

UF_END_DECLS

#ifdef __cplusplus
template <typename... Extents>
inline uf_shape uf_shape_of(Extents... extents) {
    const int64_t values[] = {static_cast<int64_t>(extents)...};
    return uf_shape_from(values, static_cast<int32_t>(sizeof...(Extents)));
}
#endif

#endif
