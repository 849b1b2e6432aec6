/* test_inspect.c - a graph as a table and as Graphviz, and the lists of a program's inputs and
 * outputs. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct page {
    char text[4096];
} page;

static void append_line(void *user, const char *line) {
    page *written = user;
    const size_t used = strlen(written->text);
    assert_true(used + strlen(line) + 2 <= sizeof written->text);
    (void)snprintf(written->text + used, sizeof written->text - used, "%s\n", line);
}

/* One generator, and one discriminator that looks twice. */
static uf_graph *make_graph(uf_context *context) {
    uf_store *up, *down;
    uf_graph *graph;
    assert_ok(uf_store_create(context, "up", &up));
    assert_ok(uf_store_create(context, "down", &down));
    assert_ok(uf_graph_create(context, &graph));
    uf_value x = uf_input(graph, "z", UF_SHAPE(2, 6, 3, 5));
    uf_conv_transpose2d_options larger = uf_conv_transpose2d_options_default();
    larger.stride[0] = larger.stride[1] = 2;
    larger.groups = 2;
    x = uf_conv_transpose2d(graph, x, uf_at(up, "main.0"), 4, &larger);
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(up, "main.1"), NULL));
    uf_output(graph, "image", x);
    for (int i = 0; i < 2; ++i) {
        uf_value y = uf_conv2d(graph, x, uf_at(down, "look"), 3, NULL);
        y = uf_reshape(graph, y, UF_SHAPE(2, 135));
        y = uf_linear(graph, y, uf_at(down, "judge"), 1, false);
        uf_output(graph, i == 0 ? "first" : "second", y);
    }
    assert_ok(uf_graph_status(graph));
    return graph;
}

/* 2*6*3*5 elements meet filters of 2*3*3; 2*3*5*9 filters of 4*3*3; 2 outputs sum 135 products. */
static const char expected_table[] =
    "name    layer             shape              parameters       multiply-adds\n"
    "z       input             (2, 6, 3, 5)                -                   -\n"
    "main.0  conv_transpose2d  (2, 4, 7, 11)             112               3,240\n"
    "main.1  batch_norm2d      (2, 4, 7, 11)               8                   -\n"
    "        relu              (2, 4, 7, 11)               -                   -\n"
    "look    conv2d            (2, 3, 5, 9)              111               9,720\n"
    "        reshape           (2, 135)                    -                   -\n"
    "judge   linear            (2, 1)                    135                 270\n"
    "look    conv2d            (2, 3, 5, 9)              111               9,720\n"
    "        reshape           (2, 135)                    -                   -\n"
    "judge   linear            (2, 1)                    135                 270\n"
    "image   output            (2, 4, 7, 11)               -                   -\n"
    "first   output            (2, 1)                      -                   -\n"
    "second  output            (2, 1)                      -                   -\n"
    "total                                               366              23,220\n"
    "parameters: 366 in 1.4 KiB; buffers: 8\n"
    "values that layers make: 2,392, 9.3 KiB in f32 if none shares memory\n";

static void test_table(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph = make_graph(context);
    page written = {""};
    assert_ok(uf_graph_print_to(graph, append_line, &written));
    assert_string_equal(written.text, expected_table);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_ok(uf_graph_print(graph, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected_table);
    free(text);
    uf_context_destroy(context);
}

static void test_dot(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    assert_ok(uf_store_create(context, "store", &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value a = uf_input(graph, "a \"quoted\\\" name", UF_SHAPE(2, 3));
    const uf_value b = uf_linear(graph, a, uf_at(store, "fc\x1b"), 3, true);
    uf_output(graph, "sum", uf_add(graph, a, b));
    page written = {""};
    assert_ok(uf_graph_dot_to(graph, append_line, &written));
    assert_string_equal(written.text, "digraph unfurl {\n"
                                      "  node [shape=box];\n"
                                      "  v1 [label=\"a \\\"quoted\\\\\\\" name\", shape=ellipse];\n"
                                      "  n0 [label=\"fc\\x1b\\nlinear\"];\n"
                                      "  v1 -> n0 [label=\"(2, 3)\"];\n"
                                      "  n1 [label=\"add\"];\n"
                                      "  v1 -> n1 [label=\"(2, 3)\"];\n"
                                      "  n0 -> n1 [label=\"(2, 3)\"];\n"
                                      "  o0 [label=\"sum\", shape=ellipse];\n"
                                      "  n1 -> o0 [label=\"(2, 3)\"];\n"
                                      "}\n");
    uf_context_destroy(context);
}

/* Layers that differ by their attributes have the names of their functions. */
static void test_titles(void **state) {
    (void)state;
    static const char *const titles[] = {"conv_transpose1d", "conv1d", "leaky_relu", "tanh",
                                         "sigmoid",          "detach", "l1_loss",    "mse_loss"};
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    assert_ok(uf_store_create(context, "store", &store));
    assert_ok(uf_graph_create(context, &graph));
    uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3, 9));
    x = uf_conv_transpose1d(graph, x, uf_at(store, "a"), 3, NULL);
    x = uf_conv1d(graph, x, uf_at(store, "b"), 3, NULL);
    x = uf_sigmoid(graph, uf_tanh(graph, uf_leaky_relu(graph, x, 0.1)));
    (void)uf_l1_loss(graph, x, x);
    (void)uf_mse_loss(graph, x, x);
    page written = {""};
    assert_ok(uf_graph_print_to(graph, append_line, &written));
    for (int64_t i = 0; i < COUNT_OF(titles); ++i) {
        assert_non_null(strstr(written.text, titles[i]));
    }
    uf_context_destroy(context);
}

static void test_errors(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph = make_graph(context);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    (void)setvbuf(full, NULL, _IONBF, 0);
    assert_error(uf_graph_print(graph, full), UF_ERROR_IO, "uf_graph_print");
    assert_error(uf_graph_dot(graph, full), UF_ERROR_IO, "uf_graph_dot");
    (void)fclose(full);
    assert_error(uf_graph_print(graph, NULL), UF_ERROR_INVALID_ARGUMENT, "file");
    assert_error(uf_graph_dot_to(graph, NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "write");
    /* A graph whose building failed shows how far it came. */
    (void)uf_pad2d(graph, uf_input(graph, "late", UF_SHAPE(1, 1, 2, 2)), UF_PAD_ZERO, -9, 0, 0, 0);
    page written = {""};
    assert_error(uf_graph_print_to(graph, append_line, &written), UF_ERROR_INVALID_ARGUMENT, "pad");
    assert_non_null(strstr(written.text, "late"));
    uf_context_destroy(context);
}

static void test_lists(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph = make_graph(context);
    uf_program_options options = uf_program_options_default();
    const uf_input_shape shape = {"z", UF_SHAPE(2, 6, 3, 5)};
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(graph, &options, &program));
    (void)uf_input(graph, "later", UF_SHAPE(1)); /* is none of this program's */
    assert_int_equal(uf_program_input_count(program), 1);
    assert_int_equal(uf_program_output_count(program), 3);
    assert_string_equal(uf_program_input_name(program, 0), "z");
    assert_string_equal(uf_program_output_name(program, 2), "second");
    const uf_shape z = uf_program_input_shape(program, 0);
    const uf_shape image = uf_program_output_shape(program, 0);
    assert_true(uf_shape_equal(&z, &shape.shape));
    const uf_shape expected = UF_SHAPE(2, 4, 7, 11);
    assert_true(uf_shape_equal(&image, &expected));
    for (int32_t i = -1; i < 4; i += 4) { /* -1 and 3 */
        assert_null(uf_program_input_name(program, i));
        assert_null(uf_program_output_name(program, i));
        assert_int_equal(uf_program_input_shape(program, i).rank, -1);
        assert_int_equal(uf_program_output_shape(program, i).rank, -1);
    }
    assert_int_equal(uf_program_input_count(NULL) + uf_program_output_count(NULL), 0);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),  cmocka_unit_test(test_dot),   cmocka_unit_test(test_titles),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_lists),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
