/* plan.h - the plan of stride2_k4's kernels, from the arguments alone. Needs no GPU and no
 * toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_STRIDE2_K4_STRIDE = 2,  /* stride of both axes */
    UF_STRIDE2_K4_FILTER = 4,  /* rows and columns of the filter: 3, padded by zeros, or 4 */
    UF_STRIDE2_K4_SMALL = 64,  /* channels of y, at most */
    UF_STRIDE2_K4_LARGE = 4,   /* channels of x, at most */
    UF_STRIDE2_K4_PIXELS = 32, /* pixels of a row of y that a warp takes at a time */
    /* Warps of a block, and resident blocks: in fprop and dgrad, of f32 tensors and of bf16 ones;
     * in wgrad. */
    UF_STRIDE2_K4_F32_WARPS = 4,
    UF_STRIDE2_K4_BF16_WARPS = 6,
    UF_STRIDE2_K4_RESIDENT = 2,
    UF_STRIDE2_K4_WGRAD_WARPS = 8,
    /* Warps that share a row of y in wgrad in FP32, with half of the channels each: a row takes
     * half as long. In TF32 and BF16 the window, which both would read, costs more than that
     * saves. */
    UF_STRIDE2_K4_WGRAD_SHARE = 2,
    UF_STRIDE2_K4_WGRAD_RESIDENT = 1,
    UF_STRIDE2_K4_STAGES = 8, /* stages of a ring, at most */
    /* Boxes in which a row of y is loaded in dgrad in FP32: the MMAs of the first overlap the load
     * of the last. In bf16 a second box took longer. */
    UF_STRIDE2_K4_PIECES = 2,
    /* Blocks of wgrad, at most: they are its splits. No GPU's own number, so that sums do not
     * depend on it. */
    UF_STRIDE2_K4_WGRAD_BLOCKS = 132,
    UF_STRIDE2_K4_SHARED = 113 * 1024,       /* bytes of a block in fprop and dgrad, at most */
    UF_STRIDE2_K4_WGRAD_SHARED = 227 * 1024, /* bytes of a block in wgrad, at most */
    UF_STRIDE2_K4_HEAD = 2048,  /* bytes of barriers, scales and shifts before the rings */
    UF_STRIDE2_K4_ALIGN = 1024, /* bytes that boxes of y are aligned to */
    /* Elements of a row of a window on x. 66 are read, after up to 7 others. 80 words of 4 bytes
     * are half the banks off a multiple of 32, and 80 elements of 2 bytes a quarter, against bank
     * conflicts. */
    UF_STRIDE2_K4_WINDOW = 80
};

/* Bytes of the scratch for weights: rows of channels of y, 16 bytes between them. `channels` of x,
 * bytes of an `element`. */
#define UF_STRIDE2_K4_SCRATCH(channels, element)                                                   \
    (UF_STRIDE2_K4_SMALL * (16 * (channels) * (element) + 16))

/* A warp takes a row of PIXELS of y at a time, with all channels; in wgrad in FP32 a pair of warps
 * does. A block has a run of such rows, of all images in order. Its warps or pairs take them in
 * turn, each from a ring of its own.
 *
 * The GEMM's columns (K in fprop) are all taps of all channels of x: n = (c * 4 + r) * 4 + s. dgrad
 * adds the columns that meet (col2im). fprop and wgrad read them from a window on x (im2col). In
 * dgrad row j of y and the row before it make rows 2j and 2j + 1 of x, counted from the first row
 * of the padding. So the kernel walks one row more than y has. */
typedef struct uf_stride2_k4_plan {
    uf_direct_conv conv; /* tensors, epilogue, geometry */
    int32_t channels;    /* channels of x */
    int32_t rows, strips,
        units;      /* rows of an image; strips of a row; units: rows of strips of all images */
    int32_t stages; /* stages of a ring: rows of y, windows on x, or both */
    int32_t tile_bytes,
        stage_bytes;      /* bytes of a row of y; of a stage, with the window after the row */
    int32_t window_bytes; /* bytes of a window */
    int32_t window_shift; /* elements from a window's begin to the first tap, because TMA boxes
                             begin at multiples of 16 bytes */
    /* bytes of a warp's kept sums (dgrad) or of its staged rows (fprop); staged rows, 1 or 2 */
    int32_t kept_bytes, kept_tiles;
    int32_t kept_at, weight_at; /* byte offsets in shared memory: first scratch for weights, then
                                   kept rows; FP32: split weights */
    int32_t warps, rings;       /* warps of a block; its rings */
    int32_t resident;           /* resident blocks of a multiprocessor */
    int32_t weight_vectors; /* 16-byte vectors of w, if it is dense, aligned and a multiple of 16
                               bytes long; else 0 */
    uf_direct_divisor by_taps, by_filter_row; /* elements of a filter, of a row of it */
    bool scaled;
    uf_direct_divisor by_rows, by_strips;
    int32_t blocks;
    size_t shared;
    double cost; /* cycles, modelled */
} uf_stride2_k4_plan;

/* False: other strides, filters, dilations or groups; too many channels; nothing to do; strides of
 * tensors that TMA cannot follow; accumulation, but for w; f32 tensors in BF16; no room, as in
 * dgrad in FP32 with four channels.
 *
 * In dgrad also: rows of y of more than PIXELS, no padding across, or x wider than they make. In
 * fprop also: rows of y that do not end at a multiple of 16 bytes. */
bool uf_stride2_k4_plan_of(const uf_conv_problem *problem, uf_stride2_k4_plan *plan);

/* True: the tensors that TMA loads are aligned to 16 bytes. uf_stride2_k4_plan_of does not ask:
 * where a tensor begins changes the main loop of its own call only (fallback.c). */
bool uf_stride2_k4_is_aligned(const uf_conv_problem *problem);

/* Elements of a block's sums in wgrad, in the order of fragments. */
static inline int32_t uf_stride2_k4_wgrad_size(const uf_stride2_k4_plan *plan) {
    return UF_STRIDE2_K4_SMALL * plan->channels * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_FILTER;
}

/* Bytes of the partial sums of wgrad's blocks. */
size_t uf_stride2_k4_wgrad_bytes(const uf_stride2_k4_plan *plan);

/* The launches of aligned tensors, for fallback.c. */
uf_status uf_stride2_k4_launch(uf_context *context, const uf_conv_problem *problem,
                               const uf_stride2_k4_plan *plan);
uf_status uf_stride2_k4_launch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                     const uf_stride2_k4_plan *plan);

UF_END_DECLS

#endif
