/* strided.c - see strided.h. */
#include "layers/strided.h"

#include <inttypes.h>
#include <string.h>

void uf_layer_strides(const uf_view *view, const uf_shape *shape, int64_t stride[UF_MAX_RANK]) {
    uf_strided_contiguous(shape, stride);
    if (shape->rank >= 2 && shape->rank <= 4) {
        stride[0] = view->stride[0];
    }
}

uf_status uf_layer_axis(const char *layer, int32_t axis, const uf_shape *shape, int32_t *place) {
    char text[128];
    UF_CHECK_ARG(axis >= -shape->rank && axis < shape->rank,
                 "%s: axis %" PRId32 " is not one of %s, which has %" PRId32 " axes", layer, axis,
                 uf_shape_format(shape, text, sizeof text), shape->rank);
    *place = axis < 0 ? axis + shape->rank : axis;
    return UF_OK;
}

uf_strided_kernel_args uf_layer_over(const uf_shape *space, uf_dtype dtype, uf_write_mode mode) {
    uf_strided_kernel_args args;
    memset(&args, 0, sizeof args);
    args.term = UF_TERM_FIRST;
    args.dtype = dtype;
    args.factor = 1.0;
    args.mode = mode;
    args.space.rank = space->rank;
    memcpy(args.space.extent, space->extent, sizeof args.space.extent);
    return args;
}

void uf_layer_operand(uf_strided_kernel_args *args, void *data, const int64_t stride[UF_MAX_RANK]) {
    const int32_t k = args->space.operands++;
    memcpy(args->space.stride[k], stride, sizeof args->space.stride[k]);
    args->data[k] = data;
}

void uf_layer_advance(uf_strided_kernel_args *args, int32_t k, int64_t elements) {
    args->data[k] = (char *)args->data[k] + (size_t)elements * uf_dtype_size(args->dtype);
}

void uf_layer_reads(uf_strided_kernel_args *args, const uf_shape *space, const uf_view *view,
                    const uf_shape *shape) {
    int64_t own[UF_MAX_RANK], stride[UF_MAX_RANK] = {0};
    uf_layer_strides(view, shape, own);
    uf_strided_broadcast(space, shape, own, stride);
    uf_layer_operand(args, view->data, stride);
}

uf_strided_kernel_args uf_layer_written(const uf_shape *space, const uf_view *view,
                                        const uf_shape *shape, uf_write_mode mode) {
    uf_strided_kernel_args args = uf_layer_over(space, view->dtype, mode);
    uf_layer_reads(&args, space, view, shape); /* operand 0 is the output */
    return args;
}

/* In place, where the plan gave both one memory, there is nothing to overwrite. */
static bool is_in_place(const uf_strided_kernel_args *args) {
    return args->term == UF_TERM_FIRST && args->factor == 1.0 && args->mode == UF_OVERWRITE &&
           args->data[0] == args->data[1] && !uf_strided_repeats(&args->space);
}

uf_status uf_layer_run_strided(const uf_exec *exec, uf_strided_kernel_args *args) {
    const struct uf_kernels *kernels = exec->context->kernels;
    if (is_in_place(args)) {
        return UF_OK;
    }
    args->workspace = exec->workspace;
    args->workspace_size = exec->workspace_size;
    return uf_strided_repeats(&args->space) ? kernels->reduce(exec->context, args)
                                            : kernels->broadcast(exec->context, args);
}

void uf_layer_strided_workspace(const uf_exec *exec, const uf_strided_kernel_args *args,
                                size_t *size) {
    if (uf_strided_repeats(&args->space)) {
        const size_t needed = exec->context->kernels->reduce_workspace(exec->context, args);
        *size = needed > *size ? needed : *size;
    }
}
