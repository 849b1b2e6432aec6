/* tile.c - a candidate's window, buffers in shared memory, tile order and split. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.h"

#include <string.h>

#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"

enum {
    SHARED_HALF = 115712 /* bytes for each of two CTAs of a multiprocessor */
};

static int32_t log2_up(int64_t value) {
    int32_t log = 0;
    while (INT64_C(1) << log < value) {
        ++log;
    }
    return log;
}

/* Rows from an image's first row to the next image's in a stack. Rows that taps read outside of an
 * image then belong to no image. */
static int64_t stack_of(const uf_wgmma_taps *down) {
    const int64_t below = down->elements + (down->last > 0 ? down->last : 0);
    const int64_t above = down->read - (down->first < 0 ? down->first : 0);
    return below > above ? below : above;
}

/* Tiles and window for NT MMAs beside each other (0 down, 1 across, 2 in images) and 2^runs_log
 * runs of 8 side by side. Wide patches have larger windows and longer runs of stores. */
static bool lay_out(uf_wgmma_geometry *made, const uf_wgmma_taps taps[2], int64_t batch, int beside,
                    int runs_log) {
    int64_t rows = 1;
    made->runs_log = runs_log;
    made->patch_log = made->packed ? 0 : runs_log;
    if (runs_log > 0 && (taps[0].elements < 16 >> runs_log || taps[1].elements < 6 << runs_log)) {
        return false;
    }
    made->image_mmas = beside == 2 ? made->nt : 1;
    for (int axis = 0; axis < 2; ++axis) {
        uf_wgmma_axis *on = &made->axis[axis];
        const int32_t most =
            axis == 0 ? 4 - made->runs_log : 3 + made->runs_log; /* 16 down, 8 across */
        const int32_t log =
            log2_up(taps[axis].elements) < most ? log2_up(taps[axis].elements) : most;
        on->patch = 1 << log;
        on->images_log = most - log;
        on->mmas = beside == axis ? made->nt : 1;
        on->tiles = (int32_t)uf_div_up(taps[axis].elements, on->patch * on->mmas);
        const int64_t beside_it = on->patch * on->mmas;
        const int64_t extent =
            (axis == 1 ? beside_it >> made->patch_log : beside_it) + taps[axis].span;
        if (extent > 2048 || taps[axis].first < -(INT64_C(1) << 28) ||
            taps[axis].first > INT64_C(1) << 28) {
            return false;
        }
        on->first = (int32_t)taps[axis].first;
        on->extent = (int32_t)extent;
        rows *= extent << on->images_log;
    }
    rows *= made->image_mmas << made->patch_log;
    if (rows > 1024) {
        return false;
    }
    const int64_t images = (int64_t)made->image_mmas
                           << (made->axis[0].images_log + made->axis[1].images_log);
    made->image_tiles = (int32_t)uf_div_up(batch, images);
    made->window_rows = (int32_t)rows;
    made->mma_pitch = made->axis[1].extent << made->axis[1].images_log;
    made->run_pitch = made->mma_pitch;
    made->mma_rows = beside == 1 ? made->axis[1].patch << made->axis[1].images_log
                     : beside == 0
                         ? (made->axis[0].patch << made->axis[0].images_log) * made->mma_pitch
                         : (made->axis[0].extent << made->axis[0].images_log) * made->mma_pitch;
    return true;
}

/* Lets tiles cross from an image to the next, where rows are no multiple of theirs. */
static bool stack(uf_wgmma_geometry *made, const uf_wgmma_taps *down, int64_t batch) {
    uf_wgmma_axis *const on = &made->axis[0];
    const int64_t rows = stack_of(down) * batch;
    const int64_t tiles = uf_div_up(rows, on->patch * on->mmas);
    if (made->nt > 1 || made->image_mmas > 1 || on->images_log > 0 ||
        made->axis[1].images_log > 0 || rows >= INT64_C(1) << 28 ||
        (rows + 2048) * stack_of(down) >= INT64_C(1) << 32 || /* the inverse is exact below this */
        tiles >= (int64_t)on->tiles * made->image_tiles) {
        return false;
    }
    made->stack = (int32_t)stack_of(down);
    made->stack_inverse = (uint32_t)((INT64_C(1) << 32) / made->stack + 1);
    made->image_tiles = 1;
    on->tiles = (int32_t)tiles;
    return true;
}

/* Tiles of one long line: a tap is a constant distance wherever an MMA begins. Row ends waste no
 * pixels of MMAs. */
static bool lay_line(uf_wgmma_geometry *made, const uf_wgmma_taps taps[2], int64_t batch) {
    const int64_t row = stack_of(&taps[1]), rows = stack_of(&taps[0]);
    const int64_t positions = rows * row * batch;
    int64_t first = 0, span = 0;
    for (int axis = 0; axis < 2; ++axis) {
        made->line_first[axis] = (int32_t)(taps[axis].first < 0 ? -taps[axis].first : 0);
        first += (taps[axis].first + made->line_first[axis]) * (axis == 0 ? row : 1);
        span += taps[axis].span * (axis == 0 ? row : 1);
        made->axis[axis].patch = axis == 0 ? 1 : UF_WGMMA_PIXELS;
        made->axis[axis].mmas = axis == 0 ? 1 : made->nt;
    }
    const int64_t tile = (int64_t)UF_WGMMA_PIXELS * made->nt;
    const int64_t window = tile + span;
    if (row == 1 || window > 1024 || taps[0].first > 64 || taps[1].first > 64 ||
        positions >= INT64_C(1) << 28 ||
        (positions + 4096) * row >= INT64_C(1) << 32 || /* the inverses are exact below this */
        (positions / row + 4096) * rows >= INT64_C(1) << 32) {
        return false;
    }
    made->image_mmas = made->image_tiles = 1;
    made->line = made->mma_pitch = (int32_t)row;
    made->line_inverse = (uint32_t)((INT64_C(1) << 32) / row + 1);
    made->stack = (int32_t)rows;
    made->stack_inverse = (uint32_t)((INT64_C(1) << 32) / rows + 1);
    made->line_parts = (int32_t)uf_div_up(window, 128);
    made->axis[0].extent = made->axis[0].tiles = 1;
    made->axis[1].extent = (int32_t)uf_div_up(window, made->line_parts);
    made->axis[1].first = (int32_t)first;
    /* Tiles end at the last written element. */
    made->axis[1].tiles = (int32_t)uf_div_up(
        positions - (rows - taps[0].elements) * row - (row - taps[1].elements), tile);
    made->window_rows = made->line_parts * made->axis[1].extent;
    made->mma_rows = UF_WGMMA_PIXELS;
    made->run_pitch = 8;
    return true;
}

int32_t uf_wgmma_resident_taps(const uf_wgmma_geometry *made) {
    return made->stages > 4 ? 4 : made->stages > 2 ? made->stages - 1 : 1;
}

/* The same for 3xF16. Where the small parts have registers of their own, stages are released one by
 * one and need not bound it. Emulated error of sums of one sign, relative to a chain of fmaf:
 *
 * clang-format off
 * | MMAs of the sum | promoted every | error |
 * |-----------------|----------------|-------|
 * | 128             | 128            | 2.6   |
 * | 128             | 64             | 1.2   |
 * | 576             | 160            | 1.3   |
 * | 2304            | 288            | 1.3   |
 * clang-format on */
static int32_t split_f16_taps(const uf_wgmma_job *job, const uf_wgmma_geometry *made) {
    const int64_t briefest = job->read * (made->phases > 1 ? job->least_taps : job->all_taps);
    const bool separate = made->packed && made->nt == 1 && made->stream_k == 0;
    const int32_t most = briefest < 128    ? 1
                         : briefest < 512  ? 2
                         : !separate       ? 4
                         : briefest < 2048 ? 5
                                           : 9;
    const int64_t taps = (int64_t)job->most_taps * made->depth;
    const int32_t even = (int32_t)uf_div_up(taps, uf_div_up(taps, most));
    return separate || even < uf_wgmma_resident_taps(made) ? even : uf_wgmma_resident_taps(made);
}

/* Buffers that fit shared memory. */
static bool fit(uf_wgmma_geometry *made, const uf_wgmma_job *job) {
    const bool fp32 = uf_wgmma_is_fp32(job->math);
    const int64_t most_taps = job->most_taps;
    const int32_t all = made->wm == 1 ? SHARED_HALF : UF_WGMMA_SHARED_WHOLE;
    const int32_t least = fp32 || made->wm == 1 ? 4 : 3; /* stages of weights, at least */
    const int32_t weights = made->planes * UF_WGMMA_PLANE * made->wm;
    const int32_t raw = made->wm == 1 ? UF_WGMMA_RAW_HALF : UF_WGMMA_RAW_WHOLE;
    const int32_t loading =
        (made->window_rows + 31) / 32 * 32 * 4 + raw * made->window_rows * UF_WGMMA_UNIT * 4;
    const int32_t plain = UF_WGMMA_BARRIERS + made->wm * UF_WGMMA_ROWS * UF_WGMMA_PITCH * 4 +
                          (made->packed ? 0 : loading);
    const int32_t chunk = made->window_rows * made->planes * 16;
    const int32_t chunks = made->chunks;
    made->windows = 2;
    if (plain + 2 * chunk + least * weights > all) {
        made->windows = 1;
        if (plain + chunk + 2 * weights > all) {
            return false;
        }
    }
    /* Few taps: more channels per window outweigh its barrier. */
    made->depth = 1;
    while (made->depth * most_taps < 4 && made->depth * 2 <= chunks && made->windows == 2 &&
           plain + made->windows * 2 * made->depth * chunk + least * weights <= all) {
        made->depth *= 2;
    }
    while (made->windows >= 2 && made->windows < UF_WGMMA_WINDOWS &&
           plain + (made->windows + 1) * made->depth * chunk + (least + 1) * weights <= all &&
           made->depth * most_taps < 8) {
        ++made->windows;
    }
    made->chunks = (int32_t)uf_div_up(chunks, made->depth) * made->depth;
    const int32_t left = all - plain - made->windows * made->depth * chunk;
    const int32_t stages = left / weights;
    made->stages = stages < UF_WGMMA_STAGES / made->wm ? stages : UF_WGMMA_STAGES / made->wm;
    /* An accumulator in the tensor core loses a little with each MMA. Long sums hide it, short ones
     * do not. With badly scaled channels, 32 MMAs promoted every 16 had 2.73 times the error of a
     * chain of fmaf; every 8, 1.83 times. */
    made->promote = chunks * most_taps <= 4 ? 0 : uf_wgmma_resident_taps(made);
    made->shared = plain + made->windows * made->depth * chunk + made->stages * weights;
    return true;
}

/* A TMA box has at most 256 words of 8 bytes, rows or planes. */
static bool box_fits(const uf_wgmma_geometry *made) {
    return (made->axis[1].extent << made->axis[1].images_log) * 2 <= 256 &&
           made->axis[0].extent <= 256 && made->line_parts <= 256 && made->image_mmas <= 256 &&
           made->planes * made->depth <= 256 && made->window_rows * made->planes * 16 % 128 == 0;
}

/* Taps that the warpgroups of a tile multiply, of all classes. */
static int32_t taps_of_block(const uf_wgmma_job *job, const uf_wgmma_geometry *made,
                             int32_t block_m) {
    const uf_conv_taps *const down = &job->taps[0].of, *const across = &job->taps[1].of;
    int32_t taps = 0;
    for (int32_t sub = block_m * made->wm; sub < (block_m + 1) * made->wm; ++sub) {
        const int32_t phase = made->paired ? (sub >> 1) / made->channel_blocks * 2 + (sub & 1)
                                           : sub / made->channel_blocks;
        if (phase < made->phases) {
            taps += made->phases == 1
                        ? job->all_taps
                        : down->count[phase / across->kinds] * across->count[phase % across->kinds];
        }
    }
    return taps;
}

/* The order of tiles, and the taps of CTA 0. A CTA takes every 132nd or 264th tile. With all of few
 * blocks_m side by side, that would always be the same phase. */
static void order(const uf_wgmma_job *job, uf_wgmma_geometry *made) {
    const int32_t last = made->blocks_m - 1;
    const double kinds = job->taps[0].of.kinds * job->taps[1].of.kinds;
    made->together = made->blocks_m;
    made->busiest = (double)job->all_taps / made->phases;
    if (made->phases == 1 || (double)job->most_taps * kinds == made->busiest * kinds) {
        return;
    }
    const int32_t sharing =
        made->paired ? 1 : made->wm; /* warpgroups that share a block of channels */
    const bool whole = made->channel_blocks % sharing == 0;
    made->together = whole ? made->channel_blocks / sharing : 1;
    made->backwards = taps_of_block(job, made, 0) < taps_of_block(job, made, last);
    const int64_t rounds = uf_div_up(made->tiles, UF_WGMMA_MULTIPROCESSORS);
    double taps = 0.0;
    for (int64_t round = 0; round < rounds; ++round) {
        const int64_t next = round * UF_WGMMA_MULTIPROCESSORS / made->together;
        const int32_t turn = (int32_t)(next / made->coords);
        taps += taps_of_block(job, made,
                              made->backwards ? made->blocks_m - (turn + 1) * made->together
                                              : turn * made->together);
    }
    made->busiest = taps / (double)rounds / made->wm;
}

/* Is there a kernel for the tile, with this scheduler? */
static bool is_compiled(uf_mma_math math, int32_t wm, int32_t nt, bool packed, bool wide,
                        wgmma_scheduler scheduler) {
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, SCHEDULER, DTYPE, STORED)                        \
    {MATH, WM, NT, PACKED, WIDE, SCHEDULER},
    static const struct {
        uf_mma_math math;
        int32_t wm, nt;
        bool packed, wide;
        wgmma_scheduler scheduler;
    } tiles[] = {
        UF_WGMMA_TILES_FP32 UF_WGMMA_TILES_SPLIT_F16 UF_WGMMA_TILES_TF32 UF_WGMMA_TILES_BF16(0, 0)};
#undef UF_WGMMA_TILE
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; ++i) {
        if (tiles[i].math == math && tiles[i].wm == wm && tiles[i].nt == nt &&
            tiles[i].packed == packed && tiles[i].wide == wide && tiles[i].scheduler == scheduler) {
            return true;
        }
    }
    return false;
}

static bool has_scheduler(const uf_wgmma_job *job, const uf_wgmma_geometry *made,
                          wgmma_scheduler scheduler) {
    return is_compiled(job->math, made->wm, made->nt, made->packed,
                       made->packed && made->runs_log > 0, scheduler);
}

/* May made->splits CTAs share a tile? All run at once, each has windows, and sums fit into windows
 * and weights. 132 multiprocessors have room for 30 clusters of four. */
static bool can_split(const uf_wgmma_job *job, const uf_wgmma_geometry *made) {
    const int32_t bytes = made->windows * made->depth * made->window_rows * made->planes * 16 +
                          made->stages * made->wm * made->planes * UF_WGMMA_PLANE;
    return made->splits == 1 ||
           (has_scheduler(job, made, WGMMA_CLUSTERS) &&
            made->tiles * made->splits <= UF_WGMMA_MULTIPROCESSORS - (made->splits > 2 ? 20 : 0) &&
            made->chunks / made->depth >= made->splits &&
            bytes >= made->wm * made->nt * UF_WGMMA_SUMS);
}

/* May stream-K be used? With two MMAs the partial sums cost more to write and read than they save:
 * there are no such tiles. */
static bool can_share(const uf_wgmma_job *job, const uf_wgmma_geometry *made, int32_t stream_k) {
    return has_scheduler(job, made, WGMMA_STREAM_K) &&
           made->tiles <= 8 * UF_WGMMA_MULTIPROCESSORS && stream_k <= UF_WGMMA_MULTIPROCESSORS &&
           made->blocks_m / made->together <= UF_WGMMA_PAIRS &&
           made->tiles * (made->chunks / made->depth) >= 2 * stream_k;
}

/* The work that stream-K divides. False where there is too little, or where a phase without taps
 * would leave its tiles to no CTA. */
static bool weigh(const uf_wgmma_job *job, uf_wgmma_geometry *made) {
    const int32_t turns = made->blocks_m / made->together;
    const int64_t steps = (int64_t)made->coords * made->together * (made->chunks / made->depth);
    int32_t most = 0;
    made->work = 0;
    for (int32_t turn = 0; turn < turns; ++turn) {
        const int32_t taps =
            taps_of_block(job, made, (made->backwards ? turns - 1 - turn : turn) * made->together);
        if (taps == 0) {
            return false;
        }
        made->turn_taps[turn] = (int16_t)taps;
        made->work += taps * steps;
        most = taps > most ? taps : most;
    }
    return made->work >= (int64_t)2 * most * made->stream_k;
}

double uf_wgmma_try_tile(const uf_wgmma_job *job, const uf_wgmma_tile_candidate *candidate,
                         uf_wgmma_geometry *made) {
    const bool dgrad = job->direction == UF_CONV_DGRAD;
    const bool fp32 = uf_wgmma_is_fp32(job->math);
    const int32_t kinds = job->taps[0].of.kinds * job->taps[1].of.kinds;
    const int64_t depth = uf_wgmma_depth(job->math);
    if ((candidate->line && (!candidate->packed || candidate->stacked || candidate->runs_log > 0 ||
                             candidate->beside != 1)) ||
        (candidate->packed && candidate->runs_log != 0 &&
         candidate->runs_log != UF_WGMMA_WIDE_RUNS_LOG) ||
        !is_compiled(job->math, candidate->wm, candidate->nt, candidate->packed,
                     candidate->packed && candidate->runs_log > 0,
                     job->merged ? WGMMA_MERGED : WGMMA_ALONE)) {
        return -1.0;
    }
    memset(made, 0, sizeof *made);
    made->wm = candidate->wm;
    made->nt = candidate->nt;
    made->pixels = UF_WGMMA_PIXELS;
    made->split_f16 = job->math == UF_MMA_F16X3;
    made->merged = job->merged;
    made->merged_back = job->merged_back;
    made->block_channels = job->merged ? UF_WGMMA_MERGED : UF_WGMMA_ROWS;
    made->packed = candidate->packed;
    made->phases = dgrad ? kinds : 1;
    made->classes = dgrad ? 1 : kinds;
    made->axis[0].mul = dgrad ? 1 : (int32_t)job->args->stride[0];
    made->axis[1].mul = dgrad ? 1 : (int32_t)job->args->stride[1];
    made->channel_blocks = (int32_t)uf_div_up(job->written, made->block_channels);
    made->paired = dgrad && candidate->wm == 2 && job->taps[1].of.kinds == 2;
    made->blocks_m =
        (int32_t)uf_div_up((int64_t)made->phases * made->channel_blocks, candidate->wm);
    if (candidate->line
            ? !lay_line(made, job->taps, job->args->y.extent[0])
            : !lay_out(made, job->taps, job->args->y.extent[0], candidate->beside,
                       candidate->runs_log) ||
                  (candidate->stacked && !stack(made, &job->taps[0], job->args->y.extent[0]))) {
        return -1.0;
    }
    /* In TF32 copied columns cost more than longer runs of stores save. */
    if (!fp32 && made->patch_log > 0 && made->window_rows > UF_WGMMA_PIXELS) {
        return -1.0;
    }
    /* Half chunks where whole ones would be mostly padding. */
    const bool half = candidate->packed && !fp32 && job->read < 2 * depth &&
                      job->read % depth != 0 && job->read % depth <= depth / 2 &&
                      made->window_rows % 2 == 0;
    made->planes = half ? UF_WGMMA_PLANES / 2 : UF_WGMMA_PLANES;
    made->chunks = (int32_t)uf_div_up(job->read, half ? depth / 2 : depth);
    if (!fit(made, job) || (candidate->packed && !box_fits(made))) {
        return -1.0;
    }
    const int64_t coords =
        (int64_t)made->axis[0].tiles * made->axis[1].tiles * made->image_tiles * job->args->groups;
    made->coords = (int32_t)coords;
    made->tiles = made->blocks_m * coords;
    order(job, made);
    const double pack = candidate->packed ? uf_wgmma_packing_cost(job, made) : 0.0;
    if (pack < 0.0) {
        return -1.0;
    }
    double best = -1.0;
    int32_t splits = 1, stream_k = 0;
    for (made->splits = 1; made->splits <= UF_WGMMA_SPLITS; made->splits *= 2) {
        const double cost = uf_wgmma_cost(job, made);
        if (can_split(job, made) && (best < 0.0 || cost < best)) {
            best = cost;
            splits = made->splits;
        }
    }
    made->splits = 1;
    /* All multiprocessors, or an equal number of CTAs for each of few tiles. */
    for (int32_t blocks = 1; blocks <= UF_WGMMA_SHARES; ++blocks) {
        const int64_t of_tiles = blocks * made->tiles;
        made->stream_k = blocks == 1 || of_tiles > UF_WGMMA_MULTIPROCESSORS
                             ? UF_WGMMA_MULTIPROCESSORS
                             : (int32_t)of_tiles;
        if (can_share(job, made, made->stream_k) && weigh(job, made)) {
            const double cost = uf_wgmma_cost(job, made);
            if (cost < best) {
                best = cost;
                stream_k = made->stream_k;
            }
        }
    }
    made->stream_k = stream_k;
    made->splits = stream_k > 0 ? 1 : splits;
    made->promote = made->split_f16 ? split_f16_taps(job, made) : made->promote;
    return pack + best;
}
