/* phases.h - what a call of wgmma_implicit_gemm/launch.cu computes, apart from its tiles: its taps
 * by phase and class. From the arguments alone; for wgmma_implicit_gemm/tile.c,
 * wgmma_implicit_gemm/plan.c and wgmma_implicit_gemm/cost.c. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PHASES_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PHASES_H

#include "kernels/cuda/conv/taps.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"
#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/arch/split_f16.h"

UF_BEGIN_DECLS

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
    uf_mma_math math;
    int64_t element;       /* bytes of a tensor's */
    int64_t written, read; /* channels of a group */
    uf_wgmma_taps taps[2];
    int32_t most_taps, least_taps; /* of a phase and a class that has any */
    int32_t all_taps;              /* of all of them */
    bool merged;                   /* taps[1] are those of two phases */
    int32_t merged_back;
    uint8_t odd_tap[UF_CONV_TAPS]; /* by tap of taps[1] */
} uf_wgmma_job;

/* Read channels in 128 bytes. */
static inline int64_t uf_wgmma_depth(uf_mma_math math) {
    return math == UF_MMA_TF32X3 ? 16 : math == UF_MMA_BF16 ? 64 : 32;
}

/* FP32, by either kind of halves. */
static inline bool uf_wgmma_is_fp32(uf_mma_math math) {
    return math == UF_MMA_TF32X3 || math == UF_MMA_F16X3;
}

/* False where there are too many taps, phases or classes. */
bool uf_wgmma_job_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_wgmma_job *job);

/* The same call with the two phases of a row as one, where that leaves fewer rows of MMAs
 * empty: taps that both read at the same place are one. */
bool uf_wgmma_job_merge(const uf_wgmma_job *job, uf_wgmma_job *made);

/* What MMAs of tiles that are laid out read: the lists at the end of uf_wgmma_geometry. */
void uf_wgmma_list_taps(const uf_wgmma_job *job, uf_wgmma_geometry *made);

UF_END_DECLS

#endif
