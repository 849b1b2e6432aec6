/* norm.c - instance, group and layer norm. */
#include "reference/norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

static ref_norm norm_of(int64_t count, int64_t statistics, int64_t parameters) {
    ref_norm made;
    made.count = count;
    made.statistics = statistics;
    made.parameters = parameters;
    made.statistic = test_allocate((size_t)count * sizeof *made.statistic);
    made.parameter = test_allocate((size_t)count * sizeof *made.parameter);
    made.eps = 1e-5;
    return made;
}

ref_norm ref_norm_groups(int64_t n, int64_t c, int64_t pixels, int64_t groups) {
    ref_norm made = norm_of(n * c * pixels, n * groups, c);
    for (int64_t e = 0; e < made.count; ++e) {
        const int64_t channel = e / pixels % c, image = e / pixels / c;
        made.statistic[e] = image * groups + channel / (c / groups);
        made.parameter[e] = channel;
    }
    return made;
}

ref_norm ref_norm_rows(int64_t rows, int64_t size) {
    ref_norm made = norm_of(rows * size, rows, size);
    for (int64_t e = 0; e < made.count; ++e) {
        made.statistic[e] = e / size;
        made.parameter[e] = e % size;
    }
    return made;
}

ref_norm ref_norm_channels(int64_t n, int64_t c, int64_t pixels) {
    ref_norm made = norm_of(n * c * pixels, n * pixels, c);
    for (int64_t e = 0; e < made.count; ++e) {
        made.statistic[e] = e / pixels / c * pixels + e % pixels;
        made.parameter[e] = e / pixels % c;
    }
    return made;
}

void ref_norm_free(ref_norm *norm) {
    free(norm->statistic);
    free(norm->parameter);
}

static double *zeros(int64_t count) {
    double *made = test_allocate((size_t)count * sizeof *made);
    memset(made, 0, (size_t)count * sizeof *made);
    return made;
}

/* (input - mean)/sqrt(var + eps), and 1/sqrt(var + eps) of each element. */
static void normalise(const ref_norm *norm, const double *input, double *x_hat, double *invstd) {
    double *mean = zeros(norm->statistics), *var = zeros(norm->statistics);
    double *count = zeros(norm->statistics);
    for (int64_t e = 0; e < norm->count; ++e) {
        mean[norm->statistic[e]] += input[e];
        count[norm->statistic[e]] += 1.0;
    }
    for (int64_t s = 0; s < norm->statistics; ++s) {
        mean[s] /= count[s];
    }
    for (int64_t e = 0; e < norm->count; ++e) {
        const double distance = input[e] - mean[norm->statistic[e]];
        var[norm->statistic[e]] += distance * distance;
    }
    for (int64_t e = 0; e < norm->count; ++e) {
        const int64_t s = norm->statistic[e];
        invstd[e] = 1.0 / sqrt(var[s] / count[s] + norm->eps);
        x_hat[e] = (input[e] - mean[s]) * invstd[e];
    }
    free(mean);
    free(var);
    free(count);
}

void ref_norm_forward(const ref_norm *norm, const double *input, const double *weight,
                      const double *bias, double *output) {
    double *invstd = zeros(norm->count);
    normalise(norm, input, output, invstd);
    for (int64_t e = 0; e < norm->count; ++e) {
        const int64_t p = norm->parameter[e];
        output[e] = output[e] * (weight != NULL ? weight[p] : 1.0) + (bias != NULL ? bias[p] : 0.0);
    }
    free(invstd);
}

void ref_norm_backward(const ref_norm *norm, const double *input, const double *weight,
                       const double *grad_output, double *grad_input, double *grad_weight,
                       double *grad_bias) {
    double *x_hat = zeros(norm->count), *invstd = zeros(norm->count);
    double *sum = zeros(norm->statistics), *dot = zeros(norm->statistics);
    double *count = zeros(norm->statistics);
    normalise(norm, input, x_hat, invstd);
    memset(grad_weight, 0, (size_t)norm->parameters * sizeof *grad_weight);
    memset(grad_bias, 0, (size_t)norm->parameters * sizeof *grad_bias);
    for (int64_t e = 0; e < norm->count; ++e) {
        const int64_t s = norm->statistic[e], p = norm->parameter[e];
        const double h = grad_output[e] * (weight != NULL ? weight[p] : 1.0);
        sum[s] += h;
        dot[s] += h * x_hat[e];
        count[s] += 1.0;
        grad_weight[p] += grad_output[e] * x_hat[e];
        grad_bias[p] += grad_output[e];
    }
    for (int64_t e = 0; e < norm->count; ++e) {
        const int64_t s = norm->statistic[e];
        const double h = grad_output[e] * (weight != NULL ? weight[norm->parameter[e]] : 1.0);
        grad_input[e] = invstd[e] * (h - sum[s] / count[s] - x_hat[e] * dot[s] / count[s]);
    }
    free(x_hat);
    free(invstd);
    free(sum);
    free(dot);
    free(count);
}
