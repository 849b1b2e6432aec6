/* conv_thin_plan.c - columns, depth, tile and shared memory of conv_thin. */
#include "kernels/cuda/conv_thin_plan.h"

#include <string.h>

#include "core/tensor.h"

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
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

/* Lanes q, r read q*step + r*plane: words added to a plane so that few of these meet in a bank. */
static int32_t padding_of(int32_t plane, int32_t step) {
    int32_t best = 0, least = 33;
    for (int32_t pad = 0; pad < 32 && least > 1; ++pad) {
        int32_t hits[32] = {0}, most = 0;
        for (int32_t lane = 0; lane < 32; ++lane) {
            const int64_t word = (int64_t)(lane / 4) * step + (int64_t)(lane % 4) * (plane + pad);
            const int32_t hit = ++hits[word % 32];
            most = hit > most ? hit : most;
        }
        if (most < least) {
            least = most;
            best = pad;
        }
    }
    return best;
}

static int64_t gcd(int64_t a, int64_t b) {
    return b == 0 ? a : gcd(b, a % b);
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

/* Clocks of an H200 from the instructions of a warp (counted in profiles) at 2.2 a clock and
 * multiprocessor. */
static double estimate(const uf_thin_plan *plan, int64_t resident, size_t element) {
    const uf_thin_conv *thin = &plan->thin;
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const double m = plan->m, n = plan->n, out = columns->out_step;
    const bool split = thin->halves == 2;
    const double step =
        split ? 20 * m + n * (2 + 7 * m) + 20 : (element == 2 ? 16 : 30) * m + n * (1 + m) + 20;
    const double multiply = (double)thin->steps * conv->chunks * step;
    const double lines = thin->segment < 16 ? 2 : 1;
    const double staged =
        m * (60 + 12 * n) + m * 16 / (16.0 * thin->together) * lines * thin->slice_pairs *
                                (10 + 6 * (double)div_up(thin->segment * (int64_t)out, 32));
    const double leave = thin->plain ? 2 * m * (50 + 7 * n) + 100 : staged;
    const double loads_slices = conv->chunks > 1 ? thin->part_slices : 1;
    const int32_t vectors = (int32_t)div_up(columns->span, thin->width);
    const double load = loads_slices * conv->chunks * (double)thin->lines *
                        (1 << conv->group_bits) / 32 *
                        (45 + 16 * (double)div_up(vectors, 1 << conv->group_bits));
    const double dead =
        (double)(rows->out_step - rows->live) * rows->tile * conv->written_per_group / thin->parts;
    const double fill = dead * (60 + columns->tile * out / 128 * 9);
    const double tile = thin->warps * thin->part_slices * (multiply + leave + 150) + load + fill +
                        thin->warps * 200.0;
    const double weights = (double)thin->weight_words / thin->halves / 64 * 80 + 4000;
    const double each =
        (double)div_up(thin->tiles, plan->blocks / ((int64_t)conv->groups * thin->parts));
    const double waves = (double)div_up(plan->blocks, 132 * resident);
    const double alive = (double)resident * thin->warps;
    return waves * (double)resident * (each * tile + weights) / (alive >= 10 ? 2.2 : alive * 0.22) +
           4000;
}

/* The plan for blocks of this many warps. */
static bool plan_for(uf_conv_direction direction, const uf_conv_kernel_args *args, int32_t warps,
                     uf_thin_plan *plan) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x;
    memset(plan, 0, sizeof *plan);
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
    const size_t element = uf_dtype_size(read->dtype);

    /* Aligned copies: rows begin at such, and so do windows, whose tiles are eight cells wide and
     * more. */
    thin->width = 4;
    if (read->stride[3] != 1) {
        thin->width = 1;
    } else {
        const int64_t all =
            gcd(gcd(read->stride[0], read->stride[1]), gcd(read->stride[2], read->extent[3]));
        while (thin->width > 1 && (all % thin->width != 0 ||
                                   (uintptr_t)read->data % ((size_t)thin->width * element) != 0)) {
            thin->width /= 2;
        }
    }
    const int32_t from =
        (columns->cell_first * columns->in_step + columns->low) & (thin->width - 1);
    uf_direct_lower(columns, taps[1], conv->kernel[1], from);
    uf_direct_find_residues(rows, taps[0], conv->kernel[0]);
    columns->residues = 1;
    const int32_t cell_span[2] = {rows->span, columns->span};

    int64_t offset[2][UF_THIN_TAPS];
    if (!find_offsets(rows, taps[0], conv->kernel[0], offset[0], &thin->offsets[0],
                      thin->row_tap) ||
        !find_offsets(columns, taps[1], conv->kernel[1], offset[1], &thin->offsets[1],
                      thin->column_tap)) {
        return false;
    }
    const int32_t places = thin->offsets[0] * thin->offsets[1];
    plan->efficiency =
        (double)(conv->kernel[0] * conv->kernel[1]) / ((double)rows->live * columns->live * places);

    const int64_t all_pairs = (int64_t)rows->live * conv->written_per_group;
    if (all_pairs * columns->live > 1 << 20) {
        return false;
    }
    thin->pairs = (int32_t)all_pairs;
    plan->n = choose_n(thin->pairs * columns->live, columns->live, &thin->slice_pairs);
    if (plan->n == 0) {
        return false;
    }
    thin->halves = args->math == UF_MATH_FP32 && read->dtype == UF_F32 ? 2 : 1;
    plan->m = uf_thin_rows(plan->n, thin->halves);
    thin->slices = (int32_t)div_up(thin->pairs, thin->slice_pairs);
    plan->efficiency *= (double)thin->pairs * columns->live / ((double)thin->slices * plan->n * 8);
    thin->plain = columns->out_step == 1 && rows->live == 1 &&
                  conv->activation == UF_ACTIVATION_IDENTITY && !conv->accumulate;

    /* Tile: the one whose warps and windows have least to do. */
    thin->warps = warps;
    double least = -1;
    int64_t best[2] = {1, 8};
    /* A window that holds all channels serves all slices. */
    const int64_t few = conv->read_per_group < 8 ? conv->read_per_group : 8;
    const int64_t fewest_channels =
        thin->slices > 1 && conv->read_per_group <= 64 ? conv->read_per_group : few;
    const int64_t runs = (int64_t)warps * plan->m * 2;
    for (int64_t width = 8; width <= runs * 8 && width < columns->cells + 8; width += 8) {
        const int64_t fewest = div_up(rows->cells, runs * 8 / width);
        const int64_t height = div_up(rows->cells, fewest);
        uf_direct_set_tile(columns, cell_span[1], width);
        uf_direct_set_tile(rows, cell_span[0], height);
        const double tiles = (double)rows->tiles * columns->tiles;
        const double window = (double)rows->residues * rows->places * (columns->span + 4);
        if (window * (double)fewest_channels * 2 * (double)element > UF_THIN_SHARED * 0.7) {
            continue;
        }
        const double cost = tiles *
                            (window + 2.0 * (double)runs * 8 * (width % 16 == 0 ? 1 : 1.1)) *
                            (1 + (dgrad ? 8.0 : 2.0) / (double)width);
        if (least < 0 || cost < least) {
            least = cost;
            best[0] = height;
            best[1] = width;
        }
    }
    if (least < 0) {
        return false;
    }
    uf_direct_set_tile(columns, cell_span[1], best[1]);
    uf_direct_set_tile(rows, cell_span[0], best[0]);
    plan->efficiency *= (double)rows->cells * columns->cells /
                        ((double)rows->tiles * columns->tiles * thin->warps * plan->m * 16);
    thin->runs = columns->tile / 8;
    const int64_t tiles = (int64_t)conv->batch * rows->tiles * columns->tiles;
    if (tiles >= 1 << 28) {
        return false;
    }
    thin->tiles = (int32_t)tiles;

    /* Window: whole rows of residues, `pitch` apart. */
    conv->pitch = (int32_t)div_up(columns->span, 4) * 4;
    const int64_t plane = (int64_t)rows->places * conv->pitch;
    const int64_t channel_words = rows->residues * plane;
    if (channel_words > UF_THIN_SHARED / 4) {
        return false;
    }
    conv->plane = (int32_t)plane;
    thin->channels_first = conv->read_per_group >= 4;
    conv->channel_words = (int32_t)channel_words;
    if (thin->channels_first) {
        /* Copies of four stay aligned. */
        const int32_t unit = thin->width;
        int32_t pad = padding_of(conv->channel_words, columns->in_step);
        pad = (pad + unit - 1) / unit * unit;
        conv->channel_words += pad;
    }
    conv->group_bits = 0;
    while (conv->group_bits < 5 && 1 << conv->group_bits < div_up(columns->span, thin->width)) {
        ++conv->group_bits;
    }

    /* A line more for columns that are no pair's. Two sixteens of cells where they are neighbours
     * and there is room. */
    thin->together = columns->tile % 32 == 0 && plan->m > 1 &&
                             (thin->slice_pairs + 1) * (32 * columns->out_step + 1) * thin->warps <=
                                 UF_THIN_SHARED / 7
                         ? 2
                         : 1;
    thin->segment = columns->tile % 16 == 0 ? 16 * thin->together : 8;
    thin->stage_words =
        thin->plain
            ? 0
            : ((thin->slice_pairs + 1) * (16 * thin->together * columns->out_step + 1) + 3) / 4 * 4;
    thin->table_words = 0;
    const int64_t room = UF_THIN_SHARED / 4 - (int64_t)thin->stage_words * thin->warps;
    /* Channels of a chunk: two windows beside the weights of a slice. */
    const int64_t slice_weights =
        div_up(conv->read_per_group, 8) * 8 * places * plan->n * 8 * thin->halves + 1024;
    int64_t chunk = conv->read_per_group;
    for (int64_t pieces = 2;
         chunk > 8 && 2 * chunk * conv->channel_words * (int64_t)element / 4 + slice_weights > room;
         ++pieces) {
        chunk = div_up(div_up(conv->read_per_group, pieces), 8) * 8;
    }
    conv->chunk = (int32_t)chunk;
    conv->chunks = (int32_t)div_up(conv->read_per_group, chunk);
    if (chunk * places > 1 << 16) {
        return false;
    }
    thin->depth = (int32_t)chunk * places;
    thin->steps = (int32_t)div_up(thin->depth, 8);
    thin->window_elements = (int32_t)div_up(chunk * conv->channel_words, 8) * 8;
    thin->window_words = thin->window_elements * (int32_t)element / 4;
    thin->table_words = (int32_t)div_up(thin->steps * 8, 4) * 4;
    thin->lines = (int32_t)chunk * rows->residues * rows->places;
    if (chunk > INT16_MAX || (int64_t)rows->span > INT16_MAX) {
        return false;
    }
    const int64_t left =
        room - 2 * (int64_t)thin->window_words - thin->table_words - 4 * thin->lines - 256;
    const int64_t slice_words = (int64_t)thin->steps * conv->chunks * plan->n * 64 * thin->halves;
    if (left < slice_words) {
        return false;
    }
    /* Slices of a block: weights of about a third of shared memory, or more blocks where there are
     * few tiles. */
    int64_t most = UF_THIN_SHARED / 12 / slice_words;
    most = most < 1 ? 1 : most * slice_words > left ? left / slice_words : most;
    while (most > 1 && tiles * conv->groups * div_up(thin->slices, most) < 264) {
        --most;
    }
    thin->parts = (int32_t)div_up(thin->slices, most);
    thin->part_slices = (int32_t)div_up(thin->slices, thin->parts);
    thin->parts = (int32_t)div_up(thin->slices, thin->part_slices);
    thin->weight_words = (int32_t)(slice_words * thin->part_slices);

    for (int32_t i = 0; i < thin->offsets[0]; ++i) {
        thin->row_place[i] = uf_direct_residue(rows, offset[0][i]) * conv->plane +
                             (int32_t)(offset[0][i] / rows->in_step) * conv->pitch;
    }
    for (int32_t i = 0; i < thin->offsets[1]; ++i) {
        thin->column_place[i] = (int32_t)offset[1][i];
    }
    conv->by_places = uf_direct_divisor_of(rows->places);
    conv->by_residues = uf_direct_divisor_of(rows->residues);
    thin->by_tiles_w = uf_direct_divisor_of(columns->tiles);
    thin->by_tiles_h = uf_direct_divisor_of(rows->tiles);
    thin->by_runs = uf_direct_divisor_of(thin->runs);
    thin->by_written = uf_direct_divisor_of(conv->written_per_group);
    plan->threads = 32 * thin->warps;
    plan->shared = (size_t)(thin->weight_words + 2 * thin->window_words + thin->table_words +
                            4 * thin->lines + thin->stage_words * thin->warps + 16 * plan->n) *
                   4;
    /* Persistent blocks: two waves' worth at most, several times the multiprocessors where they are
     * small. */
    const int64_t per = 200 * 1024 / (int64_t)plan->shared;
    const int64_t by_registers = 16 / thin->warps;
    const int64_t resident = per < 1 ? 1 : per < by_registers ? per : by_registers;
    const int64_t fit = 132 * resident;
    const int64_t families = (int64_t)conv->groups * thin->parts;
    int64_t each = div_up(fit, families);
    each = each < tiles ? each : tiles;
    each = div_up(tiles, div_up(tiles, each));
    plan->blocks = each * families;
    plan->clocks = estimate(plan, resident, element);
    return plan->shared <= UF_THIN_SHARED && plan->blocks < INT64_C(1) << 31;
}

bool uf_thin_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_thin_plan *plan) {
    uf_thin_plan tried;
    bool found = false;
    for (int32_t warps = UF_THIN_WARPS; warps >= 2; --warps) {
        if (plan_for(direction, args, warps, &tried) && (!found || tried.clocks < plan->clocks)) {
            *plan = tried;
            found = true;
        }
    }
    return found;
}
