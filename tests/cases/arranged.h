/* arranged.h - cases of layers whose output has elements of the input, each unchanged. */
#ifndef TEST_CASES_ARRANGED_H
#define TEST_CASES_ARRANGED_H

#include "cases/layer_case.h"

/* Indices along the axes of an element of the input, from those of one of the output. */
typedef void arranged_source(int64_t row, const int64_t *output, int64_t *input);

/* Fill one->input with random numbers and one->output with what `source` finds there. Both have
 * their shapes already. */
void arranged_case(int64_t row, test_random *random, layer_case *one, arranged_source *source);

#endif
