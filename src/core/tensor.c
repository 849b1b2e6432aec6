/* tensor.c - tensors and views. */
#include "core/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uf_status uf_tensor_bytes(const char *what, uf_dtype dtype, const uf_shape *shape, size_t *bytes) {
    char text[128];
    const int64_t count = uf_shape_count(shape);
    int64_t size;
    UF_CHECK_ARG(uf_dtype_size(dtype) != 0, "%s: %d is no uf_dtype", what, (int)dtype);
    UF_CHECK_ARG(count >= 0 && !uf_mul_overflows(count, (int64_t)uf_dtype_size(dtype), &size),
                 "%s: shape %s is not legal: an extent is negative or the size overflows", what,
                 uf_shape_format(shape, text, sizeof text));
    *bytes = (size_t)size;
    return UF_OK;
}

static void free_tensor(uf_object *object) {
    uf_tensor *tensor = (uf_tensor *)object;
    uf_context_release(tensor->context, tensor->data,
                       (size_t)tensor->count * uf_dtype_size(tensor->dtype), UF_MEMORY_DEVICE);
    free(tensor);
}

uf_status uf_tensor_create(uf_context *context, uf_dtype dtype, uf_shape shape,
                           uf_tensor **tensor) {
    UF_CHECK_ARG(tensor != NULL, "uf_tensor_create: tensor is NULL");
    *tensor = NULL;
    UF_CHECK_ARG(context != NULL, "uf_tensor_create: context is NULL");
    UF_TRY(uf_context_check(context));
    size_t bytes = 0;
    UF_TRY(uf_tensor_bytes("uf_tensor_create", dtype, &shape, &bytes));
    void *data;
    UF_TRY(uf_context_allocate(context, bytes, UF_MEMORY_DEVICE, &data));
    uf_tensor *made = malloc(sizeof *made);
    if (made == NULL) {
        uf_context_release(context, data, bytes, UF_MEMORY_DEVICE);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a tensor");
    }
    *made = uf_tensor_over(context, data, dtype, &shape);
    made->owns_data = true;
    uf_object_begin(context, &made->object, UF_OBJECT_TENSOR, free_tensor);
    *tensor = made;
    return UF_OK;
}

uf_tensor uf_tensor_over(uf_context *context, void *data, uf_dtype dtype, const uf_shape *shape) {
    return (uf_tensor){
        .context = context,
        .dtype = dtype,
        .shape = *shape,
        .count = uf_shape_count(shape),
        .data = data,
        .owns_data = false,
    };
}

void uf_tensor_destroy(uf_tensor *tensor) {
    if (tensor != NULL && tensor->owns_data) {
        uf_object_release(&tensor->object);
    }
}

uf_dtype uf_tensor_dtype(const uf_tensor *tensor) {
    return tensor != NULL ? tensor->dtype : UF_F32;
}

uf_shape uf_tensor_shape(const uf_tensor *tensor) {
    return tensor != NULL ? tensor->shape : uf_shape_from(NULL, -1);
}

int64_t uf_tensor_count(const uf_tensor *tensor) {
    return tensor != NULL ? tensor->count : 0;
}

void *uf_tensor_data(const uf_tensor *tensor) {
    return tensor != NULL ? tensor->data : NULL;
}

uf_status uf_tensor_upload(uf_tensor *tensor, const void *host) {
    UF_CHECK_ARG(tensor != NULL, "uf_tensor_upload: tensor is NULL");
    UF_CHECK_ARG(host != NULL || tensor->count == 0, "uf_tensor_upload: host is NULL");
    UF_TRY(uf_context_check(tensor->context));
    UF_TRY(tensor->context->device->upload(tensor->context, tensor->data, host,
                                           (size_t)tensor->count * uf_dtype_size(tensor->dtype)));
    if (tensor->is_given != NULL) {
        *tensor->is_given = true;
    }
    uf_tensor_changed(tensor);
    return UF_OK;
}

uf_status uf_tensor_download(const uf_tensor *tensor, void *host) {
    UF_CHECK_ARG(tensor != NULL, "uf_tensor_download: tensor is NULL");
    UF_CHECK_ARG(host != NULL || tensor->count == 0, "uf_tensor_download: host is NULL");
    UF_TRY(uf_context_check(tensor->context));
    return tensor->context->device->download(tensor->context, host, tensor->data,
                                             (size_t)tensor->count * uf_dtype_size(tensor->dtype));
}

/* The checks that both converting copies share, and the staging buffer in the tensor's own type. */
static uf_status stage(const char *function, const uf_tensor *tensor, uf_dtype dtype,
                       const void *host, int64_t count, void **staging) {
    char text[128];
    UF_CHECK_ARG(tensor != NULL, "%s: tensor is NULL", function);
    UF_CHECK_ARG(host != NULL || tensor->count == 0, "%s: host is NULL", function);
    UF_CHECK_ARG(uf_dtype_size(dtype) != 0, "%s: %d is no uf_dtype", function, (int)dtype);
    if (count != tensor->count) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %" PRId64 " elements for a tensor %s of %" PRId64, function,
                count, uf_shape_format(&tensor->shape, text, sizeof text), tensor->count);
    }
    *staging = malloc((size_t)count * uf_dtype_size(tensor->dtype) + 1);
    if (*staging == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory: %" PRId64 " elements to convert",
                count);
    }
    return UF_OK;
}

uf_status uf_tensor_upload_as(uf_tensor *tensor, uf_dtype dtype, const void *host, int64_t count) {
    void *staging;
    UF_TRY(stage("uf_tensor_upload_as", tensor, dtype, host, count, &staging));
    uf_convert(staging, tensor->dtype, host, dtype, count);
    const uf_status status = uf_tensor_upload(tensor, staging);
    free(staging);
    return status;
}

uf_status uf_tensor_download_as(const uf_tensor *tensor, uf_dtype dtype, void *host,
                                int64_t count) {
    void *staging;
    UF_TRY(stage("uf_tensor_download_as", tensor, dtype, host, count, &staging));
    const uf_status status = uf_tensor_download(tensor, staging);
    if (status == UF_OK) {
        uf_convert(host, dtype, staging, tensor->dtype, count);
    }
    free(staging);
    return status;
}

uf_view uf_view_nchw(void *data, uf_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
    /* Modulo 2^64: extents whose product overflows are refused by whatever takes the view. */
    const uint64_t row = (uint64_t)w, plane = (uint64_t)h * row, image = (uint64_t)c * plane;
    return (uf_view){
        .data = data,
        .dtype = dtype,
        .extent = {n, c, h, w},
        .stride = {(int64_t)image, (int64_t)plane, w, 1},
    };
}

uf_view uf_view_of(void *data, uf_dtype dtype, const uf_shape *shape) {
    int64_t extent[4] = {1, 1, 1, 1};
    /* Axes (N, C, H, W) that ranks 0 to 4 fill, outermost first. */
    static const int axis[5][4] = {{0}, {1}, {0, 1}, {0, 1, 3}, {0, 1, 2, 3}};
    const int32_t folded = shape->rank > 4 ? shape->rank - 4 : 0;
    for (int32_t i = 0; i < folded; ++i) {
        extent[0] *= shape->extent[i];
    }
    for (int32_t i = folded; i < shape->rank; ++i) {
        extent[axis[shape->rank - folded][i - folded]] *= shape->extent[i];
    }
    return uf_view_nchw(data, dtype, extent[0], extent[1], extent[2], extent[3]);
}

int64_t uf_view_count(const uf_view *view) {
    return view->extent[0] * view->extent[1] * view->extent[2] * view->extent[3];
}

bool uf_view_is_contiguous(const uf_view *view) {
    int64_t expected = 1;
    for (int i = 3; i >= 0; --i) {
        if (view->extent[i] != 1 && view->stride[i] != expected) {
            return false;
        }
        expected *= view->extent[i];
    }
    return true;
}
