/* fprop_plan.c - tiles, bands and shared memory of conv_row_stream_fprop. */
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/rows.h"
#include "kernels/cuda/conv/registry.h"

/* Chooses the bands that need the fewest rounds of rows. */
static void choose_bands(uf_row_stream_fprop_plan *plan, int64_t planes, int32_t multiprocessors) {
    uf_row_stream_fprop_conv *stream = &plan->stream;
    const int64_t rows = stream->written[0], resident = multiprocessors * (int64_t)plan->resident;
    double least = 0;
    for (int64_t bands = 1; bands <= rows && (bands == 1 || planes * bands <= 8 * resident);
         ++bands) {
        const int64_t band = uf_div_up(rows, bands);
        const int64_t blocks = planes * uf_div_up(rows, band);
        /* The prologue of a block takes as long as some stages. */
        const double beginning = 4.0 / (stream->classes * stream->chunks);
        const double total_cost =
            (double)uf_div_up(blocks, resident) * ((double)(band + plan->lags - 1) + beginning);
        if (bands == 1 || total_cost < least) {
            least = total_cost;
            stream->band = (int32_t)band;
            stream->bands = (int32_t)uf_div_up(rows, band);
        }
    }
    plan->blocks = planes * stream->bands;
}

/* Chooses the channels of a stage for two blocks of a multiprocessor, or one. Each stage costs a
 * warp hundreds of cycles, so stages are as large as enough bytes in flight allow. Small blocks may
 * be more than two. */
static bool choose_stages(uf_row_stream_fprop_plan *plan, int32_t depth, int64_t filter_bytes) {
    uf_row_stream_fprop_conv *stream = &plan->stream;
    const int32_t channels = stream->conv.read_per_group;
    const int64_t enough = 40 * 1024;
    for (int32_t wanted = 2; wanted >= 1; --wanted) {
        const int64_t limit =
            wanted == 2 ? UF_ROW_STREAM_FPROP_SHARED_TWO : UF_ROW_STREAM_FPROP_SHARED;
        const int64_t room = limit - UF_ROW_STREAM_FPROP_HEAD - filter_bytes;
        for (int32_t chunk = channels < 32 ? channels : 32; chunk >= depth && room > 0;
             chunk -= depth) {
            const int64_t stage = uf_round_up((int64_t)chunk * stream->pitch + 32, 128);
            int64_t stages = room / stage;
            stages = stages < UF_ROW_STREAM_FPROP_STAGES ? stages : UF_ROW_STREAM_FPROP_STAGES;
            const bool small =
                stages == UF_ROW_STREAM_FPROP_STAGES; /* all stages are used already */
            if (channels % chunk != 0 || stages < 2 ||
                ((stages - 1) * stage * wanted < enough && !small)) {
                continue;
            }
            stream->chunk = chunk;
            stream->chunks = channels / chunk;
            stream->stages = (int32_t)stages;
            stream->stage_bytes = (int32_t)stage;
            stream->weight_bytes = (int32_t)filter_bytes;
            plan->shared = (size_t)(UF_ROW_STREAM_FPROP_HEAD + filter_bytes + stages * stage);
            /* The launch bounds allow two blocks of nine warps: 20 warps. */
            const int64_t by_shared = 228 * 1024 / ((int64_t)plan->shared + 1024);
            const int64_t by_registers = 20 / (stream->warps + 1);
            const int64_t resident = by_shared < by_registers ? by_shared : by_registers;
            plan->resident = resident < 1 ? 1 : (int32_t)resident;
            return true;
        }
    }
    return false;
}

/* Cycles of a call, fitted to 234 calls of 47 layers on an H200. The mean error is 14 %; calls
 * close to other variants had five times the weight. Terms that add: issue, latency within steps
 * and between stages, bytes and copies of rows, weights, stores. */
static double cost_of(const uf_row_stream_fprop_plan *plan, uf_mma_math math, int64_t element,
                      int32_t depth, int32_t multiprocessors) {
    /* Instructions of a step: fixed, for each 16-pixel block, for each of its fragments. */
    static const double step[][3] = {[UF_MMA_TF32X3] = {11, 18, 7.7},
                                     [UF_MMA_TF32] = {8, 17, 1.5},
                                     [UF_MMA_BF16] = {6, 19, 2.2}};
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    const uf_direct_conv *conv = &stream->conv;
    const int32_t fragments = plan->n * plan->lags;
    const int64_t fullest =
        uf_div_up(plan->blocks, multiprocessors); /* blocks of the busiest multiprocessor */
    const double waves = (double)uf_div_up(fullest, plan->resident);
    const double together = (double)(fullest < plan->resident ? fullest : plan->resident);
    const double stages =
        (double)(stream->band + plan->lags - 1) * stream->classes * stream->chunks;
    const double steps = (double)(conv->kernel[1] * (stream->chunk / depth));
    const double chain =
        stages * steps * (step[math][0] + plan->m * (step[math][1] + step[math][2] * fragments));
    const double rows = stages * stream->chunk;
    const double loads = (double)(stream->classes * stream->chunks) * steps * fragments *
                         (depth / 4) / stream->warps;
    const int64_t width = stream->tile < stream->written[1] ? stream->tile : stream->written[1];
    const double stores = (double)stream->band * plan->n;
    return 5860 + waves * (chain * (2.34 + 1.3 * stream->warps * together / 4) + 718 * stages +
                           225 * loads + 553 * stores +
                           together * (rows * (1.25 + 0.0158 * (double)(stream->reach * element)) +
                                       0.4 * stores * (double)(width * element)));
}

/* Completes the plan for m 16-pixel blocks of a warp. */
static bool fit(const uf_conv_problem *problem, int32_t m, uf_row_stream_fprop_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    const int32_t multiprocessors = problem->gpu->multiprocessors;
    uf_row_stream_fprop_conv *stream = &plan->stream;
    uf_direct_conv *conv = &stream->conv;
    const uf_view *read = &args->x, *written = &args->y;
    const int64_t element = (int64_t)uf_dtype_size(read->dtype);
    const uf_mma_math math = uf_mma_math_of(args);
    const int32_t depth = math == UF_MMA_BF16 ? 16 : 8;
    /* Blocks have up to eight warps across; at most a quarter of their pixels may be beyond the
     * row. */
    const int64_t width = stream->written[1];
    plan->m = m;
    stream->tiles = (int32_t)uf_div_up(width, UF_ROW_STREAM_FPROP_WARPS * 16 * m);
    stream->warps = (int32_t)uf_div_up(uf_div_up(width, stream->tiles), 16 * m);
    stream->tile = stream->warps * 16 * m;
    if (4 * width < 3 * (int64_t)stream->tile * stream->tiles) {
        return false;
    }
    const int64_t reach =
        (int64_t)((width < stream->tile ? width : stream->tile) - 1) * conv->stride[1] +
        (int64_t)(conv->kernel[1] - 1) * conv->dilation[1] + 1;
    if (reach * element > UF_ROW_STREAM_FPROP_SHARED / 8) {
        return false;
    }
    stream->reach = (int32_t)reach;
    const int64_t together = 2 * m; /* pixels of a lane */
    stream->pitch = (int32_t)uf_row_stream_pitch(reach * element, read->stride[1] * element, 8,
                                                 together * conv->stride[1] * element);
    const int64_t filter_bytes = (int64_t)conv->kernel[0] * conv->kernel[1] * conv->read_per_group *
                                 8 * plan->n * element * (math == UF_MMA_TF32X3 ? 2 : 1);
    if (filter_bytes > UF_ROW_STREAM_FPROP_SHARED || !choose_stages(plan, depth, filter_bytes)) {
        return false;
    }
    stream->stage_weight_bytes = stream->weight_bytes / (stream->classes * stream->chunks);
    stream->row_bytes = (uint32_t)(read->stride[2] * element);
    stream->chunk_bytes = (uint32_t)(read->stride[1] * element * stream->chunk);
    stream->tap_bytes = (uint32_t)(conv->dilation[1] * element);
    stream->vector = written->stride[3] == 1 && written->stride[2] % together == 0 &&
                     written->stride[1] % together == 0 && written->stride[0] % together == 0 &&
                     (uintptr_t)written->data % (size_t)(together * element) == 0;
    const int64_t planes = read->extent[0] * args->groups * stream->slices * (int64_t)stream->tiles;
    if (planes * stream->written[0] >= INT64_C(1) << 30) {
        return false;
    }
    choose_bands(plan, planes, multiprocessors);
    plan->threads = 32 * (stream->warps + 1);
    plan->cost = cost_of(plan, math, element, depth, multiprocessors);
    return true;
}

bool uf_row_stream_fprop_plan_of(const uf_conv_problem *problem, uf_row_stream_fprop_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    memset(plan, 0, sizeof *plan);
    uf_row_stream_fprop_conv *stream = &plan->stream;
    uf_direct_conv *conv = &stream->conv;
    const uf_view *read = &args->x, *written = &args->y;
    const bool bf16 = read->dtype == UF_BF16;
    const int64_t far = INT64_C(1) << 30;
    if (problem->direction != UF_CONV_FPROP || uf_view_count(read) == 0 ||
        uf_view_count(written) == 0 || uf_view_count(&args->w) == 0 ||
        (!bf16 && args->math == UF_MATH_BF16) || args->mode == UF_ACCUMULATE ||
        args->epilogue.activation.kind != UF_ACTIVATION_IDENTITY || read->stride[3] != 1 ||
        args->w.extent[2] > UF_DIRECT_TAPS || args->w.extent[3] > UF_DIRECT_TAPS) {
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        if (read->extent[2 + i] >= far || written->extent[2 + i] >= far || args->stride[i] >= far ||
            args->dilation[i] >= far / UF_DIRECT_TAPS || args->padding[i] >= far ||
            written->extent[2 + i] * args->stride[i] >= far) {
            return false;
        }
        stream->written[i] = (int32_t)written->extent[2 + i];
    }
    if (read->extent[0] >= far || read->extent[1] >= far || written->extent[1] >= far ||
        uf_view_count(&args->w) >= far) {
        return false;
    }
    uf_direct_describe(conv, args, false);
    if (conv->read_per_group % (bf16 ? 16 : 8) != 0 || written->extent[3] < 48) {
        return false;
    }
    const int32_t eights = (int32_t)uf_div_up(conv->written_per_group, 8);
    const bool shared_rows = eights == 1 && conv->kernel[0] == UF_ROW_STREAM_FPROP_LAGS &&
                             conv->dilation[0] == conv->stride[0];
    plan->lags = shared_rows ? UF_ROW_STREAM_FPROP_LAGS : 1;
    plan->n = shared_rows ? 1 : eights <= 2 ? 2 : UF_ROW_STREAM_FPROP_N;
    stream->slices = (int32_t)uf_div_up(eights, plan->n);
    stream->classes = shared_rows ? 1 : conv->kernel[0];
    /* m = 2 issues fewer instructions; m = 1 gives more warps where there are few, which is faster
     * with most columns alone. */
    uf_row_stream_fprop_plan short_rows = *plan;
    const bool any = problem->tile == UF_CONV_ANY_TILE;
    const bool fits =
        uf_conv_is_tile(problem->tile, uf_row_stream_fprop_tile_number(2)) && fit(problem, 2, plan);
    if (fits && (!any || plan->stream.warps == UF_ROW_STREAM_FPROP_WARPS)) {
        return true;
    }
    if (short_rows.n == UF_ROW_STREAM_FPROP_N &&
        uf_conv_is_tile(problem->tile, uf_row_stream_fprop_tile_number(1)) &&
        fit(problem, 1, &short_rows) && (!fits || short_rows.cost < plan->cost)) {
        *plan = short_rows;
        return true;
    }
    return fits;
}

bool uf_conv_plan_mma_row_stream_fprop(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_row_stream_fprop_plan *const own = UF_CONV_PLAN_OF(uf_row_stream_fprop_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_row_stream_fprop_plan_of(problem, own)) {
        return false;
    }
    plan->tile = uf_row_stream_fprop_tile_number(own->m);
    plan->tiles = UF_ROW_STREAM_FPROP_TILES;
    uf_direct_clear_addresses(&own->stream.conv);
    plan->cost = own->cost;
    plan->workspace = 0;
    return true;
}
