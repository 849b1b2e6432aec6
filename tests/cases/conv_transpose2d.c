/* conv_transpose2d.c - cases of ConvTranspose2d. */
#include "cases/conv_case.h"

#include "support/guard.h"
#include "support/test.h"

/* {n, ci, co, groups, h, w, kernel, stride, padding, output_padding, dilation}; bias on odd
 * rows. */
static const struct {
    int64_t n, ci, co, groups, h, w, kernel[2], stride[2], padding[2], output_padding[2],
        dilation[2];
} table[] = {
    {1, 1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},    /* the smallest there is */
    {2, 3, 5, 1, 4, 7, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},    /* pointwise */
    {2, 100, 64, 1, 1, 1, {4, 4}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* DCGAN's first */
    {2, 32, 16, 1, 8, 8, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},  /* DCGAN's others */
    {1, 64, 3, 1, 9, 7, {4, 4}, {2, 2}, {3, 3}, {0, 0}, {1, 1}},   /* upconv_7's last */
    {2, 16, 3, 1, 5, 6, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},   /* output_padding */
    {2, 5, 7, 1, 5, 4, {2, 3}, {4, 5}, {0, 1}, {2, 3}, {1, 1}},    /* stride above the kernel */
    {2, 5, 7, 1, 5, 4, {3, 3}, {3, 3}, {0, 0}, {0, 0}, {1, 1}},    /* stride the kernel */
    {3, 6, 9, 3, 4, 5, {5, 2}, {2, 3}, {2, 0}, {1, 2}, {1, 1}},    /* groups, rectangular */
    {2, 8, 8, 8, 6, 5, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},    /* depthwise */
    {2, 4, 12, 4, 3, 3, {3, 3}, {1, 2}, {1, 1}, {0, 1}, {1, 1}},   /* depthwise, growing */
    {1, 4, 6, 2, 5, 6, {3, 4}, {2, 3}, {2, 3}, {1, 2}, {2, 3}},    /* dilation, stride the same */
    {1, 4, 6, 1, 5, 6, {3, 3}, {4, 6}, {1, 2}, {3, 0}, {2, 4}},   /* common divisor: empty phases */
    {1, 3, 4, 1, 4, 4, {3, 3}, {2, 2}, {0, 0}, {3, 2}, {4, 3}},   /* output_padding above stride */
    {2, 3, 4, 1, 6, 7, {2, 2}, {2, 3}, {5, 6}, {0, 0}, {1, 1}},   /* padding above the kernel */
    {1, 2, 2, 1, 1, 9, {1, 5}, {1, 2}, {0, 2}, {0, 1}, {1, 1}},   /* one-dimensional */
    {1, 7, 2, 1, 8, 9, {7, 7}, {1, 1}, {6, 6}, {0, 0}, {1, 1}},   /* a large kernel, cut */
    {2, 3, 600, 1, 3, 2, {3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}}, /* many output channels */
    {1, 600, 2, 1, 3, 2, {3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}}, /* many input channels */
    {1, 257, 129, 1, 3, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},   /* just past powers of two */
    {1, 2, 3, 1, 40, 50, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},     /* many pixels */
    {2, 120, 56, 1, 20, 24, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},  /* taps apart: U-Net's */
    {1, 128, 128, 2, 16, 32, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* pointwise, many channels */
    {1, 64, 64, 1, 16, 32, {3, 2}, {3, 2}, {0, 0}, {0, 0}, {1, 1}},   /* taps apart, rectangular */
    {1, 64, 128, 1, 80, 6, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* and short rows */
    {1, 72, 128, 1, 18, 28, {2, 1}, {2, 1}, {0, 0}, {0, 0}, {1, 1}},  /* and whole rows */
    {1, 64, 40, 1, 24, 24, {4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}},   /* taps apart, by fours */
    {2, 256, 64, 1, 6, 32, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* U-Net's: pixels in pairs */
    {1, 192, 96, 2, 5, 24, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* the same, groups */
    {2, 128, 64, 1, 3, 24, {3, 2}, {3, 2}, {1, 0}, {1, 0}, {1, 1}},   /* three rows of pairs */
    {2, 128, 192, 1, 5, 32, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  /* many channels, pointwise */
    {3, 256, 96, 1, 14, 14, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  /* planes of few pixels */
    {2, 128, 192, 2, 14, 14, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* the same, groups */
    {1, 64, 5, 1, 16, 14, {16, 16}, {16, 16}, {0, 0}, {0, 0}, {1, 1}}, /* taps apart, wide */
    {2, 40, 25, 1, 20, 14, {3, 3}, {3, 3}, {0, 0}, {0, 0}, {1, 1}},    /* by threes */
    {1, 40, 23, 1, 17, 16, {2, 6}, {2, 6}, {0, 0}, {0, 0}, {1, 1}},    /* and sixes */
    {2, 40, 12, 1, 12, 20, {3, 8}, {3, 8}, {0, 0}, {0, 0}, {1, 1}},    /* the same, rectangular */
    {3, 64, 3, 1, 16, 32, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},     /* DCGAN's last: all taps */
    {2, 40, 1, 1, 7, 24, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},   /* one channel, rows not full */
    {2, 24, 4, 1, 9, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},   /* a row and column of zeros */
    {1, 64, 2, 1, 13, 8, {3, 4}, {2, 2}, {2, 1}, {1, 0}, {1, 1}},   /* rectangular, rows cut */
    {70, 17, 3, 1, 5, 24, {4, 3}, {2, 2}, {0, 1}, {1, 0}, {1, 1}},  /* many images, rows beyond */
    {2, 33, 3, 1, 40, 24, {4, 4}, {2, 2}, {3, 2}, {0, 0}, {1, 1}},  /* more padding */
    {2, 40, 24, 1, 12, 14, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* pointwise, planes cut */
    {1, 200, 136, 1, 8, 20, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  /* more channels */
    {3, 328, 392, 1, 2, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},   /* and still more */
    {600, 264, 24, 1, 2, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  /* many small planes */
    {200, 136, 136, 1, 2, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* more written channels */
    {200, 456, 131, 1, 2, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}, /* an odd number of them */
    {430, 328, 8, 1, 2, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},   /* few of them */
    {1, 8, 4, 1, 260, 332, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},   /* few, large planes */
    {2, 8, 136, 1, 40, 324, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  /* and many channels */
    {400, 456, 6, 1, 2, 4, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* U-Net's of such */
    {200, 264, 34, 1, 2, 4, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},  /* more written channels */
    {1100, 72, 2, 1, 2, 4, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* few of them */
    {1, 8, 34, 1, 50, 512, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},   /* whole rows */
    {1, 264, 12, 1, 8, 16, {3, 2}, {3, 2}, {0, 0}, {0, 0}, {1, 1}},   /* three rows of a filter */
    {2, 72, 3, 1, 8, 12, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},     /* to colours */
    {2, 70, 3, 1, 8, 12, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},     /* and larger */
    {2, 70, 23, 1, 8, 12, {3, 2}, {3, 2}, {0, 0}, {0, 0}, {1, 1}},    /* a filter in two parts */
    {2, 24, 40, 1, 3, 256, {1, 2}, {1, 2}, {0, 0}, {0, 0}, {1, 1}},   /* one row, longer ones */
    {2, 24, 40, 1, 3, 128, {1, 2}, {1, 2}, {0, 0}, {0, 0}, {1, 1}},   /* one, and whole rows */
    {1, 500, 34, 1, 20, 12, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},  /* short rows */
    {1, 16, 3, 1, 5, 40, {3, 3}, {2, 3}, {0, 0}, {1, 0}, {1, 1}},     /* three phases across */
    {2, 8, 5, 1, 4, 48, {2, 4}, {1, 3}, {0, 1}, {0, 2}, {1, 1}},      /* and taps that overlap */
    {2, 8, 3, 1, 6, 44, {3, 3}, {1, 3}, {1, 0}, {0, 0}, {1, 1}},      /* of few channels, plain */
};

static bool load(h5_file file, const char *path, layer_case *one) {
    return conv_case_load(one, true, file, path);
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
        conv.output_padding[axis] = table[row].output_padding[axis];
        conv.dilation[axis] = table[row].dilation[axis];
    }
    const uf_activation activation = {(uf_activation_kind)(row % CASE_FEW_ACTIVATIONS), 0.25};
    conv_case_fill(one, true, &conv, row % 2 == 1, activation, random);
}

static void make_random(test_random *random, layer_case *one) {
    conv_case_random(one, true, random);
}

static uf_status run(uf_context *context, const ops_call *call) {
    uf_conv2d_args args = conv_case_args(call);
    size_t size = 0;
    uf_status status = uf_conv_transpose2d_forward_workspace(context, &args, &size);
    if (status != UF_OK) {
        return status;
    }
    guarded scratch = guard_scratch(size);
    args.workspace = size > 0 ? scratch.view.data : NULL;
    args.workspace_size = size;
    status = uf_conv_transpose2d_forward(context, &args);
    if (status == UF_OK) {
        assert_guard_intact("workspace", &scratch);
    }
    guard_destroy(&scratch);
    return status;
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    for (int axis = 0; axis < 2; ++axis) {
        options.kernel[axis] = one->conv.kernel[axis];
        options.stride[axis] = one->conv.stride[axis];
        options.padding[axis] = one->conv.padding[axis];
        options.output_padding[axis] = one->conv.output_padding[axis];
        options.dilation[axis] = one->conv.dilation[axis];
    }
    options.groups = one->conv.groups;
    options.bias = case_parameter(one, "bias") != NULL;
    const uf_value value =
        uf_conv_transpose2d(graph, input, scope, one->conv.out_channels, &options);
    return case_graph_activation(graph, value, one->activation);
}

const layer_family conv_transpose2d_family = {
    .name = "conv_transpose2d",
    .pytorch = "conv_transpose2d",
    .accumulates = true,
    .variants = true,
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .random = make_random,
    .ops = run,
    .graph = build,
};
