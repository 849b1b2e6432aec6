/* plan.h - the plan of im2col/launch.cu, from the arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_IM2COL_TAPS = 16,          /* live phases and different offsets of one axis, at most */
    UF_IM2COL_WARPS = 8,          /* warps of a block, at most */
    UF_IM2COL_SHARED = 99 * 1024, /* bytes of a block, at most: what compute capability 8.6 has */
    UF_IM2COL_NONE = 255          /* no tap: a phase does not read at an offset */
};

/* The kernel's templates need these functions at compile time. */
#ifdef __cplusplus
#define UF_IM2COL_CONSTANT static constexpr
#else
#define UF_IM2COL_CONSTANT static inline
#endif

/* 16-cell blocks of a warp with n 8-column blocks: the most that 128 registers hold. */
UF_IM2COL_CONSTANT int32_t uf_im2col_rows(int32_t n, int32_t split_parts) {
    return n == 8 && split_parts == 2 ? 1 : n > 2 ? 2 : 4;
}

/* Half as many 16-cell blocks, where registers then hold more warps. */
UF_IM2COL_CONSTANT int32_t uf_im2col_fewer_rows(int32_t n, int32_t split_parts) {
    return (split_parts == 2 ? n < 8 : n > 4) ? uf_im2col_rows(n, split_parts) / 2
                                              : uf_im2col_rows(n, split_parts);
}

/* Warps that the registers of a multiprocessor hold. */
UF_IM2COL_CONSTANT int32_t uf_im2col_resident(int32_t n, int32_t m, int32_t split_parts) {
    return m == uf_im2col_fewer_rows(n, split_parts) ? (n == 2 && split_parts == 1 ? 20 : 24) : 16;
}

/* Rows of the GEMM are cells (simt_direct/plan.h), in the order of the tile. Columns are pairs
 * (live row phase, written channel) times live column phases. K is read channels times offsets.
 *
 * K is stored in units of 16 bytes: 4 elements, or 8 of bf16. A record is some units side by side.
 * It holds the channels of one position of the window, which all taps share. A gathered record
 * holds channels times column offsets: all that a cell reads of one row. */
typedef struct uf_im2col_conv {
    uf_direct_conv conv; /* tensors, axes, window */
    int32_t warps,
        cells; /* warps of a block, and cells of a tile; warps without cells only move data */
    int32_t pairs, slice_pairs, slices, parts,
        part_slices;    /* columns: pairs of all, of a slice; slices of 8*n columns; parts of the
                           slices, one a block */
    int32_t offsets[2]; /* different offsets by axis */
    uint8_t row_tap[UF_IM2COL_TAPS][UF_IM2COL_TAPS],
        column_tap[UF_IM2COL_TAPS]
                  [UF_IM2COL_TAPS];      /* filter tap, [phase][offset], or UF_IM2COL_NONE */
    int32_t column_from[UF_IM2COL_TAPS]; /* column of each offset, in elements of a line */
    bool gathered;
    int32_t unit; /* elements of 16 bytes */
    /* Units of a record; records of a window; distance of a record's units in records. */
    int32_t record, records, unit_plane;
    int32_t cell_row,
        cell_column; /* bytes from a cell's first record to that of the next cell below, beside */
    int32_t row_offset[UF_IM2COL_TAPS],
        column_offset[UF_IM2COL_TAPS]; /* bytes from a cell's first record, by offset */
    int32_t units, steps;              /* units of a chunk of channels; MMA steps, two units each */
    int32_t width;                     /* elements of an aligned copy: 4, 2 or 1 */
    int32_t lines_in, vectors;         /* lines of one channel of a window; copies of a line */
    int32_t share_bits; /* log2 of the threads that copy one position for different channels */
    /* Windows loaded by `cp.async.bulk`: lines keep their address modulo 16 bytes. bulk_turns:
     * copies of each lane. */
    bool bulk;
    int32_t bulk_turns;
    bool paired; /* two neighbouring records are made at a time */
    int32_t window_words, record_words, weight_words, table_words, source_words, stage_words;
    int32_t rounds, stage_pitch; /* rounds of staging, 1 or 2; floats of a staged pair */
    bool own_stage;              /* false: the stage overlays the records */
    bool flat;                   /* rows of the tile are contiguous in the written tensor */
    /* Results staged as elements at their address modulo 16 bytes and stored by `cp.async.bulk`.
     * stage_pitch is then in bytes, line_pitch the elements from a row of the tile to the next.
     * Rows without taps are copied from a line of zeros of zero_words. */
    bool lines;
    int32_t line_pitch, align_words, zero_words;
    bool exact;                           /* no warp has cells or columns beyond the tile's */
    int32_t dead_turns;                   /* dead columns that one live column writes, at most */
    uint8_t dead_phase[UF_DIRECT_PHASES]; /* phases without taps, in order */
    int32_t tiles;                        /* tiles of a group */
    /* Cells from a tile to the next across; elements of a tile's line that the tile before writes,
     * and that this one writes. */
    int32_t across, skip, take;
    int32_t each;        /* blocks that share the tiles of a group's part */
    int32_t split_parts; /* operand words of an element: 2 in FP32 (3xTF32), else 1 */
    uf_direct_divisor by_tiles_w, by_tiles_h, by_written, by_tile_w, by_tile_h, by_lines,
        by_vectors, by_steps, by_sharing, by_parts, by_families, by_live, by_record, by_offsets,
        by_skew; /* records between two empty ones; divisor 0: none is empty */
} uf_im2col_conv;

typedef struct uf_im2col_plan {
    uf_im2col_conv im2col;
    int32_t n, m; /* of a warp: 8-column blocks, 16-cell blocks */
    int64_t blocks;
    int32_t threads;
    size_t shared;
    double cost; /* cycles, modelled */
} uf_im2col_plan;

enum { UF_IM2COL_TILE_NUMBERS = 4 };

/* The number of a plan's tile (conv/plan.h): the columns of a warp are as many as leave the fewest
 * slices, or 2 fewer; its rows are all that registers hold, or 1 half of them. */
int uf_im2col_tile_of(const uf_im2col_plan *plan);

/* False: too many taps or phases, a window or weights beyond shared memory, or no such tile. */
bool uf_im2col_plan_of(const uf_conv_problem *problem, uf_im2col_plan *plan);

UF_END_DECLS

#endif
