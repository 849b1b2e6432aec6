/* choose.h - which main loop computes a convolution on a GPU: one pure function of the problem.
 * Needs no GPU. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H
#define UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H

#include "kernels/cuda/conv/registry.h"

UF_BEGIN_DECLS

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant);

/* The text of args->variant: "variant", or "variant:tile" with a tile of the main loop that
 * computes the problem. */
typedef struct uf_conv_forced {
    uf_cuda_conv_variant variant; /* UF_CUDA_CONV_VARIANTS: there is none of that name */
    int tile;                     /* UF_CONV_ANY_TILE: none is named */
} uf_conv_forced;

uf_conv_forced uf_conv_forced_of(const char *text);

/* The plan of a variant's first main loop that takes the problem with any tile; false where none
 * does, where that one refuses problem->tile, or where the variant does not run on the GPU. The
 * tile that it takes by itself has the same plan by its number. plan->inner: room for the plan of
 * what a transform makes, or NULL. */
bool uf_conv_plan_variant(const uf_conv_problem *problem, uf_cuda_conv_variant variant,
                          uf_conv_plan *plan);

/* The plan of the variant that select/cost.c expects to be the fastest, or of args->variant, which
 * forces one, and a tile where it names one; problem->tile is not asked. plan has two elements: the
 * second is for what a transform makes of the problem. UNSUPPORTED, with the names that there are,
 * when a forced variant does not exist, does not take the problem or does not run on the GPU; or
 * where it has no such tile. */
uf_status uf_conv_choose(const uf_conv_problem *problem, uf_conv_plan *plan);

/* For transforms: the fastest plan of a problem without another transform. */
void uf_conv_plan_inner(const uf_conv_problem *problem, uf_conv_plan *plan);

UF_END_DECLS

#endif
