/* bf16_calls.h - how convolutions of bf16 tensors are called: each direction of either layer, with
 * each variant, in the workspace that it asks for. */
#ifndef TEST_OPS_BF16_CALLS_H
#define TEST_OPS_BF16_CALLS_H

#include "support/test.h"

#include <unfurl/ops.h>

#include "support/conv_variants.h"

typedef enum direction { FORWARD = 0, BACKWARD_INPUT, BACKWARD_WEIGHT, DIRECTIONS } direction;
extern const char *const direction_names[DIRECTIONS];

typedef uf_status run_function(uf_context *context, const uf_conv2d_args *args);
typedef uf_status query_function(uf_context *context, const uf_conv2d_args *args, size_t *size);

/* [0] of conv2d, [1] of conv_transpose2d */
extern run_function *const run_functions[2][DIRECTIONS];
extern query_function *const query_functions[2][DIRECTIONS];

double to_bf16(double value);

/* The variants of the device under test with a kernel for bf16 in one of these directions; names[0]
 * is NULL, the library's choice. Returns how many names there are. */
int64_t bf16_variants(unsigned directions, const char *names[CONV_VARIANTS]);

/* Rounding keeps order: a sum that is off by at most `tolerance` (of the largest result) and
 * rounded once, to nearest even, lies between the ends of its range, rounded. Where it is not near
 * a tie these are one number. */
void assert_rounded_once(const char *label, const double *got, const double *expected,
                         int64_t count, double tolerance);

/* One call with the workspace that it asks for and no more; false when the variant does not take
 * it. The library's own choice, and the plain kernels, take everything. */
bool call(uf_context *context, const char *label, bool transposed, direction which,
          uf_conv2d_args *args);

#endif
