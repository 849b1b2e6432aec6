/* plan.h - the host side of conv_stride2_k4*.cu: what the kernels are told, from the
 * arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_STRIDE2_K4_STRIDE = 2,  /* on both axes */
    UF_STRIDE2_K4_FILTER = 4,  /* rows and columns of the filter: 3 or 4, and zeros */
    UF_STRIDE2_K4_SMALL = 64,  /* channels of y, at most */
    UF_STRIDE2_K4_LARGE = 4,   /* and of x */
    UF_STRIDE2_K4_PIXELS = 32, /* of a row of y that a warp takes at a time */
    /* Warps of a block, and blocks that share a multiprocessor: in fprop and dgrad, of f32 tensors
     * and of bf16 ones, and in wgrad. */
    UF_STRIDE2_K4_F32_WARPS = 4,
    UF_STRIDE2_K4_BF16_WARPS = 6,
    UF_STRIDE2_K4_RESIDENT = 2,
    UF_STRIDE2_K4_WGRAD_WARPS = 8,
    /* Warps that share a row of y in wgrad in FP32, half the channels each: a row takes them half
     * the time, the last one too. In TF32 and BF16 what they would read twice takes longer. */
    UF_STRIDE2_K4_WGRAD_SHARE = 2,
    UF_STRIDE2_K4_WGRAD_RESIDENT = 1,
    UF_STRIDE2_K4_STAGES = 8, /* of a ring, at most */
    /* Runs of channels in which a row of y comes in dgrad in FP32: MMAs of the first run while
     * the last one is on its way. In bf16 a second copy for each row took longer. */
    UF_STRIDE2_K4_PIECES = 2,
    UF_STRIDE2_K4_MULTIPROCESSORS = 132,
    UF_STRIDE2_K4_SHARED = 113 * 1024,       /* bytes of a block, at most, */
    UF_STRIDE2_K4_WGRAD_SHARED = 227 * 1024, /* and in wgrad */
    UF_STRIDE2_K4_HEAD = 2048,  /* bytes of barriers, scales and shifts before the rest */
    UF_STRIDE2_K4_ALIGN = 1024, /* bytes: what boxes of y begin at a multiple of */
    /* Elements of a row of a window on x. 66 are read, behind up to 7 that are not; as words of 4
     * bytes 80 are half the banks away from a whole round of them, and as words of two elements a
     * quarter. */
    UF_STRIDE2_K4_WINDOW = 80
};

/* Bytes that weights pass through, of so many channels of x and so many bytes of an element: rows
 * of channels of y, 16 bytes apart. */
#define UF_STRIDE2_K4_SCRATCH(channels, element)                                                   \
    (UF_STRIDE2_K4_SMALL * (16 * (channels) * (element) + 16))

/* A warp, or a pair of them in wgrad in FP32, takes a row of PIXELS of y at a time, all channels;
 * blocks take runs of such rows, of all images one after another, and a block's warps or pairs take
 * its rows in turn, each from a ring of its own.
 *
 * The MMAs of a pixel with all taps of all channels of x are columns of a matrix: n = (c * 4 +
 * r) * 4 + s. dgrad makes them and adds those that meet (col2im), fprop and wgrad read them from a
 * window on x (im2col). In dgrad row j of y and the row before it make rows 2j and 2j + 1 of x,
 * counted from the padding's first: so there is a row more than y has. */
typedef struct uf_stride2_k4_plan {
    uf_direct_conv conv;             /* tensors, epilogue, geometry */
    int32_t channels;                /* of x */
    int32_t rows, strips, units;     /* of an image; parts of a row; rows of strips of all images */
    int32_t stages;                  /* of a ring: rows of y, windows on x, or both */
    int32_t tile_bytes, stage_bytes; /* of a row of y, with the window behind it */
    int32_t window_bytes;            /* that a window brings */
    int32_t window_shift; /* elements that it begins before the first tap: TMA loads begin at
                             multiples of 16 bytes */
    /* Of a warp: what a row leaves for the next one, or one row on its epilogue, or two by turns.
     */
    int32_t kept_bytes, kept_tiles;
    int32_t kept_at, weight_at; /* bytes from the begin of shared memory: first SCRATCH for weights,
                                   then what is kept; FP32: weights in halves */
    int32_t warps, rings;       /* of a block */
    int32_t resident;           /* blocks of a multiprocessor */
    int32_t weight_vectors;     /* of 16 bytes: those of w, if it is dense, begins at a multiple of
                                   16 bytes and ends at one; else 0 */
    uf_direct_divisor by_taps, by_filter_row; /* elements of a filter, of a row of it */
    bool scaled;
    uf_direct_divisor by_rows, by_strips;
    int32_t blocks;
    size_t shared;
    double cost; /* an estimate for an H200 */
} uf_stride2_k4_plan;

/* False: other strides, filters, dilation or groups; too many channels; nothing to do; in dgrad
 * rows of more than PIXELS of y, no padding across, or x beyond what they make; tensors whose
 * strides TMA loads cannot follow, in fprop rows of y that end within 16 bytes; sums to what is
 * there, but for w; f32 tensors in BF16; no room, as in dgrad for halves of four channels. */
bool uf_stride2_k4_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                           uf_stride2_k4_plan *plan);

/* Do the tensors that are copied begin at multiples of 16 bytes? The plan does not ask: where a
 * tensor begins must not change what a layer is made by but for that call. */
bool uf_stride2_k4_is_aligned(uf_conv_direction direction, const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
