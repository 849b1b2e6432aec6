/* activation.c - elementwise functions and their derivatives. */
#include "reference/reference.h"

#include <math.h>

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
        return 1.0 / (1.0 + exp(-x));
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
