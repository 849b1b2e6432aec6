/* test_ncnn_images.c - ncnn's layers of height and width, each held to plain loops in double from
 * ncnn's definitions. */
#include "model/ncnn_net.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct given {
    net_value a;
    const int *p;
} given;

typedef net_value expectation(given *g);

typedef struct row {
    const char *line;
    int64_t c, h, w;
    expectation *expect;
    int p[8];
} row;

static void check_rows(const row *rows, int64_t count) {
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < count; ++i) {
        static net made;
        static given g;
        net_begin(&made);
        g.a = net_made_value(3, rows[i].c, rows[i].h, rows[i].w, 21);
        g.p = rows[i].p;
        net_add_input(&made, "a", &g.a);
        net_add(&made, "%s\n", rows[i].line);
        const net_value expected = rows[i].expect(&g);
        net_expect(context, &made, rows[i].line, &g.a, 1, &expected);
    }
    uf_context_destroy(context);
}

/* ---- pooling ---- */

enum { OF_MAX, OF_MEAN, OF_MEAN_WITH_PAD };

/* p: kind, kernel, stride, padding, and the output's height and width. */
static double pooled_at(given *g, int64_t c, int64_t y, int64_t x) {
    const int kind = g->p[0], kernel = g->p[1], stride = g->p[2], pad = g->p[3];
    double most = -DBL_MAX, sum = 0.0;
    int count = 0;
    for (int i = 0; i < kernel; ++i) {
        for (int j = 0; j < kernel; ++j) {
            const int64_t row_at = y * stride + i - pad, column = x * stride + j - pad;
            if (row_at >= 0 && row_at < g->a.extent[1] && column >= 0 && column < g->a.extent[2]) {
                const double one = *net_at(&g->a, c, row_at, column);
                most = fmax(most, one);
                sum += one;
                count += 1;
            }
        }
    }
    return kind == OF_MAX ? most : sum / (kind == OF_MEAN ? count : kernel * kernel);
}

static net_value pooled(given *g) {
    net_value made = {.dims = 3, .extent = {g->a.extent[0], g->p[4], g->p[5]}};
    for (int64_t c = 0; c < made.extent[0]; ++c) {
        for (int64_t y = 0; y < made.extent[1]; ++y) {
            for (int64_t x = 0; x < made.extent[2]; ++x) {
                *net_at(&made, c, y, x) = pooled_at(g, c, y, x);
            }
        }
    }
    return made;
}

/* One number for each channel, a value of one axis. */
static net_value pooled_flat(given *g) {
    net_value made = pooled(g);
    made.dims = 1;
    made.extent[2] = made.extent[0];
    made.extent[0] = 1;
    return made;
}

static void test_pooling(void **state) {
    static const row rows[] = {
        {"Pooling y 1 1 a y 0=0 1=2 2=2", 2, 5, 6, pooled, {OF_MAX, 2, 2, 0, 3, 3}},
        {"Pooling y 1 1 a y 0=0 1=3 2=2", 2, 6, 7, pooled, {OF_MAX, 3, 2, 0, 3, 3}},
        {"Pooling y 1 1 a y 0=0 1=2 2=2 5=1", 2, 5, 7, pooled, {OF_MAX, 2, 2, 0, 2, 3}},
        {"Pooling y 1 1 a y 0=0 1=3 2=2 3=1 5=1", 2, 5, 7, pooled, {OF_MAX, 3, 2, 1, 3, 4}},
        {"Pooling y 1 1 a y 0=1 1=2 2=2", 2, 5, 6, pooled, {OF_MEAN, 2, 2, 0, 3, 3}},
        {"Pooling y 1 1 a y 0=1 1=3 2=1 3=1 5=1", 2, 5, 6, pooled, {OF_MEAN, 3, 1, 1, 5, 6}},
        {"Pooling y 1 1 a y 0=1 1=3 2=1 3=1 5=1 6=1",
         2,
         5,
         6,
         pooled,
         {OF_MEAN_WITH_PAD, 3, 1, 1, 5, 6}},
        {"Pooling y 1 1 a y 0=0 4=1", 3, 5, 5, pooled_flat, {OF_MAX, 5, 1, 0, 1, 1}},
        {"Pooling y 1 1 a y 0=1 4=1", 3, 5, 5, pooled_flat, {OF_MEAN, 5, 1, 0, 1, 1}},
        {"Pooling y 1 1 a y 0=1 7=1 8=1", 3, 5, 5, pooled, {OF_MEAN, 5, 1, 0, 1, 1}},
        {"Pooling y 1 1 a y 0=1 7=1 8=2 18=3", 3, 6, 4, pooled, {OF_MEAN, 2, 2, 0, 3, 2}},
        {"Pooling y 1 1 a y 0=0 7=1 8=2", 3, 6, 6, pooled, {OF_MAX, 3, 3, 0, 2, 2}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* ---- interpolation ---- */

enum { NEAREST, BILINEAR, ALIGNED, BICUBIC };

/* ncnn's four coefficients. */
static void interpolate_cubic(double fx, double *coefficients) {
    const double a = -0.75, f0 = fx + 1.0, f1 = fx, f2 = 1.0 - fx;
    coefficients[0] = a * f0 * f0 * f0 - 5.0 * a * f0 * f0 + 8.0 * a * f0 - 4.0 * a;
    coefficients[1] = (a + 2.0) * f1 * f1 * f1 - (a + 3.0) * f1 * f1 + 1.0;
    coefficients[2] = (a + 2.0) * f2 * f2 * f2 - (a + 3.0) * f2 * f2 + 1.0;
    coefficients[3] = 1.0 - coefficients[0] - coefficients[1] - coefficients[2];
}

/* The weight of input `from` in output `to` of an axis. */
static double share(int kind, int64_t in, int64_t out, int64_t to, int64_t from) {
    const double scale = (double)in / (double)out;
    double sum = 0.0, taps[4];
    if (kind == NEAREST) {
        return (int64_t)((double)to * scale) == from ? 1.0 : 0.0;
    }
    double place = ((double)to + 0.5) * scale - 0.5;
    if (kind == ALIGNED) {
        place = (double)to * (double)(in - 1) / (double)(out - 1);
    }
    if (kind != BICUBIC) {
        place = fmin(fmax(place, 0.0), (double)(in - 1));
        return fmax(0.0, 1.0 - fabs(place - (double)from));
    }
    const int64_t below = (int64_t)floor(place);
    interpolate_cubic(place - (double)below, taps);
    for (int64_t t = 0; t < 4; ++t) {
        const int64_t at = below - 1 + t;
        const int64_t inside = at < 0 ? 0 : at >= in ? in - 1 : at;
        sum += inside == from ? taps[t] : 0.0;
    }
    return sum;
}

/* p: kind, and the output's height and width. */
static net_value resized(given *g) {
    const int64_t *in = g->a.extent;
    net_value made = {.dims = 3, .extent = {in[0], g->p[1], g->p[2]}};
    for (int64_t c = 0; c < in[0]; ++c) {
        for (int64_t y = 0; y < made.extent[1]; ++y) {
            for (int64_t x = 0; x < made.extent[2]; ++x) {
                double sum = 0.0;
                for (int64_t i = 0; i < in[1]; ++i) {
                    for (int64_t j = 0; j < in[2]; ++j) {
                        sum += *net_at(&g->a, c, i, j) *
                               share(g->p[0], in[1], made.extent[1], y, i) *
                               share(g->p[0], in[2], made.extent[2], x, j);
                    }
                }
                *net_at(&made, c, y, x) = sum;
            }
        }
    }
    return made;
}

static void test_interp(void **state) {
    static const row rows[] = {
        {"Interp y 1 1 a y 0=1 1=2.0 2=3.0", 2, 3, 4, resized, {NEAREST, 6, 12}},
        {"Interp y 1 1 a y 0=1 3=5 4=7", 2, 3, 4, resized, {NEAREST, 5, 7}},
        {"Interp y 1 1 a y 0=1 1=5.000000e-01 2=1.5", 2, 4, 4, resized, {NEAREST, 2, 6}},
        {"Interp y 1 1 a y 0=2 1=2.0 2=2.0", 2, 3, 4, resized, {BILINEAR, 6, 8}},
        {"Interp y 1 1 a y 0=2 3=5 4=7", 2, 3, 4, resized, {BILINEAR, 5, 7}},
        {"Interp y 1 1 a y 0=2 3=5 4=7 6=1", 2, 3, 4, resized, {ALIGNED, 5, 7}},
        {"Interp y 1 1 a y 0=3 1=2.0 2=2.0", 2, 4, 5, resized, {BICUBIC, 8, 10}},
        {"Interp y 1 1 a y 0=3 1=0.5 2=0.5", 2, 6, 4, resized, {BICUBIC, 3, 2}},
        {"Interp y 1 1 a y 0=3 1=7.500000e-01 2=7.500000e-01", 2, 8, 4, resized, {BICUBIC, 6, 3}},
        {"Interp y 1 1 a y 0=3 1=1.5 2=1.5", 2, 4, 6, resized, {BICUBIC, 6, 9}},
        {"Interp y 1 1 a y 0=3 1=0.125 2=0.125", 2, 16, 8, resized, {BICUBIC, 2, 1}},
        {"Interp y 1 1 a y 0=3 3=6 4=9", 2, 4, 6, resized, {BICUBIC, 6, 9}},
        {"Interp y 1 1 a y 0=3 1=1.0 2=1.0", 2, 4, 6, resized, {BICUBIC, 4, 6}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* ---- others ---- */

/* p: the factor. */
static net_value shuffled(given *g) {
    const int64_t r = g->p[0], *in = g->a.extent;
    net_value made = {.dims = 3, .extent = {in[0] / (r * r), in[1] * r, in[2] * r}};
    for (int64_t c = 0; c < in[0]; ++c) {
        for (int64_t y = 0; y < in[1]; ++y) {
            for (int64_t x = 0; x < in[2]; ++x) {
                const int64_t i = c % (r * r) / r, j = c % r;
                *net_at(&made, c / (r * r), y * r + i, x * r + j) = *net_at(&g->a, c, y, x);
            }
        }
    }
    return made;
}

static net_value gathered(given *g) {
    const int64_t r = g->p[0], *in = g->a.extent;
    net_value made = {.dims = 3, .extent = {in[0] * r * r, in[1] / r, in[2] / r}};
    for (int64_t c = 0; c < in[0]; ++c) {
        for (int64_t y = 0; y < in[1]; ++y) {
            for (int64_t x = 0; x < in[2]; ++x) {
                const int64_t to = c * r * r + y % r * r + x % r;
                *net_at(&made, to, y / r, x / r) = *net_at(&g->a, c, y, x);
            }
        }
    }
    return made;
}

/* p: mode, and top, bottom, left, right. */
static net_value padded(given *g) {
    const int64_t *in = g->a.extent;
    net_value made = {.dims = 3,
                      .extent = {in[0], in[1] + g->p[1] + g->p[2], in[2] + g->p[3] + g->p[4]}};
    for (int64_t c = 0; c < in[0]; ++c) {
        for (int64_t y = 0; y < made.extent[1]; ++y) {
            for (int64_t x = 0; x < made.extent[2]; ++x) {
                int64_t at[2] = {y - g->p[1], x - g->p[3]};
                bool inside = true;
                for (int i = 0; i < 2; ++i) {
                    const int64_t last = in[1 + i] - 1;
                    const int64_t edge = at[i] < 0 ? 0 : last;
                    inside = inside && at[i] >= 0 && at[i] <= last;
                    if (at[i] < 0 || at[i] > last) {
                        at[i] = g->p[0] == 2 ? 2 * edge - at[i] : edge;
                    }
                }
                *net_at(&made, c, y, x) =
                    inside || g->p[0] != 0 ? *net_at(&g->a, c, at[0], at[1]) : 0.0;
            }
        }
    }
    return made;
}

/* p: the axis. */
static net_value softened(given *g) {
    net_value made = g->a;
    const int64_t *e = g->a.extent;
    const int64_t steps[3] = {e[1] * e[2], e[2], 1};
    const int64_t step = steps[g->p[0]], count = e[g->p[0]];
    for (int64_t i = 0; i < e[0] * e[1] * e[2]; ++i) {
        const int64_t first = i - i / step % count * step;
        double sum = 0.0;
        for (int64_t k = 0; k < count; ++k) {
            sum += exp(g->a.v[first + k * step]);
        }
        made.v[i] = exp(g->a.v[i]) / sum;
    }
    return made;
}

static void test_others(void **state) {
    static const row rows[] = {
        {"PixelShuffle y 1 1 a y 0=2", 8, 2, 3, shuffled, {2}},
        {"Reorg y 1 1 a y 0=2", 2, 4, 6, gathered, {2}},
        {"Padding y 1 1 a y 0=1 1=2 2=3 3=0", 2, 3, 4, padded, {0, 1, 2, 3, 0}},
        {"Padding y 1 1 a y 0=1 1=2 2=3 3=0 4=1", 2, 3, 4, padded, {1, 1, 2, 3, 0}},
        {"Padding y 1 1 a y 0=1 1=2 2=3 3=0 4=2", 2, 3, 4, padded, {2, 1, 2, 3, 0}},
        {"Softmax y 1 1 a y", 3, 4, 5, softened, {0}},
        {"Softmax y 1 1 a y 0=1 1=1", 3, 4, 5, softened, {1}},
        {"Softmax y 1 1 a y 0=-1 1=1", 3, 4, 5, softened, {2}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_interp),
        cmocka_unit_test(test_others),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
