/* batch_norm.c - batch normalisation per channel, with running and with batch statistics. */
#include "reference/reference.h"

#include <math.h>
#include <stddef.h>

static int64_t at(const ref_batch_norm *norm, int64_t n, int64_t c, int64_t p) {
    return (n * norm->channels + c) * norm->pixels + p;
}

void ref_batch_norm_eval_forward(const ref_batch_norm *norm, const double *input,
                                 const double *weight, const double *bias,
                                 const double *running_mean, const double *running_var,
                                 double *output) {
    for (int64_t n = 0; n < norm->batch; ++n) {
        for (int64_t c = 0; c < norm->channels; ++c) {
            for (int64_t p = 0; p < norm->pixels; ++p) {
                const double x_hat =
                    (input[at(norm, n, c, p)] - running_mean[c]) / sqrt(running_var[c] + norm->eps);
                output[at(norm, n, c, p)] =
                    x_hat * (weight != NULL ? weight[c] : 1.0) + (bias != NULL ? bias[c] : 0.0);
            }
        }
    }
}

void ref_batch_norm_eval_backward(const ref_batch_norm *norm, const double *input,
                                  const double *weight, const double *running_mean,
                                  const double *running_var, const double *grad_output,
                                  double *grad_input, double *grad_weight, double *grad_bias) {
    for (int64_t c = 0; c < norm->channels; ++c) {
        grad_weight[c] = 0.0;
        grad_bias[c] = 0.0;
        for (int64_t n = 0; n < norm->batch; ++n) {
            for (int64_t p = 0; p < norm->pixels; ++p) {
                const int64_t i = at(norm, n, c, p);
                const double deviation = sqrt(running_var[c] + norm->eps);
                grad_weight[c] += grad_output[i] * (input[i] - running_mean[c]) / deviation;
                grad_bias[c] += grad_output[i];
                grad_input[i] = grad_output[i] * (weight != NULL ? weight[c] : 1.0) / deviation;
            }
        }
    }
}

static double batch_mean(const ref_batch_norm *norm, const double *input, int64_t c) {
    double sum = 0.0;
    for (int64_t n = 0; n < norm->batch; ++n) {
        for (int64_t p = 0; p < norm->pixels; ++p) {
            sum += input[at(norm, n, c, p)];
        }
    }
    return sum / (double)(norm->batch * norm->pixels);
}

/* The sum of squared differences from the mean; divided by m it is the biased variance, by m - 1
 * the unbiased one. */
static double batch_scatter(const ref_batch_norm *norm, const double *input, int64_t c,
                            double mean) {
    double sum = 0.0;
    for (int64_t n = 0; n < norm->batch; ++n) {
        for (int64_t p = 0; p < norm->pixels; ++p) {
            const double difference = input[at(norm, n, c, p)] - mean;
            sum += difference * difference;
        }
    }
    return sum;
}

void ref_batch_norm_train_forward(const ref_batch_norm *norm, const double *input,
                                  const double *weight, const double *bias, double *running_mean,
                                  double *running_var, double *output) {
    const double m = (double)(norm->batch * norm->pixels);
    for (int64_t c = 0; c < norm->channels; ++c) {
        const double mean = batch_mean(norm, input, c);
        const double scatter = batch_scatter(norm, input, c, mean);
        for (int64_t n = 0; n < norm->batch; ++n) {
            for (int64_t p = 0; p < norm->pixels; ++p) {
                const int64_t i = at(norm, n, c, p);
                const double x_hat = (input[i] - mean) / sqrt(scatter / m + norm->eps);
                output[i] =
                    x_hat * (weight != NULL ? weight[c] : 1.0) + (bias != NULL ? bias[c] : 0.0);
            }
        }
        if (running_mean != NULL) {
            running_mean[c] = (1.0 - norm->momentum) * running_mean[c] + norm->momentum * mean;
        }
        if (running_var != NULL) {
            running_var[c] =
                (1.0 - norm->momentum) * running_var[c] + norm->momentum * scatter / (m - 1.0);
        }
    }
}

/* With x_hat = (x - mean)/deviation: dx = weight/deviation * (dy - mean(dy) -
 * x_hat*mean(dy*x_hat)), as in Ioffe and Szegedy, https://arxiv.org/abs/1502.03167, section 3. */
void ref_batch_norm_train_backward(const ref_batch_norm *norm, const double *input,
                                   const double *weight, const double *grad_output,
                                   double *grad_input, double *grad_weight, double *grad_bias) {
    const double m = (double)(norm->batch * norm->pixels);
    for (int64_t c = 0; c < norm->channels; ++c) {
        const double mean = batch_mean(norm, input, c);
        const double deviation = sqrt(batch_scatter(norm, input, c, mean) / m + norm->eps);
        grad_weight[c] = 0.0;
        grad_bias[c] = 0.0;
        for (int64_t n = 0; n < norm->batch; ++n) {
            for (int64_t p = 0; p < norm->pixels; ++p) {
                const int64_t i = at(norm, n, c, p);
                grad_weight[c] += grad_output[i] * (input[i] - mean) / deviation;
                grad_bias[c] += grad_output[i];
            }
        }
        for (int64_t n = 0; n < norm->batch; ++n) {
            for (int64_t p = 0; p < norm->pixels; ++p) {
                const int64_t i = at(norm, n, c, p);
                const double x_hat = (input[i] - mean) / deviation;
                grad_input[i] = (weight != NULL ? weight[c] : 1.0) / deviation *
                                (grad_output[i] - grad_bias[c] / m - x_hat * grad_weight[c] / m);
            }
        }
    }
}
