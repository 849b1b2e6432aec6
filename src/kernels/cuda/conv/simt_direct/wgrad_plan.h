/* wgrad_plan.h - the plan of simt_direct/wgrad_launch.cu: tile, box, layout, splits and workspace,
 * from the arguments alone; and the index arithmetic that host and device share. Needs no GPU and
 * no toolkit.
 *
 * Tile. A block has lanes_g groups x tile_k rows (k) x tile_c channels x tile_taps taps of w. A
 * lane has KT rows and CT columns; the lanes of a warp are columns first, then rows, then groups;
 * the warps of a block are columns, then rows, then shares of the pixels. Columns are taps first;
 * where a warp would then meet bank conflicts and channels fill its lanes evenly, channels first,
 * and the taps in an order that avoids them.
 *
 * Box. Pixels are walked in boxes of images x rows x columns, four neighbours (a quad) at a time:
 * columns, or images where rows are short. In shared memory y is [quad][group][k][4] (a lane's rows
 * together) and x is [group][channel][row][column] behind or before the image, rows and columns
 * sorted into lines (wgrad_problem.h): only what some tap reads, and element t of
 * tap r at line_start(r) + t whatever the stride. So a column of w and a quad have one offset each,
 * their sum is the word that both read, and the pixels of the quad follow it.
 *
 * Entries. A lane's element of one channel of a box, made once per block: {offset in the tensor,
 * offset in shared memory | image << 16, row, column}, all from the box's first. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_PLAN_H

#include "kernels/cuda/conv/wgrad_problem.h"

UF_BEGIN_DECLS

enum {
    DIRECT_THREADS = 256,
    DIRECT_WARPS = DIRECT_THREADS / 32,
    DIRECT_LOG_WARPS = 3,
    DIRECT_SHARED = 99 << 10, /* bytes of a block: every GPU from sm_80 on has them, sm_90 twice */
    DIRECT_ENTRIES = 2304,    /* of a table, at most */
    DIRECT_PIXELS = 512,      /* of a box, at most */
    DIRECT_BLOCKS = 264,      /* that fill a large GPU once */
    DIRECT_CHAIN = 1024,      /* FFMAs in a row, about */
    DIRECT_SPLITS = 4096,
    DIRECT_ORDER = 64, /* taps of a tile whose order is chosen */
    DIRECT_PADS = 16   /* words that may follow a channel of x so that banks differ */
};

/* Rows (KT) and columns (CT) of a thread; fewer registers than 128, so that two blocks fit a
 * multiprocessor. */
#define UF_DIRECT_WGRAD_TILES                                                                      \
    UF_DIRECT_WGRAD_TILE(0, 8, 9)                                                                  \
    UF_DIRECT_WGRAD_TILE(1, 8, 8)                                                                  \
    UF_DIRECT_WGRAD_TILE(2, 8, 6)                                                                  \
    UF_DIRECT_WGRAD_TILE(3, 8, 4)                                                                  \
    UF_DIRECT_WGRAD_TILE(4, 4, 9)                                                                  \
    UF_DIRECT_WGRAD_TILE(5, 4, 5)                                                                  \
    UF_DIRECT_WGRAD_TILE(6, 1, 9)                                                                  \
    UF_DIRECT_WGRAD_TILE(7, 1, 5)                                                                  \
    UF_DIRECT_WGRAD_TILE(8, 1, 3)

typedef struct direct_wgrad_plan {
    WGRAD_PROBLEM;     /* partial: [split][tile][group][k][column] */
    bool rows;         /* conv_direct_wgrad_rows computes it; box: what one warp walks */
    int32_t rows_step; /* its stride in rows */
    int32_t tile_id;
    int32_t lanes_c, lanes_k, lanes_g, warps_c, warps_k, warps_p; /* powers of two */
    int32_t log_lanes_c, log_lanes_k, log_warps_c, log_warps_k;
    int32_t tile_k, tile_c, tile_taps; /* tile_k: a power of two */
    int32_t log_tile_k;
    int32_t columns; /* that the lanes have: at least tile_c * tile_taps */
    bool channels_first, ordered;
    uint8_t order[DIRECT_ORDER]; /* the taps of a tile, if ordered */
    int32_t tiles_g, tiles_k, tiles_c, tiles_t, tiles;
    int32_t box[3], boxes[3], all_boxes; /* images, rows, columns */
    int32_t pixels;                      /* of a box: a multiple of 4 */
    bool images_first;                   /* the order of pixels: images fastest, or columns */
    bool y_by_channel; /* one pixel per image: y's entries are channels, and images are walked */
    wgrad_rows lines[2];
    int32_t longest[2]; /* elements of a line, were all classes as long as the longest */
    int32_t x_entries, y_entries;
    int32_t log_x_warps,
        log_y_warps; /* warps that share the entries; the others share the channels */
    int32_t pitch_w, pitch_h, pitch_n, pitch_c; /* of x, in words */
    int32_t pitch_y, pitch_g, pitch_quad;       /* of y: the rows of a lane, a group, a quad */
    int32_t kt, log_kt;                         /* rows of a thread */
    int32_t x_words, stage_words, stages, shared_bytes;
    int32_t splits, adders, adder_rows;
    int32_t size; /* of a tile, in elements */
    bool vector_y, accumulate;
} direct_wgrad_plan;

/* A column of the tile: its channel and tap, from the tile's first. Beyond the last channel: none.
 */
typedef struct direct_column {
    int32_t c, tap;
} direct_column;

static inline UF_HD direct_column direct_column_of(const direct_wgrad_plan *p, int32_t column) {
    direct_column at;
    if (p->channels_first) {
        at.tap = column / p->tile_c;
        at.c = at.tap < p->tile_taps ? column - at.tap * p->tile_c : p->tile_c;
        at.tap = p->ordered && at.tap < p->tile_taps ? p->order[at.tap] : at.tap;
    } else {
        at.c = column / p->tile_taps;
        at.tap = column - at.c * p->tile_taps;
    }
    return at;
}

/* Words of x in shared memory that a tap, a column add. */
static inline UF_HD int32_t direct_tap_offset(const direct_wgrad_plan *p, int32_t tap) {
    const int32_t r = tap / p->taps_w;
    return wgrad_line_start(&p->lines[0], r) * p->pitch_h +
           wgrad_line_start(&p->lines[1], tap - r * p->taps_w) * p->pitch_w;
}

static inline UF_HD int32_t direct_column_offset(const direct_wgrad_plan *p, int32_t first_tap,
                                                 int32_t column) {
    const direct_column at = direct_column_of(p, column);
    return at.c < p->tile_c && first_tap + at.tap < p->taps
               ? at.c * p->pitch_c + direct_tap_offset(p, first_tap + at.tap)
               : 0;
}

/* An element of w. */
typedef struct direct_element {
    int32_t group, k, c, tap; /* k, c: within the group */
} direct_element;

/* The tile of a block. */
typedef struct direct_wgrad_tile {
    int32_t group, k, c, tap;       /* the first of each */
    int32_t groups, rows, channels; /* that exist */
} direct_wgrad_tile;

static UF_HD_INLINE direct_wgrad_tile direct_wgrad_tile_of(const direct_wgrad_plan *p,
                                                           int32_t tile) {
    direct_wgrad_tile t;
    int32_t rest = tile / p->tiles_t;
    t.tap = (tile - rest * p->tiles_t) * p->tile_taps;
    tile = rest;
    rest = tile / p->tiles_c;
    t.c = (tile - rest * p->tiles_c) * p->tile_c;
    tile = rest;
    rest = tile / p->tiles_k;
    t.k = (tile - rest * p->tiles_k) * p->tile_k;
    t.group = rest * p->lanes_g;
    t.groups = wgrad_least(p->lanes_g, p->groups - t.group);
    t.rows = wgrad_least(p->tile_k, p->k_per_group - t.k);
    t.channels = wgrad_least(p->tile_c, p->c_per_group - t.c);
    return t;
}

/* Row `row` of a tile, in no column yet. */
static UF_HD_INLINE bool direct_row_of(const direct_wgrad_plan *p, const direct_wgrad_tile *tile,
                                       int32_t row, direct_element *at) {
    const int32_t g = row >> p->log_tile_k;
    const int32_t k = row & (p->tile_k - 1);
    at->group = tile->group + g;
    at->k = tile->k + k;
    return g < tile->groups && k < tile->rows;
}

static UF_HD_INLINE bool direct_column_at(const direct_wgrad_plan *p, const direct_wgrad_tile *tile,
                                          int32_t column, direct_element *at) {
    const direct_column coord = direct_column_of(p, column);
    at->c = tile->c + coord.c;
    at->tap = tile->tap + coord.tap;
    return coord.c < tile->channels && at->tap < p->taps;
}

/* ---- the plan, on the host ---- */

/* Numbers of tiles (conv/plan.h): UF_DIRECT_WGRAD_TILES, and rows. */
enum { DIRECT_WGRAD_ROWS_TILE = 9, DIRECT_WGRAD_TILE_NUMBERS = 10 };

static inline int direct_wgrad_tile_number(const direct_wgrad_plan *p) {
    return p->rows ? DIRECT_WGRAD_ROWS_TILE : p->tile_id;
}

/* False where no box of the tile fits shared memory. Extents and positions are known to be 32-bit.
 */
bool uf_direct_wgrad_plan_of(const uf_conv_kernel_args *args, int tile, direct_wgrad_plan *plan);
size_t uf_direct_wgrad_workspace(const direct_wgrad_plan *p);

/* The members that do not depend on tiles; all others are zero. Other main loops, whose sums
 * conv_direct_wgrad_add adds, begin with these. */
void uf_direct_wgrad_begin(const uf_conv_kernel_args *args, direct_wgrad_plan *plan);

/* The same, and all that conv_direct_wgrad_add needs for another main loop's sums: tiles of
 * `tile_k` channels of y and `tile_c` of x with all taps, `columns` elements to a channel of y. */
void uf_direct_wgrad_begin_tiles(const uf_conv_kernel_args *args, int32_t tile_k, int32_t tile_c,
                                 int32_t columns, int32_t splits, direct_wgrad_plan *plan);

/* wgrad_layout.c: the order of columns, and pitches of x, such that the load of a fragment of
 * columns touches each bank once. Taps first, if that can be had: then neighbours are neighbours in
 * w too. */
void uf_direct_choose_pitches(direct_wgrad_plan *p);

static inline int32_t direct_min(int64_t a, int64_t b) {
    return (int32_t)(a < b ? a : b);
}

/* The least power of two that is not less, up to `most`. */
static inline int32_t direct_power(int64_t value, int32_t most) {
    int32_t power = 1;
    while (power < value && power < most) {
        power *= 2;
    }
    return power;
}

UF_END_DECLS

#endif
