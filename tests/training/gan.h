/* gan.h - a small DCGAN in training, as examples/dcgan trains a large one: D on real and fake, then
 * G through D. */
#ifndef TEST_TRAINING_GAN_H
#define TEST_TRAINING_GAN_H

#include <unfurl/unfurl.h>

enum { GAN_BATCH = 4, GAN_LATENT = 8, GAN_FEATURES = 4, GAN_SIZE = 16 };

typedef struct gan {
    uf_context *context;
    uf_store *g, *d;
    uf_graph *graph;
    uf_optimizer *g_adam, *d_adam;
    uf_program *program;
} gan;

/* Seeded, initialised and compiled. Fails the test on any error. */
gan gan_open(int32_t threads, uf_dtype dtype, uf_plan plan);

/* The same on a context of the caller's, which becomes the GAN's; `capture` as in
 * uf_program_options. */
gan gan_open_on(uf_context *context, uf_dtype dtype, uf_plan plan, bool capture);
void gan_close(gan *one);

/* Upload inputs number `step`. */
void gan_feed(gan *one, int64_t step);

/* Inputs number `step`, then one run. */
void gan_step(gan *one, int64_t step);

/* The bytes of every tensor of both stores, in a row; the caller frees them. */
unsigned char *gan_contents(const gan *one, size_t *size);

#endif
