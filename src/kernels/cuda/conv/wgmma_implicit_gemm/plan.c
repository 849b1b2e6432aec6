/* plan.c - the cheapest tile of a call. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.h"

enum {
    BRIEFEST = 128, /* MMAs of the longest sum: below, the range pass of split f16 costs more than
                       it saves */
    LARGE = 1 << 23 /* elements of a read tensor: above, the fix-up packs no windows */
};

/* Buffers of swap-AB in shared memory. Weights stay there if all tiles have the same and two
 * windows still fit. */
static bool fit_swap_ab(uf_wgmma_geometry *made, int64_t taps, bool one_block) {
    const int64_t window = (int64_t)made->window_rows * UF_WGMMA_SWAP_AB_PLANES * 16;
    const int64_t weights = taps * made->columns * UF_WGMMA_SWAP_AB_PLANES * 16;
    const int64_t plain = UF_WGMMA_BARRIERS +
                          (made->window_rows + 1) / 2 * 2 * UF_WGMMA_SWAP_AB_POSITION +
                          UF_WGMMA_SWAP_AB_GROUPS * UF_WGMMA_SWAP_AB_STAGING(made->columns) * 4;
    const int64_t all_weights = weights * made->chunks;
    made->resident = one_block && plain + all_weights + 2 * window <= UF_WGMMA_SHARED_WHOLE;
    const int64_t fixed = plain + (made->resident ? all_weights : 0);
    const int64_t stage = window + (made->resident ? 0 : weights);
    const int64_t turns = UF_WGMMA_SWAP_AB_TURNS(made->columns);
    const int64_t windows = (UF_WGMMA_SHARED_WHOLE - fixed) / stage / turns;
    const int64_t most = UF_WGMMA_WINDOWS / turns;
    made->windows = (int32_t)(windows < most ? windows : most);
    made->shared = (int32_t)(fixed + made->windows * turns * stage);
    return windows * turns >= 2;
}

/* Modelled cycles of swap-AB, or -1 where it does not fit: stride 1 and few written channels. */
static double try_swap_ab(const uf_wgmma_job *job, uf_wgmma_geometry *made) {
    const bool fp32 = job->math == UF_MMA_TF32X3;
    const int64_t depth = uf_wgmma_depth(job->math) / 2;
    const uf_wgmma_taps *const rows = &job->taps[0], *const columns = &job->taps[1];
    if (job->args->stride[0] != 1 || job->args->stride[1] != 1 ||
        job->written > (fp32 ? UF_WGMMA_SWAP_AB_CHANNELS / 2 : UF_WGMMA_SWAP_AB_CHANNELS)) {
        return -1.0;
    }
    memset(made, 0, sizeof *made);
    made->wm = 1;
    made->splits = 1;
    made->columns = job->written <= 8 ? 8 : job->written <= 32 ? 32 : 64;
    made->nt = UF_WGMMA_SWAP_AB_MMAS(fp32, made->columns) *
               (UF_WGMMA_SWAP_AB_GROUPS / UF_WGMMA_SWAP_AB_TURNS(made->columns));
    made->pixels = UF_WGMMA_SWAP_AB_PIXELS;
    made->block_channels = made->columns;
    made->runs_log = UF_WGMMA_WIDE_RUNS_LOG;
    made->phases = made->classes = 1;
    made->channel_blocks = made->blocks_m = 1;
    made->image_mmas = 1;
    made->image_tiles = (int32_t)job->args->y.extent[0];
    for (int axis = 0; axis < 2; ++axis) {
        uf_wgmma_axis *on = &made->axis[axis];
        const uf_wgmma_taps *const taps = &job->taps[axis];
        on->mul = 1;
        on->patch = axis == 0 ? 1 : UF_WGMMA_SWAP_AB_PIXELS;
        on->mmas = axis == 0 ? made->nt : 1;
        const int64_t extent = on->patch * on->mmas + taps->span;
        if (extent > 2048 || taps->first < -(INT64_C(1) << 28) || taps->first > INT64_C(1) << 28) {
            return -1.0;
        }
        on->first = (int32_t)taps->first;
        on->extent = (int32_t)extent;
        on->tiles = (int32_t)uf_div_up(taps->elements, on->patch * on->mmas);
    }
    const uf_view *read = job->direction == UF_CONV_DGRAD ? &job->args->y : &job->args->x;
    const double span = fabs((double)read->stride[2]) * made->axis[0].extent +
                        fabs((double)read->stride[3]) * made->axis[1].extent;
    if (span >= 2147483647.0 || (int64_t)made->axis[0].extent * made->axis[1].extent > 2048) {
        return -1.0;
    }
    made->window_rows = made->axis[0].extent * made->axis[1].extent;
    made->mma_pitch = made->mma_rows = made->axis[1].extent;
    made->planes = UF_WGMMA_SWAP_AB_PLANES;
    made->depth = 1;
    made->chunks = (int32_t)uf_div_up(job->read, depth);
    const int64_t taps = rows->of.count[0] * columns->of.count[0];
    /* In FP32 short sums need their small parts accumulated first, and this main loop has no such
     * order. */
    if (fp32 && job->read * taps <= 64) {
        return -1.0;
    }
    made->promote = (int32_t)uf_div_up(taps, uf_div_up(taps, 8)); /* 64 of K, as even as possible */
    if (!fit_swap_ab(made, taps, job->args->groups == 1)) {
        return -1.0;
    }
    made->tiles =
        (int64_t)made->axis[0].tiles * made->axis[1].tiles * made->image_tiles * job->args->groups;
    made->together = 1;
    made->coords = (int32_t)made->tiles;
    made->busiest = (double)taps;
    return uf_wgmma_swap_ab_cost(job, made, (double)taps);
}

/* The cheapest candidate of a tile: modelled cycles, or -1 where none fits. */
static double best_tile(const uf_wgmma_job *job, const uf_wgmma_job *merged, bool merges, int tile,
                        uf_wgmma_geometry *made) {
    uf_wgmma_tile_candidate candidate;
    double best = -1.0;
    enum { LAID_OUT = 2 * 2 * 2 * 4 * 3 * 2 }; /* then lines */
    const int jobs = merges ? 2 : 1;
    for (int j = 0; j < jobs * (LAID_OUT + 4); ++j) {
        const int i = j % (LAID_OUT + 4);
        uf_wgmma_geometry tried;
        candidate.wm = 1 + i % 2;
        candidate.nt = 1 + i / 2 % 2;
        candidate.packed = i / 4 % 2 == 1;
        candidate.runs_log = i / 8 % 4;
        candidate.beside = i / 32 % 3; /* down, across, in images */
        candidate.stacked = i / 96 == 1;
        candidate.line = i >= LAID_OUT;
        if (candidate.line) {
            candidate.packed = true;
            candidate.stacked = false;
            candidate.runs_log = 0;
            candidate.beside = 1;
        }
        if (!uf_conv_is_tile(tile, uf_wgmma_tile_number(candidate.wm, candidate.nt,
                                                        candidate.packed, candidate.line))) {
            continue;
        }
        const double total_cost = uf_wgmma_try_tile(j == i ? job : merged, &candidate, &tried);
        if (total_cost >= 0.0 && (best < 0.0 || total_cost < best)) {
            best = total_cost;
            *made = tried;
        }
    }
    return best;
}

bool uf_wgmma_geometry_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                          uf_wgmma_geometry *made) {
    uf_wgmma_job job, merged;
    if (!uf_wgmma_job_of(direction, args, &job)) {
        return false;
    }
    double best = best_tile(&job, &merged, uf_wgmma_job_merge(&job, &merged), tile, made);
    uf_wgmma_geometry swap_ab;
    const double total_cost =
        uf_conv_is_tile(tile, UF_WGMMA_SWAP_AB_TILE) ? try_swap_ab(&job, &swap_ab) : -1.0;
    if (total_cost >= 0.0 && (best < 0.0 || total_cost < best)) {
        best = total_cost;
        *made = swap_ab;
    }
    if (best < 0.0) {
        return false;
    }
    made->cost = best;
    uf_wgmma_list_taps(made->merged ? &merged : &job, made);
    return true;
}

bool uf_wgmma_split_f16_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                           uf_wgmma_geometry *made) {
    uf_wgmma_job job, merged;
    if (args->x.dtype != UF_F32 || args->math != UF_MATH_FP32 || uf_view_count(&args->x) == 0 ||
        uf_view_count(&args->y) == 0 || !uf_wgmma_job_of(direction, args, &job) ||
        job.read * job.most_taps < BRIEFEST) {
        return false;
    }
    job.math = UF_MMA_F16X3;
    const double best = best_tile(&job, &merged, uf_wgmma_job_merge(&job, &merged), tile, made);
    if (best < 0.0) {
        return false;
    }
    made->cost = best + uf_wgmma_range_cost(&job);
    uf_wgmma_list_taps(made->merged ? &merged : &job, made);
    return true;
}

/* Do both write tile for tile the same? */
static bool same_tiles(const uf_wgmma_geometry *a, const uf_wgmma_geometry *b) {
    bool same = a->wm == b->wm && a->nt == b->nt && a->tiles == b->tiles &&
                a->coords == b->coords && a->together == b->together &&
                a->backwards == b->backwards && a->blocks_m == b->blocks_m &&
                a->paired == b->paired && a->stack == b->stack && a->line == b->line &&
                a->image_tiles == b->image_tiles && a->runs_log == b->runs_log;
    for (int axis = 0; axis < 2; ++axis) {
        const uf_wgmma_axis *const of_a = &a->axis[axis], *const of_b = &b->axis[axis];
        same = same && of_a->patch == of_b->patch && of_a->images_log == of_b->images_log &&
               of_a->tiles == of_b->tiles;
    }
    return same;
}

uf_wgmma_geometry uf_wgmma_fixup(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                 const uf_wgmma_geometry *split_f16) {
    uf_wgmma_geometry made = *split_f16;
    uf_wgmma_job job;
    const uf_wgmma_tile_candidate producers = {.wm = split_f16->wm,
                                               .nt = split_f16->nt,
                                               .runs_log = split_f16->runs_log,
                                               .stacked = split_f16->stack > 0};
    const int64_t read = uf_view_count(direction == UF_CONV_DGRAD ? &args->y : &args->x);
    if (read >= LARGE && split_f16->packed && split_f16->line == 0 &&
        uf_wgmma_scheduler_of(split_f16) == WGMMA_ALONE && uf_wgmma_job_of(direction, args, &job)) {
        if (uf_wgmma_try_tile(&job, &producers, &made) >= 0.0 && same_tiles(&made, split_f16)) {
            made.cost = split_f16->cost;
            uf_wgmma_list_taps(&job, &made);
            return made;
        }
        made = *split_f16;
    }
    made.split_f16 = false;
    made.promote = uf_wgmma_resident_taps(&made);
    made.chunks *= 2;
    made.work *= 2;
    return made;
}

bool uf_wgmma_swap_ab_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         uf_wgmma_geometry *made) {
    uf_wgmma_job job;
    if (!uf_wgmma_job_of(direction, args, &job)) {
        return false;
    }
    made->cost = try_swap_ab(&job, made);
    if (made->cost < 0.0) {
        return false;
    }
    uf_wgmma_list_taps(&job, made);
    return true;
}

int64_t uf_wgmma_line_end(const uf_wgmma_geometry *geometry) {
    int32_t last = 0;
    for (int32_t klass = 0; klass < geometry->classes; ++klass) {
        last = geometry->class_first[klass][1] > last ? geometry->class_first[klass][1] : last;
    }
    const uf_wgmma_axis *const across = &geometry->axis[1];
    return (int64_t)(across->tiles - 1) * across->patch * across->mmas + across->first + last +
           geometry->window_rows;
}
