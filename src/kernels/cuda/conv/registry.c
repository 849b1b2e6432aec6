/* registry.c - registry.def as a table. */
#include "kernels/cuda/conv/registry.h"

/* Tentative definitions: a main loop without a row in gpu_h200.def has rates of 0, not measured. */
#define UF_CONV_LOOP(id, name, directions, types) static const uf_conv_rates rates_##id;
#define UF_CONV_VARIANT(enumerator, name, least, most, loops) loops
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP

#define UF_CONV_COST(id, ...) static const uf_conv_rates rates_##id = {__VA_ARGS__, true};
#include "kernels/cuda/conv/select/gpu_h200.def"
#undef UF_CONV_COST

#define UF_CONV_LOOP(id, name, directions, types)                                                  \
    {name, directions, types, uf_conv_plan_##id, uf_conv_launch_##id, &rates_##id},
#define UF_CONV_VARIANT(enumerator, name, least, most, loops)                                      \
    static const uf_conv_loop loops_##enumerator[] = {loops{NULL, 0, 0, NULL, NULL, NULL}};
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP

#define UF_CONV_VARIANT(enumerator, name, least, most, loops)                                      \
    {name, least, most, loops_##enumerator},
const uf_conv_variant uf_conv_variants[UF_CUDA_CONV_VARIANTS] = {
#include "kernels/cuda/conv/registry.def"
};
#undef UF_CONV_VARIANT
