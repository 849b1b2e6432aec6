/* conv_choice.c - the choice of a convolution kernel. */
#include "kernels/cuda/conv_choice.h"

#include <stdio.h>
#include <string.h>

static const char *const direction_names[] = {
    [UF_CONV_FPROP] = "conv_fprop",
    [UF_CONV_DGRAD] = "conv_dgrad",
    [UF_CONV_WGRAD] = "conv_wgrad",
};

static bool anything(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return true;
}

/* A variant: what it computes correctly (and may be forced for), and where it is the one to choose. A later row
 * goes before an earlier one; the first takes everything. */
static const struct {
    const char *name;
    bool (*suits)(uf_conv_direction direction, const uf_conv_kernel_args *args);
    bool (*pays)(uf_conv_direction direction, const uf_conv_kernel_args *args);
} rows[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {"naive", anything, anything},
};

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS ? rows[variant].name : "not a variant";
}

bool uf_cuda_conv_suits(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS && rows[variant].suits(direction, args);
}

static uf_status forced(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        uf_cuda_conv_variant *variant) {
    char known[256];
    size_t used = 0;
    for (int i = 0; i < UF_CUDA_CONV_VARIANTS; ++i) {
        const uf_cuda_conv_variant candidate = (uf_cuda_conv_variant)i;
        if (!uf_cuda_conv_suits(direction, args, candidate)) {
            continue;
        }
        if (strcmp(args->variant, rows[i].name) == 0) {
            *variant = candidate;
            return UF_OK;
        }
        /* The names are ours and short: they fit. */
        used += (size_t)snprintf(known + used, sizeof known - used, "%s\"%s\"", used > 0 ? ", " : "",
                                 rows[i].name);
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "no variant \"%s\" of %s takes these arguments on a GPU; these do: %s",
            args->variant, direction_names[direction], known);
}

uf_status uf_cuda_conv_choose(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              uf_cuda_conv_variant *variant) {
    if (args->variant != NULL) {
        return forced(direction, args, variant);
    }
    int chosen = UF_CUDA_CONV_VARIANTS - 1;
    while (chosen > 0 && !(rows[chosen].suits(direction, args) && rows[chosen].pays(direction, args))) {
        --chosen;
    }
    *variant = (uf_cuda_conv_variant)chosen;
    return UF_OK;
}
