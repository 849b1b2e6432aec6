/* check.c - are a kernel's arguments legal, on any device? Layers and the plain door have validated
 * what their users said, in their users' words; this is the last line before the arithmetic. */
#include "kernels/check.h"

#include <inttypes.h>
#include <string.h>

/* Sizes and offsets below this leave room to add and to multiply by an element's size. */
#define SIZE_LIMIT (INT64_C(1) << 58)

const char *uf_format_view(const uf_view *view, char *text, size_t size) {
    const uf_shape shape = uf_shape_from(view->extent, 4);
    return uf_shape_format(&shape, text, size);
}

/* Extents of `least` (4 of them) or more, strides >= 0 (>= 1 where a written view has several
 * elements), and no offset that overflows. */
uf_status uf_check_view(const char *kernel, const char *name, const uf_view *view, bool written,
                        const int64_t *least) {
    char text[128];
    int64_t count = 1;
    int64_t reach = 0;
    for (int i = 0; i < 4; ++i) {
        const int64_t extent = view->extent[i];
        const int64_t stride = view->stride[i];
        UF_CHECK_ARG(extent >= least[i], "%s: %s is %s; extent %d must be %" PRId64 " or more",
                     kernel, name, uf_format_view(view, text, sizeof text), i, least[i]);
        UF_CHECK_ARG(stride >= (written && extent > 1 ? 1 : 0),
                     "%s: stride %d of %s is %" PRId64 "; it must be %d or more", kernel, i, name,
                     stride, written && extent > 1 ? 1 : 0);
        int64_t span;
        UF_CHECK_ARG(!uf_mul_overflows(count, extent > 0 ? extent : 1, &count) &&
                         count < SIZE_LIMIT,
                     "%s: %s is %s, more elements than can be addressed", kernel, name,
                     uf_format_view(view, text, sizeof text));
        UF_CHECK_ARG(!uf_mul_overflows(extent > 0 ? extent - 1 : 0, stride, &span) &&
                         span < SIZE_LIMIT && (reach += span) < SIZE_LIMIT,
                     "%s: %s is %s with stride %" PRId64
                     " in extent %d, more than can be addressed",
                     kernel, name, uf_format_view(view, text, sizeof text), stride, i);
    }
    return UF_OK;
}

const int64_t uf_any_batch[4] = {0, 1, 1, 1};
const int64_t uf_any_extent[4] = {0, 0, 0, 0};

uf_status uf_check_real(const char *kernel, const char *name, const uf_view *view) {
    if (view->dtype != UF_F32 && view->dtype != UF_F64) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: %s is %s; it must be f32 or f64", kernel, name,
                uf_dtype_name(view->dtype));
    }
    return UF_OK;
}

uf_status uf_check_stored(const char *kernel, const char *name, const uf_view *view) {
    if (view->dtype != UF_F32 && view->dtype != UF_F64 && view->dtype != UF_BF16) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: %s is %s; it must be f32, f64 or bf16", kernel, name,
                uf_dtype_name(view->dtype));
    }
    return UF_OK;
}

uf_status uf_check_same_type(const char *kernel, const char *name, const uf_view *view,
                             const char *other_name, const uf_view *other) {
    UF_CHECK_ARG(view->dtype == other->dtype,
                 "%s: %s is %s, %s is %s; they must have one element type", kernel, name,
                 uf_dtype_name(view->dtype), other_name, uf_dtype_name(other->dtype));
    return UF_OK;
}

uf_status uf_check_parameter_type(const char *kernel, const char *name, const uf_view *view,
                                  const char *other_name, const uf_view *other) {
    return view->dtype == UF_F32 && other->dtype == UF_BF16
               ? UF_OK
               : uf_check_same_type(kernel, name, view, other_name, other);
}

uf_status uf_check_same_shape(const char *kernel, const char *name, const uf_view *view,
                              const char *other_name, const uf_view *other) {
    char text[128], other_text[128];
    if (memcmp(view->extent, other->extent, sizeof view->extent) != 0) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s, %s is %s; they must be the same", kernel, name,
                uf_format_view(view, text, sizeof text), other_name,
                uf_format_view(other, other_text, sizeof other_text));
    }
    return UF_OK;
}

/* A view of one element per channel; absent ones pass. */
uf_status uf_check_channels(const char *kernel, const char *name, const uf_view *view,
                            int64_t channels, const char *other_name, const uf_view *other) {
    char text[128];
    if (view->data == NULL) {
        return UF_OK;
    }
    UF_TRY(uf_check_same_type(kernel, name, view, other_name, other));
    if (view->extent[0] != 1 || view->extent[1] != channels || view->extent[2] != 1 ||
        view->extent[3] != 1) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s; it must be (1, %" PRId64 ", 1, 1)", kernel, name,
                uf_format_view(view, text, sizeof text), channels);
    }
    int64_t reach;
    UF_CHECK_ARG(view->stride[1] >= 0 && !uf_mul_overflows(channels, view->stride[1], &reach) &&
                     reach < SIZE_LIMIT,
                 "%s: stride 1 of %s is %" PRId64
                 "; it must be 0 or more, and reach no further than can be addressed",
                 kernel, name, view->stride[1]);
    return UF_OK;
}

static uf_status check_activation(const char *kernel, const uf_activation *activation) {
    UF_CHECK_ARG((unsigned)activation->kind < UF_ACTIVATION_COUNT,
                 "%s: %d is no uf_activation_kind", kernel, (int)activation->kind);
    return UF_OK;
}

uf_status uf_check_fused_activation(const char *kernel, const uf_activation *activation) {
    UF_TRY(check_activation(kernel, activation));
    UF_CHECK_ARG(!uf_activation_has_maximum(activation->kind),
                 "%s: the activation is %s, which has a maximum; only uf_activation_forward and "
                 "uf_activation_backward take it",
                 kernel, activation->kind == UF_ACTIVATION_CLAMP ? "CLAMP" : "HARDTANH");
    return UF_OK;
}

uf_status uf_check_mode(const char *kernel, uf_write_mode mode) {
    UF_CHECK_ARG(mode == UF_OVERWRITE || mode == UF_ACCUMULATE, "%s: %d is no uf_write_mode",
                 kernel, (int)mode);
    return UF_OK;
}

/* The large side's extent that one axis of the small side reaches, least and most. */
static uf_status check_conv_axis(const char *kernel, const uf_conv_kernel_args *args, int axis) {
    static const char *const axis_names[2] = {"height", "width"};
    const int64_t stride = args->stride[axis];
    const int64_t padding = args->padding[axis];
    const int64_t dilation = args->dilation[axis];
    const int64_t large = args->x.extent[2 + axis];
    const int64_t small = args->y.extent[2 + axis];
    int64_t reach, taps;
    UF_CHECK_ARG(stride >= 1 && dilation >= 1 && padding >= 0,
                 "%s: stride %" PRId64 " and dilation %" PRId64
                 " must be 1 or more, padding %" PRId64 " must be 0 or more (%s)",
                 kernel, stride, dilation, padding, axis_names[axis]);
    UF_CHECK_ARG(stride < SIZE_LIMIT && padding < SIZE_LIMIT &&
                     !uf_mul_overflows(small - 1, stride, &reach) && reach < SIZE_LIMIT &&
                     !uf_mul_overflows(args->w.extent[2 + axis] - 1, dilation, &taps) &&
                     taps < SIZE_LIMIT && dilation < SIZE_LIMIT,
                 "%s: the %s is larger than can be addressed", kernel, axis_names[axis]);
    const int64_t least = reach - 2 * padding + taps + 1;
    const int64_t spare = (stride > dilation ? stride : dilation) - 1;
    if (large < least || large > least + spare) {
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: the %s is %" PRId64 " on the small side and %" PRId64
                " on the large side; with stride %" PRId64 ", padding %" PRId64
                ", dilation %" PRId64 " and a kernel of %" PRId64 " the large side is %" PRId64
                " to %" PRId64,
                kernel, axis_names[axis], small, large, stride, padding, dilation,
                args->w.extent[2 + axis], least, least + spare);
    }
    return UF_OK;
}

uf_status uf_conv_check(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    static const char *const names[] = {"conv_fprop", "conv_dgrad", "conv_wgrad"};
    const char *kernel = names[direction];
    UF_TRY(uf_check_stored(kernel, "x", &args->x));
    if (direction == UF_CONV_WGRAD) {
        UF_TRY(uf_check_parameter_type(kernel, "w", &args->w, "x", &args->x));
    } else {
        UF_TRY(uf_check_same_type(kernel, "w", &args->w, "x", &args->x));
    }
    UF_TRY(uf_check_same_type(kernel, "y", &args->y, "x", &args->x));
    UF_TRY(uf_check_view(kernel, "x", &args->x, direction == UF_CONV_DGRAD, uf_any_batch));
    UF_TRY(uf_check_view(kernel, "y", &args->y, direction == UF_CONV_FPROP, uf_any_batch));
    static const int64_t ones[4] = {1, 1, 1, 1};
    UF_TRY(uf_check_view(kernel, "w", &args->w, direction == UF_CONV_WGRAD, ones));
    UF_CHECK_ARG(args->groups >= 1, "%s: groups is %" PRId64 "; it must be 1 or more", kernel,
                 args->groups);
    if (args->x.extent[0] != args->y.extent[0] || args->w.extent[0] != args->y.extent[1] ||
        args->x.extent[1] % args->groups != 0 || args->y.extent[1] % args->groups != 0 ||
        args->w.extent[1] != args->x.extent[1] / args->groups) {
        char x[128], w[128], y[128];
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: x is %s, w is %s, y is %s with %" PRId64
                " groups; they must be (N, C, H, W), (K, C/groups, R, S) and (N, K, P, Q)",
                kernel, uf_format_view(&args->x, x, sizeof x),
                uf_format_view(&args->w, w, sizeof w), uf_format_view(&args->y, y, sizeof y),
                args->groups);
    }
    for (int axis = 0; axis < 2; ++axis) {
        UF_TRY(check_conv_axis(kernel, args, axis));
    }
    UF_CHECK_ARG((unsigned)args->math <= UF_MATH_BF16, "%s: %d is no uf_math", kernel,
                 (int)args->math);
    UF_TRY(uf_check_mode(kernel, args->mode));
    const uf_epilogue *epilogue = &args->epilogue;
    UF_TRY(uf_check_fused_activation(kernel, &epilogue->activation));
    const bool empty = epilogue->scale.data == NULL && epilogue->shift.data == NULL &&
                       epilogue->activation.kind == UF_ACTIVATION_IDENTITY;
    UF_CHECK_ARG(empty || direction != UF_CONV_WGRAD, "%s: it takes no epilogue", kernel);
    UF_CHECK_ARG(empty || args->mode == UF_OVERWRITE,
                 "%s: ACCUMULATE takes no scale, no shift and no activation", kernel);
    const int64_t channels = direction == UF_CONV_DGRAD ? args->x.extent[1] : args->y.extent[1];
    UF_TRY(uf_check_channels(kernel, "scale", &epilogue->scale, channels, "x", &args->x));
    UF_TRY(uf_check_channels(kernel, "shift", &epilogue->shift, channels, "x", &args->x));
    return UF_OK;
}

uf_status uf_activation_check(const uf_activation_kernel_args *args, bool backward) {
    const char *kernel = backward ? "activation_backward" : "activation_forward";
    UF_TRY(check_activation(kernel, &args->activation));
    UF_CHECK_ARG(!uf_activation_has_maximum(args->activation.kind) ||
                     args->activation.parameter <= args->maximum,
                 "%s: the minimum is %g, the maximum %g; the minimum must not be above it", kernel,
                 args->activation.parameter, args->maximum);
    if (!backward) {
        UF_TRY(uf_check_stored(kernel, "input", &args->input));
        UF_TRY(uf_check_view(kernel, "input", &args->input, false, uf_any_extent));
        UF_TRY(uf_check_view(kernel, "output", &args->output, true, uf_any_extent));
        UF_TRY(uf_check_same_type(kernel, "output", &args->output, "input", &args->input));
        return uf_check_same_shape(kernel, "output", &args->output, "input", &args->input);
    }
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, "grad_output", &args->grad_output));
    UF_TRY(uf_check_view(kernel, "grad_output", &args->grad_output, false, uf_any_extent));
    UF_TRY(uf_check_view(kernel, "grad_input", &args->grad_input, true, uf_any_extent));
    const uf_activation_read reads = uf_activation_reads(args->activation.kind);
    const struct {
        const char *name;
        const uf_view *view;
        bool needed;
    } others[] = {
        {"grad_input", &args->grad_input, true},
        {"input", &args->input, reads == UF_READS_INPUT || reads == UF_READS_SIGN},
        {"output", &args->output, reads == UF_READS_RESULT},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        if (!others[i].needed) {
            continue;
        }
        UF_TRY(uf_check_view(kernel, others[i].name, others[i].view, i == 0, uf_any_extent));
        UF_TRY(uf_check_same_type(kernel, others[i].name, others[i].view, "grad_output",
                                  &args->grad_output));
        UF_TRY(uf_check_same_shape(kernel, others[i].name, others[i].view, "grad_output",
                                   &args->grad_output));
    }
    return UF_OK;
}

uf_status uf_batch_norm_check(const uf_batch_norm_kernel_args *args, bool backward) {
    const char *kernel = backward ? "batch_norm_backward" : "batch_norm_forward";
    const uf_view *input = &args->input;
    const int64_t channels = input->extent[1];
    UF_TRY(uf_check_stored(kernel, "input", input));
    UF_TRY(uf_check_view(kernel, "input", input, false, uf_any_extent));
    const uf_view parameter = {.dtype = input->dtype == UF_F64 ? UF_F64 : UF_F32};
    const struct {
        const char *name;
        const uf_view *view;
    } per_channel[] = {
        {"weight", &args->weight},
        {"bias", &args->bias},
        {"running_mean", &args->running_mean},
        {"running_var", &args->running_var},
        {"grad_weight", &args->grad_weight},
        {"grad_bias", &args->grad_bias},
    };
    for (size_t i = 0; i < sizeof per_channel / sizeof per_channel[0]; ++i) {
        UF_TRY(uf_check_channels(kernel, per_channel[i].name, per_channel[i].view, channels,
                                 "its type for such an input", &parameter));
    }
    const uf_view statistic = {.dtype = UF_F64};
    UF_TRY(uf_check_channels(kernel, "save_mean", &args->save_mean, channels, "a saved statistic",
                             &statistic));
    UF_TRY(uf_check_channels(kernel, "save_invstd", &args->save_invstd, channels,
                             "a saved statistic", &statistic));
    UF_CHECK_ARG(args->eps >= 0.0, "%s: eps is %g; it must be 0 or more", kernel, args->eps);
    UF_CHECK_ARG(!args->training || input->extent[0] * input->extent[2] * input->extent[3] != 1,
                 "%s: expected more than 1 value per channel when training, the input has 1",
                 kernel);
    UF_TRY(uf_check_fused_activation(kernel, &args->activation));
    if (!backward) {
        UF_TRY(uf_check_view(kernel, "output", &args->output, true, uf_any_extent));
        UF_TRY(uf_check_same_type(kernel, "output", &args->output, "input", input));
        UF_TRY(uf_check_same_shape(kernel, "output", &args->output, "input", input));
        UF_CHECK_ARG(args->training ||
                         (args->running_mean.data != NULL && args->running_var.data != NULL),
                     "%s: running_mean and running_var are needed when not training", kernel);
        return UF_OK;
    }
    const bool saved = args->save_mean.data != NULL && args->save_invstd.data != NULL;
    const bool running = args->running_mean.data != NULL && args->running_var.data != NULL;
    UF_CHECK_ARG(args->training ? saved : running, "%s: %s are needed", kernel,
                 args->training ? "save_mean and save_invstd" : "running_mean and running_var");
    UF_TRY(uf_check_mode(kernel, args->grad_input_mode));
    UF_TRY(uf_check_mode(kernel, args->grad_param_mode));
    UF_TRY(uf_check_view(kernel, "grad_output", &args->grad_output, false, uf_any_extent));
    UF_TRY(uf_check_same_type(kernel, "grad_output", &args->grad_output, "input", input));
    UF_TRY(uf_check_same_shape(kernel, "grad_output", &args->grad_output, "input", input));
    if (args->grad_input.data != NULL) {
        UF_TRY(uf_check_view(kernel, "grad_input", &args->grad_input, true, uf_any_extent));
        UF_TRY(uf_check_same_type(kernel, "grad_input", &args->grad_input, "input", input));
        UF_TRY(uf_check_same_shape(kernel, "grad_input", &args->grad_input, "input", input));
    }
    return UF_OK;
}

uf_status uf_pad_check(const uf_pad_kernel_args *args, bool backward) {
    const char *kernel = backward ? "pad_backward" : "pad_forward";
    const uf_view *small = backward ? &args->grad_input : &args->input;
    const uf_view *large = backward ? &args->grad_output : &args->output;
    const char *small_name = backward ? "grad_input" : "input";
    const char *large_name = backward ? "grad_output" : "output";
    UF_CHECK_ARG((unsigned)args->pad_mode <= UF_PAD_REFLECT, "%s: %d is no uf_pad_mode", kernel,
                 (int)args->pad_mode);
    if (backward) {
        UF_TRY(uf_check_mode(kernel, args->mode));
    }
    const int64_t one_pixel[4] = {0, 0, args->pad_mode != UF_PAD_ZERO,
                                  args->pad_mode != UF_PAD_ZERO};
    UF_TRY(uf_check_stored(kernel, small_name, small));
    UF_TRY(uf_check_same_type(kernel, large_name, large, small_name, small));
    UF_TRY(uf_check_view(kernel, small_name, small, backward, one_pixel));
    UF_TRY(uf_check_view(kernel, large_name, large, !backward, uf_any_extent));
    const int64_t amounts[4] = {args->top, args->bottom, args->left, args->right};
    for (int i = 0; i < 4; ++i) {
        const int64_t extent = small->extent[2 + i / 2];
        UF_CHECK_ARG(amounts[i] >= 0 && amounts[i] < SIZE_LIMIT,
                     "%s: amounts are %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                     " (left, right, top, bottom); they must be 0 or more",
                     kernel, args->left, args->right, args->top, args->bottom);
        UF_CHECK_ARG(args->pad_mode != UF_PAD_REFLECT || amounts[i] < extent,
                     "%s: reflection by %" PRId64
                     " needs an extent larger than that, the %s has %" PRId64,
                     kernel, amounts[i], small_name, extent);
    }
    if (large->extent[0] != small->extent[0] || large->extent[1] != small->extent[1] ||
        large->extent[2] != small->extent[2] + args->top + args->bottom ||
        large->extent[3] != small->extent[3] + args->left + args->right) {
        char text[128];
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: %s is %s; it must be (%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ")",
                kernel, large_name, uf_format_view(large, text, sizeof text), small->extent[0],
                small->extent[1], small->extent[2] + args->top + args->bottom,
                small->extent[3] + args->left + args->right);
    }
    return UF_OK;
}
