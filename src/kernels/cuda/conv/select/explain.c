/* explain.c - a plan in words. A main loop without a row here has nothing to say. */
#include "kernels/cuda/conv/select/explain.h"

#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"
#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/cuda/conv/simt_direct/wgrad_plan.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/conv_plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/plan.h"

typedef struct words {
    char *text;
    size_t size, used;
    uf_conv_direction direction; /* of the problem that the plan is for */
    const uf_conv_kernel_args *args;
} words;

/* Appends, and cuts off where there is no room. */
static void UF_PRINTF(2, 3) say(words *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(out->text + out->used, out->size - out->used, format, arguments);
    va_end(arguments);
    out->used += more > 0 ? (size_t)more : 0;
    out->used = out->used < out->size ? out->used : out->size - 1;
}

static void say_splits(words *out, int64_t splits) {
    if (splits > 1) {
        say(out, ", %lld splits", (long long)splits);
    }
}

static void say_upcast(words *out) {
    if (out->args->x.dtype == UF_BF16) {
        say(out, ", bf16 upcast");
    }
}

static void say_geometry(const uf_wgmma_geometry *g, words *out) {
    if (g->columns > 0) {
        say(out, "swap A/B, tile %dx%d", g->nt * g->pixels, g->columns);
    } else {
        say(out, "tile %dx%d", g->wm * g->block_channels, g->nt * g->pixels);
    }
    say(out, ", %d windows of %d, %d stages", g->windows, g->depth, g->stages);
    say_splits(out, g->splits);
    if (g->stream_k > 0) {
        say(out, ", stream-K of %d", g->stream_k);
    }
    say(out, "%s%s%s%s", g->packed ? ", packed" : "", g->line > 0 ? ", line" : "",
        g->merged ? ", merged phases" : "", g->paired ? ", paired phases" : "");
}

static void implicit_gemm(const uf_conv_plan *object, words *out) {
    say_geometry(&UF_CONV_CONST_PLAN_OF(uf_wgmma_plan, object)->geometry, out);
}

static void split_f16(const uf_conv_plan *object, words *out) {
    say_geometry(&UF_CONV_CONST_PLAN_OF(uf_wgmma_split_f16_plan, object)->geometry, out);
}

static void patch_gemm(const uf_conv_plan *object, words *out) {
    const uf_patch_plan *plan = &UF_CONV_CONST_PLAN_OF(uf_patch_conv_plan, object)->patch;
    say(out, "tile %dx%d, side %d, %d stages", UF_PATCH_PIXELS, plan->tile.columns, plan->tile.side,
        plan->buffers);
    say_splits(out, plan->splits);
}

static void mma(const uf_conv_plan *object, words *out) {
    const mma_plan *plan = UF_CONV_CONST_PLAN_OF(mma_plan, object);
    say(out, "tile %dx%d", MMA_PIXELS, plan->tile_n);
    say_splits(out, plan->conv.splits);
    say_upcast(out);
}

static void wgrad_mma(const uf_conv_plan *object, words *out) {
    const wgrad_plan *plan = UF_CONV_CONST_PLAN_OF(wgrad_plan, object);
    say(out, "tile %dx%d, box %dx%d, %d stages", plan->rows, plan->columns, 1 << plan->log_p,
        1 << plan->log_q, plan->stages);
    say_splits(out, plan->splits);
    say(out, "%s", plan->banded ? "" : ", fragments alone");
    say_upcast(out);
}

static void wgrad_rs(const uf_conv_plan *object, words *out) {
    const wgrad_rs_plan *plan = UF_CONV_CONST_PLAN_OF(wgrad_rs_plan, object);
    const wgrad_plan *sums = &plan->sums;
    say(out, "tile %dx%d, box %dx%d, %d stages", sums->rows, sums->columns, 1 << sums->log_p,
        1 << sums->log_q, sums->stages);
    say_splits(out, sums->share > 0 ? 1 : sums->splits);
    if (sums->share > 0) {
        say(out, ", shares of %d boxes", sums->share);
    }
}

static void depthwise(const uf_conv_plan *object, words *out) {
    const uf_depthwise_plan *plan = UF_CONV_CONST_PLAN_OF(uf_depthwise_plan, object);
    say(out, "tile %dx%d, filter %d%s", plan->rows, plan->run, plan->filter,
        plan->vector ? ", vectors" : "");
}

static void direct(const uf_conv_plan *object, words *out) {
    const uf_direct_plan *plan = UF_CONV_CONST_PLAN_OF(uf_direct_plan, object);
    say(out, "tile of %d phases, %d channels, %d cells, %d stages", plan->phases, plan->channels,
        plan->cells, plan->conv.buffers);
}

static void im2col(const uf_conv_plan *object, words *out) {
    const uf_im2col_plan *plan = UF_CONV_CONST_PLAN_OF(uf_im2col_plan, object);
    say(out, "warp tile %dx%d, %d warps, %lld CTAs", 16 * plan->m, 8 * plan->n, plan->im2col.warps,
        (long long)plan->blocks);
}

static void wgrad_im2col(const uf_conv_plan *object, words *out) {
    const uf_wgrad_im2col_plan *plan = UF_CONV_CONST_PLAN_OF(uf_wgrad_im2col_plan, object);
    say(out, "warp tile %dx%d, %dx%d warps, box %dx%d, %d stages", 16 * plan->m, 8 * plan->n,
        plan->warps_m, plan->warps_p, plan->box[0], plan->box[1], plan->stages);
    say_splits(out, plan->splits);
}

static void small(const uf_conv_plan *object, words *out) {
    const uf_small_plan *plan = &UF_CONV_CONST_PLAN_OF(uf_small_conv_plan, object)->small;
    say(out, "tile %dx%d, %d warps, %d stages", plan->tile_pixels, plan->tile_channels, plan->warps,
        plan->stages);
    say_splits(out, plan->splits);
}

static void wgrad_small(const uf_conv_plan *object, words *out) {
    const uf_small_wgrad_plan *plan = UF_CONV_CONST_PLAN_OF(uf_small_wgrad_plan, object);
    say(out, "tile %dx%d, %d warps, %d stages", plan->rows, plan->columns, plan->warps,
        plan->stages);
    say_splits(out, plan->splits);
}

static void wgrad_direct(const uf_conv_plan *object, words *out) {
    const direct_wgrad_plan *plan = UF_CONV_CONST_PLAN_OF(direct_wgrad_plan, object);
    if (plan->rows) {
        say(out, "rows");
    } else {
        say(out, "tile %dx%d, %d rows a thread, box %dx%d, %d stages", plan->tile_k, plan->columns,
            plan->kt, plan->box[1], plan->box[2], plan->stages);
    }
    say_splits(out, plan->splits);
}

static void row_stream_fprop(const uf_conv_plan *object, words *out) {
    const uf_row_stream_fprop_plan *plan = UF_CONV_CONST_PLAN_OF(uf_row_stream_fprop_plan, object);
    say(out, "tile %d pixels, band %d rows, warp tile %dx%d, %d stages", plan->stream.tile,
        plan->stream.band, 16 * plan->m, 8 * plan->n, plan->stream.stages);
}

static void row_stream_dgrad(const uf_conv_plan *object, words *out) {
    const uf_row_stream_dgrad_plan *plan = UF_CONV_CONST_PLAN_OF(uf_row_stream_dgrad_plan, object);
    say(out, "%d phases, %d tiles a row, %d MMA warps, %d producer warps, %d stages", plan->phases,
        plan->stream.tiles, plan->stream.mmas, plan->stream.producers, plan->stream.stages);
}

static void row_stream_wgrad(const uf_conv_plan *object, words *out) {
    const uf_row_stream_wgrad_plan *plan = UF_CONV_CONST_PLAN_OF(uf_row_stream_wgrad_plan, object);
    say(out, "tile %d pixels, band %d rows, %d stages", plan->tile, plan->band, plan->stages);
    say_splits(out, plan->splits);
}

/* For unaligned tensors the object holds a plan of simt_direct, and has its main loop's name. */
static void stride2_k4(const uf_conv_plan *object, words *out) {
    if (object->loop_name != object->loop->name) {
        return;
    }
    const uf_stride2_k4_plan *plan = UF_CONV_CONST_PLAN_OF(uf_stride2_k4_plan, object);
    say(out, "%d channels, %d warps, %d rings of %d stages", plan->channels, plan->warps,
        plan->rings, plan->stages);
}

static void say_channel_blocked(const uf_channel_blocked_plan *plan, words *out) {
    say(out, "tile %d: width %d, %d units, patch %dx%d, %d stages", plan->tile_id, plan->width,
        plan->units, plan->rows, plan->across, plan->stages);
    say_splits(out, plan->splits);
}

static void channel_blocked(const uf_conv_plan *object, words *out) {
    say_channel_blocked(&UF_CONV_CONST_PLAN_OF(uf_channel_blocked_plans, object)->aligned, out);
}

static void wgrad_split_f16(const uf_conv_plan *object, words *out) {
    say_channel_blocked(&UF_CONV_CONST_PLAN_OF(uf_split_f16_wgrad_plan, object)->mma.aligned, out);
}

/* The object's own plan is a fallback's, or another file's: it is made again for its words. */
static void filter_stationary(const uf_conv_plan *object, words *out) {
    uf_filter_stationary_plan plan;
    (void)object;
    if (!uf_filter_stationary_plan_of(out->direction, out->args, &plan)) {
        return;
    }
    say(out, "%d rows in %d parts, %d chunks, %d CTAs in groups of %d%s", plan.rows, plan.parts,
        plan.chunks, plan.blocks, plan.cta_group, plan.pair ? ", cluster of 2" : "");
}

/* For unaligned tensors the object holds the plan of another main loop, and has its name. */
static void patch_wgrad(const uf_conv_plan *object, words *out) {
    if (object->loop_name != object->loop->name) {
        return;
    }
    const uf_patch_wgrad_conv_plan *plan = UF_CONV_CONST_PLAN_OF(uf_patch_wgrad_conv_plan, object);
    say(out, "width %d, runs of %d pixels, %lld CTAs", plan->tiles.width, plan->tiles.pixels,
        (long long)plan->tiles.blocks);
    say_splits(out, plan->tiles.splits);
    say(out, "%s%s", plan->tiles.pair ? ", cluster of 2" : "", plan->copied ? ", copied" : "");
}

static const struct {
    uf_conv_plan_function *of;
    void (*say)(const uf_conv_plan *object, words *out);
} rows[] = {
    {uf_conv_plan_mma_implicit_gemm, mma},
    {uf_conv_plan_mma_implicit_gemm_wgrad, wgrad_mma},
    {uf_conv_plan_wgmma_patch_gemm, patch_gemm},
    {uf_conv_plan_wgmma_implicit_gemm, implicit_gemm},
    {uf_conv_plan_wgmma_filter_stationary, filter_stationary},
    {uf_conv_plan_wgmma_wgrad_rs, wgrad_rs},
    {uf_conv_plan_wgmma_channel_blocked, channel_blocked},
    {uf_conv_plan_wgmma_split_f16, split_f16},
    {uf_conv_plan_wgmma_split_f16_wgrad, wgrad_split_f16},
    {uf_conv_plan_mma_small, small},
    {uf_conv_plan_mma_small_wgrad, wgrad_small},
    {uf_conv_plan_simt_direct_wgrad, wgrad_direct},
    {uf_conv_plan_simt_depthwise, depthwise},
    {uf_conv_plan_simt_direct, direct},
    {uf_conv_plan_mma_im2col, im2col},
    {uf_conv_plan_mma_im2col_wgrad, wgrad_im2col},
    {uf_conv_plan_mma_row_stream_fprop, row_stream_fprop},
    {uf_conv_plan_mma_row_stream_dgrad, row_stream_dgrad},
    {uf_conv_plan_mma_row_stream_wgrad, row_stream_wgrad},
    {uf_conv_plan_mma_stride2_k4, stride2_k4},
    {uf_conv_plan_mma_stride2_k4_wgrad, stride2_k4},
    {uf_conv_plan_wgmma_patch_wgrad, patch_wgrad},
    {uf_conv_plan_wgmma_bf16_patch_wgrad, patch_wgrad},
};

static bool has_inner(const uf_conv_plan *plan) {
    return plan->inner != NULL && plan->inner->loop != NULL;
}

void uf_conv_explain_loop(const uf_conv_plan *plan, char *text, size_t size) {
    if (has_inner(plan)) {
        (void)snprintf(text, size, "%s/%s/%s", plan->loop_name,
                       uf_conv_variants[plan->inner->variant].name, plan->inner->loop_name);
    } else {
        (void)snprintf(text, size, "%s", plan->loop_name);
    }
}

void uf_conv_explain_plan(const uf_conv_problem *problem, const uf_conv_plan *plan, char *text,
                          size_t size) {
    words out = {text, size, 0, problem->direction, problem->args};
    text[0] = '\0';
    if (uf_conv_is_empty(problem)) {
        return; /* plans of nothing need not be whole */
    }
    if (has_inner(plan)) {
        out.args = &UF_CONV_CONST_PLAN_OF(uf_space_to_depth_plan, plan)->inner;
        plan = plan->inner;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].of == plan->loop->plan) {
            rows[i].say(plan, &out);
            return;
        }
    }
}
