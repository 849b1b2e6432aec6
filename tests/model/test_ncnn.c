/* test_ncnn.c - ncnn's layers, each held to plain loops in double from ncnn's definitions: those
 * with weights in f32 and in f16. */
#include "model/ncnn_net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double apply(int kind, double a, double b, double x) {
    switch (kind) {
    case 1:
        return x > 0.0 ? x : 0.0;
    case 2:
        return x > 0.0 ? x : a * x;
    case 3:
        return fmin(fmax(x, a), b);
    case 4:
        return 1.0 / (1.0 + exp(-x));
    case 5:
        return x * tanh(log1p(exp(x)));
    case 6:
        return x * fmin(fmax(a * x + b, 0.0), 1.0);
    default:
        return x;
    }
}

/* ---- convolutions ---- */

typedef struct geometry {
    const char *line; /* the type's name and the options behind num_output, weights and bias */
    bool transposed;
    int64_t in, out, groups, height, width;
    int64_t kernel[2], stride[2], dilation[2]; /* height, width */
    int64_t before[2], after[2];               /* padded, or cut */
    int64_t more[2];                           /* output_pad */
    bool bias;
    int activation;
    double a, b;
} geometry;

static const geometry geometries[] = {
    {"Convolution y 1 1 a y 1=3 11=2 2=1 12=2 3=2 13=1 4=1 15=2 14=0 16=3 9=2 -23310=1,0.25",
     false,
     3,
     4,
     1,
     5,
     7,
     {2, 3},
     {1, 2},
     {2, 1},
     {0, 1},
     {3, 2},
     {0, 0},
     true,
     2,
     0.25,
     0.0},
    {"Convolution y 1 1 a y 1=3 4=1 9=3 -23310=2,-0.5,0.75",
     false,
     2,
     3,
     1,
     4,
     5,
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     {0, 0},
     false,
     3,
     -0.5,
     0.75},
    {"Convolution y 1 1 a y 1=3",
     false,
     1,
     3,
     1,
     4,
     5,
     {3, 3},
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0},
     {0, 0},
     true,
     0,
     0.0,
     0.0}, /* an odd number of weights: f16 has two bytes behind them */
    {"Convolution y 1 1 a y 1=4 4=-233 9=4",
     false,
     2,
     3,
     1,
     4,
     5,
     {4, 4},
     {1, 1},
     {1, 1},
     {1, 1},
     {2, 2},
     {0, 0},
     true,
     4,
     0.0,
     0.0},
    {"Convolution y 1 1 a y 1=3 3=2 4=-234 9=1",
     false,
     2,
     3,
     1,
     4,
     5,
     {3, 3},
     {2, 2},
     {1, 1},
     {1, 1},
     {0, 1},
     {0, 0},
     true,
     1,
     0.0,
     0.0},
    {"ConvolutionDepthWise y 1 1 a y 1=3 4=1 7=2 9=5",
     false,
     4,
     6,
     2,
     4,
     5,
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     {0, 0},
     true,
     5,
     0.0,
     0.0},
    {"ConvolutionDepthWise y 1 1 a y 1=3 7=4 9=6 -23310=2,0.25,0.375",
     false,
     4,
     4,
     4,
     4,
     5,
     {3, 3},
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0},
     {0, 0},
     true,
     6,
     0.25,
     0.375},
    {"Deconvolution y 1 1 a y 1=4 3=2 4=1 9=1",
     true,
     3,
     2,
     1,
     4,
     3,
     {4, 4},
     {2, 2},
     {1, 1},
     {1, 1},
     {1, 1},
     {0, 0},
     true,
     1,
     0.0,
     0.0},
    {"Deconvolution y 1 1 a y 1=3 11=2 2=2 12=1 3=2 13=3 4=0 15=2 14=1 16=0 18=1 19=0",
     true,
     3,
     2,
     1,
     3,
     3,
     {2, 3},
     {3, 2},
     {1, 2},
     {1, 0},
     {0, 2},
     {0, 1},
     true,
     0,
     0.0,
     0.0},
    {"Deconvolution y 1 1 a y 1=3 3=2 4=1 18=1",
     true,
     2,
     3,
     1,
     3,
     3,
     {3, 3},
     {2, 2},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     false,
     0,
     0.0,
     0.0},
    {"Deconvolution y 1 1 a y 1=3 3=2 4=-233 20=8",
     true,
     2,
     3,
     1,
     4,
     4,
     {3, 3},
     {2, 2},
     {1, 1},
     {0, 0},
     {1, 1},
     {0, 0},
     true,
     0,
     0.0,
     0.0},
    {"Deconvolution y 1 1 a y 1=3 3=2 4=-234 20=8",
     true,
     2,
     3,
     1,
     4,
     4,
     {3, 3},
     {2, 2},
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0},
     true,
     0,
     0.0,
     0.0},
    {"DeconvolutionDepthWise y 1 1 a y 1=3 3=2 7=2 9=2 -23310=1,0.5",
     true,
     4,
     6,
     2,
     3,
     3,
     {3, 3},
     {2, 2},
     {1, 1},
     {0, 0},
     {0, 0},
     {0, 0},
     true,
     2,
     0.5,
     0.0},
};

/* The weight of group g, its output `out` and its input `in`: the one order that ncnn has. */
static double weight_at(const geometry *g, const double *weight, int64_t group, int64_t out,
                        int64_t in, int64_t i, int64_t j) {
    const int64_t outs = g->out / g->groups, ins = g->in / g->groups;
    return weight[(((group * outs + out) * ins + in) * g->kernel[0] + i) * g->kernel[1] + j];
}

/* One output of a group before the bias: of a convolution, the sum over the window; of a transposed
 * one, over the inputs whose windows reach it. */
static double sum_at(const geometry *g, net_value *input, const double *weight, int64_t group,
                     int64_t out, int64_t y, int64_t x) {
    const int64_t ins = g->in / g->groups;
    double sum = 0.0;
    for (int64_t in = 0; in < ins; ++in) {
        for (int64_t i = 0; i < g->kernel[0]; ++i) {
            for (int64_t j = 0; j < g->kernel[1]; ++j) {
                int64_t from[2];
                bool inside = true;
                for (int axis = 0; axis < 2; ++axis) {
                    const int64_t tap = (axis == 0 ? i : j) * g->dilation[axis];
                    const int64_t at = axis == 0 ? y : x;
                    const int64_t extent = axis == 0 ? g->height : g->width;
                    const int64_t place = g->transposed
                                              ? at + g->before[axis] - tap
                                              : at * g->stride[axis] + tap - g->before[axis];
                    inside = inside && (!g->transposed || place % g->stride[axis] == 0);
                    from[axis] = g->transposed ? place / g->stride[axis] : place;
                    inside = inside && place >= 0 && from[axis] < extent;
                }
                if (inside) {
                    sum += *net_at(input, group * ins + in, from[0], from[1]) *
                           weight_at(g, weight, group, out, in, i, j);
                }
            }
        }
    }
    return sum;
}

static net_value conv_expected(const geometry *g, net_value *input, const double *weight,
                               const double *bias) {
    const int64_t extents[2] = {g->height, g->width}, outs = g->out / g->groups;
    net_value made = {.dims = 3, .extent = {g->out, 0, 0}};
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t window = g->dilation[axis] * (g->kernel[axis] - 1) + 1;
        const int64_t both = g->before[axis] + g->after[axis];
        made.extent[1 + axis] =
            g->transposed ? (extents[axis] - 1) * g->stride[axis] + window + g->more[axis] - both
                          : (extents[axis] + both - window) / g->stride[axis] + 1;
    }
    for (int64_t c = 0; c < g->out; ++c) {
        for (int64_t y = 0; y < made.extent[1]; ++y) {
            for (int64_t x = 0; x < made.extent[2]; ++x) {
                const double sum = sum_at(g, input, weight, c / outs, c % outs, y, x);
                *net_at(&made, c, y, x) =
                    apply(g->activation, g->a, g->b, sum + (g->bias ? bias[c] : 0.0));
            }
        }
    }
    return made;
}

static void test_conv(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(geometries); ++i) {
        for (net_type type = NET_F32; type <= NET_F16; ++type) {
            const geometry *g = &geometries[i];
            const int64_t count = g->out * (g->in / g->groups) * g->kernel[0] * g->kernel[1];
            net_value input = net_made_value(3, g->in, g->height, g->width, 3);
            static net made;
            net_begin(&made);
            net_add_input(&made, "a", &input);
            net_add(&made, "%s 0=%d 5=%d 6=%d\n", g->line, (int)g->out, g->bias, (int)count);
            const double *weight = net_weights(&made, count, type, false);
            const double *bias = g->bias ? net_weights(&made, g->out, NET_RAW, false) : NULL;
            const net_value expected = conv_expected(g, &input, weight, bias);
            net_expect(context, &made, g->line, &input, 1, &expected);
        }
    }
    uf_context_destroy(context);
}

/* InnerProduct of an image, of a value of one axis, and of rows; and a convolution of one axis. */
static void test_inner_product(void **state) {
    static const struct {
        const char *line;
        int32_t dims;
        int64_t c, h, w, out, in;
    } cases[] = {
        {"InnerProduct y 1 1 a y 0=5 1=1 2=120 9=4", 3, 2, 3, 4, 5, 24},
        {"InnerProduct y 1 1 a y 0=5 1=1 2=60 9=4", 1, 1, 1, 12, 5, 12},
        {"InnerProduct y 1 1 a y 0=5 1=1 2=20 9=4", 2, 1, 3, 4, 5, 4},
        {"Convolution y 1 1 a y 0=5 1=1 5=1 6=60 9=4", 1, 1, 1, 12, 5, 12},
    };
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        for (net_type type = NET_F32; type <= NET_F16; ++type) {
            const int64_t in = cases[i].in, out = cases[i].out;
            const net_value input =
                net_made_value(cases[i].dims, cases[i].c, cases[i].h, cases[i].w, 5);
            const int64_t rows = cases[i].c * cases[i].h * cases[i].w / in;
            net_value expected = {.dims = rows > 1 ? 2 : 1, .extent = {1, rows, out}};
            static net made;
            net_begin(&made);
            net_add_input(&made, "a", &input);
            net_add(&made, "%s\n", cases[i].line);
            const double *weight = net_weights(&made, in * out, type, false);
            const double *bias = net_weights(&made, out, NET_RAW, false);
            for (int64_t k = 0; k < rows * out; ++k) {
                double sum = bias[k % out];
                for (int64_t j = 0; j < in; ++j) {
                    sum += weight[k % out * in + j] * input.v[k / out * in + j];
                }
                expected.v[k] = apply(4, 0.0, 0.0, sum);
            }
            net_expect(context, &made, cases[i].line, &input, 1, &expected);
        }
    }
    uf_context_destroy(context);
}

/* ---- one element each ---- */

static double gelu(double x) {
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}
static double gelu_tanh(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
static double selu(double x) {
    return 1.0507009873554804934193349852946 *
           (x > 0.0 ? x : 1.6732632423543772848170429916717 * expm1(x));
}
static double relu(double x) {
    return apply(1, 0.0, 0.0, x);
}
static double leaky(double x) {
    return apply(2, 0.25, 0.0, x);
}
static double clip(double x) {
    return apply(3, -0.25, 0.5, x);
}
static double upper(double x) {
    return fmin(x, 0.5);
}
static double lower(double x) {
    return fmax(x, 0.5);
}
static double sigmoid(double x) {
    return apply(4, 0.0, 0.0, x);
}
static double mish(double x) {
    return apply(5, 0.0, 0.0, x);
}
static double swish(double x) {
    return x * sigmoid(x);
}
static double elu(double x) {
    return x > 0.0 ? x : 0.5 * expm1(x);
}
static double hard_sigmoid(double x) {
    return apply(3, 0.0, 1.0, 0.5 * x + 0.25);
}
static double hard_swish(double x) {
    return x * apply(3, 0.0, 1.0, x / 6.0 + 0.5);
}
static double other_hard_swish(double x) {
    return x * hard_sigmoid(x);
}
static double negative(double x) {
    return -x;
}
static double square(double x) {
    return x * x;
}
static double add_number(double x) {
    return x + 0.5;
}
static double sub_number(double x) {
    return x - 0.5;
}
static double mul_number(double x) {
    return x * 0.5;
}
static double div_number(double x) {
    return x / 0.375;
}
static double from_number(double x) {
    return 0.5 - x;
}
static double same(double x) {
    return x;
}

/* `positive`: of x + 2. */
static double two_more_root(double x) {
    return sqrt(x + 2.0);
}
static double two_more_over(double x) {
    return 0.5 / (x + 2.0);
}
static double two_more_inverse(double x) {
    return 1.0 / (x + 2.0);
}
static double two_more_inverse_root(double x) {
    return 1.0 / sqrt(x + 2.0);
}
static double two_more_log(double x) {
    return log(x + 2.0);
}

static void test_pointwise(void **state) {
    static const struct {
        const char *lines;
        double (*function)(double x);
    } cases[] = {
        {"ReLU y 1 1 a y", relu},
        {"ReLU y 1 1 a y 0=0.25", leaky},
        {"Clip y 1 1 a y 0=-0.25 1=0.5", clip},
        {"Clip y 1 1 a y 0=-3.402823e+38 1=0.5", upper},
        {"Sigmoid y 1 1 a y", sigmoid},
        {"TanH y 1 1 a y", tanh},
        {"Mish y 1 1 a y", mish},
        {"Swish y 1 1 a y", swish},
        {"AbsVal y 1 1 a y", fabs},
        {"ELU y 1 1 a y 0=0.5", elu},
        {"SELU y 1 1 a y", selu},
        {"GELU y 1 1 a y", gelu},
        {"GELU y 1 1 a y 0=1", gelu_tanh},
        {"HardSigmoid y 1 1 a y 0=0.5 1=0.25", hard_sigmoid},
        {"HardSwish y 1 1 a y 0=1.666667e-01", hard_swish},
        {"HardSwish y 1 1 a y 0=0.5 1=0.25", other_hard_swish},
        {"Dropout y 1 1 a y", same},
        {"Dropout y 1 1 a y 0=0.5", mul_number},
        {"UnaryOp y 1 1 a y 0=0", fabs},
        {"UnaryOp y 1 1 a y 0=1", negative},
        {"UnaryOp y 1 1 a y 0=4", square},
        {"UnaryOp y 1 1 a y 0=7", exp},
        {"UnaryOp y 1 1 a y 0=16", tanh},
        {"BinaryOp y 1 1 a y 0=0 1=1 2=0.5", add_number},
        {"BinaryOp y 1 1 a y 0=1 1=1 2=0.5", sub_number},
        {"BinaryOp y 1 1 a y 0=2 1=1 2=0.5", mul_number},
        {"BinaryOp y 1 1 a y 0=3 1=1 2=0.375", div_number},
        {"BinaryOp y 1 1 a y 0=4 1=1 2=0.5", lower},
        {"BinaryOp y 1 1 a y 0=5 1=1 2=0.5", upper},
        {"BinaryOp y 1 1 a y 0=6 1=1 2=2.0", square},
        {"BinaryOp y 1 1 a y 0=7 1=1 2=0.5", from_number},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nUnaryOp y 1 1 b y 0=5", two_more_root},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nBinaryOp y 1 1 b y 0=6 1=1 2=0.5", two_more_root},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nBinaryOp y 1 1 b y 0=8 1=1 2=0.5", two_more_over},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nUnaryOp y 1 1 b y 0=6", two_more_inverse_root},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nUnaryOp y 1 1 b y 0=15", two_more_inverse},
        {"BinaryOp b 1 1 a b 0=0 1=1 2=2.0\nUnaryOp y 1 1 b y 0=8", two_more_log},
    };
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        const net_value input = net_made_value(3, 2, 3, 5, 9);
        net_value expected = input;
        static net made;
        net_begin(&made);
        net_add_input(&made, "a", &input);
        net_add(&made, "%s\n", cases[i].lines);
        for (int64_t k = 0; k < 2 * 3 * 5; ++k) {
            expected.v[k] = cases[i].function(input.v[k]);
        }
        net_expect(context, &made, cases[i].lines, &input, 1, &expected);
    }
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_inner_product),
        cmocka_unit_test(test_pointwise),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
