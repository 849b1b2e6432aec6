/* matmul.c - products of matrices, as 1x1 convolutions.
 *
 * The rows of a are filters and the columns of b are pixels: with w = a (K_out = M, C = K), x = b
 * (C = K, N pixels) and y = a b (K_out = M, N pixels), forward  conv_fprop   y[m, n] = sum over k
 * of w[m, k] x[k, n] grad_b   conv_dgrad   x[k, n] = sum over m of w[m, k] y[m, n] grad_a
 * conv_wgrad   w[m, k] = sum over n of y[m, n] x[k, n] so that no operand is transposed or copied.
 * A batch of products is one call: axes that both have are groups, axes that only b has are images
 * outside of these, axes that only a has are more rows inside. Axes in another order than (only b,
 * both, only a) cost a call for each of their positions, and the gradient of the operand that is
 * repeated is summed over these in their order. */
#include "layers/conv.h"
#include "layers/strided.h"

#include <string.h>

/* Leading axes in a row that the same operands have. */
typedef struct axes {
    int64_t extent;
    bool in_a, in_b;
} axes;

/* `calls` calls of a grouped convolution of `images`. */
typedef struct batch {
    int64_t images, groups, rows, k, columns;
    axes outer[UF_MAX_RANK]; /* one call for each position, outermost first */
    int32_t outer_count;
    int64_t calls;
} batch;

/* The extent of leading axis `i` of `rank`, counted in the output; 1 where the operand has none. */
static int64_t leading(const uf_shape *shape, int32_t rank, int32_t i) {
    const int32_t own = i - (rank - shape->rank);
    return own >= 0 ? shape->extent[own] : 1;
}

static uf_status infer(uf_infer *infer) {
    const uf_shape *a = &infer->inputs[0], *b = &infer->inputs[1];
    char text[128], other[128];
    for (int i = 0; i < 2; ++i) {
        UF_CHECK_ARG(infer->inputs[i].rank >= 2,
                     "matmul: input %d is %s; (..., rows, columns) is needed", i,
                     uf_shape_format(&infer->inputs[i], text, sizeof text));
    }
    const int32_t rank = a->rank > b->rank ? a->rank : b->rank;
    bool fits = a->extent[a->rank - 1] == b->extent[b->rank - 2];
    infer->output.rank = rank;
    for (int32_t i = 0; i < rank - 2; ++i) {
        const int64_t of_a = leading(a, rank, i), of_b = leading(b, rank, i);
        fits = fits && (of_a == of_b || of_a == 1 || of_b == 1);
        infer->output.extent[i] = of_a > of_b ? of_a : of_b;
    }
    if (!fits) {
        UF_FAIL(UF_ERROR_SHAPE,
                "matmul: the inputs are %s and %s; (..., M, K) and (..., K, N) are needed, and "
                "leading axes that are equal or 1",
                uf_shape_format(a, text, sizeof text), uf_shape_format(b, other, sizeof other));
    }
    infer->output.extent[rank - 2] = a->extent[a->rank - 2];
    infer->output.extent[rank - 1] = b->extent[b->rank - 1];
    return UF_OK;
}

/* The extent of the last axes of `plan->outer` when they are of this kind, which then are no longer
 * walked; else 1. */
static int64_t take(batch *plan, bool in_a, bool in_b) {
    if (plan->outer_count == 0) {
        return 1;
    }
    const axes *last = &plan->outer[plan->outer_count - 1];
    if (last->in_a != in_a || last->in_b != in_b) {
        return 1;
    }
    plan->outer_count -= 1;
    return last->extent;
}

static batch batch_of(const uf_exec *exec) {
    const uf_shape *a = exec->input_shapes[0], *b = exec->input_shapes[1];
    const int32_t rank = exec->output_shape->rank;
    batch plan;
    memset(&plan, 0, sizeof plan);
    for (int32_t i = 0; i < rank - 2; ++i) {
        const axes one = {exec->output_shape->extent[i], leading(a, rank, i) > 1,
                          leading(b, rank, i) > 1};
        axes *last = plan.outer_count > 0 ? &plan.outer[plan.outer_count - 1] : NULL;
        if (one.extent == 1) {
            continue;
        }
        if (last != NULL && last->in_a == one.in_a && last->in_b == one.in_b) {
            last->extent *= one.extent;
        } else {
            plan.outer[plan.outer_count++] = one;
        }
    }
    plan.rows = take(&plan, true, false) * a->extent[a->rank - 2];
    plan.groups = take(&plan, true, true);
    plan.images = take(&plan, false, true);
    plan.k = a->extent[a->rank - 1];
    plan.columns = b->extent[b->rank - 1];
    plan.calls = 1;
    for (int32_t i = 0; i < plan.outer_count; ++i) {
        plan.calls *= plan.outer[i].extent;
    }
    return plan;
}

/* The number of an operand's block that call `number` uses. *first: no earlier call used it. */
static int64_t block_of(const batch *plan, int64_t number, bool of_a, bool *first) {
    int64_t block = 0;
    int64_t step = 1;
    *first = true;
    for (int32_t i = plan->outer_count - 1; i >= 0; --i) {
        const axes *one = &plan->outer[i];
        const int64_t at = number % one->extent;
        number /= one->extent;
        if (of_a ? one->in_a : one->in_b) {
            block += at * step;
            step *= one->extent;
        } else {
            *first = *first && at == 0;
        }
    }
    return block;
}

static uf_view block_view(const uf_view *whole, int64_t block, int64_t n, int64_t c, int64_t h,
                          int64_t w) {
    char *data =
        (char *)whole->data + (size_t)(block * n * c * h * w) * uf_dtype_size(whole->dtype);
    return uf_view_nchw(data, whole->dtype, n, c, h, w);
}

/* Call `number` of a direction, on `a`, `b` and `output` or their gradients. `mode` is of what is
 * written. */
static uf_conv_kernel_args call(const uf_exec *exec, const batch *plan, int64_t number,
                                uf_conv_direction direction, const uf_view *a, const uf_view *b,
                                const uf_view *output, uf_write_mode mode) {
    uf_conv_kernel_args args;
    bool first_a, first_b;
    memset(&args, 0, sizeof args);
    const int64_t filters = plan->groups * plan->rows;
    const int64_t block_a = block_of(plan, number, true, &first_a);
    const int64_t block_b = block_of(plan, number, false, &first_b);
    args.w = block_view(a, block_a, filters, plan->k, 1, 1);
    args.x = block_view(b, block_b, plan->images, plan->groups * plan->k, 1, plan->columns);
    args.y = block_view(output, number, plan->images, filters, 1, plan->columns);
    args.stride[0] = args.stride[1] = args.dilation[0] = args.dilation[1] = 1;
    args.groups = plan->groups;
    args.math = exec->math;
    const bool first = direction == UF_CONV_FPROP   ? true
                       : direction == UF_CONV_DGRAD ? first_b
                                                    : first_a;
    args.mode = first ? mode : UF_ACCUMULATE;
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

/* The calls of a pass: forward, or the gradients that are wanted. */
static int32_t directions(const uf_exec *exec, bool of_backward, uf_conv_direction wanted[2]) {
    int32_t count = 0;
    if (!of_backward) {
        wanted[count++] = UF_CONV_FPROP;
        return count;
    }
    if (exec->grad_inputs[0].data != NULL) {
        wanted[count++] = UF_CONV_WGRAD;
    }
    if (exec->grad_inputs[1].data != NULL) {
        wanted[count++] = UF_CONV_DGRAD;
    }
    return count;
}

static uf_conv_kernel_args call_of(const uf_exec *exec, const batch *plan, int64_t number,
                                   uf_conv_direction direction) {
    switch (direction) {
    case UF_CONV_WGRAD:
        return call(exec, plan, number, direction, &exec->grad_inputs[0], &exec->inputs[1],
                    &exec->grad_output, exec->grad_input_modes[0]);
    case UF_CONV_DGRAD:
        return call(exec, plan, number, direction, &exec->inputs[0], &exec->grad_inputs[1],
                    &exec->grad_output, exec->grad_input_modes[1]);
    case UF_CONV_FPROP:
        break;
    }
    return call(exec, plan, number, direction, &exec->inputs[0], &exec->inputs[1], &exec->output,
                UF_OVERWRITE);
}

static uf_status run(const uf_exec *exec, bool of_backward) {
    const batch plan = batch_of(exec);
    uf_conv_direction wanted[2];
    const int32_t count = directions(exec, of_backward, wanted);
    for (int32_t d = 0; d < count; ++d) {
        for (int64_t i = 0; i < plan.calls; ++i) {
            const uf_conv_kernel_args args = call_of(exec, &plan, i, wanted[d]);
            UF_TRY(uf_conv_layer_run(exec, wanted[d], &args));
        }
    }
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    return run(exec, false);
}

static uf_status backward(const uf_exec *exec) {
    return run(exec, true);
}

/* All calls of a direction have one geometry, in one of two modes. */
static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const batch plan = batch_of(exec);
    uf_conv_direction wanted[2];
    const int32_t count = directions(exec, of_backward, wanted);
    *size = 0;
    for (int32_t d = 0; d < count; ++d) {
        uf_conv_kernel_args args = call_of(exec, &plan, 0, wanted[d]);
        UF_TRY(uf_conv_layer_need(exec, wanted[d], &args, size));
        if (plan.calls > 1 && wanted[d] != UF_CONV_FPROP) {
            args.mode = UF_ACCUMULATE;
            UF_TRY(uf_conv_layer_need(exec, wanted[d], &args, size));
        }
    }
    return UF_OK;
}

/* Each gradient needs the other input. */
static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1u << 0 | 1u << 1;
}

/* The last two axes exchanged. */
static uf_value transposed(uf_graph *graph, uf_value value) {
    const int32_t rank = uf_value_shape(graph, value).rank;
    int32_t order[UF_MAX_RANK];
    for (int32_t axis = 0; axis < rank; ++axis) {
        order[axis] = axis < rank - 2 ? axis : 2 * rank - 3 - axis;
    }
    return uf_permute(graph, value, order, rank);
}

/* g b^T and a^T g, summed over the products that an operand is repeated in. */
static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    uf_graph *graph = rule->graph;
    const uf_value other = transposed(graph, rule->inputs[1 - input]);
    const uf_value product = input == 0 ? uf_matmul(graph, rule->grad_output, other)
                                        : uf_matmul(graph, other, rule->grad_output);
    return uf_layer_append_sum_to_size(graph, product, rule->inputs[input]);
}

static const uf_layer_function functions[] = {
    {.name = "matmul", .least_inputs = 2, .most_inputs = 2}, {0}};

const uf_layer uf_layer_matmul = {
    .name = "matmul",
    .functions = functions,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .gradient = gradient,
};

uf_value uf_matmul(uf_graph *graph, uf_value a, uf_value b) {
    const uf_value inputs[2] = {a, b};
    return uf_graph_append(graph, &uf_layer_matmul, NULL, 0, inputs, 2, NULL);
}
