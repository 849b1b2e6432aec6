/* softmax.c - cases of softmax: every axis of values of any rank, short lines and long ones, and
 * inputs whose exponentials leave every type. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[4];
    int32_t axis;
    double spread, offset;
} table[] = {
    {1, {1}, 0, 1.0, 0.0},
    {1, {700}, 0, 1.0, 0.0},
    {2, {5, 9}, 1, 1.0, 0.0},
    {2, {5, 9}, 0, 1.0, 0.0},
    {2, {5, 9}, -1, 1.0, 1000.0},
    {2, {3, 5000}, 1, 1.0, 0.0},
    {2, {2000, 3}, 0, 1.0, -1000.0},
    {3, {2, 130, 600}, 1, 1.0, 0.0},
    {3, {1, 5, 20000}, -2, 1.0, 0.0},
    {4, {2, 3, 4, 5}, 0, 1.0, 0.0},
    {4, {2, 3, 4, 5}, 1, 60.0, 0.0},
    {4, {2, 3, 4, 5}, 2, 1.0, 0.0},
    {4, {2, 3, 4, 5}, 3, 60.0, 0.0},
    {4, {2, 3, 1, 33}, 2, 1.0, 0.0},
};

/* From the definition; the maximum leaves the quotient as it is. */
static void compute(layer_case *one, int32_t axis) {
    int64_t inner = 1;
    for (int32_t i = axis + 1; i < one->input.rank; ++i) {
        inner *= one->input.extent[i];
    }
    const int64_t extent = one->input.extent[axis];
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double *line = one->input.values + i / (extent * inner) * extent * inner + i % inner;
        double most = line[0], sum = 0.0;
        for (int64_t s = 0; s < extent; ++s) {
            most = fmax(most, line[s * inner]);
        }
        for (int64_t s = 0; s < extent; ++s) {
            sum += exp(line[s * inner] - most);
        }
        one->output.values[i] = exp(one->input.values[i] - most) / sum;
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank, axis = table[row].axis;
    one->input = case_tensor_of("", rank, table[row].extent);
    one->output = case_tensor_of("", rank, table[row].extent);
    /* Numbers that every type has beside the offset. */
    for (int64_t i = 0; i < one->input.count; ++i) {
        const int64_t step = test_random_integer(random, -8, 8);
        one->input.values[i] = table[row].offset != 0.0
                                   ? table[row].offset + 8.0 * (double)(step / 4)
                                   : table[row].spread * (double)step / 8.0;
    }
    compute(one, axis < 0 ? axis + rank : axis);
    one->reduction = one->input.extent[axis < 0 ? axis + rank : axis];
    one->row = row;
    (void)snprintf(one->label, sizeof one->label, "softmax row %d, axis %d", (int)row, (int)axis);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return uf_softmax(graph, input, table[one->row].axis);
}

const layer_family softmax_family = {
    .name = "softmax",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
