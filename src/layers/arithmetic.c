/* arithmetic.c - add, sub, mul and div of two values, which broadcast as in PyTorch
 * (https://docs.pytorch.org/docs/stable/notes/broadcasting.html).
 *
 * With g the gradient of the output, that of an input is factor * term(operands), summed over the
 * axes along which the input repeats. */
#include "layers/strided.h"

#include <inttypes.h>

#include "layers/field.h"
#include "layers/function.h"

typedef enum source { GRADIENT, FIRST, SECOND } source;

typedef struct derivative {
    uf_term term;
    double factor;
    source operands[3];
    int32_t count;
} derivative;

typedef struct operation {
    uf_term term;
    derivative gradients[2];
} operation;

typedef enum operation_kind { ADD, SUB, MUL, DIV } operation_kind;

static const operation operations[] = {
    [ADD] = {UF_TERM_ADD,
             {{UF_TERM_FIRST, 1.0, {GRADIENT}, 1}, {UF_TERM_FIRST, 1.0, {GRADIENT}, 1}}},
    [SUB] = {UF_TERM_SUBTRACT,
             {{UF_TERM_FIRST, 1.0, {GRADIENT}, 1}, {UF_TERM_FIRST, -1.0, {GRADIENT}, 1}}},
    [MUL] = {UF_TERM_MULTIPLY,
             {{UF_TERM_MULTIPLY, 1.0, {GRADIENT, SECOND}, 2},
              {UF_TERM_MULTIPLY, 1.0, {GRADIENT, FIRST}, 2}}},
    [DIV] = {UF_TERM_DIVIDE,
             {{UF_TERM_DIVIDE, 1.0, {GRADIENT, SECOND}, 2},
              {UF_TERM_DIVIDE_TWICE, -1.0, {GRADIENT, FIRST, SECOND}, 3}}},
};

/* The attributes are the operation_kind. */
static const operation *operation_of(const void *attributes) {
    return &operations[*(const int32_t *)attributes];
}

static const char *const names[] = {[ADD] = "add", [SUB] = "sub", [MUL] = "mul", [DIV] = "div"};

static uf_status infer(uf_infer *infer) {
    const uf_shape *a = &infer->inputs[0], *b = &infer->inputs[1];
    const uf_shape *longer = a->rank >= b->rank ? a : b;
    const uf_shape *shorter = longer == a ? b : a;
    const int32_t missing = longer->rank - shorter->rank;
    infer->output = *longer;
    for (int32_t axis = missing; axis < longer->rank; ++axis) {
        const int64_t one = longer->extent[axis], other = shorter->extent[axis - missing];
        if (one != other && one != 1 && other != 1) {
            char text[128], other_text[128];
            UF_FAIL(UF_ERROR_SHAPE,
                    "%s: the inputs are %s and %s; counted from the last one, extents must be "
                    "equal or 1",
                    names[*(const int32_t *)infer->attributes],
                    uf_shape_format(a, text, sizeof text),
                    uf_shape_format(b, other_text, sizeof other_text));
        }
        infer->output.extent[axis] = one == 1 ? other : one;
    }
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    const uf_shape *space = exec->output_shape;
    uf_strided_kernel_args args = uf_layer_written(space, &exec->output, space, UF_OVERWRITE);
    args.term = operation_of(exec->attributes)->term;
    for (int32_t i = 0; i < 2; ++i) {
        uf_layer_reads(&args, space, &exec->inputs[i], exec->input_shapes[i]);
    }
    return uf_layer_run_strided(exec, &args);
}

/* The call that makes the gradient of input `i`. */
static uf_strided_kernel_args backward_call(const uf_exec *exec, int32_t i) {
    const derivative *made = &operation_of(exec->attributes)->gradients[i];
    const uf_shape *space = exec->output_shape;
    uf_strided_kernel_args args = uf_layer_written(
        space, &exec->grad_inputs[i], exec->input_shapes[i], exec->grad_input_modes[i]);
    args.term = made->term;
    args.factor = made->factor;
    for (int32_t k = 0; k < made->count; ++k) {
        const source from = made->operands[k];
        if (from == GRADIENT) {
            uf_layer_reads(&args, space, &exec->grad_output, space);
        } else {
            const int32_t input = from == FIRST ? 0 : 1;
            uf_layer_reads(&args, space, &exec->inputs[input], exec->input_shapes[input]);
        }
    }
    return args;
}

/* Where the plan put a gradient over grad_output it is the last one, or grad_output itself. */
static uf_status backward(const uf_exec *exec) {
    for (int32_t i = 0; i < 2; ++i) {
        if (exec->grad_inputs[i].data != NULL) {
            uf_strided_kernel_args args = backward_call(exec, i);
            UF_TRY(uf_layer_run_strided(exec, &args));
        }
    }
    return UF_OK;
}

static uf_status workspace(const uf_exec *exec, bool is_backward, size_t *size) {
    for (int32_t i = 0; is_backward && i < 2; ++i) {
        if (exec->grad_inputs[i].data != NULL) {
            const uf_strided_kernel_args args = backward_call(exec, i);
            uf_layer_strided_workspace(exec, &args, size);
        }
    }
    return UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    uint32_t reads = 0;
    for (int32_t i = 0; i < 2; ++i) {
        const derivative *made = &operation_of(attributes)->gradients[i];
        for (int32_t k = 0; k < made->count; ++k) {
            reads |= made->operands[k] == FIRST    ? UINT32_C(1)
                     : made->operands[k] == SECOND ? UINT32_C(2)
                                                   : UINT32_C(0);
        }
    }
    return reads;
}

/* The gradient before it is summed over the axes along which the input repeats, then the sum. */
static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    uf_graph *graph = rule->graph;
    const bool second = input == 1;
    uf_value made = rule->grad_output;
    switch ((operation_kind) * (const int32_t *)rule->attributes) {
    case ADD:
        break;
    case SUB:
        made = second ? uf_neg(graph, made) : made;
        break;
    case MUL:
        made = uf_mul(graph, made, rule->inputs[second ? 0 : 1]);
        break;
    case DIV: /* of a / b by b: -(a / b) / b */
        made = second ? uf_neg(graph, uf_mul(graph, made, rule->output)) : made;
        made = uf_div(graph, made, rule->inputs[1]);
        break;
    }
    return uf_layer_append_sum_to_size(graph, made, rule->inputs[input]);
}

/* `over_gradient`: the first gradient is the output's own, so that the second may be read from
 * where the first was written. */
#define LAYER(layer_, kind_, over_gradient_)                                                       \
    static const uf_option layer_##_table[] = {                                                    \
        {.kind = UF_OPTION_SMALL, .place = UF_PLACE_FIXED, .fallback = (kind_)}};                  \
    static const uf_layer_function layer_##_functions[] = {{.name = #layer_,                       \
                                                            .size = sizeof(int32_t),               \
                                                            .least_inputs = 2,                     \
                                                            .most_inputs = 2,                      \
                                                            UF_TABLE(layer_##_table)},             \
                                                           {0}};                                   \
    const uf_layer uf_layer_##layer_ = {                                                           \
        .name = #layer_,                                                                           \
        .functions = layer_##_functions,                                                           \
        .infer = infer,                                                                            \
        .field = uf_field_point,                                                                   \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .workspace = workspace,                                                                    \
        .backward_reads = backward_reads,                                                          \
        .gradient = gradient,                                                                      \
        .overwrites_inputs = 2,                                                                    \
        .overwrites_gradient = (over_gradient_),                                                   \
        .takes_gaps = true,                                                                        \
    }

LAYER(add, ADD, true);
LAYER(sub, SUB, true);
LAYER(mul, MUL, false);
LAYER(div, DIV, false);

static uf_value append(uf_graph *graph, const uf_layer *layer, operation_kind kind, uf_value a,
                       uf_value b) {
    const uf_value inputs[2] = {a, b};
    const int32_t attributes = (int32_t)kind;
    return uf_graph_append(graph, layer, &attributes, sizeof attributes, inputs, 2, NULL);
}

uf_value uf_add(uf_graph *graph, uf_value a, uf_value b) {
    return append(graph, &uf_layer_add, ADD, a, b);
}

uf_value uf_sub(uf_graph *graph, uf_value a, uf_value b) {
    return append(graph, &uf_layer_sub, SUB, a, b);
}

uf_value uf_mul(uf_graph *graph, uf_value a, uf_value b) {
    return append(graph, &uf_layer_mul, MUL, a, b);
}

uf_value uf_div(uf_graph *graph, uf_value a, uf_value b) {
    return append(graph, &uf_layer_div, DIV, a, b);
}
