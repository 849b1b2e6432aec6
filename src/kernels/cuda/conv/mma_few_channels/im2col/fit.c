/* fit.c - the layout of conv_im2col's shared memory, and the resident blocks that it allows. */
#include "kernels/cuda/conv/mma_few_channels/im2col/fit.h"

#include "kernels/cuda/conv/mma_few_channels/im2col/cost.h"

int64_t uf_im2col_blocks_at_once(const uf_im2col_plan *plan) {
    const int64_t room = 227 * 1024 / ((int64_t)plan->shared + 1024);
    const int64_t registers =
        uf_im2col_resident(plan->n, plan->m, plan->im2col.split_parts) / plan->im2col.warps;
    const int64_t blocks = room < registers ? room : registers;
    return blocks < 1 ? 1 : blocks;
}

/* Words of the pairs that are staged together. */
static int64_t stage_words(const uf_im2col_layer *layer, uf_im2col_plan *plan) {
    uf_im2col_conv *im2col = &plan->im2col;
    const uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    /* Staged as floats, columns beyond the last pair need the room of one more. Staged as elements,
     * they are not stored. */
    const bool more = !im2col->lines && im2col->slice_pairs * columns->live < 8 * plan->n;
    const int64_t pairs =
        im2col->rounds == 2 ? 4 * plan->n / columns->live : im2col->slice_pairs + (more ? 1 : 0);
    const int64_t all = 16 * (int64_t)plan->m * im2col->warps; /* cells of all warps */
    if (!im2col->lines) {
        im2col->stage_pitch = (int32_t)(all * columns->out_step + 1);
        return uf_round_up(pairs * im2col->stage_pitch, 4);
    }
    /* Consecutive rows of the tile keep their distance in memory modulo 16 bytes, and the first row
     * has room before it for its own offset. Pairs are an odd number of 16 bytes from each other,
     * or of 32 where a thread has two phases of a pair: they then lie in different banks. */
    const int64_t element = (int64_t)layer->element, vector = 16 / element;
    const int64_t length = columns->tile * columns->out_step;
    const int64_t separate = conv->written_stride[2] % vector * rows->out_step % vector;
    const int64_t line = length + ((separate - length) % vector + vector) % vector;
    const int64_t used = (rows->tile - 1) * line + length;
    const int64_t bytes = (used + vector - 1) * element;
    if (line > INT16_MAX || bytes > UF_IM2COL_SHARED) {
        return UF_IM2COL_SHARED;
    }
    im2col->line_pitch = (int32_t)line;
    const int64_t unit = columns->live == 2 ? 32 : 16;
    im2col->stage_pitch = (int32_t)((uf_div_up(bytes, unit) | 1) * unit);
    return pairs * im2col->stage_pitch / 4;
}

/* Lays out stage and records, and gives each block its slices of weights. False: no room. */
static bool divide_shared(const uf_im2col_layer *layer, uf_im2col_plan *plan) {
    uf_im2col_conv *im2col = &plan->im2col;
    const uf_direct_conv *conv = &im2col->conv;
    const int64_t limit = UF_IM2COL_SHARED / 4;
    const int64_t slice_words =
        (int64_t)im2col->steps * conv->chunks * plan->n * 64 * im2col->split_parts;
    const int64_t stage = stage_words(layer, plan);
    if (stage > limit) {
        return false;
    }
    im2col->stage_words = (int32_t)stage;
    im2col->record_words = im2col->unit_plane * im2col->record * 4;
    if (!im2col->own_stage && im2col->stage_words > im2col->record_words) {
        im2col->record_words = im2col->stage_words;
    }
    /* The table of K and taps uses this room before the first records. */
    const int32_t depth_words =
        8 * im2col->steps * im2col->unit + 2 * UF_IM2COL_TAPS * UF_IM2COL_TAPS;
    if (depth_words > im2col->record_words) {
        im2col->record_words = (int32_t)uf_round_up(depth_words, 4);
    }
    /* Staged as elements: the alignment of each pair of a slice, and the offset of each of its
     * columns. */
    const int64_t aligns = im2col->lines ? uf_round_up(im2col->slice_pairs, 4) : 0;
    const int64_t coords = im2col->lines ? 8 * plan->n * (1 + (int64_t)im2col->dead_turns) : 0;
    const int64_t fixed =
        (im2col->own_stage ? im2col->stage_words : 0) + im2col->window_words +
        im2col->record_words + im2col->table_words + im2col->source_words + im2col->zero_words +
        4 * ((int64_t)im2col->lines_in << im2col->share_bits) + 4 + 16 * plan->n + coords;
    const int64_t room = limit - fixed - aligns;
    const int64_t slice_room = slice_words + (im2col->lines ? im2col->slice_pairs : 0);
    if (room < slice_room) {
        return false;
    }
    /* Slices of a block: a third of shared memory for weights, or fewer where tiles are too few to
     * fill the GPU twice. */
    int64_t most = limit / 3 / slice_words;
    most = most < 1 ? 1 : most * slice_room > room ? room / slice_room : most;
    while (most > 1 &&
           (int64_t)im2col->tiles * conv->groups * uf_div_up(im2col->slices, most) < 264) {
        --most;
    }
    im2col->parts = (int32_t)uf_div_up(im2col->slices, most);
    im2col->part_slices = (int32_t)uf_div_up(im2col->slices, im2col->parts);
    im2col->parts = (int32_t)uf_div_up(im2col->slices, im2col->part_slices);
    im2col->weight_words = (int32_t)(slice_words * im2col->part_slices);
    im2col->align_words =
        im2col->lines ? (int32_t)uf_round_up((int64_t)im2col->part_slices * im2col->slice_pairs, 4)
                      : 0;
    plan->shared = (size_t)(fixed + im2col->weight_words + im2col->align_words) * 4;
    return true;
}

/* Candidates: one or two rounds, the stage in its own room or over the records. */
static void set_candidate(uf_im2col_conv *im2col, int32_t epilogue) {
    im2col->rounds = 1 + epilogue / 2;
    im2col->own_stage = epilogue % 2 == 0;
}

/* Gives lines of the window their address modulo 16 bytes, with room around each for whole 16-byte
 * copies. */
static bool set_congruent(const uf_im2col_layer *layer, uf_im2col_plan *plan, int32_t skew,
                          int64_t *channel_words) {
    uf_im2col_conv *im2col = &plan->im2col;
    uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t vector = 16 / (int64_t)layer->element;
    const int64_t row = conv->read_stride[2] % vector, unit = skew > 0 ? skew : 1;
    int64_t pitch = uf_round_up(columns->span + vector - 1, unit);
    if (conv->read_stride[3] != 1) {
        return false;
    }
    for (int64_t tries = 0; (pitch - row * rows->in_step) % vector != 0; ++tries, pitch += unit) {
        if (tries == vector) {
            return false;
        }
    }
    for (int32_t i = 1; i < rows->residues; ++i) {
        const int64_t separate = rows->residue[i] - rows->residue[i - 1];
        if ((rows->coords * pitch - row * separate) % vector != 0) {
            return false;
        }
    }
    int64_t words = im2col->lines_in * pitch;
    while ((words - conv->read_stride[1]) % vector != 0) {
        ++words;
    }
    conv->pitch = (int32_t)pitch;
    *channel_words = words;
    return true;
}

bool uf_im2col_fit(const uf_im2col_layer *layer, int64_t chunk, uf_im2col_plan *plan) {
    uf_im2col_conv *im2col = &plan->im2col;
    uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int64_t limit = UF_IM2COL_SHARED / 4;
    const int32_t coords = im2col->offsets[0] * im2col->offsets[1];
    /* An odd number of units between neighbouring cells spreads eight of them over all banks. */
    const int32_t skew = !im2col->gathered && columns->in_step % 2 == 0 ? columns->in_step : 0;

    /* The window holds whole rows of residues, `pitch` elements each. */
    im2col->lines_in = rows->residues * rows->coords;
    conv->pitch = (int32_t)uf_round_up(columns->span, 4);
    conv->pitch = skew > 4 ? (int32_t)uf_round_up(conv->pitch, 4 * (int64_t)skew) : conv->pitch;
    int64_t channel_words = (int64_t)im2col->lines_in * conv->pitch;
    /* Computing a position costs a thread about as much as eight copies. */
    im2col->vectors = (int32_t)uf_div_up(columns->span, im2col->width);
    const int64_t coords_in = (int64_t)im2col->lines_in * im2col->vectors;
    int64_t least = 0;
    for (int32_t bits = 0; 1 << bits <= chunk; ++bits) {
        const int64_t turns =
            uf_div_up(coords_in << bits, 32 * im2col->warps) * (8 + uf_div_up(chunk, 1 << bits));
        if (bits == 0 || turns < least) {
            least = turns;
            im2col->share_bits = bits;
        }
    }
    const int64_t all_lines = im2col->lines_in * chunk;
    im2col->bulk_turns = (int32_t)uf_div_up(all_lines, 32 * (int64_t)im2col->warps);
    im2col->bulk = 14 * all_lines < 7 * im2col->warps * (least - 10) &&
                   set_congruent(layer, plan, skew, &channel_words);
    if (im2col->bulk) {
        im2col->share_bits = 0;
    }
    im2col->paired = !im2col->gathered && channel_words % 2 == 0 && conv->pitch % 2 == 0 &&
                     (!im2col->bulk || im2col->width > 1);
    const int64_t plane = (int64_t)rows->coords * conv->pitch;
    conv->chunk = (int32_t)chunk;
    conv->chunks = (int32_t)uf_div_up(conv->read_per_group, chunk);
    if (channel_words > limit || chunk * channel_words > 4 * limit || chunk > INT16_MAX ||
        rows->span > INT16_MAX) {
        return false;
    }
    conv->plane = (int32_t)plane;
    conv->channel_words = (int32_t)channel_words;
    im2col->window_words =
        (int32_t)uf_round_up(chunk * channel_words * (int64_t)layer->element, 16) / 4 +
        (im2col->bulk ? 8 : 0); /* room for an unaligned begin */
    const int64_t deep = im2col->gathered ? chunk * im2col->offsets[1] : chunk;
    im2col->record = (int32_t)uf_div_up(deep, im2col->unit);
    const int64_t records =
        im2col->gathered ? (int64_t)im2col->lines_in * columns->tile : channel_words;
    const int64_t unit_plane = records + (skew > 0 ? records / skew : 0);
    if (unit_plane * im2col->record * 4 > limit) {
        return false;
    }
    im2col->records = (int32_t)records;
    im2col->unit_plane = (int32_t)unit_plane;
    im2col->by_skew = uf_direct_divisor_of(skew);
    if (im2col->gathered) {
        im2col->cell_column = 16;
        im2col->cell_row = columns->tile * 16;
    } else {
        im2col->cell_column = (columns->in_step + (skew > 0 ? 1 : 0)) * 16;
        im2col->cell_row = (conv->pitch + (skew > 0 ? conv->pitch / skew : 0)) * 16;
    }
    im2col->units = im2col->record * (im2col->gathered ? im2col->offsets[0] : coords);
    im2col->steps = (int32_t)uf_div_up(im2col->units, 2);
    im2col->table_words = (int32_t)uf_round_up(2 * im2col->steps, 4);
    im2col->source_words = (int32_t)uf_round_up((int64_t)im2col->record * im2col->unit, 4);

    im2col->flat = columns->tile * columns->out_step == columns->written &&
                   columns->out_shift == 0 && rows->out_step == 1 &&
                   conv->written_stride[2] == columns->written && conv->written_stride[3] == 1;
    /* Without scale and shift a row without taps is zeros. */
    const bool zeros =
        im2col->lines && rows->live < rows->out_step && conv->scale == NULL && conv->shift == NULL;
    im2col->zero_words =
        zeros ? (int32_t)(uf_round_up(columns->tile * columns->out_step * (int64_t)layer->element,
                                      16) /
                              4 +
                          4)
              : 0;
    /* Staged as floats: two rounds unless that splits a pair; phases without taps stay zero. Staged
     * as elements: the first candidate with the most resident blocks. */
    const bool whole =
        4 * plan->n % columns->live != 0 || plan->n <= 2; /* a second round would split a pair */
    const bool keeps_records =
        im2col->slices > 1 && conv->chunks == 1; /* the next slice reads the same records */
    int64_t resident = 0;
    int32_t best = 0;
    for (int32_t epilogue = 0; epilogue < 4; ++epilogue) {
        set_candidate(im2col, epilogue);
        if ((whole && im2col->rounds == 2) || (keeps_records && !im2col->own_stage) ||
            (!im2col->lines &&
             ((!whole && im2col->rounds == 1) ||
              im2col->own_stage != (keeps_records || columns->live < columns->out_step)))) {
            continue;
        }
        if (divide_shared(layer, plan) && uf_im2col_blocks_at_once(plan) > resident) {
            resident = uf_im2col_blocks_at_once(plan);
            best = epilogue;
        }
    }
    if (resident == 0) {
        return false;
    }
    set_candidate(im2col, best);
    divide_shared(layer, plan);
    plan->threads = 32 * im2col->warps;

    /* Persistent blocks: as many as are resident. */
    const int64_t families = (int64_t)conv->groups * im2col->parts;
    int64_t each = layer->multiprocessors * resident / families;
    each = each < 1 ? 1 : each < im2col->tiles ? each : im2col->tiles;
    im2col->each = (int32_t)each;
    plan->blocks = each * families;
    plan->cost = uf_im2col_cost(plan, (int64_t)layer->element, layer->multiprocessors);
    return plan->blocks < INT64_C(1) << 31;
}
