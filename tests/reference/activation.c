/* activation.c - elementwise functions and their derivatives. */
#include "reference/reference.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double logistic(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double within(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Of SELU, as Klambauer et al. give them. */
static const double selu_alpha = 1.6732632423543772848170429916717;
static const double selu_scale = 1.0507009873554804934193349852946;

static double gelu_tanh_inner(double x) {
    return sqrt(2.0 / pi) * (x + 0.044715 * x * x * x);
}

double ref_activate(ref_activation kind, double slope, double x) {
    switch (kind) {
    case REF_IDENTITY:
        return x;
    case REF_RELU:
        return x <= 0.0 ? 0.0 : x; /* NaN stays */
    case REF_LEAKY_RELU:
        return x >= 0.0 ? x : slope * x;
    case REF_TANH:
        return tanh(x);
    case REF_SIGMOID:
        return logistic(x);
    case REF_ELU:
        return x > 0.0 ? x : slope * expm1(x);
    case REF_SELU:
        return selu_scale * (x > 0.0 ? x : selu_alpha * expm1(x));
    case REF_GELU:
        return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    case REF_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(gelu_tanh_inner(x)));
    case REF_SILU:
        return x * logistic(x);
    case REF_MISH:
        return x * tanh(log1p(exp(x)));
    case REF_SOFTPLUS:
        return slope * x > 20.0 ? x : log1p(exp(slope * x)) / slope;
    case REF_SOFTSIGN:
        return x / (1.0 + fabs(x));
    case REF_LOG_SIGMOID:
        return fmin(x, 0.0) - log1p(exp(-fabs(x)));
    case REF_RELU6:
        return within(x, 0.0, 6.0);
    case REF_HARDSIGMOID:
        return within(x + 3.0, 0.0, 6.0) / 6.0;
    case REF_HARDSWISH:
        return x * within(x + 3.0, 0.0, 6.0) / 6.0;
    case REF_ABS:
        return fabs(x);
    case REF_SCALE:
        return slope * x;
    case REF_SQUARE:
        return x * x;
    case REF_EXP:
        return exp(x);
    case REF_LOG:
        return log(x);
    case REF_SQRT:
        return sqrt(x);
    }
    return (double)NAN;
}

double ref_activate_derivative(ref_activation kind, double slope, double x) {
    const double y = ref_activate(kind, slope, x);
    switch (kind) {
    case REF_IDENTITY:
        return 1.0;
    case REF_RELU:
        return x > 0.0 ? 1.0 : 0.0;
    case REF_LEAKY_RELU:
        return x > 0.0 ? 1.0 : slope;
    case REF_TANH:
        return 1.0 - y * y;
    case REF_SIGMOID:
        return y * (1.0 - y);
    case REF_ELU:
        return x > 0.0 ? 1.0 : slope * exp(x);
    case REF_SELU:
        return selu_scale * (x > 0.0 ? 1.0 : selu_alpha * exp(x));
    case REF_GELU:
        return 0.5 * (1.0 + erf(x / sqrt(2.0))) + x * exp(-0.5 * x * x) / sqrt(2.0 * pi);
    case REF_GELU_TANH: {
        const double t = tanh(gelu_tanh_inner(x));
        return 0.5 * (1.0 + t) +
               0.5 * x * (1.0 - t * t) * sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
    }
    case REF_SILU:
        return logistic(x) * (1.0 + x * (1.0 - logistic(x)));
    case REF_MISH: {
        const double t = tanh(log1p(exp(x)));
        return t + x * (1.0 - t * t) * logistic(x);
    }
    case REF_SOFTPLUS:
        return slope * x > 20.0 ? 1.0 : logistic(slope * x);
    case REF_SOFTSIGN:
        return 1.0 / ((1.0 + fabs(x)) * (1.0 + fabs(x)));
    case REF_LOG_SIGMOID:
        return logistic(-x);
    case REF_RELU6:
        return x > 0.0 && x < 6.0 ? 1.0 : 0.0;
    case REF_HARDSIGMOID:
        return x > -3.0 && x < 3.0 ? (double)(1.0F / 6.0F) : 0.0; /* in f64 too */
    case REF_HARDSWISH:
        return x <= -3.0 ? 0.0 : x >= 3.0 ? 1.0 : (2.0 * x + 3.0) / 6.0;
    case REF_ABS:
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
    case REF_SCALE:
        return slope;
    case REF_SQUARE:
        return 2.0 * x;
    case REF_EXP:
        return y;
    case REF_LOG:
        return 1.0 / x;
    case REF_SQRT:
        return 0.5 / y;
    }
    return (double)NAN;
}

void ref_activation_forward(ref_activation kind, double slope, int64_t count, const double *input,
                            double *output) {
    for (int64_t i = 0; i < count; ++i) {
        output[i] = ref_activate(kind, slope, input[i]);
    }
}

void ref_activation_backward(ref_activation kind, double slope, int64_t count, const double *input,
                             const double *grad_output, double *grad_input) {
    for (int64_t i = 0; i < count; ++i) {
        grad_input[i] = grad_output[i] * ref_activate_derivative(kind, slope, input[i]);
    }
}
