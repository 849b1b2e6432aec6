/* wgrad_plan.h - the plan of mma_implicit_gemm/wgrad_launch.cu: tile, box, layout, splits and
 * workspace, from the arguments alone; and the index arithmetic that host and device share. Needs
 * no GPU and no toolkit.
 *
 * Columns. N is (c, r, s): column = (block of channels * taps + tap) * channels + channel in its
 * block, with channels = min(8, C/groups). Eight columns are one fragment: eight channels at one
 * tap where there are eight.
 *
 * Boxes. K is cut into boxes of 32 pixels, images x rows x columns in powers of two, whatever
 * wastes least.
 *
 * Lines. wgrad_problem.h. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_PLAN_H

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/launch.h"
#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/wgrad_problem.h"

UF_BEGIN_DECLS

enum {
    WGRAD_PIXELS = 32,   /* of a box */
    WGRAD_PITCH = 36,    /* words from one channel of y to the next: 4 mod 8, no bank conflict */
    WGRAD_ENTRIES = 768, /* of the table of coordinates, at most */
    WGRAD_SHARED = 99 << 10, /* bytes of a block: every GPU from sm_80 on has them, sm_90 twice */
    WGRAD_BLOCKS = 264       /* that fill a large GPU once */
};

/* Rows (k) of a tile, warps down and across, fragments of eight columns per warp. In FP32 a warp
 * has two sets of sums: there its tiles are narrower. id, rows, warps down and across in FP32, the
 * same otherwise, fragments */
#define UF_WGRAD_TILES                                                                             \
    UF_WGRAD_TILE(0, 64, 2, 2, 1, 4, 6)                                                            \
    UF_WGRAD_TILE(1, 32, 2, 2, 1, 4, 9)                                                            \
    UF_WGRAD_TILE(2, 32, 2, 2, 1, 4, 7)                                                            \
    UF_WGRAD_TILE(3, 16, 1, 4, 1, 4, 9)                                                            \
    UF_WGRAD_TILE(4, 64, 4, 1, 4, 1, 6)

typedef struct wgrad_plan {
    WGRAD_PROBLEM;
    int32_t tile_id, rows, columns;   /* of a tile */
    int32_t channels, channel_blocks; /* see Columns */
    int32_t all_columns;
    int32_t tiles_m, tiles_n, tiles; /* tiles: of all groups */
    int32_t log_q, log_p;            /* box: 2^log_q columns, 2^log_p rows */
    int32_t boxes[3], all_boxes;     /* images, rows, columns */
    bool banded; /* taps share what they read; else each fragment of eight columns has its own 32
                    pixels */
    wgrad_rows lines[2];
    int32_t step_n, step_h,
        step_w;             /* words in shared memory between images, rows, columns of a band */
    int32_t entries, pitch; /* table entries, and words from one channel of x to the next */
    int32_t span;           /* blocks of channels that a tile touches, at most */
    int32_t x_words, stage_words, stages;
    int32_t shared_bytes;
    int32_t splits, adders; /* adders: threads that share the splits of one element */
    int32_t share;          /* boxes, see wgrad_sums_of; 0: every tile has `splits` of its own */
    bool vector_y, accumulate;
    uf_wgrad_fixup fixup;
    double cost; /* an estimate for an H200; two blocks share a multiprocessor */
} wgrad_plan;

/* Pixel 0..31 of a box. */
typedef struct wgrad_pixel {
    int32_t n, p, q;
} wgrad_pixel;

static inline UF_HD wgrad_pixel wgrad_pixel_of(const wgrad_plan *p, int32_t pixel) {
    wgrad_pixel at;
    at.q = pixel & ((1 << p->log_q) - 1);
    at.p = (pixel >> p->log_q) & ((1 << p->log_p) - 1);
    at.n = pixel >> (p->log_q + p->log_p);
    return at;
}

/* Words from where a column's pixel 0 is to where its pixel `pixel` is. */
static inline UF_HD int32_t wgrad_pixel_offset(const wgrad_plan *p, int32_t pixel) {
    const wgrad_pixel at = wgrad_pixel_of(p, pixel);
    return p->banded ? at.n * p->step_n + at.p * p->step_h + at.q * p->step_w : pixel;
}

typedef struct wgrad_column {
    int32_t slot;                /* block of channels * taps + tap */
    int32_t block, tap, channel; /* channel: within the group */
    bool there;
} wgrad_column;

static inline UF_HD wgrad_column wgrad_column_of(const wgrad_plan *p, int32_t column) {
    wgrad_column at;
    at.slot = column / p->channels;
    at.block = at.slot / p->taps;
    at.tap = at.slot - at.block * p->taps;
    at.channel = at.block * p->channels + column - at.slot * p->channels;
    at.there = column < p->all_columns && at.channel < p->c_per_group;
    return at;
}

/* The first block of channels that a tile touches, and how many. */
static inline UF_HD int32_t wgrad_first_block(const wgrad_plan *p, int32_t first_column) {
    return first_column / (p->channels * p->taps);
}

static inline UF_HD int32_t wgrad_span(const wgrad_plan *p, int32_t first_column) {
    const int32_t end =
        p->all_columns - first_column < p->columns ? p->all_columns : first_column + p->columns;
    return (end - 1) / (p->channels * p->taps) - wgrad_first_block(p, first_column) + 1;
}

/* Word of a column's pixel 0 in a stage's x. Columns past the last read something that is there. */
static inline UF_HD int32_t wgrad_column_offset(const wgrad_plan *p, int32_t first_column,
                                                int32_t column) {
    if (column >= p->all_columns) {
        return 0;
    }
    const wgrad_column at = wgrad_column_of(p, column);
    if (!p->banded) {
        return (column - first_column) * p->pitch;
    }
    const int32_t r = at.tap / p->taps_w;
    const int32_t local = at.channel - wgrad_first_block(p, first_column) * p->channels;
    return local * p->pitch + wgrad_line_start(&p->lines[0], r) * p->step_h +
           wgrad_line_start(&p->lines[1], at.tap - r * p->taps_w) * p->step_w;
}

/* One entry of the table: an element of x that a lane copies for each channel of a block of
 * channels. */
typedef struct wgrad_coord {
    int64_t from;    /* elements from where the box's first pixel reads with tap 0 */
    int32_t n, h, w; /* the same by axis */
    int32_t to;      /* word for the first channel */
} wgrad_coord;

static inline UF_HD wgrad_coord wgrad_coord_of(const wgrad_plan *p, int32_t first_column,
                                               int32_t entry) {
    wgrad_coord coord;
    if (p->banded) {
        const int32_t plane = p->lines[0].count * p->lines[1].count;
        coord.n = entry / plane;
        entry -= coord.n * plane;
        const int32_t row = entry / p->lines[1].count;
        const int32_t column = entry - row * p->lines[1].count;
        coord.h = wgrad_line_source(&p->lines[0], row);
        coord.w = wgrad_line_source(&p->lines[1], column);
        coord.to = coord.n * p->step_n + row * p->step_h + column * p->step_w;
    } else {
        const int32_t fragment = entry / WGRAD_PIXELS;
        const int32_t tap = (first_column / 8 + fragment) % p->taps;
        const wgrad_pixel at = wgrad_pixel_of(p, entry - fragment * WGRAD_PIXELS);
        coord.n = at.n;
        coord.h = at.p * p->stride[0] + tap / p->taps_w * p->dilation[0];
        coord.w = at.q * p->stride[1] + tap % p->taps_w * p->dilation[1];
        coord.to = fragment * 8 * p->pitch + (entry - fragment * WGRAD_PIXELS);
    }
    coord.from = coord.n * p->x_stride[0] + coord.h * p->x_stride[2] + coord.w * p->x_stride[3];
    return coord;
}

/* The stages come after it, for 16-byte copies. */
static inline UF_HD int32_t wgrad_table_bytes(const wgrad_plan *p) {
    return (p->entries * (int32_t)sizeof(wgrad_coord) + 15) / 16 * 16;
}

/* Boxes [first, last) of a split. */
static inline UF_HD int32_t wgrad_split_begin(const wgrad_plan *p, int32_t split) {
    return (int32_t)((int64_t)split * p->all_boxes / p->splits);
}

/* Shares. Where p->share is not 0, the boxes of all tiles, one tile after the other, are cut into
 * shares of that many, whatever tile they belong to: blocks are busy for as long as each other with
 * few sums to add. Share i leaves what it sums of tile t as sum i + t: shares and tiles both go up,
 * so no two pairs are the same, and the sums of a tile follow each other. */
static inline UF_HD int32_t wgrad_shares(const wgrad_plan *p) {
    return (int32_t)(((int64_t)p->tiles * p->all_boxes + p->share - 1) / p->share);
}

/* The sums of a tile: the first one, how many, and how many sums lie from one to the next. */
typedef struct wgrad_sums {
    int32_t first, count, step;
} wgrad_sums;

static inline UF_HD wgrad_sums wgrad_sums_of(const wgrad_plan *p, int32_t tile) {
    wgrad_sums sums = {tile, p->splits, p->tiles};
    if (p->share > 0) { /* boxes of all tiles fit 31 bits there */
        const int32_t first = tile * p->all_boxes / p->share;
        sums.first += first;
        sums.count = ((tile + 1) * p->all_boxes - 1) / p->share - first + 1;
        sums.step = 1;
    }
    return sums;
}

/* A tile's first row (k) and column, both within its group. */
typedef struct wgrad_corner {
    int32_t group, row, column;
} wgrad_corner;

static UF_HD_INLINE wgrad_corner wgrad_corner_of(const wgrad_plan *p, int32_t tile) {
    const int32_t rest = tile / p->tiles_n;
    wgrad_corner at;
    at.group = rest / p->tiles_m;
    at.row = (rest - at.group * p->tiles_m) * p->rows;
    at.column = (tile - rest * p->tiles_n) * p->columns;
    return at;
}

/* An element of w by its index in a tile. */
typedef struct wgrad_element {
    int32_t group, k; /* k: within the group */
    wgrad_column column;
    bool there;
} wgrad_element;

static UF_HD_INLINE wgrad_element wgrad_element_of(const wgrad_plan *p, int32_t tile,
                                                   int32_t in_tile) {
    const int32_t rest = tile / p->tiles_n;
    const int32_t row = in_tile / p->columns;
    wgrad_element at;
    at.group = rest / p->tiles_m;
    at.k = (rest - at.group * p->tiles_m) * p->rows + row;
    at.column =
        wgrad_column_of(p, (tile - rest * p->tiles_n) * p->columns + in_tile - row * p->columns);
    at.there = at.k < p->k_per_group && at.column.there;
    return at;
}

/* A box by its coordinates, in boxes; the next one, columns fastest. */
typedef struct wgrad_box {
    int32_t n, p, q;
} wgrad_box;

static UF_HD_INLINE wgrad_box wgrad_box_of(const wgrad_plan *p, int32_t index) {
    wgrad_box box;
    box.q = index % (p->boxes[2] > 0 ? p->boxes[2] : 1);
    const int32_t rest = index / (p->boxes[2] > 0 ? p->boxes[2] : 1);
    box.p = rest % (p->boxes[1] > 0 ? p->boxes[1] : 1);
    box.n = rest / (p->boxes[1] > 0 ? p->boxes[1] : 1);
    return box;
}

static UF_HD_INLINE void wgrad_next(const wgrad_plan *p, wgrad_box *box) {
    if (++box->q == p->boxes[2]) {
        box->q = 0;
        if (++box->p == p->boxes[1]) {
            box->p = 0;
            ++box->n;
        }
    }
}

/* ---- the plan, on the host ---- */

/* Numbers of tiles (conv/plan.h): UF_WGRAD_TILES, each banded or not. */
enum { WGRAD_TILE_NUMBERS = 10 };

static inline int uf_wgrad_tile_number(int32_t tile_id, bool banded) {
    return 2 * tile_id + (banded ? 0 : 1);
}

/* `rows` is 0 where `tile` does not fit. */
wgrad_plan uf_wgrad_plan_of(const uf_conv_kernel_args *args, int tile);
size_t uf_wgrad_workspace(const wgrad_plan *p);

/* Pixels, columns (c, r, s) and tiles (at least 16 x 48) are int32_t, and so are positions of up to
 * 32 strides beyond the end. */
bool uf_wgrad_fits(const uf_conv_kernel_args *args);

/* A plan in the cache keeps no address: a launch binds a copy to its arguments. */
void uf_wgrad_clear_addresses(wgrad_plan *p);
void uf_wgrad_bind(wgrad_plan *p, const uf_conv_kernel_args *args);

/* Parts of the plan that weight gradients with other main loops share. */

/* The members that do not depend on tiles; all others are zero. */
wgrad_plan uf_wgrad_begin(const uf_conv_kernel_args *args);

/* The members that a tile of rows x columns and the box decide. */
void uf_wgrad_cut(wgrad_plan *p, int32_t rows_of_tile, int32_t columns, bool banded, int32_t log_q,
                  int32_t log_p);

/* The blocks of channels that a tile touches, and their words in shared memory; false where these
 * are too many. */
bool uf_wgrad_spread(wgrad_plan *p, int32_t most_bytes);

/* The layout of a band; false where it has more entries, or takes more of shared memory, than there
 * are. */
bool uf_wgrad_band(wgrad_plan *p, int32_t most_entries, int32_t most_bytes);

UF_END_DECLS

#endif
