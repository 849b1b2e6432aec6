/* plan.c - tile, box, layout, stages, splits and cost of register_a/launch.cu. */
#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"

#include <string.h>

#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/registry.h"

/* The layout of x. Where rows of x are aligned to 4 or 2 words and stay so from box to box, whole
 * aligned runs of a row are copied, with what no tap reads: a pixel is then `stride` words from the
 * next. Otherwise as wgrad_band has it. */
static bool wgrad_rs_lay(wgrad_rs_plan *plan, int32_t vector) {
    wgrad_plan *const p = &plan->sums;
    plan->vector = vector;
    plan->lead = 0;
    if (vector == 1) {
        if (!uf_wgrad_band(p, WGRAD_RS_ENTRIES, WGRAD_RS_SHARED)) {
            return false;
        }
        plan->tap_w = p->step_w;
    } else {
        const int64_t q = 1 << p->log_q, rows = 1 << p->log_p,
                      images = WGRAD_PIXELS >> (p->log_q + p->log_p);
        const int64_t kernel_h = p->taps / p->taps_w, kernel_w = p->taps_w;
        if (q < 4 || q * p->stride[1] % vector != 0 || kernel_h > WGRAD_RS_ENTRIES ||
            kernel_w > WGRAD_RS_ENTRIES) {
            return false;
        }
        plan->lead = (vector - p->padding[1] % vector) % vector;
        const int64_t last = plan->lead + (q - 1) * p->stride[1] + (kernel_w - 1) * p->dilation[1];
        const int64_t length = (last + vector) / vector * vector;
        p->lines[0] = uf_wgrad_rows_of(rows, kernel_h, p->stride[0], p->dilation[0]);
        const int64_t words = images * p->lines[0].count * length;
        if (length > WGRAD_RS_ENTRIES || words > WGRAD_RS_ENTRIES) {
            return false;
        }
        const wgrad_rows across = {1, p->dilation[1], 1, p->dilation[1], (int32_t)length,
                                   1, (int32_t)length};
        p->lines[1] = across;
        p->entries = (int32_t)(words / vector);
        p->step_w = p->stride[1];
        p->step_h = (int32_t)length;
        p->step_n = p->step_h * p->lines[0].count;
        p->pitch = (int32_t)((words + 3) / 8 * 8 + 4);
        plan->tap_w = 1;
        if (!uf_wgrad_spread(p, WGRAD_RS_SHARED)) {
            return false;
        }
    }
    for (int i = 0; i < WGRAD_PIXELS / 4; ++i) {
        plan->run[i] = 4 * wgrad_pixel_offset(p, 4 * i);
    }
    return true;
}

/* Cycles of a multiprocessor for a box: the tensor cores' 1024 MMAs, shared memory's 32 words,
 * the issue of four instructions, and the copies, which take longer than their words. */
static double wgrad_rs_box_cost(const wgrad_rs_plan *plan, uf_mma_math math) {
    const wgrad_plan *const p = &plan->sums;
    /* Words of fragments: 4 steps, 4 warps, 4 words. Where rows lie as they are, pixels that are an
     * even number of words apart meet in half the banks, a multiple of four in a quarter. */
    const double words = 64.0 * plan->mmas;
    const double loads = words * (plan->vector > 1 ? (double)uf_gcd(p->stride[1], 4) : 1.0);
    const double pieces = p->rows * WGRAD_PIXELS / 128.0;
    const double copies = (double)(p->span * p->channels) * ((p->entries + 31) / 32);
    double tensor = plan->mmas * 2.0 * p->rows, shared = loads, issue = words * 3.0;
    double read = plan->mmas * (double)p->rows; /* y by the MMAs */
    double part = 0.15, waits = 0.0;            /* of what is not the slowest; of the copies */
    if (math == UF_MMA_TF32X3 && p->rows <= 64) {
        /* MMAs, which narrow ones' splits and sums outlast, and the end of a box. Measured:
         * what is loaded for MMAs waits behind copies. */
        tensor = plan->mmas * (p->rows == 32 ? 7.5 : 6.0) * p->rows + 500.0;
        read *= 3.0;
        issue = words * 7.0 + plan->mmas * 4.0 * p->rows;
        part = 0.05;
        waits = 0.35;
    } else if (math == UF_MMA_TF32X3) {
        /* Measured: MMAs, and what a box waits for. */
        tensor *= 3.0;
        tensor += 700.0;
        read *= 3.0;
        issue = words * 7.0 + plan->mmas * 4.0 * p->rows;
        part = 0.08;
        waits = 0.1;
    } else if (math == UF_MMA_BF16) {
        tensor *= 0.5;
        read *= 0.5;
    }
    shared += read + (double)p->x_words / 32.0 + pieces * 12.0;
    issue = (issue + copies * 8.0 + pieces * (p->vector_y ? 20.0 : 50.0)) / 4.0;
    const double copying =
        copies * (plan->vector == 4 ? 16.0 : 12.0) + pieces * (p->vector_y ? 16.0 : 40.0);
    /* From the second-level cache, by sectors of 8 words. */
    const int32_t q = 1 << p->log_q, rows = WGRAD_PIXELS >> p->log_q,
                  images = WGRAD_PIXELS >> (p->log_q + p->log_p);
    const double sectors =
        (double)p->rows * rows * (q <= 8 ? (p->vector_y ? 1.0 : 1.5) : q / 8.0) +
        (double)(p->span * p->channels * images * p->lines[0].count) *
            ((p->lines[1].count * (plan->vector > 1 ? 1 : p->stride[1]) + 7) / 8.0);
    const double memory = sectors * 32.0 / 28.0;
    double most = tensor > memory ? tensor : memory;
    most = most > shared ? most : shared;
    most = most > issue ? most : issue;
    most = most > copying ? most : copying;
    return most + part * (tensor + shared + issue + memory) + waits * copying + 40.0;
}

/* Stages, as many as there is room for; false where there are less than two. */
static bool wgrad_rs_stages(wgrad_rs_plan *plan, uf_mma_math math) {
    wgrad_plan *const p = &plan->sums;
    const int32_t pieces = WGRAD_PIXELS / WGRAD_RS_PER_PIECE(math);
    /* Lanes that write different planes meet different banks. */
    plan->plane = p->rows * 16 + 128 / pieces;
    plan->set = pieces * plan->plane;
    for (int step = 0; step < 4; ++step) {
        plan->operand[0][step] = step * 2 * plan->plane / 16;
        plan->operand[1][step] = (plan->set + step * 2 * plan->plane) / 16;
    }
    p->stage_words = p->x_words + plan->set * (math == UF_MMA_TF32 ? 1 : 2) / 4;
    const int32_t before = WGRAD_RS_BARRIERS + wgrad_table_bytes(p);
    p->stages = (WGRAD_RS_SHARED - before) / (p->stage_words * 4);
    /* One stage more than warps that fill them, and a warp asks for its next box before it rounds
     * the one that MMAs wait for: kb57 in TF32 took 4.0 ms instead of 2.8. */
    const int32_t most = math == UF_MMA_TF32X3 ? WGRAD_RS_STAGES : WGRAD_RS_PRODUCERS;
    p->stages = p->stages > most ? most : p->stages;
    if (p->stages < 2) {
        return false;
    }
    p->shared_bytes = before + p->stages * p->stage_words * 4;
    plan->group_warps = 1;
    while (plan->group_warps * p->stages < WGRAD_RS_PRODUCERS) {
        plan->group_warps *= 2;
    }
    return true;
}

/* The widest copies of x that its strides allow. */
static int32_t wgrad_rs_widest(const wgrad_plan *p) {
    int32_t vector = p->x_stride[3] == 1 ? 4 : 1;
    while (vector > 1 && (p->large[1] % vector != 0 || p->x_stride[0] % vector != 0 ||
                          p->x_stride[1] % vector != 0 || p->x_stride[2] % vector != 0)) {
        vector /= 2;
    }
    return vector;
}

/* Where the box and the tile fit: the cycles of a box, else -1. */
static double wgrad_rs_try(wgrad_rs_plan *plan, uf_mma_math math, int32_t rows, int32_t mmas,
                           int32_t log_q, int32_t log_p, int32_t vector) {
    wgrad_plan *const p = &plan->sums;
    uf_wgrad_cut(p, rows, mmas * WGRAD_RS_M, true, log_q, log_p);
    plan->mmas = mmas;
    p->vector_y = p->log_q >= 2 && p->small[1] % 4 == 0 && p->y_stride[3] == 1 &&
                  p->y_stride[0] % 4 == 0 && p->y_stride[1] % 4 == 0 && p->y_stride[2] % 4 == 0;
    if (!wgrad_rs_lay(plan, vector) || !wgrad_rs_stages(plan, math)) {
        return -1.0;
    }
    return wgrad_rs_box_cost(plan, math) * (p->stages == 2 ? 1.5 : 1.0);
}

/* Cycles to write so many sums of a tile and to add them. */
static double wgrad_rs_sums_cost(const wgrad_plan *p, double sums) {
    return sums * p->rows * p->columns * 8.0 / 2000.0;
}

/* Shares of all tiles' boxes instead of splits of each (wgrad_sums_of), where they take fewer
 * cycles than `least`; the cycles. Blocks then read other boxes than their neighbours: both tensors
 * must fit the second-level cache. */
static double wgrad_rs_share(wgrad_rs_plan *plan, uf_mma_math math, double cost, int64_t longest,
                             double least) {
    wgrad_plan *const p = &plan->sums;
    const int64_t all = (int64_t)p->tiles * p->all_boxes;
    const double elements = (double)p->batch * p->groups *
                            ((double)p->c_per_group * p->large[0] * p->large[1] +
                             (double)p->k_per_group * p->small[0] * p->small[1]);
    if (!WGRAD_RS_SHARES(math, p->rows) || all < WGRAD_RS_BLOCKS || all >= INT64_C(1) << 30 ||
        elements > WGRAD_RS_CACHED) {
        return least;
    }
    const int64_t waves = uf_div_up(all, WGRAD_RS_BLOCKS * longest);
    const int64_t share = uf_div_up(all, waves * WGRAD_RS_BLOCKS);
    const double sums = (double)uf_div_up(all, share) + p->tiles;
    const double total_cost = (double)waves * ((double)share * cost + 3000.0) +
                              wgrad_rs_sums_cost(p, sums) +
                              2000.0 * (double)p->tiles / WGRAD_RS_BLOCKS; /* a block's next tile */
    if (total_cost >= least) {
        return least;
    }
    p->share = (int32_t)share;
    p->splits = (int32_t)((p->all_boxes - 1) / share + 2); /* of a tile, at most */
    return total_cost;
}

/* Whole waves of blocks; the cycles of everything. Long sums inside the tensor core, which
 * truncates, are kept below 16384 pixels where nothing else shortens them. */
static double wgrad_rs_split(wgrad_rs_plan *plan, uf_mma_math math, double cost) {
    wgrad_plan *const p = &plan->sums;
    const int64_t longest = math == UF_MMA_TF32X3 ? 1024 : 512;
    int64_t least = uf_div_up(p->all_boxes, longest);
    least = least < 1 ? 1 : least > 32768 ? 32768 : least;
    const int64_t first = uf_div_up(least * p->tiles, WGRAD_RS_BLOCKS);
    double best = -1.0;
    p->splits = (int32_t)least;
    p->share = 0;
    for (int64_t wave = first; wave < first + 5; ++wave) {
        int64_t splits = wave * WGRAD_RS_BLOCKS / p->tiles;
        const int64_t half_tiles = p->all_boxes / 2; /* of two boxes at least */
        splits = splits > half_tiles ? half_tiles : splits;
        splits = splits < least ? least : splits;
        const int64_t waves = uf_div_up(p->tiles * splits, WGRAD_RS_BLOCKS);
        const double total_cost =
            (double)waves * ((double)uf_div_up(p->all_boxes, splits) * cost + 3000.0) +
            wgrad_rs_sums_cost(p, (double)(splits * p->tiles));
        if (best < 0.0 || total_cost < best) {
            best = total_cost;
            p->splits = (int32_t)splits;
        }
    }
    best = wgrad_rs_share(plan, math, cost, longest, best);
    p->adders = p->splits >= 16 ? 8 : 1;
    return best;
}

/* MMAs of all columns. */
static int64_t wgrad_rs_mmas(const wgrad_plan *p) {
    const int64_t channels = p->c_per_group < 8 ? p->c_per_group : 8;
    return uf_div_up(uf_div_up(p->c_per_group, channels) * channels * p->taps, WGRAD_RS_M);
}

/* The number of the first of a tile's four; -1: no tile has so many rows. `most`: MMAs per block.
 */
static int wgrad_rs_first_number(int32_t rows, bool fp32, int32_t *most) {
    int number = 0;
#define UF_WGRAD_RS_TILE(ROWS, PART, MOST32, MOST)                                                 \
    if (rows == ROWS) {                                                                            \
        *most = WGRAD_RS_CONSUMERS * (fp32 ? MOST32 : MOST);                                       \
        return number;                                                                             \
    }                                                                                              \
    number += WGRAD_RS_ACROSS;
    UF_WGRAD_RS_TILES
#undef UF_WGRAD_RS_TILE
    return -1;
}

static int wgrad_rs_more(int64_t across) {
    return (int)(across < WGRAD_RS_ACROSS ? across : WGRAD_RS_ACROSS - 1);
}

int uf_wgrad_rs_tile_of(const wgrad_rs_plan *plan, const uf_conv_kernel_args *args) {
    const int64_t all = wgrad_rs_mmas(&plan->sums);
    int32_t most = 1;
    const int first = wgrad_rs_first_number(plan->sums.rows, args->math == UF_MATH_FP32, &most);
    const int64_t fewest = uf_div_up(all, most);
    int more = 0;
    while (more < WGRAD_RS_ACROSS - 1 && uf_div_up(all, fewest + more) != plan->mmas) {
        ++more;
    }
    return first + more;
}

/* The best box and splits for tiles of so many rows, in as many MMAs per block as `tile` says: into
 * `best` where they take fewer cycles than `least`. */
static void wgrad_rs_consider(wgrad_rs_plan plan, const uf_conv_kernel_args *args, int32_t rows,
                              int tile, wgrad_rs_plan *best, double *least) {
    const uf_mma_math math = uf_mma_math_of(args);
    int32_t most = 1;
    const int first = wgrad_rs_first_number(rows, args->math == UF_MATH_FP32, &most);
    const int64_t all = wgrad_rs_mmas(&plan.sums);
    const int64_t few_pixels = uf_div_up(all, most);
    const int32_t widest = wgrad_rs_widest(&plan.sums);
    int64_t before = 0;
    bool fits = false;
    /* Where much of x goes with few columns, fewer MMAs until it fits. */
    for (int64_t across = few_pixels; across < few_pixels + 4 || (!fits && before > 1);
         across += across < few_pixels + 4 ? 1 : across) {
        const int64_t mmas = uf_div_up(all, across);
        if (mmas == before) {
            continue;
        }
        before = mmas;
        if (!uf_conv_is_tile(tile, first + wgrad_rs_more(across - few_pixels))) {
            continue;
        }
        double cost = -1.0;
        wgrad_rs_plan chosen = plan;
        for (int32_t box = 0; box < 36; ++box) {
            const int32_t log_q = box / 6, log_p = box % 6;
            /* Boxes that half of them would hold as well are none. */
            if (log_q + log_p > 5 || (log_q > 0 && 1 << (log_q - 1) >= plan.sums.small[1]) ||
                (log_p > 0 && 1 << (log_p - 1) >= plan.sums.small[0])) {
                continue;
            }
            /* A box that single words do not fit is left out: tensors may turn out not to be
             * aligned. */
            double one = 0.0;
            for (int32_t vector = 1; vector <= widest && one >= 0.0;
                 vector = vector < widest ? widest : 8) {
                one = wgrad_rs_try(&plan, math, rows, (int32_t)mmas, log_q, log_p, vector);
                if (one >= 0.0 &&
                    (cost < 0.0 || one * plan.sums.all_boxes < cost * chosen.sums.all_boxes)) {
                    cost = one;
                    chosen = plan;
                }
            }
        }
        if (cost >= 0.0) {
            fits = true;
            const double total_cost = wgrad_rs_split(&chosen, math, cost);
            if (*least < 0.0 || total_cost < *least) {
                *least = total_cost;
                *best = chosen;
                best->cost = total_cost;
            }
        }
    }
}

wgrad_rs_plan uf_wgrad_rs_plan_of(const uf_conv_kernel_args *args, int tile) {
    wgrad_rs_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.sums = uf_wgrad_begin(args);
    wgrad_rs_plan best = plan;
    double least = -1.0;
#define UF_WGRAD_RS_TILE(ROWS, PART, MOST32, MOST)                                                 \
    if (ROWS == 32 || plan.sums.k_per_group > ROWS / 2) {                                          \
        wgrad_rs_consider(plan, args, ROWS, tile, &best, &least);                                  \
    }
    UF_WGRAD_RS_TILES
#undef UF_WGRAD_RS_TILE
    return best;
}

wgrad_rs_plan uf_wgrad_rs_plan_at(const uf_conv_kernel_args *args, int tile) {
    wgrad_rs_plan plan = uf_wgrad_rs_plan_of(args, tile);
    if (plan.vector > 1 && (uintptr_t)plan.sums.x % 16 != 0) {
        wgrad_rs_lay(&plan, 1);
        wgrad_rs_stages(&plan, uf_mma_math_of(args));
    }
    plan.sums.vector_y = plan.sums.vector_y && (uintptr_t)plan.sums.y % 16 == 0;
    return plan;
}

/* Elements that `extent` pixels of a box and the taps read along an axis (uf_wgrad_rows_of). */
static int64_t elements_along(const uf_conv_kernel_args *args, int axis, int64_t extent) {
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t g = uf_gcd(args->stride[axis], args->dilation[axis]);
    const int64_t step = args->stride[axis] / g < kernel ? args->stride[axis] / g : kernel;
    const int64_t most = (kernel + step - 1) / step, shift = args->dilation[axis] / g;
    const int64_t count = step * (extent + (most - 1) * shift) - (step * most - kernel) * shift;
    return count < extent * kernel && most > 1 ? count : extent * kernel;
}

bool uf_wgrad_rs_fits(const uf_conv_kernel_args *args) {
    const int64_t most = WGRAD_RS_ENTRIES;
    if (args->w.extent[2] * args->w.extent[3] <= 32) {
        return true;
    }
    for (int64_t q = 1; q <= 32; q *= 2) {
        for (int64_t p = 1; p * q <= 32; p *= 2) {
            /* Boxes that half of them would hold as well are none. */
            if (args->w.extent[2] <= most && args->w.extent[3] <= most &&
                (q == 1 || q / 2 < args->y.extent[3]) && (p == 1 || p / 2 < args->y.extent[2]) &&
                32 / (p * q) * elements_along(args, 0, p) * elements_along(args, 1, q) <= most) {
                return true;
            }
        }
    }
    return false;
}

wgrad_rs_plan uf_wgrad_rs_unbound(const uf_conv_kernel_args *args, int tile) {
    const uf_conv_kernel_args flat = uf_conv_flat(args);
    wgrad_rs_plan plan = uf_wgrad_rs_plan_at(&flat, tile);
    uf_wgrad_clear_addresses(&plan.sums);
    return plan;
}

bool uf_conv_plan_wgmma_wgrad_rs(const uf_conv_problem *problem, uf_conv_plan *plan) {
    wgrad_rs_plan *const own = UF_CONV_PLAN_OF(wgrad_rs_plan, plan);
    if (!uf_wgrad_fits(problem->args) || !uf_wgrad_rs_fits(problem->args)) {
        return false;
    }
    /* Estimates were fitted to the cost before pointwise layers are flattened. */
    plan->cost = uf_conv_is_empty(problem) || problem->tile != UF_CONV_ANY_TILE
                     ? 0.0
                     : uf_wgrad_rs_plan_of(problem->args, UF_CONV_ANY_TILE).cost;
    plan->workspace = 0;
    if (uf_view_count(uf_conv_written(problem)) > 0) {
        const uf_conv_kernel_args flat = uf_conv_flat(problem->args);
        *own = uf_wgrad_rs_unbound(problem->args, problem->tile);
        if (own->sums.rows == 0) {
            return false;
        }
        if (problem->tile != UF_CONV_ANY_TILE && !uf_conv_is_empty(problem)) {
            plan->cost = own->cost;
        }
        plan->tile = uf_wgrad_rs_tile_of(own, &flat);
        plan->tiles = WGRAD_RS_TILE_NUMBERS;
        plan->workspace = uf_wgrad_workspace(&own->sums);
    }
    return true;
}
