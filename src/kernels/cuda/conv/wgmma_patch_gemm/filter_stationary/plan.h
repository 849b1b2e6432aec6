/* plan.h - limits and tiles of filter_stationary/launch.cu, from the arguments alone. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_PLAN_H

#include "kernels/cuda/conv/problem.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_FILTER_STATIONARY_PIXELS = 128, /* pixels of a tile: neighbours of a read plane */
    UF_FILTER_STATIONARY_GROUPS = 2,   /* consumer warpgroups of a CTA, each with rows of its own */
    UF_FILTER_STATIONARY_ROWS = 128,   /* rows of a CTA: written channels times filter taps */
    UF_FILTER_STATIONARY_CHANNELS = 64, /* read channels of a stage */
    UF_FILTER_STATIONARY_STAGE =
        UF_FILTER_STATIONARY_PIXELS * UF_FILTER_STATIONARY_CHANNELS * 2, /* bytes */
    UF_FILTER_STATIONARY_STAGES = 14,
    UF_FILTER_STATIONARY_CHUNKS = 8, /* stages of a tile, at most: registers hold their weights */
    UF_FILTER_STATIONARY_BARRIERS = 1024, /* bytes after the stages */
    UF_FILTER_STATIONARY_SHARED =
        UF_FILTER_STATIONARY_STAGES * UF_FILTER_STATIONARY_STAGE + UF_FILTER_STATIONARY_BARRIERS,
    UF_FILTER_STATIONARY_MULTIPROCESSORS = 132
};

/* Stages of a tile: the first that hold all read channels; 5 of them are those of Stable
 * Diffusion. */
#define UF_FILTER_STATIONARY_TILES                                                                 \
    UF_FILTER_STATIONARY_TILE(1)                                                                   \
    UF_FILTER_STATIONARY_TILE(2)                                                                   \
    UF_FILTER_STATIONARY_TILE(4)                                                                   \
    UF_FILTER_STATIONARY_TILE(5)                                                                   \
    UF_FILTER_STATIONARY_TILE(8)

/* A CTA group holds all rows of weights in as many CTAs as there are parts; CTA b has part b %
 * parts. Groups walk the tiles side by side, so that their CTAs find pixels in the second-level
 * cache. */
typedef struct uf_filter_stationary_plan {
    uf_direct_conv conv; /* tensors and epilogue */
    int32_t wide, high;  /* filter columns, 1 or 2; filter rows */
    int32_t chunks;      /* stages of a tile; zeros beyond the last channel */
    int32_t rows,
        parts; /* rows of weights; parts of UF_FILTER_STATIONARY_ROWS, zeros beyond the last row */
    int32_t row, plane;         /* pixels of a row and of a plane of the read side */
    int32_t image_tiles, tiles; /* tiles of an image; of all images */
    int32_t cta_group, blocks;  /* CTAs that share a part of the rows; all CTAs */
    uf_direct_divisor by_image, by_row, by_high;
    bool across;   /* read channels are neighbours in w; else rows are */
    bool gathered; /* w comes by ordinary loads: TMA cannot read it */
    bool plain;    /* no scale, shift or activation */
    bool pair;     /* CTAs of neighbouring parts form a cluster and load pixels once */
    bool by_turns; /* rows suffice for one warpgroup only: both take tiles in turn */
    double cost;   /* modelled cycles on an H200 */
} uf_filter_stationary_plan;

/* True for bf16 tensors where each written element is one sum over at most 512 read channels. These
 * are pointwise layers, and in dgrad filters two columns wide with kernel = stride. Read planes are
 * dense and multiples of 16 bytes. So are written planes, if pointwise, or else written rows. */
bool uf_filter_stationary_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                  uf_filter_stationary_plan *plan);

/* True if the tensors begin at multiples of 16 bytes. The plan does not ask: an address must change
 * the variant of that call alone. */
bool uf_filter_stationary_is_aligned(const uf_conv_kernel_args *args);

/* launch.cu; the tensors are aligned. */
uf_status uf_filter_stationary_run(uf_context *context, const uf_conv_problem *problem,
                                   const uf_filter_stationary_plan *plan);

UF_END_DECLS

#endif
