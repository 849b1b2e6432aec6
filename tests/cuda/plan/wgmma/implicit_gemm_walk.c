/* implicit_gemm_walk.c - see cuda/plan/wgmma/implicit_gemm_walk.h. */
#include "cuda/plan/wgmma/implicit_gemm_walk.h"

#include "kernels/geometry.h"

/* Written elements (h, w) of one phase pair, by element of the phase. */
static uf_axis_walk walk_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int axis,
                            int64_t phase) {
    return direction == UF_CONV_DGRAD
               ? uf_axis_dgrad(args->x.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis], phase)
               : uf_axis_fprop(args->y.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis]);
}

/* A row of a window: which image of the tile, which position. */
typedef struct row_coord {
    int64_t image, y, x;
} row_coord;

static row_coord coord_of_row(const uf_wgmma_geometry *g, int64_t row) {
    const uf_wgmma_axis *down = &g->axis[0], *across = &g->axis[1];
    const int64_t image_across = row & ((1 << across->images_log) - 1);
    int64_t rest = row >> across->images_log;
    row_coord at;
    at.x = rest % across->extent;
    rest /= across->extent;
    at.x += 8 * (rest & ((1 << g->patch_log) - 1));
    rest >>= g->patch_log;
    const int64_t image_down = rest & ((1 << down->images_log) - 1);
    rest >>= down->images_log;
    at.y = rest % down->extent;
    at.image = ((rest / down->extent << down->images_log) + image_down) << across->images_log;
    at.image += image_across;
    return at;
}

/* Column `column` of product `product` of a tile: which image, which element of the phase from the
 * tile's first. */
static row_coord coord_of_column(const uf_wgmma_geometry *g, int64_t product, int64_t column) {
    const uf_wgmma_axis *down = &g->axis[0], *across = &g->axis[1];
    const int64_t run = column >> (3 + g->runs_log), in_run = column & 7;
    const int64_t beside = (column >> 3) & ((1 << g->runs_log) - 1);
    row_coord at;
    at.y = (down->mmas > 1 ? product * down->patch : 0) + (run >> down->images_log);
    at.x = (across->mmas > 1 ? product * across->patch : 0) + beside * 8 +
           (in_run >> across->images_log);
    at.image = g->image_mmas > 1 ? product << (down->images_log + across->images_log) : 0;
    at.image += ((run & ((1 << down->images_log) - 1)) << across->images_log) +
                (in_run & ((1 << across->images_log) - 1));
    return at;
}

/* Rows of images below each other: which image, and its row; -1 is above all of them. */
static int64_t unstack(const uf_wgmma_geometry *g, int64_t *row) {
    const int64_t image = g->stack > 0 && *row >= 0 ? *row / g->stack : 0;
    if (g->stack > 0 && *row >= 0) {
        assert_int_equal(image, (int64_t)((uint64_t)*row * g->stack_inverse >> 32));
    }
    *row -= image * g->stack;
    return image;
}

/* A tap of a pair, and whose: where phases are merged, of even columns (0) or odd ones (1). */
typedef struct tap_entry {
    int32_t pair, entry;
    int64_t side, tap[2];
} tap_entry;

/* The written elements of a tap; of merged odd columns they are `back` before the even ones'. */
static int64_t walks_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        const uf_wgmma_geometry *g, const tap_entry *of, uf_axis_walk walk[2]) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t phase = dgrad ? of->pair : 0;
    const int64_t across = dgrad ? args->stride[1] : 1;
    walk[0] = walk_of(direction, args, 0, g->merged ? phase : phase / across);
    walk[1] =
        walk_of(direction, args, 1, g->merged ? (of->side + args->padding[1]) % 2 : phase % across);
    assert_true(!g->merged || walk[1].out_count == 0 || walk[1].out_first == of->side);
    return g->merged && of->side == 1 ? g->merged_back : 0;
}

/* Where position `position` of a line is, and is there an element of the image? */
static row_coord coord_on_line(const uf_wgmma_geometry *g, int64_t position) {
    const int64_t row = position / g->line;
    row_coord at;
    assert_int_equal(row, (int64_t)((uint64_t)position * g->line_inverse >> 32));
    if (g->stack > 1) {
        assert_int_equal(row / g->stack, (int64_t)((uint64_t)row * g->stack_inverse >> 32));
    }
    at.image = row / g->stack;
    at.y = row % g->stack;
    at.x = position % g->line;
    return at;
}

/* A tile of channels, images and pixels; and what one of its warpgroups makes. */
typedef struct wgmma_at {
    int64_t group, block_m, n, y, x, line; /* line: the tile's number on it */
} wgmma_at;

static wgmma_at tile_of(const uf_wgmma_geometry *g, int64_t tile) {
    wgmma_at at;
    const int64_t turn = tile / g->together / g->coords;
    int64_t rest = tile / g->together % g->coords;
    at.block_m = tile % g->together +
                 (g->backwards ? g->blocks_m - (turn + 1) * g->together : turn * g->together);
    at.line = rest % g->axis[1].tiles;
    at.x = at.line * g->axis[1].patch * g->axis[1].mmas;
    rest /= g->axis[1].tiles;
    at.y = rest % g->axis[0].tiles * g->axis[0].patch * g->axis[0].mmas;
    rest /= g->axis[0].tiles;
    at.n = rest % g->image_tiles * g->image_mmas << (g->axis[0].images_log + g->axis[1].images_log);
    at.group = rest / g->image_tiles;
    return at;
}

/* Phase and block of channels of a warpgroup; false: it idles. */
static bool role_of(const uf_wgmma_geometry *g, int64_t sub, int64_t *phase, int64_t *block) {
    const int64_t pair = sub >> 1;
    *phase = g->paired ? pair / g->channel_blocks * 2 + (sub & 1) : sub / g->channel_blocks;
    *block = g->paired ? pair % g->channel_blocks : sub % g->channel_blocks;
    return sub < (int64_t)g->phases * g->channel_blocks;
}

int64_t wgmma_chunk_channels(const plan_layer *layer, const uf_wgmma_geometry *g) {
    const bool bf16 = layer->args.x.dtype == UF_BF16 || layer->args.math == UF_MATH_BF16;
    const bool halves = !bf16 && layer->args.math == UF_MATH_FP32;
    return g->planes * (bf16 || g->split_f16 ? 8 : 4) / (halves ? 2 : 1);
}

typedef struct wgmma_walk {
    plan_walk *walk;
    uf_conv_direction direction;
    uf_conv_kernel_args args; /* canonical */
    const uf_wgmma_geometry *g;
} wgmma_walk;

static void set_written(const wgmma_walk *of, const uf_axis_walk walk[2], const row_coord *at,
                        plan_term *term) {
    int64_t *const written = of->direction == UF_CONV_DGRAD ? term->large : term->small;
    term->n = at->image;
    written[0] = walk[0].out_first + at->y * walk[0].out_step;
    written[1] = walk[1].out_first + at->x * walk[1].out_step;
    if (at->y < 0 || at->x < 0 || at->y >= walk[0].out_count || at->x >= walk[1].out_count) {
        term->n = -1; /* nobody's */
    }
}

/* Where column `column` of MMA `mma` of a tile is. */
static row_coord written_at(const uf_wgmma_geometry *g, const wgmma_at *at, int64_t mma,
                            int64_t column) {
    if (g->line > 0) {
        return coord_on_line(g, (at->line * g->nt + mma) * g->pixels + column);
    }
    row_coord written = coord_of_column(g, mma, column);
    written.image += at->n;
    written.y += at->y;
    written.x += at->x;
    written.image += unstack(g, &written.y);
    return written;
}

/* The element that a position of a window is, of a line or of a tile; its image. */
static int64_t read_at(const uf_wgmma_geometry *g, const wgmma_at *at, int64_t klass, int64_t row,
                       int64_t source[2]) {
    row_coord read;
    int64_t position[2];
    assert_true(row >= 0 && row < g->window_rows);
    if (g->line > 0) {
        const int64_t on =
            at->line * g->nt * g->pixels + g->axis[1].first + g->class_first[klass][1] + row;
        assert_true(on >= 0 && on < uf_wgmma_line_end(g));
        read = coord_on_line(g, on);
        position[0] = read.y - g->line_first[0];
        position[1] = read.x - g->line_first[1];
    } else {
        read = coord_of_row(g, row);
        read.image += at->n;
        read.y += at->y + g->axis[0].first + g->class_first[klass][0];
        read.image += unstack(g, &read.y);
        position[0] = read.y;
        position[1] = read.x + at->x + g->axis[1].first + g->class_first[klass][1];
    }
    for (int axis = 0; axis < 2; ++axis) {
        source[axis] = position[axis] * g->axis[axis].mul + g->class_of[klass][axis];
    }
    return read.image;
}

/* One tap, at all columns of a tile. */
static void walk_tap(const wgmma_walk *of, const wgmma_at *at, const tap_entry *tap,
                     plan_term *term) {
    const uf_wgmma_geometry *g = of->g;
    const bool dgrad = of->direction == UF_CONV_DGRAD;
    const int64_t klass = dgrad ? 0 : tap->pair;
    const int run_log = 3 + g->runs_log - g->patch_log;
    uf_axis_walk walk[2];
    const int64_t back = walks_of(of->direction, &of->args, g, tap, walk);
    term->tap[0] = tap->tap[0];
    term->tap[1] = tap->tap[1];
    for (int64_t i = 0; i < (int64_t)g->nt * g->pixels; ++i) {
        const int64_t mma = i / g->pixels, column = i % g->pixels;
        const int64_t row = g->line > 0
                                ? i + g->shift[tap->entry]
                                : mma * g->mma_rows + (column >> run_log) * g->mma_pitch +
                                      (column & ((1 << run_log) - 1)) + g->shift[tap->entry];
        row_coord written = written_at(g, at, mma, column);
        const int64_t image = read_at(g, at, klass, row, dgrad ? term->small : term->large);
        written.x -= back;
        set_written(of, walk, &written, term);
        const uf_view *read = dgrad ? &of->args.y : &of->args.x;
        const int64_t *source = dgrad ? term->small : term->large;
        const bool is_there = source[0] >= 0 && source[0] < read->extent[2] && source[1] >= 0 &&
                              source[1] < read->extent[3];
        if (term->n >= 0 && image != written.image) {
            assert_false(is_there && image < read->extent[0]); /* a row of no image */
            term->n = -1;
        }
        plan_make(of->walk, term);
    }
}

/* All taps of a warpgroup's phase, with channels of some chunks. */
static void walk_role(const wgmma_walk *of, const wgmma_at *at, int64_t phase, plan_term *term) {
    const uf_wgmma_geometry *g = of->g;
    for (int64_t pair = phase * g->classes; pair < (phase + 1) * g->classes; ++pair) {
        for (int32_t entry = g->first_tap[pair]; entry < g->first_tap[pair + 1]; ++entry) {
            for (int64_t side = 0; side < (g->merged ? 2 : 1); ++side) {
                const tap_entry tap = {
                    (int32_t)pair,
                    entry,
                    side,
                    {g->tap_of[entry][0], side == 1 ? g->odd_tap[entry] : g->tap_of[entry][1]}};
                if (tap.tap[1] != UF_WGMMA_NO_TAP) {
                    walk_tap(of, at, &tap, term);
                }
            }
        }
    }
}

static void store_role(const wgmma_walk *of, const wgmma_at *at, int64_t phase, plan_term *term) {
    const uf_wgmma_geometry *g = of->g;
    for (int64_t side = 0; side < (g->merged ? 2 : 1); ++side) {
        const tap_entry tap = {(int32_t)phase, 0, side, {0, 0}};
        uf_axis_walk walk[2];
        const int64_t back = walks_of(of->direction, &of->args, g, &tap, walk);
        for (int64_t i = 0; i < (int64_t)g->nt * g->pixels; ++i) {
            row_coord written = written_at(g, at, i / g->pixels, i % g->pixels);
            written.x -= back;
            set_written(of, walk, &written, term);
            plan_store(of->walk, term);
        }
    }
}

static void walk_tile(const wgmma_walk *of, int64_t tile, const int64_t channels[2]) {
    const uf_wgmma_geometry *g = of->g;
    const bool dgrad = of->direction == UF_CONV_DGRAD;
    const wgmma_at at = tile_of(g, tile);
    plan_term term = {.group = at.group};
    int64_t *const written = dgrad ? term.c : term.k, *const read = dgrad ? term.k : term.c;
    for (int64_t sub = at.block_m * g->wm; sub < (at.block_m + 1) * g->wm; ++sub) {
        int64_t phase = 0, block = 0;
        const int64_t each = g->columns > 0 ? g->columns : g->block_channels;
        if (g->columns == 0 && !role_of(g, sub, &phase, &block)) {
            continue;
        }
        written[0] = block * each;
        written[1] = written[0] + each;
        read[0] = channels[0];
        read[1] = channels[1];
        walk_role(of, &at, phase, &term);
        if (channels[0] == 0) { /* the CTA with the first chunks stores */
            store_role(of, &at, phase, &term);
        }
    }
}

static wgmma_walk begin_walk(plan_walk *walk, const plan_layer *layer, const void *plan) {
    const uf_wgmma_geometry *g = plan;
    return (wgmma_walk){walk, layer->direction,
                        g->columns > 0 ? layer->args : uf_wgmma_canonical(&layer->args), g};
}

void wgmma_walk_tiles(plan_walk *walk, const plan_layer *layer, const void *plan) {
    const uf_wgmma_geometry *g = plan;
    const wgmma_walk of = begin_walk(walk, layer, plan);
    const int64_t each = wgmma_chunk_channels(layer, g);
    for (int32_t block = 0; block < g->stream_k; ++block) {
        const uf_wgmma_cut from = uf_wgmma_cut_of(g, block), to = uf_wgmma_cut_of(g, block + 1);
        plan_share(walk, (int64_t)from.tile * g->chunks + from.chunk,
                   (int64_t)to.tile * g->chunks + to.chunk, g->tiles * g->chunks);
        for (int64_t tile = from.tile; tile < to.tile + (to.chunk > 0); ++tile) {
            const int64_t channels[2] = {(tile == from.tile ? from.chunk : 0) * each,
                                         (tile == to.tile ? to.chunk : g->chunks) * each};
            walk_tile(&of, tile, channels);
        }
    }
    for (int64_t i = 0; g->stream_k == 0 && i < g->tiles * g->splits; ++i) {
        const int32_t split = (int32_t)(i % g->splits);
        const int32_t begin = uf_wgmma_split_begin(g, split);
        const int32_t end = uf_wgmma_split_begin(g, split + 1);
        const int64_t channels[2] = {begin * each, end * each};
        plan_share(walk, begin, end, g->chunks);
        walk_tile(&of, i / g->splits, channels);
    }
}

void wgmma_walk_some(plan_walk *walk, const plan_layer *layer, const void *plan,
                     test_random *random) {
    const uf_wgmma_geometry *g = plan;
    const wgmma_walk of = begin_walk(walk, layer, plan);
    const int64_t channels[2] = {0, 1};
    const int64_t tiles[] = {0, g->tiles / 2, test_random_integer(random, 0, g->tiles - 1)};
    for (int i = 0; i < COUNT_OF(tiles); ++i) {
        walk_tile(&of, tiles[i], channels);
    }
}
