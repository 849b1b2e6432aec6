/* mul.c - cases of Mul. */
#include "cases/arithmetic.h"

static double compute(double a, double b) {
    return a * b;
}

static void make(int64_t row, test_random *random, layer_case *one) {
    arithmetic_case(row, random, one, compute);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return arithmetic_graph(graph, input, one, uf_mul);
}

const layer_family mul_family = {
    .name = "mul",
    .table_count = ARITHMETIC_CASES,
    .table = make,
    .graph = build,
};
