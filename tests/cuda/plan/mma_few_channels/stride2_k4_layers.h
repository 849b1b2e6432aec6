/* stride2_k4_layers.h - layers for the tests of stride2_k4's plan: test_stride2_k4.c walks them,
 * test_stride2_k4_takes.c asks for those that have a plan. */
#ifndef TEST_CUDA_PLAN_STRIDE2_K4_LAYERS_H
#define TEST_CUDA_PLAN_STRIDE2_K4_LAYERS_H

#include "cuda/plan/layers.h"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "support/random.h"

enum {
    PIXELS = UF_STRIDE2_K4_PIXELS,
    FILTER = UF_STRIDE2_K4_FILTER,
    STRIDE = UF_STRIDE2_K4_STRIDE,
    TAPS = FILTER * FILTER,
    PIECE = 16 /* bytes: what shared memory is counted in here, and a vector */
};

/* Random layers that the plan takes, or nearly; the direction is given. The large ones have up to
 * 2^30 units. */
void stride2_k4_draw(test_random *random, plan_layer *layer);
void stride2_k4_draw_large(test_random *random, plan_layer *layer);

/* Units of a block, and where they are: what the kernels do. */
typedef struct stride2_k4_coord {
    int64_t n, row, strip;
} stride2_k4_coord;

stride2_k4_coord stride2_k4_coord_of(const uf_stride2_k4_plan *plan, int64_t unit);

/* The first unit of a block. */
int64_t stride2_k4_first_of(const uf_stride2_k4_plan *plan, int64_t block);

#endif
