/* arithmetic.h - cases of Sub, Mul and Div: with half of a value, and of rows with rows. */
#ifndef TEST_CASES_ARITHMETIC_H
#define TEST_CASES_ARITHMETIC_H

#include "cases/layer_case.h"

enum { ARITHMETIC_CASES = 7 };

typedef uf_value (*arithmetic_layer)(uf_graph *graph, uf_value a, uf_value b);

void arithmetic_case(int64_t row, test_random *random, layer_case *one,
                     double (*apply)(double a, double b));
uf_value arithmetic_graph(uf_graph *graph, uf_value input, const layer_case *one,
                          arithmetic_layer apply);

#endif
