/* dgrad_plan.h - the host side of row_stream/dgrad_launch.cu: what the kernel is told, from
 * the arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/geometry.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_DGRAD_PHASES = 4,    /* live ones across, at most */
    UF_ROW_STREAM_DGRAD_OFFSETS = 8,   /* different ones across, at most */
    UF_ROW_STREAM_DGRAD_STEPS = 64,    /* MMAs' steps of all row phases, at most */
    UF_ROW_STREAM_DGRAD_CHANNELS = 16, /* written ones of a block: the rows of a MMA */
    UF_ROW_STREAM_DGRAD_MMAS = 10,     /* warps of a block that multiply, */
    UF_ROW_STREAM_DGRAD_PRODUCERS = 4, /* bring lines, */
    UF_ROW_STREAM_DGRAD_WRITERS = 2,   /* and send rows */
    UF_ROW_STREAM_DGRAD_WARPS =
        UF_ROW_STREAM_DGRAD_MMAS + UF_ROW_STREAM_DGRAD_PRODUCERS + UF_ROW_STREAM_DGRAD_WRITERS,
    UF_ROW_STREAM_DGRAD_BLOCKS = 132,         /* one on each multiprocessor */
    UF_ROW_STREAM_DGRAD_SHARED = 227 * 1024,  /* bytes of a block, at most */
    UF_ROW_STREAM_DGRAD_RING = 24,            /* lines of the ring and stages, at most */
    UF_ROW_STREAM_DGRAD_STAGES = 6,           /* at most */
    UF_ROW_STREAM_DGRAD_NONE = 255,           /* no tap */
    UF_ROW_STREAM_DGRAD_SECTOR = 32,          /* bytes that memory writes together */
    UF_ROW_STREAM_DGRAD_BARRIER_BYTES = 512,  /* full and empty of both rings */
    UF_ROW_STREAM_DGRAD_EPILOGUE_BYTES = 128, /* scale and shift of each channel */
    UF_ROW_STREAM_DGRAD_CARRY_BYTES = 1024, /* two rows' first parts of a sector, of each channel */
    UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES = 512, /* step and phase of each fragment */
    UF_ROW_STREAM_DGRAD_FIXED = UF_ROW_STREAM_DGRAD_BARRIER_BYTES +
                                UF_ROW_STREAM_DGRAD_EPILOGUE_BYTES +
                                UF_ROW_STREAM_DGRAD_CARRY_BYTES + UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES
};

/* Two units of the depth: 16 bytes each of the channels of a place, which all phases of a row share
 * that have a tap at either. The second may be absent. */
typedef struct uf_row_stream_dgrad_step {
    int32_t coord[2];           /* bytes from a cell's record in a line of the ring */
    uint8_t row, row_tap, mask; /* the line, from the cell's first; phases across, a bit each */
    uint8_t column[2], unit[2]; /* offset across, NONE: no unit */
} uf_row_stream_dgrad_step;

/* Rows of a MMA are 16 written channels of one phase, its columns 8 neighbouring cells, so that
 * a lane has two cells beside each other with all their phases: what is written side by side.
 *
 * A block walks down a run of rows of cells of an image's group: lines that are read come once, to
 * a ring in shared memory, as records of 16 bytes of the depth; rows that are written are staged as
 * they lie in memory modulo 32 bytes, and leave in whole sectors. */
typedef struct uf_row_stream_dgrad_conv {
    uf_direct_conv conv;
    uf_row_stream_dgrad_step step[UF_ROW_STREAM_DGRAD_STEPS];
    int32_t step_begin[UF_DIRECT_TAPS + 1], fragment_begin[UF_DIRECT_TAPS + 1]; /* by row phase */
    uint8_t column_tap[UF_ROW_STREAM_DGRAD_PHASES][UF_ROW_STREAM_DGRAD_OFFSETS];
    int32_t units, records, plane; /* of a line: units, cells of each, bytes from unit to unit */
    int32_t small;                 /* bytes from big halves to small ones */
    int32_t line_bytes, ring;      /* of a line; lines */
    int32_t lines;                 /* that a cell reads, from the first to the last */
    int32_t tiles;                 /* of a row */
    /* Warps that take part: a barrier tells one round of a ring from the next and no more, so
     * nobody may pass it by twice. */
    int32_t mmas, producers;
    int32_t stage_pitch, stage_bytes, stages;
    int32_t fill_bytes, fills; /* lines of what rows without taps become, of one or all channels */
    int32_t weight_at, fill_at, ring_at, stage_at; /* bytes of shared memory */
    int32_t slices, families;                      /* of a group; slices of all images and groups */
    bool vector;                 /* lines are read four aligned elements at a time */
    uf_direct_divisor by_chunks; /* of a unit's line: loads of a warp */
} uf_row_stream_dgrad_conv;

typedef struct uf_row_stream_dgrad_plan {
    uf_row_stream_dgrad_conv stream;
    int32_t phases; /* live ones across */
    int32_t blocks, threads;
    size_t shared;
    double cost; /* an estimate for an H200 */
} uf_row_stream_dgrad_plan;

/* Cells of a warp's tile. */
static inline int32_t uf_row_stream_dgrad_cells(int32_t phases) {
    return phases == 4 ? 16 : 32;
}

/* Rows of a plane follow each other in memory, and sectors do not know where one ends. The first
 * and the last of a row with taps begin or end a run, or have a part of the row before or behind:
 * that is then carried to the later of the two, or filled where that row has no taps. */
typedef enum uf_row_stream_dgrad_edge {
    UF_ROW_STREAM_DGRAD_ALONE,
    UF_ROW_STREAM_DGRAD_CARRIED,
    UF_ROW_STREAM_DGRAD_FILLED
} uf_row_stream_dgrad_edge;

typedef struct uf_row_stream_dgrad_row {
    uf_row_stream_dgrad_edge head, tail;
    int32_t behind; /* the next row with taps, or the run's end */
} uf_row_stream_dgrad_row;

/* The row of a phase of the cell whose first is `base`, of a run of rows from `begin` to `end`. */
static inline UF_HD uf_row_stream_dgrad_row uf_row_stream_dgrad_row_of(const uf_direct_axis *rows,
                                                                       int32_t base, int32_t phase,
                                                                       int32_t begin, int32_t end) {
    const int32_t h = base + rows->phase[phase];
    const int32_t before = phase > 0 ? base + rows->phase[phase - 1]
                                     : base - rows->out_step + rows->phase[rows->live - 1];
    const int32_t next = phase + 1 < rows->live ? base + rows->phase[phase + 1]
                                                : base + rows->out_step + rows->phase[0];
    uf_row_stream_dgrad_row row;
    row.behind = next < end ? next : end;
    row.head = h == begin        ? UF_ROW_STREAM_DGRAD_ALONE
               : before == h - 1 ? UF_ROW_STREAM_DGRAD_CARRIED
                                 : UF_ROW_STREAM_DGRAD_FILLED;
    row.tail = h + 1 == end    ? UF_ROW_STREAM_DGRAD_ALONE
               : next == h + 1 ? UF_ROW_STREAM_DGRAD_CARRIED
                               : UF_ROW_STREAM_DGRAD_FILLED;
    return row;
}

/* Whole sectors that leave of what is at [from, to), bytes from a sector's begin: with the first
 * one (the last one) where that is shared with the row before (behind) and this one completes it.
 */
typedef struct uf_row_stream_dgrad_span {
    int32_t low, high;
} uf_row_stream_dgrad_span;

static inline UF_HD uf_row_stream_dgrad_span uf_row_stream_dgrad_span_of(int32_t from, int32_t to,
                                                                         bool first, bool last) {
    const int32_t mask = UF_ROW_STREAM_DGRAD_SECTOR - 1;
    uf_row_stream_dgrad_span span;
    span.low = (first ? from : from + mask) & ~mask;
    span.high = (last ? to + mask : to) & ~mask;
    return span;
}

/* False: rows that are not dense or short, an activation, sums, too many taps, no room. */
bool uf_row_stream_dgrad_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                 uf_row_stream_dgrad_plan *plan);

UF_END_DECLS

#endif
