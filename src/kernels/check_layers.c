/* check_layers.c - the validators of kernels that layers alone call. */
#include "kernels/check.h"

#include <inttypes.h>
#include <math.h>

static const int64_t one_each[4] = {1, 1, 1, 1};

uf_status uf_softmax_check(const uf_softmax_kernel_args *args, bool backward) {
    const char *kernel = backward ? "softmax_backward" : "softmax_forward";
    const uf_view *const views[] = {&args->output, backward ? &args->grad_output : &args->input,
                                    &args->grad_input};
    const char *const names[] = {"output", backward ? "grad_output" : "input", "grad_input"};
    int64_t count = args->outer;
    UF_CHECK_ARG(args->outer >= 1 && args->extent >= 1 && args->inner >= 1 &&
                     !__builtin_mul_overflow(count, args->extent, &count) &&
                     !__builtin_mul_overflow(count, args->inner, &count),
                 "%s: %" PRId64 " by %" PRId64 " by %" PRId64
                 " elements; each must be 1 or more, and their product a number of elements",
                 kernel, args->outer, args->extent, args->inner);
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, names[0], views[0]));
    for (int i = 0; i < (backward ? 3 : 2); ++i) {
        UF_CHECK_ARG(views[i]->data != NULL, "%s: %s is absent", kernel, names[i]);
        UF_TRY(uf_check_same_type(kernel, names[i], views[i], names[0], views[0]));
        UF_CHECK_ARG(uf_view_count(views[i]) == count,
                     "%s: %s has %" PRId64 " elements, not %" PRId64, kernel, names[i],
                     uf_view_count(views[i]), count);
    }
    return UF_OK;
}

/* Views of an image kernel: grad_output and grad_input, or input and output, which agree in type,
 * images and channels. */
static uf_status check_images(const char *kernel, bool backward, const uf_view *small,
                              const uf_view *large, uf_write_mode mode) {
    const char *small_name = backward ? "grad_input" : "input";
    const char *large_name = backward ? "grad_output" : "output";
    char text[128], other[128];
    UF_TRY(uf_check_mode(kernel, mode));
    UF_TRY(uf_check_stored(kernel, small_name, small));
    UF_TRY(uf_check_same_type(kernel, large_name, large, small_name, small));
    UF_TRY(uf_check_view(kernel, small_name, small, backward, one_each));
    UF_TRY(uf_check_view(kernel, large_name, large, !backward, one_each));
    if (large->extent[0] != small->extent[0] || large->extent[1] != small->extent[1]) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s and %s is %s; images and channels must be equal",
                kernel, small_name, uf_format_view(small, text, sizeof text), large_name,
                uf_format_view(large, other, sizeof other));
    }
    return UF_OK;
}

uf_status uf_resample_check(const uf_resample_kernel_args *args, bool backward) {
    const char *kernel = backward ? "resample_backward" : "resample_forward";
    const uf_view *input = backward ? &args->grad_input : &args->input;
    const uf_view *output = backward ? &args->grad_output : &args->output;
    UF_TRY(check_images(kernel, backward, input, output, args->mode));
    for (int i = 0; i < 2; ++i) {
        const uf_resample_axis *axis = &args->axis[i];
        UF_CHECK_ARG(axis->in == input->extent[2 + i] && axis->out == output->extent[2 + i],
                     "%s: axis %d is of %" PRId64 " and %" PRId64
                     " elements, the views have %" PRId64 " and %" PRId64,
                     kernel, 2 + i, axis->in, axis->out, input->extent[2 + i],
                     output->extent[2 + i]);
        UF_CHECK_ARG(axis->numerator >= 0.0 && axis->denominator > 0.0 &&
                         isfinite(axis->numerator) && isfinite(axis->inverse),
                     "%s: axis %d is scaled by %g / %g; 0 or more and above 0 are needed", kernel,
                     2 + i, axis->numerator, axis->denominator);
    }
    return UF_OK;
}

uf_status uf_pool_check(const uf_pool_kernel_args *args, bool backward) {
    const char *kernel = backward ? "pool_backward" : "pool_forward";
    const uf_view *input = backward ? &args->grad_input : &args->input;
    const uf_view *output = backward ? &args->grad_output : &args->output;
    UF_CHECK_ARG((unsigned)args->kind <= UF_POOL_AVERAGE, "%s: %d is no uf_pool_kind", kernel,
                 (int)args->kind);
    UF_TRY(check_images(kernel, backward, input, output, args->mode));
    if (backward && args->kind == UF_POOL_MAX) {
        UF_TRY(uf_check_same_type(kernel, "input", &args->input, "grad_input", input));
        UF_TRY(uf_check_same_shape(kernel, "input", &args->input, "grad_input", input));
        UF_TRY(uf_check_same_type(kernel, "output", &args->output, "grad_output", output));
        UF_TRY(uf_check_same_shape(kernel, "output", &args->output, "grad_output", output));
    }
    for (int i = 0; i < 2; ++i) {
        const uf_pool_axis *axis = &args->axis[i];
        UF_CHECK_ARG(axis->in == input->extent[2 + i] && axis->out == output->extent[2 + i],
                     "%s: axis %d is of %" PRId64 " and %" PRId64
                     " elements, the views have %" PRId64 " and %" PRId64,
                     kernel, 2 + i, axis->in, axis->out, input->extent[2 + i],
                     output->extent[2 + i]);
        UF_CHECK_ARG(axis->kernel >= 1 && axis->stride >= 1 && axis->padding >= 0 &&
                         axis->dilation >= 1 && (args->kind == UF_POOL_MAX || axis->dilation == 1),
                     "%s: axis %d has kernel %" PRId64 ", stride %" PRId64 ", padding %" PRId64
                     ", dilation %" PRId64,
                     kernel, 2 + i, axis->kernel, axis->stride, axis->padding, axis->dilation);
    }
    return UF_OK;
}

uf_status uf_activation_double_check(const uf_activation_double_kernel_args *args) {
    const char *kernel = "activation_double_backward";
    const struct {
        const char *name;
        const uf_view *view;
    } views[] = {{"source", &args->source},
                 {"grad_output", &args->grad_output},
                 {"grad", &args->grad},
                 {"grad_source", &args->grad_source}};
    UF_CHECK_ARG(uf_activation_is_curved(args->activation.kind),
                 "%s: uf_activation_kind %d has no second derivative other than 0", kernel,
                 (int)args->activation.kind);
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, "source", &args->source));
    for (size_t i = 0; i < sizeof views / sizeof views[0]; ++i) {
        const bool written = views[i].view == &args->grad_source;
        UF_TRY(uf_check_view(kernel, views[i].name, views[i].view, written, uf_any_extent));
        UF_TRY(uf_check_same_type(kernel, views[i].name, views[i].view, "source", &args->source));
        UF_TRY(uf_check_same_shape(kernel, views[i].name, views[i].view, "source", &args->source));
    }
    return UF_OK;
}
