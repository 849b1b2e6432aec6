/* model.h - whole models that bench_models times, built through the public headers alone.
 *
 * Each file beside this one is a model. Its tensors have the names of the PyTorch code that it
 * follows, so that weights of that code load. */
#ifndef BENCH_MODELS_MODEL_H
#define BENCH_MODELS_MODEL_H

#include <unfurl/unfurl.h>

UF_BEGIN_DECLS

enum { BENCH_MODEL_STORES = 2, BENCH_MODEL_INPUTS = 3, BENCH_MODEL_LOSSES = 2 };

/* A model may leave some of these alone. */
typedef struct bench_model_size {
    int64_t batch, channels, height, width; /* of the pictures */
    int64_t features;                       /* channels of the first layer */
    int64_t latent;
} bench_model_size;

/* A part of a training step: Adam on one store, from the gradient of sum weights[i] * losses[i]. */
typedef struct bench_model_pass {
    int32_t store;
    int32_t loss_count;
    const char *names[BENCH_MODEL_LOSSES];
    uf_value losses[BENCH_MODEL_LOSSES];
    double weights[BENCH_MODEL_LOSSES];
} bench_model_pass;

enum { BENCH_MODEL_PASSES = 2 };

/* A model for the caller to compile, made by its bench_model_build. */
typedef struct bench_model {
    int32_t input_count;
    const char *inputs[BENCH_MODEL_INPUTS];
    int32_t pass_count; /* 0: no training; the output "image" is computed */
    bench_model_pass passes[BENCH_MODEL_PASSES];
    uf_adam_options adam;
} bench_model;

/* Build the model into an empty graph, its tensors into the open stores. Errors are the graph's. */
typedef void bench_model_build(uf_graph *graph, uf_store *const *stores,
                               const bench_model_size *size, bench_model *model);

bench_model_build bench_dcgan_generate, bench_dcgan_train;
bench_model_build bench_pix2pix_generate, bench_pix2pix_train;
bench_model_build bench_vae_decode, bench_vae_train;
bench_model_build bench_upconv7;
bench_model_build bench_cyclegan_generate;

/* A model at the sizes that are timed. */
typedef struct bench_model_row {
    const char *name;
    bench_model_build *build;
    const char *stores[BENCH_MODEL_STORES]; /* their names; NULL: fewer */
    uf_mode mode;
    int64_t batches[3];     /* 0: fewer */
    bench_model_size size;  /* without its batch */
    bench_model_size quick; /* of a model that a test can run */
} bench_model_row;

extern const bench_model_row bench_model_rows[];
extern const int32_t bench_model_row_count;

/* An input of the graph that the model remembers. */
uf_value bench_model_input(bench_model *model, uf_graph *graph, const char *name, uf_shape shape);

UF_END_DECLS

#endif
