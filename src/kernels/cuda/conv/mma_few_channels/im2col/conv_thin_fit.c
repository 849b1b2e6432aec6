/* conv_thin_fit.c - shared memory of conv_thin, and how many blocks that leaves. */
#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_fit.h"

#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_clocks.h"

int64_t uf_thin_blocks_at_once(const uf_thin_plan *plan) {
    const int64_t room = 227 * 1024 / ((int64_t)plan->shared + 1024);
    const int64_t registers =
        uf_thin_resident(plan->n, plan->m, plan->thin.halves) / plan->thin.warps;
    const int64_t blocks = room < registers ? room : registers;
    return blocks < 1 ? 1 : blocks;
}

/* Words of the pairs that are staged together. */
static int64_t stage_words(const uf_thin_layer *layer, uf_thin_plan *plan) {
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
        return uf_thin_round_up(pairs * thin->stage_pitch, 4);
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
    thin->stage_pitch = (int32_t)((uf_thin_div_up(bytes, unit) | 1) * unit);
    return pairs * thin->stage_pitch / 4;
}

/* Where stage and records lie, which slices of weights a block has; false: no room. */
static bool divide_shared(const uf_thin_layer *layer, uf_thin_plan *plan) {
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
        thin->record_words = (int32_t)uf_thin_round_up(depth_words, 4);
    }
    /* Of lines: how each pair of a slice, and where each column of it, lies. */
    const int64_t aligns = thin->lines ? uf_thin_round_up(thin->slice_pairs, 4) : 0;
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
    while (most > 1 &&
           (int64_t)thin->tiles * conv->groups * uf_thin_div_up(thin->slices, most) < 264) {
        --most;
    }
    thin->parts = (int32_t)uf_thin_div_up(thin->slices, most);
    thin->part_slices = (int32_t)uf_thin_div_up(thin->slices, thin->parts);
    thin->parts = (int32_t)uf_thin_div_up(thin->slices, thin->part_slices);
    thin->weight_words = (int32_t)(slice_words * thin->part_slices);
    thin->align_words =
        thin->lines ? (int32_t)uf_thin_round_up((int64_t)thin->part_slices * thin->slice_pairs, 4)
                    : 0;
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
static bool set_congruent(const uf_thin_layer *layer, uf_thin_plan *plan, int32_t skew,
                          int64_t *channel_words) {
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t vector = 16 / (int64_t)layer->element;
    const int64_t row = conv->read_stride[2] % vector, unit = skew > 0 ? skew : 1;
    int64_t pitch = uf_thin_round_up(columns->span + vector - 1, unit);
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

bool uf_thin_fit(const uf_thin_layer *layer, int64_t chunk, uf_thin_plan *plan) {
    uf_thin_conv *thin = &plan->thin;
    uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t limit = UF_THIN_SHARED / 4;
    const int32_t places = thin->offsets[0] * thin->offsets[1];
    /* Neighbouring cells' units are an odd number apart: eight of them are in all banks. */
    const int32_t skew = !thin->gathered && columns->in_step % 2 == 0 ? columns->in_step : 0;

    /* Window: whole rows of residues, `pitch` apart. */
    thin->lines_in = rows->residues * rows->places;
    conv->pitch = (int32_t)uf_thin_round_up(columns->span, 4);
    conv->pitch =
        skew > 4 ? (int32_t)uf_thin_round_up(conv->pitch, 4 * (int64_t)skew) : conv->pitch;
    int64_t channel_words = (int64_t)thin->lines_in * conv->pitch;
    /* Finding a place costs about as much as eight copies from it. */
    thin->vectors = (int32_t)uf_thin_div_up(columns->span, thin->width);
    const int64_t places_in = (int64_t)thin->lines_in * thin->vectors;
    int64_t least = 0;
    for (int32_t bits = 0; 1 << bits <= chunk; ++bits) {
        const int64_t turns = uf_thin_div_up(places_in << bits, 32 * thin->warps) *
                              (8 + uf_thin_div_up(chunk, 1 << bits));
        if (bits == 0 || turns < least) {
            least = turns;
            thin->share_bits = bits;
        }
    }
    const int64_t all_lines = thin->lines_in * chunk;
    thin->bulk_turns = (int32_t)uf_thin_div_up(all_lines, 32 * (int64_t)thin->warps);
    thin->bulk = 14 * all_lines < 7 * thin->warps * (least - 10) &&
                 set_congruent(layer, plan, skew, &channel_words);
    if (thin->bulk) {
        thin->share_bits = 0;
    }
    thin->paired = !thin->gathered && channel_words % 2 == 0 && conv->pitch % 2 == 0 &&
                   (!thin->bulk || thin->width > 1);
    const int64_t plane = (int64_t)rows->places * conv->pitch;
    conv->chunk = (int32_t)chunk;
    conv->chunks = (int32_t)uf_thin_div_up(conv->read_per_group, chunk);
    if (channel_words > limit || chunk * channel_words > 4 * limit || chunk > INT16_MAX ||
        rows->span > INT16_MAX) {
        return false;
    }
    conv->plane = (int32_t)plane;
    conv->channel_words = (int32_t)channel_words;
    thin->window_words =
        (int32_t)uf_thin_round_up(chunk * channel_words * (int64_t)layer->element, 16) / 4 +
        (thin->bulk ? 8 : 0); /* it begins up to 16 bytes late */
    const int64_t deep = thin->gathered ? chunk * thin->offsets[1] : chunk;
    thin->record = (int32_t)uf_thin_div_up(deep, thin->unit);
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
    thin->steps = (int32_t)uf_thin_div_up(thin->units, 2);
    thin->table_words = (int32_t)uf_thin_round_up(2 * thin->steps, 4);
    thin->source_words = (int32_t)uf_thin_round_up((int64_t)thin->record * thin->unit, 4);

    thin->flat = columns->tile * columns->out_step == columns->written && columns->out_shift == 0 &&
                 rows->out_step == 1 && conv->written_stride[2] == columns->written &&
                 conv->written_stride[3] == 1;
    /* The epilogue of zero is zero. */
    const bool zeros =
        thin->lines && rows->live < rows->out_step && conv->scale == NULL && conv->shift == NULL;
    thin->zero_words =
        zeros ? (int32_t)(uf_thin_round_up(
                              columns->tile * columns->out_step * (int64_t)layer->element, 16) /
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
        if (divide_shared(layer, plan) && uf_thin_blocks_at_once(plan) > resident) {
            resident = uf_thin_blocks_at_once(plan);
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
