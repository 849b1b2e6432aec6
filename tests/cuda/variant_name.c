/* variant_name.c - names for the variants where the library has no GPU kernels, so that the file of
 * tuned convolutions is tested there too. */
#include <string.h>

#include "kernels/cuda/conv/select/choose.h"

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return variant == (uf_cuda_conv_variant)0 ? "first" : "another";
}

uf_cuda_conv_variant uf_cuda_conv_variant_of(const char *name) {
    return (uf_cuda_conv_variant)(strcmp(name, "first") != 0);
}
