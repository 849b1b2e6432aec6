/* conv2d.c - cases of Conv2d. */
#include "cases/conv_case.h"

#include "support/guard.h"
#include "support/test.h"

/* {n, ci, co, groups, h, w, kernel, stride, padding, dilation}; bias on odd rows. */
static const struct {
    int64_t n, ci, co, groups, h, w, kernel[2], stride[2], padding[2], dilation[2];
} table[] = {
    {1, 1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},       /* the smallest there is */
    {2, 5, 3, 1, 4, 7, {1, 1}, {1, 1}, {0, 0}, {1, 1}},       /* pointwise */
    {1, 3, 16, 1, 12, 11, {3, 3}, {1, 1}, {0, 0}, {1, 1}},    /* upconv_7's first */
    {1, 64, 128, 1, 7, 9, {3, 3}, {1, 1}, {0, 0}, {1, 1}},    /* upconv_7's later ones */
    {2, 16, 32, 1, 16, 16, {4, 4}, {2, 2}, {1, 1}, {1, 1}},   /* DCGAN's discriminator */
    {2, 64, 1, 1, 4, 4, {4, 4}, {1, 1}, {0, 0}, {1, 1}},      /* its last: one pixel out */
    {2, 5, 7, 1, 13, 14, {2, 3}, {4, 5}, {0, 1}, {1, 1}},     /* stride above the kernel */
    {2, 5, 7, 1, 9, 9, {3, 3}, {3, 3}, {0, 0}, {1, 1}},       /* stride the kernel */
    {2, 5, 7, 1, 8, 10, {3, 3}, {2, 2}, {1, 1}, {1, 1}},      /* a remainder is dropped */
    {3, 9, 6, 3, 7, 8, {5, 2}, {2, 3}, {2, 0}, {1, 1}},       /* groups, rectangular */
    {2, 8, 8, 8, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}},       /* depthwise */
    {2, 4, 12, 4, 5, 5, {3, 3}, {1, 2}, {1, 1}, {1, 1}},      /* depthwise, growing */
    {1, 4, 6, 2, 11, 12, {3, 4}, {2, 3}, {2, 3}, {2, 3}},     /* dilation */
    {2, 3, 4, 1, 3, 2, {2, 2}, {2, 3}, {5, 6}, {1, 1}},       /* padding above the kernel */
    {1, 2, 2, 1, 1, 9, {1, 5}, {1, 2}, {0, 2}, {1, 1}},       /* one-dimensional */
    {1, 2, 3, 1, 2, 3, {7, 7}, {1, 1}, {3, 3}, {1, 1}},       /* a kernel larger than the image */
    {2, 3, 600, 1, 5, 4, {3, 3}, {2, 2}, {1, 1}, {1, 1}},     /* many output channels */
    {1, 600, 2, 1, 5, 4, {3, 3}, {2, 2}, {1, 1}, {1, 1}},     /* many input channels */
    {1, 129, 257, 1, 5, 6, {3, 3}, {2, 1}, {1, 1}, {1, 1}},   /* just past powers of two */
    {1, 3, 4, 1, 60, 70, {3, 3}, {1, 1}, {1, 1}, {1, 1}},     /* many pixels */
    {2, 56, 120, 1, 40, 48, {2, 2}, {2, 2}, {0, 0}, {1, 1}},  /* taps apart */
    {1, 128, 128, 2, 16, 32, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, /* pointwise, many channels */
    {1, 40, 128, 1, 48, 64, {3, 2}, {3, 2}, {0, 0}, {1, 1}},  /* taps apart, rectangular */
    {1, 64, 128, 1, 160, 12, {2, 2}, {2, 2}, {0, 0}, {1, 1}}, /* and short rows */
    {1, 64, 120, 1, 36, 28, {2, 1}, {2, 1}, {0, 0}, {1, 1}},  /* and whole rows */
    {1, 40, 96, 1, 64, 96, {4, 4}, {4, 4}, {0, 0}, {1, 1}},   /* taps apart, by fours */
    {3, 256, 96, 1, 14, 14, {1, 1}, {1, 1}, {0, 0}, {1, 1}},  /* planes of few pixels */
    {2, 128, 192, 2, 14, 14, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, /* the same, groups */
    {1, 4, 64, 1, 224, 256, {16, 16}, {16, 16}, {0, 0}, {1, 1}}, /* taps apart, wide */
    {2, 7, 40, 1, 36, 160, {3, 8}, {3, 8}, {0, 0}, {1, 1}},      /* the same, rectangular */
    {1, 16, 24, 1, 6, 96, {3, 3}, {1, 1}, {1, 1}, {1, 1}},       /* long rows */
    {1, 16, 8, 1, 11, 131, {3, 5}, {2, 2}, {1, 2}, {2, 1}},      /* and dilation */
    {2, 32, 40, 1, 9, 150, {4, 4}, {2, 2}, {1, 1}, {1, 1}},      /* and taps that share steps */
    {1, 16, 16, 1, 5, 64, {1, 1}, {1, 1}, {0, 0}, {1, 1}},       /* and one tap */
    {1, 48, 24, 3, 8, 200, {2, 3}, {5, 3}, {0, 0}, {1, 1}},      /* and groups */
    {1, 16, 40, 1, 9, 590, {3, 3}, {2, 2}, {2, 2}, {2, 2}}, /* longer rows, dilation as stride */
    {3, 3, 64, 1, 32, 64, {4, 4}, {2, 2}, {1, 1}, {1, 1}},  /* a discriminator's first */
    {2, 1, 40, 1, 15, 160, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, /* rows of several parts */
    {1, 4, 20, 1, 18, 48, {4, 3}, {2, 2}, {2, 1}, {1, 1}},  /* rectangular */
    {2, 2, 9, 1, 7, 112, {3, 4}, {2, 2}, {0, 1}, {1, 1}},   /* no padding above */
    {1, 16, 24, 1, 7, 128, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, /* long rows of few channels */
    {2, 3, 24, 1, 16, 32, {4, 4}, {2, 2}, {1, 1}, {1, 1}},  /* rows not full */
    {41, 4, 33, 1, 9, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}},  /* many images */
};

static bool load(h5_file file, const char *path, layer_case *one) {
    return conv_case_load(one, false, file, path);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    ref_conv conv = {table[row].n,
                     table[row].ci,
                     table[row].co,
                     table[row].groups,
                     table[row].h,
                     table[row].w,
                     0,
                     0,
                     {0, 0},
                     {0, 0},
                     {0, 0},
                     {0, 0},
                     {0, 0}};
    for (int axis = 0; axis < 2; ++axis) {
        conv.kernel[axis] = table[row].kernel[axis];
        conv.stride[axis] = table[row].stride[axis];
        conv.padding[axis] = table[row].padding[axis];
        conv.dilation[axis] = table[row].dilation[axis];
    }
    const uf_activation activation = {(uf_activation_kind)(row % CASE_FEW_ACTIVATIONS), 0.25};
    conv_case_fill(one, false, &conv, row % 2 == 1, activation, random);
}

static void make_random(test_random *random, layer_case *one) {
    conv_case_random(one, false, random);
}

static uf_status run(uf_context *context, const ops_call *call) {
    uf_conv2d_args args = conv_case_args(call);
    size_t size = 0;
    uf_status status = uf_conv2d_forward_workspace(context, &args, &size);
    if (status != UF_OK) {
        return status;
    }
    guarded scratch = guard_scratch(size);
    args.workspace = size > 0 ? scratch.view.data : NULL;
    args.workspace_size = size;
    status = uf_conv2d_forward(context, &args);
    if (status == UF_OK) {
        assert_guard_intact("workspace", &scratch);
    }
    guard_destroy(&scratch);
    return status;
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_conv2d_options options = uf_conv2d_options_default();
    for (int axis = 0; axis < 2; ++axis) {
        options.kernel[axis] = one->conv.kernel[axis];
        options.stride[axis] = one->conv.stride[axis];
        options.padding[axis] = one->conv.padding[axis];
        options.dilation[axis] = one->conv.dilation[axis];
    }
    options.groups = one->conv.groups;
    options.bias = case_parameter(one, "bias") != NULL;
    const uf_value value = uf_conv2d(graph, input, scope, one->conv.out_channels, &options);
    return case_graph_activation(graph, value, one->activation);
}

const layer_family conv2d_family = {
    .name = "conv2d",
    .pytorch = "conv2d",
    .accumulates = true,
    .variants = true,
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .random = make_random,
    .ops = run,
    .graph = build,
};
