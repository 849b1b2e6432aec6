/* wgrad_plan.c - tiles, bands and shared memory of conv_row_stream_wgrad. */
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/rows.h"
#include "kernels/cuda/conv/registry.h"

/* All rows have the same address modulo 16 bytes. */
static bool is_congruent(const uf_view *view, int64_t element) {
    const int64_t vector = 16 / element;
    return view->stride[3] == 1 && view->stride[0] % vector == 0 && view->stride[1] % vector == 0 &&
           view->stride[2] % vector == 0;
}

/* Cycles of a call, fitted to 24 calls of 8 layers on an H200, with a mean error of 8 %. Terms that
 * add: issue, latency within steps and between rows, bytes and copies of rows. */
static double cost_of(const uf_row_stream_wgrad_plan *plan, uf_mma_math math, int64_t element,
                      int64_t tiles, int32_t multiprocessors) {
    static const double step[] = {[UF_MMA_TF32X3] = 15, [UF_MMA_TF32] = 28, [UF_MMA_BF16] = 15};
    static const double tap[] = {[UF_MMA_TF32X3] = 45, [UF_MMA_TF32] = 19, [UF_MMA_BF16] = 23};
    const int64_t fullest =
        uf_div_up(tiles * plan->splits, multiprocessors); /* blocks of the busiest multiprocessor */
    const double waves = (double)uf_div_up(fullest, 2), together = fullest > 1 ? 2 : 1;
    const double rows = (double)(plan->band + UF_ROW_STREAM_WGRAD_LAGS - 1);
    const double steps = (double)plan->tile / (math == UF_MMA_BF16 ? 16 : 8);
    const double issue = rows * steps * (step[math] + tap[math] * plan->taps);
    const double bytes =
        (double)((UF_ROW_STREAM_WGRAD_C * plan->reach + UF_ROW_STREAM_WGRAD_K * plan->tile) *
                 element);
    const double copies = UF_ROW_STREAM_WGRAD_C + UF_ROW_STREAM_WGRAD_K;
    return 1500 + waves * (issue * (0.545 * together / 4 + 2.73 / UF_ROW_STREAM_WGRAD_WARPS) +
                           rows * (733 + together * (bytes * 0.014 + copies * 9)));
}

bool uf_row_stream_wgrad_plan_of(const uf_conv_problem *problem, uf_row_stream_wgrad_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    memset(plan, 0, sizeof *plan);
    const uf_view *x = &args->x, *y = &args->y, *w = &args->w;
    const bool bf16 = x->dtype == UF_BF16;
    const int64_t element = (int64_t)uf_dtype_size(x->dtype);
    const int64_t far = INT64_C(1) << 28;
    if (uf_view_count(x) == 0 || uf_view_count(y) == 0 || uf_view_count(w) == 0 ||
        (!bf16 && args->math == UF_MATH_BF16) || w->extent[2] != UF_ROW_STREAM_WGRAD_LAGS ||
        w->extent[3] < 3 || w->extent[3] > 5 || args->dilation[0] != args->stride[0] ||
        w->extent[1] % UF_ROW_STREAM_WGRAD_C != 0 || y->extent[3] % 16 != 0 || y->extent[3] < 64 ||
        x->stride[3] != 1 || !is_congruent(y, element) || uf_view_count(w) >= far) {
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        if (x->extent[2 + i] >= far || y->extent[2 + i] >= far || args->stride[i] >= 1 << 16 ||
            args->dilation[i] >= 1 << 16 || args->padding[i] >= 1 << 16 ||
            y->extent[2 + i] * args->stride[i] >= far) {
            return false;
        }
    }
    const int64_t width = y->extent[3];
    plan->taps = (int32_t)w->extent[3];
    plan->tiles_w = (int32_t)uf_div_up(width, UF_ROW_STREAM_WGRAD_PIXELS);
    plan->tile = (int32_t)uf_round_up(uf_div_up(width, plan->tiles_w), 16);
    plan->tiles_k = (int32_t)uf_div_up(w->extent[0] / args->groups, UF_ROW_STREAM_WGRAD_K);
    plan->tiles_c = (int32_t)(w->extent[1] / UF_ROW_STREAM_WGRAD_C);
    const int64_t reach =
        (plan->tile - 1) * args->stride[1] + (plan->taps - 1) * args->dilation[1] + 1;
    if (reach * element > UF_ROW_STREAM_WGRAD_SHARED / 32) {
        return false;
    }
    plan->reach = (int32_t)reach;
    /* Four lanes share a channel; in bf16 they read two pixels each. */
    plan->pitch_x = (int32_t)uf_row_stream_pitch(reach * element, x->stride[1] * element, 4,
                                                 args->stride[1] * element * (bf16 ? 2 : 1));
    /* The pitch of y is 16 bytes beyond a multiple of 128: eight rows lie in different banks. The
     * 16 bytes also leave room for the words around an unaligned row. */
    plan->pitch_y = (int32_t)(uf_round_up(plan->tile * element, 128) + 16);
    plan->x_bytes = (int32_t)uf_round_up((int64_t)UF_ROW_STREAM_WGRAD_C * plan->pitch_x + 32, 128);
    plan->y_bytes = UF_ROW_STREAM_WGRAD_K * plan->pitch_y;
    for (plan->stages = UF_ROW_STREAM_WGRAD_STAGES; plan->stages >= 3; --plan->stages) {
        plan->rows_y = plan->stages + UF_ROW_STREAM_WGRAD_LAGS;
        plan->shared =
            UF_ROW_STREAM_WGRAD_HEAD + plan->stages * plan->x_bytes + plan->rows_y * plan->y_bytes;
        if (plan->shared <= UF_ROW_STREAM_WGRAD_SHARED) {
            break;
        }
    }
    plan->zeros_at = (uint32_t)((plan->rows_y - 1) * plan->y_bytes);
    /* All sums of all warps are staged there at the end. */
    const int64_t sums = (int64_t)UF_ROW_STREAM_WGRAD_WARPS * UF_ROW_STREAM_WGRAD_C *
                         UF_ROW_STREAM_WGRAD_K * UF_ROW_STREAM_WGRAD_LAGS * plan->taps * 4;
    if (plan->stages < 3 || sums > plan->shared - UF_ROW_STREAM_WGRAD_HEAD) {
        return false;
    }

    /* Chooses the bands that need the fewest rounds; the epilogue takes as long as some rows. */
    const int64_t rows = y->extent[2], resident = UF_ROW_STREAM_WGRAD_BLOCKS;
    const int64_t planes = x->extent[0] * plan->tiles_w;
    const int64_t tiles = args->groups * plan->tiles_k * plan->tiles_c;
    double least = 0;
    for (int64_t bands = 1; bands <= rows && (bands == 1 || planes * tiles * bands <= 8 * resident);
         ++bands) {
        const int64_t band = uf_div_up(rows, bands);
        const int64_t blocks = planes * tiles * uf_div_up(rows, band);
        const double total_cost = (double)uf_div_up(blocks, resident) *
                                  ((double)(band + UF_ROW_STREAM_WGRAD_LAGS - 1) + 6.0);
        if (bands == 1 || total_cost < least) {
            least = total_cost;
            plan->band = (int32_t)band;
            plan->bands = (int32_t)uf_div_up(rows, band);
        }
    }
    if (planes * plan->bands > 4096 || tiles >= far) {
        return false;
    }
    plan->splits = (int32_t)(planes * plan->bands);
    plan->cost = cost_of(plan, uf_mma_math_of(args), element, tiles, problem->gpu->multiprocessors);
    return true;
}

bool uf_conv_plan_mma_row_stream_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_row_stream_wgrad_plan *const own = UF_CONV_PLAN_OF(uf_row_stream_wgrad_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_row_stream_wgrad_plan_of(problem, own)) {
        return false;
    }
    const int64_t tiles = problem->args->groups * own->tiles_k * own->tiles_c;
    const int64_t tile = (int64_t)UF_ROW_STREAM_WGRAD_K * UF_ROW_STREAM_WGRAD_C *
                         UF_ROW_STREAM_WGRAD_LAGS * own->taps; /* elements */
    plan->cost = own->cost;
    plan->workspace = (size_t)(own->splits * tiles * tile) * sizeof(float);
    return true;
}
