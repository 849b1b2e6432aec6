/* plan.c - runs of rows and shared memory of stride2_k4's kernels. */
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"

#include <string.h>

#include "core/tensor.h"

/* TMA needs contiguous rows that all lie at multiples of 16 bytes from the first. */
static bool is_tiled(const uf_view *view) {
    const int64_t element = (int64_t)uf_dtype_size(view->dtype);
    if (view->stride[3] != 1) {
        return false;
    }
    for (int axis = 0; axis < 3; ++axis) {
        const int64_t stride = view->stride[axis];
        if (view->extent[axis] > 1 &&
            (stride <= 0 || stride >= INT64_C(1) << 32 || stride * element % 16 != 0)) {
            return false;
        }
    }
    return true;
}

/* TMA stores write multiples of 16 bytes: rows must not end within one, because something else may
 * follow. (TMA loads read by elements.) */
static bool is_written_whole(const uf_view *view) {
    return view->extent[3] * (int64_t)uf_dtype_size(view->dtype) % 16 == 0;
}

static bool is_geometry(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *x = &args->x, *y = &args->y, *w = &args->w;
    const int64_t far = INT64_C(1) << 28;
    for (int i = 0; i < 2; ++i) {
        if (args->stride[i] != UF_STRIDE2_K4_STRIDE || args->dilation[i] != 1 ||
            w->extent[2 + i] < UF_STRIDE2_K4_FILTER - 1 ||
            w->extent[2 + i] > UF_STRIDE2_K4_FILTER || args->padding[i] > far ||
            x->extent[2 + i] > far || y->extent[2 + i] > far) {
            return false;
        }
    }
    if (args->groups != 1 || y->extent[1] > UF_STRIDE2_K4_SMALL ||
        x->extent[1] > UF_STRIDE2_K4_LARGE) {
        return false;
    }
    /* dgrad makes pairs of columns of x from the second one of the padding: one pair for each pixel
     * of a row. */
    return direction != UF_CONV_DGRAD ||
           (args->padding[1] >= 1 && y->extent[3] <= UF_STRIDE2_K4_PIXELS &&
            x->extent[3] + args->padding[1] <= UF_STRIDE2_K4_STRIDE * y->extent[3] + 1);
}

static bool divide_shared(uf_conv_direction direction, bool fp32, int64_t element,
                          uf_stride2_k4_plan *plan) {
    const int64_t tile = UF_STRIDE2_K4_SMALL * UF_STRIDE2_K4_PIXELS * element;
    const int64_t window =
        (int64_t)plan->channels * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_WINDOW * element;
    const int64_t units = 2 * plan->channels; /* 8-column blocks */
    const int64_t steps = UF_STRIDE2_K4_SMALL / 8;
    int64_t weights = 0;
    if (direction == UF_CONV_DGRAD) {
        plan->stage_bytes = plan->tile_bytes = (int32_t)tile;
        /* sums of half the columns, as a warp has them in registers */
        plan->kept_bytes = (int32_t)(units / 2 * UF_STRIDE2_K4_PIXELS / 16 * 4 * 32 * 4);
    } else if (direction == UF_CONV_FPROP) {
        plan->window_bytes = plan->stage_bytes = (int32_t)window;
        plan->kept_bytes = (int32_t)tile;
    } else {
        plan->tile_bytes = (int32_t)tile;
        plan->window_bytes = (int32_t)window;
        plan->stage_bytes = (int32_t)(tile + uf_round_up(window, UF_STRIDE2_K4_ALIGN));
    }
    const bool wgrad = direction == UF_CONV_WGRAD;
    plan->warps = wgrad          ? UF_STRIDE2_K4_WGRAD_WARPS
                  : element == 2 ? UF_STRIDE2_K4_BF16_WARPS
                                 : UF_STRIDE2_K4_F32_WARPS;
    plan->rings = wgrad && fp32 ? plan->warps / UF_STRIDE2_K4_WGRAD_SHARE : plan->warps;
    plan->resident = wgrad ? UF_STRIDE2_K4_WGRAD_RESIDENT : UF_STRIDE2_K4_RESIDENT;
    if (!wgrad && fp32) {
        weights = units * steps * 32 * 16; /* two big words and two small ones of each lane */
    }
    const int64_t scratch = wgrad ? 0 : UF_STRIDE2_K4_SCRATCH(plan->channels, element);
    const size_t most = wgrad ? UF_STRIDE2_K4_WGRAD_SHARED : UF_STRIDE2_K4_SHARED;
    /* Two staged rows where each warp keeps three windows. */
    const int64_t row_bytes = plan->kept_bytes;
    for (plan->kept_tiles = direction == UF_CONV_FPROP ? 2 : 1; plan->kept_tiles > 0;
         --plan->kept_tiles) {
        const int32_t fewest = plan->kept_tiles > 1 ? 3 : 2;
        plan->kept_bytes = (int32_t)(row_bytes * plan->kept_tiles);
        const int64_t warps_kept = (int64_t)plan->warps * plan->kept_bytes;
        const int64_t kept = warps_kept > scratch ? warps_kept : scratch;
        for (plan->stages = UF_STRIDE2_K4_STAGES; plan->stages >= fewest; --plan->stages) {
            plan->kept_at = UF_STRIDE2_K4_HEAD +
                            (int32_t)uf_round_up(plan->rings * plan->stages * plan->stage_bytes,
                                                 UF_STRIDE2_K4_ALIGN);
            plan->weight_at = plan->kept_at + (int32_t)kept;
            plan->shared = (size_t)(plan->weight_at + weights);
            if (plan->shared <= most) {
                return true;
            }
        }
    }
    return false;
}

/* Fitted to 12 layers on an H200: a fixed part, and the larger of the memory's time and the time of
 * a warp's rows. (Warps that share rows take twice as many, in half the time each.) */
static double cost_of(const uf_conv_problem *problem, bool fp32, const uf_stride2_k4_plan *plan) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args *args = problem->args;
    const bool wgrad = direction == UF_CONV_WGRAD, dgrad = direction == UF_CONV_DGRAD;
    const double element = (double)uf_dtype_size(args->x.dtype);
    const double bytes = element * (double)(uf_view_count(&args->x) + uf_view_count(&args->y));
    /* bytes a cycle: 17.7 of each multiprocessor */
    const double rate = 2340.0 * problem->gpu->multiprocessors / 132;
    const double memory = bytes * (dgrad ? 1.08 : 1.2) / rate;
    const int64_t before = dgrad ? 1 : 0;
    const double rows =
        (double)uf_div_up(uf_div_up(plan->units, plan->blocks) + before, plan->warps);
    const double each = fp32 ? 2700 + 1150 * plan->channels : 2900;
    return (wgrad ? 11000 : 4500) + (memory > rows * each ? memory : rows * each);
}

bool uf_stride2_k4_is_aligned(const uf_conv_problem *problem) {
    return (uintptr_t)problem->args->y.data % 16 == 0 &&
           (problem->direction == UF_CONV_DGRAD || (uintptr_t)problem->args->x.data % 16 == 0);
}

size_t uf_stride2_k4_wgrad_bytes(const uf_stride2_k4_plan *plan) {
    return (size_t)plan->blocks * (size_t)uf_stride2_k4_wgrad_size(plan) * sizeof(float);
}

bool uf_stride2_k4_plan_of(const uf_conv_problem *problem, uf_stride2_k4_plan *plan) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args *args = problem->args;
    memset(plan, 0, sizeof *plan);
    const uf_view *x = &args->x, *y = &args->y;
    const bool dgrad = direction == UF_CONV_DGRAD, wgrad = direction == UF_CONV_WGRAD;
    const bool bf16 = x->dtype == UF_BF16, fp32 = !bf16 && args->math == UF_MATH_FP32;
    if (uf_view_count(x) == 0 || uf_view_count(y) == 0 || uf_view_count(&args->w) == 0 ||
        (!bf16 && args->math == UF_MATH_BF16) || !is_geometry(direction, args) || !is_tiled(y) ||
        (!dgrad && !is_tiled(x)) || (direction == UF_CONV_FPROP && !is_written_whole(y)) ||
        (!wgrad && args->mode == UF_ACCUMULATE)) {
        return false;
    }
    uf_direct_conv *conv = &plan->conv;
    uf_direct_describe(conv, args, dgrad);
    plan->scaled = conv->scale != NULL || conv->shift != NULL;
    plan->channels = (int32_t)x->extent[1];
    const int32_t piece = bf16 ? 8 : 4; /* elements of 16 bytes */
    plan->window_shift = (piece - conv->padding[1] % piece) % piece;
    const int64_t rows =
        dgrad ? (x->extent[2] - 1 + args->padding[0]) / UF_STRIDE2_K4_STRIDE + 1 : y->extent[2];
    const int64_t strips = dgrad ? 1 : uf_div_up(y->extent[3], UF_STRIDE2_K4_PIXELS);
    const int64_t images = y->extent[0], most = 1 << 30;
    const int64_t units =
        images < most && rows < most && rows * strips < most ? images * rows * strips : most;
    if (units >= most || !divide_shared(direction, fp32, (int64_t)uf_dtype_size(x->dtype), plan)) {
        return false;
    }
    plan->rows = (int32_t)rows;
    plan->strips = (int32_t)strips;
    plan->units = (int32_t)units;
    plan->by_rows = uf_direct_divisor_of(rows);
    plan->by_strips = uf_direct_divisor_of(strips);
    /* All blocks are resident, because a prologue takes as long as some rows. */
    const int32_t resident =
        wgrad ? UF_STRIDE2_K4_WGRAD_BLOCKS : problem->gpu->multiprocessors * plan->resident;
    plan->blocks = plan->units < resident ? plan->units : resident;
    const int64_t count = uf_view_count(&args->w);
    if (uf_view_is_contiguous(&args->w) && count % piece == 0 &&
        (uintptr_t)args->w.data % 16 == 0) {
        plan->weight_vectors = (int32_t)(count / piece);
    }
    plan->by_taps = uf_direct_divisor_of(args->w.extent[2] * args->w.extent[3]);
    plan->by_filter_row = uf_direct_divisor_of(args->w.extent[3]);
    plan->cost = cost_of(problem, fp32, plan);
    return true;
}
