/* flatten.c - pointwise convolutions as one row per image. */
#include "kernels/cuda/conv/flatten.h"

/* Is each plane one contiguous row? */
static bool is_row(const uf_view *view) {
    return (view->extent[3] == 1 || view->stride[3] == 1) &&
           (view->extent[2] == 1 || view->stride[2] == view->extent[3]);
}

static void flatten(uf_view *view) {
    view->extent[3] *= view->extent[2];
    view->stride[3] = 1;
    view->extent[2] = view->extent[0];
    view->stride[2] = view->stride[0];
    view->extent[0] = 1;
}

uf_conv_kernel_args uf_conv_flat(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    const int64_t limit = INT64_C(1) << 28; /* that of uf_conv_positions_fit */
    for (int axis = 0; axis < 2; ++axis) {
        if (args->w.extent[2 + axis] != 1 || args->stride[axis] != 1 || args->padding[axis] != 0 ||
            args->x.extent[2 + axis] != args->y.extent[2 + axis] ||
            args->x.extent[2 + axis] >= limit || args->x.extent[2 + axis] < 1) {
            return made;
        }
    }
    if (is_row(&args->x) && is_row(&args->y) && args->x.extent[2] * args->x.extent[3] < limit &&
        args->x.extent[0] < limit && args->x.extent[0] > 0) {
        flatten(&made.x);
        flatten(&made.y);
    }
    return made;
}
