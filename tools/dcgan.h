/* dcgan.h - find the layers of a DCGAN generator in a file of weights, and build it as a graph.
 *
 * Such a generator is one numbered sequence (main.0, main.1, …; any prefix or none): transposed
 * convolutions, the first with stride 1 and padding 0, the others with stride 2 and padding 1;
 * batch norm and ReLU after each but the last, tanh after that. Sizes and biases are read from the
 * weights. Radford, Metz, Chintala 2015, https://arxiv.org/abs/1511.06434 */
#ifndef UF_TOOLS_DCGAN_H
#define UF_TOOLS_DCGAN_H

#include <unfurl/unfurl.h>

enum { DCGAN_MAX_LAYERS = 16 }; /* sixteen doublings of a side */

struct dcgan_layer {
    int64_t index;            /* the module's number in the sequence */
    char scope[UF_NAME_SIZE]; /* "main.3" */
    int64_t in_channels, out_channels, kernel[2];
    bool bias;
    char norm_scope[UF_NAME_SIZE]; /* "main.4"; "" after the last layer */
    bool norm_affine;
};

struct dcgan {
    int layer_count;
    struct dcgan_layer layers[DCGAN_MAX_LAYERS];
};

/* Read the layers from the names and shapes in `store`, which was loaded from `path`. Another
 * network is refused, with the name of the missing tensor. */
int dcgan_discover(const uf_store *store, const char *path, struct dcgan *generator);

static inline int64_t dcgan_latent_size(const struct dcgan *generator) {
    return generator->layers[0].in_channels;
}

/* Append the generator to a graph: z (N, latent size, 1, 1) -> images (N, C, H, W) in [-1, 1]. */
uf_value dcgan_build(const struct dcgan *generator, uf_graph *graph, uf_store *store, uf_value z);

#endif
