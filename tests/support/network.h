/* network.h - whole networks to test programs with: a DCGAN generator, and random graphs. */
#ifndef TEST_SUPPORT_NETWORK_H
#define TEST_SUPPORT_NETWORK_H

#include <unfurl/unfurl.h>

#include "support/random.h"

/* The generator of weights/dcgan_fashion_mnist.h5 (nz 64, 32 features, 1x64x64) as a graph: input
 * "z" (batch, 64, 1, 1), output "image". */
void network_generator(uf_graph *graph, uf_store *store, int64_t batch);

/* A random graph of the library's layers: chains and branches, values read twice, inner values that
 * are outputs too. Inputs "x0"..., outputs "y0"...; at least one of each. Fills the store's
 * tensors. */
typedef struct network_random_io {
    int inputs, outputs;
} network_random_io;

network_random_io network_random(uf_graph *graph, uf_store *store, test_random *random);

/* Random values for every tensor of a store that a layer can compute with; variances are
 * positive. */
void network_fill_store(uf_store *store, test_random *random);

/* A copy of a store on its context, filled anew. */
uf_store *network_other_weights(uf_store *store, test_random *random);

/* Moves a store half of the way to such a copy, as a moving average. */
void network_average_weights(uf_store *store, test_random *random);

/* Two ways to change an f32 weight: one of its elements by an upload of all; its first element
 * behind the library's back, and announced. */
void network_upload_weight(uf_store *store, const char *name);
void network_touch_weight(uf_store *store, const char *name);

#endif
