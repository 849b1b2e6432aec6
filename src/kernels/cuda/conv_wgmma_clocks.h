/* conv_wgmma_clocks.h - what tiles of conv_wgmma.cu cost, from the arguments alone: for
 * conv_wgmma_geometry.c, which chooses among them. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_CLOCKS_H
#define UF_KERNELS_CUDA_CONV_WGMMA_CLOCKS_H

#include "kernels/cuda/conv_taps.h"
#include "kernels/cuda/conv_wgmma_geometry.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_MULTIPROCESSORS = 132 /* of the GPUs that have wgmma: the largest. A shape's tiles are
                                      the same on all of them. */
};

/* The taps of one axis: kinds are phases (dgrad) or classes (fprop). */
typedef struct uf_wgmma_taps {
    uf_conv_taps of;
    int64_t first, last;                /* shift, of all */
    int64_t class_first[UF_CONV_KINDS]; /* from it on, of a class; dgrad has one */
    int64_t span;                       /* of the shifts of a class, at most */
    int64_t elements;                   /* written, of the largest phase */
    int64_t read;                       /* elements of a class, of the largest */
} uf_wgmma_taps;

/* What a call computes, apart from its tiles. */
typedef struct uf_wgmma_job {
    uf_conv_direction direction;
    const uf_conv_kernel_args *args; /* canonical */
    uf_math math;
    int64_t element;       /* bytes of a tensor's */
    int64_t written, read; /* channels of a group */
    uf_wgmma_taps taps[2];
    int32_t most_taps; /* of a phase and a class */
    int32_t all_taps;  /* of all of them */
    bool merged;       /* taps[1] are those of two phases */
    int32_t merged_back;
    uint8_t odd_tap[UF_CONV_TAPS]; /* by tap of taps[1] */
} uf_wgmma_job;

/* Read channels in 128 bytes. */
static inline int64_t uf_wgmma_depth(uf_math math) {
    return math == UF_MATH_FP32 ? 16 : math == UF_MATH_TF32 ? 32 : 64;
}

/* Clocks of the product, from what was measured on an H200 over layers of 32 to 1024 channels
 * (docs/kernels-gpu.md): good to about 20 %, which is enough to choose. */
double uf_wgmma_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of making the blocks, -1 where that kernel cannot: it counts positions and blocks in 32 bits. */
double uf_wgmma_packing_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of the product where pixels are the rows (conv_wgmma_narrow.cu), of `taps` taps. */
double uf_wgmma_narrow_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made, double taps);

UF_END_DECLS

#endif
