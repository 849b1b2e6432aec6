/* test_program.c - what a program promises beside the numbers: it sees changed weights, takes other
 * shapes and other stores, keeps its addresses, and leaves alone what is an output. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/graph_door.h"
#include "support/network.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    uf_value conv, norm, result;
} fixture;

/* conv_transpose2d -> batch_norm2d -> relu, in f64, weights filled from `seed`. */
static fixture open_fixture(int64_t seed) {
    fixture f;
    memset(&f, 0, sizeof f);
    f.context = test_context(2);
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_F64;
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 3, 4, 5));
    f.conv = uf_conv_transpose2d(f.graph, x, uf_at(f.store, "conv"), 4, NULL);
    f.norm = uf_batch_norm2d(f.graph, f.conv, uf_at(f.store, "norm"), NULL);
    f.result = uf_relu(f.graph, f.norm);
    uf_output(f.graph, "y", f.result);
    assert_ok(uf_graph_status(f.graph));
    test_random random = test_random_for("program", seed);
    network_fill_store(f.store, &random);
    return f;
}

static void compile(fixture *f, bool fuse) {
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.fuse = fuse;
    assert_ok(uf_program_compile(f->graph, &options, &f->program));
}

static void close_fixture(fixture *f) {
    uf_program_destroy(f->program);
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* Run on the input of `seed`; the caller frees the output. */
static double *run(uf_program *program, const char *output_name, int64_t seed, int64_t *count) {
    uf_tensor *input = uf_program_input(program, "x");
    uf_tensor *output = uf_program_output(program, output_name);
    assert_non_null(input);
    assert_non_null(output);
    test_random random = test_random_for("input", seed);
    double *values = test_allocate((size_t)uf_tensor_count(input) * sizeof *values);
    test_random_fill(&random, values, uf_tensor_count(input), 1.0);
    assert_ok(uf_tensor_upload_as(input, UF_F64, values, uf_tensor_count(input)));
    assert_ok(uf_program_run(program));
    free(values);
    *count = uf_tensor_count(output);
    values = test_allocate((size_t)*count * sizeof *values);
    assert_ok(uf_tensor_download_as(output, UF_F64, values, *count));
    return values;
}

/* Folded batch norms are made again after the store is touched. */
static void test_changed_weights(void **state) {
    (void)state;
    for (int fuse = 0; fuse < 2; ++fuse) {
        fixture old = open_fixture(1);
        fixture new = open_fixture(2);
        compile(&old, fuse == 1);
        compile(&new, fuse == 1);
        int64_t count = 0;
        double *before = run(old.program, "y", 0, &count);
        double *expected = run(new.program, "y", 0, &count);
        assert_memory_not_equal(before, expected, (size_t)count * sizeof *before);
        const uint64_t version = uf_store_version(old.store);
        test_random random = test_random_for("program", 2);
        network_fill_store(old.store, &random);
        assert_true(uf_store_version(old.store) > version);
        double *after = run(old.program, "y", 0, &count);
        assert_same_bits("after the weights changed", after, expected,
                         count * (int64_t)sizeof *after);
        free(before);
        free(expected);
        free(after);
        close_fixture(&old);
        close_fixture(&new);
    }
}

/* A value that is an output, or has a second reader, survives fusion. */
static void test_inner_outputs(void **state) {
    (void)state;
    fixture plain = open_fixture(3);
    fixture inner = open_fixture(3);
    uf_output(inner.graph, "conv", inner.conv);
    uf_output(inner.graph, "norm", inner.norm);
    compile(&plain, false);
    compile(&inner, true);
    int64_t count = 0;
    double *y = run(plain.program, "y", 0, &count);
    double *inner_y = run(inner.program, "y", 0, &count);
    double *norm = run(inner.program, "norm", 0, &count);
    assert_same_bits("y", inner_y, y, count * (int64_t)sizeof *y);
    bool negative = false;
    for (int64_t i = 0; i < count; ++i) {
        negative = negative || norm[i] < 0.0;
        assert_true(y[i] == (norm[i] > 0.0 ? norm[i] : 0.0));
    }
    assert_true(negative);
    free(y);
    free(inner_y);
    free(norm);
    close_fixture(&plain);
    close_fixture(&inner);
}

static void test_other_shapes(void **state) {
    (void)state;
    fixture f = open_fixture(4);
    const uf_input_shape wide = {"x", UF_SHAPE(1, 3, 7, 2)};
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.input_shapes = &wide;
    options.input_shape_count = 1;
    assert_ok(uf_program_compile(f.graph, &options, &f.program));
    const uf_shape got = uf_tensor_shape(uf_program_output(f.program, "y"));
    const uf_shape expected = UF_SHAPE(1, 4, 9, 4);
    assert_true(uf_shape_equal(&got, &expected));
    uf_program *second = NULL;
    options.input_shape_count = 0;
    assert_ok(uf_program_compile(f.graph, &options, &second)); /* two programs of one graph */
    int64_t count = 0;
    double *small = run(f.program, "y", 0, &count);
    assert_int_equal(count, 1 * 4 * 9 * 4);
    double *large = run(second, "y", 0, &count);
    assert_int_equal(count, 2 * 4 * 6 * 7);
    free(small);
    free(large);
    uf_program_destroy(second);

    uf_program *failed = f.program;
    const uf_input_shape channels = {"x", UF_SHAPE(1, 5, 7, 2)};
    options.input_shapes = &channels;
    options.input_shape_count = 1;
    assert_error(uf_program_compile(f.graph, &options, &failed), UF_ERROR_SHAPE, "conv.weight",
                 "(5, 4, 3, 3)", "(3, 4, 3, 3)");
    assert_null(failed);
    const uf_input_shape unknown = {"q", UF_SHAPE(1, 5, 7, 2)};
    options.input_shapes = &unknown;
    assert_error(uf_program_compile(f.graph, &options, &failed), UF_ERROR_NOT_FOUND, "no input",
                 "q");
    assert_null(failed);
    close_fixture(&f);
}

/* Layers that rearrange elements follow the shapes of the program, not those of the graph. */
static void test_other_shapes_rearranged(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    uf_graph *graph;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2, 4, 4));
    const uf_value like = uf_input(graph, "like", UF_SHAPE(1, 1, 2, 2));
    const uf_value last = uf_slice(graph, uf_crop_like(graph, x, like), 0, -1, INT64_MAX);
    uf_output(graph, "y", uf_flatten(graph, last, 1, -1));
    const uf_input_shape shapes[] = {{"x", UF_SHAPE(3, 2, 6, 5)}, {"like", UF_SHAPE(3, 1, 3, 2)}};
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.input_shapes = shapes;
    options.input_shape_count = 2;
    uf_program *program;
    assert_ok(uf_program_compile(graph, &options, &program));
    uf_tensor *input = uf_program_input(program, "x"), *output = uf_program_output(program, "y");
    const uf_shape got = uf_tensor_shape(output), expected = UF_SHAPE(1, 12);
    double numbers[3 * 2 * 6 * 5], y[12];
    assert_true(uf_shape_equal(&got, &expected));
    for (int i = 0; i < COUNT_OF(numbers); ++i) {
        numbers[i] = i;
    }
    assert_ok(uf_tensor_upload_as(input, UF_F64, numbers, COUNT_OF(numbers)));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "like"), UF_F64, numbers, 18));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(output, UF_F64, y, COUNT_OF(y)));
    for (int i = 0; i < COUNT_OF(y); ++i) { /* rows 1 to 3 and columns 1, 2 of the last image */
        assert_true(y[i] == ((4 + i / 6) * 6 + 1 + i % 6 / 2) * 5 + 1 + i % 2);
    }
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_context_destroy(context);
}

static void test_bindings(void **state) {
    (void)state;
    fixture f = open_fixture(5);
    fixture other = open_fixture(6);
    compile(&other, true);
    int64_t count = 0;
    double *expected = run(other.program, "y", 0, &count);

    /* A store in f32 copied to f64 and bound in its place. */
    uf_store *copy = NULL;
    assert_ok(uf_store_copy(other.store, f.context, UF_F64, &copy));
    const uf_binding binding = {f.store, copy};
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.bindings = &binding;
    options.binding_count = 1;
    assert_ok(uf_program_compile(f.graph, &options, &f.program));
    double *got = run(f.program, "y", 0, &count);
    assert_same_bits("bound store", got, expected, count * (int64_t)sizeof *got);
    free(got);
    free(expected);

    uf_store *narrow = NULL;
    assert_ok(uf_store_copy(other.store, f.context, UF_F32, &narrow));
    const uf_binding wrong = {f.store, narrow};
    uf_program *failed = NULL;
    options.bindings = &wrong;
    assert_error(uf_program_compile(f.graph, &options, &failed), UF_ERROR_INVALID_ARGUMENT, "f32",
                 "f64");
    assert_null(failed);
    uf_program_destroy(f.program);
    f.program = NULL;
    uf_store_destroy(narrow);
    uf_store_destroy(copy);
    close_fixture(&other);
    close_fixture(&f);
}

static void test_addresses(void **state) {
    (void)state;
    fixture f = open_fixture(7);
    compile(&f, true);
    void *input = uf_tensor_data(uf_program_input(f.program, "x"));
    void *output = uf_tensor_data(uf_program_output(f.program, "y"));
    int64_t count = 0;
    for (int i = 0; i < 3; ++i) {
        double *values = run(f.program, "y", i, &count);
        free(values);
        assert_ptr_equal(uf_tensor_data(uf_program_input(f.program, "x")), input);
        assert_ptr_equal(uf_tensor_data(uf_program_output(f.program, "y")), output);
    }
    assert_true(uf_program_memory(f.program) >= (size_t)count * sizeof(double));
    assert_null(uf_program_input(f.program, "y"));
    assert_non_null(strstr(uf_last_error(), "y"));
    assert_null(uf_program_output(f.program, "nothing"));
    assert_non_null(strstr(uf_last_error(), "nothing"));
    close_fixture(&f);
}

/* Two layers on one scope share its weights. */
static void test_shared_weights(void **state) {
    (void)state;
    fixture f = open_fixture(8);
    const uf_value x = uf_input(f.graph, "x2", UF_SHAPE(1, 3, 2, 2));
    const uf_value again = uf_conv_transpose2d(f.graph, x, uf_at(f.store, "conv"), 4, NULL);
    uf_output(f.graph, "y2", again);
    compile(&f, true);
    assert_int_equal(uf_store_size(f.store), 2 + 5);
    assert_ok(uf_program_run(f.program));
    close_fixture(&f);
}

/* A value may be an input and an output at once. */
static void test_input_as_output(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph = NULL;
    uf_program *program = NULL;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2, 3, 4));
    uf_output(graph, "same", x);
    uf_output(graph, "positive", uf_relu(graph, x));
    assert_ok(uf_program_compile(graph, NULL, &program));
    int64_t count = 0;
    double *same = run(program, "same", 0, &count);
    double *positive = run(program, "positive", 0, &count);
    for (int64_t i = 0; i < count; ++i) {
        assert_true(positive[i] == (same[i] > 0.0 ? same[i] : 0.0));
    }
    free(same);
    free(positive);
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_context_destroy(context);
}

/* A graph may grow after a program was compiled from it: the program stays what it was. */
static void test_grown_graph(void **state) {
    (void)state;
    fixture f = open_fixture(8);
    compile(&f, true);
    int64_t count, again;
    double *before = run(f.program, "y", 80, &count);
    uf_value x = f.result;
    for (int i = 0; i < 500; ++i) {
        x = uf_relu(f.graph, x);
    }
    uf_output(f.graph, "later", x);
    (void)uf_input(f.graph, "late", UF_SHAPE(1));
    assert_ok(uf_graph_status(f.graph));
    double *after = run(f.program, "y", 80, &again);
    assert_int_equal(count, again);
    assert_same_bits("after the graph grew", after, before, count * (int64_t)sizeof(double));
    assert_null(uf_program_output(f.program, "later"));
    assert_null(uf_program_input(f.program, "late"));
    free(before);
    free(after);
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changed_weights), cmocka_unit_test(test_inner_outputs),
        cmocka_unit_test(test_other_shapes),    cmocka_unit_test(test_other_shapes_rearranged),
        cmocka_unit_test(test_bindings),        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_shared_weights),  cmocka_unit_test(test_input_as_output),
        cmocka_unit_test(test_grown_graph),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
