/* cases.c - the table behind `unfurl gradcheck`, and the run of one of its rows. */
#include "gradcheck/cases.h"

#include <string.h>

static const gradcheck_case *const tables[] = {
    gradcheck_layers,    gradcheck_activations, gradcheck_images, gradcheck_products,
    gradcheck_shape,     gradcheck_norms,       gradcheck_losses, gradcheck_random,
    gradcheck_embedding, gradcheck_weights,     gradcheck_custom, gradcheck_gradients,
};

const gradcheck_case *gradcheck_case_at(int index) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const gradcheck_case *one = tables[t]; one->layer != NULL; one++) {
            if (index-- == 0) {
                return one;
            }
        }
    }
    return NULL;
}

/* Running statistics and scales that are not the trivial ones. */
static uf_status unsettle(uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); i++) {
        uf_store_entry entry;
        UF_TRY(uf_store_entry_at(store, i, &entry));
        if (strstr(entry.name, "running_mean") != NULL) {
            UF_TRY(uf_init_uniform(store, entry.name, -0.5, 0.5));
        } else if (strstr(entry.name, "running_var") != NULL || entry.shape.rank == 1) {
            UF_TRY(uf_init_uniform(store, entry.name, 0.5, 1.5));
        }
    }
    return UF_OK;
}

uf_status gradcheck_case_run(const gradcheck_case *one, uf_context *context,
                             const uf_gradcheck_options *options, uf_gradcheck_result *result) {
    uf_gradcheck_options chosen = *options;
    uf_store *store = NULL;
    uf_graph *graph = NULL;
    chosen.mode = one->mode;
    uf_status status = uf_store_create(context, one->layer, &store);
    if (status == UF_OK) {
        status = uf_graph_create(context, &graph);
    }
    if (status == UF_OK) {
        one->build(graph, store, one->data);
        status = uf_init_default(graph, store);
    }
    if (status == UF_OK) {
        status = unsettle(store);
    }
    if (status == UF_OK) {
        status = uf_gradcheck(graph, &chosen, result);
    }
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    return status;
}
