/* conv_plan.h - how the CPU computes a convolution: one plan per call, a pure function of the
 * arguments.
 *
 * fprop and dgrad are the same dense correlation (geometry.h): fprop is one phase, dgrad is
 * stride_h * stride_w of them. "Written" is the side that receives the result (y in fprop, x in
 * dgrad), "read" the other. The plan says which variant runs, into which units the work is cut (by
 * shape, never by the number of threads) and where everything lies in the workspace. */
#ifndef UF_KERNELS_CPU_CONV_PLAN_H
#define UF_KERNELS_CPU_CONV_PLAN_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"

typedef enum uf_cpu_conv_variant {
    /* implicit GEMM per phase: written channels x pixels, over read channels x taps */
    UF_CPU_CONV_GEMM = 0,
    /* dgrad: one product over all taps, Z[channel, r, s][pixel of the small side], then each
     * written element gathers its taps in a fixed order */
    UF_CPU_CONV_GATHER,
    /* each written row sums its taps row by row; for one or two channels per group */
    UF_CPU_CONV_DIRECT
} uf_cpu_conv_variant;

/* One axis of one phase, and the taps of the phases before it. */
typedef struct uf_conv_phase {
    uf_axis_walk walk;
    int64_t taps_before;
} uf_conv_phase;

/* Pixels of the written side, flattened (image, row, column), and where their taps lie on the read
 * side. */
typedef struct uf_conv_pixels {
    const void *data; /* the group's first channel */
    int64_t stride[4], extent[2];
    uf_axis_walk walk[2];
    int64_t first[3]; /* image, row, column of pixel 0 */
    int64_t rows, columns;
} uf_conv_pixels;

/* A run of pixels in one row: `count` of them from position `at` of the block that was cut into
 * runs. */
typedef struct uf_conv_run {
    int64_t at, count, image, row, column;
} uf_conv_run;

typedef struct uf_conv_side {
    const uf_view *view;
    int64_t channels; /* per group */
} uf_conv_side;

typedef struct uf_cpu_conv_plan {
    const uf_conv_kernel_args *args;
    bool dgrad;
    uf_cpu_conv_variant variant;
    const struct uf_conv_code *code;
    uf_conv_side read, written;
    int64_t batch, groups, kernel[2];
    /* Strides of w in elements: next group, written channel, read channel, r, s. */
    int64_t w_group, w_written, w_read, w_tap[2];
    int64_t phase_count[2];
    const uf_conv_phase *phase[2]; /* in the workspace */

    /* gemm and gather: packed weights, `rows` channels (or channel taps) to a panel */
    int64_t rows;      /* of a micro-kernel */
    int64_t row_block; /* rows (gather: channels) of one unit */
    int64_t row_blocks;
    int64_t packed_rows; /* per group, padded */
    int64_t pixel_block, depth_block;
    int64_t tile[3]; /* images, rows and columns that one unit writes; of gather, of the small side,
                        that it writes for */
    int64_t tiles[3];                  /* how many */
    int64_t interleave, copy_elements; /* gemm: see conv_tile.h */
    int64_t tile_pixels;               /* gather: columns of Z, halo included */
    int64_t pack_units, units;

    size_t element; /* bytes of one in the workspace: of the type that computes */
    size_t phase_bytes, packed_bytes, scratch_bytes; /* scratch is per thread */
    size_t table_bytes;                              /* at the end of scratch: gemm's tables */
    void *packed;
    char *scratch;
} uf_cpu_conv_plan;

/* wgrad: w[k, c, r, s] = sum over pixels of y times a tap of x. */
typedef enum uf_wgrad_variant {
    /* sums run along vectors of pixels and their lanes are added up at the end */
    UF_WGRAD_DOT = 0,
    /* the micro-kernels of fprop and dgrad with the pixels as depth: y is packed once, the taps of
     * x by each unit; for sums over few pixels, or many channels */
    UF_WGRAD_GEMM
} uf_wgrad_variant;

/* A unit is one tile of k by (c, r, s) of one group over one part of the pixels. */
typedef struct uf_wgrad_plan {
    const uf_conv_kernel_args *args;
    uf_wgrad_variant variant;
    const struct uf_conv_code *code;
    uf_axis_walk walk[2];
    int64_t rows, columns; /* of one group: K/groups and C/groups*R*S */
    int64_t row_block, row_blocks, column_block, column_blocks;
    int64_t pixels, chunk; /* all, and how many are packed at a time */
    int64_t parts, part_pixels;
    int64_t units;
    size_t element, partial_bytes, scratch_bytes; /* partial sums, when there are several parts */
    void *partial;                                /* [part][group][row][column] */
    char *scratch;                                /* scratch_bytes per thread */

    /* gemm: y as [group][chunk][panel of micro_rows][pixel][row] */
    int64_t micro_rows, packed_rows, pack_units;
    size_t packed_bytes;
    void *packed;
} uf_wgrad_plan;

/* The part of a sum that is one unit's. */
typedef struct uf_wgrad_tile {
    int64_t part, group, row0, rows, column0, columns, first_pixel, end_pixel;
} uf_wgrad_tile;

/* The code for one element type and one instruction set; conv_code.inc makes it. Tensors of bf16
 * become f32 where they are packed, and sums are rounded where they are written. `lanes` elements
 * to a vector, up to UF_CONV_VECTORS vectors of pixels and `rows` channels to a micro-kernel. */
typedef struct uf_conv_code {
    int64_t lanes, rows;
    void (*pack)(const uf_cpu_conv_plan *plan, int64_t unit);
    void (*run[3])(const uf_cpu_conv_plan *plan, int64_t unit,
                   void *scratch); /* by uf_cpu_conv_variant */
    void (*wgrad_pack)(const uf_wgrad_plan *plan, int64_t unit, void *scratch);
    void (*wgrad[2])(const uf_wgrad_plan *plan, int64_t unit, void *scratch); /* by variant */
    void (*wgrad_add)(const uf_wgrad_plan *plan,
                      int64_t row); /* one row of one group, over the parts */
} uf_conv_code;

#define UF_CONV_VECTORS 3

/* Pixels of one block at most: a multiple of every code's micro-kernel. f64 takes half. */
#define UF_CONV_PIXELS 192
/* Depth of one block of a product: with 48 pixels of f32 a panel is 36 KiB and stays in the first
 * cache. */
#define UF_CONV_DEPTH 192

/* wgrad packs this many pixels at a time (f64 half): a tile's 10 rows of f32 stay in the first
 * cache. */
#define UF_WGRAD_PIXELS 768
#define UF_WGRAD_TILE_COLUMNS 6
#define UF_WGRAD_TILE_ROWS 4 /* a multiple of every code's */
/* The gemm variant packs so many pixels of so many rows at a time. */
#define UF_WGRAD_DEPTH 192
#define UF_WGRAD_LINES 48 /* a multiple of every micro-kernel's rows, and its pixels at least */

extern const uf_conv_code uf_conv_code_baseline_f32, uf_conv_code_baseline_f64,
    uf_conv_code_baseline_bf16;
extern const uf_conv_code uf_conv_code_avx2_f32, uf_conv_code_avx2_f64, uf_conv_code_avx2_bf16;
extern const uf_conv_code uf_conv_code_avx512_f32, uf_conv_code_avx512_f64,
    uf_conv_code_avx512_bf16;

/* The products of one axis of dgrad, over all phases: pairs of a large side's element and a tap. */
double uf_conv_dgrad_products(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                              int64_t dilation);

/* The best code for this processor. */
const uf_conv_code *uf_conv_code_for(uf_dtype dtype);

/* Bytes of an element of the type that computes with tensors of `dtype`. */
static inline size_t uf_conv_element(uf_dtype dtype) {
    return dtype == UF_F64 ? sizeof(double) : sizeof(float);
}

/* Rows of the micro-kernel for so many channels: the fewest padded rows, a smaller kernel at a
 * small price. */
int64_t uf_conv_micro_rows(const uf_conv_code *code, int64_t channels);

/* The depth of a product is cut into blocks of so much each: the sums of a block are made apart. */
static inline int64_t uf_conv_depth_block(const uf_cpu_conv_plan *plan, int64_t depth) {
    return uf_div_up(depth, uf_div_up(depth, plan->depth_block));
}

/* Rows of the small side that reach a band of large rows: (kernel - 1)*dilation/stride rows more.
 */
static inline int64_t uf_conv_halo(const uf_conv_kernel_args *args, int axis) {
    const int64_t kernel = args->w.extent[2 + axis];
    return ((kernel - 1) * args->dilation[axis] + args->stride[axis] - 1) / args->stride[axis];
}

/* Cut pixels [from, from + count) into runs; returns how many. */
static inline int64_t uf_conv_runs(const uf_conv_pixels *pixels, int64_t from, int64_t count,
                                   uf_conv_run *runs) {
    int64_t column = from % pixels->columns;
    int64_t row = from / pixels->columns;
    int64_t image = row / pixels->rows;
    row %= pixels->rows;
    int64_t made = 0;
    for (int64_t at = 0; at < count;) {
        const int64_t left = pixels->columns - column;
        uf_conv_run *run = &runs[made++];
        run->at = at;
        run->count = left < count - at ? left : count - at;
        run->image = pixels->first[0] + image;
        run->row = pixels->first[1] + row;
        run->column = pixels->first[2] + column;
        at += run->count;
        column = 0;
        if (++row == pixels->rows) {
            row = 0;
            ++image;
        }
    }
    return made;
}

static inline int64_t uf_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t uf_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline uf_wgrad_tile uf_wgrad_tile_of(const uf_wgrad_plan *plan, int64_t unit) {
    uf_wgrad_tile tile;
    tile.column0 = unit % plan->column_blocks * plan->column_block;
    unit /= plan->column_blocks;
    tile.row0 = unit % plan->row_blocks * plan->row_block;
    unit /= plan->row_blocks;
    tile.group = unit % plan->args->groups;
    tile.part = unit / plan->args->groups;
    tile.rows = uf_min(plan->row_block, plan->rows - tile.row0);
    tile.columns = uf_min(plan->column_block, plan->columns - tile.column0);
    tile.first_pixel = tile.part * plan->part_pixels;
    tile.end_pixel = uf_min(tile.first_pixel + plan->part_pixels, plan->pixels);
    return tile;
}

#endif
