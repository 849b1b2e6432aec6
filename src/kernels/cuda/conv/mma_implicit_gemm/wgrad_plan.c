/* wgrad_plan.c - tile, box, layout, splits and cost of mma_implicit_gemm/wgrad_launch.cu. */
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"

#include <string.h>

#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"

typedef struct wgrad_tile_numbers {
    int32_t rows, warps_m, warps_n, fragments;
} wgrad_tile_numbers;

static wgrad_tile_numbers wgrad_tile_of(int32_t id, uf_mma_math math) {
#define UF_WGRAD_TILE(ID, ROWS, M32, N32, M, N, FRAGMENTS)                                         \
    if (id == ID) {                                                                                \
        const bool fp32 = math == UF_MMA_TF32X3;                                                   \
        const wgrad_tile_numbers tile = {ROWS, fp32 ? M32 : M, fp32 ? N32 : N, FRAGMENTS};         \
        return tile;                                                                               \
    }
    UF_WGRAD_TILES
#undef UF_WGRAD_TILE
    const wgrad_tile_numbers none = {0, 0, 0, 0};
    return none;
}

/* Cycles of a multiprocessor for one box, as far as a comparison needs them. The slowest of MMAs
 * (1.6 cycles; bf16 half as many, fp32 three), shared memory (one warp's load a cycle) and issue
 * (four a cycle) counts, and a part of the issue and of the copies, which never hide entirely. */
static int64_t wgrad_box_cost(const wgrad_tile_numbers *tile, uf_mma_math math, int64_t words) {
    const int64_t warps = tile->warps_m * tile->warps_n;
    const int64_t down = tile->rows / tile->warps_m / 16;
    const int64_t loads = 4 * warps * (down * 4 + tile->fragments * 2);
    const int64_t pairs = 4 * warps * down * tile->fragments;
    const int64_t mmas = math == UF_MMA_TF32X3 ? pairs * 3
                         : math == UF_MMA_TF32 ? pairs
                                               : pairs / 2;
    const int64_t roundings = math == UF_MMA_TF32X3 ? loads * 3
                              : math == UF_MMA_TF32 ? loads
                                                    : loads / 2;
    const int64_t issue = (mmas + loads + roundings + 8 * warps * tile->fragments) / 4;
    int64_t cost = mmas * 16 / 10;
    cost = cost > loads ? cost : loads;
    cost = cost > issue ? cost : issue;
    return cost + issue / 4 + words / 32;
}

void uf_wgrad_cut(wgrad_plan *p, int32_t rows_of_tile, int32_t columns, bool banded, int32_t log_q,
                  int32_t log_p) {
    p->rows = rows_of_tile;
    p->columns = columns;
    p->banded = banded;
    p->channels = banded && p->c_per_group < 8 ? p->c_per_group : 8;
    p->channel_blocks = (int32_t)uf_div_up(p->c_per_group, p->channels);
    p->all_columns = p->channel_blocks * p->taps * p->channels;
    p->tiles_m = (int32_t)uf_div_up(p->k_per_group, p->rows);
    p->tiles_n = (int32_t)uf_div_up(p->all_columns, p->columns);
    p->tiles = p->groups * p->tiles_m * p->tiles_n;
    p->log_q = log_q;
    p->log_p = log_p;
    const int32_t q = 1 << log_q, rows = 1 << log_p, images = WGRAD_PIXELS >> (log_q + log_p);
    p->boxes[0] = (int32_t)uf_div_up(p->batch, images);
    p->boxes[1] = (int32_t)uf_div_up(p->small[0], rows);
    p->boxes[2] = (int32_t)uf_div_up(p->small[1], q);
    p->all_boxes = p->boxes[0] * p->boxes[1] * p->boxes[2];
}

bool uf_wgrad_spread(wgrad_plan *p, int32_t most_bytes) {
    const int64_t width = (int64_t)p->taps * p->channels;
    /* Tiles begin at multiples of the greatest common divisor within a block of channels. */
    const int64_t latest = width - uf_gcd(p->columns, width);
    const int64_t touched = uf_div_up(latest + p->columns, width);
    p->span = (int32_t)(touched < p->channel_blocks ? touched : p->channel_blocks);
    const int64_t x_words = (int64_t)p->span * p->channels * p->pitch;
    if (x_words * 4 > most_bytes) {
        return false;
    }
    p->x_words = (int32_t)x_words;
    return true;
}

bool uf_wgrad_band(wgrad_plan *p, int32_t most_entries, int32_t most_bytes) {
    const int32_t q = 1 << p->log_q, rows = 1 << p->log_p,
                  images = WGRAD_PIXELS >> (p->log_q + p->log_p);
    const int64_t kernel_h = p->taps / p->taps_w, kernel_w = p->taps_w;
    if (kernel_h > most_entries || kernel_w > most_entries) {
        return false;
    }
    p->lines[0] = uf_wgrad_rows_of(rows, kernel_h, p->stride[0], p->dilation[0]);
    p->lines[1] = uf_wgrad_rows_of(q, kernel_w, p->stride[1], p->dilation[1]);
    const int64_t entries = (int64_t)images * p->lines[0].count * p->lines[1].count;
    if (entries > most_entries) {
        return false;
    }
    p->entries = (int32_t)entries;
    /* A fragment reads four neighbouring pixels: make them neighbours in shared memory. Pixels of
     * one image are copied together: an odd step puts them into different banks. */
    const bool images_first = q < 4 && images >= 4;
    p->step_w = images_first ? images + 1 : 1;
    const int64_t extent = images_first ? entries / images * p->step_w : entries;
    p->pitch = (int32_t)((extent + 3) / 8 * 8 + 4);
    p->step_h = p->step_w * p->lines[1].count;
    p->step_n = images_first ? 1 : p->step_h * p->lines[0].count;
    return uf_wgrad_spread(p, most_bytes);
}

/* Words that a box fetches. Rows that begin within a sector fetch more than they use. */
static int64_t wgrad_y_words(const wgrad_plan *p) {
    const int32_t q = 1 << p->log_q;
    return (int64_t)p->rows * (WGRAD_PIXELS >> p->log_q) * (q + (q < 8 ? 4 : 0));
}

static int64_t wgrad_band_words(const wgrad_plan *p) {
    const int32_t images = WGRAD_PIXELS >> (p->log_q + p->log_p);
    return (int64_t)p->span * p->channels * images * p->lines[0].count * (p->lines[1].count + 4);
}

/* Sets the members that the tile and the box decide; the cycles of all tiles and boxes, or -1 where
 * it does not fit. */
static double wgrad_try(wgrad_plan *p, uf_mma_math math, int32_t tile_id, bool banded,
                        int32_t log_q, int32_t log_p) {
    const wgrad_tile_numbers tile = wgrad_tile_of(tile_id, math);
    p->tile_id = tile_id;
    uf_wgrad_cut(p, tile.rows, tile.warps_n * tile.fragments * 8, banded, log_q, log_p);
    int64_t words = wgrad_y_words(p);
    if (banded) {
        if (!uf_wgrad_band(p, WGRAD_ENTRIES, WGRAD_SHARED)) {
            return -1;
        }
        words += wgrad_band_words(p);
    } else {
        const int32_t q = 1 << log_q;
        p->entries = p->columns / 8 * WGRAD_PIXELS;
        p->pitch = WGRAD_PITCH;
        p->span = 1;
        p->x_words = p->columns * WGRAD_PITCH;
        words += p->columns * (WGRAD_PIXELS >> log_q) * (q + 4);
        if (p->entries > WGRAD_ENTRIES) {
            return -1;
        }
    }
    p->stage_words = p->x_words + p->rows * WGRAD_PITCH;
    const int32_t table = wgrad_table_bytes(p);
    p->stages = 2;
    while (p->stages < 4 && table + (p->stages + 1) * p->stage_words * 4 <= WGRAD_SHARED) {
        ++p->stages;
    }
    p->shared_bytes = table + p->stages * p->stage_words * 4;
    if (p->shared_bytes > WGRAD_SHARED) {
        return -1;
    }
    return (double)wgrad_box_cost(&tile, math, words) * p->tiles * p->all_boxes;
}

/* Splits of K: they fill the GPU in whole waves, and their sums cost something. Long chains of
 * sums inside the tensor core, which truncates, are kept below 16384 pixels where nothing else
 * shortens them. */
static void wgrad_split(wgrad_plan *p, uf_mma_math math, double cost) {
    const double boxes = (double)p->tiles * p->all_boxes;
    const int64_t one =
        boxes > 0.0 ? (int64_t)(2.0 * cost / boxes) : 1; /* two blocks share a cycle */
    const int64_t longest = math == UF_MMA_TF32X3 ? 1024 : 512;
    int64_t least = uf_div_up(p->all_boxes, longest);
    least = least < 1 ? 1 : least > 32768 ? 32768 : least;
    int64_t best = -1;
    p->splits = (int32_t)least;
    for (int64_t splits = least; splits <= least + WGRAD_BLOCKS; ++splits) {
        if (splits > least && splits * 4 > p->all_boxes) {
            break;
        }
        const int64_t waves = uf_div_up(p->tiles * splits, WGRAD_BLOCKS);
        const int64_t total_cost = waves * (uf_div_up(p->all_boxes, splits) + 4) * one +
                                   splits * p->tiles * p->rows * p->columns * 8 / 1600;
        if (best < 0 || total_cost < best) {
            best = total_cost;
            p->splits = (int32_t)splits;
            p->cost = (double)total_cost;
        }
    }
    p->adders = p->splits >= 16 ? 8 : 1;
}

wgrad_plan uf_wgrad_begin(const uf_conv_kernel_args *args) {
    wgrad_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.problem = uf_wgrad_problem_of(args);
    plan.accumulate = args->mode == UF_ACCUMULATE;
    return plan;
}

wgrad_plan uf_wgrad_plan_of(const uf_conv_kernel_args *args, int wanted) {
    wgrad_plan plan = uf_wgrad_begin(args);
    wgrad_plan best = plan;
    double least = -1.0;
    for (int32_t tile = 0; wgrad_tile_of(tile, uf_mma_math_of(args)).rows != 0; ++tile) {
        for (int banded = 1; banded >= 0; --banded) {
            if (!uf_conv_is_tile(wanted, uf_wgrad_tile_number(tile, banded != 0))) {
                continue;
            }
            for (int32_t log_q = 5; log_q >= 0; --log_q) {
                for (int32_t log_p = 5 - log_q; log_p >= 0; --log_p) {
                    const double cost =
                        wgrad_try(&plan, uf_mma_math_of(args), tile, banded != 0, log_q, log_p);
                    if (cost >= 0.0 && (least < 0.0 || cost < least)) {
                        least = cost;
                        best = plan;
                    }
                }
            }
        }
    }
    if (least < 0.0 && wanted != UF_CONV_ANY_TILE) {
        return best;
    }
    wgrad_split(&best, uf_mma_math_of(args), least);
    /* Four pixels of y at once: where they are neighbours, never beyond the end of a row, and
     * aligned. */
    best.vector_y = best.log_q >= 2 && best.small[1] % 4 == 0 && best.y_stride[3] == 1 &&
                    best.y_stride[0] % 4 == 0 && best.y_stride[1] % 4 == 0 &&
                    best.y_stride[2] % 4 == 0 && (uintptr_t)best.y % 16 == 0;
    return best;
}

size_t uf_wgrad_workspace(const wgrad_plan *p) {
    const size_t sums = p->share > 0 ? (size_t)(wgrad_shares(p) + p->tiles - 1)
                                     : (size_t)p->splits * (size_t)p->tiles;
    return sums * (size_t)(p->rows * p->columns) * sizeof(float);
}

void uf_wgrad_bind(wgrad_plan *p, const uf_conv_kernel_args *args) {
    p->problem = uf_wgrad_problem_of(args);
    p->accumulate = args->mode == UF_ACCUMULATE;
    p->vector_y = p->vector_y && (uintptr_t)p->y % 16 == 0;
}

void uf_wgrad_clear_addresses(wgrad_plan *p) {
    p->x = p->y = NULL;
    p->w = NULL;
    p->partial = NULL;
}

bool uf_wgrad_fits(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 30;
    const int64_t most_tiles = INT64_C(1) << 22;
    const int64_t plane = args->y.extent[2] * args->y.extent[3];
    if (!uf_conv_positions_fit(args) || plane >= limit || plane * args->y.extent[0] >= limit) {
        return false;
    }
    const int64_t columns =
        uf_round_up(args->w.extent[1], 8) * args->w.extent[2] * args->w.extent[3];
    const int64_t tiles = uf_div_up(args->w.extent[0] / args->groups, 16) * args->groups;
    return args->stride[0] < INT64_C(1) << 24 && args->stride[1] < INT64_C(1) << 24 &&
           columns < limit && tiles < most_tiles && tiles * uf_div_up(columns, 48) < most_tiles;
}

bool uf_conv_plan_mma_implicit_gemm_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    wgrad_plan *const own = UF_CONV_PLAN_OF(wgrad_plan, plan);
    if (!uf_wgrad_fits(problem->args)) {
        return false;
    }
    plan->cost = 0.0;
    plan->workspace = 0;
    if (uf_view_count(uf_conv_written(problem)) == 0) {
        return true;
    }
    size_t used;
    const uf_conv_kernel_args args = uf_conv_upcast_args(problem->args, &used);
    *own = uf_wgrad_plan_of(&args, problem->tile);
    if (own->rows == 0) {
        return false;
    }
    plan->tile = uf_wgrad_tile_number(own->tile_id, own->banded);
    plan->tiles = WGRAD_TILE_NUMBERS;
    uf_wgrad_clear_addresses(own);
    plan->workspace = used + uf_wgrad_workspace(own);
    if (!uf_conv_is_empty(problem)) {
        plan->cost = own->cost * uf_mma_step_factor(UF_CONV_WGRAD, &args);
    }
    return true;
}
