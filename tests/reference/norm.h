/* norm.h - norms in double, from two maps: to which mean each element belongs, and which weight it
 * takes. They share no index arithmetic with the library. */
#ifndef TEST_REFERENCE_NORM_H
#define TEST_REFERENCE_NORM_H

#include <stdint.h>

typedef struct ref_norm {
    int64_t count, statistics, parameters;
    int64_t *statistic, *parameter; /* of each element; free them with ref_norm_free */
    double eps;
} ref_norm;

/* (N, C, pixels): a mean for each group of C/groups channels of each image, a weight for each
 * channel. Instance norm has as many groups as channels.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html */
ref_norm ref_norm_groups(int64_t n, int64_t c, int64_t pixels, int64_t groups);

/* (rows, size): a mean for each row, a weight for each column.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html */
ref_norm ref_norm_rows(int64_t rows, int64_t size);

/* (N, C, pixels): a mean for each pixel of each image, over its channels; a weight for each. */
ref_norm ref_norm_channels(int64_t n, int64_t c, int64_t pixels);

void ref_norm_free(ref_norm *norm);

/* output = (input - mean)/sqrt(var + eps)*weight + bias; weight and bias may be NULL (1 and 0). */
void ref_norm_forward(const ref_norm *norm, const double *input, const double *weight,
                      const double *bias, double *output);
void ref_norm_backward(const ref_norm *norm, const double *input, const double *weight,
                       const double *grad_output, double *grad_input, double *grad_weight,
                       double *grad_bias);

#endif
