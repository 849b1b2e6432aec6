/* pool.c - MaxPool2d and AvgPool2d. */
#include "layers/layer.h"

#include "layers/field.h"
#include "layers/function.h"
#include <inttypes.h>
#include <string.h>

#define AMOUNT_LIMIT (INT64_C(1) << 30) /* keeps a window's span from overflowing */

typedef struct pool_attributes {
    uf_pool_kind kind;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, count_include_pad;
} pool_attributes;

static const char *title(const void *attributes) {
    const pool_attributes *pool = attributes;
    return pool->kind == UF_POOL_MAX ? "max_pool2d" : "avg_pool2d";
}

static uf_status check_pair(const char *name, const char *what, const int64_t *pair,
                            int64_t least) {
    for (int i = 0; i < 2; ++i) {
        UF_CHECK_ARG(pair[i] >= least && pair[i] < AMOUNT_LIMIT,
                     "%s: %s is %" PRId64 ", %" PRId64 "; it must be %" PRId64 " to 2^30 - 1", name,
                     what, pair[0], pair[1], least);
    }
    return UF_OK;
}

static uf_status infer(uf_infer *infer) {
    const pool_attributes *pool = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    const char *name = title(pool);
    char text[128];
    UF_CHECK_ARG(input->rank == 4, "%s: the input is %s; (N, C, H, W) is needed", name,
                 uf_shape_format(input, text, sizeof text));
    UF_TRY(check_pair(name, "kernel", pool->kernel, 1));
    UF_TRY(check_pair(name, "stride", pool->stride, 1));
    UF_TRY(check_pair(name, "padding", pool->padding, 0));
    UF_TRY(check_pair(name, "dilation", pool->dilation, 1));
    infer->output = *input;
    for (int i = 0; i < 2; ++i) {
        const int64_t extent = input->extent[2 + i];
        const int64_t span = (pool->kernel[i] - 1) * pool->dilation[i] + 1;
        UF_CHECK_ARG(pool->padding[i] <= span / 2,
                     "%s: padding is %" PRId64 ", %" PRId64
                     "; it may be half of what a window spans, %" PRId64,
                     name, pool->padding[0], pool->padding[1], span / 2);
        const int64_t room =
            extent + 2 * pool->padding[i] - span + (pool->ceil_mode ? pool->stride[i] - 1 : 0);
        UF_CHECK_ARG(room >= 0, "%s: a window spans %" PRId64 " elements of axis %d; the input %s",
                     name, span, 2 + i, uf_shape_format(input, text, sizeof text));
        int64_t out = room / pool->stride[i] + 1;
        /* No window begins in the padding behind the input. */
        out -= pool->ceil_mode && (out - 1) * pool->stride[i] >= extent + pool->padding[i] ? 1 : 0;
        infer->output.extent[2 + i] = out;
    }
    return UF_OK;
}

static uf_pool_kernel_args arguments(const uf_exec *exec) {
    const pool_attributes *pool = exec->attributes;
    uf_pool_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = pool->kind;
    args.count_include_pad = pool->count_include_pad;
    for (int i = 0; i < 2; ++i) {
        args.axis[i] = (uf_pool_axis){.in = exec->input_shapes[0]->extent[2 + i],
                                      .out = exec->output_shape->extent[2 + i],
                                      .kernel = pool->kernel[i],
                                      .stride = pool->stride[i],
                                      .padding = pool->padding[i],
                                      .dilation = pool->dilation[i]};
    }
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_pool_kernel_args args = arguments(exec);
    return exec->context->kernels->pool_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_pool_kernel_args args = arguments(exec);
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->pool_backward(exec->context, &args);
}

/* The maximum's place is not kept: it is where input and output are equal. */
static uint32_t backward_reads(const void *attributes) {
    const pool_attributes *pool = attributes;
    return pool->kind == UF_POOL_MAX ? (1u << 0 | UF_READS_OUTPUT) : 0;
}

/* A stride of 0 is the kernel's extent. */
static void complete(void *attributes) {
    pool_attributes *pool = attributes;
    for (int i = 0; i < 2; ++i) {
        pool->stride[i] = pool->stride[i] == 0 ? pool->kernel[i] : pool->stride[i];
    }
}

#define FIELD(kind, name, fallback) UF_FIELD(kind, #name, pool_attributes, name, fallback)
#define WINDOW                                                                                     \
    FIELD(PAIR, kernel, 2), FIELD(PAIR, stride, 0), FIELD(PAIR, padding, 0),                       \
        FIELD(FLAG, ceil_mode, 0)
static const uf_option max_table[] = {UF_FIXED(SMALL, pool_attributes, kind, UF_POOL_MAX), WINDOW,
                                      FIELD(PAIR, dilation, 1)};
static const uf_option avg_table[] = {UF_FIXED(SMALL, pool_attributes, kind, UF_POOL_AVERAGE),
                                      UF_FIXED(PAIR, pool_attributes, dilation, 1), WINDOW,
                                      FIELD(FLAG, count_include_pad, 1)};
#define FUNCTION(kind_)                                                                            \
    {                                                                                              \
        .name = #kind_ "_pool2d", .size = sizeof(pool_attributes), .least_inputs = 1,              \
        .most_inputs = 1, .options = "uf_" #kind_ "_pool2d_options", UF_TABLE(kind_##_table),      \
        .complete = complete                                                                       \
    }
static const uf_layer_function functions[] = {FUNCTION(max), FUNCTION(avg), {0}};

static bool field(const uf_field_query *query, uf_field *field) {
    const pool_attributes *pool = query->attributes;
    const int axis = 2 - query->back;
    *field = uf_field_window(pool->kernel[axis], pool->stride[axis], pool->padding[axis],
                             pool->dilation[axis]);
    return true;
}

const uf_layer uf_layer_pool2d = {
    .name = "pool2d",
    .functions = functions,
    .title = title,
    .infer = infer,
    .field = field,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .takes_gaps = true,
};

static uf_value append(uf_graph *graph, uf_value input, pool_attributes *pool) {
    complete(pool);
    return uf_graph_append(graph, &uf_layer_pool2d, pool, sizeof *pool, &input, 1, NULL);
}

uf_value uf_max_pool2d(uf_graph *graph, uf_value input, const uf_max_pool2d_options *given) {
    uf_max_pool2d_options options = uf_max_pool2d_options_default();
    if (!uf_graph_options(graph, "uf_max_pool2d_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    pool_attributes pool;
    memset(&pool, 0, sizeof pool);
    pool.kind = UF_POOL_MAX;
    pool.ceil_mode = options.ceil_mode;
    memcpy(pool.kernel, options.kernel, sizeof pool.kernel);
    memcpy(pool.stride, options.stride, sizeof pool.stride);
    memcpy(pool.padding, options.padding, sizeof pool.padding);
    memcpy(pool.dilation, options.dilation, sizeof pool.dilation);
    return append(graph, input, &pool);
}

uf_value uf_avg_pool2d(uf_graph *graph, uf_value input, const uf_avg_pool2d_options *given) {
    uf_avg_pool2d_options options = uf_avg_pool2d_options_default();
    if (!uf_graph_options(graph, "uf_avg_pool2d_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    pool_attributes pool;
    memset(&pool, 0, sizeof pool);
    pool.kind = UF_POOL_AVERAGE;
    pool.ceil_mode = options.ceil_mode;
    pool.count_include_pad = options.count_include_pad;
    pool.dilation[0] = pool.dilation[1] = 1;
    memcpy(pool.kernel, options.kernel, sizeof pool.kernel);
    memcpy(pool.stride, options.stride, sizeof pool.stride);
    memcpy(pool.padding, options.padding, sizeof pool.padding);
    return append(graph, input, &pool);
}
