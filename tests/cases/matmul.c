/* matmul.c - cases of matmul. A case has one input: a is its elements under one shape, b the same
 * behind a leaky ReLU of slope 1/2 (exact in every type) under another. */
#include <stdio.h>
#include <string.h>

#include "cases/layer_case.h"
#include "support/test.h"

/* The output has a's rank; b's shape has leading ones where it has fewer axes. */
static const struct {
    int32_t rank;
    int64_t a[4], b[4];
    int32_t b_rank;
} table[] = {
    {2, {1, 1}, {1, 1}, 2},
    {2, {3, 20}, {20, 3}, 2},
    {2, {40, 65}, {65, 40}, 2},
    {3, {6, 4, 5}, {6, 5, 4}, 3},
    {3, {2, 33, 17}, {2, 17, 33}, 3},
    {3, {4, 6, 8}, {8, 24}, 2},      /* one b */
    {3, {1, 20, 12}, {4, 12, 5}, 3}, /* one a */
    {4, {2, 3, 4, 5}, {1, 3, 5, 8}, 4},
    {4, {1, 3, 8, 5}, {2, 3, 5, 4}, 4},
    {4, {3, 2, 4, 5}, {3, 1, 5, 8}, 4},
    {4, {2, 1, 9, 4}, {1, 3, 4, 6}, 4},
    {4, {2, 3, 1, 8}, {2, 3, 8, 1}, 4},
};

static int64_t product(const int64_t *extent, int32_t count) {
    int64_t all = 1;
    for (int32_t i = 0; i < count; ++i) {
        all *= extent[i];
    }
    return all;
}

/* The matrix of an operand that belongs to the output's matrix `number`: a repeated axis has an
 * extent of 1. */
static int64_t matrix_of(int64_t number, const int64_t *output, const int64_t *own,
                         int32_t leading) {
    int64_t index = 0;
    int64_t step = 1;
    for (int32_t i = leading - 1; i >= 0; --i) {
        index += own[i] > 1 ? number % output[i] * step : 0;
        step *= own[i];
        number /= output[i];
    }
    return index;
}

/* From the definition. */
static void compute(layer_case *one, const int64_t *a, const int64_t *b) {
    const int32_t leading = one->output.rank - 2;
    const int64_t m = a[leading], k = a[leading + 1], n = b[leading + 1];
    for (int64_t i = 0; i < product(one->output.extent, leading); ++i) {
        const double *left =
            one->input.values + matrix_of(i, one->output.extent, a, leading) * m * k;
        const double *right =
            one->input.values + matrix_of(i, one->output.extent, b, leading) * k * n;
        for (int64_t r = 0; r < m; ++r) {
            for (int64_t c = 0; c < n; ++c) {
                double sum = 0.0;
                for (int64_t j = 0; j < k; ++j) {
                    const double x = right[j * n + c];
                    sum += left[r * k + j] * (x < 0.0 ? 0.5 * x : x);
                }
                one->output.values[(i * m + r) * n + c] = sum;
            }
        }
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank, skipped = rank - table[row].b_rank;
    int64_t b[4] = {1, 1, 1, 1}, output[4];
    memcpy(b + skipped, table[row].b, (size_t)table[row].b_rank * sizeof b[0]);
    for (int32_t i = 0; i < rank - 2; ++i) {
        output[i] = table[row].a[i] > b[i] ? table[row].a[i] : b[i];
    }
    output[rank - 2] = table[row].a[rank - 2];
    output[rank - 1] = b[rank - 1];
    one->input = case_tensor_of("", rank, table[row].a);
    assert_int_equal(one->input.count, product(b, rank));
    one->output = case_tensor_of("", rank, output);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->input.values[i] = (double)(float)one->input.values[i];
    }
    one->row = row;
    one->reduction = table[row].a[rank - 1];
    compute(one, table[row].a, b);
    (void)snprintf(one->label, sizeof one->label, "matmul row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const uf_shape shape = uf_shape_from(table[one->row].b, table[one->row].b_rank);
    (void)scope;
    const uf_value b = uf_reshape(graph, uf_leaky_relu(graph, input, 0.5), shape);
    return uf_matmul(graph, input, b);
}

const layer_family matmul_family = {
    .name = "matmul",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
