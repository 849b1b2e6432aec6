/* plan.h - how naive/launch.cu divides a weight gradient; fprop and dgrad have nothing to plan.
 * Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_NAIVE_PLAN_H
#define UF_KERNELS_CUDA_CONV_NAIVE_PLAN_H

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

enum { NAIVE_TILE = 4 }; /* k and c of a block's tile: the kernel's registers are 4 x 4 sums */

typedef struct naive_wgrad_plan {
    int64_t k_per_group, c_per_group;
    int64_t k_tiles, c_tiles;      /* tiles of a group */
    int64_t tiles;                 /* tiles of all groups and taps */
    int64_t pixels, piece, splits; /* pixels of y: all, of a split; splits */
} naive_wgrad_plan;

UF_END_DECLS

#endif
