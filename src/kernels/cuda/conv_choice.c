/* conv_choice.c - the choice of a convolution kernel. */
#include "kernels/cuda/conv_choice.h"

#include <stdio.h>
#include <string.h>

static const char *const names[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = "naive",
    [UF_CUDA_CONV_FFMA] = "ffma",
};

static const char *const direction_names[] = {
    [UF_CONV_FPROP] = "conv_fprop",
    [UF_CONV_DGRAD] = "conv_dgrad",
    [UF_CONV_WGRAD] = "conv_wgrad",
};

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS ? names[variant] : "not a variant";
}

/* The tiled kernels count positions in 32 bits: every extent, and every position that a tap can name,
 * padding included. */
static bool positions_fit(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 30;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t reach = (args->w.extent[2 + axis] - 1) * args->dilation[axis];
        if (args->x.extent[2 + axis] >= limit || args->y.extent[2 + axis] >= limit ||
            args->padding[axis] >= limit || args->stride[axis] >= limit || reach >= limit) {
            return false;
        }
    }
    return args->x.extent[0] < limit && args->x.extent[1] < limit && args->y.extent[1] < limit &&
           args->w.extent[1] * args->w.extent[2] * args->w.extent[3] < limit &&
           args->w.extent[0] * args->w.extent[2] * args->w.extent[3] < limit;
}

bool uf_cuda_conv_suits(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        uf_cuda_conv_variant variant) {
    (void)direction;
    switch (variant) {
    case UF_CUDA_CONV_NAIVE:
        return true;
    case UF_CUDA_CONV_FFMA:
        return false && args->x.dtype == UF_F32 && positions_fit(args);
    case UF_CUDA_CONV_VARIANTS:
        break;
    }
    return false;
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
        if (strcmp(args->variant, names[i]) == 0) {
            *variant = candidate;
            return UF_OK;
        }
        /* The names are ours and short: they fit. */
        used += (size_t)snprintf(known + used, sizeof known - used, "%s\"%s\"", used > 0 ? ", " : "",
                                 names[i]);
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "no variant \"%s\" of %s takes these arguments on a GPU; these do: %s",
            args->variant, direction_names[direction], known);
}

uf_status uf_cuda_conv_choose(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              uf_cuda_conv_variant *variant) {
    *variant = UF_CUDA_CONV_NAIVE;
    if (args->variant != NULL) {
        return forced(direction, args, variant);
    }
    if (uf_cuda_conv_suits(direction, args, UF_CUDA_CONV_FFMA)) {
        *variant = UF_CUDA_CONV_FFMA;
    }
    return UF_OK;
}
