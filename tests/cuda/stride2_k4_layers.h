/* stride2_k4_layers.h - layers for the tests of conv_stride2_k4' plan, which are three:
 * cuda/test_stride2_k4_plan.c (its numbers), cuda/test_stride2_k4_walk.c (what blocks make with
 * them) and cuda/test_stride2_k4_takes.c (which layers have a plan). All of them see the same
 * layers. */
#ifndef TEST_CUDA_COLUMNS_LAYERS_H
#define TEST_CUDA_COLUMNS_LAYERS_H

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "support/random.h"

enum {
    PIXELS = UF_STRIDE2_K4_PIXELS,
    FILTER = UF_STRIDE2_K4_FILTER,
    STRIDE = UF_STRIDE2_K4_STRIDE,
    TAPS = FILTER * FILTER,
    PIECE = 16 /* bytes: what shared memory is counted in here, and a vector */
};

/* A layer that has a plan. */
typedef struct stride2_k4_layer {
    uf_conv_direction direction;
    uf_conv_kernel_args args;
    uf_stride2_k4_plan plan;
    test_random random; /* for whoever looks at some places only */
} stride2_k4_layer;

typedef void stride2_k4_check(stride2_k4_layer *layer);

/* Random layers that can be walked: calls `check` for all that are taken, and demands that all
 * kinds come, and some that are refused. */
void check_layers(stride2_k4_check *check);

/* The same of layers of up to 2^30 units, too many to be walked. */
void check_large_layers(stride2_k4_check *check);

/* Units of a block, and where they are: what the kernels do. */
typedef struct stride2_k4_coord {
    int64_t n, row, strip;
} stride2_k4_coord;

stride2_k4_coord place_of(const uf_stride2_k4_plan *plan, int64_t unit);

/* The first unit of a block. */
int64_t first_of(const uf_stride2_k4_plan *plan, int64_t block);

#endif
