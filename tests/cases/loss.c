/* loss.c - cases of the losses, with a target of 5/16 everywhere; the kernels' own tests draw
 * targets. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {5, 33, 9, 8}};

enum { KINDS = 4, SHAPES = (int)(sizeof shapes / sizeof shapes[0]) };

static const double target = 0.3125; /* the same in bf16 */

/* The mean over all elements, from the definitions in PyTorch's documentation; bce is of
 * sigmoid(x). */
static double mean_loss(int64_t kind, const double *values, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const double x = values[i];
        const double p = 1.0 / (1.0 + exp(-x));
        const double terms[KINDS] = {
            -(target * log(p) + (1.0 - target) * log(1.0 - p)),
            -(target * log(p) + (1.0 - target) * log(1.0 - p)),
            (x - target) * (x - target),
            fabs(x - target),
        };
        sum += terms[kind];
    }
    return sum / (double)count;
}

static void make(int64_t row, test_random *random, layer_case *one) {
    static const char *const names[KINDS] = {"bce_with_logits", "bce", "mse", "l1"};
    const int64_t *s = shapes[row / KINDS];
    const int64_t kind = row % KINDS;
    one->input = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    one->output = case_tensor_of("", 0, NULL);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    one->output.values[0] = mean_loss(kind, one->input.values, one->input.count);
    one->reduction = one->input.count;
    (void)snprintf(one->label, sizeof one->label, "%s of %lld", names[kind],
                   (long long)one->input.count);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    const uf_value to = uf_full_like(graph, input, target);
    switch (one->label[0]) {
    case 'm':
        return uf_mse_loss(graph, input, to);
    case 'l':
        return uf_l1_loss(graph, input, to);
    default:
        return one->label[3] == '_' ? uf_bce_with_logits_loss(graph, input, to)
                                    : uf_bce_loss(graph, uf_sigmoid(graph, input), to);
    }
}

const layer_family loss_family = {
    .name = "loss",
    .table_count = KINDS * SHAPES,
    .table = make,
    .graph = build,
};
