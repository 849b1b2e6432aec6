/* norm_case.h - what the cases of instance, group and layer norm share. */
#ifndef TEST_CASES_NORM_CASE_H
#define TEST_CASES_NORM_CASE_H

#include "cases/layer_case.h"
#include "reference/norm.h"

/* A case of `rank` extents with the activation of its row, and weight and bias of `params` extents
 * (0: none). The expected output is that of `norm`, which is freed. The layer's own number (groups,
 * axes) is kept in one->conv.groups. */
void norm_case_make(int64_t row, test_random *random, layer_case *one, const int64_t *extent,
                    int32_t rank, const int64_t *params_extent, int32_t params, ref_norm norm);

/* A case of PyTorch's, with input, output, weight and bias. */
void norm_case_load(h5_file file, const char *path, layer_case *one);

#endif
