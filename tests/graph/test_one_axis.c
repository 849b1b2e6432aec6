/* test_one_axis.c - Conv1d and ConvTranspose1d are the layers of two axes over a height of 1: the
 * same shapes, weights and bits for every option, and messages with their own names. */
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/compare.h"

enum { LENGTH = 11, CHANNELS = 4, OUT_CHANNELS = 6, MOST = 4096 };

typedef struct axis_case {
    int64_t kernel, stride, padding, output_padding, dilation, groups;
    bool bias;
    int64_t output_size; /* of the transposed layer; 0: none is asked for */
} axis_case;

static const axis_case cases[] = {
    {3, 1, 0, 0, 1, 1, true, 0},  {5, 2, 1, 0, 1, 1, false, 0}, {4, 3, 1, 2, 1, 1, true, 0},
    {3, 2, 4, 1, 2, 1, false, 0}, {2, 1, 0, 0, 3, 2, true, 0},  {4, 3, 2, 0, 1, 2, false, 31},
    {1, 1, 0, 0, 1, 1, true, 11},
};

static uf_value one_axis(uf_graph *graph, uf_value x, uf_scope scope, const axis_case *c,
                         bool transposed) {
    if (transposed) {
        uf_conv_transpose1d_options options = uf_conv_transpose1d_options_default();
        options.kernel = c->kernel;
        options.stride = c->stride;
        options.padding = c->padding;
        options.output_padding = c->output_padding;
        options.dilation = c->dilation;
        options.groups = c->groups;
        options.bias = c->bias;
        options.has_output_size = c->output_size != 0;
        options.output_size = c->output_size;
        return uf_conv_transpose1d(graph, x, scope, OUT_CHANNELS, &options);
    }
    uf_conv1d_options options = uf_conv1d_options_default();
    options.kernel = c->kernel;
    options.stride = c->stride;
    options.padding = c->padding;
    options.dilation = c->dilation;
    options.groups = c->groups;
    options.bias = c->bias;
    return uf_conv1d(graph, x, scope, OUT_CHANNELS, &options);
}

/* (N, C, 1, L) */
static uf_value two_axes(uf_graph *graph, uf_value x, uf_scope scope, const axis_case *c,
                         bool transposed) {
    if (transposed) {
        uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
        options.kernel[0] = 1;
        options.kernel[1] = c->kernel;
        options.stride[1] = c->stride;
        options.padding[1] = c->padding;
        options.output_padding[1] = c->output_padding;
        options.dilation[1] = c->dilation;
        options.groups = c->groups;
        options.bias = c->bias;
        options.has_output_size = c->output_size != 0;
        options.output_size[0] = 1;
        options.output_size[1] = c->output_size;
        return uf_conv_transpose2d(graph, x, scope, OUT_CHANNELS, &options);
    }
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = 1;
    options.kernel[1] = c->kernel;
    options.stride[1] = c->stride;
    options.padding[1] = c->padding;
    options.dilation[1] = c->dilation;
    options.groups = c->groups;
    options.bias = c->bias;
    return uf_conv2d(graph, x, scope, OUT_CHANNELS, &options);
}

/* The first half of a store's tensors into the second half. */
static void copy_half(uf_store *store) {
    const int64_t half = uf_store_size(store) / 2;
    for (int64_t i = 0; i < half; ++i) {
        uf_store_entry entries[2];
        uf_tensor *tensors[2];
        double numbers[MOST];
        for (int side = 0; side < 2; ++side) {
            assert_ok(uf_store_entry_at(store, i + side * half, &entries[side]));
            assert_ok(uf_store_tensor(store, entries[side].name, &tensors[side]));
        }
        const int64_t count = uf_tensor_count(tensors[0]);
        assert_int_equal(uf_tensor_count(tensors[1]), count);
        assert_int_equal(entries[0].shape.rank, entries[1].shape.rank == 4 ? 3 : 1);
        assert_ok(uf_tensor_download_as(tensors[0], UF_F64, numbers, count));
        assert_ok(uf_tensor_upload_as(tensors[1], UF_F64, numbers, count));
    }
    uf_store_touch(store);
}

static void compare(const axis_case *c, bool transposed) {
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    float x[2 * CHANNELS * LENGTH], y[2][MOST];
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value in = uf_input(graph, "x", UF_SHAPE(2, CHANNELS, LENGTH));
    const uf_value flat = one_axis(graph, in, uf_at(store, "a"), c, transposed);
    const uf_value image = uf_reshape(graph, in, UF_SHAPE(2, CHANNELS, 1, LENGTH));
    const uf_value deep = two_axes(graph, image, uf_at(store, "b"), c, transposed);
    uf_output(graph, "flat", flat);
    uf_output(graph, "deep", deep);
    assert_ok(uf_graph_status(graph));
    const uf_shape shapes[2] = {uf_value_shape(graph, flat), uf_value_shape(graph, deep)};
    assert_int_equal(shapes[0].rank, 3);
    assert_int_equal(shapes[1].extent[2], 1);
    assert_int_equal(shapes[0].extent[2], shapes[1].extent[3]);
    if (transposed && c->output_size != 0) {
        assert_int_equal(shapes[0].extent[2], c->output_size);
    }
    assert_ok(uf_init_default(graph, store));
    copy_half(store);
    for (int i = 0; i < 2 * CHANNELS * LENGTH; ++i) {
        x[i] = (float)((i * 37) % 29) - 14.0f;
    }
    assert_ok(uf_program_compile(graph, NULL, &program));
    assert_ok(uf_tensor_upload(uf_program_input(program, "x"), x));
    assert_ok(uf_program_run(program));
    const int64_t count = uf_shape_count(&shapes[0]);
    assert_in_range(count, 1, MOST);
    assert_ok(uf_tensor_download(uf_program_output(program, "flat"), y[0]));
    assert_ok(uf_tensor_download(uf_program_output(program, "deep"), y[1]));
    assert_same_bits("a height of 1", y[0], y[1], count * (int64_t)sizeof y[0][0]);
    assert_true(y[0][0] != y[0][1]);
    uf_context_destroy(context);
}

static void test_same_as_two_axes(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        compare(&cases[i], false);
        compare(&cases[i], true);
    }
}

/* NULL is the defaults: torch has no default kernel, ours is 3. */
static void test_defaults(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 11));
    const uf_value down = uf_conv1d(graph, x, uf_at(store, "down"), 6, NULL);
    const uf_value up = uf_conv_transpose1d(graph, x, uf_at(store, "up"), 6, NULL);
    assert_ok(uf_graph_status(graph));
    assert_int_equal(uf_value_shape(graph, down).extent[2], 9);
    assert_int_equal(uf_value_shape(graph, up).extent[2], 13);
    assert_int_equal(uf_store_size(store), 4);
    uf_context_destroy(context);
}

static void refuse(const uf_shape *shape, const axis_case *c, bool transposed, const char *text,
                   const char *other) {
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", *shape);
    assert_int_equal(one_axis(graph, x, uf_at(store, "main.1"), c, transposed).id, 0);
    assert_error(uf_graph_status(graph), UF_ERROR_INVALID_ARGUMENT,
                 transposed ? "main.1: conv_transpose1d" : "main.1: conv1d", text, other);
    uf_context_destroy(context);
}

static void test_refusals(void **state) {
    (void)state;
    const uf_shape sequence = UF_SHAPE(2, CHANNELS, LENGTH);
    const uf_shape image = UF_SHAPE(2, CHANNELS, 1, LENGTH);
    for (int transposed = 0; transposed < 2; ++transposed) {
        axis_case c = cases[0];
        refuse(&image, &c, transposed, "(N, C, L)", "(2, 4, 1, 11)");
        c.kernel = 0;
        refuse(&sequence, &c, transposed, "height of 1", "kernel is (1, 0)");
        c = cases[0];
        c.stride = -2;
        refuse(&sequence, &c, transposed, "height of 1", "stride is (1, -2)");
        c = cases[0];
        c.padding = -1;
        refuse(&sequence, &c, transposed, "height of 1", "padding is (0, -1)");
        c = cases[0];
        c.groups = 3;
        refuse(&sequence, &c, transposed, "in_channels 4", "groups 3");
    }
    axis_case c = cases[0];
    c.kernel = 12;
    refuse(&sequence, &c, false, "height of 1", "the padded input is (1, 11)");
    c = cases[0];
    c.output_padding = 1;
    refuse(&sequence, &c, true, "height of 1", "output_padding is (0, 1)");
    c.output_size = 12; /* 13 is all that it can be */
    refuse(&sequence, &c, true, "an output size of (1, 12)", "(1, 13) to (1, 13)");
}

/* The options of two axes, which an older program may hand over, are longer: they are refused. */
static void test_options_of_two_axes(void **state) {
    (void)state;
    for (int transposed = 0; transposed < 2; ++transposed) {
        uf_context *context = test_context(1);
        uf_store *store;
        uf_graph *graph;
        assert_ok(uf_store_create(context, "net", &store));
        assert_ok(uf_graph_create(context, &graph));
        const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 11));
        const uf_conv2d_options conv = uf_conv2d_options_default();
        const uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
        const uf_scope scope = uf_at(store, "main.1");
        const uf_value y = transposed ? uf_conv_transpose1d(graph, x, scope, 6, (const void *)&up)
                                      : uf_conv1d(graph, x, scope, 6, (const void *)&conv);
        assert_int_equal(y.id, 0);
        assert_error(uf_graph_status(graph), UF_ERROR_INVALID_ARGUMENT,
                     transposed ? "uf_conv_transpose1d_options" : "uf_conv1d_options");
        uf_context_destroy(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_two_axes),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_options_of_two_axes),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("one_axis", tests, NULL, NULL);
}
