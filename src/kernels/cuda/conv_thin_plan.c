/* conv_thin_plan.c - columns, depth, tile and shared memory of conv_thin. */
#include "kernels/cuda/conv_thin_plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv_thin_clocks.h"

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
        const int64_t cost = div_up(columns / phases, pairs) * (widths[i] + 3);
        if (best == 0 || cost < least) {
            best = widths[i];
            least = cost;
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
        thin->offsets[0] * div_up(conv->read_per_group * thin->offsets[1], thin->unit) < places;

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
        thin->lines ? (int32_t)div_up(columns->out_step - columns->live, columns->live) : 0;
    int32_t dead = 0;
    for (int32_t phase = 0; columns->live < columns->out_step && phase < columns->out_step;
         ++phase) {
        if (columns->map[phase] == UF_DIRECT_DEAD) {
            thin->dead_phase[dead++] = (uint8_t)phase;
        }
    }
    return true;
}

/* Blocks of a multiprocessor. */
static int64_t resident_blocks(const uf_thin_plan *plan) {
    const int64_t room = 227 * 1024 / ((int64_t)plan->shared + 1024);
    const int64_t registers =
        uf_thin_resident(plan->n, plan->m, plan->thin.halves) / plan->thin.warps;
    const int64_t blocks = room < registers ? room : registers;
    return blocks < 1 ? 1 : blocks;
}

/* Words of the pairs that are staged together. */
static int64_t stage_words(const thin_layer *layer, uf_thin_plan *plan) {
    uf_thin_conv *thin = &plan->thin;
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    /* Columns that are no pair's are one's more; in lines they lie nowhere. */
    const bool more = !thin->lines && thin->slice_pairs * columns->live < 8 * plan->n;
    const int64_t pairs =
        thin->rounds == 2 ? 4 * plan->n / columns->live : thin->slice_pairs + (more ? 1 : 0);
    const int64_t all = 16 * (int64_t)plan->m * thin->warps; /* cells */
    if (!thin->lines) {
        thin->stage_pitch = (int32_t)(all * columns->out_step + 1);
        return round_up(pairs * thin->stage_pitch, 4);
    }
    /* A row of the tile and the next are apart as in memory, modulo 16 bytes. Before the first
     * there is room for what makes it congruent. Pairs, an odd number of 16 bytes apart, or of 32
     * where a thread has two phases of one, are in different banks, or few in the same. */
    const int64_t element = (int64_t)layer->element, vector = 16 / element;
    const int64_t length = columns->tile * columns->out_step;
    const int64_t apart = conv->written_stride[2] % vector * rows->out_step % vector;
    const int64_t line = length + ((apart - length) % vector + vector) % vector;
    const int64_t used = (rows->tile - 1) * line + length;
    const int64_t bytes = (used + vector - 1) * element;
    if (line > INT16_MAX || bytes > UF_THIN_SHARED) {
        return UF_THIN_SHARED;
    }
    thin->line_pitch = (int32_t)line;
    const int64_t unit = columns->live == 2 ? 32 : 16;
    thin->stage_pitch = (int32_t)((div_up(bytes, unit) | 1) * unit);
    return pairs * thin->stage_pitch / 4;
}

/* Where stage and records lie, which slices of weights a block has; false: no room. */
static bool divide_shared(const thin_layer *layer, uf_thin_plan *plan) {
    uf_thin_conv *thin = &plan->thin;
    const uf_direct_conv *conv = &thin->conv;
    const int64_t limit = UF_THIN_SHARED / 4;
    const int64_t slice_words = (int64_t)thin->steps * conv->chunks * plan->n * 64 * thin->halves;
    const int64_t stage = stage_words(layer, plan);
    if (stage > limit) {
        return false;
    }
    thin->stage_words = (int32_t)stage;
    thin->record_words = thin->unit_plane * thin->record * 4;
    if (!thin->stage_apart && thin->stage_words > thin->record_words) {
        thin->record_words = thin->stage_words;
    }
    /* The depth's elements and taps lie there first. */
    const int32_t depth_words = 8 * thin->steps * thin->unit + 2 * UF_THIN_TAPS * UF_THIN_TAPS;
    if (depth_words > thin->record_words) {
        thin->record_words = (int32_t)round_up(depth_words, 4);
    }
    /* Of lines: how each pair of a slice, and where each column of it, lies. */
    const int64_t aligns = thin->lines ? round_up(thin->slice_pairs, 4) : 0;
    const int64_t places = thin->lines ? 8 * plan->n * (1 + (int64_t)thin->dead_turns) : 0;
    const int64_t fixed = (thin->stage_apart ? thin->stage_words : 0) + thin->window_words +
                          thin->record_words + thin->table_words + thin->source_words +
                          thin->zero_words + 4 * ((int64_t)thin->lines_in << thin->share_bits) + 4 +
                          16 * plan->n + places;
    const int64_t room = limit - fixed - aligns;
    const int64_t slice_room = slice_words + (thin->lines ? thin->slice_pairs : 0);
    if (room < slice_room) {
        return false;
    }
    /* Slices of a block: weights of about a third of shared memory, or more blocks where there are
     * few tiles. */
    int64_t most = limit / 3 / slice_words;
    most = most < 1 ? 1 : most * slice_room > room ? room / slice_room : most;
    while (most > 1 && (int64_t)thin->tiles * conv->groups * div_up(thin->slices, most) < 264) {
        --most;
    }
    thin->parts = (int32_t)div_up(thin->slices, most);
    thin->part_slices = (int32_t)div_up(thin->slices, thin->parts);
    thin->parts = (int32_t)div_up(thin->slices, thin->part_slices);
    thin->weight_words = (int32_t)(slice_words * thin->part_slices);
    thin->align_words =
        thin->lines ? (int32_t)round_up((int64_t)thin->part_slices * thin->slice_pairs, 4) : 0;
    plan->shared = (size_t)(fixed + thin->weight_words + thin->align_words) * 4;
    return true;
}

/* One round or two, the stage apart or where the records are. */
static void set_way(uf_thin_conv *thin, int32_t way) {
    thin->rounds = 1 + way / 2;
    thin->stage_apart = way % 2 == 0;
}

/* A window whose lines lie as in memory, modulo 16 bytes, far enough apart for copies of whole ones
 * around them. */
static bool set_congruent(const thin_layer *layer, uf_thin_plan *plan, int32_t skew,
                          int64_t *channel_words) {
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t vector = 16 / (int64_t)layer->element;
    const int64_t row = conv->read_stride[2] % vector, unit = skew > 0 ? skew : 1;
    int64_t pitch = round_up(columns->span + vector - 1, unit);
    if (conv->read_stride[3] != 1) {
        return false;
    }
    for (int64_t tries = 0; (pitch - row * rows->in_step) % vector != 0; ++tries, pitch += unit) {
        if (tries == vector) {
            return false;
        }
    }
    for (int32_t i = 1; i < rows->residues; ++i) {
        const int64_t apart = rows->residue[i] - rows->residue[i - 1];
        if ((rows->places * pitch - row * apart) % vector != 0) {
            return false;
        }
    }
    int64_t words = thin->lines_in * pitch;
    while ((words - conv->read_stride[1]) % vector != 0) {
        ++words;
    }
    conv->pitch = (int32_t)pitch;
    *channel_words = words;
    return true;
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
    thin->lines_in = rows->residues * rows->places;
    conv->pitch = (int32_t)round_up(columns->span, 4);
    conv->pitch = skew > 4 ? (int32_t)round_up(conv->pitch, 4 * (int64_t)skew) : conv->pitch;
    int64_t channel_words = (int64_t)thin->lines_in * conv->pitch;
    /* Finding a place costs about as much as eight copies from it. */
    thin->vectors = (int32_t)div_up(columns->span, thin->width);
    const int64_t places_in = (int64_t)thin->lines_in * thin->vectors;
    int64_t least = 0;
    for (int32_t bits = 0; 1 << bits <= chunk; ++bits) {
        const int64_t turns =
            div_up(places_in << bits, 32 * thin->warps) * (8 + div_up(chunk, 1 << bits));
        if (bits == 0 || turns < least) {
            least = turns;
            thin->share_bits = bits;
        }
    }
    const int64_t all_lines = thin->lines_in * chunk;
    thin->bulk_turns = (int32_t)div_up(all_lines, 32 * (int64_t)thin->warps);
    thin->bulk = 14 * all_lines < 7 * thin->warps * (least - 10) &&
                 set_congruent(layer, plan, skew, &channel_words);
    if (thin->bulk) {
        thin->share_bits = 0;
    }
    thin->paired = !thin->gathered && channel_words % 2 == 0 && conv->pitch % 2 == 0 &&
                   (!thin->bulk || thin->width > 1);
    const int64_t plane = (int64_t)rows->places * conv->pitch;
    conv->chunk = (int32_t)chunk;
    conv->chunks = (int32_t)div_up(conv->read_per_group, chunk);
    if (channel_words > limit || chunk * channel_words > 4 * limit || chunk > INT16_MAX ||
        rows->span > INT16_MAX) {
        return false;
    }
    conv->plane = (int32_t)plane;
    conv->channel_words = (int32_t)channel_words;
    thin->window_words =
        (int32_t)round_up(chunk * channel_words * (int64_t)layer->element, 16) / 4 +
        (thin->bulk ? 8 : 0); /* it begins up to 16 bytes late */
    const int64_t deep = thin->gathered ? chunk * thin->offsets[1] : chunk;
    thin->record = (int32_t)div_up(deep, thin->unit);
    const int64_t records =
        thin->gathered ? (int64_t)thin->lines_in * columns->tile : channel_words;
    const int64_t unit_plane = records + (skew > 0 ? records / skew : 0);
    if (unit_plane * thin->record * 4 > limit) {
        return false;
    }
    thin->records = (int32_t)records;
    thin->unit_plane = (int32_t)unit_plane;
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

    thin->flat = columns->tile * columns->out_step == columns->written && columns->out_shift == 0 &&
                 rows->out_step == 1 && conv->written_stride[2] == columns->written &&
                 conv->written_stride[3] == 1;
    /* The epilogue of zero is zero. */
    const bool zeros =
        thin->lines && rows->live < rows->out_step && conv->scale == NULL && conv->shift == NULL;
    thin->zero_words =
        zeros
            ? (int32_t)(round_up(columns->tile * columns->out_step * (int64_t)layer->element, 16) /
                            4 +
                        4)
            : 0;
    /* Floats: two rounds where that makes no pair of two; phases without taps stay 0. Lines: as
     * many blocks as can be; of those, the first way. */
    const bool whole = 4 * plan->n % columns->live != 0 || plan->n <= 2; /* one round */
    const bool again = thin->slices > 1 && conv->chunks == 1; /* records serve all slices */
    int64_t resident = 0;
    int32_t best = 0;
    for (int32_t way = 0; way < 4; ++way) {
        set_way(thin, way);
        if ((whole && thin->rounds == 2) || (again && !thin->stage_apart) ||
            (!thin->lines && ((!whole && thin->rounds == 1) ||
                              thin->stage_apart != (again || columns->live < columns->out_step)))) {
            continue;
        }
        if (divide_shared(layer, plan) && resident_blocks(plan) > resident) {
            resident = resident_blocks(plan);
            best = way;
        }
    }
    if (resident == 0) {
        return false;
    }
    set_way(thin, best);
    divide_shared(layer, plan);
    plan->threads = 32 * thin->warps;

    /* Persistent blocks, as many as are resident. */
    const int64_t families = (int64_t)conv->groups * thin->parts;
    int64_t each = 132 * resident / families;
    each = each < 1 ? 1 : each < thin->tiles ? each : thin->tiles;
    thin->each = (int32_t)each;
    plan->blocks = each * families;
    plan->clocks = uf_thin_clocks(plan, (int64_t)layer->element);
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
static void try_tiles(const thin_layer *layer, int32_t warps, int32_t movers, int64_t across,
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
        columns->tiles = (int32_t)div_up(columns->written, thin->take);
    }
    uf_direct_set_tile(rows, layer->cell_span[0], div_up(rows->cells, div_up(rows->cells, most)));
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
        const int64_t part = div_up(channels, pieces);
        const int64_t chunk = part >= channels ? channels : round_up(part, thin->unit);
        const bool fits = chunk != tried && chunk <= channels && fit(layer, chunk, &plan);
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
static void try_warps(const thin_layer *layer, bool movers, uf_thin_plan *best) {
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
static void try_columns(thin_layer *layer, int32_t n, uf_thin_plan *best) {
    uf_thin_conv *thin = &layer->plan.thin;
    layer->plan.n = n;
    thin->slice_pairs = n * 8 / thin->conv.axis[1].live;
    thin->slices = (int32_t)div_up(thin->pairs, thin->slice_pairs);
    const int32_t most = uf_thin_rows(n, thin->halves), fewer = uf_thin_fewer_rows(n, thin->halves);
    layer->plan.m = most;
    try_warps(layer, false, best);
    if (fewer < most) {
        layer->plan.m = fewer;
        try_warps(layer, false, best);
    }
    /* Where windows and weights leave few warps a place, the others of a block bring windows. */
    if (thin->lines && best->threads > 0 && resident_blocks(best) * best->thin.warps <= 8) {
        layer->plan.m = fewer;
        try_warps(layer, true, best);
    }
}

bool uf_thin_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_plan *plan) {
    thin_layer layer;
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
