/* cell.c - one cell of a benchmark: tensors on the device, and the operation on them. */
#include "cell.h"

#include <math.h>
#include <string.h>

uf_status bench_cell_run(void *user, int set) {
    bench_cell *c = user;
    uf_view views[BENCH_TENSORS];
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        views[t] = c->views[t];
        views[t].data = c->memory[t] + (size_t)set * c->bytes[t];
    }
    uf_conv2d_args args = c->args;
    args.weight = views[BENCH_W];
    args.workspace = c->workspace;
    args.workspace_size = c->workspace_size;
    switch (c->op) {
    case BENCH_FORWARD:
        args.input = views[BENCH_Y];
        args.output = views[BENCH_X];
        return uf_conv_transpose2d_forward(c->context, &args);
    case BENCH_GRAD_INPUT:
        args.grad_output = views[BENCH_X];
        args.grad_input = views[BENCH_Y];
        return uf_conv_transpose2d_backward_input(c->context, &args);
    default:
        args.input = views[BENCH_Y];
        args.grad_output = views[BENCH_X];
        args.grad_weight = views[BENCH_W];
        memset(&args.weight, 0, sizeof args.weight);
        return uf_conv_transpose2d_backward_weight(c->context, &args);
    }
}

static uf_status query_workspace(const bench_cell *c, size_t *size) {
    uf_conv2d_args args = c->args;
    uf_view views[BENCH_TENSORS];
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        views[t] = c->views[t];
        views[t].data = c->memory[t];
    }
    args.weight = views[BENCH_W];
    switch (c->op) {
    case BENCH_FORWARD:
        args.input = views[BENCH_Y];
        args.output = views[BENCH_X];
        return uf_conv_transpose2d_forward_workspace(c->context, &args, size);
    case BENCH_GRAD_INPUT:
        args.grad_output = views[BENCH_X];
        args.grad_input = views[BENCH_Y];
        return uf_conv_transpose2d_backward_input_workspace(c->context, &args, size);
    default:
        args.input = views[BENCH_Y];
        args.grad_output = views[BENCH_X];
        args.grad_weight = views[BENCH_W];
        memset(&args.weight, 0, sizeof args.weight);
        return uf_conv_transpose2d_backward_weight_workspace(c->context, &args, size);
    }
}

static uf_status fill_one(const bench_cell *c, bench_tensor t, uf_view view) {
    const struct uf_kernels *kernels = c->context->kernels;
    if (t == bench_written(c->op)) {
        uf_fill_kernel_args args;
        memset(&args, 0, sizeof args);
        args.output = view;
        args.value = (double)NAN; /* unwritten elements show */
        return kernels->fill(c->context, &args);
    }
    uf_random_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = UF_RANDOM_UNIFORM;
    args.seed = bench_seed(t);
    args.a = -1.0;
    args.b = 1.0;
    args.output = view;
    return kernels->random_fill(c->context, &args);
}

/* The f32 numbers that cuDNN's bf16 tensors are made of too, rounded. */
static uf_status fill_rounded(const bench_cell *c, bench_tensor t) {
    const int64_t *e = c->views[t].extent;
    const size_t bytes = (size_t)uf_view_count(&c->views[t]) * sizeof(float);
    void *wide;
    UF_TRY(uf_context_allocate(c->context, bytes, UF_MEMORY_DEVICE, &wide));
    uf_status status = fill_one(c, t, uf_view_nchw(wide, UF_F32, e[0], e[1], e[2], e[3]));
    for (int set = 0; set < c->sets && status == UF_OK; ++set) {
        if (bench_convert(c->context->stream, c->memory[t] + (size_t)set * c->bytes[t], wide,
                          UF_F32, true, e, c->views[t].stride) != 0) {
            status = uf_fail(UF_ERROR_DEVICE, "benchmark: rounding to bf16 failed");
        }
    }
    if (status == UF_OK) {
        status = uf_context_synchronize(c->context);
    }
    uf_context_release(c->context, wide, bytes, UF_MEMORY_DEVICE);
    return status;
}

static uf_status fill(const bench_cell *c) {
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        if (c->views[t].dtype == UF_BF16) {
            UF_TRY(fill_rounded(c, (bench_tensor)t));
            continue;
        }
        for (int set = 0; set < c->sets; ++set) {
            uf_view view = c->views[t];
            view.data = c->memory[t] + (size_t)set * c->bytes[t];
            UF_TRY(fill_one(c, (bench_tensor)t, view));
        }
    }
    return UF_OK;
}

uf_status bench_cell_create(bench_cell *c, uf_context *context, const bench_shape *shape,
                            bench_op op, uf_dtype dtype, uf_math math) {
    memset(c, 0, sizeof *c);
    c->context = context;
    c->op = op;
    c->args = uf_conv2d_args_default();
    memcpy(c->args.params.stride, shape->stride, sizeof shape->stride);
    memcpy(c->args.params.padding, shape->padding, sizeof shape->padding);
    memcpy(c->args.params.output_padding, shape->output_padding, sizeof shape->output_padding);
    memcpy(c->args.params.dilation, shape->dilation, sizeof shape->dilation);
    c->args.params.groups = shape->groups;
    c->args.math = math;
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        int64_t e[4];
        bench_extent(shape, (bench_tensor)t, e);
        c->views[t] = uf_view_nchw(NULL, dtype, e[0], e[1], e[2], e[3]);
        c->bytes[t] = uf_align_up((size_t)uf_view_count(&c->views[t]) * uf_dtype_size(dtype));
    }
    /* So many sets that together they pass the cache twice over. */
    const double sets =
        3.0 * (double)bench_cache(c->context) / bench_bytes(shape, uf_dtype_size(dtype));
    c->sets = sets < 1 ? 1 : sets > 64 ? 64 : (int)sets + 1;
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        void *memory;
        UF_TRY(uf_context_allocate(c->context, c->bytes[t] * (size_t)c->sets, UF_MEMORY_DEVICE,
                                   &memory));
        c->memory[t] = memory;
    }
    return fill(c);
}

static void release_workspace(bench_cell *c) {
    uf_context_release(c->context, c->workspace, c->workspace_size, UF_MEMORY_DEVICE);
    c->workspace = NULL;
    c->workspace_size = 0;
}

uf_status bench_cell_force(bench_cell *c, const char *variant) {
    size_t size = 0;
    void *workspace = NULL;
    release_workspace(c);
    c->args.variant = variant;
    UF_TRY(query_workspace(c, &size));
    UF_TRY(uf_context_allocate(c->context, size, UF_MEMORY_DEVICE, &workspace));
    c->workspace = workspace;
    c->workspace_size = size;
    return UF_OK;
}

void bench_cell_destroy(bench_cell *c) {
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        uf_context_release(c->context, c->memory[t], c->bytes[t] * (size_t)c->sets,
                           UF_MEMORY_DEVICE);
    }
    release_workspace(c);
}

/* Looks at the results of the last timed calls; every kind of run writes set 0. */
uf_status bench_cell_check(const bench_cell *c, const bench_samples *samples, double *error) {
    double got[BENCH_SAMPLES];
    const bench_tensor written = bench_written(c->op);
    const uf_dtype dtype = c->views[written].dtype;
    const int64_t *stride = c->views[written].stride;
    const size_t element = uf_dtype_size(dtype);
    for (int i = 0; i < samples->count; ++i) {
        unsigned char raw[8];
        int64_t offset = 0;
        for (int axis = 0; axis < 4; ++axis) {
            offset += samples->at[i][axis] * stride[axis];
        }
        UF_TRY(c->context->device->download(
            c->context, raw, c->memory[written] + (size_t)offset * element, element));
        uf_convert(&got[i], UF_F64, raw, dtype, 1);
    }
    *error = bench_error(samples, got);
    return UF_OK;
}

uf_status bench_cell_clear(const bench_cell *c) {
    const bench_tensor written = bench_written(c->op);
    uf_view view = c->views[written];
    view.data = c->memory[written];
    return view.dtype == UF_BF16 ? fill_rounded(c, written) : fill_one(c, written, view);
}

uf_status bench_cell_finite(const bench_cell *c, bool *finite) {
    enum { AT_ONCE = 4096 };
    unsigned char raw[AT_ONCE * 8];
    double values[AT_ONCE];
    const bench_tensor written = bench_written(c->op);
    const uf_dtype dtype = c->views[written].dtype;
    const int64_t total = uf_view_count(&c->views[written]);
    const int64_t count = total < AT_ONCE ? total : AT_ONCE;
    const int64_t from[] = {0, (total - count) / 2, total - count};
    *finite = true;
    for (int i = 0; i < 3; ++i) {
        const size_t element = uf_dtype_size(dtype);
        UF_TRY(c->context->device->download(c->context, raw,
                                            c->memory[written] + (size_t)from[i] * element,
                                            (size_t)count * element));
        uf_convert(values, UF_F64, raw, dtype, count);
        for (int64_t k = 0; k < count; ++k) {
            *finite = *finite && isfinite(values[k]);
        }
    }
    return UF_OK;
}
