/* check_norm.c - are the arguments of the norms of norm.h legal, on any device? */
#include <inttypes.h>

#include "kernels/check.h"

/* A contiguous view of `count` elements; absent ones pass. */
static uf_status check_row(const char *kernel, const char *name, const uf_view *view,
                           int64_t count) {
    if (view->data == NULL) {
        return UF_OK;
    }
    UF_TRY(uf_check_view(kernel, name, view, false, uf_any_extent));
    UF_CHECK_ARG(uf_view_is_contiguous(view) && uf_view_count(view) == count,
                 "%s: %s has %" PRId64 " elements; it must be contiguous and have %" PRId64, kernel,
                 name, uf_view_count(view), count);
    return UF_OK;
}

static uf_status check_layout(const char *kernel, const uf_norm_layout *layout) {
    UF_CHECK_ARG(layout->outer >= 0 && layout->size >= 1 && layout->inner >= 1 &&
                     layout->groups >= 1 && layout->run >= 1,
                 "%s: (outer, size, inner) is (%" PRId64 ", %" PRId64 ", %" PRId64
                 "), with %" PRId64 " groups and runs of %" PRId64 "; all are 1 or more",
                 kernel, layout->outer, layout->size, layout->inner, layout->groups, layout->run);
    UF_CHECK_ARG(layout->outer % layout->groups == 0 && layout->size % layout->run == 0,
                 "%s: %" PRId64 " groups must divide outer %" PRId64 ", runs of %" PRId64
                 " must divide size %" PRId64,
                 kernel, layout->groups, layout->outer, layout->run, layout->size);
    UF_CHECK_ARG(layout->inner == 1 || layout->run == 1,
                 "%s: with inner %" PRId64 " the run must be 1, not %" PRId64, kernel,
                 layout->inner, layout->run);
    return UF_OK;
}

uf_status uf_norm_check(const uf_norm_kernel_args *args, bool backward) {
    const char *kernel = backward ? "norm_backward" : "norm_forward";
    const uf_norm_layout *layout = &args->layout;
    UF_TRY(check_layout(kernel, layout));
    const int64_t count = layout->outer * layout->size * layout->inner;
    UF_TRY(uf_check_stored(kernel, "input", &args->input));
    const uf_view parameter = {.dtype = args->input.dtype == UF_F64 ? UF_F64 : UF_F32};
    const uf_view statistic = {.dtype = UF_F64};
    const struct {
        const char *name;
        const uf_view *view, *like;
        int64_t count;
        bool needed;
    } views[] = {
        {"input", &args->input, &args->input, count, true},
        {"output", &args->output, &args->input, count, !backward},
        {"grad_output", &args->grad_output, &args->input, count, backward},
        {"grad_input", &args->grad_input, &args->input, count, false},
        {"weight", &args->weight, &parameter, uf_norm_params(layout), false},
        {"bias", &args->bias, &parameter, uf_norm_params(layout), false},
        {"grad_weight", &args->grad_weight, &parameter, uf_norm_params(layout), false},
        {"grad_bias", &args->grad_bias, &parameter, uf_norm_params(layout), false},
        {"running_mean", &args->running_mean, &parameter, layout->groups, false},
        {"running_var", &args->running_var, &parameter, layout->groups, false},
        {"save_mean", &args->save_mean, &statistic, layout->outer * layout->inner, true},
        {"save_invstd", &args->save_invstd, &statistic, layout->outer * layout->inner, true},
    };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; ++i) {
        UF_CHECK_ARG(!views[i].needed || views[i].view->data != NULL || views[i].count == 0,
                     "%s: %s is missing", kernel, views[i].name);
        UF_TRY(check_row(kernel, views[i].name, views[i].view, views[i].count));
        if (views[i].view->data != NULL) {
            UF_TRY(uf_check_same_type(kernel, views[i].name, views[i].view,
                                      "its type for such an input", views[i].like));
        }
    }
    UF_CHECK_ARG((args->running_mean.data == NULL) == (args->running_var.data == NULL),
                 "%s: running_mean and running_var come together", kernel);
    UF_CHECK_ARG(args->running_mean.data == NULL || (layout->inner == 1 && layout->size > 1),
                 "%s: running statistics need inner 1 and more than 1 value, not %" PRId64
                 " and %" PRId64,
                 kernel, layout->inner, layout->size);
    UF_CHECK_ARG(args->eps >= 0.0, "%s: eps is %g; it must be 0 or more", kernel, args->eps);
    UF_TRY(uf_check_fused_activation(kernel, &args->activation));
    UF_TRY(uf_check_mode(kernel, args->grad_input_mode));
    UF_TRY(uf_check_mode(kernel, args->grad_weight_mode));
    return uf_check_mode(kernel, args->grad_bias_mode);
}
