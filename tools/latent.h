/* latent.h - the vectors that a generator starts from: drawn by a seed, or read from a file. */
#ifndef UF_TOOLS_LATENT_H
#define UF_TOOLS_LATENT_H

#include <unfurl/unfurl.h>

struct latents {
    int64_t count;  /* vectors */
    int64_t size;   /* values in each */
    double *values; /* (count, size); owned, freed by latents_free */
};

/* Draw from N(0, 1) by the context's seed. Image i is the same for every `count`. */
int latents_draw(uf_context *context, int64_t count, int64_t size, struct latents *latents);

/* Read "FILE.h5:/dataset", of shape (N, size, 1, 1) or (N, size). With `count` >= 0 only the first
 * `count` are kept, and fewer are refused; with -1 all. A value that is not finite is refused, by
 * its index. */
int latents_read(const char *source, int64_t count, int64_t size, struct latents *latents);

void latents_free(struct latents *latents); /* a zeroed struct is legal */

#endif
