/* conv_thin_plan.c - columns, depth and tile of conv_thin. */
#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_clocks.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_fit.h"

static int64_t gcd(int64_t a, int64_t b) {
    return b == 0 ? a : gcd(b, a % b);
}

static bool near(int64_t stride, int64_t steps, int64_t limit) {
    const int64_t size = stride < 0 ? -stride : stride;
    return size < limit && size * steps < limit;
}

/* Different offsets of an axis, and which tap each phase has there. */
static bool find_offsets(const uf_direct_axis *axis, const uf_direct_tap taps[UF_DIRECT_TAPS],
                         int32_t count, int64_t offset[UF_THIN_TAPS], int32_t *offsets,
                         uint8_t tap[UF_THIN_TAPS][UF_THIN_TAPS]) {
    memset(tap, UF_THIN_NONE, UF_THIN_TAPS * UF_THIN_TAPS);
    *offsets = 0;
    if (axis->live > UF_THIN_TAPS) {
        return false;
    }
    for (int32_t t = 0; t < count; ++t) {
        int32_t at = 0;
        while (at < *offsets && offset[at] != taps[t].offset) {
            ++at;
        }
        if (at == UF_THIN_TAPS) {
            return false;
        }
        if (at == *offsets) {
            offset[(*offsets)++] = taps[t].offset;
        }
        tap[taps[t].phase][at] = (uint8_t)taps[t].tap;
    }
    return true;
}

/* Columns of a warp in eights: whole channels with their column phases, as few slices as can be. */
static int32_t choose_n(int32_t columns, int32_t phases) {
    static const int32_t widths[] = {1, 2, 4, 6, 8};
    int32_t best = 0;
    int64_t least = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
        const int32_t pairs = widths[i] * 8 / phases;
        if (pairs == 0) {
            continue;
        }
        /* Products, and what each slice costs besides. */
        const int64_t cost = uf_thin_div_up(columns / phases, pairs) * (widths[i] + 3);
        if (best == 0 || cost < least) {
            best = widths[i];
            least = cost;
        }
    }
    return best;
}

static bool describe(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_layer *layer) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x;
    memset(layer, 0, sizeof *layer);
    uf_thin_plan *plan = &layer->plan;
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    uf_direct_tap taps[2][UF_DIRECT_TAPS];
    int32_t begin[UF_DIRECT_TAPS + 1];
    if (direction == UF_CONV_WGRAD || uf_view_count(&args->x) == 0 ||
        uf_view_count(&args->y) == 0 || uf_view_count(&args->w) == 0 ||
        !uf_direct_axis_of(args, dgrad, 0, rows, taps[0], begin) ||
        !uf_direct_axis_of(args, dgrad, 1, columns, taps[1], begin)) {
        return false;
    }
    uf_direct_describe(conv, args, dgrad);
    layer->element = uf_dtype_size(read->dtype);
    thin->halves = args->math == UF_MATH_FP32 && read->dtype == UF_F32 ? 2 : 1;
    thin->unit = args->math == UF_MATH_BF16 || read->dtype == UF_BF16 ? 8 : 4;

    /* Aligned copies: rows begin at such, and so do windows, whose tiles are eight cells wide and
     * more. */
    thin->width = 4;
    if (read->stride[3] != 1) {
        thin->width = 1;
    } else {
        const int64_t all =
            gcd(gcd(read->stride[0], read->stride[1]), gcd(read->stride[2], read->extent[3]));
        while (thin->width > 1 &&
               (all % thin->width != 0 ||
                (uintptr_t)read->data % ((size_t)thin->width * layer->element) != 0)) {
            thin->width /= 2;
        }
    }
    const int32_t from =
        (columns->cell_first * columns->in_step + columns->low) & (thin->width - 1);
    uf_direct_lower(columns, taps[1], conv->kernel[1], from);
    uf_direct_find_residues(rows, taps[0], conv->kernel[0]);
    columns->residues = 1;
    layer->cell_span[0] = rows->span;
    layer->cell_span[1] = columns->span;
    if (!find_offsets(rows, taps[0], conv->kernel[0], layer->offset[0], &thin->offsets[0],
                      thin->row_tap) ||
        !find_offsets(columns, taps[1], conv->kernel[1], layer->offset[1], &thin->offsets[1],
                      thin->column_tap)) {
        return false;
    }
    for (int32_t i = 0; i < thin->offsets[1]; ++i) {
        thin->column_from[i] = (int32_t)layer->offset[1][i];
    }
    /* Places of a window and a filter are told by 32 bits. */
    const int64_t far = INT64_C(1) << 30;
    const uf_view *written = dgrad ? &args->x : &args->y;
    for (int axis = 1; axis < 4; ++axis) {
        /* Within an image, too; tiles begin and end a little outside. */
        if (!near(read->stride[axis], read->extent[axis] + 64, far / 2) ||
            !near(written->stride[axis], written->extent[axis] + 64, far / 2)) {
            return false;
        }
    }
    if (!near(read->stride[2], UF_THIN_SHARED, far) ||
        !near(read->stride[3], UF_THIN_SHARED, far) ||
        !near(conv->w_read, conv->read_per_group, far) ||
        !near(conv->w_row, conv->kernel[0], far) || !near(conv->w_column, conv->kernel[1], far)) {
        return false;
    }
    const int32_t places = thin->offsets[0] * thin->offsets[1];

    /* Few channels fill units only together with their neighbours. */
    thin->gathered =
        conv->read_per_group < thin->unit &&
        thin->offsets[0] * uf_thin_div_up(conv->read_per_group * thin->offsets[1], thin->unit) <
            places;

    const int64_t all_pairs = (int64_t)rows->live * conv->written_per_group;
    if (all_pairs * columns->live > 1 << 20) {
        return false;
    }
    thin->pairs = (int32_t)all_pairs;
    plan->n = choose_n(thin->pairs * columns->live, columns->live);
    if (plan->n == 0) {
        return false;
    }
    thin->by_written = uf_direct_divisor_of(conv->written_per_group);
    thin->lines = conv->written_stride[3] == 1 && conv->activation == UF_ACTIVATION_IDENTITY &&
                  !conv->accumulate;
    thin->dead_turns =
        thin->lines ? (int32_t)uf_thin_div_up(columns->out_step - columns->live, columns->live) : 0;
    int32_t dead = 0;
    for (int32_t phase = 0; columns->live < columns->out_step && phase < columns->out_step;
         ++phase) {
        if (columns->map[phase] == UF_DIRECT_DEAD) {
            thin->dead_phase[dead++] = (uint8_t)phase;
        }
    }
    return true;
}

/* What follows from the tile that was chosen, and need not be known to choose it. */
static void finish(const uf_thin_layer *layer, uf_thin_plan *plan) {
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int32_t skew = (int32_t)thin->by_skew.divisor;
    for (int32_t i = 0; i < thin->offsets[0]; ++i) {
        const int32_t line = uf_direct_residue(rows, layer->offset[0][i]) * rows->places +
                             (int32_t)(layer->offset[0][i] / rows->in_step);
        thin->row_place[i] = line * thin->cell_row;
    }
    for (int32_t i = 0; i < thin->offsets[1]; ++i) {
        const int32_t column = thin->column_from[i];
        thin->column_place[i] = thin->gathered ? 0 : (column + (skew > 0 ? column / skew : 0)) * 16;
    }
    thin->exact = thin->slice_pairs * columns->live == 8 * plan->n &&
                  thin->cells == 16 * plan->m * thin->warps;
    thin->by_lines = uf_direct_divisor_of(thin->lines_in);
    thin->by_vectors = uf_direct_divisor_of(thin->vectors);
    thin->by_steps = uf_direct_divisor_of(thin->steps);
    const int32_t eights = thin->part_slices * plan->n;
    thin->by_sharers = uf_direct_divisor_of(eights < thin->warps ? thin->warps / eights : 1);
    thin->by_parts = uf_direct_divisor_of(thin->parts);
    thin->by_families = uf_direct_divisor_of((int64_t)conv->groups * thin->parts);
    thin->by_live = uf_direct_divisor_of(columns->live);
    thin->by_record = uf_direct_divisor_of(thin->record);
    thin->by_offsets = uf_direct_divisor_of(thin->offsets[1]);
    conv->by_places = uf_direct_divisor_of(rows->places);
    thin->by_tiles_w = uf_direct_divisor_of(columns->tiles);
    thin->by_tiles_h = uf_direct_divisor_of(rows->tiles);
    thin->by_tile_h = uf_direct_divisor_of(rows->tile);
    thin->by_tile_w = uf_direct_divisor_of(columns->tile);
}

/* Tries tiles that come `across` cells after each other, and at most as high as `warps` warps'
 * cells allow; `movers` more warps have no cells. They are `more` cells wider: where a cell begins
 * before the image, lines of tiles begin at whole sectors only if the elements before one are the
 * neighbour's. */
static void try_tiles(const uf_thin_layer *layer, int32_t warps, int32_t movers, int64_t across,
                      int32_t more, uf_thin_plan *best) {
    uf_thin_plan plan = layer->plan;
    uf_thin_conv *thin = &plan.thin;
    uf_direct_axis *rows = &thin->conv.axis[0], *columns = &thin->conv.axis[1];
    const int64_t most = (int64_t)warps * plan.m * 16 / (across + more);
    if (most < 1) {
        return;
    }
    uf_direct_set_tile(columns, layer->cell_span[1], across + more);
    thin->across = (int32_t)across;
    thin->skip = more > 0 ? columns->out_shift - columns->out_step * columns->cell_first : 0;
    thin->take = (int32_t)across * columns->out_step;
    if (more > 0) {
        columns->tiles = (int32_t)uf_thin_div_up(columns->written, thin->take);
    }
    uf_direct_set_tile(rows, layer->cell_span[0],
                       uf_thin_div_up(rows->cells, uf_thin_div_up(rows->cells, most)));
    const int64_t tiles = (int64_t)thin->conv.batch * rows->tiles * columns->tiles;
    if (tiles >= 1 << 28) {
        return;
    }
    thin->warps = warps + movers;
    thin->cells = rows->tile * columns->tile;
    thin->tiles = (int32_t)tiles;
    int64_t tried = 0;
    double least = 0;
    const int64_t channels = thin->conv.read_per_group;
    for (int64_t pieces = 1; pieces <= 16; ++pieces) {
        const int64_t part = uf_thin_div_up(channels, pieces);
        const int64_t chunk = part >= channels ? channels : uf_thin_round_up(part, thin->unit);
        const bool fits = chunk != tried && chunk <= channels && uf_thin_fit(layer, chunk, &plan);
        if (fits && (best->threads == 0 || plan.clocks < best->clocks)) {
            *best = plan;
        }
        tried = chunk;
        /* More chunks once leave room for more blocks, and then only take longer. */
        if (thin->gathered || chunk <= thin->unit ||
            (fits && least > 0 && plan.clocks > 1.1 * least)) {
            break;
        }
        if (fits && (least == 0 || plan.clocks < least)) {
            least = plan.clocks;
        }
    }
}

/* Tiles of up to as many warps as a block has, or as are left of it with half that only move data.
 */
static void try_warps(const uf_thin_layer *layer, bool movers, uf_thin_plan *best) {
    const int64_t cells = layer->plan.thin.conv.axis[1].cells;
    const bool late = layer->plan.thin.lines && uf_thin_begin_at(&layer->plan.thin) > 0 &&
                      layer->plan.thin.conv.written_stride[2] * (int64_t)layer->element % 32 == 0;
    for (int32_t warps = UF_THIN_WARPS / (movers ? 2 : 1); warps >= 1; --warps) {
        const int64_t most = (int64_t)warps * layer->plan.m * 16;
        const int32_t more = movers ? UF_THIN_WARPS - warps : 0;
        /* All columns, or tiles whose windows begin at aligned places. */
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

/* Slices of n eights of columns, whole pairs. */
static void try_columns(uf_thin_layer *layer, int32_t n, uf_thin_plan *best) {
    uf_thin_conv *thin = &layer->plan.thin;
    layer->plan.n = n;
    thin->slice_pairs = n * 8 / thin->conv.axis[1].live;
    thin->slices = (int32_t)uf_thin_div_up(thin->pairs, thin->slice_pairs);
    const int32_t most = uf_thin_rows(n, thin->halves), fewer = uf_thin_fewer_rows(n, thin->halves);
    layer->plan.m = most;
    try_warps(layer, false, best);
    if (fewer < most) {
        layer->plan.m = fewer;
        try_warps(layer, false, best);
    }
    /* Where windows and weights leave few warps a place, the others of a block bring windows. */
    if (thin->lines && best->threads > 0 && uf_thin_blocks_at_once(best) * best->thin.warps <= 8) {
        layer->plan.m = fewer;
        try_warps(layer, true, best);
    }
}

bool uf_thin_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_plan *plan) {
    uf_thin_layer layer;
    memset(plan, 0, sizeof *plan);
    if (!describe(direction, args, &layer)) {
        return false;
    }
    const int32_t n = layer.plan.n;
    try_columns(&layer, n, plan);
    /* Weights that fill shared memory leave small tiles: fewer columns at a time, where that
     * clearly pays. */
    if (plan->threads > 0 && 4 * plan->thin.weight_words > UF_THIN_SHARED / 3 &&
        n * 4 >= layer.plan.thin.conv.axis[1].live && n > 1) {
        uf_thin_plan fewer;
        memset(&fewer, 0, sizeof fewer);
        try_columns(&layer, n == 6 ? 4 : n / 2, &fewer);
        if (fewer.threads > 0 && fewer.clocks < 0.9 * plan->clocks) {
            *plan = fewer;
        }
    }
    if (plan->threads == 0) {
        return false;
    }
    finish(&layer, plan);
    return true;
}
