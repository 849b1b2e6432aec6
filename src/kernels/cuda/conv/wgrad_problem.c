/* wgrad_problem.c - see wgrad_problem.h. */
#include "kernels/cuda/conv/wgrad_problem.h"

wgrad_problem uf_wgrad_problem_of(const uf_conv_kernel_args *args) {
    wgrad_problem made;
    made.x = args->x.data;
    made.y = args->y.data;
    made.w = args->w.data;
    made.partial = (float *)args->workspace;
    for (int axis = 0; axis < 4; ++axis) {
        made.x_stride[axis] = args->x.stride[axis];
        made.y_stride[axis] = args->y.stride[axis];
        made.w_stride[axis] = args->w.stride[axis];
    }
    made.batch = (int32_t)args->y.extent[0];
    made.groups = (int32_t)args->groups;
    made.k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    made.c_per_group = (int32_t)args->w.extent[1];
    made.taps_w = (int32_t)args->w.extent[3];
    made.taps = (int32_t)(args->w.extent[2] * args->w.extent[3]);
    for (int axis = 0; axis < 2; ++axis) {
        made.large[axis] = (int32_t)args->x.extent[2 + axis];
        made.small[axis] = (int32_t)args->y.extent[2 + axis];
        made.stride[axis] = (int32_t)args->stride[axis];
        made.padding[axis] = (int32_t)args->padding[axis];
        made.dilation[axis] = (int32_t)args->dilation[axis];
    }
    return made;
}

wgrad_rows uf_wgrad_rows_of(int64_t extent, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t g = uf_gcd(stride, dilation);
    int64_t step = stride / g < kernel ? stride / g : kernel;
    int64_t shift = dilation / g;
    int64_t most = (kernel + step - 1) / step;
    int64_t longest = kernel - (most - 1) * step;
    int64_t count = step * (extent + (most - 1) * shift) - (step - longest) * shift;
    if (count > extent * kernel || most == 1) {
        step = longest = kernel;
        shift = 0;
        most = 1;
        count = extent * kernel;
    }
    wgrad_rows lines;
    lines.stride = (int32_t)stride;
    lines.dilation = (int32_t)dilation;
    lines.step = (int32_t)step;
    lines.shift = (int32_t)shift;
    lines.length = (int32_t)(extent + (most - 1) * shift);
    lines.longest = (int32_t)longest;
    lines.count = (int32_t)count;
    return lines;
}
