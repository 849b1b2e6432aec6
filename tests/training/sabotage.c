/* sabotage.c - see sabotage.h. Everything here works on f64 in host memory, as uf_gradcheck
 * computes. */
#include "sabotage.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

static const sabotage *active;
static struct uf_kernels spoiled;
static int64_t hits;

/* ---- conv_fprop, conv_dgrad, conv_wgrad ---- */

static uf_status real_conv(uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    const struct uf_kernels *real = context->device->kernels;
    return direction == UF_CONV_FPROP   ? real->conv_fprop(context, args)
           : direction == UF_CONV_DGRAD ? real->conv_dgrad(context, args)
                                        : real->conv_wgrad(context, args);
}

static const uf_view *written(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return direction == UF_CONV_FPROP ? &args->y : direction == UF_CONV_DGRAD ? &args->x : &args->w;
}

/* The kernel on a changed copy of one operand: 'x', 'w' or 'y'. A written operand is changed
 * afterwards. */
static uf_status conv_with(uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args, char operand, sabotage_change what) {
    uf_conv_kernel_args bad = *args;
    uf_view *view = operand == 'x' ? &bad.x : operand == 'w' ? &bad.w : &bad.y;
    if (view->data == written(direction, args)->data) {
        const uf_status status = real_conv(context, direction, args);
        sabotage_alter(view, what);
        return status;
    }
    *view = sabotage_clone(view);
    sabotage_alter(view, what);
    const uf_status status = real_conv(context, direction, &bad);
    free(view->data);
    return status;
}

#define CONV_DEFECT(name, operand, what)                                                           \
    static uf_status name(uf_context *context, uf_conv_direction direction,                        \
                          const uf_conv_kernel_args *args) {                                       \
        return conv_with(context, direction, args, operand, what);                                 \
    }
CONV_DEFECT(conv_flipped, 'w', MIRROR)
CONV_DEFECT(conv_transposed, 'w', TRANSPOSE)
CONV_DEFECT(conv_roles, 'w', EXCHANGE)
CONV_DEFECT(conv_no_tap, 'w', NO_TAP)
CONV_DEFECT(conv_group, 'w', ROTATE_HALF)
CONV_DEFECT(conv_phase_column, 'x', SHIFT_COLUMN)
CONV_DEFECT(conv_phase_row, 'x', SHIFT_ROW)
CONV_DEFECT(conv_small_phase, 'y', SHIFT_COLUMN)
CONV_DEFECT(conv_no_edge, 'x', NO_COLUMN)
CONV_DEFECT(conv_no_phase, 'x', NO_PHASE)
CONV_DEFECT(conv_no_channel, 'x', NO_CHANNEL)
CONV_DEFECT(conv_no_small_channel, 'y', NO_CHANNEL)
CONV_DEFECT(conv_no_image, 'y', NO_IMAGE)
CONV_DEFECT(conv_no_large_image, 'x', NO_IMAGE)

static uf_status conv_sign(uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    const uf_status status = real_conv(context, direction, args);
    sabotage_scale(written(direction, args), -1.0);
    return status;
}

static uf_status conv_nudged(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args) {
    const uf_status status = real_conv(context, direction, args);
    sabotage_nudge(written(direction, args));
    return status;
}

static uf_status conv_overwrites(uf_context *context, uf_conv_direction direction,
                                 const uf_conv_kernel_args *args) {
    uf_conv_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_conv(context, direction, &bad);
}

/* ---- channel_sum ---- */

static uf_status sum_with(uf_context *context, const uf_channel_sum_kernel_args *args,
                          sabotage_change what) {
    uf_channel_sum_kernel_args bad = *args;
    bad.input = sabotage_clone(&args->input);
    sabotage_alter(&bad.input, what);
    const uf_status status = context->device->kernels->channel_sum(context, &bad);
    free(bad.input.data);
    return status;
}

static uf_status sum_no_image(uf_context *context, const uf_channel_sum_kernel_args *args) {
    return sum_with(context, args, NO_IMAGE);
}

static uf_status sum_no_column(uf_context *context, const uf_channel_sum_kernel_args *args) {
    return sum_with(context, args, NO_COLUMN);
}

static uf_status sum_other_channel(uf_context *context, const uf_channel_sum_kernel_args *args) {
    return sum_with(context, args, ROTATE_CHANNEL);
}

static uf_status sum_sign(uf_context *context, const uf_channel_sum_kernel_args *args) {
    const uf_status status = context->device->kernels->channel_sum(context, args);
    sabotage_scale(&args->output, -1.0);
    return status;
}

static uf_status sum_is_mean(uf_context *context, const uf_channel_sum_kernel_args *args) {
    const uf_status status = context->device->kernels->channel_sum(context, args);
    sabotage_scale(&args->output,
                   (double)args->output.extent[1] / (double)uf_view_count(&args->input));
    return status;
}

static uf_status sum_overwrites(uf_context *context, const uf_channel_sum_kernel_args *args) {
    uf_channel_sum_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return context->device->kernels->channel_sum(context, &bad);
}

/* ---- activation_backward ---- */

static uf_status activation_sign(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_status status = context->device->kernels->activation_backward(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status activation_no_derivative(uf_context *context,
                                          const uf_activation_kernel_args *args) {
    (void)context;
    EACH(&args->grad_input, n, c, h, w) {
        *sabotage_element(&args->grad_input, n, c, h, w) =
            *sabotage_element(&args->grad_output, n, c, h, w);
    }
    return UF_OK;
}

static uf_status activation_no_upstream(uf_context *context,
                                        const uf_activation_kernel_args *args) {
    const uf_status status = context->device->kernels->activation_backward(context, args);
    EACH(&args->grad_input, n, c, h, w) {
        *sabotage_element(&args->grad_input, n, c, h, w) /=
            *sabotage_element(&args->grad_output, n, c, h, w);
    }
    return status;
}

static uf_status activation_slope(uf_context *context, const uf_activation_kernel_args *args) {
    uf_activation_kernel_args bad = *args;
    bad.activation.parameter += 0.01;
    return context->device->kernels->activation_backward(context, &bad);
}

static uf_status activation_of_another(uf_context *context, const uf_activation_kernel_args *args) {
    uf_activation_kernel_args bad = *args;
    bad.activation.kind =
        args->activation.kind == UF_ACTIVATION_TANH ? UF_ACTIVATION_SIGMOID : UF_ACTIVATION_TANH;
    return context->device->kernels->activation_backward(context, &bad);
}

static uf_status activation_no_tail(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_status status = context->device->kernels->activation_backward(context, args);
    sabotage_alter(&args->grad_input, NO_COLUMN);
    return status;
}

static uf_status activation_nudged(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_status status = context->device->kernels->activation_backward(context, args);
    sabotage_nudge(&args->grad_input);
    return status;
}

static uf_status activation_overwrites(uf_context *context, const uf_activation_kernel_args *args) {
    uf_activation_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return context->device->kernels->activation_backward(context, &bad);
}

/* ---- batch_norm_backward, spelled out so that its terms can be left away one by one ---- */

typedef struct norm_flaw {
    bool no_mean, no_projection, no_weight, biased_count, no_centering, no_image, evaluated;
} norm_flaw;

static uf_status flawed_norm(const uf_batch_norm_kernel_args *args, norm_flaw flaw) {
    const uf_view *x = &args->input, *dy = &args->grad_output;
    const int64_t images = x->extent[0] - (flaw.no_image ? 1 : 0);
    const double count =
        (double)(x->extent[0] * x->extent[2] * x->extent[3]) - (flaw.biased_count ? 1.0 : 0.0);
    for (int64_t c = 0; c < x->extent[1]; ++c) {
        const double mean = ((const double *)args->save_mean.data)[c];
        const double invstd = ((const double *)args->save_invstd.data)[c];
        const double weight = flaw.no_weight ? 1.0 : ((const double *)args->weight.data)[c];
        double sum = 0.0, dot = 0.0;
        EACH(x, n, k, h, w) {
            if (k == c && n < images) {
                sum += *sabotage_element(dy, n, c, h, w);
                dot += *sabotage_element(dy, n, c, h, w) *
                       (*sabotage_element(x, n, c, h, w) - (flaw.no_centering ? 0.0 : mean)) *
                       invstd;
            }
        }
        ((double *)args->grad_bias.data)[c] = sum;
        ((double *)args->grad_weight.data)[c] = dot;
        EACH(x, n, k, h, w) {
            if (k == c) {
                const double normal = (*sabotage_element(x, n, c, h, w) - mean) * invstd;
                double value = *sabotage_element(dy, n, c, h, w);
                value -= flaw.no_mean || flaw.evaluated ? 0.0 : sum / count;
                value -= flaw.no_projection || flaw.evaluated ? 0.0 : normal * dot / count;
                *sabotage_element(&args->grad_input, n, c, h, w) = value * weight * invstd;
            }
        }
    }
    return UF_OK;
}

#define NORM_DEFECT(name, ...)                                                                     \
    static uf_status name(uf_context *context, const uf_batch_norm_kernel_args *args) {            \
        (void)context;                                                                             \
        return flawed_norm(args, (norm_flaw){__VA_ARGS__});                                        \
    }
NORM_DEFECT(norm_no_mean, .no_mean = true)
NORM_DEFECT(norm_no_projection, .no_projection = true)
NORM_DEFECT(norm_no_weight, .no_weight = true)
NORM_DEFECT(norm_biased_count, .biased_count = true)
NORM_DEFECT(norm_no_centering, .no_centering = true)
NORM_DEFECT(norm_no_image, .no_image = true)
NORM_DEFECT(norm_evaluated, .evaluated = true)

/* The same formula without a flaw: the control of the flaws above. */
static uf_status norm_right(uf_context *context, const uf_batch_norm_kernel_args *args) {
    (void)context;
    return flawed_norm(args, (norm_flaw){.no_mean = false});
}

static uf_status real_norm(uf_context *context, const uf_batch_norm_kernel_args *args) {
    return context->device->kernels->batch_norm_backward(context, args);
}

static uf_status norm_sign(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status norm_weight_sign(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_weight, -1.0);
    return status;
}

static uf_status norm_bias_sign(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_bias, -1.0);
    return status;
}

static uf_status norm_other_channel(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_alter(&args->grad_weight, ROTATE_CHANNEL);
    return status;
}

static uf_status norm_no_activation(uf_context *context, const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args bad = *args;
    bad.activation.kind = UF_ACTIVATION_IDENTITY;
    return real_norm(context, &bad);
}

static uf_status norm_other_activation(uf_context *context, const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args bad = *args;
    bad.activation.kind = UF_ACTIVATION_SIGMOID;
    return real_norm(context, &bad);
}

/* The derivative of tanh at what goes into the norm in place of what comes out. */
static uf_status norm_activation_of_input(uf_context *context,
                                          const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args bad = *args;
    bad.activation.kind = UF_ACTIVATION_IDENTITY;
    bad.grad_output = sabotage_clone(&args->grad_output);
    EACH(&bad.grad_output, n, c, h, w) {
        const double y = tanh(*sabotage_element(&args->input, n, c, h, w));
        *sabotage_element(&bad.grad_output, n, c, h, w) *= 1.0 - y * y;
    }
    const uf_status status = real_norm(context, &bad);
    free(bad.grad_output.data);
    return status;
}

static uf_status norm_overwrites(uf_context *context, const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args bad = *args;
    bad.grad_input_mode = UF_OVERWRITE;
    return real_norm(context, &bad);
}

static uf_status norm_overwrites_parameters(uf_context *context,
                                            const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args bad = *args;
    bad.grad_param_mode = UF_OVERWRITE;
    return real_norm(context, &bad);
}

/* ---- pad_backward ---- */

static uf_status real_pad(uf_context *context, const uf_pad_kernel_args *args) {
    return context->device->kernels->pad_backward(context, args);
}

static uf_status pad_sign(uf_context *context, const uf_pad_kernel_args *args) {
    const uf_status status = real_pad(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

/* Only what lies inside: the copies at the edges are forgotten. */
static uf_status pad_no_edge(uf_context *context, const uf_pad_kernel_args *args) {
    uf_pad_kernel_args bad = *args;
    bad.pad_mode = UF_PAD_ZERO;
    return real_pad(context, &bad);
}

static uf_status pad_exchanged(uf_context *context, const uf_pad_kernel_args *args) {
    uf_pad_kernel_args bad = *args;
    bad.left = args->right;
    bad.right = args->left;
    return real_pad(context, &bad);
}

static uf_status pad_shifted(uf_context *context, const uf_pad_kernel_args *args) {
    uf_pad_kernel_args bad = *args;
    bad.top += 1;
    bad.bottom -= 1;
    return real_pad(context, &bad);
}

static uf_status pad_other_mode(uf_context *context, const uf_pad_kernel_args *args) {
    uf_pad_kernel_args bad = *args;
    bad.pad_mode = args->pad_mode == UF_PAD_REFLECT ? UF_PAD_REPLICATE : UF_PAD_REFLECT;
    return real_pad(context, &bad);
}

static uf_status pad_overwrites(uf_context *context, const uf_pad_kernel_args *args) {
    uf_pad_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_pad(context, &bad);
}

/* ---- copy: in backward, see is_backward_copy ---- */

static uf_status real_copy(uf_context *context, const uf_copy_kernel_args *args) {
    return context->device->kernels->copy(context, args);
}

static uf_status copy_sign(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_status status = real_copy(context, args);
    sabotage_scale(&args->output, -1.0);
    return status;
}

static uf_status copy_reversed(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_status status = real_copy(context, args);
    sabotage_alter(&args->output, MIRROR);
    return status;
}

static uf_status copy_other_channel(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_status status = real_copy(context, args);
    sabotage_alter(&args->output, ROTATE_CHANNEL);
    return status;
}

static uf_status copy_no_image(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_status status = real_copy(context, args);
    sabotage_alter(&args->output, NO_IMAGE);
    return status;
}

static uf_status copy_overwrites(uf_context *context, const uf_copy_kernel_args *args) {
    uf_copy_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_copy(context, &bad);
}

/* ---- loss_backward ---- */

static uf_status real_loss(uf_context *context, const uf_loss_kernel_args *args) {
    return context->device->kernels->loss_backward(context, args);
}

static uf_status loss_sign(uf_context *context, const uf_loss_kernel_args *args) {
    const uf_status status = real_loss(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status loss_is_sum(uf_context *context, const uf_loss_kernel_args *args) {
    const uf_status status = real_loss(context, args);
    sabotage_scale(&args->grad_input, (double)uf_view_count(&args->input));
    return status;
}

static uf_status loss_no_upstream(uf_context *context, const uf_loss_kernel_args *args) {
    const uf_status status = real_loss(context, args);
    sabotage_scale(&args->grad_input, 1.0 / *(const double *)args->grad_output.data);
    return status;
}

static uf_status loss_of_another(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.kind = args->kind == UF_LOSS_MSE ? UF_LOSS_L1 : UF_LOSS_MSE;
    return real_loss(context, &bad);
}

static uf_status loss_other_target(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.target = sabotage_clone(&args->target);
    EACH(&bad.target, n, c, h, w) {
        *sabotage_element(&bad.target, n, c, h, w) =
            1.0 - *sabotage_element(&args->target, n, c, h, w);
    }
    const uf_status status = real_loss(context, &bad);
    free(bad.target.data);
    return status;
}

static uf_status loss_no_image(uf_context *context, const uf_loss_kernel_args *args) {
    const uf_status status = real_loss(context, args);
    sabotage_alter(&args->grad_input, NO_IMAGE);
    return status;
}

static uf_status loss_overwrites(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_loss(context, &bad);
}

/* ---- the table ---- */

#define CONV(text, where, way, what)                                                               \
    { .name = text, .graph = where, .direction = way, .conv = what }
#define SUM(text, where, what)                                                                     \
    { .name = text, .graph = where, .channel_sum = what }
#define ACTIVATION(text, where, what)                                                              \
    { .name = text, .graph = where, .activation = what }
#define NORM(text, where, what)                                                                    \
    { .name = text, .graph = where, .batch_norm = what }
#define PAD(text, where, what)                                                                     \
    { .name = text, .graph = where, .pad = what }
#define COPY(text, where, what)                                                                    \
    { .name = text, .graph = where, .copy = what }
#define LOSS(text, where, what)                                                                    \
    { .name = text, .graph = where, .loss = what }

/* The defects that all three directions can have. */
#define CONV_ALL(kernel, where, groups, twice, way)                                                \
    CONV(kernel ": wrong sign", where, way, conv_sign),                                            \
        CONV(kernel ": one element wrong by 1%", where, way, conv_nudged),                         \
        CONV(kernel ": flipped kernel", where, way, conv_flipped),                                 \
        CONV(kernel ": rows and columns of the kernel exchanged", where, way, conv_transposed),    \
        CONV(kernel ": channels of the kernel exchanged", where, way, conv_roles),                 \
        CONV(kernel ": the last tap missing", where, way, conv_no_tap),                            \
        CONV(kernel ": another group's weights", groups, way, conv_group),                         \
        CONV(kernel ": columns off by one", where, way, conv_phase_column),                        \
        CONV(kernel ": rows off by one", where, way, conv_phase_row),                              \
        CONV(kernel ": the small side off by one", where, way, conv_small_phase),                  \
        CONV(kernel ": the last column missing", where, way, conv_no_edge),                        \
        CONV(kernel ": one phase of the stride missing", where, way, conv_no_phase),               \
        CONV(kernel ": the large side's last channel missing", where, way, conv_no_channel),       \
        CONV(kernel ": the small side's last channel missing", where, way, conv_no_small_channel), \
        CONV(kernel ": the small side's last image missing", where, way, conv_no_image),           \
        CONV(kernel ": the large side's last image missing", where, way, conv_no_large_image),     \
        CONV(kernel ": overwrites where it should add", twice, way, conv_overwrites)

const sabotage sabotage_layers[] = {
    CONV_ALL("conv_fprop", GRAPH_CONV_TRANSPOSE, GRAPH_CONV_TRANSPOSE_GROUPS,
             GRAPH_CONV_TRANSPOSE_TWICE, UF_CONV_FPROP),
    CONV_ALL("conv_dgrad", GRAPH_CONV, GRAPH_CONV_GROUPS, GRAPH_CONV_TWICE, UF_CONV_DGRAD),
    CONV_ALL("conv_wgrad of conv2d", GRAPH_CONV, GRAPH_CONV_GROUPS, GRAPH_CONV_TWICE,
             UF_CONV_WGRAD),
    CONV_ALL("conv_wgrad of conv_transpose2d", GRAPH_CONV_TRANSPOSE, GRAPH_CONV_TRANSPOSE_GROUPS,
             GRAPH_CONV_TRANSPOSE_TWICE, UF_CONV_WGRAD),
    SUM("channel_sum: wrong sign", GRAPH_CONV, sum_sign),
    SUM("channel_sum: the last image missing", GRAPH_CONV, sum_no_image),
    SUM("channel_sum: the last column missing", GRAPH_CONV_TRANSPOSE, sum_no_column),
    SUM("channel_sum: another channel", GRAPH_CONV, sum_other_channel),
    SUM("channel_sum: mean in place of sum", GRAPH_CONV_TRANSPOSE, sum_is_mean),
    SUM("channel_sum: overwrites where it should add", GRAPH_CONV_TWICE, sum_overwrites),
    ACTIVATION("activation_backward: wrong sign", GRAPH_TANH, activation_sign),
    ACTIVATION("activation_backward: wrong sign, at a kinked function", GRAPH_LEAKY_RELU,
               activation_sign),
    ACTIVATION("activation_backward: no derivative", GRAPH_TANH, activation_no_derivative),
    ACTIVATION("activation_backward: no upstream", GRAPH_TANH, activation_no_upstream),
    ACTIVATION("activation_backward: another slope", GRAPH_LEAKY_RELU, activation_slope),
    ACTIVATION("activation_backward: another function's", GRAPH_TANH, activation_of_another),
    ACTIVATION("activation_backward: no tail", GRAPH_TANH, activation_no_tail),
    ACTIVATION("activation_backward: one element wrong by 1%", GRAPH_TANH, activation_nudged),
    ACTIVATION("activation_backward: overwrites where it should add", GRAPH_SIGMOID_TWICE,
               activation_overwrites),
    ACTIVATION("activation_backward: behind what it was fused with, wrong sign", GRAPH_FUSED,
               activation_sign),
    ACTIVATION("activation_backward: behind what it was fused with, another slope", GRAPH_FUSED,
               activation_slope),
    ACTIVATION("activation_backward: behind what it was fused with, no derivative", GRAPH_FUSED,
               activation_no_derivative),
    NORM("batch_norm_backward: no mean of the gradient", GRAPH_BATCH_NORM, norm_no_mean),
    NORM("batch_norm_backward: no projection on the input", GRAPH_BATCH_NORM, norm_no_projection),
    NORM("batch_norm_backward: no weight", GRAPH_BATCH_NORM, norm_no_weight),
    NORM("batch_norm_backward: n - 1 for n", GRAPH_BATCH_NORM, norm_biased_count),
    NORM("batch_norm_backward: no centering", GRAPH_BATCH_NORM, norm_no_centering),
    NORM("batch_norm_backward: the last image missing", GRAPH_BATCH_NORM, norm_no_image),
    NORM("batch_norm_backward: as in evaluation", GRAPH_BATCH_NORM, norm_evaluated),
    NORM("batch_norm_backward: no activation behind it", GRAPH_FUSED, norm_no_activation),
    NORM("batch_norm_backward: another activation behind it", GRAPH_FUSED, norm_other_activation),
    NORM("batch_norm_backward: activation of the input", GRAPH_FUSED, norm_activation_of_input),
    NORM("batch_norm_backward: wrong sign", GRAPH_BATCH_NORM, norm_sign),
    NORM("batch_norm_backward: weight, wrong sign", GRAPH_BATCH_NORM, norm_weight_sign),
    NORM("batch_norm_backward: bias, wrong sign", GRAPH_BATCH_NORM, norm_bias_sign),
    NORM("batch_norm_backward: another channel", GRAPH_BATCH_NORM, norm_other_channel),
    NORM("batch_norm_backward: evaluation, wrong sign", GRAPH_BATCH_NORM_EVAL, norm_sign),
    NORM("batch_norm_backward: evaluation, weight, wrong sign", GRAPH_BATCH_NORM_EVAL,
         norm_weight_sign),
    NORM("batch_norm_backward: overwrites where it should add", GRAPH_BATCH_NORM_TWICE,
         norm_overwrites),
    NORM("batch_norm_backward: overwrites parameters' gradients", GRAPH_BATCH_NORM_TWICE,
         norm_overwrites_parameters),
    PAD("pad_backward: wrong sign", GRAPH_PAD_ZERO, pad_sign),
    PAD("pad_backward: left and right exchanged", GRAPH_PAD_ZERO, pad_exchanged),
    PAD("pad_backward: off by one", GRAPH_PAD_ZERO, pad_shifted),
    PAD("pad_backward: replicate, wrong sign", GRAPH_PAD_REPLICATE, pad_sign),
    PAD("pad_backward: replicate, edges dropped", GRAPH_PAD_REPLICATE, pad_no_edge),
    PAD("pad_backward: replicate as reflect", GRAPH_PAD_REPLICATE, pad_other_mode),
    PAD("pad_backward: reflect, edges dropped", GRAPH_PAD_REFLECT, pad_no_edge),
    PAD("pad_backward: reflect as replicate", GRAPH_PAD_REFLECT, pad_other_mode),
    PAD("pad_backward: reflect, off by one", GRAPH_PAD_REFLECT, pad_shifted),
    PAD("pad_backward: overwrites where it should add", GRAPH_PAD_TWICE, pad_overwrites),
    COPY("copy in concat: wrong sign", GRAPH_CONCAT, copy_sign),
    COPY("copy in concat: another channel", GRAPH_CONCAT, copy_other_channel),
    COPY("copy in concat: the last image missing", GRAPH_CONCAT, copy_no_image),
    COPY("copy in concat: overwrites where it should add", GRAPH_CONCAT_SAME, copy_overwrites),
    COPY("copy in reshape: wrong sign", GRAPH_RESHAPE, copy_sign),
    COPY("copy in reshape: reversed", GRAPH_RESHAPE, copy_reversed),
    COPY("copy in reshape: overwrites where it should add", GRAPH_RESHAPE_TWICE, copy_overwrites),
    LOSS("loss_backward: bce_with_logits, wrong sign", GRAPH_BCE_WITH_LOGITS, loss_sign),
    LOSS("loss_backward: bce_with_logits, sum in place of mean", GRAPH_BCE_WITH_LOGITS,
         loss_is_sum),
    LOSS("loss_backward: bce_with_logits, another loss's", GRAPH_BCE_WITH_LOGITS, loss_of_another),
    LOSS("loss_backward: bce_with_logits, another target", GRAPH_BCE_WITH_LOGITS,
         loss_other_target),
    LOSS("loss_backward: bce, wrong sign", GRAPH_BCE, loss_sign),
    LOSS("loss_backward: bce, another target", GRAPH_BCE, loss_other_target),
    LOSS("loss_backward: mse, wrong sign", GRAPH_MSE, loss_sign),
    LOSS("loss_backward: mse, sum in place of mean", GRAPH_MSE, loss_is_sum),
    LOSS("loss_backward: mse, no upstream", GRAPH_MSE, loss_no_upstream),
    LOSS("loss_backward: mse, the last image missing", GRAPH_MSE, loss_no_image),
    LOSS("loss_backward: mse, another loss's", GRAPH_MSE, loss_of_another),
    LOSS("loss_backward: l1, wrong sign", GRAPH_L1, loss_sign),
    LOSS("loss_backward: l1, another loss's", GRAPH_L1, loss_of_another),
    LOSS("loss_backward: overwrites where it should add", GRAPH_MSE_TWICE, loss_overwrites),
    {.name = NULL},
};

static const sabotage *const tables[] = {
    sabotage_layers,  sabotage_strided,  sabotage_activations, sabotage_norms,
    sabotage_losses,  sabotage_random,   sabotage_embedding,   sabotage_images,
    sabotage_weights, sabotage_gradient, sabotage_zeros,
};

const sabotage *sabotage_at(int index) {
    for (int64_t t = 0; t < COUNT_OF(tables); ++t) {
        for (const sabotage *one = tables[t]; one->name != NULL; ++one) {
            if (index-- == 0) {
                return one;
            }
        }
    }
    return NULL;
}

size_t sabotage_slot(const sabotage *one) {
    static const size_t convs[] = {
        [UF_CONV_FPROP] = offsetof(struct uf_kernels, conv_fprop),
        [UF_CONV_DGRAD] = offsetof(struct uf_kernels, conv_dgrad),
        [UF_CONV_WGRAD] = offsetof(struct uf_kernels, conv_wgrad),
    };
    return one->conv != NULL          ? convs[one->direction]
           : one->channel_sum != NULL ? offsetof(struct uf_kernels, channel_sum)
           : one->activation != NULL  ? offsetof(struct uf_kernels, activation_backward)
           : one->batch_norm != NULL  ? offsetof(struct uf_kernels, batch_norm_backward)
           : one->pad != NULL         ? offsetof(struct uf_kernels, pad_backward)
           : one->copy != NULL        ? offsetof(struct uf_kernels, copy)
           : one->loss != NULL        ? offsetof(struct uf_kernels, loss_backward)
                                      : one->slot;
}

/* ---- the table of kernels that has the defect in it ---- */

static uf_status spoiled_conv(uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args) {
    ++hits;
    return active->conv(context, direction, args);
}

static uf_status spoiled_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    return spoiled_conv(context, UF_CONV_FPROP, args);
}

static uf_status spoiled_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return spoiled_conv(context, UF_CONV_DGRAD, args);
}

static uf_status spoiled_wgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return spoiled_conv(context, UF_CONV_WGRAD, args);
}

static uf_status spoiled_channel_sum(uf_context *context, const uf_channel_sum_kernel_args *args) {
    ++hits;
    return active->channel_sum(context, args);
}

static uf_status spoiled_activation(uf_context *context, const uf_activation_kernel_args *args) {
    ++hits;
    return active->activation(context, args);
}

static uf_status spoiled_batch_norm(uf_context *context, const uf_batch_norm_kernel_args *args) {
    ++hits;
    return active->batch_norm(context, args);
}

static uf_status spoiled_pad(uf_context *context, const uf_pad_kernel_args *args) {
    ++hits;
    return active->pad(context, args);
}

/* Forward copies too, and forward must stay right. What only backward does: concat reads a slice,
 * reshape copies in one long row. */
static bool is_backward_copy(const uf_copy_kernel_args *args) {
    switch (active->graph) {
    case GRAPH_CONCAT:
    case GRAPH_CONCAT_SAME:
        return !uf_view_is_contiguous(&args->input);
    default:
        return args->input.extent[0] * args->input.extent[1] * args->input.extent[2] == 1;
    }
}

static uf_status spoiled_copy(uf_context *context, const uf_copy_kernel_args *args) {
    if (!is_backward_copy(args)) {
        return real_copy(context, args);
    }
    ++hits;
    return active->copy(context, args);
}

static uf_status spoiled_loss(uf_context *context, const uf_loss_kernel_args *args) {
    ++hits;
    return active->loss(context, args);
}

void sabotage_apply(uf_context *context, const sabotage *one) {
    active = one;
    hits = 0;
    context->kernels = context->device->kernels;
    if (one == NULL) {
        return;
    }
    spoiled = *context->device->kernels;
    if (one->conv != NULL) {
        switch (one->direction) {
        case UF_CONV_FPROP:
            spoiled.conv_fprop = spoiled_fprop;
            break;
        case UF_CONV_DGRAD:
            spoiled.conv_dgrad = spoiled_dgrad;
            break;
        case UF_CONV_WGRAD:
            spoiled.conv_wgrad = spoiled_wgrad;
            break;
        }
    }
    spoiled.channel_sum = one->channel_sum != NULL ? spoiled_channel_sum : spoiled.channel_sum;
    spoiled.activation_backward =
        one->activation != NULL ? spoiled_activation : spoiled.activation_backward;
    spoiled.batch_norm_backward =
        one->batch_norm != NULL ? spoiled_batch_norm : spoiled.batch_norm_backward;
    spoiled.pad_backward = one->pad != NULL ? spoiled_pad : spoiled.pad_backward;
    spoiled.copy = one->copy != NULL ? spoiled_copy : spoiled.copy;
    spoiled.loss_backward = one->loss != NULL ? spoiled_loss : spoiled.loss_backward;
    if (one->function != NULL) {
        memcpy((char *)&spoiled + one->slot, &one->function, sizeof one->function);
    }
    context->kernels = &spoiled;
}

void sabotage_hit(void) {
    ++hits;
}

int64_t sabotage_hits(void) {
    return hits;
}

const sabotage sabotage_control = {
    .name = "batch_norm_backward: spelled out, right",
    .graph = GRAPH_BATCH_NORM,
    .batch_norm = norm_right,
};
