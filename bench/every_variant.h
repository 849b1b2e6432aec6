/* every_variant.h - bench_ops --every-variant: times, estimates and plans of all variants of a
 * cell. */
#ifndef BENCH_EVERY_VARIANT_H
#define BENCH_EVERY_VARIANT_H

#include <stdio.h>

#include "matrix.h"
#include "options.h"

UF_BEGIN_DECLS

/* The status of the program. `context` is NULL where a capability was named: then nothing is timed.
 * A table goes to `out`; a matrix to options->matrix. */
int bench_every_variant(uf_context *context, const bench_options *options,
                        const bench_shape *shapes, int64_t count, FILE *out);

UF_END_DECLS

#endif
