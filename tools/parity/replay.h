/* replay.h - how a case is replayed. Functions return an exit status. */
#ifndef UF_TOOLS_PARITY_REPLAY_H
#define UF_TOOLS_PARITY_REPLAY_H

#include "parity/parity.h"

enum { PARITY_PATH_SIZE = 4 * UF_NAME_SIZE, PARITY_INPUTS = 4 };

/* A dataset, or an attribute's numbers; values NULL when the file has none of this name. */
struct array {
    uf_shape shape;
    double *values;
    int64_t count;
};

/* Is there a dataset of this name in the group? */
bool parity_has(const struct replay *replay, const char *name);

/* The caller frees array->values. */
int parity_read_array(const struct replay *replay, const char *name, struct array *array);

/* Numbers of an attribute of the group; `count` of them must be there. Absent: what `values` holds
 * stays. */
int parity_read_attribute(const struct replay *replay, const char *name, double *values,
                          int32_t count);
int parity_read_integers(const struct replay *replay, const char *name, int64_t *values,
                         int32_t count);

/* Note how far `have` is from `want`, or the tensor from the dataset of this name. */
void parity_note(struct replay *replay, const double *have, const double *want, int64_t count);
int parity_compare(struct replay *replay, uf_tensor *tensor, const char *name);

/* Fill a tensor from a dataset of the group. */
int parity_upload(const struct replay *replay, uf_tensor *tensor, const char *name);

/* A case as a graph of its own. */
struct layer_run {
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    const char *names[PARITY_INPUTS]; /* of the datasets that the inputs are */
    uf_value inputs[PARITY_INPUTS];
    int32_t input_count;
    uf_value output;
    uf_mode mode; /* EVAL */
    /* Gradients of inputs are differences of terms of about this size, and rounded like these: they
     * are compared on this scale where they are smaller. 0: on their own. */
    double term_size;
};

/* A graph whose inputs are the datasets that are named, up to a NULL; integers are indices. The
 * caller sets run->output, and ends with parity_end in any case. */
int parity_begin(const struct replay *replay, struct layer_run *run, ...);
void parity_end(struct layer_run *run);

/* Run forward and backward, and compare everything that the group holds: run->output with the
 * dataset `output`, gradients of inputs and parameters with grad_NAME, tensors of the store with
 * NAME_after. The store's tensors begin as NAME, or NAME_before. */
int parity_run_layer(struct replay *replay, struct layer_run *run, const char *output);

#endif
