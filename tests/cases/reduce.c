/* reduce.c - cases of Sum and Mean. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[4];
    int32_t axes[4], count; /* 0: all */
    bool mean, keepdim;
} table[] = {
    {4, {2, 3, 4, 5}, {2, 3}, 2, true, true},   {4, {2, 3, 4, 5}, {1}, 1, false, false},
    {4, {2, 3, 4, 5}, {-4, 2}, 2, true, false}, {3, {7, 1, 33}, {0}, 0, true, false},
    {4, {1, 1, 1, 1}, {0}, 0, false, true},     {4, {1, 16, 90, 80}, {-1, -2}, 2, true, false},
    {2, {500, 30}, {0}, 1, false, false},       {2, {300, 700}, {1}, 1, true, true},
    {4, {5, 1, 1, 3}, {3}, 1, false, false},    {1, {40000}, {0}, 1, true, false},
};

static bool is_summed(int64_t row, int32_t axis) {
    bool summed = table[row].count == 0;
    for (int32_t i = 0; i < table[row].count; ++i) {
        const int32_t given = table[row].axes[i];
        summed = summed || axis == (given < 0 ? given + table[row].rank : given);
    }
    return summed;
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t *extent = table[row].extent;
    int64_t kept[4], stride[4] = {0}, terms = 1;
    int32_t rank = 0;
    one->row = row;
    one->input = case_tensor_of("", table[row].rank, extent);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int32_t axis = 0; axis < table[row].rank; ++axis) {
        terms *= is_summed(row, axis) ? extent[axis] : 1;
        if (!is_summed(row, axis) || table[row].keepdim) {
            kept[rank++] = is_summed(row, axis) ? 1 : extent[axis];
        }
    }
    one->output = case_tensor_of("", rank, kept);
    int64_t next = 1;
    for (int32_t axis = table[row].rank - 1; axis >= 0; --axis) {
        stride[axis] = is_summed(row, axis) ? 0 : next;
        next *= is_summed(row, axis) ? 1 : extent[axis];
    }
    for (int64_t i = 0; i < one->output.count; ++i) {
        one->output.values[i] = 0.0;
    }
    for (int64_t i = 0; i < one->input.count; ++i) {
        int64_t to = 0, rest = i;
        for (int32_t axis = table[row].rank - 1; axis >= 0; --axis) {
            to += rest % extent[axis] * stride[axis];
            rest /= extent[axis];
        }
        one->output.values[to] += one->input.values[i] / (table[row].mean ? (double)terms : 1.0);
    }
    one->reduction = terms;
    one->size = sqrt((double)terms) / (table[row].mean ? (double)terms : 1.0);
    (void)snprintf(one->label, sizeof one->label, "%s, row %lld", table[row].mean ? "mean" : "sum",
                   (long long)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const int64_t row = one->row;
    (void)scope;
    return table[row].mean
               ? uf_mean(graph, input, table[row].axes, table[row].count, table[row].keepdim)
               : uf_sum(graph, input, table[row].axes, table[row].count, table[row].keepdim);
}

const layer_family reduce_family = {
    .name = "reduce",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
