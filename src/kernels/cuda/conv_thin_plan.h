/* conv_thin_plan.h - the host side of conv_thin.cu: what the kernel is told, from the arguments
 * alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_PLAN_H
#define UF_KERNELS_CUDA_CONV_THIN_PLAN_H

#include "kernels/cuda/conv_direct_plan.h"

UF_BEGIN_DECLS

enum {
    UF_THIN_TAPS = 16,          /* live phases and different offsets of one axis, at most */
    UF_THIN_WARPS = 8,          /* of a block, at most */
    UF_THIN_SHARED = 99 * 1024, /* bytes of a block, at most: what compute capability 8.6 has */
    UF_THIN_NONE = 255          /* no tap: a phase does not read at an offset */
};

/* Sixteens of cells of a warp that has n eights of columns: what 128 registers hold. */
static inline int32_t uf_thin_rows(int32_t n, int32_t halves) {
    return n == 8 && halves == 2 ? 1 : n > 2 ? 2 : 4;
}

/* Rows are cells (conv_direct_plan.h), columns are pairs (live row phase, written channel) times
 * live column phases, the depth is read channels times offsets: what a cell with all its phases
 * reads. */
typedef struct uf_thin_conv {
    uf_direct_conv conv;       /* tensors, axes, window */
    int32_t warps, runs;       /* runs of 8 cells to a row of the tile */
    int32_t together, segment; /* on the way out: sixteens of cells staged together, neighbours in a
                                  row: 32, 16 or 8 */
    int32_t pairs, slice_pairs, slices, parts,
        part_slices;    /* a block has a part of the slices of 8*n columns */
    int32_t offsets[2]; /* different ones */
    int32_t row_place[UF_THIN_TAPS], column_place[UF_THIN_TAPS]; /* of each in the window */
    uint8_t row_tap[UF_THIN_TAPS][UF_THIN_TAPS],
        column_tap[UF_THIN_TAPS][UF_THIN_TAPS]; /* [phase][offset] */
    bool channels_first;  /* along the depth: channels, else columns of the filter */
    int32_t depth, steps; /* of a chunk of channels, and products of 8 */
    int32_t width;        /* elements of an aligned copy: 4, 2 or 1 */
    int32_t lines;        /* of a window: channels of a chunk times rows */
    int32_t window_elements;
    int32_t weight_words, window_words, stage_words, table_words;
    int32_t tiles;  /* of a group */
    int32_t halves; /* of weights: 2 in FP32 */
    bool plain;     /* columns leave from registers */
    uf_direct_divisor by_tiles_w, by_tiles_h, by_written, by_runs;
} uf_thin_conv;

typedef struct uf_thin_plan {
    uf_thin_conv thin;
    int32_t n, m; /* columns of a warp in eights, cells in sixteens */
    int64_t blocks;
    int32_t threads;
    size_t shared;
    double efficiency; /* products that are asked for, of those that are made */
    double clocks;     /* an estimate for an H200 */
} uf_thin_plan;

/* False: too many taps or phases, windows or weights beyond shared memory. */
bool uf_thin_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_plan *plan);

UF_END_DECLS

#endif
