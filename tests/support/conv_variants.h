/* conv_variants.h - the convolution variants of a GPU that tests force, from registry.def alone: a
 * new row there is tested everywhere without an edit here. */
#ifndef TEST_SUPPORT_CONV_VARIANTS_H
#define TEST_SUPPORT_CONV_VARIANTS_H

#include "kernels/cuda/conv/registry.h"

/* Room for the names of all, and for the library's own choice. */
enum { CONV_VARIANTS = UF_CUDA_CONV_VARIANTS + 1 };

enum { CONV_ANY_DIRECTION = UF_CONV_CORRELATE | UF_CONV_WEIGHTS };

/* The variants with a main loop for one of these directions (UF_CONV_FORWARD | ...) in one of these
 * types (UF_CONV_F32 | ...), in the order of registry.def. names[0] is NULL, the library's choice.
 * Returns how many names there are. */
int64_t conv_variants(unsigned directions, unsigned types, const char *names[CONV_VARIANTS]);

/* Has the variant such a main loop? NULL, the library's choice, has every one. */
bool conv_variant_has(const char *name, unsigned directions, unsigned types);

/* Does a GPU of this compute capability (90 is 9.0) run the variant? */
bool conv_variant_runs(const char *name, int capability);

/* The compute capability of the code that the context runs. */
int conv_capability(uf_context *context);

#endif
