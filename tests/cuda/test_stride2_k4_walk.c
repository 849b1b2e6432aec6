/* test_stride2_k4_walk.c - conv_stride2_k4 against the definition, on the host: blocks that walk
 * their rows as the kernels do, with the plan's numbers, make every element once and from every
 * product that is inside, and windows hold what a strip reads. Needs no GPU. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/stride2_k4_layers.h"

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

static int64_t coord_in(const uf_view *view, int64_t n, int64_t h, int64_t w) {
    return (n * view->extent[2] + h) * view->extent[3] + w;
}

/* What a kernel writes: sums, and how often. */
typedef struct result {
    int64_t count, *sum;
    uint8_t *times;
} result;

typedef int64_t row_mmas[FILTER][PIXELS][FILTER]; /* by r, pixel, s */

static void multiply(const uf_conv_kernel_args *args, const stride2_k4_coord *at, row_mmas made) {
    for (int64_t w = 0; w < PIXELS; ++w) {
        const int64_t value = pixel(&args->y, at->n, at->row, w);
        for (int64_t i = 0; i < TAPS; ++i) {
            made[i / FILTER][w][i % FILTER] = value * tap(&args->w, i / FILTER, i % FILTER);
        }
    }
}

static void write(const result *to, int64_t on, int64_t sum) {
    assert_true(on >= 0 && on < to->count);
    to->sum[on] = sum;
    ++to->times[on];
}

/* Pixel w makes columns 2w + 1 and 2w + 2 of x, counted from the padding's first, with what its
 * neighbours have for them. */
static void emit(const uf_conv_kernel_args *args, const stride2_k4_coord *at, row_mmas made,
                 const result *to) {
    for (int64_t i = 0; i < STRIDE * PIXELS; ++i) {
        const int64_t r = i / PIXELS, w = i % PIXELS;
        const int64_t h = STRIDE * at->row + r - args->padding[0];
        const int64_t column = STRIDE * w + 1 - args->padding[1];
        if (is_inside(&args->x, h, column)) {
            write(to, coord_in(&args->x, at->n, h, column),
                  made[r][w][1] + (w > 0 ? made[r][w - 1][3] : 0));
        }
        if (is_inside(&args->x, h, column + 1)) {
            write(to, coord_in(&args->x, at->n, h, column + 1),
                  made[r][w][2] + (w + 1 < PIXELS ? made[r][w + 1][0] : 0));
        }
    }
}

static void walk_dgrad(const uf_conv_kernel_args *args, const uf_stride2_k4_plan *plan,
                       const result *to) {
    static row_mmas made;
    static int64_t kept[FILTER - STRIDE][PIXELS][FILTER];
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t first = first_of(plan, block), end = first_of(plan, block + 1);
        const int64_t begin = first - (place_of(plan, first).row > 0 ? 1 : 0);
        assert_true(end > first);
        for (int64_t unit = begin; unit < end; ++unit) {
            const stride2_k4_coord at = place_of(plan, unit);
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
static void walk_windows(const uf_conv_kernel_args *args, const uf_stride2_k4_plan *plan,
                         bool wgrad, const result *to) {
    const uf_view *y = &args->y;
    static int64_t window[FILTER][UF_STRIDE2_K4_WINDOW];
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t first = first_of(plan, block), end = first_of(plan, block + 1);
        assert_true(end > first);
        for (int64_t unit = first; unit < end; ++unit) {
            const stride2_k4_coord at = place_of(plan, unit);
            const int64_t column = at.strip * PIXELS;
            const int64_t begin = column * STRIDE - args->padding[1] - plan->window_shift;
            assert_true(at.row < plan->rows && at.strip < plan->strips);
            for (int64_t i = 0; i < FILTER * UF_STRIDE2_K4_WINDOW; ++i) {
                const int64_t r = i / UF_STRIDE2_K4_WINDOW, on = i % UF_STRIDE2_K4_WINDOW;
                window[r][on] =
                    pixel(&args->x, at.n, at.row * STRIDE - args->padding[0] + r, begin + on);
            }
            for (int64_t w = 0; w < PIXELS; ++w) {
                const int64_t value = pixel(y, at.n, at.row, column + w);
                int64_t sum = 0;
                for (int64_t i = 0; i < TAPS; ++i) {
                    const int64_t r = i / FILTER, s = i % FILTER;
                    const int64_t on = plan->window_shift + STRIDE * w + s;
                    assert_true(on / 2 + 1 < UF_STRIDE2_K4_WINDOW / 2); /* bf16: two words */
                    sum += window[r][on] * tap(&args->w, r, s);
                    if (wgrad && is_inside(&args->w, r, s)) {
                        to->sum[i] += window[r][on] * value;
                    }
                }
                if (!wgrad && column + w < y->extent[3]) {
                    write(to, coord_in(y, at.n, at.row, column + w), sum);
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
            sum[coord_in(x, n, h, w)] += pixel(y, n, p, q) * tap(&args->w, r, s);
        }
    }
}

static void check_walk(stride2_k4_layer *layer) {
    const uf_conv_direction direction = layer->direction;
    const uf_conv_kernel_args *args = &layer->args;
    const uf_stride2_k4_plan *plan = &layer->plan;
    const bool wgrad = direction == UF_CONV_WGRAD;
    const int64_t *extent = (direction == UF_CONV_DGRAD ? &args->x : &args->y)->extent;
    const int64_t count = wgrad ? TAPS : extent[0] * extent[2] * extent[3];
    const result made = {count, calloc((size_t)count, sizeof *made.sum), calloc((size_t)count, 1)};
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

static void test_walks(void **state) {
    (void)state;
    check_layers(check_walk);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
