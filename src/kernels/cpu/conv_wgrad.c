/* conv_wgrad.c - conv_wgrad on the CPU: planning and the parallel loops. The arithmetic is in
 * conv_wgrad.inc. */
#include "kernels/cpu/conv_plan.h"

#include <string.h>

#include "core/parallel.h"

/* A unit's tile: its panels and its sums (one vector each) fit the second cache. */
#define ROW_BLOCK 64
#define COLUMN_BLOCK 48
/* Parts of the pixels are made only to reach this many units, and not below so many pixels. */
#define ENOUGH_UNITS 32
#define LEAST_PIXELS 2048

static uf_status make_plan(const uf_conv_kernel_args *args, uf_wgrad_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->args = args;
    plan->code = uf_conv_code_for(args->x.dtype);
    plan->element = uf_dtype_size(args->x.dtype);
    if (args->variant != NULL && strcmp(args->variant, "dot") != 0) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "there is no variant \"%s\" of conv_wgrad on the CPU; it has \"dot\"",
                args->variant);
    }
    for (int axis = 0; axis < 2; ++axis) {
        plan->walk[axis] =
            uf_axis_fprop(args->y.extent[2 + axis], args->w.extent[2 + axis], args->stride[axis],
                          args->padding[axis], args->dilation[axis]);
    }
    plan->rows = args->w.extent[0] / args->groups;
    plan->columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    plan->row_block =
        uf_min(ROW_BLOCK, uf_div_up(plan->rows, UF_WGRAD_TILE_ROWS) * UF_WGRAD_TILE_ROWS);
    plan->row_blocks = uf_div_up(plan->rows, plan->row_block);
    plan->column_block = uf_min(COLUMN_BLOCK, uf_div_up(plan->columns, UF_WGRAD_TILE_COLUMNS) *
                                                  UF_WGRAD_TILE_COLUMNS);
    plan->column_blocks = uf_div_up(plan->columns, plan->column_block);
    plan->pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    plan->chunk = plan->element == 4 ? UF_WGRAD_PIXELS : UF_WGRAD_PIXELS / 2;
    const int64_t tiles = args->groups * plan->row_blocks * plan->column_blocks;
    plan->parts = uf_max(1, uf_min(uf_div_up(ENOUGH_UNITS, tiles), plan->pixels / LEAST_PIXELS));
    plan->part_pixels = uf_div_up(uf_div_up(plan->pixels, plan->parts), plan->chunk) * plan->chunk;
    plan->parts = uf_max(1, uf_div_up(plan->pixels, plan->part_pixels));
    plan->units = tiles * plan->parts;
    if (plan->parts > 1) {
        plan->partial_bytes =
            plan->element * (size_t)(plan->parts * args->w.extent[0] * plan->columns);
    }
    plan->scratch_bytes = uf_align_up(
        plan->element * (size_t)(plan->chunk * (plan->row_block + plan->column_block) +
                                 plan->row_block * plan->column_block * plan->code->lanes));
    return UF_OK;
}

size_t uf_cpu_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    uf_wgrad_plan plan;
    /* An unknown variant is reported by the call itself. */
    if (args->x.extent[0] == 0 || make_plan(args, &plan) != UF_OK) {
        return 0;
    }
    return uf_align_up(plan.partial_bytes) + plan.scratch_bytes * (size_t)context->threads;
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

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_wgrad_plan *plan = argument;
    plan->code->wgrad(plan, unit, plan->scratch + (size_t)thread * plan->scratch_bytes);
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
    const size_t needed =
        uf_align_up(plan.partial_bytes) + plan.scratch_bytes * (size_t)context->threads;
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    plan.partial = args->workspace;
    plan.scratch = (char *)args->workspace + uf_align_up(plan.partial_bytes);
    uf_parallel_for(context, plan.units, run_unit, &plan);
    if (plan.parts > 1) {
        uf_parallel_for(context, args->w.extent[0], add_row, &plan);
    }
    return UF_OK;
}
