/* random.h - random numbers of a training as pure functions of (seed, purpose, step): whoever
 * resumes at a step draws what the uninterrupted run drew, and nothing has to be saved. */
#ifndef EXAMPLES_COMMON_RANDOM_H
#define EXAMPLES_COMMON_RANDOM_H

#include <stdint.h>

typedef struct random_stream {
    uint64_t key, drawn;
} random_stream;

/* The numbers of one step. `purpose` keeps uses apart: "latents", "samples". */
random_stream random_at(uint64_t seed, const char *purpose, int64_t step);

double random_uniform(random_stream *stream);                          /* in (0, 1) */
int64_t random_below(random_stream *stream, int64_t bound);            /* in 0 .. bound - 1 */
void random_normals(random_stream *stream, float *out, int64_t count); /* mean 0, deviation 1 */

#endif
