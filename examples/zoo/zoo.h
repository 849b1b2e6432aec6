/* zoo.h - published networks as graphs: a file for each, under the names of its authors'
 * state_dict.
 *
 * A builder adds one network to a graph: its inputs, its layers with their parameters in `store`,
 * its outputs. uf_store_load_hdf5 then loads the authors' weights, strict. */
#ifndef ZOO_H
#define ZOO_H

#include <unfurl/unfurl.h>

/* How large a network is, and what it is run on. A model ignores the numbers that it has no use
 * for; zoo.c has two sets for each. */
typedef struct zoo_size {
    int64_t batch;    /* images */
    int64_t side;     /* height and width of the image, or of the latents that are decoded */
    int64_t channels; /* of the image; of the latents that are decoded */
    int64_t features; /* the number of channels that the authors' code multiplies */
    int64_t blocks;   /* residual blocks, levels, or the scale of an upscaler */
    int64_t latent;   /* numbers of a latent vector */
} zoo_size;

typedef void zoo_build(uf_graph *graph, uf_store *store, const zoo_size *size);

zoo_build zoo_cond_gan, zoo_cyclegan, zoo_dcgan, zoo_esrgan, zoo_fast_style, zoo_fsrcnn,
    zoo_hifigan, zoo_ldm_decoder, zoo_pix2pix, zoo_sam_upscaler, zoo_sngan, zoo_taesd, zoo_vae;

typedef struct zoo_model {
    const char *name;
    zoo_build *build;
    zoo_size test, real; /* small enough for a test; as published */
} zoo_model;

extern const zoo_model zoo_models[];
extern const int zoo_model_count;

#endif
