/* cross_entropy.c - cases of the cross-entropy. A case has one input: the graph takes the targets
 * from an input of indices that nobody fills, which are 0. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {5, 33, 9, 8}, {6, 70, 1, 1}};

/* Minus the mean log-softmax of class 0. */
static double mean_loss(const case_tensor *x) {
    const int64_t inner = x->extent[2] * x->extent[3];
    double sum = 0.0;
    for (int64_t n = 0; n < x->extent[0]; ++n) {
        for (int64_t i = 0; i < inner; ++i) {
            const double *row = x->values + n * x->extent[1] * inner + i;
            double exponentials = 0.0;
            for (int64_t c = 0; c < x->extent[1]; ++c) {
                exponentials += exp(row[c * inner]);
            }
            sum += log(exponentials) - row[0];
        }
    }
    return sum / (double)(x->extent[0] * inner);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t *s = shapes[row];
    one->input = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    one->output = case_tensor_of("", 0, NULL);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    one->output.values[0] = mean_loss(&one->input);
    one->reduction = one->input.count;
    (void)snprintf(one->label, sizeof one->label, "(%lld, %lld, %lld, %lld)", (long long)s[0],
                   (long long)s[1], (long long)s[2], (long long)s[3]);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    const int64_t *extent = one->input.extent;
    const uf_value target =
        uf_input_i64(graph, "target", UF_SHAPE(extent[0], extent[2], extent[3]));
    return uf_cross_entropy_loss(graph, input, target, NULL);
}

const layer_family cross_entropy_family = {
    .name = "cross_entropy",
    .table_count = COUNT_OF(shapes),
    .table = make,
    .graph = build,
};
