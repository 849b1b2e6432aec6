/* dgrad_plan.c - steps, ring, stages and runs of conv_row_stream_dgrad. */
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"

/* Lists the offsets across and their taps; false: too many. */
static bool find_columns(uf_row_stream_dgrad_conv *stream, const uf_direct_tap taps[UF_DIRECT_TAPS],
                         int64_t offset[UF_ROW_STREAM_DGRAD_OFFSETS], int32_t *offsets) {
    memset(stream->column_tap, UF_ROW_STREAM_DGRAD_NONE, sizeof stream->column_tap);
    *offsets = 0;
    for (int32_t t = 0; t < stream->conv.kernel[1]; ++t) {
        int32_t at = 0;
        while (at < *offsets && offset[at] != taps[t].offset) {
            ++at;
        }
        if (at == UF_ROW_STREAM_DGRAD_OFFSETS) {
            return false;
        }
        if (at == *offsets) {
            offset[(*offsets)++] = taps[t].offset;
        }
        stream->column_tap[taps[t].phase][at] = (uint8_t)taps[t].tap;
    }
    return true;
}

/* Lists the k-steps of each row phase: a tap's units by offset across and channels, two a step. */
static bool find_steps(uf_row_stream_dgrad_conv *stream, const uf_direct_tap taps[UF_DIRECT_TAPS],
                       const int64_t offset[UF_ROW_STREAM_DGRAD_OFFSETS], int32_t offsets) {
    const uf_direct_axis *rows = &stream->conv.axis[0], *columns = &stream->conv.axis[1];
    int32_t steps = 0, fragments = 0;
    for (int32_t phase = 0; phase < rows->live; ++phase) {
        stream->step_begin[phase] = steps;
        stream->fragment_begin[phase] = fragments;
        for (int32_t t = 0; t < stream->conv.kernel[0]; ++t) {
            if (taps[t].phase != phase) {
                continue;
            }
            const int32_t all = offsets * stream->units;
            for (int32_t first = 0; first < all; first += 2) {
                if (steps == UF_ROW_STREAM_DGRAD_STEPS) {
                    return false;
                }
                uf_row_stream_dgrad_step *step = &stream->step[steps++];
                step->row = (uint8_t)taps[t].offset;
                step->row_tap = (uint8_t)taps[t].tap;
                for (int32_t i = 0; i < 2; ++i) {
                    const bool there = first + i < all;
                    const int32_t column = there ? (first + i) / stream->units : 0;
                    const int32_t unit = there ? (first + i) % stream->units : 0;
                    step->coord[i] = (int32_t)offset[column] * 16 + unit * stream->plane;
                    step->column[i] = (uint8_t)(there ? column : UF_ROW_STREAM_DGRAD_NONE);
                    step->unit[i] = (uint8_t)unit;
                    for (int32_t l = 0; there && l < columns->live; ++l) {
                        if (stream->column_tap[l][column] != UF_ROW_STREAM_DGRAD_NONE) {
                            step->mask |= (uint8_t)(1 << l);
                        }
                    }
                }
                for (int32_t l = 0; l < columns->live; ++l) {
                    fragments += step->mask >> l & 1;
                }
            }
        }
    }
    stream->step_begin[rows->live] = steps;
    stream->fragment_begin[rows->live] = fragments;
    return 2 * fragments <= UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES;
}

/* Sizes ring and stages: at least a cell's lines and one more, and two stages. */
static bool divide_shared(uf_row_stream_dgrad_plan *plan, int64_t row_bytes, int32_t split_parts) {
    uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_conv *conv = &stream->conv;
    const int32_t channels = conv->written_per_group < UF_ROW_STREAM_DGRAD_CHANNELS
                                 ? conv->written_per_group
                                 : UF_ROW_STREAM_DGRAD_CHANNELS;
    const int64_t pitch =
        uf_round_up(row_bytes + UF_ROW_STREAM_DGRAD_SECTOR - 1, UF_ROW_STREAM_DGRAD_SECTOR) +
        16; /* an odd multiple of 16 against bank conflicts */
    const int64_t weights = (int64_t)stream->fragment_begin[conv->axis[0].live] * 512 * split_parts;
    const int64_t longest = conv->shift != NULL ? 1024 : 4096;
    const int64_t line = uf_round_up(row_bytes, UF_ROW_STREAM_DGRAD_SECTOR);
    const bool dead = conv->axis[0].live < conv->axis[0].out_step;
    const int64_t fill = !dead ? 0 : line < longest ? line : longest;
    stream->fills = conv->shift != NULL ? channels : 1;
    int64_t used = UF_ROW_STREAM_DGRAD_FIXED + weights + fill * stream->fills;
    int32_t ring = stream->lines + 1, stages = 2;
    const int64_t limit = UF_ROW_STREAM_DGRAD_SHARED;
    const int64_t stage = uf_round_up(pitch * channels, 32);
    used += ring * (int64_t)stream->line_bytes + stages * stage;
    if (used > limit ||
        2 * (ring + 1 + UF_ROW_STREAM_DGRAD_STAGES) * 8 > UF_ROW_STREAM_DGRAD_BARRIER_BYTES) {
        return false;
    }
    if (used + stage <= limit) {
        ++stages;
        used += stage;
    }
    if (used + stream->line_bytes <= limit) {
        ++ring;
        used += stream->line_bytes;
    }
    if (stages < UF_ROW_STREAM_DGRAD_STAGES && used + stage <= limit) {
        ++stages;
        used += stage;
    }
    stream->ring = ring;
    const int32_t most = stream->tiles * stages;
    stream->mmas = most < UF_ROW_STREAM_DGRAD_MMAS ? most : UF_ROW_STREAM_DGRAD_MMAS;
    stream->producers = ring < UF_ROW_STREAM_DGRAD_PRODUCERS ? ring : UF_ROW_STREAM_DGRAD_PRODUCERS;
    stream->stages = stages;
    stream->stage_pitch = (int32_t)pitch;
    stream->stage_bytes = (int32_t)stage;
    stream->fill_bytes = (int32_t)fill;
    stream->weight_at = UF_ROW_STREAM_DGRAD_FIXED;
    stream->fill_at = stream->weight_at + (int32_t)weights;
    stream->ring_at = stream->fill_at + (int32_t)fill * stream->fills;
    stream->stage_at = stream->ring_at + ring * stream->line_bytes;
    plan->shared = (size_t)used;
    return true;
}

/* Memory takes 15 bytes a cycle from each multiprocessor. A tile takes its warp 115 cycles for each
 * staged 8-cell block and phase, and 130 for each fragment (340 in FP32). From layers kb75 and kb81
 * on an H200. */
static double estimate(const uf_row_stream_dgrad_plan *plan, int32_t split_parts, double element) {
    const uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_conv *conv = &stream->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const double cells = (double)uf_div_up((int64_t)stream->families * rows->cells, plan->blocks);
    const double runs = 1.0 + cells / rows->cells;
    const double channels = (double)conv->written_per_group / stream->slices;
    const double lines = cells + runs * (stream->lines - 1);
    const double bytes = element * (cells * rows->out_step * channels * columns->written +
                                    lines * conv->read_per_group * columns->read);
    const double eights = UF_ROW_STREAM_DGRAD_CELLS / 8;
    const double tile =
        900 + 115 * eights * columns->out_step +
        (split_parts == 2 ? 340.0 : 130.0) * stream->fragment_begin[rows->live] / rows->live;
    const double mmas = cells * rows->live * stream->tiles * tile / stream->mmas;
    const double loads =
        lines *
        (4500 + 1050.0 * stream->units * stream->by_chunks.divisor * (stream->vector ? 2 : 1)) /
        stream->producers;
    const double handoff = cells * rows->live * 1400; /* cycles to hand a row from warp to warp */
    double most = bytes / 15.0;
    most = mmas > most ? mmas : most;
    most = loads > most ? loads : most;
    most = handoff > most ? handoff : most;
    /* Calls that memory does not bound, or not for long, take up to twice the model, in 33 layers
     * that other variants are for. */
    const double margin = most > bytes / 15.0 || bytes < 3e6 ? 2.0 : 1.0;
    return 9000 + 3500 * runs + margin * (most + 0.05 * (mmas + loads));
}

bool uf_row_stream_dgrad_plan_of(const uf_conv_problem *problem, uf_row_stream_dgrad_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    memset(plan, 0, sizeof *plan);
    uf_row_stream_dgrad_conv *stream = &plan->stream;
    uf_direct_conv *conv = &stream->conv;
    uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    uf_direct_tap taps[2][UF_DIRECT_TAPS];
    int32_t begin[UF_DIRECT_TAPS + 1];
    if (problem->direction != UF_CONV_DGRAD || uf_view_count(&args->x) == 0 ||
        uf_view_count(&args->y) == 0 || uf_view_count(&args->w) == 0 ||
        !uf_direct_axis_of(args, true, 0, rows, taps[0], begin) ||
        !uf_direct_axis_of(args, true, 1, columns, taps[1], begin)) {
        return false;
    }
    uf_direct_describe(conv, args, true);
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int64_t row_bytes = columns->written * element;
    if (columns->live != UF_ROW_STREAM_DGRAD_PHASES || conv->activation != UF_ACTIVATION_IDENTITY ||
        conv->accumulate || conv->written_stride[3] != 1 ||
        conv->written_stride[2] != columns->written || row_bytes < 2 * UF_ROW_STREAM_DGRAD_SECTOR ||
        row_bytes > 1 << 14) {
        return false;
    }
    const int32_t split_parts = args->math == UF_MATH_FP32 && args->x.dtype == UF_F32 ? 2 : 1;
    const int32_t unit = args->math == UF_MATH_BF16 || args->x.dtype == UF_BF16 ? 8 : 4;
    const int64_t units = uf_div_up(conv->read_per_group, unit);
    const int32_t cells = UF_ROW_STREAM_DGRAD_CELLS;
    stream->tiles = (int32_t)uf_div_up(columns->cells, cells);
    stream->records = stream->tiles * cells + columns->span;
    stream->plane = stream->records * 16;
    if (units > 64 || rows->span > 16 ||
        units * stream->plane * split_parts * (rows->span + 2) > UF_ROW_STREAM_DGRAD_SHARED) {
        return false;
    }
    stream->units = (int32_t)units;
    stream->small = stream->units * stream->plane;
    stream->line_bytes = stream->small * split_parts;
    stream->lines = rows->span + 1;
    const int32_t vector = (int32_t)(4 * element);
    stream->vector = conv->read_stride[3] == 1 && columns->read % 4 == 0 &&
                     (uintptr_t)conv->read % (size_t)vector == 0;
    for (int axis = 0; axis < 3; ++axis) {
        stream->vector = stream->vector && conv->read_stride[axis] % 4 == 0;
    }
    stream->by_chunks =
        uf_direct_divisor_of(uf_div_up(columns->read, stream->vector ? 4 * 32 : 32));
    int64_t offset[UF_ROW_STREAM_DGRAD_OFFSETS];
    int32_t offsets;
    if (!find_columns(stream, taps[1], offset, &offsets) ||
        !find_steps(stream, taps[0], offset, offsets) ||
        !divide_shared(plan, row_bytes, split_parts)) {
        return false;
    }
    stream->slices = (int32_t)uf_div_up(conv->written_per_group, UF_ROW_STREAM_DGRAD_CHANNELS);
    const int64_t families = (int64_t)conv->batch * conv->groups * stream->slices;
    if (families * rows->cells > INT32_MAX / 2) {
        return false;
    }
    stream->families = (int32_t)families;
    plan->phases = columns->live;
    const int64_t all = families * rows->cells;
    const int32_t most = problem->gpu->multiprocessors; /* one block each */
    plan->blocks = (int32_t)(all < most ? all : most);
    plan->threads = 32 * UF_ROW_STREAM_DGRAD_WARPS;
    plan->cost = estimate(plan, split_parts, (double)element);
    return true;
}

bool uf_conv_plan_mma_row_stream_dgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_row_stream_dgrad_plan *const own = UF_CONV_PLAN_OF(uf_row_stream_dgrad_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_row_stream_dgrad_plan_of(problem, own)) {
        return false;
    }
    uf_direct_clear_addresses(&own->stream.conv);
    plan->cost = own->cost;
    plan->workspace = 0;
    return true;
}
