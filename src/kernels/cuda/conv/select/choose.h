/* choose.h - which main loop computes a convolution on a GPU: one pure function of the problem.
 * Needs no GPU. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H
#define UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H

#include "kernels/cuda/conv/registry.h"

UF_BEGIN_DECLS

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant);

/* The variant of a name; UF_CUDA_CONV_VARIANTS where there is none. */
uf_cuda_conv_variant uf_cuda_conv_variant_of(const char *name);

/* The plan of a variant's first main loop that takes the problem; false where none does, or where
 * the variant does not run on the GPU. plan->inner: room for the plan of what a transform makes, or
 * NULL. */
bool uf_conv_plan_variant(const uf_conv_problem *problem, uf_cuda_conv_variant variant,
                          uf_conv_plan *plan);

/* The plan of the variant that select/cost.c expects to be the fastest, or of args->variant, which
 * forces one. plan has two elements: the second is for what a transform makes of the problem.
 * UNSUPPORTED, with the names that there are, when a forced variant does not exist, does not take
 * the problem or does not run on the GPU. */
uf_status uf_conv_choose(const uf_conv_problem *problem, uf_conv_plan *plan);

/* For transforms: the fastest plan of a problem without another transform. */
void uf_conv_plan_inner(const uf_conv_problem *problem, uf_conv_plan *plan);

UF_END_DECLS

#endif
