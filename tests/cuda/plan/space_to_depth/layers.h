/* layers.h - layers for cuda/plan/space_to_depth/test_space_to_depth.c and
 * cuda/plan/space_to_depth/test_space_to_depth_takes.c: shapes alone, at address 4096. */
#ifndef TEST_CUDA_PLAN_SPACE_TO_DEPTH_LAYERS_H
#define TEST_CUDA_PLAN_SPACE_TO_DEPTH_LAYERS_H

#include "cuda/plan/helpers.h"
#include "cuda/plan/layers.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "support/random.h"

/* Groups have c and k channels; `spare` is behind what the last tap reaches. */
typedef struct sizes {
    int64_t n, c, k, kernel[2], small[2], spare[2];
} sizes;

/* The extent of the large side that comes of it. */
int64_t large_of(const uf_conv_kernel_args *args, const sizes *of, int axis);

/* Dense tensors; steps, padding, dilation, groups and math are those of `args`. */
plan_layer layer_of(uf_conv_direction direction, uf_dtype dtype, const uf_conv_kernel_args *args,
                    const sizes *of);

/* Layers that have a plan, small enough to be computed: views of any strides, all kinds of
 * epilogues and modes, paddings larger than filters, rows that no tap reaches, more than a tile of
 * x or w. */
plan_layer random_layer(test_random *random, uf_conv_direction direction);

/* Two of the sizes are large, and often too large. */
plan_layer random_large(test_random *random, uf_conv_direction direction);

static inline bool space_to_depth_plan_of(uf_conv_direction direction,
                                          const uf_conv_kernel_args *args,
                                          uf_space_to_depth_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_space_to_depth_plan_of(&problem, plan);
}

#endif
