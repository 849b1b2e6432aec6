/* common.c - what the plain door's files share. */
#include "ops/ops.h"

#include <inttypes.h>

uf_status uf_ops_begin(const char *op, uf_context *context, const char *args_name,
                       const void *given, void *known, size_t size) {
    UF_CHECK_ARG(context != NULL, "%s: the context is NULL", op);
    UF_CHECK_ARG(given != NULL, "%s: the arguments are NULL", op);
    UF_TRY(uf_context_check(context));
    return uf_read_struct(args_name, given, known, size);
}

uf_status uf_ops_require(const char *op, const char *name, const uf_view *view) {
    UF_CHECK_ARG(view->data != NULL, "%s: %s is missing", op, name);
    return UF_OK;
}

const char *uf_ops_extents(const uf_view *view, char *text, size_t size) {
    const uf_shape shape = uf_shape_from(view->extent, 4);
    return uf_shape_format(&shape, text, size);
}

uf_status uf_ops_channels(const char *op, const char *name, const uf_view *view, int64_t channels,
                          uf_view *result) {
    *result = *view;
    if (view->data == NULL) {
        return UF_OK;
    }
    int64_t stride = 0;
    int64_t count = 1;
    for (int axis = 0; axis < 4; ++axis) {
        if (view->extent[axis] != 1) {
            stride = view->stride[axis];
            count = count == 1 ? view->extent[axis] : -1; /* -1: a second axis */
        }
    }
    if (count != channels) {
        char text[128];
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: %s is %s; it must have one element for each of the %" PRId64 " channels", op,
                name, uf_ops_extents(view, text, sizeof text), channels);
    }
    *result = uf_view_nchw(view->data, view->dtype, 1, channels, 1, 1);
    result->stride[1] = stride;
    return UF_OK;
}

uf_status uf_ops_workspace(const char *op, const void *workspace, size_t size, size_t needed) {
    if (needed == 0) {
        return UF_OK;
    }
    UF_CHECK_ARG(workspace != NULL && size >= needed,
                 "%s: the workspace is %zu bytes, this call needs %zu (ask %s_workspace)", op,
                 workspace == NULL ? (size_t)0 : size, needed, op);
    UF_CHECK_ARG((uintptr_t)workspace % UF_ALIGNMENT == 0,
                 "%s: the workspace is at address %p; it must be %zu-byte aligned", op, workspace,
                 UF_ALIGNMENT);
    return UF_OK;
}
