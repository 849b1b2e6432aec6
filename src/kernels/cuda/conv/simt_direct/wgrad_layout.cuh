/* wgrad_layout.cuh - the tiles and boxes of simt_direct/wgrad_launch.cu, and where they lie in
 * shared memory.
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
 * sorted into lines (mma_implicit_gemm/wgrad_plan.h): only what some tap reads, and element t of
 * tap r at line_start(r) + t whatever the stride. So a column of w and a quad have one offset each,
 * their sum is the place of what both read, and the pixels of the quad follow it.
 *
 * Entries. What a lane copies of one channel into a box, made once per block: {offset in the
 * tensor, place in shared memory | image << 16, row, column}, all from the box's first. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_LAYOUT_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_LAYOUT_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"

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

struct direct_wgrad_plan {
    const void *x, *y;
    void *w;
    float *partial; /* [split][tile][group][k][column]; conv_stride2_k4 has an order of its own */
    int64_t x_stride[4], y_stride[4], w_stride[4];
    int32_t batch, groups, k_per_group, c_per_group;
    int32_t taps, taps_w;
    int32_t large[2], small[2], stride[2], padding[2],
        dilation[2]; /* extents and geometry by axis */

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
};

static inline int32_t direct_log(int32_t power) {
    int32_t log = 0;
    while (1 << log < power) {
        ++log;
    }
    return log;
}

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

/* A column of the tile: its channel and tap, from the tile's first. Beyond the last channel: none.
 */
struct direct_column {
    int32_t c, tap;
};

static inline UF_HD direct_column direct_column_of(const direct_wgrad_plan &p, int32_t column) {
    direct_column at;
    if (p.channels_first) {
        at.tap = column / p.tile_c;
        at.c = at.tap < p.tile_taps ? column - at.tap * p.tile_c : p.tile_c;
        at.tap = p.ordered && at.tap < p.tile_taps ? p.order[at.tap] : at.tap;
    } else {
        at.c = column / p.tile_taps;
        at.tap = column - at.c * p.tile_taps;
    }
    return at;
}

/* Words of x in shared memory that a tap, a column add. */
static inline UF_HD int32_t direct_tap_offset(const direct_wgrad_plan &p, int32_t tap) {
    const int32_t r = tap / p.taps_w;
    return wgrad_line_start(&p.lines[0], r) * p.pitch_h +
           wgrad_line_start(&p.lines[1], tap - r * p.taps_w) * p.pitch_w;
}

static inline UF_HD int32_t direct_column_offset(const direct_wgrad_plan &p, int32_t first_tap,
                                                 int32_t column) {
    const direct_column at = direct_column_of(p, column);
    return at.c < p.tile_c && first_tap + at.tap < p.taps
               ? at.c * p.pitch_c + direct_tap_offset(p, first_tap + at.tap)
               : 0;
}

/* Where a warp's lanes are all channels of `together` taps: an order of the taps in which those
 * differ modulo `together`, so that channels `together` words apart leave room for each other. */
static inline void direct_order_taps(direct_wgrad_plan &p, int32_t together) {
    bool used[DIRECT_ORDER] = {};
    for (int32_t slot = 0; slot < p.tile_taps; ++slot) {
        const int32_t first = slot / together * together;
        int32_t chosen = -1;
        for (int32_t tap = 0; tap < p.tile_taps; ++tap) {
            if (used[tap]) {
                continue;
            }
            bool spacing = true;
            for (int32_t other = first; other < slot; ++other) {
                spacing =
                    spacing &&
                    (direct_tap_offset(p, tap) - direct_tap_offset(p, p.order[other])) % together !=
                        0;
            }
            if (chosen < 0 || spacing) {
                chosen = tap;
            }
            if (spacing) {
                break;
            }
        }
        used[chosen] = true;
        p.order[slot] = (uint8_t)chosen;
    }
}

/* Lanes that one load of x makes wait: those that want another word of a bank that is taken. Stops
 * at `most`. */
static inline int32_t direct_clashes(const direct_wgrad_plan &p, int32_t fragments, int32_t most) {
    int32_t clashes = 0;
    for (int32_t fragment = 0; fragment < fragments; ++fragment) {
        int32_t seen[32];
        for (int32_t i = 0; i < 32; ++i) {
            seen[i] = -1;
        }
        for (int32_t i = 0; i < p.lanes_c && clashes < most; ++i) {
            const int32_t offset = direct_column_offset(p, 0, fragment * p.lanes_c + i);
            for (int32_t g = 0; g < p.lanes_g; ++g) {
                const int32_t at = offset + g * p.tile_c * p.pitch_c;
                clashes += seen[at & 31] >= 0 && seen[at & 31] != at;
                seen[at & 31] = at;
            }
        }
    }
    return clashes;
}

/* The order of columns, and pitches of x, such that the load of a fragment of columns touches each
 * bank once. Taps first, if that can be had: then neighbours are neighbours in w too. */
static inline void direct_choose_pitches(direct_wgrad_plan &p) {
    const int32_t together = p.lanes_c % p.tile_c == 0 ? p.lanes_c / p.tile_c : 1;
    const bool can_go_first = together > 1 || p.tile_c % p.lanes_c == 0;
    const int32_t fragments = direct_min(uf_div_up((int64_t)p.tile_c * p.tile_taps, p.lanes_c), 3);
    direct_wgrad_plan best = p;
    int32_t fewest = INT32_MAX;
    for (int32_t order = 0; order < (can_go_first ? 2 : 1); ++order) {
        direct_wgrad_plan t = p;
        t.channels_first = order == 1;
        t.ordered = order == 1 && together > 1 && p.tile_taps <= DIRECT_ORDER && p.tiles_t == 1;
        for (int32_t pad_h = 0; pad_h < 2 && fewest != 0; ++pad_h) {
            t.pitch_h = p.lines[1].count * p.pitch_w + pad_h;
            t.pitch_n = p.images_first ? 1 : p.lines[0].count * t.pitch_h;
            if (t.ordered) {
                direct_order_taps(t, together);
            }
            const int32_t channel = (p.images_first ? 1 : p.box[0]) * p.lines[0].count * t.pitch_h;
            for (int32_t pad_c = 0; pad_c < DIRECT_PADS && fewest != 0; ++pad_c) {
                t.pitch_c = channel + pad_c;
                const int32_t clashes = direct_clashes(t, fragments, fewest);
                if (clashes < fewest) {
                    fewest = clashes;
                    best = t;
                }
            }
        }
    }
    p = best;
}

#endif
