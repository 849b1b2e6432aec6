/* plan.c - the plan of channel_blocked/launch.cu and split_f16/launch.cu: taps, windows, tile,
 * split. */
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/taps.h"
#include "kernels/geometry.h"

enum {
    SHARED = 232448 - 2048,     /* bytes of a block, without barriers and alignment */
    LONGEST = 16384,            /* pixels that the tensor core, which truncates, adds alone */
    LONGEST_SPLIT_F16 = 1 << 20 /* pixels of stages whose sums are added one after another */
};

/* Taps of one axis, by the residue of the positions that they read. */
typedef struct axis_taps {
    uf_conv_taps of;
    int64_t first[UF_CONV_KINDS]; /* first shift of a class */
    int64_t span;                 /* from the first to the last shift, of the longest class */
} axis_taps;

static bool taps_of(const uf_conv_kernel_args *args, int axis, axis_taps *taps) {
    const int64_t limit = INT64_C(1) << 28;
    taps->span = 0;
    if (!uf_conv_taps_of_x(args, axis, &taps->of)) {
        return false;
    }
    for (int32_t i = 0; i < taps->of.kinds; ++i) {
        const int64_t last = taps->of.shift[i][taps->of.count[i] - 1];
        taps->first[i] = taps->of.shift[i][0];
        if (taps->first[i] <= -limit || last >= limit) {
            return false;
        }
        taps->span = last - taps->first[i] > taps->span ? last - taps->first[i] : taps->span;
    }
    return true;
}

/* The tile of pixels: 8 << wide across, the others down; images side by side where rows are short.
 */
static bool lay_out(uf_channel_blocked_plan *plan, const uf_conv_kernel_args *args,
                    const axis_taps taps[2], int wide, int32_t twin) {
    int64_t rows = 1;
    for (int axis = 0; axis < 2; ++axis) {
        uf_channel_blocked_axis *on = &plan->axis[axis];
        const int32_t most = axis == 1 ? 3 + wide : 4 - wide;
        const int64_t elements = args->y.extent[2 + axis];
        int32_t log = 0;
        while (log < most && INT64_C(1) << log < elements) {
            ++log;
        }
        on->patch = 1 << log;
        on->images_log = most - log;
        on->mul = (int32_t)args->stride[axis];
        const int64_t extent = on->patch + taps[axis].span;
        if (extent > 128 || extent << on->images_log > 128) {
            return false;
        }
        on->extent = (int32_t)extent;
        on->tiles = (int32_t)uf_div_up(elements + (axis == 0 ? twin : 0), on->patch);
        rows *= extent << on->images_log;
    }
    const int32_t pitch = plan->axis[1].extent << plan->axis[1].images_log;
    /* An MMA reads runs of 8 pixels that are neighbours in shared memory. */
    if (wide > 0 && plan->axis[1].images_log > 0) {
        return false;
    }
    plan->twin = twin;
    plan->y_rows = plan->axis[0].patch + twin;
    plan->down_first = wide > 1;
    plan->window_rows = (int32_t)rows;
    plan->run_pitch = wide > 0 ? 8 : pitch;
    for (int32_t step = 0; step < UF_CHANNEL_BLOCKED_PIXELS / 16; ++step) {
        const int32_t down = 2 * step >> wide;
        plan->step_at[step] = down * pitch + (2 * step - (down << wide)) * 8;
    }
    plan->image_tiles = (int32_t)uf_div_up(
        args->y.extent[0], INT64_C(1) << (plan->axis[0].images_log + plan->axis[1].images_log));
    const int64_t tiles = (int64_t)plan->image_tiles * plan->axis[0].tiles * plan->axis[1].tiles;
    plan->pixel_tiles = (int32_t)tiles;
    return rows <= 1024 && tiles < INT64_C(1) << 28;
}

/* Rows of the window between neighbouring taps of a class, down: 0 unless all classes agree. */
static int32_t row_step(const axis_taps *down) {
    int64_t step = 0;
    for (int32_t i = 0; i < down->of.kinds; ++i) {
        for (int32_t t = 1; t < down->of.count[i]; ++t) {
            const int64_t here = down->of.shift[i][t] - down->of.shift[i][t - 1];
            if (step != 0 && here != step) {
                return 0;
            }
            step = here;
        }
    }
    return step <= 4 ? (int32_t)step : 0;
}

static void list_units(uf_channel_blocked_plan *plan, const axis_taps taps[2], int64_t kernel_w) {
    const int32_t pitch = plan->axis[1].extent << plan->axis[1].images_log;
    const int32_t together = plan->twin > 0 ? 2 : 1;
    int32_t listed = 0;
    plan->classes = 0;
    for (int32_t down = 0; down < taps[0].of.kinds; ++down) {
        for (int32_t over = 0; over < taps[1].of.kinds; ++over) {
            plan->class_of[plan->classes][0] = taps[0].of.residue[down];
            plan->class_of[plan->classes][1] = taps[1].of.residue[over];
            plan->first[plan->classes][0] = (int32_t)taps[0].first[down];
            plan->first[plan->classes][1] = (int32_t)taps[1].first[over];
            for (int32_t t = 0; t < taps[0].of.count[down]; t += together) {
                for (int32_t u = 0; u < taps[1].of.count[over]; ++u) {
                    const int64_t y = taps[0].of.shift[down][t] - taps[0].first[down];
                    const int64_t x = taps[1].of.shift[over][u] - taps[1].first[over];
                    const int64_t s = taps[1].of.filter[over][u];
                    plan->unit_class[listed] = (uint8_t)plan->classes;
                    plan->unit_tap[listed][0] =
                        (int16_t)(taps[0].of.filter[down][t] * kernel_w + s);
                    plan->unit_tap[listed][1] =
                        together == 2 && t + 1 < taps[0].of.count[down]
                            ? (int16_t)(taps[0].of.filter[down][t + 1] * kernel_w + s)
                            : -1;
                    plan->shift[listed++] = (int16_t)((y << plan->axis[0].images_log) * pitch +
                                                      (x << plan->axis[1].images_log));
                }
            }
            ++plan->classes;
        }
    }
    plan->kinds = listed;
    for (; listed < UF_CHANNEL_BLOCKED_TAPS; ++listed) {
        plan->unit_class[listed] = plan->unit_class[plan->kinds - 1];
        plan->unit_tap[listed][0] = plan->unit_tap[listed][1] = -1;
        plan->shift[listed] = 0;
    }
}

static int32_t window_of(const uf_channel_blocked_plan *plan, int32_t unit) {
    return unit / plan->kinds * plan->classes + plan->unit_class[unit % plan->kinds];
}

/* Fills in the fields that follow from the tile; false: no two stages fit shared memory. */
static bool take_tile(uf_channel_blocked_plan *plan) {
    plan->chunks = (int32_t)uf_div_up(plan->c_per_group, plan->width);
    plan->all_units = plan->chunks * plan->kinds;
    const int32_t slots = plan->across * plan->units;
    plan->unit_blocks = (int32_t)uf_div_up(plan->all_units, slots);
    plan->k_blocks = (int32_t)uf_div_up(plan->k_per_group, plan->rows * UF_CHANNEL_BLOCKED_ROWS);
    plan->windows = 1;
    /* Windows of blocks repeat after `kinds` of them. */
    for (int32_t block = 0; block < plan->unit_blocks && block <= plan->kinds; ++block) {
        const int32_t end =
            (block + 1) * slots < plan->all_units ? (block + 1) * slots : plan->all_units;
        const int32_t count = window_of(plan, end - 1) - window_of(plan, block * slots) + 1;
        plan->windows = count > plan->windows ? count : plan->windows;
    }
    plan->part_bytes = (int32_t)uf_round_up((int64_t)plan->window_rows * plan->width * 2, 128);
    plan->window_bytes = plan->part_bytes * (plan->split_f16 ? 2 : 1);
    const int32_t channels =
        plan->twin > 0 ? UF_CHANNEL_BLOCKED_ROWS / 2 : plan->rows * UF_CHANNEL_BLOCKED_ROWS;
    if (plan->twin > 0 && plan->rows > 1) {
        return false;
    }
    plan->y_bytes = channels *
                    (UF_CHANNEL_BLOCKED_PIXELS / plan->axis[0].patch >> plan->axis[0].images_log) *
                    (plan->y_rows << plan->axis[0].images_log) *
                    (plan->split_f16 || plan->source == UF_CHANNEL_BLOCKED_F32 ? 4 : 2);
    const int64_t bytes =
        uf_round_up(plan->y_bytes + (int64_t)plan->windows * plan->window_bytes, 1024);
    if (2 * bytes > SHARED) {
        return false;
    }
    plan->stage_bytes = (int32_t)bytes;
    plan->stages =
        (int32_t)(SHARED / bytes < UF_CHANNEL_BLOCKED_STAGES ? SHARED / bytes
                                                             : UF_CHANNEL_BLOCKED_STAGES);
    plan->shared = plan->stages * plan->stage_bytes + 2048;
    return true;
}

/* Three MMAs for one, and waits: sums wait for MMAs, fragments for the steps before. Consumers
 * that split y add to it. Measured over all tiles. */
static double split_f16_stage_cost(const uf_channel_blocked_plan *plan, double mmas,
                                   double arrive) {
    const double multiply = 3.0 * mmas * plan->width / 2.0 + 1250.0;
    const double most = multiply > 4900.0 ? multiply : 4900.0;
    const double cost = most + (plan->source == UF_CHANNEL_BLOCKED_F32 ? 1100.0 : 0.0);
    return cost > arrive ? cost : arrive;
}

/* A stage is bound by MMAs (half a cycle for each of `width` columns), by their reads of shared
 * memory (128 bytes a cycle), or by loads from the L2 cache (24 bytes a cycle). */
static double stage_cost(const uf_channel_blocked_plan *plan) {
    const double mmas = UF_CHANNEL_BLOCKED_PIXELS / 16.0 * plan->rows * plan->across * plan->units;
    const double multiply = mmas * plan->width / 2.0 * (plan->width < 64 ? 1.15 : 1.09);
    const double fragment = plan->source == UF_CHANNEL_BLOCKED_F32 ? 32.0 : 16.0;
    const double read =
        mmas / plan->units * fragment + mmas * plan->width / 4.0 + plan->stage_bytes / 128.0;
    const double arrive = plan->stage_bytes / 24.0;
    if (plan->split_f16) {
        return split_f16_stage_cost(plan, mmas, arrive);
    }
    double most = multiply > read ? multiply : read;
    most = most > arrive ? most : arrive;
    return most + 60.0;
}

static double cost_with(const uf_channel_blocked_plan *plan, double stage, int64_t splits) {
    const int64_t base = (int64_t)plan->groups * plan->k_blocks * plan->unit_blocks;
    const double sums = 8.0 * (double)splits * plan->groups * plan->k_per_group * plan->chunks *
                        plan->width * plan->taps;
    return (double)uf_div_up(base * splits, UF_CONV_SPLIT_MULTIPROCESSORS) *
               ((double)uf_div_up(plan->pixel_tiles, splits) * stage + 4000.0) +
           sums / UF_CONV_SPLIT_MULTIPROCESSORS / 13.0;
}

/* Splits: the best of whole waves, and of the fewest that keep sums in the tensor core short. */
static void split(uf_channel_blocked_plan *plan) {
    const double stage = stage_cost(plan);
    const int64_t base = (int64_t)plan->groups * plan->k_blocks * plan->unit_blocks;
    const int64_t longest = plan->split_f16 ? LONGEST_SPLIT_F16 : LONGEST;
    const int64_t least = uf_div_up(plan->pixel_tiles, longest / UF_CHANNEL_BLOCKED_PIXELS);
    const int64_t waves = uf_div_up(base * least, UF_CONV_SPLIT_MULTIPROCESSORS);
    double best = -1.0;
    for (int64_t i = 0; i < 8; ++i) {
        int64_t splits = i == 0 ? least : (waves + i - 1) * UF_CONV_SPLIT_MULTIPROCESSORS / base;
        splits = splits < least ? least : splits > plan->pixel_tiles ? plan->pixel_tiles : splits;
        const double total_cost = cost_with(plan, stage, splits);
        if (best < 0.0 || total_cost < best) {
            best = total_cost;
            plan->splits = (int32_t)splits;
        }
    }
    plan->blocks = base * plan->splits;
}

/* Cycles that memory takes to rearrange the tensors; *reading: to read them again. */
static double moving_cost(const uf_channel_blocked_plan *plan, const uf_conv_kernel_args *args,
                          double *reading) {
    const double element = args->x.dtype == UF_F32 ? 4.0 : 2.0;
    const double x = (double)uf_view_count(&args->x), y = (double)uf_view_count(&args->y);
    const double per_cycle = 2300.0;
    if (plan->split_f16) {
        const double moved = 8.0 * (x + (plan->source == UF_CHANNEL_BLOCKED_PACKED ? y : 0.0));
        *reading = 4.0 * (x + y) / per_cycle;
        return moved / per_cycle;
    }
    *reading = (x * 2.0 + y * (plan->source == UF_CHANNEL_BLOCKED_F32 ? 4.0 : 2.0)) / per_cycle;
    return ((element + 2.0) * x +
            (plan->source == UF_CHANNEL_BLOCKED_PACKED ? (element + 2.0) * y : 0.0)) /
           per_cycle;
}

bool uf_wgrad_channel_blocked_plan_of(const uf_conv_kernel_args *args, bool packed, int tile,
                                      uf_channel_blocked_plan *made) {
#define UF_CHANNEL_BLOCKED_TILE(ID, WIDTH, UNITS, ACROSS, ROWS) {WIDTH, UNITS, ACROSS, ROWS},
    static const int32_t of_bf16[][4] = {UF_CHANNEL_BLOCKED_TILES},
                         of_split_f16[][4] = {UF_SPLIT_F16_TILES};
#undef UF_CHANNEL_BLOCKED_TILE
    const bool split_f16 = args->x.dtype == UF_F32 && args->math == UF_MATH_FP32;
    const int32_t(*const tiles)[4] = split_f16 ? of_split_f16 : of_bf16;
    const size_t count = split_f16 ? sizeof of_split_f16 / sizeof of_split_f16[0]
                                   : sizeof of_bf16 / sizeof of_bf16[0];
    axis_taps taps[2];
    uf_channel_blocked_plan plan;
    memset(&plan, 0, sizeof plan);
    if (args->w.extent[2] > UF_CHANNEL_BLOCKED_TAPS ||
        args->w.extent[3] > UF_CHANNEL_BLOCKED_TAPS ||
        args->w.extent[2] * args->w.extent[3] > UF_CHANNEL_BLOCKED_TAPS ||
        !taps_of(args, 0, &taps[0]) || !taps_of(args, 1, &taps[1]) ||
        taps[0].of.kinds * taps[1].of.kinds > UF_CHANNEL_BLOCKED_CLASSES) {
        return false;
    }
    plan.split_f16 = split_f16;
    plan.groups = (int32_t)args->groups;
    plan.k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    plan.c_per_group = (int32_t)args->w.extent[1];
    plan.taps = (int32_t)(args->w.extent[2] * args->w.extent[3]);
    plan.x_planes = (int32_t)uf_div_up(plan.c_per_group, 16) * 2;
    plan.y_planes = (int32_t)uf_div_up(plan.k_per_group, 16) * 2;
    const int32_t twin = plan.k_per_group <= UF_CHANNEL_BLOCKED_ROWS / 2 ? row_step(&taps[0]) : 0;
    double best = -1.0;
    for (int epilogue = 0; epilogue < 6; ++epilogue) {
        const int wide = epilogue % 3;
        if ((epilogue >= 3 && twin == 0) ||
            !lay_out(&plan, args, taps, wide, epilogue >= 3 ? twin : 0)) {
            continue;
        }
        const uf_channel_blocked_source source =
            wide < 2 || packed || plan.axis[0].images_log > 0 ||
                    !uf_channel_blocked_aligned(&args->y)
                ? UF_CHANNEL_BLOCKED_PACKED
            : args->y.dtype == UF_F32 ? UF_CHANNEL_BLOCKED_F32
                                      : UF_CHANNEL_BLOCKED_BF16;
        list_units(&plan, taps, args->w.extent[3]);
        /* 3xF16 has more candidates: y packed although TMA takes it, and padding units behind those
         * of a chunk, so that no block loads windows of two chunks. */
        const int32_t kinds = plan.kinds;
        const size_t ways = split_f16 ? 4 * count : count;
        for (size_t i = 0; i < ways; ++i) {
            const size_t candidate_of = i / count;
            plan.source = candidate_of % 2 == 0 ? source : UF_CHANNEL_BLOCKED_PACKED;
            plan.tile_id = (int32_t)(i % count);
            plan.width = tiles[i % count][0];
            plan.units = tiles[i % count][1];
            plan.across = tiles[i % count][2];
            plan.rows = tiles[i % count][3];
            const int32_t slots = plan.across * plan.units;
            plan.kinds = candidate_of < 2 ? kinds : (int32_t)uf_round_up(kinds, slots);
            /* Consumers split y of the next stage during a stage's MMAs: that takes a third stage.
             */
            if (!uf_conv_is_tile(tile, plan.tile_id) ||
                (candidate_of % 2 == 1 && source == UF_CHANNEL_BLOCKED_PACKED) ||
                (candidate_of >= 2 &&
                 (plan.kinds == kinds || plan.kinds > UF_CHANNEL_BLOCKED_TAPS)) ||
                !take_tile(&plan) ||
                (split_f16 && plan.source == UF_CHANNEL_BLOCKED_F32 &&
                 (plan.stages < 3 || !UF_SPLIT_F16_SPLITS_Y(plan.width, plan.units, plan.rows)))) {
                continue;
            }
            split(&plan);
            double reading, total_cost = cost_with(&plan, stage_cost(&plan), plan.splits);
            const double moving = moving_cost(&plan, args, &reading);
            total_cost = moving + (total_cost > reading ? total_cost : reading);
            if (plan.blocks < INT64_C(1) << 30 && (best < 0.0 || total_cost < best)) {
                best = total_cost;
                *made = plan;
                made->cost = total_cost;
            }
        }
    }
    return best >= 0.0;
}

bool uf_channel_blocked_fits(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 30;
    if (!uf_conv_positions_fit(args)) {
        return false;
    }
    int64_t positions = args->x.extent[0] + 127; /* images, padded where rows are short */
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t x = args->x.extent[2 + axis] + args->stride[axis],
                      y = args->y.extent[2 + axis];
        positions *= x > y ? x : y;
        if (positions >= limit) {
            return false;
        }
    }
    const int64_t units = (args->x.extent[1] + args->y.extent[1]) / 16 + 2 * args->groups;
    return (positions / 256 + 1) * units < limit && uf_view_count(&args->w) < limit &&
           uf_view_count(&args->y) > 0;
}

bool uf_channel_blocked_plans_of(const uf_conv_kernel_args *args, int tile,
                                 uf_channel_blocked_plans *plans) {
    return uf_channel_blocked_fits(args) &&
           uf_wgrad_channel_blocked_plan_of(args, false, tile, &plans->aligned) &&
           uf_wgrad_channel_blocked_plan_of(args, true, UF_CONV_ANY_TILE, &plans->any);
}

static size_t take(size_t *used, int64_t bytes) {
    const size_t at = *used;
    *used += (size_t)uf_round_up(bytes, 256);
    return at;
}

uf_channel_blocked_workspace uf_channel_blocked_workspace_of(const uf_conv_kernel_args *args,
                                                             const uf_channel_blocked_plan *plan,
                                                             size_t begin) {
    static const int32_t one[2] = {1, 1}, none[1][2] = {{0, 0}};
    const int32_t mul[2] = {plan->axis[0].mul, plan->axis[1].mul};
    const int32_t images_log[2] = {plan->axis[0].images_log, plan->axis[1].images_log};
    const int64_t tensors = plan->split_f16 ? 2 : 1;
    uf_channel_blocked_workspace made;
    memset(&made, 0, sizeof made);
    made.end = begin;
    made.x = channel_blocked_of(&args->x, UF_MMA_BF16, args->groups, plan->x_planes, mul,
                                images_log, NULL);
    channel_blocked_classes(&made.x, plan->class_of, plan->classes);
    made.x_at = take(&made.end, tensors * channel_blocked_bytes(&made.x));
    made.y = channel_blocked_of(&args->y, UF_MMA_BF16, args->groups, plan->y_planes, one,
                                images_log, NULL);
    channel_blocked_classes(&made.y, none, 1);
    made.y_at = take(&made.end, plan->source == UF_CHANNEL_BLOCKED_PACKED
                                    ? tensors * channel_blocked_bytes(&made.y)
                                    : 0);
    made.reduction = uf_channel_blocked_reduction_of(args, plan->width, plan->splits);
    made.sums_at = made.end;
    made.end += uf_channel_blocked_sums_bytes(&made.reduction);
    return made;
}

/* The larger of both: scratch that was asked for must be enough wherever y begins. */
size_t uf_channel_blocked_workspace_bytes(const uf_conv_kernel_args *args,
                                          const uf_channel_blocked_plans *plans) {
    const size_t aligned = uf_channel_blocked_workspace_of(args, &plans->aligned, 0).end;
    const size_t any = uf_channel_blocked_workspace_of(args, &plans->any, 0).end;
    return aligned > any ? aligned : any;
}

bool uf_conv_plan_wgmma_channel_blocked(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    uf_channel_blocked_plans *const own = UF_CONV_PLAN_OF(uf_channel_blocked_plans, plan);
    if (uf_mma_math_of(args) != UF_MMA_BF16 ||
        !uf_channel_blocked_plans_of(args, problem->tile, own)) {
        return false;
    }
    plan->tile = own->aligned.tile_id;
    plan->tiles = UF_CHANNEL_BLOCKED_IDS;
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : own->aligned.cost;
    plan->workspace = uf_channel_blocked_workspace_bytes(args, own);
    plan->writes_f32 = true;
    return true;
}
