/* parity.h - the kinds of cases that `unfurl parity` can replay. */
#ifndef UF_TOOLS_PARITY_H
#define UF_TOOLS_PARITY_H

#include "command.h"

/* One group of the file, "conv_transpose2d/003", while it is replayed. */
struct replay {
    const char *file, *group;
    uf_context *context;
    uf_dtype dtype;
    const uf_hdf5_entry *entries; /* of the group */
    int64_t entry_count;
    double error; /* the worst so far: max|a - b| / max|b| */
};

/* How the groups of one kind are replayed: everything in the group is compared, and replay->error
 * raised to the worst difference. */
struct kind {
    const char *prefix; /* of the group's path */
    int (*run)(struct replay *replay);
    bool exact; /* the prefix is the whole path, not only its beginning */
};

/* Tables of kinds, each ended by a row without a prefix; kinds.c lists them. */
extern const struct kind parity_layers[], parity_optimizers[], parity_products[];
extern const struct kind parity_shape[];
extern const struct kind parity_layers[], parity_optimizers[];
extern const struct kind parity_activations[];
extern const struct kind parity_layers[], parity_norms[], parity_optimizers[], parity_products[];
extern const struct kind parity_layers[], parity_losses[], parity_optimizers[];
extern const struct kind parity_embedding[];
extern const struct kind parity_images[];
extern const struct kind parity_weights[];
extern const struct kind parity_penalties[];

/* The kind of a group by its path, "conv_transpose2d/003"; NULL for one that is not known. */
const struct kind *parity_kind_of(const char *group);

#endif
