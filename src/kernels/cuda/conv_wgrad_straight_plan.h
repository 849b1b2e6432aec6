/* conv_wgrad_straight_plan.h - tiles and splits of conv_wgrad_straight.cu, from the arguments
 * alone. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_PLAN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_STRAIGHT_CHANNELS = 64,     /* of x in a unit: the rows of a product */
    UF_STRAIGHT_UNITS = 2,         /* of a block, a warpgroup each */
    UF_STRAIGHT_Y_ROW = 64,        /* bytes of a channel of y in a stage: a run of pixels */
    UF_STRAIGHT_X_ROW = 128,       /* what that run meets of a row of x */
    UF_STRAIGHT_UNIT_BYTES = 8192, /* of x in a stage, per unit */
    UF_STRAIGHT_STAGES = 8,
    UF_STRAIGHT_TAPS = 64 /* at most */
};

/* A unit is one row of the filter, both of its taps, of 64 channels of x. */
typedef struct uf_straight_plan {
    int32_t width;        /* channels of y of a block: the columns of its products */
    int32_t pixels;       /* of a run */
    int32_t rows, across; /* rows of y; runs of each */
    int32_t kernel_h, stride_h, dilation_h, padding[2];
    int32_t chunks, all_units;
    int32_t unit_blocks, k_blocks;
    int32_t runs, splits; /* runs: of all images */
    int32_t groups, k_per_group, c_per_group;
    int32_t cluster; /* blocks that share what is read of x: they have neighbouring channels of y */
    int32_t stage_bytes, shared;
    int64_t blocks;
} uf_straight_plan;

/* False where the kernel does not compute this, or where most of its products would be padding. */
bool uf_wgrad_straight_plan_of(const uf_conv_kernel_args *args, uf_straight_plan *plan);

/* Tensor copies take the tensors from where they are: asked when that is known. */
bool uf_wgrad_straight_ready(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
