/* pad.c - Pad2d. */
#include "layers/layer.h"

#include "layers/field.h"
#include "layers/function.h"
#include <inttypes.h>
#include <string.h>

typedef struct pad_attributes {
    uf_pad_mode mode;
    int64_t left, right, top, bottom;
} pad_attributes;

static uf_status infer(uf_infer *infer) {
    const pad_attributes *pad = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 4, "pad2d: the input is %s; (N, C, H, W) is needed",
                 uf_shape_format(input, text, sizeof text));
    UF_CHECK_ARG((unsigned)pad->mode <= UF_PAD_REFLECT, "pad2d: %d is no uf_pad_mode",
                 (int)pad->mode);
    UF_CHECK_ARG(pad->left >= 0 && pad->right >= 0 && pad->top >= 0 && pad->bottom >= 0,
                 "pad2d: amounts are %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                 " (left, right, top, bottom); they must be 0 or more",
                 pad->left, pad->right, pad->top, pad->bottom);
    const int64_t limit = INT64_C(1) << 40; /* keeps the sums below from overflowing */
    UF_CHECK_ARG(pad->left < limit && pad->right < limit && pad->top < limit && pad->bottom < limit,
                 "pad2d: the output is too large");
    const int64_t height = input->extent[2];
    const int64_t width = input->extent[3];
    UF_CHECK_ARG(pad->mode != UF_PAD_REFLECT || (pad->left < width && pad->right < width &&
                                                 pad->top < height && pad->bottom < height),
                 "pad2d: reflection by %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                 " (left, right, top, bottom) needs more rows and columns than the input %s has",
                 pad->left, pad->right, pad->top, pad->bottom,
                 uf_shape_format(input, text, sizeof text));
    infer->output = UF_SHAPE(input->extent[0], input->extent[1], height + pad->top + pad->bottom,
                             width + pad->left + pad->right);
    return UF_OK;
}

static uf_pad_kernel_args arguments(const uf_exec *exec) {
    const pad_attributes *pad = exec->attributes;
    uf_pad_kernel_args args;
    memset(&args, 0, sizeof args);
    args.pad_mode = pad->mode;
    args.left = pad->left;
    args.right = pad->right;
    args.top = pad->top;
    args.bottom = pad->bottom;
    args.input = exec->inputs[0];
    args.output = exec->output;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_pad_kernel_args args = arguments(exec);
    return exec->context->kernels->pad_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_pad_kernel_args args = arguments(exec);
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->pad_backward(exec->context, &args);
}

static const uf_option_word modes[] = {{"zero", "UF_PAD_ZERO"},
                                       {"replicate", "UF_PAD_REPLICATE"},
                                       {"reflect", "UF_PAD_REFLECT"},
                                       {NULL, NULL}};
#define AMOUNT(side) UF_ARGUMENT(INTEGER, #side, pad_attributes, side, 0)
static const uf_option table[] = {
    {.name = "mode",
     .kind = UF_OPTION_CHOICE,
     .offset = offsetof(pad_attributes, mode),
     .words = modes},
    AMOUNT(left),
    AMOUNT(right),
    AMOUNT(top),
    AMOUNT(bottom),
};
static const uf_layer_function functions[] = {
    {.name = "pad2d",
     .size = sizeof(pad_attributes),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(table)},
    {0},
};

/* A reflection at an edge reads as far inside as the padding is wide. */
static bool field(const uf_field_query *query, uf_field *field) {
    const pad_attributes *pad = query->attributes;
    const int64_t before = query->back == 1 ? pad->left : pad->top;
    const int64_t behind = query->back == 1 ? pad->right : pad->bottom;
    const bool reflects = pad->mode == UF_PAD_REFLECT;
    *field = (uf_field){1, 1, -before - (reflects ? 2 * behind : 0), reflects ? before : -before};
    return true;
}

const uf_layer uf_layer_pad2d = {
    .name = "pad2d",
    .functions = functions,
    .infer = infer,
    .field = field,
    .forward = forward,
    .backward = backward,
    .gradient = uf_gradient_of_linear,
    .takes_gaps = true,
};

uf_value uf_pad2d(uf_graph *graph, uf_value input, uf_pad_mode mode, int64_t left, int64_t right,
                  int64_t top, int64_t bottom) {
    pad_attributes pad;
    memset(&pad, 0, sizeof pad);
    pad.mode = mode;
    pad.left = left;
    pad.right = right;
    pad.top = top;
    pad.bottom = bottom;
    return uf_graph_append(graph, &uf_layer_pad2d, &pad, sizeof pad, &input, 1, NULL);
}
