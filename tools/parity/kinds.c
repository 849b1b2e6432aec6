/* kinds.c - every kind of case that is known. */
#include <string.h>

#include "parity/parity.h"

static const struct kind *const tables[] = {
    parity_layers,      parity_optimizers, parity_products,  parity_shape,
    parity_activations, parity_norms,      parity_losses,    parity_embedding,
    parity_images,      parity_weights,    parity_penalties,
};

const struct kind *parity_kind_of(const char *group) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const struct kind *kind = tables[t]; kind->prefix != NULL; kind++) {
            const bool same = kind->exact ? strcmp(group, kind->prefix) == 0
                                          : strncmp(group, kind->prefix, strlen(kind->prefix)) == 0;
            if (same) {
                return kind;
            }
        }
    }
    return NULL;
}
