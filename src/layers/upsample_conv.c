/* upsample_conv.c - see upsample_conv.h.
 *
 * Along an axis the convolution with padding p makes y[o] = sum over t < K of w[t] u[o + t - p] of
 * u[i] = x[floor(i/2)]. Pixel i of x meets o + t - p = 2 i and 2 i + 1. So with q = K - 1 - p
 *     y[o] = sum over i of x[i] d[o - 2 i + q],  d[m] = w[K - 1 - m] + w[K - m],
 * where weights beyond the ends are 0: a transposed convolution with the kernel d of K + 1 and the
 * padding q. The error of d is within that of the products of a chain: |d| is at most the sum of
 * the |w| that meet the pixel. */
#include "layers/upsample_conv.h"

#include <string.h>

#include "layers/strided.h"

bool uf_layer_behind_doubling(const uf_layer *layer, const void *attributes,
                              uf_conv_attributes *made) {
    const uf_conv_attributes *conv = attributes;
    if (layer != &uf_layer_conv2d || conv->axes != 2 || conv->by_value || conv->has_like ||
        conv->params.groups != 1) {
        return false;
    }
    *made = *conv;
    made->transposed = true;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = conv->kernel[axis], padding = conv->params.padding[axis];
        /* With one tap there is nothing to add. */
        if (conv->params.stride[axis] != 1 || conv->params.dilation[axis] != 1 || kernel < 2 ||
            padding >= kernel) {
            return false;
        }
        made->params.stride[axis] = 2;
        made->params.padding[axis] = kernel - 1 - padding;
        made->kernel[axis] = kernel + 1;
    }
    return true;
}

/* The result, or scratch where it is bf16: weights are added in the parameter's type. */
static void *sums_of(const uf_exec *exec) {
    return exec->output.dtype == exec->params[0].dtype ? exec->output.data : exec->workspace;
}

/* Every filter's element m of d: the sum of one, two or four of its weights. */
static uf_status add_element(const uf_exec *exec, const int64_t m[2]) {
    const uf_view *w = &exec->params[0];
    const int64_t *wide = &exec->output.extent[2];
    const uf_shape filters = UF_SHAPE(w->extent[1], w->extent[0]);
    const int64_t to[UF_MAX_RANK] = {w->extent[0] * wide[0] * wide[1], wide[0] * wide[1]};
    const int64_t from[UF_MAX_RANK] = {w->stride[1], w->stride[0]};
    int64_t first[2], count[2];
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = w->extent[2 + axis];
        first[axis] = m[axis] == kernel ? 0 : kernel - 1 - m[axis];
        count[axis] = m[axis] == 0 || m[axis] == kernel ? 1 : 2;
    }
    /* One row of the filter at a time: its two weights make one term. */
    for (int64_t row = 0; row < count[0]; ++row) {
        uf_strided_kernel_args args =
            uf_layer_over(&filters, w->dtype, row == 0 ? UF_OVERWRITE : UF_ACCUMULATE);
        args.term = count[1] == 1 ? UF_TERM_FIRST : UF_TERM_ADD;
        uf_layer_operand(&args, sums_of(exec), to);
        uf_layer_advance(&args, 0, m[0] * wide[1] + m[1]);
        for (int32_t k = 1; k <= count[1]; ++k) {
            uf_layer_operand(&args, w->data, from);
            uf_layer_advance(&args, k,
                             (first[0] + row) * w->stride[2] + (first[1] + k - 1) * w->stride[3]);
        }
        UF_TRY(uf_layer_run_strided(exec, &args));
    }
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    const uf_view *d = &exec->output;
    int64_t m[2];
    for (m[0] = 0; m[0] < d->extent[2]; ++m[0]) {
        for (m[1] = 0; m[1] < d->extent[3]; ++m[1]) {
            UF_TRY(add_element(exec, m));
        }
    }
    if (sums_of(exec) == d->data) {
        return UF_OK;
    }
    const uf_view sums = uf_view_of(exec->workspace, exec->params[0].dtype, exec->output_shape);
    return uf_layer_copy(exec, &sums, d, UF_OVERWRITE);
}

static uf_status workspace(const uf_exec *exec, bool backward, size_t *size) {
    (void)backward;
    *size = exec->output.dtype == exec->params[0].dtype
                ? 0
                : (size_t)uf_shape_count(exec->output_shape) * uf_dtype_size(exec->params[0].dtype);
    return UF_OK;
}

const uf_layer uf_layer_doubled_weight = {
    .name = "doubled_weight",
    .forward = forward,
    .workspace = workspace,
    .of_parameters = true,
};
