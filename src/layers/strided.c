/* strided.c - see strided.h. */
#include "layers/strided.h"

#include <string.h>

void uf_layer_strides(const uf_view *view, const uf_shape *shape, int64_t stride[UF_MAX_RANK]) {
    uf_strided_contiguous(shape, stride);
    if (shape->rank >= 2 && shape->rank <= 4) {
        stride[0] = view->stride[0];
    }
}

static void add_operand(uf_strided_kernel_args *args, const uf_shape *space, const uf_view *view,
                        const uf_shape *shape) {
    const int32_t k = args->space.operands++;
    int64_t own[UF_MAX_RANK];
    uf_layer_strides(view, shape, own);
    uf_strided_broadcast(space, shape, own, args->space.stride[k]);
    args->data[k] = view->data;
}

uf_strided_kernel_args uf_layer_written(const uf_shape *space, const uf_view *view,
                                        const uf_shape *shape, uf_write_mode mode) {
    uf_strided_kernel_args args;
    memset(&args, 0, sizeof args);
    args.term = UF_TERM_FIRST;
    args.dtype = view->dtype;
    args.factor = 1.0;
    args.mode = mode;
    args.space.rank = space->rank;
    memcpy(args.space.extent, space->extent, sizeof args.space.extent);
    add_operand(&args, space, view, shape);
    return args;
}

void uf_layer_reads(uf_strided_kernel_args *args, const uf_shape *space, const uf_view *view,
                    const uf_shape *shape) {
    add_operand(args, space, view, shape);
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
