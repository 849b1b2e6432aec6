/* plan.c - tiles and splits of wgrad/launch.cu. */
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"

#include <string.h>

#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

enum {
    MULTIPROCESSORS = 132, /* of the largest GPU with wgmma */
    LONGEST = 16384,       /* pixels the tensor core, which truncates, may sum without promotion */
    LEAST_USE = 40,        /* percent of the MMAs made that are wanted, at least */
    LEAST_USE_FP32 = 60,   /* the same where MMAs are the bound */
    LEAST_TAPS =
        32, /* taps of a filter for which x is copied: with fewer, other kernels share reads */
    LEAST_PAIRED = 4,     /* blocks of channels of y from which pairs share x */
    MEMORY = 2340,        /* bytes per cycle that all multiprocessors read */
    CACHED = 40000000,    /* bytes that the second-level cache keeps beside sums */
    MOST_COPIED = 1 << 30 /* elements: threads are counted in 32 bits */
};

/* True if TMA can load both tensors, and no two pixels read the same elements of a row of x. */
static bool takes(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 28;
    const bool types = (args->x.dtype == UF_BF16 && args->math == UF_MATH_BF16) ||
                       (args->x.dtype == UF_F32 && args->math != UF_MATH_BF16);
    if (!types || args->x.dtype != args->y.dtype || args->w.extent[3] != args->stride[1] ||
        args->stride[1] > 2 || (args->stride[1] == 2 && args->dilation[1] != 1) ||
        args->w.extent[2] > args->stride[0] ||
        args->w.extent[2] * args->w.extent[3] > UF_PATCH_WGRAD_TAPS ||
        uf_view_count(&args->w) >= limit || uf_view_count(&args->w) == 0 ||
        uf_view_count(&args->y) == 0 || uf_view_count(&args->x) == 0 ||
        uf_view_count(&args->y) / args->y.extent[1] >= limit) {
        return false;
    }
    for (int axis = 0; axis < 2; ++axis) {
        if (args->x.extent[2 + axis] >= limit || args->y.extent[2 + axis] >= limit ||
            args->padding[axis] >= limit || args->stride[axis] >= limit ||
            (args->w.extent[2 + axis] - 1) * args->dilation[axis] >= limit ||
            args->y.extent[2 + axis] * args->stride[axis] >= 2 * limit) {
            return false;
        }
    }
    /* A TMA load that begins inside 16 bytes of the tensor is an illegal instruction. */
    const int64_t size = args->x.dtype == UF_BF16 ? 2 : 4;
    if (args->padding[1] * size % 16 != 0) {
        return false;
    }
    return args->x.extent[1] < limit && uf_channel_blocked_aligned(&args->x) &&
           uf_channel_blocked_aligned(&args->y);
}

/* A run is bound by MMAs (half a cycle per column, two for 32 bytes of y) or by the second-level
 * cache. At its end a CTA stores its sums, about ten cycles per 128 bytes; the reduction reads
 * them. */
static double cost_with(const uf_patch_wgrad_plan *plan, int64_t splits) {
    const double multiply =
        UF_PATCH_WGRAD_UNITS * plan->y_row / 32.0 * plan->width * 1.1 * plan->mmas;
    const double arrive = plan->stage_bytes / 26.0;
    const double sums = UF_PATCH_WGRAD_UNITS * 4.0 * UF_PATCH_WGRAD_COLUMNS * plan->width;
    const int64_t base = (int64_t)plan->groups * plan->k_blocks * plan->unit_blocks;
    return (double)uf_div_up(base * splits, MULTIPROCESSORS) *
               ((double)uf_div_up(plan->runs, splits) * (multiply > arrive ? multiply : arrive) +
                sums / 12.8 + 3000.0) +
           sums * (double)base * (double)splits / MULTIPROCESSORS / 13.0;
}

/* Cycles to compare widths: more arrives per cycle when nothing else does, and memory may be the
 * bound. Half the sums then outweigh that x is read twice. */
static double cost_of_width(const uf_patch_wgrad_plan *plan, int64_t bytes) {
    const double multiply =
        UF_PATCH_WGRAD_UNITS * plan->y_row / 32.0 * plan->width * 1.1 * plan->mmas;
    const double arrive = plan->stage_bytes / 45.0, memory = (double)bytes / MEMORY;
    const double sums = UF_PATCH_WGRAD_UNITS * 4.0 * UF_PATCH_WGRAD_COLUMNS * plan->width;
    const double waves = (double)uf_div_up(plan->blocks, MULTIPROCESSORS);
    const double each = (double)uf_div_up(plan->runs, plan->splits);
    const double sum = waves * each * (multiply > arrive ? multiply : arrive);
    return (sum > memory ? sum : memory) + waves * (sums / 12.8 + 3000.0) +
           sums * (double)plan->blocks / MULTIPROCESSORS / 13.0;
}

/* Whole waves, or as few splits as `LONGEST` allows. */
static double split(uf_patch_wgrad_plan *plan) {
    const int64_t base = (int64_t)plan->groups * plan->k_blocks * plan->unit_blocks;
    const int64_t least = uf_div_up(plan->runs, LONGEST / plan->pixels);
    const int64_t waves = uf_div_up(base * least, MULTIPROCESSORS);
    double best = -1.0;
    for (int64_t i = 0; i < 8; ++i) {
        int64_t splits = i == 0 ? least : (waves + i - 1) * MULTIPROCESSORS / base;
        splits = splits < least ? least : splits > plan->runs ? plan->runs : splits;
        const double total_cost = cost_with(plan, splits);
        if (best < 0.0 || total_cost < best) {
            best = total_cost;
            plan->splits = (int32_t)splits;
        }
    }
    plan->blocks = base * plan->splits;
    return best;
}

bool uf_patch_wgrad_plan_of(const uf_conv_kernel_args *given, uf_patch_wgrad_plan *made) {
    const uf_conv_kernel_args flat = uf_conv_flat(given), *args = &flat;
    if (!takes(args)) {
        return false;
    }
    uf_patch_wgrad_plan plan;
    memset(&plan, 0, sizeof plan);
    /* Long runs where they add no padding. */
    const int64_t size = args->y.dtype == UF_BF16 ? 2 : 4;
    plan.y_row = uf_div_up(args->y.extent[3] * size, 64) % 2 == 0 ? 128 : 64;
    plan.pixels = (int32_t)(plan.y_row / size);
    plan.rows = (int32_t)args->y.extent[2];
    plan.across = (int32_t)uf_div_up(args->y.extent[3], plan.pixels);
    plan.kernel_h = (int32_t)args->w.extent[2];
    plan.stride_h = (int32_t)args->stride[0];
    plan.dilation_h = (int32_t)args->dilation[0];
    plan.groups = (int32_t)args->groups;
    plan.k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    plan.c_per_group = (int32_t)args->w.extent[1];
    plan.wide = (int32_t)args->stride[1];
    plan.channels = UF_PATCH_WGRAD_COLUMNS / plan.wide;
    plan.chunks = (int32_t)uf_div_up(plan.c_per_group, plan.channels);
    plan.all_units = plan.chunks * plan.kernel_h;
    plan.unit_blocks = (int32_t)uf_div_up(plan.all_units, UF_PATCH_WGRAD_UNITS);
    const int64_t runs = args->y.extent[0] * plan.rows * plan.across;
    for (int axis = 0; axis < 2; ++axis) {
        plan.padding[axis] = (int32_t)args->padding[axis];
    }
    if (runs >= INT64_C(1) << 28) {
        return false;
    }
    plan.runs = (int32_t)runs;
    const bool fp32 = args->math == UF_MATH_FP32; /* y in two parts */
    const int64_t bytes = (uf_view_count(&args->x) + uf_view_count(&args->y)) * size;
    plan.mmas = fp32 ? 3 : 1;
    double best = -1.0, least = -1.0;
    for (int32_t width = 64; width <= (fp32 ? 64 : 128); width *= 2) {
        plan.width = width;
        plan.k_blocks = (int32_t)uf_div_up(plan.k_per_group, width);
        plan.stage_bytes =
            ((fp32 ? 2 : 1) * width + UF_PATCH_WGRAD_UNITS * UF_PATCH_WGRAD_COLUMNS) * plan.y_row;
        plan.shared = UF_PATCH_WGRAD_STAGES * 64 / plan.y_row * plan.stage_bytes + 2048;
        plan.pair = args->math == UF_MATH_TF32 && plan.k_blocks % 2 == 0 &&
                    plan.k_blocks >= LEAST_PAIRED && bytes <= CACHED && args->padding[0] == 0 &&
                    args->padding[1] == 0;
        const double cost = split(&plan);
        const double total_cost = cost_of_width(&plan, bytes);
        if (plan.blocks < INT64_C(1) << 30) {
            least = least < 0.0 || cost < least ? cost : least;
            if (best < 0.0 || total_cost < best) {
                best = total_cost;
                *made = plan;
            }
        }
    }
    if (best < 0.0) {
        return false;
    }
    made->cost = least;
    const double wanted = (double)args->w.extent[0] * (double)plan.c_per_group * plan.kernel_h *
                          plan.wide * (double)args->y.extent[3];
    const double mmas = (double)plan.groups * made->k_blocks * made->width * made->unit_blocks *
                        UF_PATCH_WGRAD_UNITS * UF_PATCH_WGRAD_COLUMNS * made->across * made->pixels;
    return 100.0 * wanted >= (fp32 ? LEAST_USE_FP32 : LEAST_USE) * mmas;
}

/* A view whose planes are one row each. */
static uf_view as_rows(const uf_view *view) {
    uf_view row = *view;
    row.extent[3] *= row.extent[2];
    row.extent[2] = 1;
    row.stride[2] = row.stride[1];
    row.stride[3] = 1;
    return row;
}

/* Can TMA load each plane as one row? */
static bool has_rows(const uf_view *view) {
    const uf_view row = as_rows(view);
    return (view->extent[2] <= 1 || view->stride[2] == view->extent[3]) &&
           (view->extent[3] <= 1 || view->stride[3] == 1) && (uintptr_t)view->data % 16 == 0 &&
           uf_channel_blocked_aligned(&row);
}

/* A copy: one row of whole 16 bytes per image and channel. */
static void lay_out(uf_view *view, int64_t n, int64_t channels, int64_t pixels, int64_t pitch) {
    const int64_t extent[] = {n, channels, 1, pixels};
    const int64_t stride[] = {channels * pitch, pitch, pitch, 1};
    for (int axis = 0; axis < 4; ++axis) {
        view->extent[axis] = extent[axis];
        view->stride[axis] = stride[axis];
    }
}

uf_conv_kernel_args uf_patch_wgrad_copied(const uf_conv_kernel_args *args,
                                          const uf_patch_wgrad_copies *copies) {
    uf_conv_kernel_args made = *args;
    const int64_t n = args->y.extent[0], taps = args->w.extent[2] * args->w.extent[3];
    const int64_t pixels = args->y.extent[2] * args->y.extent[3];
    lay_out(&made.x, n, args->x.extent[1] * taps, pixels, copies->pitch);
    if (copies->y) {
        lay_out(&made.y, n, args->y.extent[1], pixels, copies->pitch);
    } else {
        made.y = as_rows(&args->y);
    }
    made.w.extent[1] *= taps;
    made.w.extent[2] = made.w.extent[3] = 1;
    made.w.stride[1] = made.w.stride[2] = made.w.stride[3] = 1;
    made.stride[0] = made.stride[1] = made.dilation[0] = made.dilation[1] = 1;
    return made;
}

static bool copies_of(const uf_conv_kernel_args *args, uf_patch_wgrad_copies *copies) {
    const int64_t limit = INT64_C(1) << 28;
    const int64_t n = args->y.extent[0];
    const int64_t r = args->w.extent[2], s = args->w.extent[3];
    const int64_t pixels = args->y.extent[2] * args->y.extent[3];
    if ((args->x.dtype != UF_F32 && args->x.dtype != UF_BF16) || r < 1 || s < 1 || r >= limit ||
        s >= limit || r * s >= limit || r * s < LEAST_TAPS || (s > 1 && args->w.stride[3] != 1) ||
        (r > 1 && args->w.stride[2] != s) ||
        (args->w.extent[1] > 1 && args->w.stride[1] != r * s) || pixels < 1 || pixels >= limit ||
        args->x.extent[1] * r * s >= limit || args->y.extent[1] >= limit || n < 1 || n >= limit ||
        n * args->x.extent[1] * r * s >= MOST_COPIED / pixels ||
        n * args->y.extent[1] >= MOST_COPIED / pixels) {
        return false;
    }
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis];
        if (args->stride[axis] != kernel || args->padding[axis] != 0 ||
            (kernel > 1 && args->dilation[axis] != 1) ||
            args->x.extent[2 + axis] != args->y.extent[2 + axis] * kernel) {
            return false;
        }
    }
    const int64_t size = args->x.dtype == UF_BF16 ? 2 : 4;
    copies->pitch = uf_round_up(pixels * size, 16) / size;
    copies->y = !has_rows(&args->y);
    copies->x_bytes = (size_t)(n * args->x.extent[1] * r * s * copies->pitch * size);
    copies->y_bytes = (size_t)(n * args->y.extent[1] * copies->pitch * size);
    return true;
}

bool uf_patch_wgrad_conv_plan_of(const uf_conv_kernel_args *args, uf_patch_wgrad_conv_plan *plan) {
    uf_conv_kernel_args of = *args;
    memset(plan, 0, sizeof *plan);
    plan->copied = !uf_patch_wgrad_plan_of(args, &plan->tiles);
    if (plan->copied) {
        if (!copies_of(args, &plan->copies)) {
            return false;
        }
        of = uf_patch_wgrad_copied(args, &plan->copies);
        if (!uf_patch_wgrad_plan_of(&of, &plan->tiles)) {
            return false;
        }
    }
    plan->reduction =
        uf_channel_blocked_reduction_of(&of, plan->tiles.channels, plan->tiles.splits);
    /* Copies are written and read at about 2.3 KB a cycle. */
    plan->cost =
        plan->tiles.cost + (double)(plan->copies.x_bytes + plan->copies.y_bytes) * 3.0 / 2300.0;
    return true;
}

bool uf_patch_wgrad_ready(const uf_conv_kernel_args *args, const uf_patch_wgrad_conv_plan *plan) {
    return plan->copied || ((uintptr_t)args->x.data % 16 == 0 && (uintptr_t)args->y.data % 16 == 0);
}

bool uf_patch_wgrad_any_strides(const uf_patch_wgrad_conv_plan *plan) {
    return !plan->copied;
}

size_t uf_patch_wgrad_workspace(const uf_patch_wgrad_conv_plan *plan) {
    return uf_align_up(plan->copies.x_bytes) + uf_align_up(plan->copies.y_bytes) +
           uf_channel_blocked_sums_bytes(&plan->reduction);
}
