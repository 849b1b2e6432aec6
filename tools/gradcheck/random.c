/* random.c - layers that draw: every evaluation has the same numbers. */
#include "gradcheck/cases.h"

static uf_value image(uf_graph *graph) {
    return uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5));
}

static void build_dropout(uf_graph *graph, uf_store *store, const void *data) {
    const double p = *(const double *)data;
    const uf_value x = image(graph);
    (void)store;
    uf_output(graph, "output", uf_dropout(graph, x, p));
    /* Another layer draws others, and its gradient is added. */
    uf_output(graph, "again", uf_tanh(graph, uf_dropout(graph, x, p)));
}

static void build_dropout2d(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    uf_output(graph, "output",
              uf_dropout2d(graph, uf_tanh(graph, image(graph)), *(const double *)data));
}

static void build_noise(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = image(graph);
    (void)store;
    (void)data;
    const uf_value noisy = uf_add(graph, x, uf_noise_normal_like(graph, x, 0.0, 0.5));
    uf_output(graph, "output", uf_tanh(graph, noisy));
    uf_output(graph, "uniform", uf_add(graph, x, uf_noise_uniform_like(graph, x, -1.0, 1.0)));
}

static const double rates[] = {0.0, 0.4, 1.0};

const gradcheck_case gradcheck_random[] = {
    {"dropout", "p 0", true, UF_TRAIN, build_dropout, &rates[0]},
    {"dropout", "p 0.4", true, UF_TRAIN, build_dropout, &rates[1]},
    {"dropout", "p 1", true, UF_TRAIN, build_dropout, &rates[2]},
    {"dropout", "p 0.4, evaluation", true, UF_EVAL, build_dropout, &rates[1]},
    {"dropout", "channels, p 0.4", true, UF_TRAIN, build_dropout2d, &rates[1]},
    {"noise", "added", true, UF_TRAIN, build_noise, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
