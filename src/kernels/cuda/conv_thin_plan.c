/* conv_thin_plan.c - columns, depth, tile and shared memory of conv_thin. */
#include "kernels/cuda/conv_thin_plan.h"

#include <string.h>

#include "core/tensor.h"

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return div_up(value, unit) * unit;
}

static int64_t gcd(int64_t a, int64_t b) {
    return b == 0 ? a : gcd(b, a % b);
}

static bool near(int64_t stride, int64_t steps, int64_t limit) {
    const int64_t size = stride < 0 ? -stride : stride;
    return size < limit && size * steps < limit;
}

/* What the tiles that are tried have in common. */
typedef struct thin_layer {
    uf_thin_plan plan; /* without what follows from the tile */
    size_t element;
    int32_t cell_span[2];
    int64_t offset[2][UF_THIN_TAPS];
} thin_layer;

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
static int32_t choose_n(int32_t columns, int32_t phases, int32_t *slice_pairs) {
    static const int32_t widths[] = {1, 2, 4, 6, 8};
    int32_t best = 0;
    int64_t least = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
        const int32_t pairs = widths[i] * 8 / phases;
        if (pairs == 0) {
            continue;
        }
        /* Products, and what each slice costs besides. */
        const int64_t cost = div_up(columns / phases, pairs) * (widths[i] + 3);
        if (best == 0 || cost < least) {
            best = widths[i];
            least = cost;
            *slice_pairs = pairs;
        }
    }
    return best;
}

static bool describe(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     thin_layer *layer) {
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
        thin->offsets[0] * div_up(conv->read_per_group * thin->offsets[1], thin->unit) < places;

    const int64_t all_pairs = (int64_t)rows->live * conv->written_per_group;
    if (all_pairs * columns->live > 1 << 20) {
        return false;
    }
    thin->pairs = (int32_t)all_pairs;
    plan->n = choose_n(thin->pairs * columns->live, columns->live, &thin->slice_pairs);
    if (plan->n == 0) {
        return false;
    }
    plan->m = uf_thin_rows(plan->n, thin->halves);
    thin->slices = (int32_t)div_up(thin->pairs, thin->slice_pairs);
    thin->by_written = uf_direct_divisor_of(conv->written_per_group);
    thin->plain = columns->out_step == 1 && rows->live == 1 && layer->element == 4 && plan->n > 2 &&
                  conv->activation == UF_ACTIVATION_IDENTITY && !conv->accumulate;
    return true;
}

/* Clocks of an H200, from what the parts of a multiprocessor have to do: instructions of warps,
 * words of shared memory, products, requests to write (one in ten clocks, be it 16 bytes or 128).
 */
static double estimate(const thin_layer *layer, const uf_thin_plan *plan, int64_t resident) {
    const uf_thin_conv *thin = &plan->thin;
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const double m = plan->m, n = plan->n, out = columns->out_step;
    const double element = (double)layer->element;
    const bool split = thin->halves == 2;
    const double warps = thin->warps, slices = thin->part_slices;

    const double busy = (double)div_up(thin->cells, 16 * (int64_t)plan->m); /* warps */
    const double steps = busy * slices * thin->steps * conv->chunks;
    double issue = steps * (m * (split ? 14 : 2) + n * (1 + m * (split ? 7 : 1)) + 6);
    double shared = steps * (4 * m + n * 2 * thin->halves + 1);
    const double products = steps * m * n * (split ? 3 : 1) * 6.5 / 4;

    const double loads = (conv->chunks > 1 ? slices : 1) * conv->chunks;
    const double words = thin->unit;
    const double turns =
        (double)div_up((int64_t)thin->positions << thin->share_bits, 32 * (int64_t)thin->warps);
    issue += loads *
             (warps * (turns * (30 + 7 * (double)div_up(conv->chunk, 1 << thin->share_bits)) + 80) +
              (double)thin->records / 32 * (10 + thin->record * (2.0 * words + 6)));
    shared += loads *
              (thin->window_words / 32.0 + (double)thin->records / 32 * thin->record * (words + 4));

    /* The way out: rows of the tile. */
    const double length = columns->tile * out * element;
    const double leaving = (double)rows->tile * thin->slice_pairs * slices;
    double requests = leaving * (length / 128 + 1);
    if (thin->plain) {
        issue += busy * slices * (2 * m * (35 + 6 * n) + 60);
    } else {
        issue += leaving / (thin->flat ? rows->tile : 1) * 28 + leaving * 5 * (length / 128 + 1) +
                 warps * slices * (m * n * 4 + 160);
        shared += leaving * length / element / 32 + warps * slices * m * n * 4 * 2;
    }
    const double dead =
        (double)(rows->out_step - rows->live) * rows->tile * conv->written_per_group / thin->parts;
    requests += dead * (length / 128 + 1);
    issue += dead * (25 + 1.5 * (length / 128 + 1)) + warps * 200;

    /* A warp issues an instruction in about six clocks and a half, all of a multiprocessor at most
     * 2.6 a clock. */
    const double per = (double)div_up((int64_t)thin->tiles * conv->groups * thin->parts, 132);
    const double turns_of = (double)div_up((int64_t)per, resident);
    const double alive = warps * per / turns_of;
    const double rate = alive * 0.155 < 2.6 ? alive * 0.155 : 2.6;
    const double memory = requests * 8;
    /* A half on top: three runs that were profiled took that much longer. */
    issue = issue / rate * (split ? 1.25 : 1.5);
    double most = issue;
    most = shared > most ? shared : most;
    most = products > most ? products : most;
    most = memory > most ? memory : most;
    const double tile = most + 0.1 * (issue + shared + products + memory) + 30 * (loads + slices);
    const double begin =
        (warps * 1200 + (double)thin->weight_words / thin->halves / 64 * 50) / rate;
    return per * tile + per / turns_of * begin + 5000;
}

/* Window, records, weights and stage for tiles that are set and `chunk` channels at a time. */
static bool fit(const thin_layer *layer, int64_t chunk, uf_thin_plan *plan) {
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t limit = UF_THIN_SHARED / 4;
    const int32_t places = thin->offsets[0] * thin->offsets[1];
    /* Neighbouring cells' units are an odd number apart: eight of them are in all banks. */
    const int32_t skew = !thin->gathered && columns->in_step % 2 == 0 ? columns->in_step : 0;

    /* Window: whole rows of residues, `pitch` apart. */
    conv->pitch = (int32_t)round_up(columns->span, 4);
    conv->pitch = skew > 4 ? (int32_t)round_up(conv->pitch, 4 * (int64_t)skew) : conv->pitch;
    const int64_t plane = (int64_t)rows->places * conv->pitch;
    const int64_t channel_words = rows->residues * plane;
    conv->chunk = (int32_t)chunk;
    conv->chunks = (int32_t)div_up(conv->read_per_group, chunk);
    if (channel_words > limit || chunk * channel_words > 4 * limit || chunk > INT16_MAX ||
        rows->span > INT16_MAX) {
        return false;
    }
    conv->plane = (int32_t)plane;
    conv->channel_words = (int32_t)channel_words;
    thin->vectors = (int32_t)div_up(columns->span, thin->width);
    thin->positions = rows->residues * rows->places * thin->vectors;
    /* Finding a place costs about as much as four copies from it. */
    int64_t least = 0;
    for (int32_t bits = 0; 1 << bits <= chunk; ++bits) {
        const int64_t turns = div_up((int64_t)thin->positions << bits, 32 * thin->warps) *
                              (6 + div_up(chunk, 1 << bits));
        if (bits == 0 || turns < least) {
            least = turns;
            thin->share_bits = bits;
        }
    }
    thin->window_words = (int32_t)round_up(chunk * channel_words * (int64_t)layer->element, 16) / 4;
    const int64_t deep = thin->gathered ? chunk * thin->offsets[1] : chunk;
    thin->record = (int32_t)div_up(deep, thin->unit);
    const int64_t records =
        thin->gathered ? (int64_t)rows->residues * rows->places * columns->tile : channel_words;
    const int64_t unit_plane = records + (skew > 0 ? records / skew : 0);
    if (unit_plane * thin->record * 4 > limit) {
        return false;
    }
    thin->records = (int32_t)records;
    thin->unit_plane = (int32_t)unit_plane;
    thin->record_words = (int32_t)unit_plane * thin->record * 4;
    thin->by_skew = uf_direct_divisor_of(skew);
    if (thin->gathered) {
        thin->cell_column = 16;
        thin->cell_row = columns->tile * 16;
    } else {
        thin->cell_column = (columns->in_step + (skew > 0 ? 1 : 0)) * 16;
        thin->cell_row = (conv->pitch + (skew > 0 ? conv->pitch / skew : 0)) * 16;
    }
    thin->units = thin->record * (thin->gathered ? thin->offsets[0] : places);
    thin->steps = (int32_t)div_up(thin->units, 2);
    thin->table_words = (int32_t)round_up(2 * thin->steps, 4);
    thin->source_words = (int32_t)round_up((int64_t)thin->record * thin->unit, 4);

    const int64_t slice_words = (int64_t)thin->steps * conv->chunks * plan->n * 64 * thin->halves;
    thin->flat = columns->tile * columns->out_step == columns->written && columns->out_shift == 0 &&
                 rows->out_step == 1 && conv->written_stride[2] == columns->written &&
                 conv->written_stride[3] == 1;
    /* Pairs leave in two rounds where that makes no pair of two. */
    thin->stage_pitch = 16 * plan->m * columns->out_step * thin->warps + 1;
    thin->rounds = plan->n > 2 && 4 * plan->n % columns->live == 0 ? 2 : 1;
    const int32_t staged = thin->rounds == 2 ? 4 * plan->n / columns->live
                           : thin->slice_pairs * columns->live < 8 * plan->n
                               ? thin->slice_pairs + 1 /* columns that are no pair's */
                               : thin->slice_pairs;
    const int64_t stage_words = round_up((int64_t)staged * thin->stage_pitch, 4);
    if (stage_words > limit) {
        return false;
    }
    thin->stage_words = thin->plain ? 0 : (int32_t)stage_words;
    /* Where the records are once they have been used, unless phases without taps must stay 0. */
    thin->stage_apart = !thin->plain && (columns->live < columns->out_step ||
                                         (thin->slices > 1 && conv->chunks == 1));
    if (!thin->stage_apart && thin->stage_words > thin->record_words) {
        thin->record_words = thin->stage_words;
    }

    /* The depth's elements and taps lie there first. */
    const int32_t depth_words = 4 * thin->steps * thin->unit + 2 * UF_THIN_TAPS * UF_THIN_TAPS;
    if (depth_words > thin->record_words) {
        thin->record_words = (int32_t)round_up(depth_words, 4);
    }
    const int64_t room = limit - (thin->stage_apart ? thin->stage_words : 0) - thin->window_words -
                         thin->record_words - thin->table_words - thin->source_words -
                         4 * (int64_t)thin->positions - 16 * plan->n;
    if (room < slice_words) {
        return false;
    }
    /* Slices of a block: weights of about a third of shared memory, or more blocks where there are
     * few tiles. */
    int64_t most = limit / 3 / slice_words;
    most = most < 1 ? 1 : most * slice_words > room ? room / slice_words : most;
    while (most > 1 && (int64_t)thin->tiles * conv->groups * div_up(thin->slices, most) < 264) {
        --most;
    }
    thin->parts = (int32_t)div_up(thin->slices, most);
    thin->part_slices = (int32_t)div_up(thin->slices, thin->parts);
    thin->parts = (int32_t)div_up(thin->slices, thin->part_slices);
    thin->weight_words = (int32_t)(slice_words * thin->part_slices);
    plan->threads = 32 * thin->warps;
    plan->shared = (size_t)(limit - room + thin->weight_words) * 4;

    /* Persistent blocks, as many as are resident. */
    const int64_t per = 227 * 1024 / ((int64_t)plan->shared + 1024);
    const int64_t by_registers = uf_thin_resident(plan->n, thin->halves) / thin->warps;
    const int64_t resident = per < 1 ? 1 : per < by_registers ? per : by_registers;
    const int64_t families = (int64_t)conv->groups * thin->parts;
    int64_t each = 132 * resident / families;
    each = each < 1 ? 1 : each < thin->tiles ? each : thin->tiles;
    plan->blocks = each * families;
    plan->clocks = estimate(layer, plan, resident);
    return plan->blocks < INT64_C(1) << 31;
}

/* What follows from the tile that was chosen, and need not be known to choose it. */
static void finish(const thin_layer *layer, uf_thin_plan *plan) {
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
    thin->by_positions = uf_direct_divisor_of(thin->positions);
    thin->by_vectors = uf_direct_divisor_of(thin->vectors);
    thin->by_steps = uf_direct_divisor_of(thin->steps);
    thin->by_parts = uf_direct_divisor_of(thin->parts);
    conv->by_places = uf_direct_divisor_of(rows->places);
    thin->by_tiles_w = uf_direct_divisor_of(columns->tiles);
    thin->by_tiles_h = uf_direct_divisor_of(rows->tiles);
    thin->by_tile_h = uf_direct_divisor_of(rows->tile);
    thin->by_tile_w = uf_direct_divisor_of(columns->tile);
}

/* Tries tiles `width` cells wide and at most as high as `warps` warps' cells allow. */
static void try_tiles(const thin_layer *layer, int32_t warps, int64_t width, uf_thin_plan *best) {
    uf_thin_plan plan = layer->plan;
    uf_thin_conv *thin = &plan.thin;
    uf_direct_axis *rows = &thin->conv.axis[0], *columns = &thin->conv.axis[1];
    const int64_t most = (int64_t)warps * plan.m * 16 / width;
    if (most < 1) {
        return;
    }
    uf_direct_set_tile(columns, layer->cell_span[1], width);
    uf_direct_set_tile(rows, layer->cell_span[0], div_up(rows->cells, div_up(rows->cells, most)));
    const int64_t tiles = (int64_t)thin->conv.batch * rows->tiles * columns->tiles;
    if (tiles >= 1 << 28) {
        return;
    }
    thin->warps = warps;
    thin->cells = rows->tile * columns->tile;
    thin->tiles = (int32_t)tiles;
    int64_t tried = 0;
    const int64_t channels = thin->conv.read_per_group;
    for (int64_t pieces = 1; pieces <= 16; ++pieces) {
        const int64_t part = div_up(channels, pieces);
        const int64_t chunk = part >= channels ? channels : round_up(part, thin->unit);
        if (chunk != tried && chunk <= channels && fit(layer, chunk, &plan) &&
            (best->threads == 0 || plan.clocks < best->clocks)) {
            *best = plan;
        }
        tried = chunk;
        if (thin->gathered || chunk <= thin->unit) {
            break;
        }
    }
}

bool uf_thin_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_plan *plan) {
    thin_layer layer;
    memset(plan, 0, sizeof *plan);
    if (!describe(direction, args, &layer)) {
        return false;
    }
    const int64_t cells = layer.plan.thin.conv.axis[1].cells;
    for (int32_t warps = UF_THIN_WARPS; warps >= 1; --warps) {
        const int64_t most = (int64_t)warps * layer.plan.m * 16;
        /* All columns, or tiles whose windows begin at aligned places. */
        if (cells <= most) {
            try_tiles(&layer, warps, cells, plan);
        }
        for (int64_t width = 8; width <= most && width < cells; width *= 2) {
            try_tiles(&layer, warps, width, plan);
        }
        if (most % 16 == 0 && most < cells && (most & (most - 1)) != 0) {
            try_tiles(&layer, warps, most, plan);
        }
    }
    if (plan->threads == 0) {
        return false;
    }
    finish(&layer, plan);
    return true;
}
