/* plan.c - tile and shared memory of conv_direct. */
#include "kernels/cuda/conv/simt_direct/plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"

/* Runs of each pass: column phases [pass*phases, +phases) that read one element. Dilation 1 gives
 * runs from the first phase on. Others are cut into single phases, which the kernel takes too. */
static void make_runs(uf_direct_conv *conv, const uf_direct_tap taps[UF_DIRECT_TAPS], int32_t count,
                      int32_t phases) {
    const uf_direct_axis *axis = &conv->axis[1];
    conv->passes = (int32_t)uf_div_up(axis->live, phases);
    int32_t runs = 0, columns = 0;
    bool done[UF_DIRECT_TAPS] = {false};
    for (int32_t pass = 0; pass < conv->passes; ++pass) {
        conv->pass_begin[pass] = runs;
        for (int32_t t = 0; t < count; ++t) {
            if (done[t] || taps[t].phase / phases != pass) {
                continue;
            }
            uf_direct_run *run = &conv->run[runs];
            run->offset = (int32_t)taps[t].offset;
            run->column = columns;
            run->first = (uint8_t)(taps[t].phase % phases);
            run->count = 1;
            conv->column_tap[columns] = (uint8_t)taps[t].tap;
            conv->column_run[columns++] = (uint8_t)runs;
            done[t] = true;
            for (int32_t u = t + 1; u < count && run->first == 0 && run->count < phases; ++u) {
                if (!done[u] && taps[u].phase == pass * phases + run->count &&
                    taps[u].offset == taps[t].offset) {
                    ++run->count;
                    conv->column_tap[columns] = (uint8_t)taps[u].tap;
                    conv->column_run[columns++] = (uint8_t)runs;
                    done[u] = true;
                }
            }
            ++runs;
        }
    }
    conv->pass_begin[conv->passes] = runs;
}

typedef struct tile_shape {
    int32_t phases, channels, cells;
} tile_shape;

static const tile_shape shapes[] = {
#define UF_DIRECT_TILE(L, C, P) {L, C, P},
    UF_DIRECT_TILES
#undef UF_DIRECT_TILE
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* The number of the plan's tile, and how many there are for its phases. */
static int tile_number(const uf_direct_plan *plan, int *tiles) {
    int number = 0, count = 0;
    for (int i = 0; i < SHAPES; ++i) {
        if (shapes[i].phases == plan->phases) {
            const bool same =
                shapes[i].channels == plan->channels && shapes[i].cells == plan->cells;
            number = same ? count : number;
            ++count;
        }
    }
    *tiles = count;
    return number;
}

/* The tile whose multiplications, or loads from shared memory (a float per lane and cycle, four
 * times as dear), take least, those with channels beyond the last included; or the tile `number` of
 * those with its phases. False: there is none. */
static bool choose_tile(const uf_gpu *gpu, int32_t live, int32_t written, double cells, int number,
                        tile_shape *tile) {
    const int32_t wanted = live <= 4 ? live : (int32_t)uf_div_up(live, uf_div_up(live, 4));
    double least = -1;
    int count = 0;
    *tile = shapes[0];
    for (int i = 0; i < SHAPES; ++i) {
        const tile_shape shape = shapes[i];
        if (shape.phases != wanted) {
            continue;
        }
        if (number != UF_CONV_ANY_TILE) {
            if (count++ == number) {
                *tile = shape;
                return true;
            }
            continue;
        }
        /* Few cells fill a GPU only with fewer of them in each lane; one phase alone has such
         * tiles. */
        const bool few_channels =
            cells * (double)uf_div_up(written, shape.channels) < 256.0 * gpu->multiprocessors * 12;
        if (shape.phases == 1 && shape.channels == 3 && (shape.cells == 4) != few_channels) {
            continue;
        }
        const double products = (double)shape.phases * shape.channels * shape.cells;
        const double loads =
            4.0 * (shape.cells + shape.phases * uf_direct_weight_step(shape.channels));
        const double total_cost =
            (products + 0.5 * loads) / shape.cells * (double)uf_div_up(written, shape.channels);
        if (least < 0 || total_cost < least) {
            least = total_cost;
            *tile = shape;
        }
    }
    return number == UF_CONV_ANY_TILE;
}

/* Floats in which a warp turns phases into neighbours, one or two channels at a time, or has all
 * its results while it applies an activation. */
static int64_t stage_words(const uf_direct_conv *conv, const tile_shape *tile) {
    if (conv->axis[1].out_step > 1) {
        return (int64_t)(tile->channels % 2 == 0 ? 2 : 1) * 32 * tile->cells *
               conv->axis[1].out_step;
    }
    return conv->activation == UF_ACTIVATION_IDENTITY && !conv->accumulate
               ? 0
               : (int64_t)tile->channels * 32 * tile->cells;
}

/* Shared memory for this many channels, and the plan's numbers that follow from it. */
static int64_t shared_words(uf_direct_conv *conv, const tile_shape *tile, int64_t chunk,
                            int32_t buffers, int64_t last_offset) {
    const int64_t last_cell = conv->row_warps > 0
                                  ? (int64_t)(conv->warps_m / conv->row_warps - 1) * conv->pitch +
                                        (int64_t)conv->row_warps * 32 * tile->cells
                                  : (int64_t)conv->warps_m * 32 * tile->cells;
    const int64_t window = chunk * conv->channel_words;
    const int64_t reached = (chunk - 1) * conv->channel_words + last_offset + last_cell;
    const int64_t input = uf_div_up(window > reached ? window : reached, 4) * 4;
    const int64_t weights = uf_div_up((int64_t)conv->warps_c * conv->kernel[0] * conv->kernel[1] *
                                          chunk * uf_direct_weight_step(tile->channels),
                                      4) *
                            4;
    const int64_t stage = stage_words(conv, tile);
    const int64_t words =
        (input + weights) * buffers + stage * conv->warps_m * conv->warps_c * conv->warps_h;
    if (words < INT64_C(1) << 24) {
        conv->input_words = (int32_t)input;
        conv->weight_words = (int32_t)weights;
        conv->stage_words = (int32_t)stage;
        conv->chunk = (int32_t)chunk;
        conv->buffers = buffers;
    }
    return words;
}

static int32_t group_bits(int32_t width) {
    int32_t bits = 0;
    while (bits < 5 && 1 << bits < width) {
        ++bits;
    }
    return bits;
}

/* Cycles for the whole convolution, from the instructions of a block at the rate that was measured
 * (2.4 a cycle). */
static double estimate(const uf_direct_conv *conv, const uf_gpu *gpu, const tile_shape *tile,
                       int64_t words) {
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int32_t warps = conv->warps_m * conv->warps_c * conv->warps_h;
    const int32_t runs = conv->pass_begin[conv->passes];
    const double units = (double)conv->warps_m * conv->warps_c;
    const double taps = (double)conv->kernel[0] * conv->kernel[1];
    const double steps = (double)conv->read_per_group * conv->kernel[0];
    const double weight_step = uf_direct_weight_step(tile->channels);
    const double products = taps * conv->read_per_group * tile->channels * tile->cells;
    const double loads = steps * (runs * tile->cells + conv->kernel[1] * (weight_step + 3) / 4);
    const double bandwidth = units * steps * (runs * tile->cells + conv->kernel[1] * weight_step);
    const double turns = conv->kernel[0] * runs * (double)conv->chunks;
    const double multiply = units * (products + loads + turns * 35);
    const double reloads =
        conv->chunks == 1 ? 1 : (double)(uf_div_up(rows->live, conv->warps_h) * conv->passes);
    const int32_t width = conv->vector ? conv->pitch / 4 : columns->coords;
    const int32_t bits = group_bits(width);
    const double lines = (double)conv->read_per_group * rows->residues * rows->coords *
                         columns->residues * (1 << bits) / 32;
    const double load = lines * (50 + 12.0 * (double)uf_div_up(width, 1 << bits));
    const double weights =
        (double)conv->warps_c * tile->channels * conv->read_per_group * taps / 32 * 25;
    const double results = units * tile->channels * tile->cells * rows->out_step *
                           columns->out_step * (columns->out_step > 1 ? 7 : 5);
    const double instructions = multiply + (load + weights) * reloads + results + warps * 350.0;
    double block = instructions / 2.4 > bandwidth ? instructions / 2.4 : bandwidth;
    const double blocks =
        (double)conv->batch * conv->groups * conv->slices * rows->tiles * columns->tiles;
    const double per_thread = (double)tile->phases * tile->channels * tile->cells > 64 ? 12 : 16;
    const double by_shared = (double)(226 * 1024 / (words * 4 + 1024));
    const double by_registers =
        (double)(int32_t)(per_thread / warps) < 1 ? 1 : (double)(int32_t)(per_thread / warps);
    const double per = (double)uf_div_up((int64_t)blocks, gpu->multiprocessors);
    double resident = by_shared < by_registers ? by_shared : by_registers;
    resident = resident < 1 ? 1 : resident > per ? per : resident;
    /* Latency of one block, which others hide. */
    block +=
        (conv->buffers > 1 ? 1500 + 300 * conv->chunks * reloads : 1500 * conv->chunks * reloads) /
        resident;
    const double alive = resident * warps;
    const double slow = alive < 16 ? 1 + (16 - alive) * 0.06 : 1;
    return per * block * slow + 2000;
}

/* The search for the cheapest way to divide the cells among blocks and warps. */
typedef struct search {
    uf_direct_conv *conv; /* the candidate */
    const uf_gpu *gpu;
    tile_shape tile;
    int32_t warp_cells;   /* cells of a warp */
    int32_t cell_span[2]; /* of the axes, of one cell's window */
    int32_t parts;        /* warps that the written channels of a group need */
    uf_direct_conv best;
    double least;   /* cost of `best`; below 0: none yet */
    int64_t shared; /* bytes of `best` */
} search;

/* All read channels at once, or the most that leave room for another block. */
static void try_chunks(search *of, int64_t last_offset) {
    uf_direct_conv *const conv = of->conv;
    for (int32_t buffers = 1; buffers <= 2; ++buffers) {
        int64_t chunk = conv->read_per_group;
        int64_t words = shared_words(conv, &of->tile, chunk, buffers, last_offset);
        for (int64_t parts = 2; chunk > 1 && words * 4 > UF_DIRECT_SHARED; ++parts) {
            const int64_t fewer = uf_div_up(conv->read_per_group, parts);
            chunk = fewer < chunk ? fewer : chunk - 1;
            words = shared_words(conv, &of->tile, chunk, buffers, last_offset);
        }
        conv->chunks = (int32_t)uf_div_up(conv->read_per_group, chunk);
        if (words * 4 > UF_DIRECT_SHARED || (buffers > 1 && conv->chunks == 1)) {
            continue;
        }
        const double cost = estimate(conv, of->gpu, &of->tile, words);
        if (of->least < 0 || cost < of->least) {
            of->least = cost;
            of->best = *conv;
            of->shared = words * 4;
        }
    }
}

/* The rest of a block's warps: to channels, and to row phases. */
static void try_warps(search *of, int64_t last_offset) {
    uf_direct_conv *const conv = of->conv;
    const int32_t live = conv->axis[0].live;
    for (conv->warps_c = 1;
         conv->warps_c < 2 * of->parts && conv->warps_c * conv->warps_m <= UF_DIRECT_WARPS;
         conv->warps_c *= 2) {
        conv->slices = (int32_t)uf_div_up(of->parts, conv->warps_c);
        conv->warps_h = 1;
        try_chunks(of, last_offset);
        if (live > 1 && live * conv->warps_c * conv->warps_m <= UF_DIRECT_WARPS) {
            conv->warps_h = live;
            try_chunks(of, last_offset);
        }
    }
}

/* Rows of cells that `warps` warps hold, `width` cells each; 0: none. */
static int64_t height_of(const search *of, int32_t warps, int64_t width) {
    const uf_direct_conv *const conv = of->conv;
    const int64_t cells = conv->axis[0].cells;
    if (conv->row_warps > 0) {
        const int64_t height = warps % conv->row_warps == 0 ? warps / conv->row_warps : 0;
        return height < cells ? height : cells;
    }
    const int64_t room = (int64_t)warps * of->warp_cells - width;
    const int64_t height = room < 0 ? 0 : room / conv->pitch + 1;
    if (height < 1) {
        return 0;
    }
    /* as many tiles, as equal as they can be */
    return uf_div_up(cells, uf_div_up(cells, height < cells ? height : cells));
}

/* Tiles of `width` cells by what 1 to 8 warps hold. `whole`: whole warps to a row; else rows run on
 * from warp to warp. */
static void try_width(search *of, int64_t width, bool whole) {
    uf_direct_conv *const conv = of->conv;
    uf_direct_axis *const rows = &conv->axis[0], *const columns = &conv->axis[1];
    uf_direct_set_tile(columns, of->cell_span[1], width);
    conv->pitch = conv->vector ? (int32_t)uf_round_up(columns->coords, 4) : columns->coords;
    conv->row_warps = whole ? (int32_t)(width / of->warp_cells) : 0;
    for (int32_t warps = 1; warps <= UF_DIRECT_WARPS; ++warps) {
        const int64_t height = height_of(of, warps, width);
        if (height < 1) {
            continue;
        }
        uf_direct_set_tile(rows, of->cell_span[0], height);
        conv->warps_m =
            whole ? (int32_t)height * conv->row_warps
                  : (int32_t)uf_div_up((height - 1) * conv->pitch + width, of->warp_cells);
        conv->plane = rows->coords * conv->pitch;
        if (conv->vector) {
            conv->plane = (int32_t)uf_round_up(conv->plane, 4);
        }
        conv->channel_words = rows->residues * columns->residues * conv->plane;
        const int64_t last_offset = (int64_t)conv->channel_words +
                                    (int64_t)(of->cell_span[0] / rows->in_step) * conv->pitch +
                                    of->cell_span[1] / columns->in_step - conv->plane;
        try_warps(of, last_offset);
    }
}

/* Every way to cut the cells into tiles of 1 to 8 warps. */
static void try_all(search *of) {
    static const int32_t cuts[] = {1, 2, 3, 4, 6, 8, 12, 16};
    const int32_t cells = of->conv->axis[1].cells;
    const int64_t fewest = uf_div_up(cells, (int64_t)UF_DIRECT_WARPS * of->warp_cells);
    for (size_t cut = 0; cut < sizeof cuts / sizeof cuts[0]; ++cut) {
        int64_t width = uf_div_up(cells, fewest * cuts[cut]);
        if (cut > 0 && width < 32) {
            break;
        }
        width = of->conv->vector ? uf_round_up(width, 4) : width;
        try_width(of, width, false);
        width = uf_round_up(width, of->warp_cells);
        if (width <= cells + cells / 4) {
            try_width(of, width, true);
        }
    }
}

/* Offsets into the window, and divisors, of the chosen tile. */
static void set_offsets(uf_direct_conv *conv, const uf_direct_tap row_taps[UF_DIRECT_TAPS]) {
    const uf_direct_axis *const rows = &conv->axis[0], *const columns = &conv->axis[1];
    for (int32_t t = 0; t < conv->kernel[0]; ++t) {
        conv->row[t].tap = row_taps[t].tap;
        conv->row[t].offset =
            uf_direct_residue(rows, row_taps[t].offset) * columns->residues * conv->plane +
            (int32_t)(row_taps[t].offset / rows->in_step) * conv->pitch;
    }
    for (int32_t r = 0; r < conv->pass_begin[conv->passes]; ++r) {
        const int32_t offset = conv->run[r].offset;
        conv->run[r].offset =
            uf_direct_residue(columns, offset) * conv->plane + offset / columns->in_step;
    }
    conv->by_coords = uf_direct_divisor_of(rows->coords);
    conv->by_residues = uf_direct_divisor_of(rows->residues * columns->residues);
    conv->by_pitch = uf_direct_divisor_of(conv->pitch);
    conv->by_chunk = uf_direct_divisor_of(conv->chunk);
    conv->group_bits = group_bits(conv->vector ? conv->pitch / 4 : columns->coords);
}

/* Rows begin at four aligned elements, and so can windows. */
static bool has_vectors(const uf_view *read, int32_t in_step) {
    return in_step == 1 && read->extent[3] % 4 == 0 && read->stride[3] == 1 &&
           read->stride[0] % 4 == 0 && read->stride[1] % 4 == 0 && read->stride[2] % 4 == 0 &&
           (uintptr_t)read->data % (4 * uf_dtype_size(read->dtype)) == 0;
}

bool uf_direct_plan_of(const uf_conv_problem *problem, uf_direct_plan *plan) {
    const bool dgrad = problem->direction == UF_CONV_DGRAD;
    const uf_conv_kernel_args *args = problem->args;
    const uf_view *read = uf_conv_read(problem), *written = uf_conv_written(problem);
    memset(plan, 0, sizeof *plan);
    uf_direct_conv *conv = &plan->conv;
    uf_direct_tap taps[2][UF_DIRECT_TAPS];
    int32_t begin[2][UF_DIRECT_TAPS + 1] = {{0}};
    if (problem->direction == UF_CONV_WGRAD ||
        !uf_direct_axis_of(args, dgrad, 0, &conv->axis[0], taps[0], begin[0]) ||
        !uf_direct_axis_of(args, dgrad, 1, &conv->axis[1], taps[1], begin[1])) {
        return false;
    }
    const int64_t limit = INT64_C(1) << 28;
    if (read->extent[0] >= limit || read->extent[1] >= limit || written->extent[1] >= limit) {
        return false;
    }
    uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    uf_direct_describe(conv, args, dgrad);
    conv->vector = has_vectors(read, columns->in_step);
    if (conv->vector) {
        const int32_t from = (columns->cell_first + columns->low) & 3;
        uf_direct_lower(columns, taps[1], conv->kernel[1], from);
    }
    uf_direct_find_residues(rows, taps[0], conv->kernel[0]);
    uf_direct_find_residues(columns, taps[1], conv->kernel[1]);

    search of;
    of.conv = conv;
    of.gpu = problem->gpu;
    const double cells =
        (double)conv->batch * conv->groups * rows->cells * columns->cells * rows->live;
    if (!choose_tile(problem->gpu, columns->live, conv->written_per_group, cells, problem->tile,
                     &of.tile)) {
        return false;
    }
    of.warp_cells = 32 * of.tile.cells;
    of.cell_span[0] = rows->span;
    of.cell_span[1] = columns->span;
    of.parts = (int32_t)uf_div_up(conv->written_per_group, of.tile.channels);
    of.least = -1;
    make_runs(conv, taps[1], conv->kernel[1], of.tile.phases);
    try_all(&of);
    if (of.least < 0) {
        return false;
    }
    *conv = of.best;
    memcpy(conv->row_begin, begin[0], sizeof conv->row_begin);
    set_offsets(conv, taps[0]);
    plan->phases = of.tile.phases;
    plan->channels = of.tile.channels;
    plan->cells = of.tile.cells;
    plan->blocks =
        (int64_t)conv->batch * conv->groups * conv->slices * rows->tiles * columns->tiles;
    plan->threads = 32 * conv->warps_m * conv->warps_c * conv->warps_h;
    plan->shared = (size_t)of.shared;
    plan->cost = of.least;
    return plan->blocks < INT64_C(1) << 31;
}

bool uf_conv_plan_simt_direct(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_direct_plan *const own = UF_CONV_PLAN_OF(uf_direct_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_direct_plan_of(problem, own)) {
        return false;
    }
    plan->tile = tile_number(own, &plan->tiles);
    uf_direct_clear_addresses(&own->conv);
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : own->cost;
    plan->workspace = 0;
    return true;
}
