/* check_train.c - check.c for the kernels of training: are a kernel's arguments legal, on any
 * device? */
#include "kernels/check.h"

#include <inttypes.h>

static uf_status check_contiguous(const char *kernel, const char *name, const uf_view *view) {
    UF_CHECK_ARG(uf_view_is_contiguous(view), "%s: %s must be contiguous", kernel, name);
    return UF_OK;
}

uf_status uf_copy_check(const uf_copy_kernel_args *args) {
    const char *kernel = "copy";
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, "input", &args->input));
    UF_TRY(uf_check_stored(kernel, "output", &args->output));
    UF_TRY(uf_check_view(kernel, "input", &args->input, false, uf_any_extent));
    UF_TRY(uf_check_view(kernel, "output", &args->output, true, uf_any_extent));
    if (args->input.dtype == UF_F64 || args->output.dtype == UF_F64) {
        UF_TRY(uf_check_same_type(kernel, "output", &args->output, "input", &args->input));
    }
    return uf_check_same_shape(kernel, "output", &args->output, "input", &args->input);
}

uf_status uf_fill_check(const uf_fill_kernel_args *args) {
    if (args->output.dtype != UF_I64) {
        UF_TRY(uf_check_stored("fill", "output", &args->output));
    }
    return uf_check_view("fill", "output", &args->output, true, uf_any_extent);
}

uf_status uf_zero_check(const uf_zero_kernel_args *args) {
    UF_CHECK_ARG(args->count >= 0 && args->count <= UF_ZERO_SPANS,
                 "zero: %" PRId32 " spans; there may be 0 to %d", args->count, UF_ZERO_SPANS);
    UF_CHECK_ARG(args->memory != NULL && (uintptr_t)args->memory % UF_ALIGNMENT == 0,
                 "zero: memory is NULL or not aligned to %zu bytes", UF_ALIGNMENT);
    for (int32_t i = 0; i < args->count; ++i) {
        const uf_zero_span *span = &args->spans[i];
        UF_CHECK_ARG(span->offset >= 0 && span->size >= 0 &&
                         (uint64_t)(span->offset | span->size) % UF_ALIGNMENT == 0,
                     "zero: span %d has offset %" PRId64 " and size %" PRId64
                     "; they must be multiples of %zu, 0 or more",
                     (int)i, span->offset, span->size, UF_ALIGNMENT);
    }
    return UF_OK;
}

uf_status uf_channel_sum_check(const uf_channel_sum_kernel_args *args) {
    const char *kernel = "channel_sum";
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, "input", &args->input));
    UF_TRY(uf_check_view(kernel, "input", &args->input, false, uf_any_extent));
    UF_TRY(uf_check_view(kernel, "output", &args->output, true, uf_any_extent));
    UF_CHECK_ARG(args->output.data != NULL || args->input.extent[1] == 0, "%s: output is absent",
                 kernel);
    UF_TRY(uf_check_parameter_type(kernel, "output", &args->output, "input", &args->input));
    return uf_check_channels(kernel, "output", &args->output, args->input.extent[1], "output",
                             &args->output);
}

static uf_status check_scalar(const char *kernel, const char *name, const uf_view *view) {
    char text[128];
    UF_CHECK_ARG(view->data != NULL, "%s: %s is absent", kernel, name);
    UF_TRY(uf_check_stored(kernel, name, view));
    if (uf_view_count(view) != 1) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s; it must be one element", kernel, name,
                uf_format_view(view, text, sizeof text));
    }
    return UF_OK;
}

static uf_status check_reduction(const char *kernel, uf_reduction reduction) {
    UF_CHECK_ARG((unsigned)reduction <= UF_REDUCTION_NONE, "%s: %d is no uf_reduction", kernel,
                 (int)reduction);
    return UF_OK;
}

/* A loss or its gradient: one element, or without reduction as many as `elements` has; in the type
 * that computes with `input`. */
static uf_status check_loss_value(const char *kernel, const char *name, const uf_view *value,
                                  uf_reduction reduction, const uf_view *elements,
                                  const uf_view *input, bool written) {
    const uf_view computed = {.dtype = input->dtype == UF_F64 ? UF_F64 : UF_F32};
    if (reduction == UF_REDUCTION_NONE) {
        UF_TRY(uf_check_view(kernel, name, value, written, uf_any_extent));
        UF_TRY(check_contiguous(kernel, name, value));
        UF_TRY(uf_check_same_shape(kernel, name, value, "the elements", elements));
    } else {
        UF_TRY(check_scalar(kernel, name, value));
    }
    return uf_check_same_type(kernel, name, value, "the loss", &computed);
}

uf_status uf_loss_check(const uf_loss_kernel_args *args, bool backward) {
    const char *kernel = backward ? "loss_backward" : "loss_forward";
    const uf_view *input = &args->input;
    UF_CHECK_ARG((unsigned)args->kind < UF_LOSS_COUNT, "%s: %d is no uf_loss_kind", kernel,
                 (int)args->kind);
    UF_CHECK_ARG(args->divisor >= 0 && args->beta >= 0.0,
                 "%s: divisor %" PRId64 " and beta %g must be 0 or more", kernel, args->divisor,
                 args->beta);
    UF_TRY(check_reduction(kernel, args->reduction));
    UF_TRY(uf_check_stored(kernel, "input", input));
    UF_TRY(check_loss_value(kernel, backward ? "grad_output" : "output",
                            backward ? &args->grad_output : &args->output, args->reduction, input,
                            input, !backward));
    const bool alone = uf_loss_second(args->kind) == UF_LOSS_ALONE;
    const bool pair = uf_loss_second(args->kind) == UF_LOSS_PAIR;
    UF_CHECK_ARG(args->grad_target.data == NULL || pair, "%s: no gradient reaches the target",
                 kernel);
    const struct {
        const char *name;
        const uf_view *view;
        bool there;
    } views[] = {
        {"input", input, true},
        {"target", &args->target, !alone},
        {"grad_input", &args->grad_input, backward && (!pair || args->grad_input.data != NULL)},
        {"grad_target", &args->grad_target, backward && args->grad_target.data != NULL}};
    for (int i = 0; i < 4; ++i) {
        if (!views[i].there) {
            continue;
        }
        UF_TRY(uf_check_view(kernel, views[i].name, views[i].view, i >= 2, uf_any_extent));
        UF_TRY(check_contiguous(kernel, views[i].name, views[i].view));
        UF_TRY(uf_check_same_type(kernel, views[i].name, views[i].view, "input", input));
        UF_TRY(uf_check_same_shape(kernel, views[i].name, views[i].view, "input", input));
    }
    UF_TRY(backward ? uf_check_mode(kernel, args->mode) : UF_OK);
    return backward ? uf_check_mode(kernel, args->grad_target_mode) : UF_OK;
}

static uf_status check_count(const char *kernel, const char *name, const uf_view *view,
                             int64_t count) {
    UF_CHECK_ARG(uf_view_count(view) == count, "%s: %s has %" PRId64 " elements, not %" PRId64,
                 kernel, name, uf_view_count(view), count);
    return check_contiguous(kernel, name, view);
}

uf_status uf_cross_entropy_check(const uf_cross_entropy_kernel_args *args, bool backward) {
    const char *kernel = backward ? "cross_entropy_backward" : "cross_entropy_forward";
    const uf_view *input = &args->input;
    UF_CHECK_ARG(args->outer >= 0 && args->classes >= 1 && args->inner >= 0,
                 "%s: (%" PRId64 ", %" PRId64 ", %" PRId64 ") is no shape of logits", kernel,
                 args->outer, args->classes, args->inner);
    const int64_t rows = args->outer * args->inner;
    UF_TRY(check_reduction(kernel, args->reduction));
    UF_TRY(uf_check_stored(kernel, "input", input));
    UF_TRY(uf_check_view(kernel, "input", input, false, uf_any_extent));
    UF_TRY(check_count(kernel, "input", input, rows * args->classes));
    UF_CHECK_ARG(args->target.dtype == UF_I64 && (args->target.data != NULL || rows == 0),
                 "%s: target is %s; it must be there and i64", kernel,
                 uf_dtype_name(args->target.dtype));
    UF_TRY(check_count(kernel, "target", &args->target, rows));
    UF_TRY(check_loss_value(kernel, backward ? "grad_output" : "output",
                            backward ? &args->grad_output : &args->output, args->reduction,
                            &args->target, input, !backward));
    if (!backward) {
        return UF_OK;
    }
    UF_TRY(uf_check_view(kernel, "grad_input", &args->grad_input, true, uf_any_extent));
    UF_TRY(check_count(kernel, "grad_input", &args->grad_input, rows * args->classes));
    UF_TRY(uf_check_same_type(kernel, "grad_input", &args->grad_input, "input", input));
    return uf_check_mode(kernel, args->mode);
}

uf_status uf_optimizer_check(const uf_optimizer_kernel_args *args) {
    const char *kernel = "optimizer_step";
    const uf_optimizer_rule *rule = &args->rule;
    UF_CHECK_ARG((unsigned)rule->kind <= UF_OPTIMIZER_AVERAGE, "%s: %d is no uf_optimizer_kind",
                 kernel, (int)rule->kind);
    UF_CHECK_ARG(args->control != NULL, "%s: control is NULL", kernel);
    UF_CHECK_ARG(args->count >= 0 && args->first >= 0,
                 "%s: first is %" PRId64 " and count is %" PRId64 "; they must be 0 or more",
                 kernel, args->first, args->count);
    if (args->dtype != UF_F32 && args->dtype != UF_F64) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: parameters are %s; they must be f32 or f64", kernel,
                uf_dtype_name(args->dtype));
    }
    if (args->count == 0) {
        return UF_OK;
    }
    UF_CHECK_ARG(args->parameter != NULL && args->gradient != NULL,
                 "%s: parameter or gradient is NULL", kernel);
    UF_CHECK_ARG((args->state1 != NULL) == uf_optimizer_has_state1(rule) &&
                     (args->state2 != NULL) == uf_optimizer_has_state2(rule),
                 "%s: the state is not that of the rule", kernel);
    UF_CHECK_ARG(args->copy == NULL || args->dtype == UF_F32,
                 "%s: parameters are %s; a copy in bf16 is made of f32", kernel,
                 uf_dtype_name(args->dtype));
    return UF_OK;
}

uf_status uf_clip_check(const uf_clip_kernel_args *args, bool squares) {
    const char *kernel = squares ? "gradient_squares" : "gradient_clip";
    UF_CHECK_ARG(args->count > 0 && args->gradient != NULL,
                 "%s: gradient is NULL, or count is %" PRId64 "; it must be 1 or more", kernel,
                 args->count);
    if (args->dtype != UF_F32 && args->dtype != UF_F64) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: gradients are %s; they must be f32 or f64", kernel,
                uf_dtype_name(args->dtype));
    }
    UF_CHECK_ARG(args->norm >= 0.0 && args->value >= 0.0,
                 "%s: norm is %g and value %g; they must be 0 or more", kernel, args->norm,
                 args->value);
    UF_CHECK_ARG(args->partials != NULL || (!squares && args->norm == 0.0), "%s: partials is NULL",
                 kernel);
    return uf_check_mode(kernel, args->mode);
}

uf_status uf_random_check(const uf_random_kernel_args *args) {
    UF_CHECK_ARG(args->kind == UF_RANDOM_UNIFORM || args->kind == UF_RANDOM_NORMAL,
                 "random_fill: %d is no uf_random_kind", (int)args->kind);
    UF_TRY(uf_check_real("random_fill", "output", &args->output));
    UF_TRY(uf_check_view("random_fill", "output", &args->output, true, uf_any_extent));
    return check_contiguous("random_fill", "output", &args->output);
}

uf_status uf_record_check(const uf_record_kernel_args *args) {
    UF_CHECK_ARG(args->count >= 0 && args->count <= UF_LOSS_MAX,
                 "record_losses: %" PRId32 " losses; there may be 0 to %d", args->count,
                 UF_LOSS_MAX);
    UF_CHECK_ARG(args->ring != NULL && args->step != NULL, "record_losses: ring or step is NULL");
    for (int32_t i = 0; i < args->count; ++i) {
        UF_TRY(check_scalar("record_losses", "a loss", &args->losses[i]));
    }
    return UF_OK;
}
