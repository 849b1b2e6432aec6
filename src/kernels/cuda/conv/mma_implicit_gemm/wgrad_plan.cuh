/* wgrad_plan.cuh - the index arithmetic of mma_implicit_gemm/wgrad_launch.cu, shared by host and
 * device, and its plan: tile, box, layout, splits and workspace, from the shape alone.
 *
 * Columns. N is (c, r, s): column = (block of channels * taps + tap) * channels + channel in its
 * block, with channels = min(8, C/groups). Eight columns are one fragment: eight channels at one
 * tap where there are eight.
 *
 * Boxes. K is cut into boxes of 32 pixels, images x rows x columns in powers of two, whatever
 * wastes least.
 *
 * Lines. Along one axis a box of `extent` small elements and `kernel` taps touches extent * kernel
 * positions t*stride + r*dilation, many of them the same: taps r and r + step, step = stride /
 * gcd(stride, dilation), read the same residue class, `shift` = dilation / gcd apart. A class is
 * one run of consecutive elements in shared memory; classes lie one after another, and element t of
 * tap r is at wgrad_line_start(r) + t whatever the stride. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_PLAN_CUH
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_PLAN_CUH

#include <cstring>

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/launch.h"
#include "kernels/geometry.h"

enum {
    WGRAD_PIXELS = 32,   /* of a box */
    WGRAD_PITCH = 36,    /* words from one channel of y to the next: 4 mod 8, no bank conflict */
    WGRAD_ENTRIES = 768, /* of the table of places, at most */
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

struct wgrad_rows {
    int32_t stride, dilation, step, shift;
    int32_t length;  /* of a class with the most taps */
    int32_t longest; /* how many such classes: they go first; the others have one tap less */
    int32_t count;   /* elements of all classes */
};

struct wgrad_plan {
    const float *x, *y;
    float *w, *partial;
    int64_t x_stride[4], y_stride[4], w_stride[4];
    int32_t batch, groups, k_per_group, c_per_group;
    int32_t taps, taps_w;
    int32_t large[2], small[2], stride[2], padding[2],
        dilation[2]; /* extents and geometry by axis */

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
    int32_t entries, pitch; /* places per channel, and words from one channel of x to the next */
    int32_t span;           /* blocks of channels that a tile touches, at most */
    int32_t x_words, stage_words, stages;
    int32_t shared_bytes;
    int32_t splits, adders; /* adders: threads that share the splits of one element */
    int32_t share;          /* boxes, see wgrad_sums_of; 0: every tile has `splits` of its own */
    bool vector_y, accumulate;
    uf_wgrad_fixup fixup;
    double cost; /* an estimate for an H200; two blocks share a multiprocessor */
};

static inline UF_HD int32_t wgrad_line_start(const wgrad_rows &lines, int32_t tap) {
    const int32_t t = tap / lines.step;
    const int32_t c = tap - t * lines.step;
    const int32_t shorter = c > lines.longest ? c - lines.longest : 0;
    return c * lines.length - shorter * lines.shift + t * lines.shift;
}

/* Where element i of the lines reads, from the place of tap 0 of the box's first element. */
static inline UF_HD int32_t wgrad_line_source(const wgrad_rows &lines, int32_t i) {
    int32_t length = lines.length;
    int32_t c = i / length;
    int32_t first = 0;
    if (c >= lines.longest) {
        first = lines.longest * length;
        length -= lines.shift;
        c = (i - first) / length;
        i -= first + c * length;
        c += lines.longest;
    } else {
        i -= c * length;
    }
    return i * lines.stride + c * lines.dilation;
}

/* Lines for `extent` elements. Where gaps between the taps would cost more than sharing saves,
 * every tap is a class of its own. 64-bit, because a dilation may be large; the caller bounds
 * kernel * extent. */
static inline wgrad_rows wgrad_rows_of(int64_t extent, int64_t kernel, int64_t stride,
                                       int64_t dilation) {
    const int64_t g = uf_gcd(stride, dilation);
    int64_t step = stride / g < kernel ? stride / g : kernel;
    int64_t shift = dilation / g;
    int64_t most = (kernel + step - 1) / step;
    int64_t longest = kernel - (most - 1) * step;
    int64_t count = step * (extent + (most - 1) * shift) - (step - longest) * shift;
    if (count > extent * kernel || most == 1) {
        step = longest = kernel;
        shift = 0;
        most = 1;
        count = extent * kernel;
    }
    wgrad_rows lines;
    lines.stride = (int32_t)stride;
    lines.dilation = (int32_t)dilation;
    lines.step = (int32_t)step;
    lines.shift = (int32_t)shift;
    lines.length = (int32_t)(extent + (most - 1) * shift);
    lines.longest = (int32_t)longest;
    lines.count = (int32_t)count;
    return lines;
}

/* Pixel 0..31 of a box. */
struct wgrad_pixel {
    int32_t n, p, q;
};

static inline UF_HD wgrad_pixel wgrad_pixel_of(const wgrad_plan &p, int32_t pixel) {
    wgrad_pixel at;
    at.q = pixel & ((1 << p.log_q) - 1);
    at.p = (pixel >> p.log_q) & ((1 << p.log_p) - 1);
    at.n = pixel >> (p.log_q + p.log_p);
    return at;
}

/* Words from where a column's pixel 0 is to where its pixel `pixel` is. */
static inline UF_HD int32_t wgrad_pixel_offset(const wgrad_plan &p, int32_t pixel) {
    const wgrad_pixel at = wgrad_pixel_of(p, pixel);
    return p.banded ? at.n * p.step_n + at.p * p.step_h + at.q * p.step_w : pixel;
}

struct wgrad_column {
    int32_t slot;                /* block of channels * taps + tap */
    int32_t block, tap, channel; /* channel: within the group */
    bool there;
};

static inline UF_HD wgrad_column wgrad_column_of(const wgrad_plan &p, int32_t column) {
    wgrad_column at;
    at.slot = column / p.channels;
    at.block = at.slot / p.taps;
    at.tap = at.slot - at.block * p.taps;
    at.channel = at.block * p.channels + column - at.slot * p.channels;
    at.there = column < p.all_columns && at.channel < p.c_per_group;
    return at;
}

/* The first block of channels that a tile touches, and how many. */
static inline UF_HD int32_t wgrad_first_block(const wgrad_plan &p, int32_t first_column) {
    return first_column / (p.channels * p.taps);
}

static inline UF_HD int32_t wgrad_span(const wgrad_plan &p, int32_t first_column) {
    const int32_t end =
        p.all_columns - first_column < p.columns ? p.all_columns : first_column + p.columns;
    return (end - 1) / (p.channels * p.taps) - wgrad_first_block(p, first_column) + 1;
}

/* Word of a column's pixel 0 in a stage's x. Columns past the last read something that is there. */
static inline UF_HD int32_t wgrad_column_offset(const wgrad_plan &p, int32_t first_column,
                                                int32_t column) {
    if (column >= p.all_columns) {
        return 0;
    }
    const wgrad_column at = wgrad_column_of(p, column);
    if (!p.banded) {
        return (column - first_column) * p.pitch;
    }
    const int32_t r = at.tap / p.taps_w;
    const int32_t local = at.channel - wgrad_first_block(p, first_column) * p.channels;
    return local * p.pitch + wgrad_line_start(p.lines[0], r) * p.step_h +
           wgrad_line_start(p.lines[1], at.tap - r * p.taps_w) * p.step_w;
}

/* One place of the table: what a lane copies for each channel of a block of channels. */
struct wgrad_coord {
    int64_t from;    /* elements from where the box's first pixel reads with tap 0 */
    int32_t n, h, w; /* the same by axis */
    int32_t to;      /* word for the first channel */
};

static inline UF_HD wgrad_coord wgrad_coord_of(const wgrad_plan &p, int32_t first_column,
                                               int32_t entry) {
    wgrad_coord coord;
    if (p.banded) {
        const int32_t plane = p.lines[0].count * p.lines[1].count;
        coord.n = entry / plane;
        entry -= coord.n * plane;
        const int32_t row = entry / p.lines[1].count;
        const int32_t column = entry - row * p.lines[1].count;
        coord.h = wgrad_line_source(p.lines[0], row);
        coord.w = wgrad_line_source(p.lines[1], column);
        coord.to = coord.n * p.step_n + row * p.step_h + column * p.step_w;
    } else {
        const int32_t fragment = entry / WGRAD_PIXELS;
        const int32_t tap = (first_column / 8 + fragment) % p.taps;
        const wgrad_pixel at = wgrad_pixel_of(p, entry - fragment * WGRAD_PIXELS);
        coord.n = at.n;
        coord.h = at.p * p.stride[0] + tap / p.taps_w * p.dilation[0];
        coord.w = at.q * p.stride[1] + tap % p.taps_w * p.dilation[1];
        coord.to = fragment * 8 * p.pitch + (entry - fragment * WGRAD_PIXELS);
    }
    coord.from = coord.n * p.x_stride[0] + coord.h * p.x_stride[2] + coord.w * p.x_stride[3];
    return coord;
}

/* The stages come after it, for 16-byte copies. */
static inline UF_HD int32_t wgrad_table_bytes(const wgrad_plan &p) {
    return (p.entries * (int32_t)sizeof(wgrad_coord) + 15) / 16 * 16;
}

static inline int64_t wgrad_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Boxes [first, last) of a split. */
static inline UF_HD int32_t wgrad_split_begin(const wgrad_plan &p, int32_t split) {
    return (int32_t)((int64_t)split * p.all_boxes / p.splits);
}

/* Shares. Where p.share is not 0, the boxes of all tiles, one tile after the other, are cut into
 * shares of that many, whatever tile they belong to: blocks are busy for as long as each other with
 * few sums to add. Share i leaves what it sums of tile t as sum i + t: shares and tiles both go up,
 * so no two pairs are the same, and the sums of a tile follow each other. */
static inline UF_HD int32_t wgrad_shares(const wgrad_plan &p) {
    return (int32_t)(((int64_t)p.tiles * p.all_boxes + p.share - 1) / p.share);
}

/* The sums of a tile: the first one, how many, and how many sums lie from one to the next. */
struct wgrad_sums {
    int32_t first, count, step;
};

static inline UF_HD wgrad_sums wgrad_sums_of(const wgrad_plan &p, int32_t tile) {
    wgrad_sums sums = {tile, p.splits, p.tiles};
    if (p.share > 0) { /* boxes of all tiles fit 31 bits there */
        const int32_t first = tile * p.all_boxes / p.share;
        sums.first += first;
        sums.count = ((tile + 1) * p.all_boxes - 1) / p.share - first + 1;
        sums.step = 1;
    }
    return sums;
}

/* ---- the plan, on the host ---- */

struct wgrad_tile_numbers {
    int32_t rows, warps_m, warps_n, fragments;
};

static inline wgrad_tile_numbers wgrad_tile_of(int32_t id, uf_mma_math math) {
#define UF_WGRAD_TILE(ID, ROWS, M32, N32, M, N, FRAGMENTS)                                         \
    if (id == ID) {                                                                                \
        const bool fp32 = math == UF_MMA_TF32X3;                                                   \
        const wgrad_tile_numbers tile = {ROWS, fp32 ? M32 : M, fp32 ? N32 : N, FRAGMENTS};         \
        return tile;                                                                               \
    }
    UF_WGRAD_TILES
#undef UF_WGRAD_TILE
    const wgrad_tile_numbers none = {0, 0, 0, 0};
    return none;
}

/* Cycles of a multiprocessor for one box, as far as a comparison needs them: what is slowest of
 * MMAs (1.6 cycles; bf16 half as many, fp32 three), shared memory (one warp's load a cycle) and
 * issue (four a cycle); and a part of the issue and of the copies, which never hide entirely. */
static inline int64_t wgrad_box_cost(const wgrad_tile_numbers &tile, uf_mma_math math,
                                     int64_t words) {
    const int64_t warps = tile.warps_m * tile.warps_n;
    const int64_t down = tile.rows / tile.warps_m / 16;
    const int64_t loads = 4 * warps * (down * 4 + tile.fragments * 2);
    const int64_t pairs = 4 * warps * down * tile.fragments;
    const int64_t mmas = math == UF_MMA_TF32X3 ? pairs * 3
                         : math == UF_MMA_TF32 ? pairs
                                               : pairs / 2;
    const int64_t roundings = math == UF_MMA_TF32X3 ? loads * 3
                              : math == UF_MMA_TF32 ? loads
                                                    : loads / 2;
    const int64_t issue = (mmas + loads + roundings + 8 * warps * tile.fragments) / 4;
    int64_t cost = mmas * 16 / 10;
    cost = cost > loads ? cost : loads;
    cost = cost > issue ? cost : issue;
    return cost + issue / 4 + words / 32;
}

/* What a tile of rows x columns and the box decide. */
static inline void wgrad_cut(wgrad_plan &p, int32_t rows_of_tile, int32_t columns, bool banded,
                             int32_t log_q, int32_t log_p) {
    p.rows = rows_of_tile;
    p.columns = columns;
    p.banded = banded;
    p.channels = banded && p.c_per_group < 8 ? p.c_per_group : 8;
    p.channel_blocks = (int32_t)wgrad_div_up(p.c_per_group, p.channels);
    p.all_columns = p.channel_blocks * p.taps * p.channels;
    p.tiles_m = (int32_t)wgrad_div_up(p.k_per_group, p.rows);
    p.tiles_n = (int32_t)wgrad_div_up(p.all_columns, p.columns);
    p.tiles = p.groups * p.tiles_m * p.tiles_n;
    p.log_q = log_q;
    p.log_p = log_p;
    const int32_t q = 1 << log_q, rows = 1 << log_p, images = WGRAD_PIXELS >> (log_q + log_p);
    p.boxes[0] = (int32_t)wgrad_div_up(p.batch, images);
    p.boxes[1] = (int32_t)wgrad_div_up(p.small[0], rows);
    p.boxes[2] = (int32_t)wgrad_div_up(p.small[1], q);
    p.all_boxes = p.boxes[0] * p.boxes[1] * p.boxes[2];
}

/* Blocks of channels that a tile touches, and what they take of shared memory; false where that is
 * too much. */
static inline bool wgrad_spread(wgrad_plan &p, int32_t most_bytes) {
    const int64_t width = (int64_t)p.taps * p.channels;
    /* Tiles begin at multiples of the greatest common divisor within a block of channels. */
    const int64_t latest = width - uf_gcd(p.columns, width);
    const int64_t touched = wgrad_div_up(latest + p.columns, width);
    p.span = (int32_t)(touched < p.channel_blocks ? touched : p.channel_blocks);
    const int64_t x_words = (int64_t)p.span * p.channels * p.pitch;
    if (x_words * 4 > most_bytes) {
        return false;
    }
    p.x_words = (int32_t)x_words;
    return true;
}

/* The layout of a band; false where it has more places, or takes more of shared memory, than there
 * are. */
static inline bool wgrad_band(wgrad_plan &p, int32_t most_entries, int32_t most_bytes) {
    const int32_t q = 1 << p.log_q, rows = 1 << p.log_p,
                  images = WGRAD_PIXELS >> (p.log_q + p.log_p);
    const int64_t kernel_h = p.taps / p.taps_w, kernel_w = p.taps_w;
    if (kernel_h > most_entries || kernel_w > most_entries) {
        return false;
    }
    p.lines[0] = wgrad_rows_of(rows, kernel_h, p.stride[0], p.dilation[0]);
    p.lines[1] = wgrad_rows_of(q, kernel_w, p.stride[1], p.dilation[1]);
    const int64_t entries = (int64_t)images * p.lines[0].count * p.lines[1].count;
    if (entries > most_entries) {
        return false;
    }
    p.entries = (int32_t)entries;
    /* A fragment reads four neighbouring pixels: make them neighbours in shared memory. Places of
     * one image are copied together: an odd step puts them into different banks. */
    const bool images_first = q < 4 && images >= 4;
    p.step_w = images_first ? images + 1 : 1;
    const int64_t extent = images_first ? entries / images * p.step_w : entries;
    p.pitch = (int32_t)((extent + 3) / 8 * 8 + 4);
    p.step_h = p.step_w * p.lines[1].count;
    p.step_n = images_first ? 1 : p.step_h * p.lines[0].count;
    return wgrad_spread(p, most_bytes);
}

/* Words that a box fetches. Rows that begin within a sector fetch more than they use. */
static inline int64_t wgrad_y_words(const wgrad_plan &p) {
    const int32_t q = 1 << p.log_q;
    return (int64_t)p.rows * (WGRAD_PIXELS >> p.log_q) * (q + (q < 8 ? 4 : 0));
}

static inline int64_t wgrad_band_words(const wgrad_plan &p) {
    const int32_t images = WGRAD_PIXELS >> (p.log_q + p.log_p);
    return (int64_t)p.span * p.channels * images * p.lines[0].count * (p.lines[1].count + 4);
}

/* Fill in what the tile and the box decide; the cycles of all tiles and boxes, or -1 where it does
 * not fit. */
static inline double wgrad_try(wgrad_plan &p, uf_mma_math math, int32_t tile_id, bool banded,
                               int32_t log_q, int32_t log_p) {
    const wgrad_tile_numbers tile = wgrad_tile_of(tile_id, math);
    p.tile_id = tile_id;
    wgrad_cut(p, tile.rows, tile.warps_n * tile.fragments * 8, banded, log_q, log_p);
    int64_t words = wgrad_y_words(p);
    if (banded) {
        if (!wgrad_band(p, WGRAD_ENTRIES, WGRAD_SHARED)) {
            return -1;
        }
        words += wgrad_band_words(p);
    } else {
        const int32_t q = 1 << log_q;
        p.entries = p.columns / 8 * WGRAD_PIXELS;
        p.pitch = WGRAD_PITCH;
        p.span = 1;
        p.x_words = p.columns * WGRAD_PITCH;
        words += p.columns * (WGRAD_PIXELS >> log_q) * (q + 4);
        if (p.entries > WGRAD_ENTRIES) {
            return -1;
        }
    }
    p.stage_words = p.x_words + p.rows * WGRAD_PITCH;
    const int32_t table = wgrad_table_bytes(p);
    p.stages = 2;
    while (p.stages < 4 && table + (p.stages + 1) * p.stage_words * 4 <= WGRAD_SHARED) {
        ++p.stages;
    }
    p.shared_bytes = table + p.stages * p.stage_words * 4;
    if (p.shared_bytes > WGRAD_SHARED) {
        return -1;
    }
    return (double)wgrad_box_cost(tile, math, words) * p.tiles * p.all_boxes;
}

/* Splits of K: what fills the GPU in whole waves, counting what their sums cost. Long chains of
 * sums inside the tensor core, which truncates, are kept below 16384 pixels where nothing else
 * shortens them. */
static inline void wgrad_split(wgrad_plan &p, uf_mma_math math, double cost) {
    const double boxes = (double)p.tiles * p.all_boxes;
    const int64_t one =
        boxes > 0.0 ? (int64_t)(2.0 * cost / boxes) : 1; /* two blocks share a cycle */
    const int64_t longest = math == UF_MMA_TF32X3 ? 1024 : 512;
    int64_t least = wgrad_div_up(p.all_boxes, longest);
    least = least < 1 ? 1 : least > 32768 ? 32768 : least;
    int64_t best = -1;
    p.splits = (int32_t)least;
    for (int64_t splits = least; splits <= least + WGRAD_BLOCKS; ++splits) {
        if (splits > least && splits * 4 > p.all_boxes) {
            break;
        }
        const int64_t waves = wgrad_div_up(p.tiles * splits, WGRAD_BLOCKS);
        const int64_t total_cost = waves * (wgrad_div_up(p.all_boxes, splits) + 4) * one +
                                   splits * p.tiles * p.rows * p.columns * 8 / 1600;
        if (best < 0 || total_cost < best) {
            best = total_cost;
            p.splits = (int32_t)splits;
            p.cost = (double)total_cost;
        }
    }
    p.adders = p.splits >= 16 ? 8 : 1;
}

/* What does not depend on tiles. */
static inline wgrad_plan wgrad_begin(const uf_conv_kernel_args *args) {
    wgrad_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.x = (const float *)args->x.data;
    plan.y = (const float *)args->y.data;
    plan.w = (float *)args->w.data;
    plan.partial = (float *)args->workspace;
    for (int axis = 0; axis < 4; ++axis) {
        plan.x_stride[axis] = args->x.stride[axis];
        plan.y_stride[axis] = args->y.stride[axis];
        plan.w_stride[axis] = args->w.stride[axis];
    }
    plan.batch = (int32_t)args->y.extent[0];
    plan.groups = (int32_t)args->groups;
    plan.k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    plan.c_per_group = (int32_t)args->w.extent[1];
    plan.taps_w = (int32_t)args->w.extent[3];
    plan.taps = (int32_t)(args->w.extent[2] * args->w.extent[3]);
    for (int axis = 0; axis < 2; ++axis) {
        plan.large[axis] = (int32_t)args->x.extent[2 + axis];
        plan.small[axis] = (int32_t)args->y.extent[2 + axis];
        plan.stride[axis] = (int32_t)args->stride[axis];
        plan.padding[axis] = (int32_t)args->padding[axis];
        plan.dilation[axis] = (int32_t)args->dilation[axis];
    }
    plan.accumulate = args->mode == UF_ACCUMULATE;
    return plan;
}

static inline wgrad_plan wgrad_plan_of(const uf_conv_kernel_args *args) {
    wgrad_plan plan = wgrad_begin(args);
    wgrad_plan best = plan;
    double least = -1.0;
    for (int32_t tile = 0; wgrad_tile_of(tile, uf_mma_math_of(args)).rows != 0; ++tile) {
        for (int banded = 1; banded >= 0; --banded) {
            for (int32_t log_q = 5; log_q >= 0; --log_q) {
                for (int32_t log_p = 5 - log_q; log_p >= 0; --log_p) {
                    const double cost =
                        wgrad_try(plan, uf_mma_math_of(args), tile, banded != 0, log_q, log_p);
                    if (cost >= 0.0 && (least < 0.0 || cost < least)) {
                        least = cost;
                        best = plan;
                    }
                }
            }
        }
    }
    wgrad_split(best, uf_mma_math_of(args), least);
    /* Four pixels of y at once: where they are neighbours, never beyond the end of a row, and
     * aligned. */
    best.vector_y = best.log_q >= 2 && best.small[1] % 4 == 0 && best.y_stride[3] == 1 &&
                    best.y_stride[0] % 4 == 0 && best.y_stride[1] % 4 == 0 &&
                    best.y_stride[2] % 4 == 0 && (uintptr_t)best.y % 16 == 0;
    return best;
}

static inline size_t wgrad_workspace(const wgrad_plan &p) {
    const size_t sums =
        p.share > 0 ? (size_t)(wgrad_shares(p) + p.tiles - 1) : (size_t)p.splits * (size_t)p.tiles;
    return sums * (size_t)(p.rows * p.columns) * sizeof(float);
}

#endif
