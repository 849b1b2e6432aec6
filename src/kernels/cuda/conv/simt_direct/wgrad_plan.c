/* wgrad_plan.c - tile, box, splits and workspace of simt_direct/wgrad_launch.cu. */
#include "kernels/cuda/conv/simt_direct/wgrad_plan.h"

#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/select/cost.h"

/* Cycles that a warp's quad of pixels takes from one of the four schedulers: issue, or its share of
 * the load unit. */
static double direct_quad_cost(int32_t kt, int32_t ct) {
    const double issue = 4.0 * kt * ct + kt + 5.0 * ct + 14;
    const double loads = 4.0 * (kt + 4.0 * ct + 1);
    return issue > loads ? issue : loads;
}

/* Choose the tile: the fewest cycles for all of w at one quad of pixels. No more than `most`
 * channels of x. */
static bool direct_choose_tile(direct_wgrad_plan *p, int64_t most, int wanted) {
    static const int8_t tiles[][2] = {
#define UF_DIRECT_WGRAD_TILE(ID, KT, CT) {KT, CT},
        UF_DIRECT_WGRAD_TILES
#undef UF_DIRECT_WGRAD_TILE
    };
    /* Words of x per pixel that some tap reads, about. */
    const int64_t kernel_h = p->taps / p->taps_w;
    const double live =
        (double)direct_min(kernel_h, p->stride[0]) * direct_min(p->taps_w, p->stride[1]);
    double best = -1;
    for (int32_t id = 0; id < (int32_t)(sizeof tiles / sizeof tiles[0]); ++id) {
        const int32_t kt = tiles[id][0], ct = tiles[id][1];
        if ((kt > 1 && p->k_per_group <= kt / 2) || !uf_conv_is_tile(wanted, id)) {
            continue;
        }
        for (int32_t lanes_k = 1; lanes_k <= 8; lanes_k *= 2) {
            if (lanes_k > 1 && p->k_per_group <= kt * lanes_k / 2) {
                break;
            }
            for (int32_t lanes_c = 32 / lanes_k; lanes_c >= 2; lanes_c /= 2) {
                direct_wgrad_plan t = *p;
                t.lanes_g = 32 / lanes_k / lanes_c;
                const int64_t all = (int64_t)p->c_per_group * p->taps;
                if (t.lanes_g > 1 && (t.lanes_g / 2 >= p->groups || p->k_per_group > kt * lanes_k ||
                                      all > (int64_t)lanes_c * ct * DIRECT_WARPS ||
                                      (int64_t)p->c_per_group * t.lanes_g > most)) {
                    break;
                }
                t.warps_k = direct_power(uf_div_up(p->k_per_group, kt * lanes_k), DIRECT_WARPS);
                t.warps_c = direct_power(uf_div_up(all, lanes_c * ct), DIRECT_WARPS / t.warps_k);
                const int32_t columns = lanes_c * ct * t.warps_c;
                t.columns = (columns + 3) / 4 * 4;
                t.tile_k = lanes_k * kt * t.warps_k;
                t.tile_taps = direct_min(p->taps, columns);
                const int64_t fit = direct_min(columns / t.tile_taps, most);
                if (t.lanes_g > 1 && fit < p->c_per_group) {
                    continue;
                }
                t.tiles_c = (int32_t)uf_div_up(p->c_per_group, fit);
                t.tile_c = (int32_t)uf_div_up(p->c_per_group, t.tiles_c);
                t.tiles_t = (int32_t)uf_div_up(p->taps, t.tile_taps);
                t.tiles_k = (int32_t)uf_div_up(p->k_per_group, t.tile_k);
                t.tiles_g = (int32_t)uf_div_up(p->groups, t.lanes_g);
                /* A block's cycles for a quad, and those of its load: five instructions for 32
                 * words. */
                const double products = direct_quad_cost(kt, ct) * t.warps_k * t.warps_c;
                const double words = 4.0 * t.lanes_g * (t.tile_k + live * t.tile_c);
                const double cost =
                    (products + words * 5 / 32) * t.tiles_c * t.tiles_t * t.tiles_k * t.tiles_g;
                if (best < 0 || cost < best) {
                    best = cost;
                    t.tile_id = id;
                    t.lanes_c = lanes_c;
                    t.lanes_k = lanes_k;
                    t.warps_p = DIRECT_WARPS / t.warps_k / t.warps_c;
                    t.tiles = t.tiles_c * t.tiles_t * t.tiles_k * t.tiles_g;
                    *p = t;
                }
            }
        }
    }
    return best >= 0;
}

static int32_t direct_shared_bytes(const direct_wgrad_plan *p, int32_t stages) {
    return (p->x_entries + p->y_entries) * 16 + (p->pixels / 4 + 3) / 4 * 16 + p->columns * 4 +
           stages * p->stage_words * 4;
}

/* The logarithm of the number of warps that share `entries`, if the others share `channels`: the
 * fewest copies one after another. */
static int32_t direct_entry_warps(int64_t entries, int64_t channels) {
    int64_t best = -1;
    int32_t chosen = 0;
    for (int32_t log = uf_conv_log2(DIRECT_WARPS); log >= 0; --log) {
        const int64_t copies = uf_div_up(uf_div_up(entries, 32), 1 << log) *
                               (3 + uf_div_up(channels, DIRECT_WARPS >> log));
        if (best < 0 || copies < best) {
            best = copies;
            chosen = log;
        }
    }
    return chosen;
}

/* `count` steps from an element, in an entry's 32 bits with room for two more such. */
static bool direct_fits(int64_t count, int64_t stride) {
    const int64_t limit = INT64_C(1) << 29;
    const int64_t size = stride < 0 ? -stride : stride;
    return count == 0 || (size < limit && count * size < limit);
}

/* Fill in what the box decides; its cycles per useful pixel, or -1 where it does not fit. */
static double direct_try_box(direct_wgrad_plan *p, int32_t kt, int32_t ct, bool aligned_y) {
    const int64_t kernel_h = p->taps / p->taps_w, kernel_w = p->taps_w;
    const int64_t all = (int64_t)p->box[0] * p->box[1] * p->box[2];
    if (all > DIRECT_PIXELS) {
        return -1;
    }
    p->pixels = (int32_t)all;
    p->lines[0] = uf_wgrad_rows_of(p->box[1], kernel_h, p->stride[0], p->dilation[0]);
    p->lines[1] = uf_wgrad_rows_of(p->box[2], kernel_w, p->stride[1], p->dilation[1]);
    for (int axis = 0; axis < 2; ++axis) {
        p->longest[axis] = p->lines[axis].step * p->lines[axis].length;
        p->boxes[1 + axis] = (int32_t)uf_div_up(p->small[axis], p->box[1 + axis]);
    }
    p->boxes[0] = (int32_t)uf_div_up(p->batch, p->box[0]);
    const int64_t channels = (int64_t)p->lanes_g * p->tile_c;
    const int64_t rows = (int64_t)p->lanes_g * p->tile_k;
    const int64_t boxes = (int64_t)p->boxes[0] * p->boxes[1] * p->boxes[2];
    const int64_t entries = (int64_t)p->box[0] * p->longest[0] * p->longest[1];
    p->y_by_channel = p->images_first && p->small[0] * p->small[1] == 1 && p->lanes_g == 1;
    p->vector_y = aligned_y && !p->images_first;
    p->y_entries = p->y_by_channel ? p->tile_k : p->vector_y ? p->pixels / 4 : p->pixels;
    const int64_t span_h =
        (int64_t)(p->box[1] - 1) * p->stride[0] + (kernel_h - 1) * p->dilation[0] + 1;
    const int64_t span_w =
        (int64_t)(p->box[2] - 1) * p->stride[1] + (kernel_w - 1) * p->dilation[1] + 1;
    if (entries > DIRECT_ENTRIES || p->y_entries > DIRECT_ENTRIES || boxes > INT32_MAX / 2 ||
        !direct_fits(p->box[0] - 1, p->x_stride[0]) || !direct_fits(span_h - 1, p->x_stride[2]) ||
        !direct_fits(span_w - 1, p->x_stride[3]) || !direct_fits(p->box[0] - 1, p->y_stride[0]) ||
        !direct_fits(p->box[1] - 1, p->y_stride[2]) ||
        !direct_fits(p->box[2] - 1, p->y_stride[3]) ||
        (p->y_by_channel && !direct_fits(p->tile_k - 1, p->y_stride[1]))) {
        return -1;
    }
    p->x_entries = (int32_t)entries;
    p->all_boxes = (int32_t)boxes;
    p->log_x_warps = direct_entry_warps(p->x_entries, channels);
    p->log_y_warps = direct_entry_warps(p->y_entries, p->y_by_channel  ? p->box[0]
                                                      : p->lanes_g > 1 ? p->lanes_g
                                                                       : rows);
    /* Eight lanes read 16 bytes each from different banks, and write neighbouring quads to
     * different banks. */
    p->pitch_y = kt > 1 ? 4 * kt + 4 : 4;
    p->pitch_g = p->tile_k / kt * p->pitch_y;
    p->pitch_quad = (p->lanes_g * p->pitch_g + 27) / 32 * 32 + 4;
    /* Lanes that copy different elements of one image write to different banks. */
    p->pitch_w = p->images_first ? p->box[0] | 1 : 1;
    p->pitch_h = p->lines[1].count * p->pitch_w + 1;
    p->pitch_c =
        (p->images_first ? 1 : p->box[0]) * p->lines[0].count * p->pitch_h + DIRECT_PADS - 1;
    p->x_words = (int32_t)((channels * p->pitch_c + 3) / 4 * 4);
    const int64_t stage =
        (channels * p->pitch_c + 3) / 4 * 4 + (int64_t)(p->pixels / 4) * p->pitch_quad;
    if (stage > DIRECT_SHARED / 8) {
        return -1;
    }
    p->stage_words = (int32_t)stage;
    if (direct_shared_bytes(p, 2) > DIRECT_SHARED) {
        return -1;
    }
    const double quads = (double)(uf_div_up(p->pixels / 4, p->warps_p));
    const double products = DIRECT_WARPS * quads * direct_quad_cost(kt, ct) / 4;
    /* Copies cost five instructions, entries twenty. */
    const double fill = (double)uf_div_up(entries, 32) *
                            ((double)channels * 5 + (20 * DIRECT_WARPS >> p->log_x_warps)) / 4 +
                        (double)uf_div_up(p->y_entries, 32) *
                            ((p->y_by_channel ? p->box[0] : (double)rows) * 5 +
                             (20 * DIRECT_WARPS >> p->log_y_warps)) /
                            4;
    /* 18 bytes a cycle from memory, in sectors of eight words; what boxes share comes from the
     * second-level cache at twice that rate. */
    const int64_t span = direct_min(span_w, p->large[1]);
    const int64_t new_words = direct_min((int64_t)p->box[2] * p->stride[1], p->large[1]);
    const double x_words = (double)p->box[0] * p->lines[0].count * (double)channels *
                           ((double)new_words + (double)(span + 7 - new_words) * 0.5);
    const double y_words = (double)p->box[0] * p->box[1] * (double)rows *
                           (p->box[2] + (p->box[2] % 8 != 0 ? 3.5 : 0.0));
    const double from_memory = (x_words + y_words) * 4 / 18;
    const double useful = (double)p->batch * p->small[0] * p->small[1] / (double)boxes;
    const double busy = products + fill + 200;
    return ((busy > from_memory ? busy : from_memory) + 0.25 * from_memory) / useful;
}

static bool direct_choose_box(direct_wgrad_plan *p, int32_t kt, int32_t ct, bool aligned_y) {
    double best = -1;
    direct_wgrad_plan chosen = *p;
    direct_wgrad_plan t = *p;
    t.images_first = p->small[1] < 4 && p->batch > 1;
    for (int32_t most_q = 4; most_q <= 128; most_q *= 2) {
        t.box[2] = (int32_t)uf_div_up(p->small[1], uf_div_up(p->small[1], most_q));
        t.box[2] = t.images_first ? t.box[2] : (t.box[2] + 3) / 4 * 4;
        for (int32_t most_p = 1; most_p <= 64; most_p *= 2) {
            t.box[1] = (int32_t)uf_div_up(p->small[0], uf_div_up(p->small[0], most_p));
            const bool whole = t.box[2] >= p->small[1] && t.box[1] >= p->small[0];
            for (int32_t images = t.images_first ? 4 : 1; images <= 128; images *= 2) {
                t.box[0] = images;
                if (images > (t.images_first ? 4 : 1) && (!whole || images / 2 >= p->batch)) {
                    break;
                }
                const double cost = direct_try_box(&t, kt, ct, aligned_y);
                if (cost >= 0 && (best < 0 || cost < best)) {
                    best = cost;
                    chosen = t;
                }
            }
            if (most_p >= p->small[0]) {
                break;
            }
        }
        if (most_q >= p->small[1]) {
            break;
        }
    }
    *p = chosen;
    return best >= 0;
}

/* Threads that share the splits of four elements: as many as fill the GPU; or elements that share a
 * thread. */
static void direct_choose_adders(direct_wgrad_plan *p) {
    p->log_tile_k = uf_conv_log2(p->tile_k);
    p->size = p->lanes_g * p->tile_k * p->columns;
    p->adders = 1;
    while (p->adders < 32 && p->adders * 4 < p->splits &&
           (int64_t)p->tiles * p->size / 4 * p->adders < (1 << 17)) {
        p->adders *= 2;
    }
    p->adder_rows =
        (int64_t)p->tiles * p->size / 4 < (1 << 19) ? 1 : direct_min(p->lanes_g * p->tile_k, 4);
}

/* Splits: enough blocks to fill the GPU in whole waves, and chains that stay short. */
static void direct_choose_splits(direct_wgrad_plan *p) {
    int64_t splits = p->tiles < DIRECT_BLOCKS ? DIRECT_BLOCKS / p->tiles : 1;
    const int64_t per_box = uf_div_up(p->pixels, p->warps_p);
    const int64_t longest = uf_div_up(DIRECT_CHAIN, per_box);
    splits *= uf_div_up(p->all_boxes, splits * longest);
    splits = direct_min(splits, p->all_boxes);
    p->splits = direct_min(splits, DIRECT_SPLITS);
    p->splits = p->splits < 1 ? 1 : p->splits;
    direct_choose_adders(p);
}

/* ---- few channels per group: rows, not tiles ---- */

/* Planes of one channel of x and one of y each (simt_direct/wgrad_load.cuh): kernels that are
 * instantiated, and so few pairs that reading a plane once per pair costs less than tiles would
 * waste. */
static bool direct_rows_plan(direct_wgrad_plan *p) {
    const int32_t kernel_h = p->taps / p->taps_w;
    if ((int64_t)p->k_per_group * p->c_per_group > 2 || kernel_h != p->taps_w || kernel_h < 3 ||
        kernel_h > 5 || p->stride[0] > 2 || p->dilation[0] != 1 || p->dilation[1] != 1 ||
        p->x_stride[3] != 1) {
        return false;
    }
    p->rows = true;
    p->rows_step = p->stride[0];
    p->lanes_g = p->lanes_k = p->warps_k = p->warps_c = 1;
    p->tile_k = p->tile_c = 1;
    p->tile_taps = p->taps;
    p->columns = (p->taps + 3) / 4 * 4;
    p->tiles_g = p->groups;
    p->tiles_k = p->k_per_group;
    p->tiles_c = p->c_per_group;
    p->tiles_t = 1;
    p->tiles = p->groups * p->k_per_group * p->c_per_group;
    /* A warp takes 32 columns of one image, or rows of several images where these are short. */
    p->box[0] = p->small[1] >= 32 ? 1 : direct_min(32 / p->small[1], p->batch);
    p->box[2] = p->small[1] >= 32 ? 32 : p->small[1];
    const int32_t bands = (int32_t)uf_div_up(p->small[0], 64);
    p->box[1] = (int32_t)uf_div_up(p->small[0], bands);
    int64_t boxes = 1;
    const int32_t extent[3] = {p->batch, p->small[0], p->small[1]};
    for (int i = 0; i < 3; ++i) {
        p->boxes[i] = (int32_t)uf_div_up(extent[i], p->box[i]);
        boxes *= p->boxes[i];
    }
    if (boxes > INT32_MAX / 2) {
        return false;
    }
    p->all_boxes = (int32_t)boxes;
    /* About eight blocks per multiprocessor, and a box or more for each warp of them. */
    const int64_t most = uf_div_up(p->all_boxes, DIRECT_WARPS);
    const int64_t enough = uf_div_up(most, uf_div_up(most, uf_div_up(DIRECT_BLOCKS * 6, p->tiles)));
    const int64_t short_chains =
        uf_div_up((int64_t)p->all_boxes * p->box[1], DIRECT_WARPS * DIRECT_CHAIN);
    p->splits =
        direct_min(enough > short_chains ? enough : short_chains, direct_min(most, DIRECT_SPLITS));
    direct_choose_adders(p);
    return true;
}

void uf_direct_wgrad_begin(const uf_conv_kernel_args *args, direct_wgrad_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->problem = uf_wgrad_problem_of(args);
    plan->accumulate = args->mode == UF_ACCUMULATE;
}

void uf_direct_wgrad_begin_tiles(const uf_conv_kernel_args *args, int32_t tile_k, int32_t tile_c,
                                 int32_t columns, int32_t splits, direct_wgrad_plan *plan) {
    uf_direct_wgrad_begin(args, plan);
    plan->lanes_g = 1;
    plan->tile_k = tile_k;
    plan->tile_c = tile_c;
    plan->tile_taps = plan->taps;
    plan->columns = columns;
    plan->tiles_g = plan->groups;
    plan->tiles_k = (int32_t)uf_div_up(plan->k_per_group, tile_k);
    plan->tiles_c = (int32_t)uf_div_up(plan->c_per_group, tile_c);
    plan->tiles_t = 1;
    plan->tiles = plan->tiles_g * plan->tiles_k * plan->tiles_c;
    plan->splits = splits;
    direct_choose_adders(plan);
}

/* May four pixels of y be copied at once, if its address allows it? */
static bool has_vectors(const uf_view *y) {
    return y->dtype == UF_F32 && y->stride[3] == 1 && y->stride[0] % 4 == 0 &&
           y->stride[1] % 4 == 0 && y->stride[2] % 4 == 0 && y->extent[3] % 4 == 0;
}

static bool is_aligned(const uf_view *y) {
    return has_vectors(y) && (uintptr_t)y->data % 16 == 0;
}

/* The plan for a y that is or is not aligned. */
static bool direct_plan(const uf_conv_kernel_args *args, bool aligned_y, int tile,
                        direct_wgrad_plan *plan) {
    static const int8_t tiles[][2] = {
#define UF_DIRECT_WGRAD_TILE(ID, KT, CT) {KT, CT},
        UF_DIRECT_WGRAD_TILES
#undef UF_DIRECT_WGRAD_TILE
    };
    direct_wgrad_plan p;
    uf_direct_wgrad_begin(args, &p);
    if (uf_conv_is_tile(tile, DIRECT_WGRAD_ROWS_TILE) && direct_rows_plan(&p)) {
        *plan = p;
        return true;
    }
    for (int64_t most = INT32_MAX; most > 0; most = ((int64_t)p.lanes_g * p.tile_c) / 2) {
        if (!direct_choose_tile(&p, most, tile)) {
            return false;
        }
        const int32_t kt = tiles[p.tile_id][0], ct = tiles[p.tile_id][1];
        p.kt = kt;
        p.log_kt = uf_conv_log2(kt);
        if (!direct_choose_box(&p, kt, ct, aligned_y)) {
            continue;
        }
        uf_direct_choose_pitches(&p);
        p.stages = direct_shared_bytes(&p, 3) <= DIRECT_SHARED ? 3 : 2;
        p.shared_bytes = direct_shared_bytes(&p, p.stages);
        /* Half the warps store their sums there at the end. */
        const int32_t sums = p.warps_p / 2 * p.warps_k * p.warps_c * 32 * kt * ct * 4;
        p.shared_bytes = sums > p.shared_bytes ? sums : p.shared_bytes;
        p.log_lanes_c = uf_conv_log2(p.lanes_c);
        p.log_lanes_k = uf_conv_log2(p.lanes_k);
        p.log_warps_c = uf_conv_log2(p.warps_c);
        p.log_warps_k = uf_conv_log2(p.warps_k);
        direct_choose_splits(&p);
        *plan = p;
        return true;
    }
    return false;
}

bool uf_direct_wgrad_plan_of(const uf_conv_kernel_args *args, int tile, direct_wgrad_plan *plan) {
    return direct_plan(args, is_aligned(&args->y), tile, plan);
}

size_t uf_direct_wgrad_workspace(const direct_wgrad_plan *p) {
    return (size_t)p->splits * (size_t)p->tiles * (size_t)p->size * sizeof(float);
}

/* Offsets within a box of up to 128 images fit 32 bits. */
static bool takes(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 28;
    const int64_t r = args->w.extent[2], s = args->w.extent[3];
    const bool images =
        args->y.extent[3] < 4 && args->y.extent[0] > 1; /* boxes of four images and more */
    return uf_conv_positions_fit(args) && r <= 11 && s <= 11 && uf_view_count(&args->w) < limit &&
           uf_view_count(&args->y) > 0 && uf_view_count(&args->y) / args->y.extent[1] < limit &&
           direct_fits((r - 1) * args->dilation[0] + 1, args->x.stride[2]) &&
           direct_fits(3 * args->stride[1] + (s - 1) * args->dilation[1] + 1, args->x.stride[3]) &&
           direct_fits(1, args->y.stride[2]) && direct_fits(4, args->y.stride[3]) &&
           direct_fits(512, args->y.stride[1]) &&
           (!images || (direct_fits(4, args->x.stride[0]) && direct_fits(4, args->y.stride[0])));
}

bool uf_conv_plan_simt_direct_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    direct_wgrad_plan *const own = UF_CONV_PLAN_OF(direct_wgrad_plan, plan);
    if (!takes(args)) {
        return false;
    }
    if (uf_view_count(&args->w) == 0) { /* no tile to divide by; a launch is never asked for */
        memset(own, 0, sizeof *own);
        plan->cost = 0.0;
        plan->workspace = 0;
        return true;
    }
    /* A workspace query may come before the tensors: there is a plan, and scratch enough for it,
     * wherever y begins. A y that is not aligned has other boxes, and may have more splits. A tile
     * that one of both plans refuses is refused, and the number is that of the plan for an aligned
     * y: so a forced tile needs no more scratch elsewhere. */
    const bool aligned = is_aligned(&args->y), either = has_vectors(&args->y);
    direct_wgrad_plan other;
    if (!direct_plan(args, aligned, problem->tile, own) ||
        (either && !direct_plan(args, !aligned, problem->tile, &other))) {
        return false;
    }
    plan->tile = direct_wgrad_tile_number(either && !aligned ? &other : own);
    plan->tiles = DIRECT_WGRAD_TILE_NUMBERS;
    own->x = own->y = NULL;
    own->w = NULL;
    own->partial = NULL;
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : uf_conv_multiply_add_cost(problem);
    plan->workspace = uf_direct_wgrad_workspace(own);
    if (either && uf_direct_wgrad_workspace(&other) > plan->workspace) {
        plan->workspace = uf_direct_wgrad_workspace(&other);
    }
    return true;
}
