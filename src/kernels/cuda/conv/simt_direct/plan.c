/* plan.c - axes, tile and shared memory of conv_direct. */
#include "kernels/cuda/conv/simt_direct/plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/geometry.h"

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t div_down(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -div_up(-a, b);
}

uf_direct_divisor uf_direct_divisor_of(int64_t divisor) {
    uf_direct_divisor made = {(uint32_t)divisor, 0, 0};
    if (divisor > 1) {
        uint32_t bits = 0;
        while ((INT64_C(1) << bits) < divisor) {
            ++bits;
        }
        made.multiplier =
            (uint32_t)(((UINT64_C(1) << (31 + bits)) + (uint64_t)divisor - 1) / (uint64_t)divisor);
        made.shift = bits - 1;
    }
    return made;
}

bool uf_direct_axis_of(const uf_conv_kernel_args *args, bool dgrad, int i, uf_direct_axis *axis,
                       uf_direct_tap taps[UF_DIRECT_TAPS], int32_t begin[UF_DIRECT_TAPS + 1]) {
    const int64_t kernel = args->w.extent[2 + i];
    const int64_t stride = args->stride[i];
    const int64_t padding = args->padding[i];
    const int64_t limit = INT64_C(1) << 28;
    if (kernel > UF_DIRECT_TAPS || stride > UF_DIRECT_PHASES || padding >= limit ||
        args->dilation[i] >= limit / 32 || args->x.extent[2 + i] >= limit ||
        args->y.extent[2 + i] >= limit) {
        return false;
    }
    memset(axis, 0, sizeof *axis);
    memset(axis->map, UF_DIRECT_DEAD, sizeof axis->map);
    axis->read = (int32_t)(dgrad ? args->y.extent[2 + i] : args->x.extent[2 + i]);
    axis->written = (int32_t)(dgrad ? args->x.extent[2 + i] : args->y.extent[2 + i]);
    axis->out_step = dgrad ? (int32_t)stride : 1;
    axis->out_shift = dgrad ? (int32_t)padding : 0;
    axis->in_step = dgrad ? 1 : (int32_t)stride;
    int32_t count = 0;
    for (int32_t phase = 0; phase < axis->out_step; ++phase) {
        const uf_axis_walk walk =
            dgrad ? uf_axis_dgrad(axis->written, kernel, stride, padding, args->dilation[i], phase)
                  : uf_axis_fprop(axis->written, kernel, stride, padding, args->dilation[i]);
        if (walk.taps == 0) {
            continue;
        }
        begin[axis->live] = count;
        const int64_t first_cell = (walk.out_first + axis->out_shift - phase) / axis->out_step;
        for (int64_t t = 0; t < walk.taps; ++t, ++count) {
            taps[count].phase = axis->live;
            taps[count].tap = (int32_t)(walk.tap_first + t * walk.tap_step);
            taps[count].offset = walk.in_first + t * walk.in_tap_step - first_cell * walk.in_step;
        }
        if (axis->out_step > 1) {
            axis->map[phase] = (uint8_t)axis->live;
        }
        axis->phase[axis->live++] = (uint8_t)phase;
    }
    begin[axis->live] = count;
    int64_t low = taps[0].offset, high = taps[0].offset;
    for (int32_t t = 1; t < count; ++t) {
        low = taps[t].offset < low ? taps[t].offset : low;
        high = taps[t].offset > high ? taps[t].offset : high;
    }
    axis->low = (int32_t)low;
    axis->span = (int32_t)(high - low); /* of one cell's window, for now */
    axis->cell_first = (int32_t)div_down(axis->out_shift, axis->out_step);
    axis->cells = (int32_t)div_down((int64_t)axis->written - 1 + axis->out_shift, axis->out_step) +
                  1 - axis->cell_first;
    for (int32_t t = 0; t < count; ++t) {
        taps[t].offset -= low;
    }
    return true;
}

void uf_direct_lower(uf_direct_axis *axis, uf_direct_tap taps[UF_DIRECT_TAPS], int32_t count,
                     int32_t by) {
    axis->low -= by;
    axis->span += by;
    for (int32_t t = 0; t < count; ++t) {
        taps[t].offset += by;
    }
}

void uf_direct_find_residues(uf_direct_axis *axis, const uf_direct_tap taps[UF_DIRECT_TAPS],
                             int32_t count) {
    if (axis->in_step == 1) {
        axis->residues = 1;
        return;
    }
    for (int32_t t = 0; t < count; ++t) {
        const int32_t residue = (int32_t)(taps[t].offset % axis->in_step);
        if (axis->map[residue] == UF_DIRECT_DEAD) {
            axis->map[residue] = (uint8_t)axis->residues;
            axis->residue[axis->residues++] = (uint8_t)residue;
        }
    }
}

int32_t uf_direct_residue(const uf_direct_axis *axis, int64_t offset) {
    return axis->in_step == 1 ? 0 : axis->map[offset % axis->in_step];
}

void uf_direct_set_tile(uf_direct_axis *axis, int32_t cell_span, int64_t tile) {
    axis->tile = (int32_t)tile;
    axis->tiles = (int32_t)div_up(axis->cells, tile);
    axis->coords = (int32_t)tile + cell_span / axis->in_step;
    axis->span = (int32_t)(tile - 1) * axis->in_step + cell_span + 1;
}

/* Runs of each pass: column phases [pass*phases, +phases) that read one place. Dilation 1 gives
 * runs from the first phase on; what is not such a run is cut into single phases, which the kernel
 * takes too. */
static void make_runs(uf_direct_conv *conv, const uf_direct_tap taps[UF_DIRECT_TAPS], int32_t count,
                      int32_t phases) {
    const uf_direct_axis *axis = &conv->axis[1];
    conv->passes = (int32_t)div_up(axis->live, phases);
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

/* The tile whose multiplications, or loads from shared memory (a float per lane and cycle, four
 * times as dear), take least, MMAs with channels that are not there included. */
static tile_shape choose_tile(int32_t live, int32_t written, double cells) {
    static const tile_shape shapes[] = {
#define UF_DIRECT_TILE(L, C, P) {L, C, P},
        UF_DIRECT_TILES
#undef UF_DIRECT_TILE
    };
    const int32_t wanted = live <= 4 ? live : (int32_t)div_up(live, div_up(live, 4));
    tile_shape best = shapes[0];
    double least = -1;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
        const tile_shape shape = shapes[i];
        if (shape.phases != wanted) {
            continue;
        }
        /* Few cells fill a GPU only with less of them in each lane. */
        const bool few_channels =
            cells * (double)div_up(written, shape.channels) < 256.0 * 132 * 12;
        if (shape.channels == 3 && (shape.cells == 4) != few_channels) {
            continue;
        }
        const double mmas = (double)shape.phases * shape.channels * shape.cells;
        const double loads =
            4.0 * (shape.cells + shape.phases * uf_direct_weight_step(shape.channels));
        const double total_cost =
            (mmas + 0.5 * loads) / shape.cells * (double)div_up(written, shape.channels);
        if (least < 0 || total_cost < least) {
            least = total_cost;
            best = shape;
        }
    }
    return best;
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
    const int64_t input = div_up(window > reached ? window : reached, 4) * 4;
    const int64_t weights = div_up((int64_t)conv->warps_c * conv->kernel[0] * conv->kernel[1] *
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
 * (2.4 a cycle): a model that ranks tiles, no more. */
static double estimate(const uf_direct_conv *conv, const tile_shape *tile, int64_t words,
                       int32_t runs) {
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int32_t warps = conv->warps_m * conv->warps_c * conv->warps_h;
    const double units = (double)conv->warps_m * conv->warps_c;
    const double taps = (double)conv->kernel[0] * conv->kernel[1];
    const double steps = (double)conv->read_per_group * conv->kernel[0];
    const double weight_step = uf_direct_weight_step(tile->channels);
    const double mmas = taps * conv->read_per_group * tile->channels * tile->cells;
    const double loads = steps * (runs * tile->cells + conv->kernel[1] * (weight_step + 3) / 4);
    const double bandwidth = units * steps * (runs * tile->cells + conv->kernel[1] * weight_step);
    const double turns = conv->kernel[0] * runs * (double)conv->chunks;
    const double multiply = units * (mmas + loads + turns * 35);
    const double reloads =
        conv->chunks == 1 ? 1 : (double)(div_up(rows->live, conv->warps_h) * conv->passes);
    const int32_t width = conv->vector ? conv->pitch / 4 : columns->coords;
    const int32_t bits = group_bits(width);
    const double lines = (double)conv->read_per_group * rows->residues * rows->coords *
                         columns->residues * (1 << bits) / 32;
    const double load = lines * (50 + 12.0 * (double)div_up(width, 1 << bits));
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
    const double per = (double)div_up((int64_t)blocks, 132);
    double resident = by_shared < by_registers ? by_shared : by_registers;
    resident = resident < 1 ? 1 : resident > per ? per : resident;
    /* What one block waits for, others hide. */
    block +=
        (conv->buffers > 1 ? 1500 + 300 * conv->chunks * reloads : 1500 * conv->chunks * reloads) /
        resident;
    const double alive = resident * warps;
    const double slow = alive < 16 ? 1 + (16 - alive) * 0.06 : 1;
    return per * block * slow + 2000;
}

void uf_direct_describe(uf_direct_conv *conv, const uf_conv_kernel_args *args, bool dgrad) {
    const uf_view *read = dgrad ? &args->y : &args->x;
    const uf_view *written = dgrad ? &args->x : &args->y;
    const uf_epilogue *epilogue = &args->epilogue;
    conv->kernel[0] = (int32_t)args->w.extent[2];
    conv->kernel[1] = (int32_t)args->w.extent[3];
    conv->dgrad = dgrad;
    for (int i = 0; i < 2; ++i) {
        conv->stride[i] = (int32_t)args->stride[i];
        conv->padding[i] = (int32_t)args->padding[i];
        conv->dilation[i] = (int32_t)args->dilation[i];
        conv->axis[i].read = (int32_t)read->extent[2 + i];
        conv->axis[i].written = (int32_t)written->extent[2 + i];
    }
    conv->batch = (int32_t)written->extent[0];
    conv->groups = (int32_t)args->groups;
    conv->read_per_group = (int32_t)(read->extent[1] / args->groups);
    conv->written_per_group = (int32_t)(written->extent[1] / args->groups);

    conv->scale = epilogue->scale.data;
    conv->scale_stride = epilogue->scale.stride[1];
    conv->shift = epilogue->shift.data;
    conv->shift_stride = epilogue->shift.stride[1];
    conv->activation = epilogue->activation.kind;
    conv->parameter = (float)epilogue->activation.parameter;
    conv->accumulate = args->mode == UF_ACCUMULATE;

    conv->read = read->data;
    conv->written = written->data;
    conv->weight = args->w.data;
    for (int axis = 0; axis < 4; ++axis) {
        conv->read_stride[axis] = read->stride[axis];
        conv->written_stride[axis] = written->stride[axis];
    }
    conv->w_group = args->w.extent[0] / args->groups * args->w.stride[0];
    conv->w_written = args->w.stride[dgrad ? 1 : 0];
    conv->w_read = args->w.stride[dgrad ? 0 : 1];
    conv->w_row = args->w.stride[2];
    conv->w_column = args->w.stride[3];
}

bool uf_direct_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                       uf_direct_plan *plan) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x;
    const uf_view *written = dgrad ? &args->x : &args->y;
    memset(plan, 0, sizeof *plan);
    uf_direct_conv *conv = &plan->conv;
    uf_direct_tap taps[2][UF_DIRECT_TAPS];
    int32_t begin[2][UF_DIRECT_TAPS + 1];
    if (direction == UF_CONV_WGRAD ||
        !uf_direct_axis_of(args, dgrad, 0, &conv->axis[0], taps[0], begin[0]) ||
        !uf_direct_axis_of(args, dgrad, 1, &conv->axis[1], taps[1], begin[1])) {
        return false;
    }
    const int64_t limit = INT64_C(1) << 28;
    if (read->extent[0] >= limit || read->extent[1] >= limit || written->extent[1] >= limit) {
        return false;
    }
    const size_t element = uf_dtype_size(read->dtype);
    uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    uf_direct_describe(conv, args, dgrad);

    /* Four aligned elements at a time: rows begin at such, and so do windows. */
    conv->vector = columns->in_step == 1 && read->extent[3] % 4 == 0 && read->stride[3] == 1 &&
                   read->stride[0] % 4 == 0 && read->stride[1] % 4 == 0 &&
                   read->stride[2] % 4 == 0 && (uintptr_t)read->data % (4 * element) == 0;
    if (conv->vector) {
        const int32_t from = (columns->cell_first + columns->low) & 3;
        uf_direct_lower(columns, taps[1], conv->kernel[1], from);
    }
    uf_direct_find_residues(rows, taps[0], conv->kernel[0]);
    uf_direct_find_residues(columns, taps[1], conv->kernel[1]);
    const int32_t cell_span[2] = {rows->span, columns->span};

    const tile_shape tile =
        choose_tile(columns->live, conv->written_per_group,
                    (double)conv->batch * conv->groups * rows->cells * columns->cells * rows->live);
    const int32_t parts = (int32_t)div_up(conv->written_per_group, tile.channels);
    make_runs(conv, taps[1], conv->kernel[1], tile.phases);
    const int32_t warp_cells = 32 * tile.cells;

    /* Every way to cut the cells into tiles of 1 to 8 warps, and to give the rest of a block's
     * warps to channels and row phases. */
    static const int32_t cuts[] = {1, 2, 3, 4, 6, 8, 12, 16};
    uf_direct_conv best = *conv;
    double least = -1;
    int64_t best_shared = 0;
    for (size_t cut = 0; cut < sizeof cuts / sizeof cuts[0]; ++cut) {
        const int64_t fewest = div_up(columns->cells, (int64_t)UF_DIRECT_WARPS * warp_cells);
        int64_t width = div_up(columns->cells, fewest * cuts[cut]);
        if (cut > 0 && width < 32) {
            break;
        }
        for (int rounded = 0; rounded < 2; ++rounded) {
            /* Either rows that run on from warp to warp, or whole warps to a row. */
            width = rounded        ? div_up(width, warp_cells) * warp_cells
                    : conv->vector ? div_up(width, 4) * 4
                                   : width;
            if (rounded && width > columns->cells + columns->cells / 4) {
                continue;
            }
            uf_direct_set_tile(columns, cell_span[1], width);
            conv->pitch = conv->vector ? (int32_t)div_up(columns->coords, 4) * 4 : columns->coords;
            for (int32_t warps_m = 1; warps_m <= UF_DIRECT_WARPS; ++warps_m) {
                int64_t height;
                conv->row_warps = 0;
                if (rounded) {
                    conv->row_warps = (int32_t)(width / warp_cells);
                    height = warps_m / conv->row_warps;
                    if (warps_m % conv->row_warps != 0) {
                        continue;
                    }
                } else {
                    const int64_t room = (int64_t)warps_m * warp_cells - width;
                    height = room < 0 ? 0 : room / conv->pitch + 1;
                }
                if (height < 1) {
                    continue;
                }
                if (height > rows->cells) {
                    height = rows->cells;
                }
                if (!rounded) { /* as many tiles, as equal as they can be */
                    height = div_up(rows->cells, div_up(rows->cells, height));
                }
                uf_direct_set_tile(rows, cell_span[0], height);
                conv->warps_m =
                    rounded ? (int32_t)height * conv->row_warps
                            : (int32_t)div_up((height - 1) * conv->pitch + width, warp_cells);
                conv->plane = rows->coords * conv->pitch;
                if (conv->vector) {
                    conv->plane = (int32_t)div_up(conv->plane, 4) * 4;
                }
                conv->channel_words = rows->residues * columns->residues * conv->plane;
                const int64_t last_offset = (int64_t)conv->channel_words +
                                            (int64_t)(cell_span[0] / rows->in_step) * conv->pitch +
                                            cell_span[1] / columns->in_step - conv->plane;
                for (conv->warps_c = 1;
                     conv->warps_c < 2 * parts && conv->warps_c * conv->warps_m <= UF_DIRECT_WARPS;
                     conv->warps_c *= 2) {
                    conv->slices = (int32_t)div_up(parts, conv->warps_c);
                    for (int spread = 0; spread < 2; ++spread) {
                        conv->warps_h = spread ? rows->live : 1;
                        if (spread &&
                            (rows->live == 1 ||
                             conv->warps_h * conv->warps_c * conv->warps_m > UF_DIRECT_WARPS)) {
                            continue;
                        }
                        /* All read channels at once, or the most that leave room for another block.
                         */
                        for (int32_t buffers = 1; buffers <= 2; ++buffers) {
                            int64_t chunk = conv->read_per_group;
                            int64_t words = shared_words(conv, &tile, chunk, buffers, last_offset);
                            for (int64_t parts_k = 2; chunk > 1 && words * 4 > UF_DIRECT_SHARED;
                                 ++parts_k) {
                                const int64_t fewer = div_up(conv->read_per_group, parts_k);
                                chunk = fewer < chunk ? fewer : chunk - 1;
                                words = shared_words(conv, &tile, chunk, buffers, last_offset);
                            }
                            conv->chunks = (int32_t)div_up(conv->read_per_group, chunk);
                            if (words * 4 > UF_DIRECT_SHARED ||
                                (buffers > 1 && conv->chunks == 1)) {
                                continue;
                            }
                            const double total_cost =
                                estimate(conv, &tile, words, conv->pass_begin[conv->passes]);
                            if (least < 0 || total_cost < least) {
                                least = total_cost;
                                best = *conv;
                                best_shared = words * 4;
                            }
                        }
                    }
                }
            }
        }
    }
    if (least < 0) {
        return false;
    }
    *conv = best;

    /* Offsets into the window. */
    memcpy(conv->row_begin, begin[0], sizeof conv->row_begin);
    for (int32_t t = 0; t < conv->kernel[0]; ++t) {
        conv->row[t].tap = taps[0][t].tap;
        conv->row[t].offset =
            uf_direct_residue(rows, taps[0][t].offset) * columns->residues * conv->plane +
            (int32_t)(taps[0][t].offset / rows->in_step) * conv->pitch;
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
    plan->phases = tile.phases;
    plan->channels = tile.channels;
    plan->cells = tile.cells;
    plan->blocks =
        (int64_t)conv->batch * conv->groups * conv->slices * rows->tiles * columns->tiles;
    plan->threads = 32 * conv->warps_m * conv->warps_c * conv->warps_h;
    plan->shared = (size_t)best_shared;
    plan->cost = least;
    return plan->blocks < INT64_C(1) << 31;
}
