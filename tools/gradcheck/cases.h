/* cases.h - the graphs whose gradients `unfurl gradcheck` proves: every row of the
 * library's layers and every loss, over shapes that reach each branch of the index arithmetic.
 * Public API only; the tests use the same table. */
#ifndef UF_TOOLS_GRADCHECK_CASES_H
#define UF_TOOLS_GRADCHECK_CASES_H

#include <unfurl/unfurl.h>

typedef struct gradcheck_case {
    const char *layer; /* its name: a row of the library's table of layers */
    const char *what;  /* "k4 s2 p1, groups 2" */
    bool smooth;       /* no kinks: not one element may be skipped */
    uf_mode mode;
    /* Add inputs, layers and outputs to a graph, with parameters in `store`. */
    void (*build)(uf_graph *graph, uf_store *store, const void *data);
    const void *data; /* for build */
} gradcheck_case;

/* Tables, each ended by a row without a layer; cases.c lists them. */
extern const gradcheck_case gradcheck_layers[];
extern const gradcheck_case gradcheck_products[];
extern const gradcheck_case gradcheck_shape[];
extern const gradcheck_case gradcheck_activations[];
extern const gradcheck_case gradcheck_layers[], gradcheck_norms[];
extern const gradcheck_case gradcheck_layers[], gradcheck_losses[];
extern const gradcheck_case gradcheck_products[], gradcheck_random[];
extern const gradcheck_case gradcheck_embedding[];
extern const gradcheck_case gradcheck_images[];
extern const gradcheck_case gradcheck_weights[];
extern const gradcheck_case gradcheck_custom[];
extern const gradcheck_case gradcheck_gradients[];

/* Row `index` of all tables, one after the other; NULL beyond the last. */
const gradcheck_case *gradcheck_case_at(int index);

/* Build one case in `context` and check it. */
uf_status gradcheck_case_run(const gradcheck_case *one, uf_context *context,
                             const uf_gradcheck_options *options, uf_gradcheck_result *result);

#endif
