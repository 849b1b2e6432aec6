/* weight_norm.c - are the arguments of weight_norm.h's kernels legal, on any device? */
#include "kernels/check.h"

#include <inttypes.h>

/* A contiguous tensor of `count` elements. */
static uf_status check_tensor(const char *kernel, const char *name, const uf_view *view,
                              int64_t count) {
    UF_CHECK_ARG(view->data != NULL, "%s: %s is absent", kernel, name);
    UF_CHECK_ARG(uf_view_is_contiguous(view) && uf_view_count(view) == count,
                 "%s: %s must be contiguous, of %" PRId64 " elements; it has %" PRId64, kernel,
                 name, count, uf_view_count(view));
    return UF_OK;
}

/* One more of the type of a parameter that is there. */
static uf_status check_like(const char *kernel, const char *name, const uf_view *view,
                            int64_t count, const char *other_name, const uf_view *other) {
    UF_TRY(check_tensor(kernel, name, view, count));
    return uf_check_same_type(kernel, name, view, other_name, other);
}

static uf_status check_matrix(const char *kernel, const uf_weight_matrix *matrix,
                              const uf_view *weight, int64_t *count) {
    UF_CHECK_ARG(matrix->outer >= 1 && matrix->rows >= 1 && matrix->inner >= 1,
                 "%s: the weight is (%" PRId64 ", %" PRId64 ", %" PRId64
                 "); extents must be 1 or more",
                 kernel, matrix->outer, matrix->rows, matrix->inner);
    UF_CHECK_ARG(!uf_mul_overflows(matrix->outer, matrix->rows, count) &&
                     !uf_mul_overflows(*count, matrix->inner, count),
                 "%s: the weight has more elements than can be addressed", kernel);
    return uf_check_real(kernel, "the weight", weight);
}

static uf_status check_saved(const char *kernel, const uf_view *saved, int64_t count) {
    UF_TRY(check_tensor(kernel, "saved", saved, count));
    UF_CHECK_ARG(saved->dtype == UF_F64, "%s: saved is %s; it must be f64", kernel,
                 uf_dtype_name(saved->dtype));
    return UF_OK;
}

static uf_status check_value(const char *kernel, const char *name, const uf_view *view,
                             int64_t count, const uf_view *weight) {
    UF_TRY(check_tensor(kernel, name, view, count));
    return uf_check_parameter_type(kernel, "the weight", weight, name, view);
}

uf_status uf_weight_norm_check(const uf_weight_norm_kernel_args *args, bool backward) {
    const char *kernel = backward ? "weight_norm_backward" : "weight_norm_forward";
    int64_t count = 0;
    UF_TRY(check_matrix(kernel, &args->matrix, &args->v, &count));
    UF_TRY(check_tensor(kernel, "v", &args->v, count));
    UF_TRY(check_like(kernel, "g", &args->g, args->matrix.rows, "v", &args->v));
    UF_TRY(check_saved(kernel, &args->norms, args->matrix.rows));
    if (!backward) {
        return check_value(kernel, "output", &args->output, count, &args->v);
    }
    UF_TRY(check_value(kernel, "grad_output", &args->grad_output, count, &args->v));
    if (args->grad_v.data != NULL) {
        UF_TRY(check_like(kernel, "grad_v", &args->grad_v, count, "v", &args->v));
        UF_TRY(uf_check_mode(kernel, args->grad_v_mode));
    }
    if (args->grad_g.data != NULL) {
        UF_TRY(check_like(kernel, "grad_g", &args->grad_g, args->matrix.rows, "v", &args->v));
        UF_TRY(uf_check_mode(kernel, args->grad_g_mode));
    }
    return UF_OK;
}

uf_status uf_spectral_norm_check(const uf_spectral_norm_kernel_args *args, bool backward) {
    const char *kernel = backward ? "spectral_norm_backward" : "spectral_norm_forward";
    const uf_view *weight = &args->weight;
    int64_t count = 0;
    UF_TRY(check_matrix(kernel, &args->matrix, weight, &count));
    UF_TRY(check_tensor(kernel, "the weight", weight, count));
    UF_TRY(check_saved(kernel, &args->saved, uf_spectral_norm_saved(&args->matrix)));
    if (!backward) {
        UF_TRY(check_like(kernel, "u", &args->u, args->matrix.rows, "the weight", weight));
        UF_TRY(check_like(kernel, "v", &args->v, uf_weight_columns(&args->matrix), "the weight",
                          weight));
        return check_value(kernel, "output", &args->output, count, weight);
    }
    UF_TRY(check_value(kernel, "grad_output", &args->grad_output, count, weight));
    UF_TRY(check_like(kernel, "grad_weight", &args->grad_weight, count, "the weight", weight));
    UF_TRY(uf_check_mode(kernel, args->mode));
    const size_t needed = uf_spectral_norm_workspace(&args->matrix);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s was given %zu bytes of workspace and needs %zu", kernel,
                args->workspace_size, needed);
    }
    return UF_OK;
}
