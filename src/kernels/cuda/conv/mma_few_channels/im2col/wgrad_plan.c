/* wgrad_plan.c - tile, box, layout and splits of im2col/wgrad_launch.cu. */
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"

#include <string.h>

#include "kernels/cuda/conv/select/cost.h"

/* 16-column blocks of a warp by its 8-row blocks; four of those may have more of them: what 128
 * registers hold. */
static int32_t sixteens_of(int32_t n, bool more, bool split) {
    return n == 1 ? 4 : n == 2 ? 3 : split ? 2 : more ? 5 : 3;
}

/* The least pitch >= least that equals `like` modulo `unit`. */
static int64_t pitch_like(int64_t least, int64_t like, int64_t unit) {
    return least + (((like - least) % unit + unit) % unit);
}

/* Offsets within a box fit 32 bits. */
static bool fits_32_bits(int64_t steps, int64_t stride) {
    const int64_t limit = INT64_C(1) << 28;
    const int64_t size = stride < 0 ? -stride : stride;
    return steps == 0 || (size < limit && steps * size < limit);
}

/* Chooses the column block with the fewest blocks for a tile; the most channels among equals. */
static void cut_columns(uf_wgrad_im2col_plan *p, int64_t taps) {
    int32_t best = INT32_MAX;
    for (int32_t log_c = 4; log_c >= 0; --log_c) {
        const int32_t tap_blocks = (int32_t)uf_div_up(taps, 16 >> log_c);
        const int32_t sixteens = (int32_t)uf_div_up(p->tile_c, 1 << log_c) * tap_blocks;
        if (sixteens < best) {
            best = sixteens;
            p->log_c = log_c;
            p->tap_blocks = tap_blocks;
            p->sixteens = sixteens;
        }
    }
}

/* Bank conflicts of the two loads of a column block. */
static int32_t conflicts_of(const uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args,
                            int32_t most) {
    const int32_t kernel_w = (int32_t)args->w.extent[3];
    const int32_t step = (int32_t)args->stride[1];
    int32_t conflicts = 0;
    for (int32_t half = 0; half < 2; ++half) {
        int32_t seen[32];
        memset(seen, -1, sizeof seen);
        for (int32_t i = 0; i < 8 && conflicts < most; ++i) {
            int32_t c, tap;
            uf_wgrad_im2col_column(p, 0, half * 8 + i, &c, &tap);
            if (c >= p->tile_c || tap >= p->taps) {
                continue;
            }
            const int32_t coord = uf_wgrad_im2col_coord(p, c, tap / kernel_w, tap % kernel_w,
                                                        (int32_t)args->dilation[1]) *
                                  p->size;
            for (int32_t lane = 0; lane < 4; ++lane) {
                const int32_t word = coord / 4 + lane * step;
                conflicts += seen[word & 31] >= 0 && seen[word & 31] != word;
                seen[word & 31] = word;
            }
        }
    }
    return conflicts;
}

/* Chooses pitches and rotation with the fewest bank conflicts. */
static bool choose_pitches(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args) {
    const int32_t unit = 16 / p->size;
    const int64_t line = (int64_t)p->chunks * unit;
    const int64_t h = args->x.stride[2];
    const int64_t pitch_h = pitch_like(line, args->stride[0] * h, unit);
    const int64_t pitch_class = pitch_like(p->class_lines * pitch_h, args->dilation[0] * h, unit);
    const int64_t pitch_c = pitch_like(p->classes * pitch_class, args->x.stride[1], unit);
    if (p->tile_c * (pitch_c + 8 * unit) * p->size > UF_WGRAD_IM2COL_SHARED) {
        return false;
    }
    p->pitch_h = (int32_t)pitch_h;
    uf_wgrad_im2col_plan best = *p;
    int32_t fewest = INT32_MAX;
    for (int32_t pad = 0; pad < 8 && fewest != 0; ++pad) {
        for (int32_t pad_class = 0; pad_class < (p->log_c < 4 ? 4 : 1); ++pad_class) {
            p->pitch_class = (int32_t)pitch_class + pad_class * unit;
            p->pitch_c =
                (int32_t)pitch_like((int64_t)p->classes * p->pitch_class, args->x.stride[1], unit) +
                pad * unit;
            for (p->rotation = 0; p->rotation < 4; ++p->rotation) {
                const int32_t conflicts = conflicts_of(p, args, fewest);
                if (conflicts < fewest) {
                    fewest = conflicts;
                    best = *p;
                }
            }
        }
    }
    *p = best;
    p->conflicts = fewest;
    /* The last line may be shifted by up to a copy. */
    p->x_bytes = (int32_t)uf_round_up((int64_t)p->tile_c * p->pitch_c + 2 * unit, unit) * p->size;
    return true;
}

/* Lays out a box in shared memory; false where it does not fit. The search for pitches is slow, so
 * only the chosen box is laid out. */
static bool lay_out(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args) {
    if (!choose_pitches(p, args)) {
        return false;
    }
    p->pitch_y = p->box[0] * p->box[1] * p->size + 16;
    p->stage_bytes = p->x_bytes + p->n * 8 * p->pitch_y;
    p->table_bytes =
        (UF_WGRAD_IM2COL_WARPS * 64 + p->lines_x + p->lines_y) * 16 + p->warps_m * p->m * 64;
    p->stages = p->table_bytes + 3 * p->stage_bytes <= UF_WGRAD_IM2COL_SHARED ? 3 : 2;
    p->shared = p->table_bytes + p->stages * p->stage_bytes;
    if (p->shared > UF_WGRAD_IM2COL_SHARED) {
        return false;
    }
    /* The sums of half of the warps that share pixels are exchanged there; then all sums of a tile
     * are staged. Lanes write four rows, two pitches from each other, to different banks. */
    const int32_t sums = p->warps_p / 2 * p->warps_m * 32 * p->m * p->n * 16;
    p->pitch_sums = (int32_t)pitch_like(p->sixteens * 17, 4, 16);
    const int32_t stored = p->n * 8 * p->pitch_sums * 4;
    p->shared = sums > p->shared ? sums : p->shared;
    p->shared = stored > p->shared ? stored : p->shared;
    return true;
}

/* Sizes of a box without padding of pitches, and its cycles on a multiprocessor; -1 where it does
 * not fit. */
static double try_box(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args) {
    const int64_t kernel_h = args->w.extent[2], kernel_w = args->w.extent[3];
    const int64_t g = uf_gcd(args->stride[0], args->dilation[0]);
    const int32_t unit = 16 / p->size;
    const bool split = args->x.dtype == UF_F32 && args->math == UF_MATH_FP32;
    const bool half = args->math == UF_MATH_BF16 || args->x.dtype == UF_BF16;
    int64_t step = args->stride[0] / g < kernel_h ? args->stride[0] / g : kernel_h;
    int64_t shift = args->dilation[0] / g;
    int64_t most = (kernel_h + step - 1) / step;
    if (step * (p->box[0] + (most - 1) * shift) > p->box[0] * kernel_h) {
        step = kernel_h; /* gaps between taps would cost more than sharing saves */
        most = 1;
    }
    p->classes = (int32_t)step;
    p->shift = (int32_t)(most > 1 ? shift : 0);
    const int64_t class_lines = p->box[0] + (most - 1) * p->shift;
    const int64_t lines = p->tile_c * step * class_lines;
    const int64_t length =
        (int64_t)(p->box[1] - 1) * args->stride[1] + (kernel_w - 1) * args->dilation[1] + 1;
    const int64_t lines_y = (int64_t)p->n * 8 * p->box[0];
    if (lines * length * p->size > UF_WGRAD_IM2COL_SHARED || lines + lines_y > 1024 ||
        !fits_32_bits(p->tile_c, args->x.stride[1]) ||
        !fits_32_bits((p->box[0] - 1) * args->stride[0] + (kernel_h - 1) * args->dilation[0],
                      args->x.stride[2]) ||
        !fits_32_bits(p->n * 8, args->y.stride[1]) || !fits_32_bits(p->box[0], args->y.stride[2]) ||
        !fits_32_bits(p->box[1], args->y.stride[3])) {
        return -1;
    }
    p->class_lines = (int32_t)class_lines;
    p->lines_x = (int32_t)lines;
    p->lines_y = (int32_t)lines_y;
    p->chunks = (int32_t)((uf_div_up(length + unit - 1, unit) + 1) / 2 * 2);
    for (int axis = 0; axis < 2; ++axis) {
        p->boxes[1 + axis] = (int32_t)uf_div_up(args->y.extent[2 + axis], p->box[axis]);
    }
    p->boxes[0] = (int32_t)args->y.extent[0];
    const int64_t boxes = (int64_t)p->boxes[0] * p->boxes[1] * p->boxes[2];
    const int64_t stage =
        (lines * p->chunks * unit + (int64_t)p->n * 8 * p->box[0] * p->box[1]) * p->size;
    if (boxes > INT32_MAX / 2 || 2 * stage > UF_WGRAD_IM2COL_SHARED) {
        return -1;
    }
    p->all_boxes = (int32_t)boxes;

    /* Cycles for 16 pixels and a column block: 8 loads (one a cycle); conversion of the operands;
     * MMAs (1.6 cycles for 16 bf16 or 8 TF32 of K). Four instructions issue a cycle. */
    const double steps = (double)uf_round_up(p->box[0] * p->box[1] / 16, p->warps_p) * p->warps_m;
    const double mmas = half ? 1 : split ? 6 : 2;
    const double loads = steps * (8.0 * p->m + (half && p->size == 2 ? 2.0 : 4.0) * p->n);
    const double tensor = steps * p->m * p->n * mmas * 1.6;
    const double convert = p->size == 2 ? 4 : split ? 24 : half ? 4 : 16;
    const double issue =
        (steps * (p->m * (12.0 + convert + p->n * (mmas + (split ? 8 : 0))) + 8.0 * p->n + 10) +
         (double)(p->lines_x * p->chunks + p->lines_y * p->box[1] / unit) * 25 / 32) /
        4;
    /* Memory delivers 18 bytes a cycle, in sectors. Rows that boxes share come from the L2 cache at
     * about twice that rate. */
    const double new_lines = (double)(p->box[0] < class_lines ? p->box[0] : class_lines) /
                             (double)class_lines * (double)lines;
    const double fetched =
        (double)length +
        32.0 / p->size; /* no reuse: neighbouring boxes are loaded at distant times */
    const double x_bytes = (new_lines + ((double)lines - new_lines) * 0.5) * fetched * p->size;
    const double y_bytes = (double)lines_y * p->box[1] * p->size * (p->vector_y ? 1 : 2);
    const double memory = (x_bytes + y_bytes) / 18;
    /* Fitted to 430 times of three layers within 16 %: the parts of a box follow each other more
     * than they overlap. The factor 0.75 keeps the sum comparable with other variants' costs. */
    p->load_cost = 0.75 * 0.097 * loads;
    return p->load_cost + 0.75 * (1.2 * (issue > tensor ? issue : tensor) + 0.57 * memory + 640);
}

enum { MOST_CHANNELS = 256 /* of a tile */ };

/* Candidates: 16 to 256 columns by 1 to 16 rows. */
enum { BOX_ROWS = 5, BOXES = 5 * BOX_ROWS };

/* False: a box with fewer rows or columns covers as much. */
static bool take_box(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args, int32_t box) {
    const int64_t columns = 16 << box / BOX_ROWS, rows = 1 << box % BOX_ROWS;
    const int64_t whole = uf_round_up(args->y.extent[3], 16);
    p->box[0] = (int32_t)rows;
    p->box[1] = (int32_t)(columns < whole ? columns : whole);
    return (columns == 16 || columns / 2 < whole) && (rows == 1 || rows / 2 < args->y.extent[2]);
}

/* Chooses the first box with the least cost among those that can be laid out. */
static bool choose_box(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args) {
    double cost[BOXES]; /* cycles of all boxes of a tile, by candidate */
    for (int32_t box = 0; box < BOXES; ++box) {
        const double one = take_box(p, args, box) ? try_box(p, args) : -1;
        cost[box] = one < 0 ? -1 : one * p->all_boxes;
    }
    for (;;) {
        int32_t best = -1;
        for (int32_t box = 0; box < BOXES; ++box) {
            if (cost[box] >= 0 && (best < 0 || cost[box] < cost[best])) {
                best = box;
            }
        }
        if (best < 0) {
            return false;
        }
        (void)take_box(p, args, best);
        (void)try_box(p, args);
        if (lay_out(p, args)) {
            /* A bank conflict delays all loads of x once. */
            p->cost = cost[best] + (p->conflicts > 0 ? p->load_cost * p->all_boxes : 0);
            return true;
        }
        cost[best] = -1;
    }
}

/* Splits the pixels: enough blocks to fill the GPU once, and short sums, because the tensor core's
 * accumulator truncates. */
static void choose_splits(uf_wgrad_im2col_plan *p, const uf_conv_kernel_args *args) {
    const int64_t tiles = args->groups * p->tiles_k * p->tiles_c;
    int64_t splits = tiles < UF_WGRAD_IM2COL_BLOCKS ? UF_WGRAD_IM2COL_BLOCKS / tiles : 1;
    const int64_t longest = INT64_C(8192) * p->warps_p / (p->box[0] * p->box[1]) + 1;
    splits *= uf_div_up(p->all_boxes, splits * longest);
    splits = splits < p->all_boxes ? splits : p->all_boxes;
    p->splits = (int32_t)(splits < 4096 ? splits : 4096);
}

/* Bytes of one copy of y, less than 16, that its address and strides allow. */
static int32_t copy_of(const uf_view *y, int32_t size) {
    int32_t bytes = 8;
    while (bytes > size &&
           (y->stride[3] != 1 || (uintptr_t)y->data % (uintptr_t)bytes != 0 ||
            (y->stride[0] | y->stride[1] | y->stride[2] | y->extent[3]) % (bytes / size) != 0)) {
        bytes /= 2;
    }
    return bytes;
}

/* Is the arithmetic 3xTF32? */
static bool is_split(const uf_conv_kernel_args *args) {
    return args->x.dtype == UF_F32 && args->math == UF_MATH_FP32;
}

static int tile_number(int halvings, bool more) {
    const int most = UF_WGRAD_IM2COL_HALVINGS - 1;
    return 2 * (halvings < most ? halvings : most) + (more ? 1 : 0);
}

int uf_wgrad_im2col_tile_of(const uf_wgrad_im2col_plan *plan, const uf_conv_kernel_args *args) {
    const int64_t c = args->w.extent[1];
    const bool split = is_split(args);
    int halvings = 0;
    for (int64_t tiles = 1; uf_div_up(c, tiles) > plan->tile_c; tiles *= 2) {
        halvings += uf_div_up(c, tiles) <= MOST_CHANNELS ? 1 : 0;
    }
    return tile_number(halvings, plan->m != sixteens_of(plan->n, false, split));
}

bool uf_wgrad_im2col_plan_of(const uf_conv_problem *problem, uf_wgrad_im2col_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    const int64_t k = args->w.extent[0] / args->groups, c = args->w.extent[1];
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const bool split = is_split(args);
    uf_wgrad_im2col_plan p, best;
    if ((args->x.extent[3] != 1 && args->x.stride[3] != 1) || uf_view_count(&args->y) == 0 ||
        uf_view_count(&args->x) == 0 || uf_view_count(&args->w) == 0 || taps > 1024 ||
        args->stride[1] > 64 || k > 1 << 20 || c > 1 << 20) {
        return false;
    }
    memset(&p, 0, sizeof p);
    p.size = args->x.dtype == UF_BF16 ? 2 : 4;
    p.taps = (int32_t)taps;
    p.n = k <= 8 ? 1 : k <= 16 ? 2 : 4;
    p.tiles_k = (int32_t)uf_div_up(k, p.n * 8);
    const int64_t unit = 16 / p.size;
    p.vector_y = args->y.stride[3] == 1 && args->y.stride[0] % unit == 0 &&
                 args->y.stride[1] % unit == 0 && args->y.stride[2] % unit == 0;
    double least = -1;
    int halvings = -1;
    for (int64_t tiles_c = 1; tiles_c / 2 < c; tiles_c *= 2) {
        p.tile_c = (int32_t)uf_div_up(c, tiles_c);
        p.tiles_c = (int32_t)uf_div_up(c, p.tile_c);
        cut_columns(&p, taps);
        if (p.tile_c > MOST_CHANNELS) {
            continue;
        }
        ++halvings;
        bool fits = false;
        for (int more = 0; more < 2; ++more) {
            p.m = sixteens_of(p.n, more != 0, split);
            if (!uf_conv_is_tile(problem->tile, tile_number(halvings, more != 0)) ||
                (more != 0 && p.m == sixteens_of(p.n, false, split))) {
                continue; /* the second one would be the first again */
            }
            p.warps_m = (int32_t)uf_div_up(p.sixteens, p.m);
            if (p.warps_m > UF_WGRAD_IM2COL_WARPS) {
                continue;
            }
            p.warps_p = 1;
            while (p.warps_p * 2 * p.warps_m <= UF_WGRAD_IM2COL_WARPS) {
                p.warps_p *= 2;
            }
            if (!choose_box(&p, args)) {
                continue;
            }
            fits = true;
            const double cost = p.cost * p.tiles_c * p.tiles_k;
            if (least < 0 || cost < least) {
                least = cost;
                best = p;
            }
        }
        /* A tile of fewer channels reads y more often. */
        if (fits && p.tile_c <= 8) {
            break;
        }
    }
    if (least < 0) {
        return false;
    }
    const double tiles = (double)args->groups * best.tiles_k * best.tiles_c;
    best.cost *= tiles / problem->gpu->multiprocessors;
    choose_splits(&best, args);
    const int32_t threads = 32 * best.warps_m * best.warps_p, run = best.box[1] / 16;
    const int32_t pairs[2] = {best.chunks / 2, best.box[1] * best.size / 32};
    best.steps_x[0] = threads / pairs[0];
    best.steps_x[1] = threads % pairs[0];
    best.steps_y[0] = threads / pairs[1];
    best.steps_y[1] = threads % pairs[1];
    best.walk[0] = best.warps_p / run;
    best.walk[1] = best.warps_p % run;
    /* The address may change this member only, not the plan. */
    best.vector_y = best.vector_y && (uintptr_t)args->y.data % 16 == 0;
    best.copy_y = copy_of(&args->y, best.size);
    *plan = best;
    return true;
}

bool uf_conv_plan_mma_im2col_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_wgrad_im2col_plan *const own = UF_CONV_PLAN_OF(uf_wgrad_im2col_plan, plan);
    const uf_conv_kernel_args *args = problem->args;
    if (!uf_conv_positions_fit(args) || uf_view_count(&args->w) >= INT64_C(1) << 28 ||
        !uf_wgrad_im2col_plan_of(problem, own)) {
        return false;
    }
    plan->tile = uf_wgrad_im2col_tile_of(own, args);
    plan->tiles = UF_WGRAD_IM2COL_TILES;
    const int64_t tiles = args->groups * own->tiles_k * own->tiles_c;
    const int64_t tile = own->n * 8 * uf_wgrad_im2col_columns(own); /* elements */
    plan->cost = own->cost * uf_conv_wgrad_step_factor(args);
    plan->workspace = (size_t)(own->splits * tiles * tile) * sizeof(float);
    return true;
}
