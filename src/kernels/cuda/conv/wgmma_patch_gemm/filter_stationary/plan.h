/* plan.h - the host side of filter_stationary/launch.cu: what the kernel is told, from the
 * arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_FILTER_STATIONARY_PIXELS = 128, /* of a tile: neighbours of a plane of what is read */
    UF_FILTER_STATIONARY_GROUPS =
        2, /* consuming warpgroups of a block, each with rows of its own */
    UF_FILTER_STATIONARY_ROWS =
        128, /* of a block: written channels, or these times the filter's taps */
    UF_FILTER_STATIONARY_CHANNELS = 64, /* that are read: of a stage */
    UF_FILTER_STATIONARY_STAGE =
        UF_FILTER_STATIONARY_PIXELS * UF_FILTER_STATIONARY_CHANNELS * 2, /* bytes */
    UF_FILTER_STATIONARY_STAGES = 14,
    UF_FILTER_STATIONARY_CHUNKS = 8, /* stages of a tile, at most: what registers hold weights of */
    UF_FILTER_STATIONARY_BARRIERS = 1024, /* bytes behind the stages */
    UF_FILTER_STATIONARY_SHARED =
        UF_FILTER_STATIONARY_STAGES * UF_FILTER_STATIONARY_STAGE + UF_FILTER_STATIONARY_BARRIERS,
    UF_FILTER_STATIONARY_MULTIPROCESSORS = 132
};

/* Blocks with the same rows of weights are a gang, as many as there are parts of rows; block b is
 * of gang b % parts. All gangs walk all tiles, side by side, so that they find them in the
 * second-level cache. */
typedef struct uf_filter_stationary_plan {
    uf_direct_conv conv;        /* tensors, epilogue */
    int32_t wide, high;         /* columns of the filter, 1 or 2, and rows */
    int32_t chunks;             /* stages of a tile; zeros beyond the last channel */
    int32_t rows, parts;        /* of weights; parts of ROWS, zeros beyond the last row */
    int32_t row, plane;         /* pixels of what is read */
    int32_t image_tiles, tiles; /* of an image; of all */
    int32_t cta_group, blocks;  /* blocks of a gang; all */
    uf_direct_divisor by_image, by_row, by_high;
    bool across;   /* in w read channels lie side by side, else rows */
    bool gathered; /* w is brought one by one: copies cannot follow it */
    bool plain;    /* results are written as they are */
    bool pair;     /* blocks of neighbouring parts are a cluster, which brings pixels once */
    bool by_turns; /* there are rows for one warpgroup only: they take tiles in turn */
    double cost;   /* about, on an H200 */
} uf_filter_stationary_plan;

/* True for bf16 tensors, where each written element is one sum over all read channels, up to 512:
 * pointwise layers in fprop and dgrad, and dgrad of filters two columns wide and as high as their
 * steps (U-Net's way up). Planes of what is read are rows one after another, in multiples of 16
 * bytes, and so are those of what is written, if pointwise, or else its rows. */
bool uf_filter_stationary_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                  uf_filter_stationary_plan *plan);

/* Do the tensors begin at multiples of 16 bytes? The plan does not ask: where a tensor begins must
 * not change what a layer is made by but for that call. */
bool uf_filter_stationary_is_aligned(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
