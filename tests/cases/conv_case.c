/* conv_case.c - geometries of both convolutions. */
#include "cases/conv_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"

static void set_extents(ref_conv *conv, bool transposed) {
    (transposed ? ref_conv_transpose2d_extents : ref_conv2d_extents)(conv);
}

static void describe(layer_case *one, bool transposed, bool bias) {
    const ref_conv *c = &one->conv;
    (void)snprintf(
        one->label, sizeof one->label,
        "%s n%lld c%lld->%lld g%lld %lldx%lld k%lldx%lld s%lld,%lld p%lld,%lld op%lld,%lld "
        "d%lld,%lld%s %s",
        transposed ? "conv_transpose2d" : "conv2d", (long long)c->batch, (long long)c->in_channels,
        (long long)c->out_channels, (long long)c->groups, (long long)c->height, (long long)c->width,
        (long long)c->kernel[0], (long long)c->kernel[1], (long long)c->stride[0],
        (long long)c->stride[1], (long long)c->padding[0], (long long)c->padding[1],
        (long long)c->output_padding[0], (long long)c->output_padding[1], (long long)c->dilation[0],
        (long long)c->dilation[1], bias ? " bias" : "", case_activation_name(one->activation));
}

/* How many products at most meet in one output element: a tap of a transposed convolution reaches
 * an element only where stride and dilation let it. */
static int64_t reduction(const ref_conv *conv, bool transposed) {
    int64_t taps = 1;
    for (int axis = 0; axis < 2; ++axis) {
        int64_t a = conv->stride[axis];
        int64_t b = conv->dilation[axis];
        while (b != 0) {
            const int64_t t = a % b;
            a = b;
            b = t;
        }
        const int64_t step = transposed ? conv->stride[axis] / a : 1;
        taps *= (conv->kernel[axis] + step - 1) / step;
    }
    return conv->in_channels / conv->groups * taps;
}

void conv_case_fill(layer_case *one, bool transposed, const ref_conv *geometry, bool bias,
                    uf_activation activation, test_random *random) {
    if (one->plain) {
        bias = false;
        activation = (uf_activation){UF_ACTIVATION_IDENTITY, 0.0};
    }
    one->conv = *geometry;
    set_extents(&one->conv, transposed);
    const ref_conv *conv = &one->conv;
    assert_true(conv->out_height >= 1 && conv->out_width >= 1);
    one->activation = activation;
    one->reduction = reduction(conv, transposed) + (bias ? 1 : 0);
    one->size = 1.0;
    one->input = case_tensor_nchw(conv->batch, conv->in_channels, conv->height, conv->width);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    const int64_t weight_extent[4] = {transposed ? conv->in_channels : conv->out_channels,
                                      (transposed ? conv->out_channels : conv->in_channels) /
                                          conv->groups,
                                      conv->kernel[0], conv->kernel[1]};
    case_tensor weight = case_tensor_of("weight", 4, weight_extent);
    test_random_fill(random, weight.values, weight.count, 1.0 / sqrt((double)one->reduction));
    case_add_parameter(one, weight);
    if (bias) {
        case_tensor values = case_tensor_of("bias", 1, &conv->out_channels);
        test_random_fill(random, values.values, values.count, 1.0);
        case_add_parameter(one, values);
    }
    one->output =
        case_tensor_nchw(conv->batch, conv->out_channels, conv->out_height, conv->out_width);
    const case_tensor *b = case_parameter(one, "bias");
    (transposed ? ref_conv_transpose2d_forward : ref_conv2d_forward)(
        conv, one->input.values, weight.values, b != NULL ? b->values : NULL, one->output.values);
    case_activate(one);
    describe(one, transposed, bias);
}

static int64_t smallest(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Multiplications of the plain loops. */
static int64_t work(const ref_conv *conv, bool transposed) {
    return conv->batch * conv->in_channels * (conv->out_channels / conv->groups) * conv->kernel[0] *
           conv->kernel[1] *
           (transposed ? conv->height * conv->width : conv->out_height * conv->out_width);
}

static void random_axis(ref_conv *conv, int axis, bool transposed, test_random *random) {
    conv->kernel[axis] = test_random_log(random, 1, 7);
    conv->stride[axis] = test_random_log(random, 1, 5);
    conv->dilation[axis] = test_random_one_in(random, 3) ? test_random_integer(random, 2, 4) : 1;
    /* Now and then more padding than the kernel reaches. */
    conv->padding[axis] = test_random_integer(
        random, 0, conv->kernel[axis] + (test_random_one_in(random, 4) ? 4 : -1));
    if (transposed) {
        const int64_t limit =
            conv->stride[axis] > conv->dilation[axis] ? conv->stride[axis] : conv->dilation[axis];
        conv->output_padding[axis] = test_random_integer(random, 0, limit - 1);
    }
}

void conv_case_random(layer_case *one, bool transposed, test_random *random) {
    const int64_t most_work = test_random_log(random, 2000, 4000000);
    const int64_t most_outputs = 150000;
    ref_conv conv;
    memset(&conv, 0, sizeof conv);
    conv.groups = test_random_one_in(random, 3) ? test_random_log(random, 2, 32) : 1;
    conv.in_channels = conv.groups * test_random_log(random, 1, 600 / conv.groups);
    conv.out_channels = conv.groups * test_random_log(random, 1, 600 / conv.groups);
    conv.batch = test_random_integer(random, 1, 4);
    random_axis(&conv, 0, transposed, random);
    random_axis(&conv, 1, transposed, random);
    conv.height = test_random_log(random, 1, 40);
    conv.width = test_random_log(random, 1, 40);
    for (;;) {
        set_extents(&conv, transposed);
        if (conv.out_height < 1 || conv.out_width < 1) {
            const int axis = conv.out_height < 1 ? 0 : 1;
            if (conv.padding[axis] > 0 && transposed) {
                conv.padding[axis] -= 1;
            } else if (axis == 0) {
                conv.height += 1;
            } else {
                conv.width += 1;
            }
            continue;
        }
        if (work(&conv, transposed) <= most_work &&
            conv.batch * conv.out_channels * conv.out_height * conv.out_width <= most_outputs) {
            break;
        }
        /* Too dear: halve something, pixels before channels, so that many channels do occur. */
        int64_t *shrinkable[3] = {&conv.batch, &conv.height, &conv.width};
        int64_t *chosen = shrinkable[test_random_integer(random, 0, 2)];
        if (*chosen > 1) {
            *chosen /= 2;
        } else if (conv.batch * conv.height * conv.width == 1 || test_random_one_in(random, 4)) {
            const int64_t in_group = conv.in_channels / conv.groups;
            const int64_t out_group = conv.out_channels / conv.groups;
            if (in_group > 1 && (out_group == 1 || test_random_one_in(random, 2))) {
                conv.in_channels = conv.groups * (in_group / 2);
            } else if (out_group > 1) {
                conv.out_channels = conv.groups * (out_group / 2);
            } else if (conv.groups > 1) {
                conv.groups /= 2;
                conv.in_channels = conv.out_channels = conv.groups;
            } else {
                const int axis = conv.kernel[0] > conv.kernel[1] ? 0 : 1;
                conv.kernel[axis] = conv.kernel[axis] > 1 ? conv.kernel[axis] - 1 : 1;
                conv.padding[axis] = smallest(conv.padding[axis], conv.kernel[axis]);
            }
        }
    }
    conv_case_fill(one, transposed, &conv, test_random_one_in(random, 2),
                   case_random_activation(random), random);
}

bool conv_case_load(layer_case *one, bool transposed, h5_file file, const char *path) {
    ref_conv *conv = &one->conv;
    one->input = case_tensor_read(file, path, "input", "");
    one->output = case_tensor_read(file, path, "output", "");
    case_add_parameter(one, case_tensor_read(file, path, "weight", "weight"));
    case_add_parameter(one, case_tensor_read(file, path, "bias", "bias"));
    const case_tensor *weight = case_parameter(one, "weight");
    assert_non_null(weight);
    h5_attribute_integers(file, path, "stride", conv->stride, 2);
    h5_attribute_integers(file, path, "padding", conv->padding, 2);
    h5_attribute_integers(file, path, "output_padding", conv->output_padding, 2);
    h5_attribute_integers(file, path, "dilation", conv->dilation, 2);
    h5_attribute_integers(file, path, "groups", &conv->groups, 1);
    conv->batch = one->input.extent[0];
    conv->in_channels = one->input.extent[1];
    conv->height = one->input.extent[2];
    conv->width = one->input.extent[3];
    conv->out_channels = one->output.extent[1];
    conv->kernel[0] = weight->extent[2];
    conv->kernel[1] = weight->extent[3];
    set_extents(conv, transposed);
    (void)snprintf(one->label, sizeof one->label, "%s", path);
    return true;
}

uf_conv2d_params conv_case_params(const ref_conv *conv) {
    uf_conv2d_params params = uf_conv2d_params_default();
    for (int axis = 0; axis < 2; ++axis) {
        params.stride[axis] = conv->stride[axis];
        params.padding[axis] = conv->padding[axis];
        params.output_padding[axis] = conv->output_padding[axis];
        params.dilation[axis] = conv->dilation[axis];
    }
    params.groups = conv->groups;
    return params;
}

uf_conv2d_args conv_case_args(const ops_call *call) {
    uf_conv2d_args args = uf_conv2d_args_default();
    args.params = conv_case_params(&call->one->conv);
    args.input = call->input;
    args.output = call->output;
    args.weight = ops_parameter(call, "weight");
    args.bias = ops_parameter(call, "bias");
    args.activation = call->one->activation;
    args.mode = call->mode;
    args.variant = call->variant;
    return args;
}
