/* test_upsample_conv.c - nearest upsampling by 2 with a convolution behind it: a program that fuses
 * makes one transposed convolution of both, and computes what one that does not fuse computes. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/random.h"

/* One graph. `kind`: what is otherwise than where both become one. */
typedef enum deviation {
    NOTHING,
    BILINEAR,   /* upsampling */
    BY_THREE,   /* upsampling */
    WIDE,       /* upsampling: by 2 in one axis only */
    NEARLY_TWO, /* upsampling: by 2.2, of 4 rows and columns that gives 8 */
    STRIDE,     /* 2, of the convolution */
    DILATION,   /* 2 */
    GROUPS,     /* 2 */
    PADDING,    /* as large as the kernel */
    ONE_TAP,    /* in one axis */
    NORMED,     /* its weight, by weight norm */
    READ_TWICE, /* the upsampled image */
    OUTPUT      /* the upsampled image is one too */
} deviation;

typedef struct geometry {
    int64_t n, c, h, w, k, kernel[2], padding[2];
    bool bias, by_size, norm, activation;
    deviation kind;
} geometry;

static const geometry merged[] = {
    {1, 1, 1, 1, 1, {2, 2}, {0, 0}, false, false, false, false, NOTHING},
    {1, 1, 1, 1, 1, {3, 3}, {1, 1}, true, false, false, false, NOTHING},
    {2, 3, 4, 5, 6, {3, 3}, {1, 1}, true, false, false, true, NOTHING},
    {1, 5, 3, 2, 4, {3, 3}, {0, 0}, false, true, true, false, NOTHING},
    {2, 4, 5, 3, 3, {3, 3}, {2, 2}, true, false, true, true, NOTHING},
    {1, 2, 6, 7, 2, {2, 5}, {1, 3}, true, true, false, false, NOTHING},
    {3, 2, 4, 4, 5, {4, 7}, {0, 6}, false, false, false, true, NOTHING},
    {1, 32, 9, 11, 24, {3, 3}, {1, 1}, true, false, false, true, NOTHING},
};

static const geometry others[] = {
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, BILINEAR},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, BY_THREE},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, WIDE},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, NEARLY_TWO},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, STRIDE},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, DILATION},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, GROUPS},
    {1, 2, 4, 4, 2, {3, 3}, {3, 3}, true, false, false, true, PADDING},
    {1, 2, 4, 4, 2, {1, 3}, {0, 1}, true, false, false, true, ONE_TAP},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, NORMED},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, READ_TWICE},
    {1, 2, 4, 4, 2, {3, 3}, {1, 1}, true, false, false, true, OUTPUT},
};

static uf_value upsample(uf_graph *graph, uf_value x, const geometry *g) {
    uf_upsample_options options = uf_upsample_options_default();
    if (g->by_size) {
        options.size[0] = 2 * g->h;
        options.size[1] = 2 * g->w;
    }
    if (g->kind == BY_THREE || g->kind == NEARLY_TWO) {
        options.scale[0] = options.scale[1] = g->kind == BY_THREE ? 3.0 : 2.2;
    }
    options.scale[0] = g->kind == WIDE ? 1.0 : options.scale[0];
    return g->kind == BILINEAR ? uf_upsample_bilinear(graph, x, &options)
                               : uf_upsample_nearest(graph, x, &options);
}

static void build(uf_graph *graph, uf_store *store, const geometry *g) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    for (int axis = 0; axis < 2; ++axis) {
        conv.kernel[axis] = g->kernel[axis];
        conv.padding[axis] = g->padding[axis];
        conv.stride[axis] = g->kind == STRIDE ? 2 : 1;
        conv.dilation[axis] = g->kind == DILATION ? 2 : 1;
    }
    conv.groups = g->kind == GROUPS ? 2 : 1;
    conv.bias = g->bias;
    conv.weight = g->kind == NORMED ? UF_WEIGHT_NORM : conv.weight;
    uf_value x = uf_input(graph, "x", UF_SHAPE(g->n, g->c, g->h, g->w));
    /* A convolution before it still takes its activation. */
    x = uf_relu(graph, uf_conv2d(graph, x, uf_at(store, "first"), g->c, UF_CONV2D(1, 1, 0, true)));
    x = upsample(graph, x, g);
    if (g->kind == OUTPUT) {
        uf_output(graph, "between", x);
    }
    uf_value y = uf_conv2d(graph, x, uf_at(store, "conv"), g->k, &conv);
    y = g->norm ? uf_batch_norm2d(graph, y, uf_at(store, "norm"), NULL) : y;
    y = g->activation ? uf_leaky_relu(graph, y, 0.1) : y;
    uf_output(graph, "y", g->kind == READ_TWICE ? uf_add(graph, y, x) : y);
}

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_program *program;
    int64_t count;
    double *y;
} fixture;

static void fill(uf_tensor *tensor, const char *name, int64_t round, bool magnitudes) {
    const int64_t count = uf_tensor_count(tensor);
    test_random random = test_random_for(name, round);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random_fill(&random, values, count, 1.0);
    for (int64_t i = 0; i < count; ++i) {
        /* Scales from 2^-9 to 2^9, exact. */
        values[i] = ldexp(magnitudes ? fabs(values[i]) : values[i],
                          (int)test_random_integer(&random, -9, 9));
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    free(values);
}

/* New weights, the same ones in every fixture. */
static void fill_store(uf_store *store, int64_t round, bool magnitudes) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry = {.struct_size = sizeof entry};
        uf_tensor *tensor;
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_ok(uf_store_tensor(store, entry.name, &tensor));
        if (uf_tensor_dtype(tensor) != UF_I64) {
            fill(tensor, entry.name, round, magnitudes || strstr(entry.name, "var") != NULL);
        }
    }
    uf_store_touch(store);
}

static void run(fixture *f) {
    uf_tensor *y = uf_program_output(f->program, "y");
    assert_ok(uf_program_run(f->program));
    free(f->y);
    f->count = uf_tensor_count(y);
    f->y = test_allocate((size_t)f->count * sizeof *f->y);
    assert_ok(uf_tensor_download_as(y, UF_F64, f->y, f->count));
}

static fixture open_fixture(const geometry *g, uf_dtype dtype, bool fuse, bool magnitudes) {
    fixture f = {.context = test_context(2)};
    uf_graph *graph;
    uf_store_options options = uf_store_options_default();
    uf_program_options program = uf_program_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    program.dtype = dtype;
    program.fuse = fuse;
    program.plan = UF_PLAN_POISON;
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &graph));
    build(graph, f.store, g);
    assert_ok(uf_init_default(graph, f.store));
    fill_store(f.store, 0, magnitudes);
    assert_ok(uf_program_compile(graph, &program, &f.program));
    fill(uf_program_input(f.program, "x"), "x", 0, magnitudes);
    run(&f);
    return f;
}

static void close_fixture(fixture *f) {
    free(f->y);
    uf_context_destroy(f->context);
}

/* How many steps of a program are of this layer. */
static int steps_of(uf_program *program, const char *layer) {
    uf_profile_row *rows;
    int64_t count;
    int found = 0;
    assert_ok(uf_program_profile(program, 1, &rows, &count));
    for (int64_t i = 0; i < count; ++i) {
        found += strcmp(rows[i].layer, layer) == 0;
    }
    uf_profile_free(rows);
    return found;
}

static void test_steps(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(merged); ++i) {
        fixture f = open_fixture(&merged[i], UF_F32, true, false);
        assert_int_equal(steps_of(f.program, "upsample_nearest"), 0);
        assert_int_equal(steps_of(f.program, "conv_transpose2d"), 1);
        assert_int_equal(steps_of(f.program, "conv2d"), 1);
        assert_int_equal(steps_of(f.program, "relu"), 0);
        /* The weight is made once: no run has a step for it. */
        assert_int_equal(steps_of(f.program, "doubled_weight"), 0);
        close_fixture(&f);
    }
    for (int64_t i = 0; i < COUNT_OF(others); ++i) {
        fixture f = open_fixture(&others[i], UF_F32, true, false);
        const char *layer = others[i].kind == BILINEAR ? "upsample_bilinear" : "upsample_nearest";
        if (steps_of(f.program, layer) != 1 || steps_of(f.program, "conv_transpose2d") != 0) {
            fail_msg("other %d is merged", (int)i);
        }
        close_fixture(&f);
    }
}

/* Each element is held to a bound of its own: the sum of the magnitudes of its products, in units
 * of the type's last place. A norm's shift and scale are in it too. */
static void hold(const geometry *g, uf_dtype dtype, double unit) {
    fixture exact = open_fixture(g, UF_F64, false, false);
    fixture bound = open_fixture(g, UF_F64, false, true);
    fixture got = open_fixture(g, dtype, true, false);
    const double depth = (double)(g->c * g->kernel[0] * g->kernel[1] + g->c + 16);
    for (int round = 0; round < 2; ++round) {
        for (int64_t i = 0; i < exact.count; ++i) {
            const double most = depth * unit * bound.y[i];
            if (!(fabs(got.y[i] - exact.y[i]) <= most)) {
                fail_msg("%dx%d, padding %d, round %d: y[%d] is %.9g, %.9g is right to %.3g",
                         (int)g->kernel[0], (int)g->kernel[1], (int)g->padding[0], round, (int)i,
                         got.y[i], exact.y[i], most);
            }
        }
        /* The weight changes: so does the one that is made of it. */
        fixture *const all[] = {&exact, &bound, &got};
        for (int k = 0; k < 3; ++k) {
            fill_store(all[k]->store, round + 1, all[k] == &bound);
            run(all[k]);
        }
    }
    close_fixture(&exact);
    close_fixture(&bound);
    close_fixture(&got);
}

static void test_numbers(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(merged); ++i) {
        geometry g = merged[i];
        /* A norm subtracts its mean, which the magnitudes do not bound. */
        g.norm = false;
        hold(&g, UF_F64, ldexp(1.0, -53));
        hold(&g, UF_F32, ldexp(1.0, -24));
        hold(&g, UF_BF16, ldexp(1.0, -8));
    }
}

/* With a norm folded in, to the last digits of the largest number. */
static void test_norm(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(merged); ++i) {
        if (merged[i].norm) {
            fixture exact = open_fixture(&merged[i], UF_F64, false, false);
            fixture got = open_fixture(&merged[i], UF_F64, true, false);
            assert_close("norm", compare_values(got.y, exact.y, exact.count, 0.0), 1e-14);
            close_fixture(&exact);
            close_fixture(&got);
        }
    }
}

/* Two upsamplings in a row: the second is merged, and reads the first. */
static void test_two(void **state) {
    (void)state;
    double *y[2];
    int64_t count = 0;
    for (int fuse = 0; fuse < 2; ++fuse) {
        uf_context *context = test_context(1);
        uf_store *store;
        uf_graph *graph;
        uf_program *program;
        uf_store_options stores = uf_store_options_default();
        uf_program_options options = uf_program_options_default();
        stores.dtype = options.dtype = UF_F64;
        options.fuse = fuse == 1;
        assert_ok(uf_store_create_with(context, "weights", &stores, &store));
        assert_ok(uf_graph_create(context, &graph));
        uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2, 3, 3));
        x = uf_upsample_nearest(graph, uf_upsample_nearest(graph, x, NULL), NULL);
        x = uf_conv2d(graph, x, uf_at(store, "a"), 3, UF_CONV2D(3, 1, 1, true));
        x = uf_conv2d(graph, uf_upsample_nearest(graph, x, NULL), uf_at(store, "b"), 2,
                      UF_CONV2D(3, 1, 1, false));
        uf_output(graph, "y", x);
        assert_ok(uf_init_default(graph, store));
        fill_store(store, 0, false);
        assert_ok(uf_program_compile(graph, &options, &program));
        fill(uf_program_input(program, "x"), "x", 0, false);
        fixture f = {.program = program};
        run(&f);
        y[fuse] = f.y;
        count = f.count;
        assert_int_equal(steps_of(program, "upsample_nearest"), fuse == 1 ? 1 : 3);
        uf_context_destroy(context);
    }
    assert_close("two", compare_values(y[1], y[0], count, 0.0), 1e-14);
    free(y[0]);
    free(y[1]);
}

int main(void) {
    if (test_device_or_skip() != 0) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
