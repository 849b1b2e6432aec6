/* conv_case.h - what the case files of conv_transpose2d and conv2d share. */
#ifndef TEST_CASES_CONV_CASE_H
#define TEST_CASES_CONV_CASE_H

#include "cases/layer_case.h"

/* Fill a case from its geometry (out extents not yet set) with random values; computes what must
 * come out. The weight's deviation keeps outputs near 1. */
void conv_case_fill(layer_case *one, bool transposed, const ref_conv *conv, bool bias,
                    uf_activation activation, test_random *random);

/* A random geometry with a legal output, small enough for the plain loops. */
void conv_case_random(layer_case *one, bool transposed, test_random *random);

bool conv_case_load(layer_case *one, bool transposed, h5_file file, const char *path);

/* The case's arguments for ops.h, without workspace. */
uf_conv2d_args conv_case_args(const ops_call *call);
uf_conv2d_params conv_case_params(const ref_conv *conv);

#endif
