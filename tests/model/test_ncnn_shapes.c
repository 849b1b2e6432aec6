/* test_ncnn_shapes.c - ncnn's layers of several values, of channels and of shapes, each held to
 * plain loops in double from ncnn's definitions. */
#include "model/ncnn_net.h"

#include <math.h>
#include <string.h>

/* The inputs a and b, the weights, and three numbers that a row has. */
typedef struct given {
    net_value a, b;
    const double *weights;
    const int *p;
} given;

typedef net_value expectation(given *g);

typedef struct row {
    const char *lines;
    int32_t dims; /* of a */
    int64_t c, h, w;
    int32_t b_dims; /* 0: there is no b */
    int64_t b_c, b_h, b_w;
    int64_t weights; /* f32, without a tag */
    expectation *expect;
    int p[3];
} row;

/* A value of these extents whose element is a function of its place. */
typedef double element(given *g, int64_t c, int64_t y, int64_t x);

static net_value fill(given *g, int32_t dims, int64_t c, int64_t h, int64_t w, element *of) {
    net_value made = {.dims = dims, .extent = {c, h, w}};
    for (int64_t i = 0; i < c; ++i) {
        for (int64_t y = 0; y < h; ++y) {
            for (int64_t x = 0; x < w; ++x) {
                *net_at(&made, i, y, x) = of(g, i, y, x);
            }
        }
    }
    return made;
}

static net_value like_a(given *g, element *of) {
    return fill(g, g->a.dims, g->a.extent[0], g->a.extent[1], g->a.extent[2], of);
}

static void check_rows(const row *rows, int64_t count) {
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < count; ++i) {
        const row *one = &rows[i];
        static net made;
        static given g;
        net_begin(&made);
        g.a = net_made_value(one->dims, one->c, one->h, one->w, 11);
        g.b = net_made_value(one->b_dims, one->b_c, one->b_h, one->b_w, 12);
        net_add_input(&made, "a", &g.a);
        if (one->b_dims > 0) {
            net_add_input(&made, "b", &g.b);
        }
        net_add(&made, "%s\n", one->lines);
        g.weights = one->weights > 0 ? net_weights(&made, one->weights, NET_RAW, true) : NULL;
        g.p = one->p;
        const net_value expected = one->expect(&g);
        const net_value inputs[] = {g.a, g.b};
        net_expect(context, &made, one->lines, inputs, one->b_dims > 0 ? 2 : 1, &expected);
    }
    uf_context_destroy(context);
}

/* ---- two values ---- */

static double a_at(given *g, int64_t c, int64_t y, int64_t x) {
    return *net_at(&g->a, c, y, x);
}

static double b_at(given *g, int64_t c, int64_t y, int64_t x) {
    return *net_at(&g->b, c, y, x);
}

static double product(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) * b_at(g, c, y, x);
}
static double sum(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) + b_at(g, c, y, x);
}
static double weighted(given *g, int64_t c, int64_t y, int64_t x) {
    return 0.25 * a_at(g, c, y, x) + b_at(g, c, y, x) - 0.5 * a_at(g, c, y, x);
}
static double by_channel(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) * g->b.v[c];
}
static double by_column(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) - g->b.v[x];
}
static double by_row(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) + g->b.v[c * g->b.extent[2] + y];
}
static double from_channel(given *g, int64_t c, int64_t y, int64_t x) {
    return g->a.v[c] - b_at(g, c, y, x);
}
static double quotient(given *g, int64_t c, int64_t y, int64_t x) {
    return b_at(g, c, y, x) / (a_at(g, c, y, x) + 2.0);
}

static net_value products(given *g) {
    return like_a(g, product);
}
static net_value sums(given *g) {
    return like_a(g, sum);
}
static net_value weighted_sums(given *g) {
    return like_a(g, weighted);
}
static net_value channels(given *g) {
    return like_a(g, by_channel);
}
static net_value columns(given *g) {
    return like_a(g, by_column);
}
static net_value image_rows(given *g) {
    return like_a(g, by_row);
}
static net_value from_channels(given *g) {
    return fill(g, 3, g->b.extent[0], g->b.extent[1], g->b.extent[2], from_channel);
}
static net_value quotients(given *g) {
    return like_a(g, quotient);
}

static void test_two(void **state) {
    static const row rows[] = {
        {"Eltwise y 2 1 a b y 0=0", 3, 2, 3, 4, 3, 2, 3, 4, 0, products, {0}},
        {"Eltwise y 2 1 a b y 0=1", 3, 2, 3, 4, 3, 2, 3, 4, 0, sums, {0}},
        {"Eltwise y 3 1 a b a y 0=1 -23301=3,0.25,1.0,-0.5",
         3,
         2,
         3,
         4,
         3,
         2,
         3,
         4,
         0,
         weighted_sums,
         {0}},
        {"BinaryOp y 2 1 a b y", 3, 2, 3, 4, 3, 2, 3, 4, 0, sums, {0}},
        {"BinaryOp y 2 1 a b y 0=2", 3, 2, 3, 4, 1, 1, 1, 2, 0, channels, {0}},
        {"BinaryOp y 2 1 a b y 0=1", 3, 2, 3, 4, 1, 1, 1, 4, 0, columns, {0}},
        {"BinaryOp y 2 1 a b y", 3, 2, 3, 4, 2, 1, 2, 3, 0, image_rows, {0}},
        {"BinaryOp y 2 1 a b y 0=1", 1, 1, 1, 2, 3, 2, 3, 4, 0, from_channels, {0}},
        {"BinaryOp y 2 1 b a y 0=7", 1, 1, 1, 2, 3, 2, 3, 4, 0, from_channels, {0}},
        {"BinaryOp c 1 1 a c 0=0 1=1 2=2.0\nBinaryOp y 2 1 b c y 0=3",
         3,
         2,
         3,
         4,
         3,
         2,
         3,
         4,
         0,
         quotients,
         {0}},
        {"BinaryOp c 1 1 a c 0=0 1=1 2=2.0\nBinaryOp y 2 1 c b y 0=8",
         3,
         2,
         3,
         4,
         3,
         2,
         3,
         4,
         0,
         quotients,
         {0}},
        {"Scale y 2 1 a b y 0=-233", 3, 2, 3, 4, 1, 1, 1, 2, 0, channels, {0}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* ---- a number for each channel ---- */

static double scaled(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) * g->weights[c] + g->weights[g->a.extent[0] + c];
}
static double biased(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) + g->weights[c];
}
static double sloped(given *g, int64_t c, int64_t y, int64_t x) {
    const double one = a_at(g, c, y, x);
    return one > 0.0 ? one : one * g->weights[g->p[0] == 0 ? 0 : g->a.dims == 1 ? x : c];
}
static double normed(given *g, int64_t c, int64_t y, int64_t x) {
    const int64_t n = g->a.extent[0];
    const double *w = g->weights;
    return (a_at(g, c, y, x) - w[n + c]) / sqrt(w[2 * n + c] + 0.125) * w[c] + w[3 * n + c];
}

/* Over `group` channels, from the first of them. */
static double group_normed(given *g, int64_t c, int64_t y, int64_t x) {
    const int64_t group = g->p[0], first = c / group * group,
                  plane = g->a.extent[1] * g->a.extent[2];
    const double *v = g->a.v + first * plane;
    double mean = 0.0, variance = 0.0;
    for (int64_t i = 0; i < group * plane; ++i) {
        mean += v[i] / (double)(group * plane);
    }
    for (int64_t i = 0; i < group * plane; ++i) {
        variance += (v[i] - mean) * (v[i] - mean) / (double)(group * plane);
    }
    const double factor = g->p[1] != 0 ? g->weights[c] : 1.0;
    const double term = g->p[1] != 0 ? g->weights[g->a.extent[0] + c] : 0.0;
    return (a_at(g, c, y, x) - mean) / sqrt(variance + 0.125) * factor + term;
}

static double with_data(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c, y, x) + g->weights[(c * g->a.extent[1] + y) * g->a.extent[2] + x];
}

static net_value data_sums(given *g) {
    return like_a(g, with_data);
}
static net_value scales(given *g) {
    return like_a(g, scaled);
}
static net_value biases(given *g) {
    return like_a(g, biased);
}
static net_value slopes(given *g) {
    return like_a(g, sloped);
}
static net_value norms(given *g) {
    return like_a(g, normed);
}
static net_value group_norms(given *g) {
    return like_a(g, group_normed);
}

static void test_channels(void **state) {
    static const row rows[] = {
        {"Scale y 1 1 a y 0=2 1=1", 3, 2, 3, 4, 0, 0, 0, 0, 4, scales, {0}},
        {"MemoryData m 0 1 m 0=4 1=3 2=2\nBinaryOp y 2 1 a m y",
         3,
         2,
         3,
         4,
         0,
         0,
         0,
         0,
         24,
         data_sums,
         {0}},
        {"MemoryData m 0 1 m 0=2\nBinaryOp y 2 1 a m y", 3, 2, 1, 1, 0, 0, 0, 0, 2, data_sums, {0}},
        {"Bias y 1 1 a y 0=2", 3, 2, 3, 4, 0, 0, 0, 0, 2, biases, {0}},
        {"PReLU y 1 1 a y 0=1", 3, 2, 3, 4, 0, 0, 0, 0, 1, slopes, {0}},
        {"PReLU y 1 1 a y 0=2", 3, 2, 3, 4, 0, 0, 0, 0, 2, slopes, {1}},
        {"PReLU y 1 1 a y 0=6", 1, 1, 1, 6, 0, 0, 0, 0, 6, slopes, {1}},
        {"BatchNorm y 1 1 a y 0=2 1=0.125", 3, 2, 3, 4, 0, 0, 0, 0, 8, norms, {0}},
        {"InstanceNorm y 1 1 a y 0=2 1=0.125", 3, 2, 3, 4, 0, 0, 0, 0, 4, group_norms, {1, 1}},
        {"InstanceNorm y 1 1 a y 0=2 1=0.125 2=0", 3, 2, 3, 4, 0, 0, 0, 0, 0, group_norms, {1, 0}},
        {"GroupNorm y 1 1 a y 0=2 1=4 2=0.125", 3, 4, 3, 4, 0, 0, 0, 0, 8, group_norms, {2, 1}},
        {"GroupNorm y 1 1 a y 0=2 1=4 2=0.125 3=0", 3, 4, 3, 4, 0, 0, 0, 0, 0, group_norms, {2, 0}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* ---- shapes ---- */

static double first_or_second(given *g, int64_t c, int64_t y, int64_t x) {
    int64_t at[3] = {c, y, x};
    const int axis = g->p[0];
    const bool second = at[axis] >= g->a.extent[axis];
    at[axis] -= second ? g->a.extent[axis] : 0;
    return second ? b_at(g, at[0], at[1], at[2]) : a_at(g, at[0], at[1], at[2]);
}
/* a, b, a, b, ... along the channels. */
static double alternating(given *g, int64_t c, int64_t y, int64_t x) {
    return c % 2 == 0 ? a_at(g, 0, y, x) : b_at(g, 0, y, x);
}
static double moved(given *g, int64_t c, int64_t y, int64_t x) {
    return a_at(g, c + g->p[0], y + g->p[1], x + g->p[2]);
}

static net_value joined(given *g) {
    int64_t e[3] = {g->a.extent[0], g->a.extent[1], g->a.extent[2]};
    e[g->p[0]] += g->b.extent[g->p[0]];
    return fill(g, 3, e[0], e[1], e[2], first_or_second);
}
static net_value ten_joined(given *g) {
    return fill(g, 3, 10, g->a.extent[1], g->a.extent[2], alternating);
}
/* The extents of b, from an offset. */
static net_value part(given *g) {
    return fill(g, g->a.dims, g->b.extent[0], g->b.extent[1], g->b.extent[2], moved);
}
/* The same numbers with other extents. */
static net_value reshaped(given *g) {
    net_value made = g->a;
    made.dims = g->p[0] == 0 && g->p[1] == 0 ? 1 : g->p[0] == 0 ? 2 : 3;
    for (int i = 0; i < 3; ++i) {
        made.extent[i] = g->p[i] == 0 ? 1 : g->p[i];
    }
    return made;
}
/* Axis i of the output is axis p[i] of a. */
static double turned(given *g, int64_t c, int64_t y, int64_t x) {
    const int64_t to[3] = {c, y, x};
    int64_t at[3];
    for (int i = 0; i < 3; ++i) {
        at[g->p[i]] = to[i];
    }
    return a_at(g, at[0], at[1], at[2]);
}
static net_value permuted(given *g) {
    const int64_t *e = g->a.extent;
    return fill(g, g->a.dims, e[g->p[0]], e[g->p[1]], e[g->p[2]], turned);
}

static void test_shapes(void **state) {
    static const row rows[] = {
        {"Concat y 2 1 a b y", 3, 2, 3, 4, 3, 1, 3, 4, 0, joined, {0}},
        {"Concat y 2 1 a b y 0=1", 3, 2, 3, 4, 3, 2, 2, 4, 0, joined, {1}},
        {"Concat y 2 1 a b y 0=-1", 3, 2, 3, 4, 3, 2, 3, 1, 0, joined, {2}},
        {"Concat y 10 1 a b a b a b a b a b y", 3, 1, 2, 2, 3, 1, 2, 2, 0, ten_joined, {0}},
        {"Split s 1 3 a c d e\nConcat y 2 1 d b y", 3, 2, 3, 4, 3, 1, 3, 4, 0, joined, {0}},
        {"Noop n 1 1 a c\nConcat y 2 1 c b y", 3, 2, 3, 4, 3, 1, 3, 4, 0, joined, {0}},
        {"Crop y 2 1 a b y 0=1 1=2 2=1", 3, 3, 6, 5, 3, 2, 3, 4, 0, part, {1, 2, 1}},
        {"Crop y 2 1 a b y 0=2", 1, 1, 1, 7, 1, 1, 1, 4, 0, part, {0, 0, 2}},
        {"Permute y 1 1 a y 0=0", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {0, 1, 2}},
        {"Permute y 1 1 a y 0=1", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {0, 2, 1}},
        {"Permute y 1 1 a y 0=2", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {1, 0, 2}},
        {"Permute y 1 1 a y 0=3", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {1, 2, 0}},
        {"Permute y 1 1 a y 0=4", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {2, 0, 1}},
        {"Permute y 1 1 a y 0=5", 3, 2, 3, 4, 0, 0, 0, 0, 0, permuted, {2, 1, 0}},
        {"Permute y 1 1 a y 0=1", 2, 1, 3, 4, 0, 0, 0, 0, 0, permuted, {0, 2, 1}},
        {"Reshape y 1 1 a y 0=3 1=-1 2=4", 3, 2, 3, 4, 0, 0, 0, 0, 0, reshaped, {4, 2, 3}},
        {"Reshape y 1 1 a y 0=0 1=6", 3, 2, 3, 4, 0, 0, 0, 0, 0, reshaped, {0, 6, 4}},
        {"Reshape y 1 1 a y 0=-1", 3, 2, 3, 4, 0, 0, 0, 0, 0, reshaped, {0, 0, 24}},
        {"Reshape y 1 1 a y 0=2 1=3 2=4", 1, 1, 1, 24, 0, 0, 0, 0, 0, reshaped, {4, 3, 2}},
        {"Flatten y 1 1 a y", 3, 2, 3, 4, 0, 0, 0, 0, 0, reshaped, {0, 0, 24}},
        {"Flatten y 1 1 a y", 1, 1, 1, 4, 0, 0, 0, 0, 0, reshaped, {0, 0, 4}},
        {"Squeeze y 1 1 a y 0=1 1=1 2=1", 3, 5, 1, 4, 0, 0, 0, 0, 0, reshaped, {0, 5, 4}},
        {"Squeeze y 1 1 a y -23303=1,-2", 3, 5, 1, 4, 0, 0, 0, 0, 0, reshaped, {0, 5, 4}},
        {"ExpandDims y 1 1 a y 0=1 1=1", 1, 1, 1, 6, 0, 0, 0, 0, 0, reshaped, {6, 1, 1}},
        {"ExpandDims y 1 1 a y -23303=2,1,2", 1, 1, 1, 6, 0, 0, 0, 0, 0, reshaped, {6, 1, 1}},
        {"ExpandDims y 1 1 a y -23303=1,0", 2, 1, 3, 4, 0, 0, 0, 0, 0, reshaped, {1, 3, 4}},
    };
    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* Parts of one value: `like` has the extents. */
static void test_parts(void **state) {
    static const struct {
        const char *lines;
        int64_t like[3];
        int p[3];
    } parts[] = {
        {"Crop y 1 1 a y 0=1 1=2 2=1 3=3 4=2 5=1", {1, 2, 3}, {1, 2, 1}},
        {"Crop y 1 1 a y 0=1 1=2 2=1 3=-233 4=-233 5=-233 6=1 7=2", {2, 2, 4}, {1, 2, 1}},
        {"Crop y 1 1 a y -23309=2,1,2 -23310=2,-1,-233 -23311=2,-2,-1", {3, 4, 4}, {0, 1, 2}},
        {"Crop y 1 1 a y -23309=2,1,2 -23310=2,0,0 -23311=2,-2,-1", {3, 5, 4}, {0, 1, 2}},
        {"Crop y 1 1 a y -23309=3,1,-4,0 -23310=3,2,-1,5", {1, 3, 5}, {1, 2, 0}},
        {"Crop y 1 1 a y -23309=1,2 -23310=1,9 -23311=1,1", {3, 4, 6}, {0, 2, 0}},
        {"Slice s 1 2 a y z -23300=2,1,-233", {1, 6, 6}, {0, 0, 0}},
        {"Slice s 1 3 a z y x -23300=3,-233,-233,-233 1=1", {3, 2, 6}, {0, 2, 0}},
        {"Slice s 1 2 a z y -23300=2,2,-233 1=-1", {3, 6, 4}, {0, 0, 2}},
    };
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(parts); ++i) {
        static net made;
        static given g;
        net_begin(&made);
        g.a = net_made_value(3, 3, 6, 6, 11);
        g.p = parts[i].p;
        memcpy(g.b.extent, parts[i].like, sizeof g.b.extent);
        net_add_input(&made, "a", &g.a);
        net_add(&made, "%s\n", parts[i].lines);
        const net_value expected = part(&g);
        net_expect(context, &made, parts[i].lines, &g.a, 1, &expected);
    }
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_parts),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
