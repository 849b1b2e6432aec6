/* variant_name.c - names for the variants where the library has no GPU kernels, so that the file of
 * tuned convolutions is tested there too. */
#include <string.h>

#include "kernels/cuda/conv/select/choose.h"

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return variant == (uf_cuda_conv_variant)0 ? "first" : "another";
}

/* A tile of one digit. */
uf_conv_forced uf_conv_forced_of(const char *text) {
    const char *const colon = strchr(text, ':');
    const uf_conv_forced forced = {(uf_cuda_conv_variant)(strncmp(text, "first", 5) != 0),
                                   colon != NULL ? colon[1] - '0' : UF_CONV_ANY_TILE};
    return forced;
}
