/* dgrad_plan.h - the plan of row_stream/dgrad_launch.cu, from the arguments alone. Needs no GPU and
 * no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_DGRAD_PHASES = 3,    /* live phases across: another number has other variants */
    UF_ROW_STREAM_DGRAD_CELLS = 32,    /* cells of a warp's tile */
    UF_ROW_STREAM_DGRAD_OFFSETS = 8,   /* different offsets across, at most */
    UF_ROW_STREAM_DGRAD_STEPS = 64,    /* k-steps of all row phases, at most */
    UF_ROW_STREAM_DGRAD_CHANNELS = 16, /* written channels of a block: the rows of an MMA */
    UF_ROW_STREAM_DGRAD_MMAS = 10,     /* warps of a block that multiply, */
    UF_ROW_STREAM_DGRAD_PRODUCERS = 4, /* that load lines, */
    UF_ROW_STREAM_DGRAD_WRITERS = 2,   /* and that store rows */
    UF_ROW_STREAM_DGRAD_WARPS =
        UF_ROW_STREAM_DGRAD_MMAS + UF_ROW_STREAM_DGRAD_PRODUCERS + UF_ROW_STREAM_DGRAD_WRITERS,
    UF_ROW_STREAM_DGRAD_SHARED = 227 * 1024,  /* bytes of shared memory of a block, at most */
    UF_ROW_STREAM_DGRAD_RING = 24,            /* lines of the ring and stages, at most */
    UF_ROW_STREAM_DGRAD_STAGES = 6,           /* stages of rows, at most */
    UF_ROW_STREAM_DGRAD_NONE = 255,           /* no tap, no unit */
    UF_ROW_STREAM_DGRAD_SECTOR = 32,          /* bytes that memory writes together */
    UF_ROW_STREAM_DGRAD_BARRIER_BYTES = 512,  /* full and empty barriers of both rings */
    UF_ROW_STREAM_DGRAD_EPILOGUE_BYTES = 128, /* scale and shift of each channel */
    UF_ROW_STREAM_DGRAD_CARRY_BYTES = 1024,   /* first part of a sector of two rows, by channel */
    UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES = 512, /* step and phase of each fragment */
    UF_ROW_STREAM_DGRAD_FIXED = UF_ROW_STREAM_DGRAD_BARRIER_BYTES +
                                UF_ROW_STREAM_DGRAD_EPILOGUE_BYTES +
                                UF_ROW_STREAM_DGRAD_CARRY_BYTES + UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES
};

/* Two units of K: 16 bytes each, of the channels of one position. All phases across with a tap at
 * either share them. The second may be absent. */
typedef struct uf_row_stream_dgrad_step {
    int32_t coord[2]; /* bytes from a cell's record in a line of the ring, by unit */
    uint8_t row, row_tap,
        mask; /* line from the cell's first; filter row; phases across, a bit each */
    uint8_t column[2], unit[2]; /* index of the offset across, or NONE; unit of the channels */
} uf_row_stream_dgrad_step;

/* Rows of an MMA are 16 written channels of one phase, its columns 8 neighbouring cells. A lane
 * then has all phases of two neighbouring cells, which are contiguous in the written row.
 *
 * A block walks down a run of rows of cells of an image's group. Each line is loaded once, into a
 * ring in shared memory, as 16-byte records of K. Written rows are staged at their address modulo
 * 32 bytes and stored in whole sectors. */
typedef struct uf_row_stream_dgrad_conv {
    uf_direct_conv conv;
    uf_row_stream_dgrad_step step[UF_ROW_STREAM_DGRAD_STEPS];
    int32_t step_begin[UF_DIRECT_TAPS + 1],
        fragment_begin[UF_DIRECT_TAPS + 1]; /* first step, first fragment of each row phase */
    uint8_t column_tap[4][UF_ROW_STREAM_DGRAD_OFFSETS]; /* by phase; the last has no use */
    int32_t units, records, plane; /* of a line: units, records of each, bytes from unit to unit */
    int32_t small;                 /* bytes from the big parts to the small ones */
    int32_t line_bytes, ring;      /* bytes of a line; lines of the ring */
    int32_t lines;                 /* lines from a cell's first to its last */
    int32_t tiles;                 /* tiles of a row */
    /* Warps that take part. A barrier's parity tells only one round of a ring from the next, so no
     * warp may fall two rounds behind. */
    int32_t mmas, producers;
    int32_t stage_pitch, stage_bytes, stages;
    int32_t fill_bytes, fills; /* bytes of a constant line for rows without taps; such lines: 1, or
                                  one per channel */
    int32_t weight_at, fill_at, ring_at, stage_at; /* byte offsets in shared memory */
    int32_t slices, families;    /* slices of a group; slices of all images and groups */
    bool vector;                 /* lines are loaded four aligned elements at a time */
    uf_direct_divisor by_chunks; /* loads of a warp for a unit's line */
} uf_row_stream_dgrad_conv;

typedef struct uf_row_stream_dgrad_plan {
    uf_row_stream_dgrad_conv stream;
    int32_t phases; /* live phases across */
    int32_t blocks, threads;
    size_t shared;
    double cost; /* cycles, modelled */
} uf_row_stream_dgrad_plan;

/* Rows of a plane are contiguous, so a sector may hold the end of one row and the begin of the
 * next. ALONE: the row begins or ends the run. CARRIED: the neighbour has taps too, and the later
 * row stores the sector. FILLED: the neighbour has no taps, and this row stores the sector. */
typedef enum uf_row_stream_dgrad_edge {
    UF_ROW_STREAM_DGRAD_ALONE,
    UF_ROW_STREAM_DGRAD_CARRIED,
    UF_ROW_STREAM_DGRAD_FILLED
} uf_row_stream_dgrad_edge;

typedef struct uf_row_stream_dgrad_row {
    uf_row_stream_dgrad_edge head, tail;
    int32_t behind; /* next row with taps, or the end of the run */
} uf_row_stream_dgrad_row;

/* The row of a phase of the cell whose first row is `base`, in a run of rows begin to end - 1. */
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

/* Whole sectors stored of the bytes [from, to) counted from a sector's begin. `first` (`last`):
 * includes the sector shared with the row before (after). */
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

/* False: rows that are not dense or too short or long, an activation, accumulation, too many taps,
 * or no room. */
bool uf_row_stream_dgrad_plan_of(const uf_conv_problem *problem, uf_row_stream_dgrad_plan *plan);

UF_END_DECLS

#endif
