/* sum_to_size.c - cases of the sum over what broadcasting repeats. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "layers/strided.h"
#include "support/test.h"

/* The first `dropped` axes are not there in the smaller shape, those of `repeated` are 1. */
static const struct {
    int32_t rank;
    int64_t extent[4];
    int32_t dropped;
    bool repeated[4];
} table[] = {
    {4, {2, 3, 4, 5}, 0, {false, false, false, false}},
    {4, {2, 3, 4, 5}, 0, {true, false, true, true}},
    {4, {2, 3, 4, 5}, 2, {true, true, false, false}},
    {4, {6, 7, 9, 33}, 1, {true, false, true, false}},
    {3, {40, 3, 70}, 0, {false, true, false}},
    {3, {5, 6, 7}, 3, {true, true, true}},
    {2, {1, 9}, 1, {true, false}},
    {1, {30000}, 0, {true}},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank, dropped = table[row].dropped;
    int64_t kept[4], stride[4], next = 1;
    for (int32_t axis = rank - 1; axis >= 0; --axis) {
        const bool repeats = table[row].repeated[axis];
        stride[axis] = repeats ? 0 : next;
        kept[axis] = repeats ? 1 : table[row].extent[axis];
        next *= kept[axis];
    }
    one->row = row;
    one->input = case_tensor_of("", rank, table[row].extent);
    one->output = case_tensor_of("", rank - dropped, kept + dropped);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->output.count; ++i) {
        one->output.values[i] = 0.0;
    }
    for (int64_t i = 0; i < one->input.count; ++i) {
        int64_t to = 0, rest = i;
        for (int32_t axis = rank - 1; axis >= 0; --axis) {
            to += rest % table[row].extent[axis] * stride[axis];
            rest /= table[row].extent[axis];
        }
        one->output.values[to] += one->input.values[i];
    }
    one->reduction = one->input.count / one->output.count;
    one->size = sqrt((double)one->reduction);
    (void)snprintf(one->label, sizeof one->label, "sum_to_size, row %lld", (long long)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_value like = uf_full_like(graph, input, 0.0);
    (void)scope;
    for (int32_t axis = 0; axis < table[one->row].rank; ++axis) {
        const bool drops = axis < table[one->row].dropped;
        const int32_t number = drops ? 0 : axis - table[one->row].dropped;
        if (table[one->row].repeated[axis]) {
            like = uf_sum(graph, like, &number, 1, !drops);
        }
    }
    return uf_layer_append_sum_to_size(graph, input, like);
}

const layer_family sum_to_size_family = {
    .name = "sum_to_size",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
