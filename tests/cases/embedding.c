/* embedding.c - cases of embedding. A case has one input, which the chosen row is added to: the
 * graph takes the indices from an input that nobody fills, which are 0. test_embedding.c has the
 * rest. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t table[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 7, 1, 33}, {2, 16, 9, 8}};

enum { ROWS = 3 };

/* Sixteenths: bf16 has their sums. */
static void fill(test_random *random, case_tensor *tensor) {
    for (int64_t i = 0; i < tensor->count; ++i) {
        tensor->values[i] = (double)test_random_integer(random, -32, 32) / 16.0;
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t *s = table[row];
    const int64_t extent[] = {ROWS, s[3]};
    case_tensor weight = case_tensor_of("weight", 2, extent);
    one->input = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    one->output = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    fill(random, &one->input);
    fill(random, &weight);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = one->input.values[i] + weight.values[i % s[3]];
    }
    case_add_parameter(one, weight);
    one->row = row;
    one->reduction = 0; /* exact */
    (void)snprintf(one->label, sizeof one->label, "embedding row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const int64_t *s = one->input.extent;
    const uf_value indices = uf_input_i64(graph, "indices", UF_SHAPE(s[0], s[1], s[2]));
    return uf_add(graph, input, uf_embedding(graph, indices, scope, ROWS, s[3]));
}

const layer_family embedding_family = {
    .name = "embedding",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
