/* plan.c - columns, depth and tile of conv_im2col. */
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/cost.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/fit.h"
#include "kernels/cuda/conv/registry.h"

static bool near(int64_t stride, int64_t steps, int64_t limit) {
    const int64_t size = stride < 0 ? -stride : stride;
    return size < limit && size * steps < limit;
}

/* Lists the different offsets of an axis, and the tap of each phase at each of them. */
static bool find_offsets(const uf_direct_axis *axis, const uf_direct_tap taps[UF_DIRECT_TAPS],
                         int32_t count, int64_t offset[UF_IM2COL_TAPS], int32_t *offsets,
                         uint8_t tap[UF_IM2COL_TAPS][UF_IM2COL_TAPS]) {
    memset(tap, UF_IM2COL_NONE, UF_IM2COL_TAPS * UF_IM2COL_TAPS);
    *offsets = 0;
    if (axis->live > UF_IM2COL_TAPS) {
        return false;
    }
    for (int32_t t = 0; t < count; ++t) {
        int32_t at = 0;
        while (at < *offsets && offset[at] != taps[t].offset) {
            ++at;
        }
        if (at == UF_IM2COL_TAPS) {
            return false;
        }
        if (at == *offsets) {
            offset[(*offsets)++] = taps[t].offset;
        }
        tap[taps[t].phase][at] = (uint8_t)taps[t].tap;
    }
    return true;
}

/* 8-column blocks of a warp: whole pairs, as few slices as possible. */
static int32_t choose_n(int32_t columns, int32_t phases) {
    static const int32_t widths[] = {1, 2, 4, 6, 8};
    int32_t best = 0;
    int64_t least = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
        const int32_t pairs = widths[i] * 8 / phases;
        if (pairs == 0) {
            continue;
        }
        /* MMAs, and the fixed cost of a slice */
        const int64_t total_cost = uf_div_up(columns / phases, pairs) * (widths[i] + 3);
        if (best == 0 || total_cost < least) {
            best = widths[i];
            least = total_cost;
        }
    }
    return best;
}

static bool describe(const uf_conv_problem *problem, uf_im2col_layer *layer) {
    const uf_conv_kernel_args *args = problem->args;
    const bool dgrad = problem->direction == UF_CONV_DGRAD;
    const uf_view *read = uf_conv_read(problem), *written = uf_conv_written(problem);
    memset(layer, 0, sizeof *layer);
    layer->multiprocessors = problem->gpu->multiprocessors;
    uf_im2col_plan *plan = &layer->plan;
    uf_im2col_conv *im2col = &plan->im2col;
    uf_direct_conv *conv = &im2col->conv;
    uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    uf_direct_tap taps[2][UF_DIRECT_TAPS];
    int32_t begin[UF_DIRECT_TAPS + 1];
    if (problem->direction == UF_CONV_WGRAD || uf_view_count(&args->x) == 0 ||
        uf_view_count(&args->y) == 0 || uf_view_count(&args->w) == 0 ||
        !uf_direct_axis_of(args, dgrad, 0, rows, taps[0], begin) ||
        !uf_direct_axis_of(args, dgrad, 1, columns, taps[1], begin)) {
        return false;
    }
    uf_direct_describe(conv, args, dgrad);
    layer->element = uf_dtype_size(read->dtype);
    im2col->split_parts = args->math == UF_MATH_FP32 && read->dtype == UF_F32 ? 2 : 1;
    im2col->unit = args->math == UF_MATH_BF16 || read->dtype == UF_BF16 ? 8 : 4;

    /* Aligned copies need aligned rows. Windows then begin aligned too, because tiles are at least
     * 8 cells wide. */
    im2col->width = 4;
    if (read->stride[3] != 1) {
        im2col->width = 1;
    } else {
        const int64_t all = uf_gcd(uf_gcd(read->stride[0], read->stride[1]),
                                   uf_gcd(read->stride[2], read->extent[3]));
        while (im2col->width > 1 &&
               (all % im2col->width != 0 ||
                (uintptr_t)read->data % ((size_t)im2col->width * layer->element) != 0)) {
            im2col->width /= 2;
        }
    }
    const int32_t from =
        (columns->cell_first * columns->in_step + columns->low) & (im2col->width - 1);
    uf_direct_lower(columns, taps[1], conv->kernel[1], from);
    uf_direct_find_residues(rows, taps[0], conv->kernel[0]);
    columns->residues = 1;
    layer->cell_span[0] = rows->span;
    layer->cell_span[1] = columns->span;
    if (!find_offsets(rows, taps[0], conv->kernel[0], layer->offset[0], &im2col->offsets[0],
                      im2col->row_tap) ||
        !find_offsets(columns, taps[1], conv->kernel[1], layer->offset[1], &im2col->offsets[1],
                      im2col->column_tap)) {
        return false;
    }
    for (int32_t i = 0; i < im2col->offsets[1]; ++i) {
        im2col->column_from[i] = (int32_t)layer->offset[1][i];
    }
    /* Kernels compute offsets within windows and filters in 32 bits. */
    const int64_t far = INT64_C(1) << 30;
    for (int axis = 1; axis < 4; ++axis) {
        /* Offsets within an image too; tiles begin and end a little outside. */
        if (!near(read->stride[axis], read->extent[axis] + 64, far / 2) ||
            !near(written->stride[axis], written->extent[axis] + 64, far / 2)) {
            return false;
        }
    }
    if (!near(read->stride[2], UF_IM2COL_SHARED, far) ||
        !near(read->stride[3], UF_IM2COL_SHARED, far) ||
        !near(conv->w_read, conv->read_per_group, far) ||
        !near(conv->w_row, conv->kernel[0], far) || !near(conv->w_column, conv->kernel[1], far)) {
        return false;
    }
    const int32_t coords = im2col->offsets[0] * im2col->offsets[1];

    /* Few channels fill a unit only together with their neighbours. */
    im2col->gathered =
        conv->read_per_group < im2col->unit &&
        im2col->offsets[0] * uf_div_up(conv->read_per_group * im2col->offsets[1], im2col->unit) <
            coords;

    const int64_t all_pairs = (int64_t)rows->live * conv->written_per_group;
    if (all_pairs * columns->live > 1 << 20) {
        return false;
    }
    im2col->pairs = (int32_t)all_pairs;
    plan->n = choose_n(im2col->pairs * columns->live, columns->live);
    if (plan->n == 0) {
        return false;
    }
    im2col->by_written = uf_direct_divisor_of(conv->written_per_group);
    im2col->lines = conv->written_stride[3] == 1 && conv->activation == UF_ACTIVATION_IDENTITY &&
                    !conv->accumulate;
    im2col->dead_turns =
        im2col->lines ? (int32_t)uf_div_up(columns->out_step - columns->live, columns->live) : 0;
    int32_t dead = 0;
    for (int32_t phase = 0; columns->live < columns->out_step && phase < columns->out_step;
         ++phase) {
        if (columns->map[phase] == UF_DIRECT_DEAD) {
            im2col->dead_phase[dead++] = (uint8_t)phase;
        }
    }
    return true;
}

/* Fills in the members that the choice of the tile does not depend on. */
static void finish(const uf_im2col_layer *layer, uf_im2col_plan *plan) {
    uf_im2col_conv *im2col = &plan->im2col;
    uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int32_t skew = (int32_t)im2col->by_skew.divisor;
    for (int32_t i = 0; i < im2col->offsets[0]; ++i) {
        const int32_t line = uf_direct_residue(rows, layer->offset[0][i]) * rows->coords +
                             (int32_t)(layer->offset[0][i] / rows->in_step);
        im2col->row_offset[i] = line * im2col->cell_row;
    }
    for (int32_t i = 0; i < im2col->offsets[1]; ++i) {
        const int32_t column = im2col->column_from[i];
        im2col->column_offset[i] =
            im2col->gathered ? 0 : (column + (skew > 0 ? column / skew : 0)) * 16;
    }
    im2col->exact = im2col->slice_pairs * columns->live == 8 * plan->n &&
                    im2col->cells == 16 * plan->m * im2col->warps;
    im2col->by_lines = uf_direct_divisor_of(im2col->lines_in);
    im2col->by_vectors = uf_direct_divisor_of(im2col->vectors);
    im2col->by_steps = uf_direct_divisor_of(im2col->steps);
    const int32_t eights = im2col->part_slices * plan->n;
    im2col->by_sharing = uf_direct_divisor_of(eights < im2col->warps ? im2col->warps / eights : 1);
    im2col->by_parts = uf_direct_divisor_of(im2col->parts);
    im2col->by_families = uf_direct_divisor_of((int64_t)conv->groups * im2col->parts);
    im2col->by_live = uf_direct_divisor_of(columns->live);
    im2col->by_record = uf_direct_divisor_of(im2col->record);
    im2col->by_offsets = uf_direct_divisor_of(im2col->offsets[1]);
    conv->by_coords = uf_direct_divisor_of(rows->coords);
    im2col->by_tiles_w = uf_direct_divisor_of(columns->tiles);
    im2col->by_tiles_h = uf_direct_divisor_of(rows->tiles);
    im2col->by_tile_h = uf_direct_divisor_of(rows->tile);
    im2col->by_tile_w = uf_direct_divisor_of(columns->tile);
}

/* Tries tiles `across` cells from each other, at most as high as the cells of `warps` warps allow;
 * `movers` more warps have no cells. Tiles are `more` cells wider. Where a cell begins before the
 * image, the lines of a tile begin at whole sectors only if the next tile writes the first
 * elements. */
static void try_tiles(const uf_im2col_layer *layer, int32_t warps, int32_t movers, int64_t across,
                      int32_t more, uf_im2col_plan *best) {
    uf_im2col_plan plan = layer->plan;
    uf_im2col_conv *im2col = &plan.im2col;
    uf_direct_axis *rows = &im2col->conv.axis[0], *columns = &im2col->conv.axis[1];
    const int64_t most = (int64_t)warps * plan.m * 16 / (across + more);
    if (most < 1) {
        return;
    }
    uf_direct_set_tile(columns, layer->cell_span[1], across + more);
    im2col->across = (int32_t)across;
    im2col->skip = more > 0 ? columns->out_shift - columns->out_step * columns->cell_first : 0;
    im2col->take = (int32_t)across * columns->out_step;
    if (more > 0) {
        columns->tiles = (int32_t)uf_div_up(columns->written, im2col->take);
    }
    uf_direct_set_tile(rows, layer->cell_span[0],
                       uf_div_up(rows->cells, uf_div_up(rows->cells, most)));
    const int64_t tiles = (int64_t)im2col->conv.batch * rows->tiles * columns->tiles;
    if (tiles >= 1 << 28) {
        return;
    }
    im2col->warps = warps + movers;
    im2col->cells = rows->tile * columns->tile;
    im2col->tiles = (int32_t)tiles;
    int64_t tried = 0;
    double least = 0;
    const int64_t channels = im2col->conv.read_per_group;
    for (int64_t pieces = 1; pieces <= 16; ++pieces) {
        const int64_t part = uf_div_up(channels, pieces);
        const int64_t chunk = part >= channels ? channels : uf_round_up(part, im2col->unit);
        const bool fits = chunk != tried && chunk <= channels && uf_im2col_fit(layer, chunk, &plan);
        if (fits && (best->threads == 0 || plan.cost < best->cost)) {
            *best = plan;
        }
        tried = chunk;
        /* More chunks first make room for more blocks, and then only cost more. */
        if (im2col->gathered || chunk <= im2col->unit ||
            (fits && least > 0 && plan.cost > 1.1 * least)) {
            break;
        }
        if (fits && (least == 0 || plan.cost < least)) {
            least = plan.cost;
        }
    }
}

/* Tries tiles of every number of warps. With `movers`, at most half of a block's warps compute and
 * the others only move data. */
static void try_warps(const uf_im2col_layer *layer, bool movers, uf_im2col_plan *best) {
    const int64_t cells = layer->plan.im2col.conv.axis[1].cells;
    const bool late = layer->plan.im2col.lines && uf_im2col_begin_at(&layer->plan.im2col) > 0 &&
                      layer->plan.im2col.conv.written_stride[2] * (int64_t)layer->element % 32 == 0;
    for (int32_t warps = UF_IM2COL_WARPS / (movers ? 2 : 1); warps >= 1; --warps) {
        const int64_t most = (int64_t)warps * layer->plan.m * 16;
        const int32_t more = movers ? UF_IM2COL_WARPS - warps : 0;
        /* All columns, or tiles whose windows begin aligned. */
        if (cells <= most) {
            try_tiles(layer, warps, more, cells, 0, best);
        }
        for (int64_t width = 8; width <= most && width < cells; width *= 2) {
            try_tiles(layer, warps, more, width, late ? 1 : 0, best);
        }
        if (most % 16 == 0 && most < cells && (most & (most - 1)) != 0) {
            try_tiles(layer, warps, more, most, 0, best);
        }
    }
}

/* Rows of a warp: see uf_im2col_tile_of. */
typedef enum rows_tried { MOST_ROWS, FEWER_ROWS, ANY_ROWS } rows_tried;

/* Tries slices of n 8-column blocks, whole pairs. */
static void try_columns(uf_im2col_layer *layer, int32_t n, rows_tried rows, uf_im2col_plan *best) {
    uf_im2col_conv *im2col = &layer->plan.im2col;
    layer->plan.n = n;
    im2col->slice_pairs = n * 8 / im2col->conv.axis[1].live;
    im2col->slices = (int32_t)uf_div_up(im2col->pairs, im2col->slice_pairs);
    const int32_t most = uf_im2col_rows(n, im2col->split_parts),
                  fewer = uf_im2col_fewer_rows(n, im2col->split_parts);
    if (rows != FEWER_ROWS) {
        layer->plan.m = most;
        try_warps(layer, false, best);
    }
    if (fewer < most && rows != MOST_ROWS) {
        layer->plan.m = fewer;
        try_warps(layer, false, best);
    }
    /* Shared memory holds few warps' windows: the other warps of a block load them. */
    const bool movers =
        rows == ANY_ROWS
            ? best->threads > 0 && uf_im2col_blocks_at_once(best) * best->im2col.warps <= 8
            : (rows == FEWER_ROWS) == (fewer < most);
    if (im2col->lines && movers) {
        layer->plan.m = fewer;
        try_warps(layer, true, best);
    }
}

int uf_im2col_tile_of(const uf_im2col_plan *plan) {
    const uf_im2col_conv *im2col = &plan->im2col;
    const int32_t live = im2col->conv.axis[1].live;
    return (plan->n == choose_n(im2col->pairs * live, live) ? 0 : 2) +
           (plan->m == uf_im2col_rows(plan->n, im2col->split_parts) ? MOST_ROWS : FEWER_ROWS);
}

bool uf_im2col_plan_of(const uf_conv_problem *problem, uf_im2col_plan *plan) {
    uf_im2col_layer layer;
    memset(plan, 0, sizeof *plan);
    if (!describe(problem, &layer)) {
        return false;
    }
    const bool any = problem->tile == UF_CONV_ANY_TILE;
    const rows_tried rows = any ? ANY_ROWS : (rows_tried)(problem->tile % 2);
    const int32_t n = layer.plan.n;
    const bool narrower = n * 4 >= layer.plan.im2col.conv.axis[1].live && n > 1;
    if (any || problem->tile / 2 == 0) {
        try_columns(&layer, n, rows, plan);
    }
    /* Weights that fill shared memory force small tiles. Fewer columns at a time are taken where
     * the model says that they save a tenth. */
    if (narrower && (any ? plan->threads > 0 && 4 * plan->im2col.weight_words > UF_IM2COL_SHARED / 3
                         : problem->tile / 2 == 1)) {
        uf_im2col_plan fewer;
        memset(&fewer, 0, sizeof fewer);
        try_columns(&layer, n == 6 ? 4 : n / 2, rows, &fewer);
        if (fewer.threads > 0 && (!any || fewer.cost < 0.9 * plan->cost)) {
            *plan = fewer;
        }
    }
    if (plan->threads == 0) {
        return false;
    }
    finish(&layer, plan);
    return true;
}

/* A workspace query may come before the tensors: there is a plan wherever what is read begins.
 * Narrower copies may have no tile that fits. */
static bool fits_anywhere(const uf_conv_problem *problem, int32_t width) {
    uf_conv_kernel_args args = *problem->args;
    uf_conv_problem other = *problem;
    other.args = &args;
    uf_view *const read = problem->direction == UF_CONV_DGRAD ? &args.y : &args.x;
    uf_im2col_plan plan;
    for (int32_t narrower = width / 2; narrower >= 1; narrower /= 2) {
        read->data = (void *)((uintptr_t)narrower * uf_dtype_size(read->dtype));
        if (!uf_im2col_plan_of(&other, &plan)) {
            return false;
        }
    }
    return true;
}

bool uf_conv_plan_mma_im2col(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_im2col_plan *const own = UF_CONV_PLAN_OF(uf_im2col_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_im2col_plan_of(problem, own) ||
        !fits_anywhere(problem, own->im2col.width)) {
        return false;
    }
    plan->tile = uf_im2col_tile_of(own);
    plan->tiles = UF_IM2COL_TILE_NUMBERS;
    uf_direct_clear_addresses(&own->im2col.conv);
    plan->cost = own->cost;
    plan->workspace = 0;
    return true;
}
