/* plan.h - tiles and splits of wgrad/launch.cu, from the arguments
 * alone. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PLAN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_PATCH_WGRAD_COLUMNS = 128, /* channels of x, times taps, of a unit: rows of two MMAs */
    UF_PATCH_WGRAD_UNITS = 2,     /* of a block, a warpgroup each */
    UF_PATCH_WGRAD_STAGES = 8,    /* of runs of 64 bytes, half as many of 128 */
    UF_PATCH_WGRAD_TAPS = 64      /* at most */
};

/* A unit is one row of the filter, both of its taps, of 64 channels of x; where filters are one
 * wide, that tap of 128 channels. */
typedef struct uf_patch_wgrad_plan {
    int32_t width;        /* channels of y of a block: the columns of its MMAs */
    int32_t y_row;        /* bytes of a channel of y in a stage, a run of pixels: 64 or 128 */
    int32_t pixels;       /* of a run */
    int32_t mmas;         /* that make one: three in FP32 */
    int32_t wide;         /* taps of a row, and columns of x that a pixel meets */
    int32_t channels;     /* of x in a unit */
    int32_t rows, across; /* rows of y; runs of each */
    int32_t kernel_h, stride_h, dilation_h, padding[2];
    int32_t chunks, all_units;
    int32_t unit_blocks, k_blocks;
    int32_t runs, splits; /* runs: of all images */
    int32_t groups, k_per_group, c_per_group;
    bool pair; /* two blocks, a cluster, make neighbouring channels of y, of the same x; no padding
                */
    int32_t stage_bytes, shared;
    int64_t blocks;
    double cost; /* an estimate for an H200 */
} uf_patch_wgrad_plan;

/* False where the kernel does not compute this, or where most of its MMAs would be padding.
 * Here and in the kernel pointwise convolutions are what uf_conv_flat makes of them. */
bool uf_patch_wgrad_plan_of(const uf_conv_kernel_args *args, uf_patch_wgrad_plan *plan);

/* A weight gradient that becomes one of these, pointwise, when tensors are copied. */
typedef struct uf_patch_wgrad_copies {
    uf_conv_kernel_args args; /* of the copies; where they will be is not said */
    bool x, y;                /* which are copied: that depends on where they are */
    int64_t pitch;            /* of the copies' planes */
    size_t x_bytes, y_bytes;  /* of copies, made or not */
} uf_patch_wgrad_copies;

/* False where no copy is needed, or it is not worth it: for filters of many taps that are as large
 * as their steps. */
bool uf_patch_wgrad_copies_of(const uf_conv_kernel_args *args, uf_patch_wgrad_copies *copies);

/* TMA loads take the tensors from where they are: asked when that is known. */
bool uf_patch_wgrad_ready(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
