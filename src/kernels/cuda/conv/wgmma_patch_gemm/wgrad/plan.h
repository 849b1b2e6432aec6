/* plan.h - tiles and splits of wgrad/launch.cu, from the arguments alone. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PLAN_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.h"

UF_BEGIN_DECLS

enum {
    UF_PATCH_WGRAD_COLUMNS = 128, /* channels of x times taps of a unit: rows of two MMAs */
    UF_PATCH_WGRAD_UNITS = 2,     /* units of a CTA, one per warpgroup */
    UF_PATCH_WGRAD_STAGES = 8,    /* stages of runs of 64 bytes; half as many of 128 */
    UF_PATCH_WGRAD_TAPS = 64      /* taps of the filter, at most */
};

/* A unit is one filter row: both taps of 64 channels of x, or the one tap of 128 channels. */
typedef struct uf_patch_wgrad_plan {
    int32_t width;        /* channels of y of a CTA: columns of its MMAs */
    int32_t y_row;        /* bytes of a channel of y in a stage, a run of pixels: 64 or 128 */
    int32_t pixels;       /* pixels of a run */
    int32_t mmas;         /* MMAs per product: three in FP32 */
    int32_t wide;         /* taps of a filter row = columns of x under a pixel */
    int32_t channels;     /* channels of x in a unit */
    int32_t rows, across; /* rows of y; runs per row */
    int32_t kernel_h, stride_h, dilation_h, padding[2];
    int32_t chunks, all_units;
    int32_t unit_blocks, k_blocks;
    int32_t runs, splits; /* runs of all images; shares of them */
    int32_t groups, k_per_group, c_per_group;
    bool
        pair; /* two CTAs of a cluster have neighbouring channels of y and the same x; no padding */
    int32_t stage_bytes, shared;
    int64_t blocks;
    double cost; /* modelled cycles on an H200 */
} uf_patch_wgrad_plan;

/* False where the kernel does not compute this, or where most of its MMAs would be padding. Here
 * and in the kernel pointwise convolutions are as uf_conv_flat makes them. */
bool uf_patch_wgrad_plan_of(const uf_conv_kernel_args *args, uf_patch_wgrad_plan *plan);

/* Copies of tensors with which a weight gradient is pointwise. */
typedef struct uf_patch_wgrad_copies {
    bool y;                  /* y is copied too, which depends on its address; x always is */
    int64_t pitch;           /* elements of a plane of the copies */
    size_t x_bytes, y_bytes; /* bytes of copies, made or not */
} uf_patch_wgrad_copies;

/* The arguments of the copies; their addresses are left to the caller. */
uf_conv_kernel_args uf_patch_wgrad_copied(const uf_conv_kernel_args *args,
                                          const uf_patch_wgrad_copies *copies);

/* The plan of a launch. */
typedef struct uf_patch_wgrad_conv_plan {
    uf_patch_wgrad_plan tiles; /* of the tensors, or of their copies */
    uf_channel_blocked_reduction reduction;
    bool copied;
    uf_patch_wgrad_copies copies; /* where they are */
    double cost;                  /* modelled cycles on an H200, those of copies included */
} uf_patch_wgrad_conv_plan;

/* False where the kernel computes neither this nor copies that are worth it. Only filters of many
 * taps that equal their stride are copied. */
bool uf_patch_wgrad_conv_plan_of(const uf_conv_kernel_args *args, uf_patch_wgrad_conv_plan *plan);

/* True if TMA can load what the plan is of: copies, or the tensors at their addresses. */
bool uf_patch_wgrad_ready(const uf_conv_kernel_args *args, const uf_patch_wgrad_conv_plan *plan);

/* Does the plan hold for w of any strides? Copies make one axis of its channels and taps, which
 * then follow each other. */
bool uf_patch_wgrad_any_strides(const uf_patch_wgrad_conv_plan *plan);

/* Bytes for copies, if any, and partial sums. */
size_t uf_patch_wgrad_workspace(const uf_patch_wgrad_conv_plan *plan);

UF_END_DECLS

#endif
