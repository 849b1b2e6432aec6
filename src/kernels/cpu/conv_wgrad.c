/* conv_wgrad.c - conv_wgrad on the CPU: planning and the parallel loops. The arithmetic is in
 * conv_wgrad.inc. */
#include "kernels/cpu/conv_plan.h"

#include <string.h>

#include "core/parallel.h"

/* dot: a unit's tile, its panels and its sums (one vector each), fits the second cache. */
#define DOT_ROW_BLOCK 64
#define DOT_COLUMN_BLOCK 48
/* gemm: a unit packs its taps of x, so many rows should use them; their sums fit the second cache.
 */
#define GEMM_ROW_BLOCK 512
#define GEMM_PANELS 2 /* micro-kernels beside each other */
/* Parts of the pixels are made only to reach this many units, and not below so many pixels. */
#define ENOUGH_UNITS 32
#define LEAST_PIXELS 2048

static const char *const variant_names[] = {"dot", "gemm"};

/* The faster variant by a model of the shape alone, in products of a full micro-kernel. dot pays
 * for its slower loop and for adding up lanes, gemm for transposing what it packs. */
static uf_wgrad_variant choose_variant(const uf_wgrad_plan *plan) {
    const double rows = (double)plan->rows;
    const double columns = (double)plan->columns;
    const double pixels = (double)plan->pixels;
    const double dot_rows =
        (double)(uf_div_up(plan->rows, UF_WGRAD_TILE_ROWS) * UF_WGRAD_TILE_ROWS);
    const double dot_columns =
        (double)(uf_div_up(plan->columns, UF_WGRAD_TILE_COLUMNS) * UF_WGRAD_TILE_COLUMNS);
    const int64_t micro_rows = uf_conv_micro_rows(plan->code, plan->rows);
    const int64_t lanes = plan->code->lanes;
    const double gemm_rows = (double)(uf_div_up(plan->rows, micro_rows) * micro_rows);
    const double gemm_columns = (double)(uf_div_up(plan->columns, lanes) * lanes);
    const double dot = 1.75 * pixels * dot_rows * dot_columns + 230.0 * rows * columns;
    const double gemm = pixels * (gemm_rows * gemm_columns + 45.0 * columns + 170.0 * rows);
    return gemm < dot ? UF_WGRAD_GEMM : UF_WGRAD_DOT;
}

static void plan_dot(uf_wgrad_plan *plan) {
    plan->row_block =
        uf_min(DOT_ROW_BLOCK, uf_div_up(plan->rows, UF_WGRAD_TILE_ROWS) * UF_WGRAD_TILE_ROWS);
    plan->column_block = uf_min(DOT_COLUMN_BLOCK, uf_div_up(plan->columns, UF_WGRAD_TILE_COLUMNS) *
                                                      UF_WGRAD_TILE_COLUMNS);
    plan->chunk = plan->element == 4 ? UF_WGRAD_PIXELS : UF_WGRAD_PIXELS / 2;
    plan->scratch_bytes =
        plan->element * (size_t)(plan->chunk * (plan->row_block + plan->column_block) +
                                 plan->row_block * plan->column_block * plan->code->lanes);
}

static void plan_gemm(uf_wgrad_plan *plan) {
    const int64_t lanes = plan->code->lanes;
    const int64_t panel = UF_CONV_VECTORS * lanes;
    plan->micro_rows = uf_conv_micro_rows(plan->code, plan->rows);
    plan->packed_rows = uf_div_up(plan->rows, plan->micro_rows) * plan->micro_rows;
    const int64_t row_blocks = uf_div_up(plan->packed_rows, GEMM_ROW_BLOCK);
    plan->row_block =
        uf_div_up(uf_div_up(plan->packed_rows, row_blocks), plan->micro_rows) * plan->micro_rows;
    const bool few =
        plan->args->groups * row_blocks * uf_div_up(plan->columns, GEMM_PANELS * panel) <
        ENOUGH_UNITS;
    plan->column_block =
        uf_min(few ? panel : GEMM_PANELS * panel, uf_div_up(plan->columns, lanes) * lanes);
    plan->chunk = UF_WGRAD_DEPTH;
    plan->scratch_bytes = plan->element * (size_t)(UF_WGRAD_DEPTH * (UF_WGRAD_LINES + panel) +
                                                   plan->row_block * plan->column_block);
    plan->pack_units = plan->args->groups * uf_div_up(plan->pixels, plan->chunk) *
                       uf_div_up(plan->packed_rows, UF_WGRAD_LINES);
    plan->packed_bytes =
        plan->element * (size_t)(plan->args->groups * plan->pixels * plan->packed_rows);
}

/* Everything about the call but the addresses in its workspace. */
static uf_status make_plan(const uf_conv_kernel_args *args, uf_wgrad_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->args = args;
    plan->code = uf_conv_code_for(args->x.dtype);
    plan->element = uf_conv_element(args->x.dtype);
    for (int axis = 0; axis < 2; ++axis) {
        plan->walk[axis] =
            uf_axis_fprop(args->y.extent[2 + axis], args->w.extent[2 + axis], args->stride[axis],
                          args->padding[axis], args->dilation[axis]);
    }
    plan->rows = args->w.extent[0] / args->groups;
    plan->columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    plan->pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    if (args->variant == NULL) {
        plan->variant = choose_variant(plan);
    } else if (strcmp(args->variant, variant_names[UF_WGRAD_DOT]) == 0) {
        plan->variant = UF_WGRAD_DOT;
    } else if (strcmp(args->variant, variant_names[UF_WGRAD_GEMM]) == 0) {
        plan->variant = UF_WGRAD_GEMM;
    } else {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "there is no variant \"%s\" of conv_wgrad on the CPU; it has \"%s\" and \"%s\"",
                args->variant, variant_names[UF_WGRAD_DOT], variant_names[UF_WGRAD_GEMM]);
    }
    if (plan->variant == UF_WGRAD_DOT) {
        plan_dot(plan);
    } else {
        plan_gemm(plan);
    }
    plan->row_blocks = uf_div_up(plan->rows, plan->row_block);
    plan->column_blocks = uf_div_up(plan->columns, plan->column_block);
    const int64_t tiles = args->groups * plan->row_blocks * plan->column_blocks;
    plan->parts = uf_max(1, uf_min(uf_div_up(ENOUGH_UNITS, tiles), plan->pixels / LEAST_PIXELS));
    plan->part_pixels = uf_div_up(uf_div_up(plan->pixels, plan->parts), plan->chunk) * plan->chunk;
    plan->parts = uf_max(1, uf_div_up(plan->pixels, plan->part_pixels));
    plan->units = tiles * plan->parts;
    if (plan->parts > 1) {
        plan->partial_bytes =
            plan->element * (size_t)(plan->parts * args->w.extent[0] * plan->columns);
    }
    plan->scratch_bytes = uf_align_up(plan->scratch_bytes);
    return UF_OK;
}

static size_t plan_workspace(const uf_wgrad_plan *plan, int32_t threads) {
    return uf_align_up(plan->partial_bytes) + uf_align_up(plan->packed_bytes) +
           plan->scratch_bytes * (size_t)threads;
}

size_t uf_cpu_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    uf_wgrad_plan plan;
    /* An unknown variant is reported by the call itself. */
    if (args->x.extent[0] == 0 || make_plan(args, &plan) != UF_OK) {
        return 0;
    }
    return plan_workspace(&plan, context->threads);
}

static void clear(const uf_conv_kernel_args *args) {
    const uf_view *w = &args->w;
    const size_t element = uf_dtype_size(w->dtype);
    for (int64_t i = 0; i < uf_view_count(w); ++i) {
        const int64_t s = i % w->extent[3];
        const int64_t r = i / w->extent[3] % w->extent[2];
        const int64_t c = i / w->extent[3] / w->extent[2] % w->extent[1];
        const int64_t k = i / w->extent[3] / w->extent[2] / w->extent[1];
        const int64_t offset =
            k * w->stride[0] + c * w->stride[1] + r * w->stride[2] + s * w->stride[3];
        memset((char *)w->data + (size_t)offset * element, 0, element);
    }
}

static void pack_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_wgrad_plan *plan = argument;
    plan->code->wgrad_pack(plan, unit, plan->scratch + (size_t)thread * plan->scratch_bytes);
}

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_wgrad_plan *plan = argument;
    plan->code->wgrad[plan->variant](plan, unit,
                                     plan->scratch + (size_t)thread * plan->scratch_bytes);
}

static void add_row(void *argument, int64_t row, int32_t thread) {
    const uf_wgrad_plan *plan = argument;
    (void)thread;
    plan->code->wgrad_add(plan, row);
}

uf_status uf_cpu_conv_wgrad(uf_context *context, const uf_conv_kernel_args *args) {
    if (args->x.extent[0] == 0) {
        if (args->mode == UF_OVERWRITE) {
            clear(args);
        }
        return UF_OK;
    }
    uf_wgrad_plan plan;
    UF_TRY(make_plan(args, &plan));
    const size_t needed = plan_workspace(&plan, context->threads);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    plan.partial = args->workspace;
    plan.packed = (char *)plan.partial + uf_align_up(plan.partial_bytes);
    plan.scratch = (char *)plan.packed + uf_align_up(plan.packed_bytes);
    uf_parallel_for(context, plan.pack_units, pack_unit, &plan);
    uf_parallel_for(context, plan.units, run_unit, &plan);
    if (plan.parts > 1) {
        uf_parallel_for(context, args->w.extent[0], add_row, &plan);
    }
    return UF_OK;
}
