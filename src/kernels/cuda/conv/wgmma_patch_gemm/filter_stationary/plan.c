/* plan.c - tiles and limits of filter_stationary/launch.cu. */
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"

#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/geometry.h"

enum {
    PIECE = 8,       /* elements of 16 bytes */
    LIMIT = 1 << 28, /* extents, pixels and tiles: sums of a few stay int32_t */
    LEAST_ROUNDS = 3 /* tiles per CTA from which a cluster pays for its synchronisation */
};

/* One tap for each written element. */
static bool is_geometry(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *x = &args->x, *y = &args->y, *w = &args->w;
    const int64_t wide = w->extent[3], high = w->extent[2];
    const bool pointwise = wide == 1 && high == 1;
    if ((!pointwise && (wide != 2 || direction != UF_CONV_DGRAD)) || args->groups != 1 ||
        args->mode == UF_ACCUMULATE || high > LIMIT) {
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        if (args->stride[i] != w->extent[2 + i] || args->padding[i] != 0 ||
            (w->extent[2 + i] > 1 && args->dilation[i] != 1) || y->extent[2 + i] > LIMIT ||
            x->extent[2 + i] != y->extent[2 + i] * w->extent[2 + i]) {
            return false;
        }
    }
    return true;
}

/* True if steps along the first `axes` axes are multiples of 16 bytes and rows are dense. */
static bool is_spaced(const uf_view *view, int axes) {
    for (int axis = 0; axis < axes; ++axis) {
        const int64_t stride = view->stride[axis];
        if (view->extent[axis] > 1 &&
            (stride <= 0 || stride >= INT64_C(1) << 32 || stride % PIECE != 0)) {
            return false;
        }
    }
    return view->extent[3] == 1 || view->stride[3] == 1;
}

/* True if its planes are dense rows. */
static bool is_flat(const uf_view *view) {
    return (view->extent[2] == 1 || view->stride[2] == view->extent[3]) &&
           view->extent[2] * view->extent[3] % PIECE == 0 && is_spaced(view, 2);
}

static bool is_layout(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *read = direction == UF_CONV_DGRAD ? &args->y : &args->x;
    const uf_view *written = direction == UF_CONV_DGRAD ? &args->x : &args->y;
    /* A lane stores four pixels of one row as eight neighbours. */
    return is_flat(read) &&
           (args->w.extent[3] == 1 ? is_flat(written)
                                   : read->extent[3] % 4 == 0 && is_spaced(written, 3));
}

/* True if TMA can load it: a channel of y is dense, and channels begin at multiples of 16 bytes. */
static bool is_copied(const uf_view *w) {
    int64_t step = 1;
    for (int axis = 3; axis > 0; --axis) {
        if (w->extent[axis] > 1 && w->stride[axis] != step) {
            return false;
        }
        step *= w->extent[axis];
    }
    return w->extent[0] == 1 ||
           (w->stride[0] > 0 && w->stride[0] < INT64_C(1) << 32 && w->stride[0] % PIECE == 0);
}

/* 0: registers do not hold the weights of so many channels. */
static int32_t chunks_of(int64_t channels) {
#define UF_FILTER_STATIONARY_TILE(CHUNKS)                                                          \
    if (channels <= (CHUNKS)*UF_FILTER_STATIONARY_CHANNELS) {                                      \
        return (CHUNKS);                                                                           \
    }
    UF_FILTER_STATIONARY_TILES
#undef UF_FILTER_STATIONARY_TILE
    return 0;
}

/* Weights arrive, then MMAs or memory are the bound, or both a little. Mean error over 29 calls on
 * an H200: 8 %. */
static double cost_of(const uf_conv_kernel_args *args, const uf_filter_stationary_plan *plan) {
    const double bytes = 2.0 * (double)(uf_view_count(&args->x) + uf_view_count(&args->y));
    const double memory = bytes / (17.0 * UF_FILTER_STATIONARY_MULTIPROCESSORS);
    const double rounds = (double)uf_div_up(plan->tiles, plan->cta_group);
    const double groups = plan->by_turns ? 1 : UF_FILTER_STATIONARY_GROUPS;
    const double mmas = rounds * groups *
                        (1.15 * UF_FILTER_STATIONARY_CHANNELS / 16 *
                             (UF_FILTER_STATIONARY_PIXELS / 2) * plan->chunks +
                         250);
    const double rows =
        plan->rows < UF_FILTER_STATIONARY_ROWS ? plan->rows : UF_FILTER_STATIONARY_ROWS;
    const double gathered = plan->gathered ? rows * plan->conv.read_per_group / 3 : 0;
    return 4000 + 250.0 * plan->chunks + gathered + pow(pow(memory, 4) + pow(mmas, 4), 0.25);
}

bool uf_filter_stationary_is_aligned(const uf_conv_kernel_args *args) {
    return ((uintptr_t)args->x.data | (uintptr_t)args->y.data | (uintptr_t)args->w.data) % 16 == 0;
}

bool uf_filter_stationary_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                  uf_filter_stationary_plan *plan) {
    memset(plan, 0, sizeof *plan);
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x, *written = dgrad ? &args->x : &args->y;
    if (direction == UF_CONV_WGRAD || args->x.dtype != UF_BF16 || uf_view_count(read) == 0 ||
        uf_view_count(written) == 0 || !is_geometry(direction, args) ||
        !is_layout(direction, args)) {
        return false;
    }
    const int64_t plane = read->extent[2] * read->extent[3];
    const int32_t chunks = chunks_of(read->extent[1]);
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t image_tiles = uf_div_up(plane, UF_FILTER_STATIONARY_PIXELS);
    if (chunks == 0 || plane >= LIMIT || read->extent[0] * image_tiles >= LIMIT ||
        written->extent[1] >
            UF_FILTER_STATIONARY_MULTIPROCESSORS * UF_FILTER_STATIONARY_ROWS / taps) {
        return false;
    }
    uf_direct_describe(&plan->conv, args, dgrad);
    plan->wide = (int32_t)args->w.extent[3];
    plan->high = (int32_t)args->w.extent[2];
    plan->chunks = chunks;
    plan->rows = (int32_t)(written->extent[1] * taps);
    plan->parts = (int32_t)uf_div_up(plan->rows, UF_FILTER_STATIONARY_ROWS);
    plan->row = (int32_t)read->extent[3];
    plan->plane = (int32_t)plane;
    plan->image_tiles = (int32_t)image_tiles;
    plan->tiles = (int32_t)(read->extent[0] * image_tiles);
    plan->by_image = uf_direct_divisor_of(image_tiles);
    plan->by_row = uf_direct_divisor_of(read->extent[3]);
    plan->by_high = uf_direct_divisor_of(plan->high);
    plan->across = !dgrad;
    plan->gathered = !is_copied(&args->w);
    plan->plain = plan->conv.scale == NULL && plan->conv.shift == NULL &&
                  plan->conv.activation == UF_ACTIVATION_IDENTITY;
    const int32_t all = UF_FILTER_STATIONARY_MULTIPROCESSORS / plan->parts;
    plan->cta_group = plan->tiles < all ? plan->tiles : all;
    plan->blocks = plan->cta_group * plan->parts;
    plan->by_turns = plan->rows <= UF_FILTER_STATIONARY_ROWS / UF_FILTER_STATIONARY_GROUPS;
    plan->pair = plan->parts % 2 == 0 && plan->tiles >= LEAST_ROUNDS * plan->cta_group;
    plan->cost = cost_of(args, plan);
    return true;
}
