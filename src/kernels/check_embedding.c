/* check_embedding.c - are the arguments of embedding's kernels legal, on any device? */
#include "kernels/check.h"

#include <inttypes.h>

static uf_status check_rows(const char *kernel, const char *name, const uf_view *view,
                            bool written) {
    UF_TRY(uf_check_view(kernel, name, view, written, uf_any_extent));
    UF_CHECK_ARG(uf_view_is_contiguous(view), "%s: %s must be contiguous", kernel, name);
    return UF_OK;
}

/* So many rows of args->width. */
static uf_status check_count(const char *kernel, const uf_embedding_kernel_args *args,
                             const char *name, const uf_view *view, int64_t rows) {
    char text[128];
    int64_t elements;
    if (uf_mul_overflows(rows, args->width, &elements) || uf_view_count(view) != elements) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s; it must be %" PRId64 " rows of %" PRId64, kernel,
                name, uf_format_view(view, text, sizeof text), rows, args->width);
    }
    return UF_OK;
}

uf_status uf_embedding_check(const uf_embedding_kernel_args *args, bool backward) {
    const char *kernel = backward ? "embedding_backward" : "embedding_forward";
    const char *rows_name = backward ? "grad_output" : "output";
    const char *weight_name = backward ? "grad_weight" : "weight";
    const uf_view *rows = backward ? &args->grad_output : &args->output;
    const uf_view *weight = backward ? &args->grad_weight : &args->weight;
    const uf_view computed = {.dtype = rows->dtype == UF_F64 ? UF_F64 : UF_F32};
    UF_CHECK_ARG(args->indices.dtype == UF_I64, "%s: indices are %s; they must be i64", kernel,
                 uf_dtype_name(args->indices.dtype));
    UF_CHECK_ARG(args->count >= 1 && args->width >= 1,
                 "%s: count is %" PRId64 " and width is %" PRId64 "; both must be 1 or more",
                 kernel, args->count, args->width);
    UF_TRY(uf_check_stored(kernel, rows_name, rows));
    UF_TRY(uf_check_same_type(kernel, weight_name, weight, "what computes", &computed));
    UF_TRY(check_rows(kernel, "indices", &args->indices, false));
    UF_TRY(check_rows(kernel, rows_name, rows, !backward));
    UF_TRY(check_rows(kernel, weight_name, weight, backward));
    UF_TRY(check_count(kernel, args, rows_name, rows, uf_view_count(&args->indices)));
    UF_TRY(check_count(kernel, args, weight_name, weight, args->count));
    return backward ? uf_check_mode(kernel, args->mode) : UF_OK;
}
