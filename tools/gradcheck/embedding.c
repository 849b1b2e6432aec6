/* embedding.c - rows chosen by indices, which are 0 and 1 by turns of chance. */
#include "gradcheck/cases.h"

static const uf_shape indices[] = {{0}, {1, {7}}, {3, {2, 3, 2}}};

/* The third row is nobody's. */
static void build_embedding(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value i = uf_input_i64(graph, "indices", *(const uf_shape *)data);
    uf_output(graph, "output", uf_tanh(graph, uf_embedding(graph, i, uf_at(store, "0"), 3, 5)));
}

/* Two layers with one weight: the second gradient is added. */
static void build_shared(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value i = uf_input_i64(graph, "i", *(const uf_shape *)data);
    const uf_value j = uf_input_i64(graph, "j", UF_SHAPE(4));
    uf_output(graph, "i of it", uf_embedding(graph, i, uf_at(store, "0"), 3, 5));
    uf_output(graph, "j of it", uf_tanh(graph, uf_embedding(graph, j, uf_at(store, "0"), 3, 5)));
}

const gradcheck_case gradcheck_embedding[] = {
    {"embedding", "one index", true, UF_TRAIN, build_embedding, &indices[0]},
    {"embedding", "(7)", true, UF_TRAIN, build_embedding, &indices[1]},
    {"embedding", "(2, 3, 2)", true, UF_TRAIN, build_embedding, &indices[2]},
    {"embedding", "shared", true, UF_TRAIN, build_shared, &indices[2]},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
