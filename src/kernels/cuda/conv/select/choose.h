/* choose.h - which kernel computes a convolution on a GPU: one pure function of the arguments.
 * Needs no GPU. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H
#define UF_KERNELS_CUDA_CONV_SELECT_CHOOSE_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

typedef enum uf_cuda_conv_variant {
    /* One thread per written element (wgrad: one block per 4 x 4 channels and tap): any geometry,
     * strides and size, every type. */
    UF_CUDA_CONV_NAIVE = 0,
    /* Tensor cores (mma.sync): fprop and dgrad in one kernel, wgrad in another; f32, bf16 made f32
     * first; positions and pixel counts of 32 bits. */
    UF_CUDA_CONV_MMA_IMPLICIT_GEMM,
    /* Hopper's `wgmma`: fprop and dgrad, f32 and bf16, windows that fit shared memory;
     * wgrad, x through registers, f32, filters of which 32 pixels read at most 1024 elements of a
     * channel, or as large as their steps. */
    UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM,
    /* Ordinary multiply-adds for few channels and groups. */
    UF_CUDA_CONV_SIMT_DIRECT,
    /* The same layers on tensor cores (mma.sync): fprop and dgrad, all phases in one MMA;
     * wgrad, eight channels of y at a time. */
    UF_CUDA_CONV_MMA_IM2COL,
    /* Multiply-adds where the small side is one pixel and each tap has one of its own: MMAs of
     * matrices. */
    UF_CUDA_CONV_SIMT_GEMM,
    /* wgrad in BF16 on Hopper's `wgmma`, pixels major; windows that fit shared memory.
     */
    UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED,
    /* Tensor cores (mma.sync) without packing: few pixels or few channels; fprop and dgrad of up to
     * 16 phases, wgrad. */
    UF_CUDA_CONV_MMA_SMALL,
    /* FP32 by split f16 on Hopper's `wgmma`, and by wgmma's where f16 is too narrow:
     * fprop and dgrad, f32, sums of 128 MMAs and more; wgrad, what `wgmma_channel_blocked` is in
     * FP32. */
    UF_CUDA_CONV_WGMMA_SPLIT_F16,
    /* Tensor cores (mma.sync) for few channels and long rows, which blocks walk down: what is read
     * comes once and is not rearranged, what is written leaves in whole sectors. fprop and dgrad
     * have no activation and add to nothing. */
    UF_CUDA_CONV_MMA_ROW_STREAM,
    /* Tensor cores (mma.sync) for filters of 4 x 4 or 3 x 3 in steps of 2 between few channels of x
     * and up to 64 of y: each pixel of y with all taps at once. fprop and dgrad add to nothing. */
    UF_CUDA_CONV_MMA_STRIDE2_K4,
    /* Hopper's `wgmma` of bf16 tensors with weights that stay in registers and planes
     * as they lie: fprop and dgrad of pointwise layers, dgrad of filters two columns wide and as
     * high as their steps; up to 512 read channels; they add to nothing. */
    UF_CUDA_CONV_WGMMA_FILTER_STATIONARY,
    /* What another variant makes of the same convolution without steps, phases as channels: x and
     * w are moved. Steps of up to 64, no dilation where there are some; adds to f32 in dgrad and
     * wgrad alone. */
    UF_CUDA_CONV_SPACE_TO_DEPTH,
    UF_CUDA_CONV_VARIANTS
} uf_cuda_conv_variant;

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant);

/* What UF_CUDA_CONV_SPACE_TO_DEPTH runs on, and what is under it is chosen for. */
enum { UF_CUDA_CONV_SPACE_TO_DEPTH_CAPABILITY = 90 };

/* Does the variant compute this? Everything that is not said here it must get right. */
bool uf_cuda_conv_suits(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant variant);

/* The variant for these arguments on a GPU of this compute capability (90 is 9.0); args->variant, a
 * name, forces one. UNSUPPORTED, with the names that there are, when that does not exist, does not
 * take the arguments or does not run on such a GPU. */
uf_status uf_cuda_conv_choose(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              int capability, uf_cuda_conv_variant *variant);

UF_END_DECLS

#endif
