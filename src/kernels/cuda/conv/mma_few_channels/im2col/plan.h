/* plan.h - the host side of im2col/launch.cu: what the kernel is told, from the arguments
 * alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_IM2COL_TAPS = 16,          /* live phases and different offsets of one axis, at most */
    UF_IM2COL_WARPS = 8,          /* of a block, at most */
    UF_IM2COL_SHARED = 99 * 1024, /* bytes of a block, at most: what compute capability 8.6 has */
    UF_IM2COL_NONE = 255          /* no tap: a phase does not read at an offset */
};

/* The kernel's templates ask too. */
#ifdef __cplusplus
#define UF_IM2COL_CONSTANT static constexpr
#else
#define UF_IM2COL_CONSTANT static inline
#endif

/* Sixteens of cells of a warp that has n eights of columns: the most that 128 registers hold. */
UF_IM2COL_CONSTANT int32_t uf_im2col_rows(int32_t n, int32_t half_tiles) {
    return n == 8 && half_tiles == 2 ? 1 : n > 2 ? 2 : 4;
}

/* Or half as many, where more warps then fit. */
UF_IM2COL_CONSTANT int32_t uf_im2col_fewer_rows(int32_t n, int32_t half_tiles) {
    return (half_tiles == 2 ? n < 8 : n > 4) ? uf_im2col_rows(n, half_tiles) / 2
                                             : uf_im2col_rows(n, half_tiles);
}

/* Warps that a multiprocessor's registers hold. */
UF_IM2COL_CONSTANT int32_t uf_im2col_resident(int32_t n, int32_t m, int32_t half_tiles) {
    return m == uf_im2col_fewer_rows(n, half_tiles) ? (n == 2 && half_tiles == 1 ? 20 : 24) : 16;
}

/* Rows are cells (simt_direct/plan.h), those of a tile one after another, columns are pairs (live
 * row phase, written channel) times live column phases, the depth is read channels times offsets:
 * what a cell with all its phases reads.
 *
 * The depth comes in units of 16 bytes, as the MMAs take them: 4 elements, 8 of bf16. A record
 * is some units side by side: the channels of one place of the window, which all taps share; or,
 * gathered, what a cell reads of one row, channels times different column offsets. */
typedef struct uf_im2col_conv {
    uf_direct_conv conv;  /* tensors, axes, window */
    int32_t warps, cells; /* cells: of a tile; warps that have none only move data */
    int32_t pairs, slice_pairs, slices, parts,
        part_slices;    /* a block has a part of the slices of 8*n columns */
    int32_t offsets[2]; /* different ones */
    uint8_t row_tap[UF_IM2COL_TAPS][UF_IM2COL_TAPS],
        column_tap[UF_IM2COL_TAPS][UF_IM2COL_TAPS]; /* [phase][offset] */
    int32_t column_from[UF_IM2COL_TAPS];            /* of each offset, in elements of a line */
    bool gathered;
    int32_t unit; /* elements */
    /* Units of a record; records; units from one unit of all records to the next. */
    int32_t record, records, unit_plane;
    int32_t cell_row, cell_column; /* bytes from a cell's first record to the next's */
    int32_t row_coord[UF_IM2COL_TAPS], column_coord[UF_IM2COL_TAPS]; /* bytes of each offset */
    int32_t units, steps;      /* of a chunk of channels, and MMAs of two */
    int32_t width;             /* elements of an aligned copy: 4, 2 or 1 */
    int32_t lines_in, vectors; /* lines of a window's channel, copies of one */
    int32_t share_bits;        /* 2^this threads have different channels of a place */
    /* Lines lie in the window as in memory, modulo 16 bytes, and come by `cp.async.bulk` copies; a
     * warp's lanes have one each, in so many turns. */
    bool bulk;
    int32_t bulk_turns;
    bool paired; /* records are made of two neighbours at a time */
    int32_t window_words, record_words, weight_words, table_words, source_words, stage_words;
    int32_t rounds, stage_pitch; /* pairs are staged in 1 or 2 rounds; floats of one */
    bool stage_spacing;          /* or where the records are */
    bool flat;                   /* rows of the tile are neighbours in memory */
    /* Lines: a pair is staged as it lies in memory, elements, not floats, at the same place modulo
     * 16 bytes, and leaves by `cp.async.bulk` copies. stage_pitch is then its bytes, line_pitch the
     * elements from a row of the tile to the next. Rows without taps are copied from a line of
     * zeros, where there is one. */
    bool lines;
    int32_t line_pitch, align_words, zero_words;
    bool exact;                           /* warps' cells and columns are all of the tile's */
    int32_t dead_turns;                   /* columns without taps that a live one writes, at most */
    uint8_t dead_phase[UF_DIRECT_PHASES]; /* columns without taps */
    int32_t tiles;                        /* of a group */
    /* Cells from a tile to its neighbour across; of a line of a tile, elements that are left to the
     * neighbour before and those that are written. */
    int32_t across, skip, take;
    int32_t each;       /* blocks of a group's part, which share its tiles */
    int32_t half_tiles; /* of weights: 2 in FP32 */
    uf_direct_divisor by_tiles_w, by_tiles_h, by_written, by_tile_w, by_tile_h, by_lines,
        by_vectors, by_steps, by_stream_k, by_parts, by_families, by_live, by_record, by_offsets,
        by_skew; /* after every so many records one is left out; 0: none is */
} uf_im2col_conv;

typedef struct uf_im2col_plan {
    uf_im2col_conv im2col;
    int32_t n, m; /* columns of a warp in eights, cells in sixteens */
    int64_t blocks;
    int32_t threads;
    size_t shared;
    double cost; /* an estimate for an H200 */
} uf_im2col_plan;

/* False: too many taps or phases, windows or weights beyond shared memory. */
bool uf_im2col_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                       uf_im2col_plan *plan);

UF_END_DECLS

#endif
