/* phases.h - the taps of a call by phase and class, whatever its tiles. From the arguments
 * alone. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PHASES_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PHASES_H

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/taps.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"
#include "kernels/cuda/arch/split_f16.h"

UF_BEGIN_DECLS

/* The taps of one axis: kinds are phases (dgrad) or classes (fprop). */
typedef struct uf_wgmma_taps {
    uf_conv_taps of;
    int64_t first, last;                /* smallest and largest shift */
    int64_t class_first[UF_CONV_KINDS]; /* smallest shift of a class, from `first` on; dgrad has one
                                           class */
    int64_t span;                       /* largest minus smallest shift of a class, at most */
    int64_t elements;                   /* written elements of the largest phase */
    int64_t read;                       /* read elements of the largest class */
} uf_wgmma_taps;

/* A call, whatever its tiles. */
typedef struct uf_wgmma_job {
    uf_conv_direction direction;
    const uf_conv_kernel_args *args; /* canonical arguments */
    uf_mma_math math;
    int64_t element;       /* bytes of a tensor's element */
    int64_t written, read; /* channels per group */
    uf_wgmma_taps taps[2];
    int32_t most_taps, least_taps; /* taps of a phase and a class that has any */
    int32_t all_taps;              /* taps of all phases and classes */
    bool merged;                   /* taps[1] holds the taps of two phases */
    int32_t merged_back;
    uint8_t odd_tap[UF_CONV_TAPS]; /* filter column of odd columns, by tap of taps[1] */
} uf_wgmma_job;

/* Read channels in 128 bytes. */
static inline int64_t uf_wgmma_depth(uf_mma_math math) {
    return math == UF_MMA_TF32X3 ? 16 : math == UF_MMA_BF16 ? 64 : 32;
}

/* FP32, by TF32 or by f16 parts. */
static inline bool uf_wgmma_is_fp32(uf_mma_math math) {
    return math == UF_MMA_TF32X3 || math == UF_MMA_F16X3;
}

/* False where there are too many taps, phases or classes. */
bool uf_wgmma_job_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_wgmma_job *job);

/* The same call with the two column phases as one, where that leaves fewer rows of MMAs empty. Taps
 * of both that read the same position are one. */
bool uf_wgmma_job_merge(const uf_wgmma_job *job, uf_wgmma_job *made);

/* Fills the lists at the end of uf_wgmma_geometry, for tiles that are laid out. */
void uf_wgmma_list_taps(const uf_wgmma_job *job, uf_wgmma_geometry *made);

UF_END_DECLS

#endif
