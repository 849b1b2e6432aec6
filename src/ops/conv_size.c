/* conv_size.c - the extents of both convolutions, and what their parameters may be. */
#include "ops/conv.h"

#include <inttypes.h>
#include <string.h>

/* Extents and parameters stay below this, so that sums of a few of them cannot overflow. */
#define SIZE_LIMIT (INT64_C(1) << 58)

static uf_status check_pair(const char *op, const char *name, const int64_t pair[2],
                            int64_t least) {
    UF_CHECK_ARG(pair[0] >= least && pair[1] >= least,
                 "%s: %s is (%" PRId64 ", %" PRId64 "); it must be %" PRId64 " or more", op, name,
                 pair[0], pair[1], least);
    UF_CHECK_ARG(pair[0] < SIZE_LIMIT && pair[1] < SIZE_LIMIT,
                 "%s: %s is (%" PRId64 ", %" PRId64 "); sizes this large overflow", op, name,
                 pair[0], pair[1]);
    return UF_OK;
}

uf_status uf_conv_check_params(const char *op, bool transposed, const uf_conv2d_params *params,
                               const int64_t kernel[2]) {
    UF_TRY(check_pair(op, "kernel", kernel, 1));
    UF_TRY(check_pair(op, "stride", params->stride, 1));
    UF_TRY(check_pair(op, "padding", params->padding, 0));
    UF_TRY(check_pair(op, "dilation", params->dilation, 1));
    UF_TRY(check_pair(op, "output_padding", params->output_padding, 0));
    UF_CHECK_ARG(params->groups >= 1, "%s: groups is %" PRId64 "; it must be 1 or more", op,
                 params->groups);
    const int64_t *extra = params->output_padding;
    if (!transposed) {
        UF_CHECK_ARG(extra[0] == 0 && extra[1] == 0,
                     "%s: output_padding is (%" PRId64 ", %" PRId64
                     "); only conv_transpose2d has one",
                     op, extra[0], extra[1]);
        return UF_OK;
    }
    for (int axis = 0; axis < 2; ++axis) {
        UF_CHECK_ARG(extra[axis] < params->stride[axis] || extra[axis] < params->dilation[axis],
                     "%s: output_padding is (%" PRId64 ", %" PRId64
                     "); it must be smaller than either stride (%" PRId64 ", %" PRId64
                     ") or dilation (%" PRId64 ", %" PRId64 ")",
                     op, extra[0], extra[1], params->stride[0], params->stride[1],
                     params->dilation[0], params->dilation[1]);
    }
    return UF_OK;
}

/* The span of a kernel, dilation*(kernel - 1) + 1. */
static uf_status kernel_span(const char *op, const uf_conv2d_params *params,
                             const int64_t kernel[2], int64_t span[2]) {
    for (int axis = 0; axis < 2; ++axis) {
        UF_CHECK_ARG(!uf_mul_overflows(params->dilation[axis], kernel[axis] - 1, &span[axis]) &&
                         span[axis] < SIZE_LIMIT,
                     "%s: a kernel of %" PRId64 " with dilation %" PRId64 " overflows", op,
                     kernel[axis], params->dilation[axis]);
        ++span[axis];
    }
    return UF_OK;
}

/* The output for output_padding 0, which may be below 1. */
static uf_status transposed_least(const char *op, const uf_conv2d_params *params,
                                  const int64_t input[2], const int64_t kernel[2],
                                  int64_t least[2]) {
    int64_t span[2] = {0, 0};
    UF_TRY(check_pair(op, "input", input, 1));
    UF_TRY(kernel_span(op, params, kernel, span));
    for (int axis = 0; axis < 2; ++axis) {
        int64_t reach;
        UF_CHECK_ARG(!uf_mul_overflows(input[axis] - 1, params->stride[axis], &reach) &&
                         reach < SIZE_LIMIT,
                     "%s: an input of %" PRId64 " with stride %" PRId64 " overflows", op,
                     input[axis], params->stride[axis]);
        least[axis] = reach - 2 * params->padding[axis] + span[axis];
    }
    return UF_OK;
}

uf_status uf_conv_transpose2d_output_size(const uf_conv2d_params *params, const int64_t input[2],
                                          const int64_t kernel[2], int64_t output[2]) {
    const char *op = "conv_transpose2d";
    UF_CHECK_ARG(params != NULL && input != NULL && kernel != NULL && output != NULL,
                 "%s: an argument of uf_conv_transpose2d_output_size is NULL", op);
    int64_t least[2] = {0, 0};
    UF_TRY(uf_conv_check_params(op, true, params, kernel));
    UF_TRY(transposed_least(op, params, input, kernel, least));
    const int64_t height = least[0] + params->output_padding[0];
    const int64_t width = least[1] + params->output_padding[1];
    UF_CHECK_ARG(height >= 1 && width >= 1,
                 "%s: an input of (%" PRId64 ", %" PRId64 ") with kernel (%" PRId64 ", %" PRId64
                 "), stride (%" PRId64 ", %" PRId64 ") and padding (%" PRId64 ", %" PRId64
                 ") gives an output of (%" PRId64 ", %" PRId64
                 "); the output size is too small, each extent must be 1 or more",
                 op, input[0], input[1], kernel[0], kernel[1], params->stride[0], params->stride[1],
                 params->padding[0], params->padding[1], height, width);
    output[0] = height;
    output[1] = width;
    return UF_OK;
}

uf_status uf_conv_transpose2d_output_padding(const uf_conv2d_params *params, const int64_t input[2],
                                             const int64_t kernel[2], const int64_t output[2],
                                             int64_t output_padding[2]) {
    const char *op = "conv_transpose2d";
    UF_CHECK_ARG(params != NULL && input != NULL && kernel != NULL && output != NULL &&
                     output_padding != NULL,
                 "%s: an argument of uf_conv_transpose2d_output_padding is NULL", op);
    uf_conv2d_params plain = *params;
    int64_t least[2] = {0, 0};
    plain.output_padding[0] = plain.output_padding[1] = 0;
    UF_TRY(uf_conv_check_params(op, true, &plain, kernel));
    UF_TRY(transposed_least(op, &plain, input, kernel, least));
    for (int axis = 0; axis < 2; ++axis) {
        UF_CHECK_ARG(output[axis] >= 1 && output[axis] >= least[axis] &&
                         output[axis] - least[axis] < plain.stride[axis],
                     "%s: requested an output size of (%" PRId64 ", %" PRId64
                     "), but valid sizes range from (%" PRId64 ", %" PRId64 ") to (%" PRId64
                     ", %" PRId64 ") for an input of (%" PRId64 ", %" PRId64 ")",
                     op, output[0], output[1], least[0], least[1], least[0] + plain.stride[0] - 1,
                     least[1] + plain.stride[1] - 1, input[0], input[1]);
    }
    for (int axis = 0; axis < 2; ++axis) {
        output_padding[axis] = output[axis] - least[axis];
    }
    return UF_OK;
}

uf_status uf_conv2d_output_size(const uf_conv2d_params *params, const int64_t input[2],
                                const int64_t kernel[2], int64_t output[2]) {
    const char *op = "conv2d";
    UF_CHECK_ARG(params != NULL && input != NULL && kernel != NULL && output != NULL,
                 "%s: an argument of uf_conv2d_output_size is NULL", op);
    int64_t span[2] = {0, 0}, padded[2];
    UF_TRY(uf_conv_check_params(op, false, params, kernel));
    UF_TRY(check_pair(op, "input", input, 1));
    UF_TRY(kernel_span(op, params, kernel, span));
    for (int axis = 0; axis < 2; ++axis) {
        padded[axis] = input[axis] + 2 * params->padding[axis];
    }
    UF_CHECK_ARG(padded[0] >= span[0] && padded[1] >= span[1],
                 "%s: a kernel of (%" PRId64 ", %" PRId64 ") with dilation (%" PRId64 ", %" PRId64
                 ") covers (%" PRId64 ", %" PRId64 "), the padded input is (%" PRId64 ", %" PRId64
                 "); the kernel can't be greater than the padded input",
                 op, kernel[0], kernel[1], params->dilation[0], params->dilation[1], span[0],
                 span[1], padded[0], padded[1]);
    for (int axis = 0; axis < 2; ++axis) {
        output[axis] = (padded[axis] - span[axis]) / params->stride[axis] + 1;
    }
    return UF_OK;
}
