/* plan.c - see mma_small/plan.h. */
#include "kernels/cuda/conv/mma_small/plan.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/select/cost.h"

enum {
    MULTIPROCESSORS = 132,
    RESIDENT_WARPS = 16, /* 128 registers per thread */
    RESIDENT_SHARED = 227 << 10,
    MOST_TABLE = 4096, /* copies of a row of w */
    H200_CYCLES = 1755 /* in a microsecond */
};

static int32_t div_up(int64_t a, int64_t b) {
    return (int32_t)uf_div_up(a, b);
}

static int32_t least(int64_t a, int64_t b) {
    return (int32_t)(a < b ? a : b);
}

/* Up to the next that is `rest` mod `unit`. */
static int32_t up_to(int32_t value, int32_t rest, int32_t unit) {
    return value + (rest - value % unit + unit) % unit;
}

/* The members that do not depend on how the work is shared. */
typedef struct small_shape {
    bool dgrad;
    int32_t step[2]; /* of the written side from position to position */
    int32_t in_step[2], span[2];
    int32_t positions[3];
    int32_t taps, most_taps, phases;
    int32_t phase_taps[2][UF_SMALL_PHASES];
    int32_t read, written, groups; /* channels of a group */
    int32_t mma;                   /* K of one */
    bool three, flat;              /* flat: w's (c, r, s) follow each other, rows are aligned */
    int32_t element;               /* bytes */
    double outputs, read_bytes, weight_bytes;
    double other_bytes, weight_elements; /* wgrad */
} small_shape;

/* Elements of (c, r, s) follow each other, and 16 bytes of a row can be copied at once if w's
 * address allows it. */
static bool has_vectors(const uf_view *w) {
    int64_t step = 1;
    for (int axis = 3; axis > 0; --axis) {
        if (w->extent[axis] != 1 && w->stride[axis] != step) {
            return false;
        }
        step *= w->extent[axis];
    }
    const int64_t unit = 16 / (int64_t)uf_dtype_size(w->dtype);
    return w->stride[0] % unit == 0;
}

static bool is_flat(const uf_view *w) {
    return has_vectors(w) && (uintptr_t)w->data % 16 == 0;
}

/* All but `flat`. */
static bool shape_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_small_plan *plan, small_shape *made) {
    memset(made, 0, sizeof *made);
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x;
    const uf_view *written = dgrad ? &args->x : &args->y;
    if (args->stride[0] * args->stride[1] > UF_SMALL_PHASES && dgrad) {
        return false;
    }
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    if (taps > 256 || uf_view_count(written) <= 0 || uf_view_count(read) <= 0) {
        return false;
    }
    made->dgrad = dgrad;
    made->taps = (int32_t)taps;
    made->phases = 1;
    made->most_taps = 1;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis], stride = args->stride[axis];
        const int64_t dilation = args->dilation[axis], padding = args->padding[axis];
        const int32_t phases = dgrad ? (int32_t)stride : 1;
        int64_t low = 0, high = 0, most = 0;
        bool any = false;
        for (int32_t phase = 0; phase < phases; ++phase) {
            const uf_axis_walk walk =
                dgrad ? uf_axis_dgrad(args->x.extent[2 + axis], kernel, stride, padding, dilation,
                                      phase)
                      : uf_axis_fprop(args->y.extent[2 + axis], kernel, stride, padding, dilation);
            made->in_step[axis] = (int32_t)walk.in_step;
            most = walk.taps > most ? walk.taps : most;
            made->phase_taps[axis][phase] = (int32_t)walk.taps;
            if (walk.taps == 0) {
                continue;
            }
            const int64_t last = walk.in_first + (walk.taps - 1) * walk.in_tap_step;
            const int64_t from = last < walk.in_first ? last : walk.in_first;
            const int64_t to = last < walk.in_first ? walk.in_first : last;
            low = any && low < from ? low : from;
            high = any && high > to ? high : to;
            any = true;
        }
        if (high - low > 4096 || low < -4096) {
            return false;
        }
        made->step[axis] = phases;
        made->phases *= phases;
        made->span[axis] = (int32_t)(high - low) + 1;
        made->most_taps *= (int32_t)most;
        made->positions[1 + axis] = div_up(written->extent[2 + axis], phases);
        plan->first[axis] = (int32_t)low;
    }
    made->positions[0] = (int32_t)written->extent[0];
    made->read = (int32_t)(read->extent[1] / args->groups);
    made->written = (int32_t)(written->extent[1] / args->groups);
    made->groups = (int32_t)args->groups;
    made->three = args->x.dtype != UF_BF16 && args->math == UF_MATH_FP32;
    made->mma = args->x.dtype == UF_BF16 || args->math == UF_MATH_BF16 ? 16 : 8;
    made->element = (int32_t)uf_dtype_size(args->x.dtype);
    const double bytes = (double)uf_dtype_size(args->x.dtype);
    made->outputs = (double)uf_view_count(written);
    made->read_bytes = bytes * (double)uf_view_count(read);
    made->weight_bytes = bytes * (double)uf_view_count(&args->w);
    return true;
}

/* The box of at most `most` positions whose windows are smallest together. */
static void choose_box(const small_shape *of, int32_t most, uf_small_plan *plan) {
    double best = 0.0;
    for (int32_t columns = 1;; columns *= 2) {
        int32_t box[3], window[2];
        box[2] = least(least(columns, of->positions[2]), most);
        box[1] = least(most / box[2], of->positions[1]);
        box[0] = box[1] * box[2] == (int64_t)of->positions[1] * of->positions[2]
                     ? least(most / (box[1] * box[2]), of->positions[0])
                     : 1;
        double words = box[0];
        double boxes = div_up(of->positions[0], box[0]);
        for (int axis = 0; axis < 2; ++axis) {
            window[axis] = (box[1 + axis] - 1) * of->in_step[axis] + of->span[axis];
            words *= window[axis];
            boxes *= div_up(of->positions[1 + axis], box[1 + axis]);
        }
        /* A block costs what its positions cost, those that are not there too. */
        const double total_cost = boxes * (words + 2.0 * most);
        if (best == 0.0 || total_cost <= best) {
            best = total_cost;
            memcpy(plan->box, box, sizeof box);
            memcpy(plan->window, window, sizeof window);
        }
        if (columns >= of->positions[2] || columns >= most) {
            break;
        }
    }
    for (int axis = 0; axis < 3; ++axis) {
        plan->boxes[axis] = div_up(of->positions[axis], plan->box[axis]);
    }
}

/* Chunks of up to `depth` read channels; false where they do not fit. */
static bool lay_out(const small_shape *of, int32_t depth, uf_small_plan *plan) {
    const int32_t unit = 16 / of->element, word = 4 / of->element; /* elements of 16 and 4 bytes */
    plan->depth = least(depth, of->read);
    plan->chunks = div_up(of->read, plan->depth);
    plan->step = of->mma;
    plan->most_steps = div_up((int64_t)plan->depth * of->most_taps, of->mma) * of->mma;
    plan->padded = false;
    for (int32_t down = 0; down < of->step[0]; ++down) {
        for (int32_t across = 0; across < of->step[1]; ++across) {
            const int64_t taps = (int64_t)of->phase_taps[0][down] * of->phase_taps[1][across];
            plan->padded = plan->padded || plan->depth * taps % of->mma != 0;
        }
    }
    plan->run = (of->dgrad ? plan->tile_channels : plan->depth) * of->taps;
    plan->vector =
        of->flat && (plan->chunks == 1 || plan->depth * of->taps % unit == 0 || of->dgrad) &&
        (plan->channel_tiles == 1 || plan->tile_channels * of->taps % unit == 0 || !of->dgrad);
    plan->pieces = plan->vector ? div_up(plan->run, unit) : plan->run;
    /* Lanes read eight written channels of four steps: at odd multiples of 16 bytes these meet few
     * banks twice, and so they do where channels are an odd number of words apart. */
    if (of->dgrad) {
        const bool even = of->taps * of->element % 32 == 0;
        plan->across = of->taps + (even ? unit : 0);
        plan->row_pitch = div_up((int64_t)plan->tile_channels * plan->across, unit) * unit;
        plan->deep = plan->row_pitch;
    } else {
        plan->row_pitch = up_to(div_up(plan->run, unit) * unit, 4 * word, 32 * word);
        plan->across = plan->row_pitch;
        plan->deep = of->taps;
    }
    plan->plane = up_to(plan->box[0] * plan->window[0] * plan->window[1], 8 * word, 32 * word);
    const int64_t rows = of->dgrad ? plan->depth : plan->tile_channels;
    const int64_t stage =
        of->element *
        ((int64_t)(plan->depth + (plan->padded ? 1 : 0)) * plan->plane + rows * plan->row_pitch);
    plan->staging_pitch = plan->tile_pixels + 4;
    const int64_t tables = (plan->plane + (int64_t)of->phases * plan->most_steps + 2 * of->mma +
                            2 * plan->pieces + 3) /
                           4 * 4;
    const int64_t epilogue =
        (int64_t)4 * plan->depth_warps * of->phases * plan->tile_channels * plan->staging_pitch;
    if (plan->pieces > MOST_TABLE || stage >= 1 << 16) {
        return false;
    }
    plan->stage = (int32_t)(stage + 15) / 16 * 16;
    plan->stages = UF_SMALL_STAGES;
    const int64_t stages = (int64_t)UF_SMALL_STAGES * plan->stage;
    const int64_t bytes = 4 * tables + (stages > epilogue ? stages : epilogue);
    if (bytes > UF_SMALL_SHARED) {
        return false;
    }
    plan->shared = (int32_t)bytes;
    return true;
}

/* Cycles of a block that nothing hides while the next chunk comes, by direction. Fitted to forced
 * tiles of whole models' layers: 600, for all, made deep sums of a few blocks look twice as fast.
 */
enum { DGRAD_WAIT = 1600, FPROP_WAIT = 3000, WGRAD_WAIT = 2500 };

/* The parts of one round of blocks, in cycles. */
typedef struct effort {
    double warps, resident, steps; /* of a block, and at most on a multiprocessor; MMAs that its
                                      busiest warp makes one after the other */
    double mmas;                   /* of all its warps */
    double issue, tensor, shared, latency; /* of an MMA */
    double chunks, copies; /* of a block, one after the other; instructions of 32 copies, all */
    double wait;           /* for a chunk */
    double sums;           /* that leave through shared memory */
    double blocks, bytes;  /* of shared memory of a block */
    double traffic;        /* bytes of all blocks */
    double splits, outputs;
} effort;

/* A warp alone waits for most of what it issues; a multiprocessor issues four instructions a cycle,
 * moves 128 bytes to or from shared memory, and has MMAs to make. Fitted to an H200. */
static double micros_of(const effort *of) {
    double resident = of->resident / of->warps;
    const double fit = RESIDENT_SHARED / (of->bytes + 1024.0);
    resident = fit < resident ? fit : resident;
    resident = resident < 1.0 ? 1.0 : (double)(int)resident;
    const double rounds =
        (double)div_up((int64_t)of->blocks, (int64_t)(MULTIPROCESSORS * resident));
    const double beside = of->blocks / rounds / MULTIPROCESSORS;
    const double here = beside > 1.0 ? beside : 1.0;
    double busy = of->mmas * of->issue + of->copies * 10.0 + of->sums / 32.0 * 6.0 +
                  of->warps * (600.0 + of->chunks * 80.0);
    busy /= 2.1; /* of four */
    const double tensors = of->mmas * of->tensor / 4.0;
    const double banks = of->mmas * of->shared + of->copies * 4.0 + of->sums / 32.0 * 2.0;
    busy = busy > tensors ? busy : tensors;
    busy = busy > banks ? busy : banks;
    const double alone = of->steps * of->latency + of->copies / of->warps * 40.0 +
                         of->chunks * of->wait + of->sums / 32.0 / of->warps * 20.0 + 2500.0;
    const double middle = busy * here > alone ? busy * here : alone;
    const double memory = of->traffic / 2400.0;
    double cost = 3200.0 + (rounds * middle > memory ? rounds * middle : memory);
    if (of->splits > 1.0) {
        cost += 2200.0 + 4.0 * of->outputs * of->splits / 2400.0;
    }
    return cost / 1750.0;
}

/* An MMA of `tiles` of 16 x 8 and `loads` of four bytes. */
static void set_mma(const small_shape *of, double tiles, double loads, effort *made) {
    const double pairs = of->mma == 16 ? 2.0 : 1.0;
    made->issue = (of->three ? tiles * 7.0 + loads * 5.0 : tiles + loads * 4.0 * pairs) + 25.0;
    made->tensor = tiles * (of->three ? 3.0 : 1.0) * 6.5;
    made->shared = (loads + 2.0) * pairs * 1.2;
    made->latency = of->three ? 560.0 : 400.0;
}

static double plan_micros(const small_shape *of, const uf_small_plan *plan) {
    effort made;
    memset(&made, 0, sizeof made);
    set_mma(of,
            plan->tall   ? 16.0
            : plan->wide ? 8.0
                         : 4.0,
            plan->tall   ? 24.0
            : plan->wide ? 16.0
                         : 18.0,
            &made);
    const double per_split = plan->per_split;
    const double boxes = (double)plan->boxes[0] * plan->boxes[1] * plan->boxes[2];
    const double weights = (double)plan->depth * plan->tile_channels * of->taps;
    made.resident = plan->tall ? UF_SMALL_TALL_WARPS : RESIDENT_WARPS;
    made.warps = plan->warps;
    made.steps = per_split * div_up(plan->most_steps / plan->step, plan->depth_warps);
    made.mmas = per_split * (double)plan->depth * of->taps / of->mma * plan->pixel_warps *
                plan->channel_warps;
    made.chunks = per_split;
    made.wait = of->dgrad ? DGRAD_WAIT : FPROP_WAIT;
    made.copies = per_split *
                  ((double)plan->depth * plan->plane * (of->element == 2 ? 2.0 : 1.0) +
                   (plan->vector ? weights * of->element / 16.0 : weights)) /
                  32.0;
    made.sums = (double)plan->depth_warps * of->phases * plan->tile_channels * plan->tile_pixels;
    made.blocks = boxes * plan->channel_tiles * of->groups * plan->splits;
    made.bytes = plan->shared;
    made.splits = plan->splits;
    made.outputs = of->outputs;
    made.traffic = of->weight_bytes * boxes + of->read_bytes * plan->channel_tiles +
                   4.0 * of->outputs * plan->splits;
    return 1.5 + (plan->wide ? 1.25 : 1.0) * micros_of(&made);
}

static void consider(const small_shape *of, const uf_small_plan *plan, bool *found,
                     uf_small_plan *best) {
    uf_small_plan now = *plan;
    const int64_t blocks =
        (int64_t)now.boxes[0] * now.boxes[1] * now.boxes[2] * now.channel_tiles * of->groups;
    if (blocks > INT64_C(1) << 24) {
        return;
    }
    /* Sixteen warps a multiprocessor, or half of that, or a quarter, or no splits. */
    const int64_t full = (int64_t)MULTIPROCESSORS *
                         (now.tall ? UF_SMALL_TALL_WARPS : RESIDENT_WARPS) / now.warps / blocks;
    for (int i = 0; i < 4; ++i) {
        int64_t splits = i == 3 ? 1 : full >> i;
        splits = splits < 1 ? 1 : splits > 64 ? 64 : splits;
        now.per_split = div_up(now.chunks, least(splits, now.chunks));
        now.splits = div_up(now.chunks, now.per_split);
        now.micros = plan_micros(of, &now);
        if (!*found || now.micros < best->micros) {
            *found = true;
            *best = now;
        }
        if (now.splits == 1) {
            break;
        }
    }
}

/* Offsets within a box, an image and a row of w are 32-bit. */
static bool near_enough(const uf_view *view, int64_t images) {
    int64_t reach = 0;
    for (int axis = 0; axis < 4; ++axis) {
        if (axis == 1) {
            continue;
        }
        const int64_t steps = axis == 0 ? images : view->extent[axis];
        const int64_t size = llabs(view->stride[axis]);
        if (size > INT64_C(1) << 30) {
            return steps <= 1;
        }
        reach += steps * size;
    }
    return reach < INT64_C(1) << 30;
}

/* Plans of one kind of warps. */
static void search(const small_shape *of, int tile, uf_small_plan *plan, bool *found,
                   uf_small_plan *best) {
    const int32_t pixels = plan->wide && !plan->tall ? 32 : 64;
    const int32_t channels = plan->wide ? 32 : 8;
    const int32_t most = plan->tall ? UF_SMALL_TALL_WARPS : UF_SMALL_WARPS;
    for (int32_t pixel_warps = 1; pixel_warps <= 8; pixel_warps *= 2) {
        if (of->phases * pixel_warps > most) {
            break;
        }
        plan->pixel_warps = pixel_warps;
        plan->tile_pixels = pixels * pixel_warps;
        choose_box(of, plan->tile_pixels, plan);
        for (int32_t channel_warps = 1; channel_warps <= 4; channel_warps *= 2) {
            plan->channel_warps = channel_warps;
            plan->tile_channels = channels * channel_warps;
            plan->channel_tiles = div_up(of->written, plan->tile_channels);
            if (channel_warps > 1 && plan->tile_channels - of->written >= channels) {
                break;
            }
            if (!uf_conv_is_tile(tile, uf_small_tile_number(pixel_warps, channel_warps))) {
                continue;
            }
            for (plan->depth_log = 0; plan->depth_log <= 2; ++plan->depth_log) {
                const int32_t depth_warps = 1 << plan->depth_log;
                plan->depth_warps = depth_warps;
                plan->warps = of->phases * pixel_warps * channel_warps * depth_warps;
                if (plan->warps > most || (plan->warps < 4 && depth_warps < 4)) {
                    continue;
                }
                for (int32_t depth = 4; depth <= 32; depth *= 2) {
                    if (lay_out(of, depth, plan)) {
                        consider(of, plan, found, best);
                    }
                    if (depth >= of->read) {
                        break;
                    }
                }
            }
        }
    }
}

static bool plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args, bool flat,
                    int tile, uf_small_plan *plan) {
    small_shape of;
    memset(plan, 0, sizeof *plan);
    if (direction == UF_CONV_WGRAD || !shape_of(direction, args, plan, &of)) {
        return false;
    }
    of.flat = flat;
    const uf_view *read = of.dgrad ? &args->y : &args->x;
    for (int axis = 1; axis < 4; ++axis) {
        if (llabs(args->w.stride[axis]) > INT64_C(1) << 18) {
            return false;
        }
    }
    plan->phases = of.phases;
    plan->wide = of.written > 16;
    bool found = false;
    uf_small_plan best = *plan;
    search(&of, tile, plan, &found, &best);
    if (plan->wide && of.dgrad) { /* fprop's take as long or longer (H200) */
        plan->tall = true;
        search(&of, tile, plan, &found, &best);
    }
    *plan = best;
    return found && near_enough(read, plan->box[0]);
}

bool uf_small_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                      uf_small_plan *plan) {
    return plan_of(direction, args, is_flat(&args->w), tile, plan);
}

enum {
    WGRAD_ROWS = 32,    /* of a warp */
    WGRAD_COLUMNS = 32, /* of a warp */
    WGRAD_BOX = 128     /* positions, at most */
};

static double wgrad_micros(const small_shape *of, const uf_small_wgrad_plan *plan) {
    effort made;
    memset(&made, 0, sizeof made);
    set_mma(of, 8.0, 16.0, &made);
    const double mmas = (double)plan->per_split * plan->positions / of->mma;
    made.resident = RESIDENT_WARPS;
    made.warps = plan->warps;
    made.steps = plan->per_split * div_up(plan->positions / of->mma, plan->depth_warps);
    made.mmas = mmas * plan->row_warps * plan->column_warps;
    made.chunks = plan->per_split;
    made.wait = WGRAD_WAIT;
    made.copies = plan->per_split *
                  ((double)plan->rows * plan->positions + (double)plan->channels * plan->plane) /
                  32.0;
    made.sums = 1024.0 * plan->warps;
    made.blocks = (double)plan->row_tiles * plan->channel_tiles * of->groups * plan->splits;
    made.bytes = plan->shared;
    made.splits = plan->splits;
    made.outputs = of->weight_elements;
    made.traffic = 4.0 * of->weight_elements * plan->splits + of->read_bytes * plan->row_tiles +
                   of->other_bytes * plan->channel_tiles;
    return 0.5 + 1.1 * micros_of(&made);
}

bool uf_small_wgrad_plan_of(const uf_conv_kernel_args *args, int tile, uf_small_wgrad_plan *plan) {
    small_shape of;
    uf_small_plan boxes;
    memset(plan, 0, sizeof *plan);
    memset(&boxes, 0, sizeof boxes);
    if (uf_view_count(&args->w) <= 0 || uf_view_count(&args->w) >= INT64_C(1) << 30 ||
        !shape_of(UF_CONV_FPROP, args, &boxes, &of)) {
        return false;
    }
    of.other_bytes = (double)uf_dtype_size(args->y.dtype) * of.outputs;
    of.weight_elements = (double)uf_view_count(&args->w);
    const int32_t rows_log = of.written > WGRAD_ROWS ? 1 : 0;
    bool found = false;
    uf_small_wgrad_plan best = *plan;
    for (int32_t most = 32; most <= WGRAD_BOX; most *= 2) {
        choose_box(&of, most, &boxes);
        const int32_t there = boxes.box[0] * boxes.box[1] * boxes.box[2];
        memcpy(plan->box, boxes.box, sizeof plan->box);
        memcpy(plan->boxes, boxes.boxes, sizeof plan->boxes);
        memcpy(plan->window, boxes.window, sizeof plan->window);
        plan->positions = div_up(there, of.mma) * of.mma;
        const int32_t word = 4 / of.element;
        plan->row_pitch = up_to(plan->positions, 4 * word, 32 * word);
        plan->plane = plan->box[0] * plan->window[0] * plan->window[1];
        plan->plane =
            up_to(plan->plane, word, 2 * word); /* channels beside each other: other banks */
        const int64_t all = (int64_t)plan->boxes[0] * plan->boxes[1] * plan->boxes[2];
        if (all > INT64_C(1) << 24) {
            continue;
        }
        plan->all_boxes = (int32_t)all;
        for (int32_t shape = 0; shape < 36; ++shape) {
            plan->row_warps = shape % 2 + 1;
            plan->depth_log = shape / 2 % 3;
            plan->depth_warps = 1 << plan->depth_log;
            plan->column_warps = shape / 6 == 5 ? 8 : shape / 6 + 1;
            plan->warps = plan->row_warps * plan->column_warps * plan->depth_warps;
            if (plan->row_warps > 1 + rows_log || plan->warps > UF_SMALL_WARPS || plan->warps < 4 ||
                plan->depth_warps > plan->positions / of.mma ||
                !uf_conv_is_tile(tile,
                                 uf_small_wgrad_tile_number(plan->row_warps, plan->column_warps))) {
                continue;
            }
            plan->rows = WGRAD_ROWS * plan->row_warps;
            plan->columns = WGRAD_COLUMNS * plan->column_warps;
            plan->channels = least(plan->columns / of.taps, of.read);
            if (plan->channels == 0 || plan->columns - plan->channels * of.taps >= WGRAD_COLUMNS) {
                continue; /* a warp too few or too many */
            }
            plan->row_tiles = div_up(of.written, plan->rows);
            plan->channel_tiles = div_up(of.read, plan->channels);
            const int64_t tiles = (int64_t)plan->row_tiles * plan->channel_tiles * of.groups;
            const int64_t stage = ((int64_t)plan->rows * plan->row_pitch +
                                   (int64_t)plan->channels * plan->plane + 7) /
                                  8 * 8;
            if (stage > 1 << 16 || tiles > INT64_C(1) << 24) {
                continue;
            }
            plan->stage = (int32_t)stage;
            plan->staging_pitch = plan->columns + 8;
            const int64_t epilogue = (int64_t)plan->depth_warps * plan->rows * plan->staging_pitch;
            const int64_t full = (int64_t)MULTIPROCESSORS * RESIDENT_WARPS / plan->warps / tiles;
            for (int i = 0; i < 3; ++i) {
                int64_t splits = i == 2 ? 1 : i == 1 ? full / 2 : full;
                splits = splits < 1 ? 1 : splits > 64 ? 64 : splits;
                plan->per_split = div_up(all, splits < all ? splits : all);
                plan->splits = div_up(all, plan->per_split);
                plan->stages = least(plan->per_split, UF_SMALL_STAGES);
                const int64_t bytes = plan->stages * stage * of.element;
                const int64_t tables = 4 * (plan->positions + 2 * of.mma);
                plan->shared = (int32_t)(tables + (bytes > 4 * epilogue ? bytes : 4 * epilogue));
                if (plan->shared > UF_SMALL_SHARED) {
                    continue;
                }
                plan->micros = wgrad_micros(&of, plan);
                if (!found || plan->micros < best.micros) {
                    found = true;
                    best = *plan;
                }
            }
        }
    }
    *plan = best;
    return found && near_enough(&args->x, plan->box[0]) && near_enough(&args->y, plan->box[0]);
}

/* Plans say microseconds, fitted to calls of up to 32 of them, without groups, of images of more
 * than a pixel or of one channel, whose neighbours lie side by side; others take half as long
 * again. */
static double beyond_fit(const uf_conv_kernel_args *args) {
    const bool pixel = args->y.extent[2] * args->y.extent[3] == 1 && args->y.extent[1] > 1;
    return args->groups > 1 || pixel ? 1.5 : 1.0;
}

/* A workspace query may come before the tensors: there is a plan, and scratch enough for it,
 * wherever w begins. A w that is not aligned is copied by elements, and may have more splits. A
 * tile that one of both plans refuses is refused, and the number is that of the plan for an aligned
 * w: so a forced tile needs no more scratch elsewhere. */
bool uf_conv_plan_mma_small(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_small_conv_plan *const own = UF_CONV_PLAN_OF(uf_small_conv_plan, plan);
    const uf_conv_kernel_args *const args = problem->args;
    const bool flat = is_flat(&args->w), either = has_vectors(&args->w);
    uf_small_plan other;
    if (!uf_conv_tiles_fit(problem->direction, args) ||
        !plan_of(problem->direction, args, flat, problem->tile, &own->small) ||
        (either && !plan_of(problem->direction, args, !flat, problem->tile, &other))) {
        return false;
    }
    const int32_t splits =
        either && other.splits > own->small.splits ? other.splits : own->small.splits;
    plan->cost = 0.0;
    plan->workspace = 0;
    if (uf_view_count(uf_conv_written(problem)) == 0) {
        return true;
    }
    const uf_small_plan *const numbered = either && !flat ? &other : &own->small;
    plan->tile = uf_small_tile_number(numbered->pixel_warps, numbered->channel_warps);
    plan->tiles = UF_SMALL_TILES;
    own->sums = uf_mma_shape_of(problem->direction, args, UF_CONV_ANY_TILE);
    own->sums.conv.splits = own->small.splits;
    if (splits > 1) {
        plan->workspace =
            (size_t)(splits * uf_view_count(uf_conv_written(problem))) * sizeof(float);
    }
    if (!uf_conv_is_empty(problem)) {
        plan->cost = beyond_fit(args) * own->small.micros * H200_CYCLES;
    }
    return true;
}

bool uf_conv_plan_mma_small_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_small_wgrad_plan *const own = UF_CONV_PLAN_OF(uf_small_wgrad_plan, plan);
    const uf_conv_kernel_args *const args = problem->args;
    if (!uf_conv_positions_fit(args) || !uf_small_wgrad_plan_of(args, problem->tile, own)) {
        return false;
    }
    plan->tile = uf_small_wgrad_tile_number(own->row_warps, own->column_warps);
    plan->tiles = UF_SMALL_WGRAD_TILES;
    const double micros = beyond_fit(args) * own->micros * uf_conv_wgrad_step_factor(args);
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : micros * H200_CYCLES;
    /* An f32 gradient of bf16 tensors that is not dense is made of one split's sums too. */
    const bool sums = own->splits > 1 || args->x.dtype == UF_BF16;
    plan->workspace = sums ? (size_t)(own->splits * uf_view_count(&args->w)) * sizeof(float) : 0;
    plan->writes_f32 = true;
    return true;
}
