/* ncnn_pointwise.c - ncnn's layers of one element each: activations, and arithmetic of one or two
 * values. */
#include "model/ncnn.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

uf_value uf_ncnn_constant(uf_ncnn *net, uf_value like, double number) {
    return uf_full_like(net->graph, like, number);
}

/* ---- activations ---- */

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-6; /* texts have seven digits */
}

static uf_value leaky(uf_ncnn *net, uf_value x, double slope) {
    return slope == 0.0 ? uf_relu(net->graph, x) : uf_leaky_relu(net->graph, x, slope);
}

/* Bounds of float's ends are none. */
static uf_value clip(uf_ncnn *net, uf_value x, double least, double most) {
    least = least <= -(double)FLT_MAX ? -HUGE_VAL : least;
    most = most >= (double)FLT_MAX ? HUGE_VAL : most;
    if (least > most) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "a clip from %g to %g", least, most);
        return x;
    }
    return uf_clamp(net->graph, x, least, most);
}

/* clamp(alpha x + beta, 0, 1); PyTorch's has alpha 1/6 and beta 1/2. */
static uf_value hard_sigmoid(uf_ncnn *net, uf_value x, double alpha, double beta) {
    if (is_near(alpha, 1.0 / 6.0) && is_near(beta, 0.5)) {
        return uf_hardsigmoid(net->graph, x);
    }
    const uf_value sum =
        uf_add(net->graph, uf_scale(net->graph, x, alpha), uf_ncnn_constant(net, x, beta));
    return uf_clamp(net->graph, sum, 0.0, 1.0);
}

static uf_value hard_swish(uf_ncnn *net, uf_value x, double alpha, double beta) {
    if (is_near(alpha, 1.0 / 6.0) && is_near(beta, 0.5)) {
        return uf_hardswish(net->graph, x);
    }
    return uf_mul(net->graph, x, hard_sigmoid(net, x, alpha, beta));
}

/* Options 9 and 10 of a convolution: the kind, and its numbers. */
uf_value uf_ncnn_activation(uf_ncnn *net, uf_value value) {
    static const int32_t counts[] = {0, 0, 1, 2, 0, 0, 2};
    const double *numbers;
    const int64_t kind = uf_ncnn_integer(net, 9, 0);
    const int32_t count = uf_ncnn_array(net, 10, &numbers);
    if (kind < 0 || kind >= (int64_t)(sizeof counts / sizeof *counts)) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "activation_type (option 9) is %" PRId64 "; unfurl has 0 to 6", kind);
        return value;
    }
    if (count < counts[kind]) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "activation_type %" PRId64 " needs %" PRId32
                       " numbers in option -23310, not "
                       "%" PRId32,
                       kind, counts[kind], count);
    }
    if (net->status != UF_OK) {
        return value;
    }
    switch (kind) {
    case 1:
        return uf_relu(net->graph, value);
    case 2:
        return leaky(net, value, numbers[0]);
    case 3:
        return clip(net, value, numbers[0], numbers[1]);
    case 4:
        return uf_sigmoid(net->graph, value);
    case 5:
        return uf_mish(net->graph, value);
    case 6:
        return hard_swish(net, value, numbers[0], numbers[1]);
    default:
        return value;
    }
}

static void relu(uf_ncnn *net, uf_value *tops) {
    tops[0] = leaky(net, uf_ncnn_bottom(net, 0), uf_ncnn_number(net, 0, 0.0));
}

static void clip_layer(uf_ncnn *net, uf_value *tops) {
    const double least = uf_ncnn_number(net, 0, -HUGE_VAL);
    tops[0] = clip(net, uf_ncnn_bottom(net, 0), least, uf_ncnn_number(net, 1, HUGE_VAL));
}

static void elu(uf_ncnn *net, uf_value *tops) {
    tops[0] = uf_elu(net->graph, uf_ncnn_bottom(net, 0), uf_ncnn_number(net, 0, 0.1));
}

static void selu(uf_ncnn *net, uf_value *tops) {
    const double alpha = uf_ncnn_number(net, 0, 1.67326324);
    const double lambda = uf_ncnn_number(net, 1, 1.050700987);
    if (!is_near(alpha, 1.67326324) || !is_near(lambda, 1.050700987)) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "alpha is %g and lambda %g; unfurl has SELU's own alone", alpha, lambda);
    }
    tops[0] = uf_selu(net->graph, uf_ncnn_bottom(net, 0));
}

static void gelu(uf_ncnn *net, uf_value *tops) {
    const uf_value x = uf_ncnn_bottom(net, 0);
    tops[0] =
        uf_ncnn_integer(net, 0, 0) != 0 ? uf_gelu_tanh(net->graph, x) : uf_gelu(net->graph, x);
}

static void hard_sigmoid_layer(uf_ncnn *net, uf_value *tops) {
    const double alpha = uf_ncnn_number(net, 0, 0.2);
    tops[0] = hard_sigmoid(net, uf_ncnn_bottom(net, 0), alpha, uf_ncnn_number(net, 1, 0.5));
}

static void hard_swish_layer(uf_ncnn *net, uf_value *tops) {
    const double alpha = uf_ncnn_number(net, 0, 0.2);
    tops[0] = hard_swish(net, uf_ncnn_bottom(net, 0), alpha, uf_ncnn_number(net, 1, 0.5));
}

/* Layers that are a function of layers.h and have no options. */
typedef uf_value plain_function(uf_graph *graph, uf_value input);

static const struct {
    const char *type;
    plain_function *function;
} plain[] = {
    {"Sigmoid", uf_sigmoid}, {"TanH", uf_tanh},  {"Mish", uf_mish},
    {"Swish", uf_silu},      {"AbsVal", uf_abs},
};

static void plain_layer(uf_ncnn *net, uf_value *tops) {
    for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i) {
        if (strcmp(plain[i].type, net->layer.type) == 0) {
            tops[0] = plain[i].function(net->graph, uf_ncnn_bottom(net, 0));
        }
    }
}

static void unary(uf_ncnn *net, uf_value *tops) {
    static plain_function *const functions[] = {
        uf_abs, uf_neg, NULL, NULL, uf_square, uf_sqrt, NULL, uf_exp,  uf_log,
        NULL,   NULL,   NULL, NULL, NULL,      NULL,    NULL, uf_tanh,
    };
    enum { RSQRT = 6, RECIPROCAL = 15 };
    const uf_value x = uf_ncnn_bottom(net, 0);
    const int64_t kind = uf_ncnn_integer(net, 0, 0);
    const bool known = kind >= 0 && kind < (int64_t)(sizeof functions / sizeof *functions);
    if (kind == RSQRT || kind == RECIPROCAL) {
        const uf_value below = kind == RSQRT ? uf_sqrt(net->graph, x) : x;
        tops[0] = uf_div(net->graph, uf_ncnn_constant(net, x, 1.0), below);
    } else if (known && functions[kind] != NULL) {
        tops[0] = functions[kind](net->graph, x);
    } else {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "op_type (option 0) is %" PRId64
                       "; unfurl has abs, neg, square, sqrt, rsqrt, exp, log, reciprocal and tanh",
                       kind);
    }
}

/* ---- arithmetic ---- */

enum { ADD, SUB, MUL, DIV, MAX, MIN, POW, RSUB, RDIV };

/* ncnn gives a value of fewer axes new ones behind its own: those of one axis lie along the
 * channels, where the extents are equal, and along the last axis elsewhere. */
static uf_value expand(uf_ncnn *net, uf_value value, const uf_shape *to) {
    const uf_shape shape = uf_ncnn_shape(net, value);
    uf_shape made = *to;
    if (shape.rank >= to->rank || shape.rank < 2) {
        return value;
    }
    const bool first = shape.rank > 2 || shape.extent[1] == to->extent[1];
    made.extent[0] = -1;
    for (int32_t i = 1; i < to->rank; ++i) {
        const int32_t from = first ? i : shape.rank - to->rank + i;
        made.extent[i] = from >= 1 && from < shape.rank ? shape.extent[from] : 1;
    }
    net->fixed = net->fixed || shape.rank > 2;
    return uf_reshape(net->graph, value, made);
}

static uf_value two(uf_ncnn *net, int64_t kind, uf_value a, uf_value b) {
    switch (kind) {
    case ADD:
        return uf_add(net->graph, a, b);
    case SUB:
        return uf_sub(net->graph, a, b);
    case MUL:
        return uf_mul(net->graph, a, b);
    case DIV:
        return uf_div(net->graph, a, b);
    case RSUB:
        return uf_sub(net->graph, b, a);
    case RDIV:
        return uf_div(net->graph, b, a);
    default:
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "op_type (option 0) is %" PRId64
                       "; of two values unfurl has add, sub, mul, div, rsub and rdiv",
                       kind);
        return a;
    }
}

static uf_value with_number(uf_ncnn *net, int64_t kind, uf_value x, double number) {
    if (kind == MUL) {
        return uf_scale(net->graph, x, number);
    }
    if (kind == MAX) {
        return uf_clamp(net->graph, x, number, HUGE_VAL);
    }
    if (kind == MIN) {
        return uf_clamp(net->graph, x, -HUGE_VAL, number);
    }
    if (kind == POW && number == 2.0) {
        return uf_square(net->graph, x);
    }
    if (kind == POW && number == 0.5) {
        return uf_sqrt(net->graph, x);
    }
    return two(net, kind, x, uf_ncnn_constant(net, x, number));
}

static void binary(uf_ncnn *net, uf_value *tops) {
    const int64_t kind = uf_ncnn_integer(net, 0, ADD);
    const bool scalar = uf_ncnn_integer(net, 1, 0) != 0;
    const double number = uf_ncnn_number(net, 2, 0.0);
    uf_value a = uf_ncnn_bottom(net, 0);
    if (scalar != (net->layer.bottom_count == 1)) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "with_scalar (option 1) is %d and %" PRId32 " inputs are named", scalar,
                       net->layer.bottom_count);
    }
    if (net->status != UF_OK) {
        return;
    }
    if (scalar) {
        tops[0] = with_number(net, kind, a, number);
        return;
    }
    uf_value b = uf_ncnn_bottom(net, 1);
    const uf_shape left = uf_ncnn_shape(net, a), right = uf_ncnn_shape(net, b);
    a = expand(net, a, &right);
    b = expand(net, b, &left);
    tops[0] = two(net, kind, a, b);
}

/* The sum or the product of values of one shape. */
static void eltwise(uf_ncnn *net, uf_value *tops) {
    enum { PROD, SUM };
    const double *coefficients;
    const int64_t kind = uf_ncnn_integer(net, 0, PROD);
    const int32_t count = uf_ncnn_array(net, 1, &coefficients);
    if (kind != PROD && kind != SUM) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "op_type (option 0) is %" PRId64 "; unfurl has 0 (product) and 1 (sum)",
                       kind);
    }
    if (kind == SUM && count != 0 && count != net->layer.bottom_count) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "%" PRId32 " coefficients for %" PRId32 " inputs",
                       count, net->layer.bottom_count);
    }
    const uf_shape shape = uf_ncnn_shape(net, uf_ncnn_bottom(net, 0));
    for (int32_t i = 0; net->status == UF_OK && i < net->layer.bottom_count; ++i) {
        uf_value one = uf_ncnn_bottom(net, i);
        const uf_shape other = uf_ncnn_shape(net, one);
        if (!uf_shape_equal(&shape, &other)) {
            char text[128], first[128];
            uf_ncnn_refuse(net, UF_ERROR_SHAPE, "input %" PRId32 " is %s and the first is %s", i,
                           uf_shape_format(&other, text, sizeof text),
                           uf_shape_format(&shape, first, sizeof first));
            return;
        }
        if (kind == SUM && count > 0 && coefficients[i] != 1.0) {
            one = uf_scale(net->graph, one, coefficients[i]);
        }
        tops[0] = i == 0 ? one : two(net, kind == SUM ? ADD : MUL, tops[0], one);
    }
}

const uf_ncnn_kind uf_ncnn_pointwise_kinds[] = {
    {"ReLU", relu, 1, 1, 1},
    {"Clip", clip_layer, 1, 1, 1},
    {"ELU", elu, 1, 1, 1},
    {"SELU", selu, 1, 1, 1},
    {"GELU", gelu, 1, 1, 1},
    {"HardSigmoid", hard_sigmoid_layer, 1, 1, 1},
    {"HardSwish", hard_swish_layer, 1, 1, 1},
    {"Sigmoid", plain_layer, 1, 1, 1},
    {"TanH", plain_layer, 1, 1, 1},
    {"Mish", plain_layer, 1, 1, 1},
    {"Swish", plain_layer, 1, 1, 1},
    {"AbsVal", plain_layer, 1, 1, 1},
    {"UnaryOp", unary, 1, 1, 1},
    {"BinaryOp", binary, 1, 2, 1},
    {"Eltwise", eltwise, 1, UF_NCNN_MOST_BLOBS, 1},
    {NULL, NULL, 0, 0, 0},
};
