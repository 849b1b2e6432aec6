/* test_columns_plan.c - the plan of conv_columns against the definition: blocks that walk their
 * rows as the kernels do make every element once and from every product that is inside, windows
 * hold what a strip reads, and nothing meets in shared memory. Needs no GPU. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv_columns_plan.h"
#include "support/random.h"

enum {
    CASES = 3000,
    LARGE_CASES = 2000,
    PLACES = 64, /* looked at in a plan that is too large to be walked */
    PIXELS = UF_COLUMNS_PIXELS,
    FILTER = UF_COLUMNS_FILTER,
    STRIDE = UF_COLUMNS_STRIDE,
    TAPS = FILTER * FILTER,
    LANES = 32,
    PIECE = 16,          /* bytes: what shared memory is counted in here, and a vector */
    WINDOW_AT = 128,     /* a box begins at a multiple of this, one with exchanges at ALIGN */
    BYTES_COME = 1 << 20 /* less than this is what a barrier counts */
};

/* Bits of what takes some arguments. */
enum { FPROP = 1 << UF_CONV_FPROP, DGRAD = 1 << UF_CONV_DGRAD, WGRAD = 1 << UF_CONV_WGRAD };
enum { ALL = FPROP | DGRAD | WGRAD };

static int64_t divide(const uf_direct_divisor *by, int64_t x) {
    const uint64_t high = (uint64_t)x * by->multiplier >> 32;
    return by->divisor == 1 ? x : (int64_t)(high >> by->shift);
}

/* All of w comes in vectors, in which threads find k, c, r and s of each element by its number; or
 * there are none of these. */
static void check_vectors(const uf_conv_kernel_args *args, const uf_columns_plan *plan) {
    const uf_view *w = &args->w;
    const int64_t count = uf_view_count(w), elements = PIECE / (int64_t)uf_dtype_size(w->dtype);
    bool whole = (uintptr_t)w->data % PIECE == 0 && count % elements == 0;
    for (int64_t i = 0; whole && i < count; ++i) {
        const int64_t filter = divide(&plan->by_taps, i), tap = i - filter * plan->by_taps.divisor;
        const int64_t r = divide(&plan->by_filter_row, tap);
        const int64_t s = tap - r * plan->by_filter_row.divisor;
        const int64_t k = filter / w->extent[1], c = filter % w->extent[1];
        whole = k * w->stride[0] + c * w->stride[1] + r * w->stride[2] + s * w->stride[3] == i;
    }
    assert_int_equal(plan->weight_vectors, whole ? count / elements : 0);
}

static int taken_by(const uf_conv_kernel_args *args) {
    int taken = 0;
    for (int direction = UF_CONV_FPROP; direction <= UF_CONV_WGRAD; ++direction) {
        uf_columns_plan plan;
        if (uf_columns_plan_of((uf_conv_direction)direction, args, &plan)) {
            taken |= 1 << direction;
            check_vectors(args, &plan);
        }
    }
    return taken;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* A dense view but for rows that are `row` elements apart. */
static uf_view view_of(uf_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, int64_t row) {
    uf_view view = uf_view_nchw((void *)4096, dtype, n, c, h, w);
    view.stride[2] = row;
    view.stride[1] = row * h;
    view.stride[0] = row * h * c;
    return view;
}

/* Rows as far apart as tensor copies want them, or, now and then, as the row is long. */
static int64_t random_row(test_random *random, uf_dtype dtype, int64_t columns) {
    const int64_t unit = PIECE / (int64_t)uf_dtype_size(dtype);
    const int64_t more = test_random_one_in(random, 4) ? unit : 0;
    return test_random_one_in(random, 8) ? columns : round_up(columns, unit) + more;
}

/* Layers that the plan takes, or nearly. */
static uf_conv_kernel_args random_layer(test_random *random, uf_conv_direction direction) {
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    const bool dgrad = direction == UF_CONV_DGRAD, wgrad = direction == UF_CONV_WGRAD;
    const uf_dtype dtype = test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t n = test_random_log(random, 1, 100);
    const int64_t c = test_random_integer(random, 1, UF_COLUMNS_LARGE + 1);
    const int64_t k = test_random_one_in(random, 4)
                          ? test_random_integer(random, UF_COLUMNS_SMALL - 1, UF_COLUMNS_SMALL + 1)
                          : test_random_integer(random, 1, UF_COLUMNS_SMALL);
    /* fprop wants rows of whole sixteens of bytes. */
    const int64_t piece = test_random_one_in(random, 4) ? 1 : 8;
    const int64_t small[2] = {test_random_log(random, 1, 30),
                              dgrad ? test_random_integer(random, 1, PIXELS + 1)
                                    : piece * test_random_log(random, 1, 3 * PIXELS / piece)};
    int64_t large[2], kernel[2];
    args.groups = test_random_one_in(random, 40) ? 2 : 1;
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = test_random_one_in(random, 20) ? test_random_integer(random, 1, 3) : 2;
        args.dilation[axis] = test_random_one_in(random, 20) ? 2 : 1;
        kernel[axis] = test_random_one_in(random, 20) ? test_random_integer(random, 2, 5)
                                                      : test_random_integer(random, 3, 4);
        args.padding[axis] = test_random_integer(random, 0, 5);
        const int64_t more = test_random_integer(random, 0, args.stride[axis] - 1);
        do {
            large[axis] = (small[axis] - 1) * args.stride[axis] - 2 * args.padding[axis] +
                          (kernel[axis] - 1) * args.dilation[axis] + 1 + more;
        } while (large[axis] < 1 && args.padding[axis]-- > 0);
    }
    args.x =
        view_of(dtype, n, c * args.groups, large[0], large[1], random_row(random, dtype, large[1]));
    args.w = view_of(dtype, k * args.groups, c, kernel[0], kernel[1],
                     kernel[1] + (test_random_one_in(random, 8) ? 4 : 0));
    args.y =
        view_of(dtype, n, k * args.groups, small[0], small[1], random_row(random, dtype, small[1]));
    args.x.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 20) ? 4 : 0));
    args.y.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 20) ? 4 : 0));
    args.w.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 8) ? 4 : 0));
    args.math = dtype == UF_BF16 || test_random_one_in(random, 20)
                    ? (uf_math)test_random_integer(random, 0, 2)
                    : (uf_math)test_random_integer(random, 0, 1);
    if (test_random_one_in(random, wgrad ? 2 : 20)) {
        args.mode = UF_ACCUMULATE;
    } else if (!wgrad) {
        args.epilogue.activation.kind =
            test_random_one_in(random, 2) ? UF_ACTIVATION_TANH : UF_ACTIVATION_IDENTITY;
        args.epilogue.scale.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
        args.epilogue.shift.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
    }
    return args;
}

static void check_copied(const uf_view *view) {
    const int64_t element = (int64_t)uf_dtype_size(view->dtype);
    assert_int_equal(view->stride[3], 1);
    for (int axis = 0; axis < 3; ++axis) {
        assert_true(view->extent[axis] == 1 || view->stride[axis] * element % PIECE == 0);
    }
}

/* Whatever is taken is something that the kernels can do. */
static void check_taken(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        const uf_columns_plan *plan) {
    const bool dgrad = direction == UF_CONV_DGRAD, wgrad = direction == UF_CONV_WGRAD;
    const uf_view *x = &args->x, *y = &args->y, *w = &args->w;
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(args->stride[axis], STRIDE);
        assert_int_equal(args->dilation[axis], 1);
        assert_true(w->extent[2 + axis] >= FILTER - 1 && w->extent[2 + axis] <= FILTER);
        assert_int_equal(plan->conv.kernel[axis], w->extent[2 + axis]);
        assert_int_equal(plan->conv.padding[axis], args->padding[axis]);
        assert_int_equal(plan->conv.axis[axis].read, (dgrad ? y : x)->extent[2 + axis]);
        assert_int_equal(plan->conv.axis[axis].written, (dgrad ? x : y)->extent[2 + axis]);
    }
    assert_int_equal(args->groups, 1);
    assert_true(y->extent[1] <= UF_COLUMNS_SMALL && x->extent[1] <= UF_COLUMNS_LARGE);
    assert_int_equal(plan->channels, x->extent[1]);
    assert_int_equal(plan->conv.dgrad, dgrad);
    assert_true(wgrad || args->mode == UF_OVERWRITE);
    assert_true(x->dtype == UF_BF16 || args->math != UF_MATH_BF16);
    assert_int_equal(plan->scaled,
                     args->epilogue.scale.data != NULL || args->epilogue.shift.data != NULL);
    check_copied(y);
    check_copied(dgrad ? y : x);
    check_vectors(args, plan);
}

/* Units of a block, and where they are: what the kernels do. */
typedef struct columns_place {
    int64_t n, row, strip;
} columns_place;

static columns_place place_of(const uf_columns_plan *plan, int64_t unit) {
    const int64_t rows = divide(&plan->by_strips, unit);
    const int64_t n = divide(&plan->by_rows, rows);
    return (columns_place){n, rows - n * plan->rows, unit - rows * plan->strips};
}

static int64_t first_of(const uf_columns_plan *plan, int64_t block) {
    return block * plan->units / plan->blocks;
}

/* Rows, strips and blocks, of any size. */
static void check_units(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        const uf_columns_plan *plan, test_random *random) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t written = (dgrad ? &args->x : &args->y)->extent[2];
    if (dgrad) {
        /* Cells of STRIDE rows of x, from the padding's first on: the last row is in the last cell,
         * and so is every column in a pair that a pixel of y makes. */
        assert_true((int64_t)STRIDE * plan->rows - args->padding[0] >= written);
        assert_true((int64_t)STRIDE * (plan->rows - 1) - args->padding[0] < written);
        assert_true(args->padding[1] >= 1 && args->y.extent[3] <= PIXELS);
        assert_true(args->x.extent[3] - 1 + args->padding[1] <= STRIDE * args->y.extent[3]);
        assert_int_equal(plan->strips, 1);
    } else {
        assert_int_equal(plan->rows, written);
        assert_true((int64_t)plan->strips * PIXELS >= args->y.extent[3]);
        assert_true((int64_t)(plan->strips - 1) * PIXELS < args->y.extent[3]);
        /* Windows begin at multiples of 16 bytes, not more than that before their first tap. */
        const int64_t piece = PIECE / (int64_t)uf_dtype_size(args->x.dtype);
        assert_true(plan->window_shift >= 0 && plan->window_shift < piece);
        assert_int_equal((args->padding[1] + plan->window_shift) % piece, 0);
    }
    const int64_t image = (int64_t)plan->rows * plan->strips;
    assert_int_equal(plan->units, args->y.extent[0] * image);
    assert_true(plan->blocks >= 1 && plan->blocks <= UF_COLUMNS_MULTIPROCESSORS * plan->resident);
    assert_true(plan->blocks <= plan->units);
    assert_int_equal(first_of(plan, plan->blocks), plan->units);
    /* A unit and stages of all rings beyond it are counted in 32 bits. */
    assert_true((int64_t)plan->units + plan->rings * (UF_COLUMNS_STAGES + 1) <= INT32_MAX);
    for (int i = 0; i < PLACES; ++i) {
        int64_t unit = test_random_integer(random, 0, plan->units - 1);
        if (i % 2 == 0) { /* around the begin of an image, or of a row */
            const int64_t run = i % 4 == 0 ? image : plan->strips;
            unit = unit / run * run - test_random_integer(random, 0, 1);
            unit = unit < 0 ? plan->units - 1 : unit;
        }
        const columns_place at = place_of(plan, unit);
        assert_int_equal(at.n, unit / image);
        assert_int_equal(at.row, unit % image / plan->strips);
        assert_int_equal(at.strip, unit % plan->strips);
    }
    assert_true(isfinite(plan->clocks) && plan->clocks > 0);
}

/* A piece is somebody's alone. */
static void claim(uint8_t *used, int64_t begin, int64_t bytes, const uf_columns_plan *plan) {
    assert_int_equal(begin % PIECE, 0);
    assert_true(begin >= 0 && bytes >= 0 && begin + bytes <= (int64_t)plan->shared);
    for (int64_t i = begin / PIECE; i < (begin + bytes + PIECE - 1) / PIECE; ++i) {
        assert_int_equal(used[i], 0);
        used[i] = 1;
    }
}

static void check_shared(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         const uf_columns_plan *plan) {
    static uint8_t used[UF_COLUMNS_WGRAD_SHARED / PIECE];
    const bool fprop = direction == UF_CONV_FPROP, dgrad = direction == UF_CONV_DGRAD;
    const bool wgrad = direction == UF_CONV_WGRAD, bf16 = args->x.dtype == UF_BF16;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int64_t tile = UF_COLUMNS_SMALL * PIXELS * element;
    const int64_t window = args->x.extent[1] * FILTER * UF_COLUMNS_WINDOW * element;
    const int64_t columns = args->x.extent[1] * TAPS;
    const int64_t warps = bf16 ? UF_COLUMNS_BF16_WARPS : UF_COLUMNS_F32_WARPS;
    assert_int_equal(plan->warps, wgrad ? UF_COLUMNS_WGRAD_WARPS : warps);
    const int32_t share = wgrad && !bf16 && args->math == UF_MATH_FP32 ? UF_COLUMNS_WGRAD_SHARE : 1;
    assert_int_equal(plan->rings, plan->warps / share);
    assert_int_equal(plan->resident, wgrad ? UF_COLUMNS_WGRAD_RESIDENT : UF_COLUMNS_RESIDENT);
    assert_true(plan->shared <= (wgrad ? UF_COLUMNS_WGRAD_SHARED : UF_COLUMNS_SHARED));
    /* Of 228 KB that a multiprocessor has, each block takes one more. */
    assert_true((size_t)plan->resident * (plan->shared + 1024) <= 228 * 1024);
    /* Barriers of pieces of stages and of what is kept, and a written channel's scale and shift
     * from each thread. */
    const int64_t barriers =
        dgrad ? UF_COLUMNS_STAGES * UF_COLUMNS_PIECES + 2 : UF_COLUMNS_STAGES * 2;
    const int64_t ways = dgrad ? UF_COLUMNS_LARGE : fprop ? UF_COLUMNS_SMALL : 0;
    assert_true(plan->warps * barriers + ways <= UF_COLUMNS_HEAD / 8);
    assert_true(ways <= LANES * plan->warps);
    /* Exchanges of 16-byte pieces are the same in each box. */
    assert_int_equal(tile / UF_COLUMNS_PIECES % UF_COLUMNS_ALIGN, 0);
    memset(used, 0, sizeof used);
    claim(used, 0, UF_COLUMNS_HEAD, plan);
    /* A barrier waits for as many bytes as boxes have. */
    assert_int_equal(plan->tile_bytes, fprop ? 0 : tile);
    assert_int_equal(plan->window_bytes, dgrad ? 0 : window);
    assert_true(plan->tile_bytes + plan->window_bytes <= plan->stage_bytes);
    assert_true(plan->tile_bytes + plan->window_bytes < BYTES_COME);
    assert_true(plan->stages >= 2 && plan->stages <= UF_COLUMNS_STAGES);
    for (int64_t stage = 0; stage < (int64_t)plan->rings * plan->stages; ++stage) {
        const int64_t at = UF_COLUMNS_HEAD + stage * plan->stage_bytes;
        claim(used, at, plan->stage_bytes, plan);
        assert_true(plan->tile_bytes == 0 || at % UF_COLUMNS_ALIGN == 0);
        assert_true(plan->window_bytes == 0 || (at + plan->tile_bytes) % WINDOW_AT == 0);
    }
    /* What all warps keep, and before that all of w, until it is as products have it. */
    const int64_t kept = (int64_t)plan->warps * plan->kept_bytes;
    const int64_t scratch = wgrad ? 0 : UF_COLUMNS_SCRATCH(args->x.extent[1], element);
    assert_true(wgrad || scratch > UF_COLUMNS_SMALL * columns * element); /* rows apart */
    claim(used, plan->kept_at, kept > scratch ? kept : scratch, plan);
    assert_int_equal(plan->kept_at % UF_COLUMNS_ALIGN, 0);
    if (wgrad) { /* sums of all rings take the place of the stages in the end */
        assert_true(columns * UF_COLUMNS_SMALL * 4 <= (int64_t)plan->stages * plan->stage_bytes);
    } else if (fprop) { /* rows on their way out, with exchanges */
        assert_int_equal(plan->kept_bytes, (plan->kept_tiles > 1 ? 2 : 1) * tile);
        assert_int_equal(tile % UF_COLUMNS_ALIGN, 0);
    } else { /* sums of the filter's last two rows, in f32 */
        assert_true(plan->kept_bytes >= columns / 2 * PIXELS * 4);
        assert_int_equal(plan->kept_bytes % PIECE, 0);
    }
    if (!wgrad && !bf16 && args->math == UF_MATH_FP32) { /* both halves of w */
        claim(used, plan->weight_at, columns * UF_COLUMNS_SMALL * 2 * 4, plan);
    }
    assert_int_equal(used[plan->shared / PIECE - 1], 1); /* nothing is asked for in vain */
}

/* Numbers that no two places share, so that a sum tells which products it is of. */
static int64_t number(int64_t a, int64_t b, int64_t c) {
    const uint64_t place = (uint64_t)a << 40 ^ (uint64_t)b << 20 ^ (uint64_t)c;
    return (int64_t)((place + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 44);
}

static bool is_inside(const uf_view *view, int64_t h, int64_t w) {
    return h >= 0 && h < view->extent[2] && w >= 0 && w < view->extent[3];
}

/* The first channel stands for all; what lies outside is zero. */
static int64_t pixel(const uf_view *view, int64_t n, int64_t h, int64_t w) {
    assert_true(n >= 0 && n < view->extent[0]);
    return is_inside(view, h, w) ? number(n, h, w) : 0;
}

static int64_t tap(const uf_view *w, int64_t r, int64_t s) {
    return is_inside(w, r, s) ? number(1 << 20, r, s) : 0;
}

static int64_t place_in(const uf_view *view, int64_t n, int64_t h, int64_t w) {
    return (n * view->extent[2] + h) * view->extent[3] + w;
}

/* What a kernel writes: sums, and how often. */
typedef struct result {
    int64_t *sum;
    uint8_t *times;
} result;

typedef int64_t row_products[FILTER][PIXELS][FILTER]; /* by r, pixel, s */

static void multiply(const uf_conv_kernel_args *args, const columns_place *at, row_products made) {
    for (int64_t w = 0; w < PIXELS; ++w) {
        const int64_t value = pixel(&args->y, at->n, at->row, w);
        for (int64_t i = 0; i < TAPS; ++i) {
            made[i / FILTER][w][i % FILTER] = value * tap(&args->w, i / FILTER, i % FILTER);
        }
    }
}

static void write(const result *to, int64_t on, int64_t sum) {
    to->sum[on] = sum;
    ++to->times[on];
}

/* Pixel w makes columns 2w + 1 and 2w + 2 of x, counted from the padding's first, with what its
 * neighbours have for them. */
static void emit(const uf_conv_kernel_args *args, const columns_place *at, row_products made,
                 const result *to) {
    for (int64_t i = 0; i < STRIDE * PIXELS; ++i) {
        const int64_t r = i / PIXELS, w = i % PIXELS;
        const int64_t h = STRIDE * at->row + r - args->padding[0];
        const int64_t column = STRIDE * w + 1 - args->padding[1];
        if (is_inside(&args->x, h, column)) {
            write(to, place_in(&args->x, at->n, h, column),
                  made[r][w][1] + (w > 0 ? made[r][w - 1][3] : 0));
        }
        if (is_inside(&args->x, h, column + 1)) {
            write(to, place_in(&args->x, at->n, h, column + 1),
                  made[r][w][2] + (w + 1 < PIXELS ? made[r][w + 1][0] : 0));
        }
    }
}

static void walk_dgrad(const uf_conv_kernel_args *args, const uf_columns_plan *plan,
                       const result *to) {
    static row_products made;
    static int64_t kept[FILTER - STRIDE][PIXELS][FILTER];
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t first = first_of(plan, block), end = first_of(plan, block + 1);
        const int64_t begin = first - (place_of(plan, first).row > 0 ? 1 : 0);
        assert_true(end > first);
        for (int64_t unit = begin; unit < end; ++unit) {
            const columns_place at = place_of(plan, unit);
            assert_true(at.row < plan->rows);
            multiply(args, &at, made);
            if (at.row > 0 && unit > begin) {
                for (int64_t i = 0; i < PIXELS * FILTER; ++i) {
                    for (int64_t r = 0; r < STRIDE; ++r) {
                        made[r][i / FILTER][i % FILTER] += kept[r][i / FILTER][i % FILTER];
                    }
                }
            }
            memcpy(kept, made[STRIDE], sizeof kept);
            if (unit >= first) {
                emit(args, &at, made, to);
            }
        }
    }
}

/* fprop and wgrad: rows of a strip and their windows. */
static void walk_windows(const uf_conv_kernel_args *args, const uf_columns_plan *plan, bool wgrad,
                         const result *to) {
    const uf_view *y = &args->y;
    static int64_t window[FILTER][UF_COLUMNS_WINDOW];
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t first = first_of(plan, block), end = first_of(plan, block + 1);
        assert_true(end > first);
        for (int64_t unit = first; unit < end; ++unit) {
            const columns_place at = place_of(plan, unit);
            const int64_t column = at.strip * PIXELS;
            const int64_t begin = column * STRIDE - args->padding[1] - plan->window_shift;
            assert_true(at.row < plan->rows && at.strip < plan->strips);
            for (int64_t i = 0; i < FILTER * UF_COLUMNS_WINDOW; ++i) {
                const int64_t r = i / UF_COLUMNS_WINDOW, on = i % UF_COLUMNS_WINDOW;
                window[r][on] =
                    pixel(&args->x, at.n, at.row * STRIDE - args->padding[0] + r, begin + on);
            }
            for (int64_t w = 0; w < PIXELS; ++w) {
                const int64_t value = pixel(y, at.n, at.row, column + w);
                int64_t sum = 0;
                for (int64_t i = 0; i < TAPS; ++i) {
                    const int64_t r = i / FILTER, s = i % FILTER;
                    const int64_t on = plan->window_shift + STRIDE * w + s;
                    assert_true(on / 2 + 1 < UF_COLUMNS_WINDOW / 2); /* bf16: two words */
                    sum += window[r][on] * tap(&args->w, r, s);
                    if (wgrad && is_inside(&args->w, r, s)) {
                        to->sum[i] += window[r][on] * value;
                    }
                }
                if (!wgrad && column + w < y->extent[3]) {
                    write(to, place_in(y, at.n, at.row, column + w), sum);
                }
            }
        }
    }
}

/* The products as kernels.h has them. */
static void define(uf_conv_direction direction, const uf_conv_kernel_args *args, int64_t *sum) {
    const uf_view *x = &args->x, *y = &args->y;
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t count = y->extent[0] * y->extent[2] * y->extent[3] * taps;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t on = i / taps, r = i % taps / args->w.extent[3], s = i % args->w.extent[3];
        const int64_t q = on % y->extent[3], p = on / y->extent[3] % y->extent[2];
        const int64_t n = on / y->extent[3] / y->extent[2];
        const int64_t h = p * args->stride[0] - args->padding[0] + r * args->dilation[0];
        const int64_t w = q * args->stride[1] - args->padding[1] + s * args->dilation[1];
        if (direction == UF_CONV_FPROP) {
            sum[on] += pixel(x, n, h, w) * tap(&args->w, r, s);
        } else if (direction == UF_CONV_WGRAD) {
            sum[r * FILTER + s] += pixel(x, n, h, w) * pixel(y, n, p, q);
        } else if (is_inside(x, h, w)) {
            sum[place_in(x, n, h, w)] += pixel(y, n, p, q) * tap(&args->w, r, s);
        }
    }
}

static void check_walk(uf_conv_direction direction, const uf_conv_kernel_args *args,
                       const uf_columns_plan *plan) {
    const bool wgrad = direction == UF_CONV_WGRAD;
    const int64_t *extent = (direction == UF_CONV_DGRAD ? &args->x : &args->y)->extent;
    const int64_t count = wgrad ? TAPS : extent[0] * extent[2] * extent[3];
    const result made = {calloc((size_t)count, sizeof *made.sum), calloc((size_t)count, 1)};
    int64_t *const expected = calloc((size_t)count, sizeof *expected);
    assert_true(made.sum != NULL && made.times != NULL && expected != NULL);
    if (direction == UF_CONV_DGRAD) {
        walk_dgrad(args, plan, &made);
    } else {
        walk_windows(args, plan, wgrad, &made);
    }
    define(direction, args, expected);
    for (int64_t i = 0; i < count; ++i) {
        assert_int_equal(made.sum[i], expected[i]);
        assert_true(wgrad || made.times[i] == 1);
    }
    free(made.sum);
    free(made.times);
    free(expected);
}

/* Constants among themselves, and with what tensor copies and lanes can do. */
static void test_constants(void **state) {
    (void)state;
    assert_true(UF_COLUMNS_WINDOW <= 256 && UF_COLUMNS_SMALL <= 256); /* of a box, at most */
    /* Windows of all strips begin and end at multiples of 16 bytes if the first one does. */
    assert_true(STRIDE * PIXELS * 2 % PIECE == 0 && UF_COLUMNS_WINDOW * 2 % PIECE == 0);
    assert_int_equal(FILTER, 2 * STRIDE); /* a row meets the one before it, and no other */
    assert_int_equal(PIXELS, LANES);      /* rows of y: exchanges of 64 bytes, in f32 of 128 */
    assert_int_equal(UF_COLUMNS_SMALL % 16, 0);
}

static void test_plans(void **state) {
    (void)state;
    long long taken[3] = {0}, refused[3] = {0}, maths[3][3] = {{0}};
    long long strips = 0, turns = 0, split = 0, more = 0, fewer = 0, unequal = 0, vectors = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("columns_plan", i);
        const uf_conv_direction direction = (uf_conv_direction)(i % 3);
        const uf_conv_kernel_args args = random_layer(&random, direction);
        uf_columns_plan plan;
        if (!uf_columns_plan_of(direction, &args, &plan)) {
            ++refused[direction];
            continue;
        }
        check_taken(direction, &args, &plan);
        check_units(direction, &args, &plan, &random);
        check_shared(direction, &args, &plan);
        check_walk(direction, &args, &plan);
        ++taken[direction];
        ++maths[direction][args.x.dtype == UF_BF16 ? UF_MATH_BF16 : args.math];
        strips += plan.strips > 1;
        /* All rings of a block take turns; a block begins within an image. */
        turns += plan.units > plan.blocks * plan.rings;
        split += direction == UF_CONV_DGRAD && plan.blocks > 1 && plan.rows > 1;
        more += direction == UF_CONV_DGRAD && plan.rows > args.y.extent[2];
        fewer += direction == UF_CONV_DGRAD && plan.rows < args.y.extent[2];
        unequal += args.w.extent[2] != args.w.extent[3];
        vectors += plan.weight_vectors > 0;
    }
    for (int direction = UF_CONV_FPROP; direction <= UF_CONV_WGRAD; ++direction) {
        print_message("direction %d: %lld taken, %lld not; fp32 %lld, tf32 %lld, bf16 %lld\n",
                      direction, taken[direction], refused[direction],
                      maths[direction][UF_MATH_FP32], maths[direction][UF_MATH_TF32],
                      maths[direction][UF_MATH_BF16]);
        assert_true(taken[direction] > CASES / 20 && refused[direction] > CASES / 20);
        for (int math = 0; math < 3; ++math) {
            assert_true(maths[direction][math] > CASES / 200);
        }
    }
    print_message("strips %lld, turns %lld, split images %lld, rows more %lld and fewer %lld than "
                  "y's, filters unequal %lld, vectors %lld\n",
                  strips, turns, split, more, fewer, unequal, vectors);
    assert_true(strips > 0 && turns > 0 && split > 0 && vectors > 0);
    assert_true(more > 0 && fewer > 0 && unequal > 0);
}

/* Too many to be walked: where some of them are. */
static void test_large(void **state) {
    (void)state;
    int64_t taken = 0, largest = 0;
    for (int i = 0; i < LARGE_CASES; ++i) {
        test_random random = test_random_for("columns_plan_large", i);
        const uf_conv_direction direction = (uf_conv_direction)(i % 3);
        const bool dgrad = direction == UF_CONV_DGRAD;
        const uf_dtype dtype = test_random_one_in(&random, 2) ? UF_BF16 : UF_F32;
        const int64_t n = test_random_log(&random, 1, 1 << 22);
        const int64_t rows = test_random_log(&random, 1, 1 << 22);
        const int64_t columns =
            dgrad ? test_random_integer(&random, 2, PIXELS) : test_random_log(&random, 2, 1 << 12);
        const int64_t row = round_up(columns, PIECE / (int64_t)uf_dtype_size(dtype));
        uf_conv_kernel_args args = {.stride = {STRIDE, STRIDE},
                                    .padding = {test_random_integer(&random, 0, 3), 1},
                                    .dilation = {1, 1},
                                    .groups = 1,
                                    .math = UF_MATH_TF32};
        args.x = view_of(dtype, n, 1, STRIDE * rows, STRIDE * columns, STRIDE * row);
        args.w = uf_view_nchw((void *)4096, dtype, 1, 1, FILTER, FILTER);
        args.y = view_of(dtype, n, 1, rows, columns, row);
        uf_columns_plan plan;
        if (uf_columns_plan_of(direction, &args, &plan)) {
            check_taken(direction, &args, &plan);
            check_units(direction, &args, &plan, &random);
            ++taken;
            largest = plan.units > largest ? plan.units : largest;
        }
    }
    print_message("%lld plans, of up to %lld units\n", (long long)taken, (long long)largest);
    assert_true(taken > LARGE_CASES / 4 && largest > 1 << 29);
}

/* A generator's last layer and a discriminator's first. Rows are further apart than they are long:
 * one column more is no other stride. */
static uf_conv_kernel_args base_of(uf_dtype dtype) {
    uf_conv_kernel_args args = {.stride = {STRIDE, STRIDE},
                                .padding = {1, 1},
                                .dilation = {1, 1},
                                .groups = 1,
                                .math = UF_MATH_TF32};
    args.x = view_of(dtype, 5, 3, 64, STRIDE * PIXELS, STRIDE * PIXELS + 32);
    args.w = uf_view_nchw((void *)4096, dtype, UF_COLUMNS_SMALL, 3, FILTER, FILTER);
    args.y = view_of(dtype, 5, UF_COLUMNS_SMALL, 32, PIXELS, PIXELS + 16);
    return args;
}

static void test_takes(void **state) {
    (void)state;
    for (int type = 0; type < 2; ++type) {
        const uf_dtype dtype = type == 0 ? UF_BF16 : UF_F32;
        for (int64_t filter = FILTER - 1; filter <= FILTER; ++filter) {
            for (int64_t c = 1; c <= UF_COLUMNS_LARGE; ++c) {
                for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
                    uf_conv_kernel_args args = base_of(dtype);
                    args.x = uf_view_nchw((void *)4096, dtype, 128, c, 64, 64);
                    args.w = uf_view_nchw((void *)4096, dtype, 64, c, filter, filter);
                    args.y = uf_view_nchw((void *)4096, dtype, 128, 64, 32, 32);
                    args.math = (uf_math)math;
                    const bool f32 = dtype == UF_F32;
                    const int expected = f32 && math == UF_MATH_BF16 ? 0 : ALL;
                    /* Both halves of all weights leave dgrad little room: it may refuse. */
                    const bool tight = f32 && math == UF_MATH_FP32 && c == UF_COLUMNS_LARGE;
                    assert_int_equal(taken_by(&args) | (tight ? DGRAD : 0), expected);
                }
            }
        }
    }
}

/* Who takes `base` with this change to `args`. */
#define TAKEN_WITH(change, by)                                                                     \
    do {                                                                                           \
        uf_conv_kernel_args args = *base;                                                          \
        change;                                                                                    \
        assert_int_equal(taken_by(&args), by);                                                     \
    } while (0)

/* Each of these changes has one reason to be refused, in some directions or in all, or none. */
static void check_geometry(const uf_conv_kernel_args *base) {
    const int64_t columns = STRIDE * PIXELS + 1; /* of x and the padding before it, at most */
    const int64_t images = (INT64_C(1) << 30) / base->y.extent[2];
    TAKEN_WITH((void)args, ALL);
    for (int axis = 0; axis < 2; ++axis) {
        TAKEN_WITH(args.stride[axis] = 1, 0);
        TAKEN_WITH(args.stride[axis] = 3, 0);
        TAKEN_WITH(args.dilation[axis] = 2, 0);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER - 2, 0);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER - 1, ALL);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER + 1, 0);
        TAKEN_WITH(args.padding[axis] = INT64_C(1) << 31, 0); /* positions beyond 32 bits */
        TAKEN_WITH(args.x.extent[2 + axis] = INT64_C(1) << 31, 0);
    }
    TAKEN_WITH(args.groups = 2, 0);
    TAKEN_WITH(args.y.extent[1] = UF_COLUMNS_SMALL + 1, 0);
    TAKEN_WITH(args.x.extent[1] = UF_COLUMNS_LARGE + 1, 0);
    /* dgrad: a row of y is one strip, whose pixels make pairs of columns from the padding's second
     * on. */
    TAKEN_WITH(args.y.extent[3] = PIXELS + PIECE, FPROP | WGRAD);
    /* Rows that end within 16 bytes. */
    TAKEN_WITH(args.y.extent[3] -= 1; args.x.extent[3] -= STRIDE, DGRAD | WGRAD);
    TAKEN_WITH(args.padding[1] = 0, FPROP | WGRAD);
    for (int64_t padding = 1; padding <= 3; ++padding) {
        TAKEN_WITH(args.padding[1] = padding; args.x.extent[3] = columns - padding, ALL);
        TAKEN_WITH(args.padding[1] = padding;
                   args.x.extent[3] = columns + 1 - padding, FPROP | WGRAD);
    }
    TAKEN_WITH(args.x.extent[2] += 5, ALL); /* rows that nothing reaches are zeros */
    /* Units are counted in 30 bits. */
    TAKEN_WITH(args.x.extent[0] = args.y.extent[0] = images, 0);
    TAKEN_WITH(args.x.extent[0] = args.y.extent[0] = images - 1; args.x.extent[2] -= 3, ALL);
}

static void check_views(const uf_conv_kernel_args *base) {
    const int64_t element = (int64_t)uf_dtype_size(base->x.dtype);
    for (int axis = 0; axis < 4; ++axis) {
        /* Rows, channels and images at multiples of 16 bytes, columns neighbours. */
        TAKEN_WITH(args.y.stride[axis] += 1, 0);
        TAKEN_WITH(args.x.stride[axis] += 1, DGRAD);
        /* Tensor copies go neither backwards nor nowhere, nor that far. */
        const int64_t none[] = {-PIECE, 0, INT64_C(1) << 32};
        for (int i = 0; i < 3; ++i) {
            TAKEN_WITH(args.y.stride[axis] = none[i], 0);
            TAKEN_WITH(args.x.stride[axis] = none[i], DGRAD);
        }
        /* Strides beside an extent of 1 do not matter but for the columns'. */
        if (axis < 3) {
            TAKEN_WITH(args.y.extent[axis] = 1; args.y.stride[axis] = 1, ALL);
            TAKEN_WITH(args.x.extent[axis] = 1; args.x.stride[axis] = 1, ALL);
        }
        TAKEN_WITH(args.x.extent[axis] = 0, 0);
        TAKEN_WITH(args.y.extent[axis] = 0, 0);
        TAKEN_WITH(args.w.extent[axis] = 0, 0);
    }
    for (int64_t by = element; by < PIECE; by *= 2) {
        TAKEN_WITH(args.y.data = (char *)args.y.data + by, ALL);
        TAKEN_WITH(args.x.data = (char *)args.x.data + by, ALL);
        TAKEN_WITH(args.w.data = (char *)args.w.data + by, ALL);
        uf_conv_kernel_args moved = *base;
        moved.x.data = (char *)moved.x.data + by;
        assert_true(uf_columns_is_aligned(UF_CONV_DGRAD, &moved));
        assert_false(uf_columns_is_aligned(UF_CONV_FPROP, &moved));
        assert_false(uf_columns_is_aligned(UF_CONV_WGRAD, &moved));
        moved.y.data = (char *)moved.y.data + by;
        assert_false(uf_columns_is_aligned(UF_CONV_DGRAD, &moved));
        assert_true(uf_columns_is_aligned(UF_CONV_FPROP, base));
    }
    /* What is done with sums. */
    TAKEN_WITH(args.mode = UF_ACCUMULATE, WGRAD);
    TAKEN_WITH(args.epilogue.scale.data = args.epilogue.shift.data = args.w.data, ALL);
    TAKEN_WITH(args.epilogue.activation.kind = UF_ACTIVATION_TANH, ALL);
    TAKEN_WITH(args.math = UF_MATH_BF16, base->x.dtype == UF_BF16 ? ALL : 0);
}

/* One reason at a time why w does not come in vectors, or none: taken_by asks how many come. */
static void check_weights(const uf_conv_kernel_args *base) {
    for (int axis = 0; axis < 4; ++axis) {
        TAKEN_WITH(args.w.stride[axis] *= 2, ALL);
    }
    TAKEN_WITH(args.w.stride[2] = 1; args.w.stride[3] = FILTER, ALL);
    TAKEN_WITH(args.w.extent[0] = args.y.extent[1] = args.w.stride[0] = 1, ALL); /* alone */
    for (int64_t i = 0; i < TAPS; ++i) {
        const int64_t k = UF_COLUMNS_SMALL - i / 4, r = FILTER - i / 2 % 2, s = FILTER - i % 2;
        TAKEN_WITH(args.w = uf_view_nchw(base->w.data, base->w.dtype, k, 3, r, s);
                   args.y.extent[1] = k, ALL);
    }
}

static void test_refuses(void **state) {
    (void)state;
    const uf_conv_kernel_args bases[] = {base_of(UF_BF16), base_of(UF_F32)};
    for (int64_t i = 0; i < COUNT_OF(bases); ++i) {
        check_geometry(&bases[i]);
        check_views(&bases[i]);
        check_weights(&bases[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants), cmocka_unit_test(test_plans),
        cmocka_unit_test(test_large),     cmocka_unit_test(test_takes),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
