/* pad.c - padding of the last two axes. */
#include "reference/reference.h"

/* Where padded position `i` of an axis takes its value from, walking there a step at a time; -1
 * means that it is a zero. */
static int64_t source(ref_pad_mode mode, int64_t i, int64_t before, int64_t extent) {
    int64_t at = i - before;
    if (mode == REF_PAD_ZERO) {
        return at >= 0 && at < extent ? at : -1;
    }
    if (mode == REF_PAD_REPLICATE) {
        if (at < 0) {
            return 0;
        }
        return at < extent ? at : extent - 1;
    }
    if (at < 0) {
        at = -at;
    }
    return at < extent ? at : 2 * (extent - 1) - at;
}

void ref_pad_forward(const ref_pad *pad, const double *input, double *output) {
    const int64_t out_height = pad->top + pad->height + pad->bottom;
    const int64_t out_width = pad->left + pad->width + pad->right;
    for (int64_t plane = 0; plane < pad->planes; ++plane) {
        for (int64_t y = 0; y < out_height; ++y) {
            for (int64_t x = 0; x < out_width; ++x) {
                const int64_t from_y = source(pad->mode, y, pad->top, pad->height);
                const int64_t from_x = source(pad->mode, x, pad->left, pad->width);
                output[(plane * out_height + y) * out_width + x] =
                    from_y < 0 || from_x < 0
                        ? 0.0
                        : input[(plane * pad->height + from_y) * pad->width + from_x];
            }
        }
    }
}

void ref_pad_backward(const ref_pad *pad, const double *grad_output, double *grad_input) {
    const int64_t out_height = pad->top + pad->height + pad->bottom;
    const int64_t out_width = pad->left + pad->width + pad->right;
    for (int64_t i = 0; i < pad->planes * pad->height * pad->width; ++i) {
        grad_input[i] = 0.0;
    }
    for (int64_t plane = 0; plane < pad->planes; ++plane) {
        for (int64_t y = 0; y < out_height; ++y) {
            for (int64_t x = 0; x < out_width; ++x) {
                const int64_t from_y = source(pad->mode, y, pad->top, pad->height);
                const int64_t from_x = source(pad->mode, x, pad->left, pad->width);
                if (from_y >= 0 && from_x >= 0) {
                    grad_input[(plane * pad->height + from_y) * pad->width + from_x] +=
                        grad_output[(plane * out_height + y) * out_width + x];
                }
            }
        }
    }
}
