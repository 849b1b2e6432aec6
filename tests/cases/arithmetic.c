/* arithmetic.c - see arithmetic.h. */
#include "cases/arithmetic.h"

#include <stdio.h>

/* Rank 4: x with x/2. Rank 2, (p, q): every row with every row, (p, 1, q) with (p, q), or turned
 * around. */
static const struct {
    int32_t rank;
    int64_t extent[4];
    bool turned;
} table[ARITHMETIC_CASES] = {
    {4, {1, 1, 1, 1}, false}, {4, {2, 3, 4, 5}, false}, {4, {3, 7, 1, 33}, true},
    {2, {5, 7}, false},       {2, {3, 64}, true},       {2, {40, 1}, false},
    {2, {2, 3}, false}, /* the result is larger than its operands, yet not in lines of memory */
};

void arithmetic_case(int64_t row, test_random *random, layer_case *one,
                     double (*apply)(double a, double b)) {
    const int64_t *extent = table[row].extent;
    const bool turned = table[row].turned;
    one->row = row;
    one->input = case_tensor_of("", table[row].rank, extent);
    for (int64_t i = 0; i < one->input.count; ++i) { /* nothing near 0 */
        const double value = (double)test_random_integer(random, 32, 127) / 64.0;
        one->input.values[i] = test_random_one_in(random, 2) ? -value : value;
    }
    const double *x = one->input.values;
    if (table[row].rank == 4) {
        one->output = case_tensor_of("", 4, extent);
        for (int64_t i = 0; i < one->output.count; ++i) {
            one->output.values[i] = turned ? apply(0.5 * x[i], x[i]) : apply(x[i], 0.5 * x[i]);
        }
    } else {
        const int64_t p = extent[0], q = extent[1];
        const int64_t cube[3] = {p, p, q};
        one->output = case_tensor_of("", 3, cube);
        for (int64_t i = 0; i < one->output.count; ++i) {
            const double a = x[i / q / p * q + i % q], b = x[i / q % p * q + i % q];
            one->output.values[i] = turned ? apply(b, a) : apply(a, b);
        }
    }
    one->size = 4.0;
    (void)snprintf(one->label, sizeof one->label, "%s, row %lld", one->family->name,
                   (long long)row);
}

/* The same numbers in memory of their own, which the plan may use again. */
static uf_value times(uf_graph *graph, uf_value value, double factor) {
    return uf_mul(graph, value, uf_full_like(graph, value, factor));
}

uf_value arithmetic_graph(uf_graph *graph, uf_value input, const layer_case *one,
                          arithmetic_layer apply) {
    const int64_t *extent = table[one->row].extent;
    const bool equal = table[one->row].rank == 4;
    const uf_value other = times(graph, input, equal ? 0.5 : 1.0);
    const uf_value first =
        equal ? input : uf_reshape(graph, input, UF_SHAPE(extent[0], 1, extent[1]));
    const uf_value made =
        table[one->row].turned ? apply(graph, other, first) : apply(graph, first, other);
    return times(graph, made, 1.0);
}
