/* test_model.c - model files: every function in the text and back, graphs of C programs, refusals
 * with line and column, the page that lists the functions, and ten thousand nodes. */
#include "support/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layers/function.h"

#define UF_LAYER(name) &uf_layer_##name,
static const uf_layer *const layers[] = {
#include "layers/layers.def"
};
#undef UF_LAYER

/* Layers that no function of layers.h makes: gradients as values, and a user's own arithmetic. */
static const uf_layer *const without_functions[] = {
    &uf_layer_activation_backward, &uf_layer_sum_to_size, &uf_layer_adjoint,
    &uf_layer_concat_part,         &uf_layer_custom,
};

/* Every function, with options that differ from their defaults. As the library writes it. */
static char every_function[1 << 14];

static int read_every_function(void) {
    FILE *file = fopen(TEST_SOURCE_DIR "/tests/model/every_function.txt", "r");
    if (file == NULL) {
        return -1;
    }
    every_function[fread(every_function, 1, sizeof every_function - 1, file)] = '\0';
    return fclose(file);
}

/* ---- text ---- */

typedef struct page {
    char *text;
    size_t size, used;
} page;

static void append_line(void *user, const char *line) {
    page *to = user;
    const size_t length = strlen(line);
    assert_true(to->used + length + 2 <= to->size);
    memcpy(to->text + to->used, line, length);
    to->text[to->used + length] = '\n';
    to->text[to->used + length + 1] = '\0';
    to->used += length + 1;
}

static char *write_text(const uf_model *model) {
    page to = {.size = (size_t)1 << 21};
    to.text = test_allocate(to.size);
    to.text[0] = '\0';
    assert_ok(uf_model_write(model, append_line, &to));
    return to.text;
}

static uf_model *parse(uf_context *context, const char *text) {
    uf_model *model;
    assert_ok(uf_model_parse(context, "text", text, strlen(text), NULL, &model));
    return model;
}

static uf_shape shape_of(const uf_model *model, int32_t index) {
    uf_value value;
    assert_ok(uf_model_value(model, uf_model_value_name(model, index), &value));
    return uf_value_shape(uf_model_graph(model), value);
}

/* Options that have their default are left out; the text has some of these on purpose. */
static void without(char *text, const char *piece) {
    char *at = strstr(text, piece);
    assert_non_null(at);
    memmove(at, at + strlen(piece), strlen(at + strlen(piece)) + 1);
}

static void test_round_trip(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    char expected[sizeof every_function];
    memcpy(expected, every_function, sizeof expected);
    without(expected, "dilation=1, ");
    without(expected, ", dilation=1");
    uf_model *model = parse(context, every_function);
    char *text = write_text(model);
    assert_string_equal(text, expected);
    /* The same words of another model, and of one made of the graph alone. */
    uf_model *again = parse(context, text);
    char *second = write_text(again);
    assert_string_equal(second, expected);
    uf_model *made;
    assert_ok(uf_model_create(uf_model_graph(again), &made));
    char *third = write_text(made);
    uf_model *last = parse(context, third);
    assert_int_equal(uf_model_value_count(last), uf_model_value_count(model));
    for (int32_t i = 0; i < uf_model_value_count(model); ++i) {
        const uf_shape a = shape_of(model, i), b = shape_of(last, i);
        assert_true(uf_shape_equal(&a, &b));
    }
    free(text);
    free(second);
    free(third);
    uf_context_destroy(context);
}

/* A locale with a comma changes nothing. */
static void test_locale(void **state) {
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL && setlocale(LC_NUMERIC, "de_DE") == NULL) {
        skip();
    }
    test_round_trip(state);
    setlocale(LC_NUMERIC, "C");
}

/* ---- the functions ---- */

static bool has_functions(const uf_layer *layer) {
    for (int64_t i = 0; i < COUNT_OF(without_functions); ++i) {
        if (without_functions[i] == layer) {
            assert_null(layer->functions);
            return false;
        }
    }
    return true;
}

/* Each row of layers.def has functions, and each of these is tried above. */
static void test_every_function(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(layers); ++i) {
        if (!has_functions(layers[i])) {
            continue;
        }
        if (layers[i]->functions == NULL) {
            fail_msg("%s has no rows of functions (layers/function.h)", layers[i]->name);
        }
        for (const uf_layer_function *f = layers[i]->functions; f->name != NULL; ++f) {
            char call[128];
            (void)snprintf(call, sizeof call, " = %s(", f->name);
            if (strstr(every_function, call) == NULL) {
                fail_msg("%s is not tried by every_function of this file", f->name);
            }
            assert_true(f->size <= UF_ATTRIBUTES_SIZE);
            assert_true(f->count <= 64);
        }
    }
}

static void add_option(char *row, size_t size, const uf_option *option) {
    static const char *const kinds[] = {"integer", "integer", "integer (2)", "number", "number (2)",
                                        "",        "",        "axes",        "shape",  "name"};
    const size_t used = strlen(row);
    const double usual = option->fallback;
    char value[256] = "", number[64];
    (void)snprintf(number, sizeof number, "%.15g", usual);
    if (option->kind == UF_OPTION_FLAG) {
        (void)snprintf(value, sizeof value, "=%s", usual != 0.0 ? "true" : "false");
    } else if (option->kind == UF_OPTION_CHOICE) {
        (void)snprintf(value, sizeof value, " of ");
        for (int i = 0; option->words[i].word != NULL; ++i) {
            (void)snprintf(value + strlen(value), sizeof value - strlen(value), "%s`%s`",
                           i == 0 ? "" : ", ", option->words[i].word);
        }
    } else if (option->required || option->kind == UF_OPTION_AXES) {
        (void)snprintf(value, sizeof value, ": %s", kinds[option->kind]);
    } else {
        const bool pair = option->kind == UF_OPTION_PAIR || option->kind == UF_OPTION_NUMBERS;
        (void)snprintf(value, sizeof value, "=%s%s", usual >= 0x1p63 ? "end" : number,
                       pair ? " (2)" : "");
    }
    (void)snprintf(row + used, size - used, "%s`%s`%s", row[used - 2] == '|' ? "" : "; ",
                   option->name, value);
}

/* The page's rows, made anew, are those that it has. */
static void test_page(void **state) {
    (void)state;
    char *wanted = test_allocate(1 << 16), *found = test_allocate(1 << 17);
    (void)snprintf(wanted, 1 << 16, "| function | values | options |\n|---|---|---|\n");
    for (int64_t i = 0; i < COUNT_OF(layers); ++i) {
        for (const uf_layer_function *f = layers[i]->functions; f != NULL && f->name != NULL; ++f) {
            char row[2048], values[32];
            (void)snprintf(values, sizeof values,
                           f->least_inputs == f->most_inputs ? "%d" : "%d to %d",
                           (int)f->least_inputs, (int)f->most_inputs);
            (void)snprintf(row, sizeof row, "| `%s` | %s | ", f->name, values);
            for (int32_t k = 0; k < f->count; ++k) {
                if (f->table[k].name != NULL) {
                    add_option(row, sizeof row, &f->table[k]);
                }
            }
            (void)snprintf(wanted + strlen(wanted), (1 << 16) - strlen(wanted), "%s |\n", row);
        }
    }
    FILE *file = fopen(TEST_SOURCE_DIR "/docs/model-format.md", "r");
    assert_non_null(file);
    found[fread(found, 1, (1 << 17) - 1, file)] = '\0';
    (void)fclose(file);
    if (strstr(found, wanted) == NULL) {
        (void)fprintf(stderr, "%s", wanted);
        fail_msg("docs/model-format.md should have the rows that are printed above");
    }
    free(wanted);
    free(found);
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *lines; /* behind the head and an input x of (2, 3, 4, 4) */
    const char *words[3];
} refusal;

static const refusal refusals[] = {
    {"y = relu(z)\n", {"line 3, column 10", "no line above makes a value named z"}},
    {"y = rely(x)\n", {"line 3, column 5", "no layer named rely"}},
    {"y = relu(x\n", {"line 3, column 11", "',' is needed here, not the end of the line"}},
    {"y = relu(x) x\n", {"line 3, column 13", "should end here"}},
    {"y = relu()\n", {"line 3, column 10", "takes 1 values, not 0"}},
    {"y = relu(x, x)\n", {"line 3, column 13", "at most 1 values"}},
    {"x = relu(x)\n", {"line 3, column 1", "a line above makes a value named x"}},
    {"y = conv2d(x)\n", {"line 3, column 13", "conv2d needs out_channels"}},
    {"y = conv2d(x, out_channels=2, size=3)\n", {"column 31", "conv2d has no option size"}},
    {"y = conv2d(x, out_channels=2, out_channels=3)\n", {"column 31", "out_channels twice"}},
    {"y = conv2d(x, out_channels=2.5)\n", {"column 28", "out_channels is 2.5", "an integer"}},
    {"y = conv2d(x, out_channels=9223372036854775808)\n", {"column 28", "must be an integer"}},
    {"y = conv2d(x, out_channels=2, bias=1)\n", {"column 36", "must be true or false"}},
    {"y = conv2d(x, out_channels=2, kernel=(3, 3, 3))\n", {"more than 2 numbers"}},
    {"y = conv2d(x, out_channels=2, kernel=(3))\n", {"has 1 numbers; it needs 2"}},
    {"y = conv2d(x, out_channels=2, kernel=9)\n", {"line 3: y: conv2d"}},
    {"y = conv2d(x, out_channels=2, groups=2)\n", {"line 3: y: ", "divisible by groups 2"}},
    {"y = scale(x, factor=0x10)\n", {"column 21", "must be a number"}},
    {"y = scale(x, factor=1e)\n", {"column 21", "must be a number"}},
    {"y = pad2d(x, mode=mirror)\n", {"column 19", "one of zero, replicate, reflect"}},
    {"y = permute(x, axes=(0, 1, 2, 3, 4, 5, 6, 7, 8))\n", {"more than 8 numbers"}},
    {"y = concat(x, x, x, x, x, x, x, x, x)\n", {"at most 8 values"}},
    {"y = softmax(x, axis=4294967296)\n", {"-2147483648 to 2147483647"}},
    {"y = parameter(name=\"\", shape=(2))\n", {"column 20"}},
    {"y = reshape(x, shape=(0, 5, 0))\n", {"line 3", "cannot become (0, 5, 0)"}},
    {"y = reshape(x, shape=(-1, 1, 1, 1, 1, 1, 0))\n",
     {"line 3", "0 is the input's at that place"}},
    {"y = parameter(name=weight, shape=(0))\n", {"line 3", "empty"}},
    {"y = loss(x, kind=mse_loss)\n", {"line 3", "mse_loss takes 2 values, not 1"}},
    {"y = loss(x, x, kind=mse_loss, beta=-1)\n", {"line 3", "beta is -1"}},
    {"y = \"relu\n", {"line 3, column 5", "does not end"}},
    {"y ; relu(x)\n", {"line 3, column 3", "byte 0x3b begins no word"}},
    {"relu(x)\n", {"line 3, column 1", "a line begins with"}},
    {"input x f32 (2)\n", {"line 3, column 7", "a line above makes a value named x"}},
    {"input z f16 (2)\n", {"line 3, column 9", "one of f32, i64"}},
    {"input z f32 (0)\n", {"line 3, column 14", "1 to 1099511627776"}},
    {"input z f32 (N=3)\n", {"line 3", "N is 3 here and 2 above"}},
    {"input z f32 (1N=3)\n", {"line 3, column 14", "no symbol"}},
    {"input z f32 (1, 1, 1, 1, 1, 1, 1, 1, 1)\n", {"more than 8 extents"}},
    {"input z f32 (1099511627776, 1099511627776)\n", {"line 3", "input z"}},
    {"input l i64 (2)\ny = relu(l)\n", {"line 4", "i64 elements"}},
    {"output y = z\n", {"line 3, column 12", "named z"}},
    {"output y = x\noutput y = x\n", {"line 4", "two outputs named y"}},
    {"y = relu(x)\n", {"no output"}},
    {"picture input z\n", {"line 3", "no input named z"}},
    {"picture left x\n", {"column 9", "one of input, output"}},
    {"picture input x range=(1, 0)\n", {"line 3", "range is 1 to 0"}},
    {"picture input x std=(1, 0, 1)\n", {"line 3", "std must be above 0"}},
    {"picture input x border=-1\n", {"line 3", "border is -1"}},
    {"picture input x multiple=0\n", {"line 3", "multiple is 0"}},
    {"picture input x size=1\n", {"a picture has no option size"}},
    {"y = embedding(x, num_embeddings=2, embedding_dim=3)\n", {"line 3", "i64"}},
    {"y = linear(x, at=a, at=b, out_features=2)\n", {"column 24", "at is one scope"}},
    {"a = linear(x, at=s, out_features=2)\nb = linear(x, at=s, out_features=3)\n",
     {"line 4", "s.weight"}},
};

static void test_refusals(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(refusals); ++i) {
        char text[1024];
        uf_model *model = (uf_model *)context;
        const int length = snprintf(
            text, sizeof text, "unfurl model 1\ninput x f32 (N=2, 3, 4, 4)\n%s", refusals[i].lines);
        const uf_status status =
            uf_model_parse(context, "text", text, (size_t)length, NULL, &model);
        assert_null(model);
        if (status != UF_ERROR_FORMAT) {
            fail_msg("%s: %s: %s", refusals[i].lines, uf_status_name(status), uf_last_error());
        }
        for (int k = 0; k < 3 && refusals[i].words[k] != NULL; ++k) {
            if (strstr(uf_last_error(), refusals[i].words[k]) == NULL) {
                fail_msg("%sgives '%s', without '%s'", refusals[i].lines, uf_last_error(),
                         refusals[i].words[k]);
            }
        }
    }
    uf_model *model;
    const char *const heads[] = {"", "\n\n", "unfurl", "unfurl model", "onnx model 1\n"};
    for (int64_t i = 0; i < COUNT_OF(heads); ++i) {
        assert_error(uf_model_parse(context, "text", heads[i], strlen(heads[i]), NULL, &model),
                     UF_ERROR_FORMAT, "text: line");
    }
    const char later[] = "unfurl model 2\n";
    assert_error(uf_model_parse(context, "text", later, strlen(later), NULL, &model),
                 UF_ERROR_FORMAT, "line 1, column 14", "version 2", "reads version 1");
    char name[256];
    memset(name, 'a', sizeof name);
    (void)memcpy(name, "unfurl model 1\n", 15);
    assert_error(uf_model_parse(context, "text", name, sizeof name, NULL, &model), UF_ERROR_FORMAT,
                 "line 2, column 1", "more than 159 bytes");
    /* A zero byte is no word, and none of a name. */
    assert_error(uf_model_parse(context, "text", "unfurl model 1\n\"a\0b\" = ", 24, NULL, &model),
                 UF_ERROR_FORMAT, "byte 0x00");
    uf_context_destroy(context);
}

/* ---- files ---- */

static char path[] = "/tmp/unfurl-test-model-XXXXXX";

/* A generator of a C program's, with tensors that are no part of it in its store. */
static uf_graph *make_graph(uf_context *context, uf_store **store) {
    uf_graph *graph;
    assert_ok(uf_store_create(context, "generator", store));
    assert_ok(uf_graph_create(context, &graph));
    uf_conv2d_options conv = uf_conv2d_options_square(3, 1, 1, true);
    conv.weight = UF_WEIGHT_SPECTRAL_NORM;
    uf_value x = uf_input(graph, "z", UF_SHAPE(3, 5, 1, 1));
    x = uf_conv_transpose2d(graph, x, uf_at(*store, "main.0"), 4,
                            UF_CONV_TRANSPOSE2D(4, 1, 0, false));
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(*store, "main.1"), NULL));
    x = uf_conv2d(graph, x, uf_at(*store, "main.3"), 4, &conv);
    x = uf_add(graph, x, uf_conv2d(graph, x, uf_at(*store, "main.4"), 4, UF_CONV2D(1, 1, 0, true)));
    uf_output(graph, "image", uf_tanh(graph, x));
    assert_ok(uf_graph_status(graph));
    assert_ok(uf_init_default(graph, *store));
    return graph;
}

static void run(uf_graph *graph, int64_t batch, double *image, int64_t count) {
    double z[64];
    const uf_input_shape shape = {"z", UF_SHAPE(batch, 5, 1, 1)};
    uf_program_options options = uf_program_options_default();
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    uf_program *program;
    for (int i = 0; i < 64; ++i) {
        z[i] = (double)(i % 7) - 3.0;
    }
    assert_ok(uf_program_compile(graph, &options, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "z"), UF_F64, z, batch * 5));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "image"), UF_F64, image, count));
    uf_program_destroy(program);
}

static void test_save_and_load(void **state) {
    (void)state;
    enum { COUNT = 3 * 4 * 4 * 4, LARGER = 4 * 4 * 4 * 4 };
    uf_context *context = test_context(1);
    uf_store *store;
    uf_model *model, *loaded;
    double before[LARGER], after[LARGER];
    uf_graph *graph = make_graph(context, &store);
    uf_picture_map map = uf_picture_map_default(), back;
    map.minimum = -1.0;
    assert_ok(uf_model_create(graph, &model));
    assert_ok(uf_model_set_picture(model, true, "image", &map));
    assert_error(uf_model_set_picture(model, false, "image", &map), UF_ERROR_INVALID_ARGUMENT,
                 "no input named image");
    assert_ok(uf_model_save(model, path));
    assert_ok(uf_model_load(context, path, NULL, &loaded));
    char *first = write_text(model), *second = write_text(loaded);
    assert_string_equal(first, second);
    assert_int_equal(uf_store_size(uf_model_store(loaded)), uf_store_size(store));
    assert_ok(uf_model_picture(loaded, true, "image", &back));
    assert_true(back.minimum == -1.0 && back.maximum == 1.0);
    for (int64_t batch = 3; batch <= 4; ++batch) {
        const int64_t count = batch == 3 ? COUNT : LARGER;
        run(graph, batch, before, count);
        run(uf_model_graph(loaded), batch, after, count);
        assert_memory_equal(before, after, (size_t)count * sizeof *before);
    }
    /* Another type, and the order of destruction. */
    uf_model_options options = uf_model_options_default();
    options.dtype = UF_F64;
    uf_model *wide;
    assert_ok(uf_model_load(context, path, &options, &wide));
    assert_int_equal(uf_store_dtype(uf_model_store(wide)), UF_F64);
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    char *third = write_text(model);
    assert_string_equal(first, third);
    uf_model_destroy(model);
    uf_model_destroy(NULL);
    free(first);
    free(second);
    free(third);
    uf_context_destroy(context);
}

static void test_bad_files(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store;
    uf_model *model;
    uf_graph *graph = make_graph(context, &store);
    /* Weights alone are no model; a model without a weight says which. */
    assert_ok(uf_store_save_hdf5(store, path));
    assert_error(uf_model_load(context, path, NULL, &model), UF_ERROR_FORMAT, path,
                 "no model file");
    assert_error(uf_model_load(context, "/nowhere/x.h5", NULL, &model), UF_ERROR_NOT_FOUND,
                 "/nowhere/x.h5");
    const float one = 1.0f;
    assert_ok(uf_hdf5_write(path, "model", UF_F32, UF_SHAPE(1), &one));
    assert_error(uf_model_load(context, path, NULL, &model), UF_ERROR_FORMAT,
                 "not one string of fixed length");
    assert_ok(uf_hdf5_write(path, "weights/x", UF_F32, UF_SHAPE(1), &one));
    assert_error(uf_model_load(context, path, NULL, &model), UF_ERROR_FORMAT, path,
                 "no dataset model");
    /* A layer of which a file knows nothing. */
    uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2));
    const uf_value y = uf_sum(graph, uf_tanh(graph, x), NULL, 0, false);
    uf_output(graph, "gradient", uf_gradient(graph, y, x));
    assert_error(uf_model_create(graph, &model), UF_ERROR_UNSUPPORTED, "cannot describe");
    assert_null(model);
    uf_context_destroy(context);
}

/* Bytes of a file damaged, alone, and lengths of it, at equal distances: a model, or a sentence. */
static void test_damaged_files(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_model_options options = uf_model_options_default();
    uf_store *store;
    uf_model *model;
    uf_graph *graph = make_graph(context, &store);
    options.untrusted = true;
    assert_ok(uf_model_create(graph, &model));
    assert_ok(uf_model_save(model, path));
    uf_model_destroy(model);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *bytes = test_allocate(1 << 16);
    const size_t size = fread(bytes, 1, 1 << 16, file);
    (void)fclose(file);
    assert_in_range(size, 1000, (1 << 16) - 1);
    int loaded = 0;
    for (size_t i = 0; i < 2 * size; i += i < size ? 11 : 61) {
        const size_t length = i < size ? size : i - size;
        if (i < size) {
            bytes[i] ^= 0xff;
        }
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, length, file), length);
        (void)fclose(file);
        if (i < size) {
            bytes[i] ^= 0xff;
        }
        const uf_status status = uf_model_load(context, path, &options, &model);
        if (status == UF_OK) {
            loaded += 1;
            uf_model_destroy(model);
        } else {
            assert_null(model);
            assert_true(status == UF_ERROR_FORMAT || status == UF_ERROR_SHAPE ||
                        status == UF_ERROR_NOT_FOUND);
            assert_non_null(strstr(uf_last_error(), path));
        }
    }
    assert_true(loaded > 0); /* numbers of weights have no checksum here */
    free(bytes);
    uf_context_destroy(context);
}

static void test_shapes(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_model *model = parse(context, every_function);
    uf_input_shape shapes[4];
    const uf_input_shape given[] = {{"planes", UF_SHAPE(5, 16, 12)},
                                    {"image", UF_SHAPE(5, 4, 16, 14)}};
    assert_ok(uf_model_input_shapes(model, given, 1, shapes));
    assert_string_equal(shapes[0].input, "image");
    const uf_shape image = UF_SHAPE(5, 4, 16, 12), labels = UF_SHAPE(5);
    assert_true(uf_shape_equal(&shapes[0].shape, &image));
    assert_true(uf_shape_equal(&shapes[2].shape, &labels));
    assert_error(uf_model_input_shapes(model, given, 2, shapes), UF_ERROR_SHAPE, "input image",
                 "W is 14 here and 12 elsewhere");
    const uf_input_shape other[] = {{"line", UF_SHAPE(5, 4, 11)}, {"nobody", UF_SHAPE(1)}};
    assert_error(uf_model_input_shapes(model, other, 1, shapes), UF_ERROR_SHAPE, "input line",
                 "(5, 4, 11)", "(2, 4, 12)");
    assert_error(uf_model_input_shapes(model, other + 1, 1, shapes), UF_ERROR_INVALID_ARGUMENT,
                 "no input named nobody");
    uf_context_destroy(context);
}

/* The processor's seconds since `start`, where nothing is instrumented: others may use the machine.
 */
static void assert_less_than_a_second(clock_t start) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds >= 1.0) {
        fail_msg("%g seconds", seconds);
    }
#else
    (void)start;
#endif
}

/* A value for each of 10,000 layers, all of them with a parameter, from a file in less than a
 * second. */
static void test_many_nodes(void **state) {
    (void)state;
    enum { NODES = 10000 };
    uf_context *context = test_context(1);
    char *text = test_allocate((size_t)NODES * 64);
    size_t used = (size_t)sprintf(text, "unfurl model 1\ninput v0 f32 (N=1, 4, 8, 8)\n");
    for (int i = 1; i <= NODES; ++i) {
        used += (size_t)sprintf(text + used, "v%d = conv2d(v%d, out_channels=4, padding=1)\n", i,
                                i - 1);
    }
    used += (size_t)sprintf(text + used, "output image = v%d\n", NODES);
    uf_model *model, *loaded;
    assert_ok(uf_model_parse(context, "text", text, used, NULL, &model));
    assert_int_equal(uf_model_value_count(model), NODES + 1);
    assert_ok(uf_init_default(uf_model_graph(model), uf_model_store(model)));
    assert_ok(uf_model_save(model, path));
    uf_model_options options = uf_model_options_default();
    for (int i = 0; i < 2; ++i) {
        options.untrusted = i == 1;
        const clock_t start = clock();
        assert_ok(uf_model_load(context, path, &options, &loaded));
        assert_less_than_a_second(start);
        assert_int_equal(uf_model_value_count(loaded), NODES + 1);
        uf_model_destroy(loaded);
    }
    /* As many relus of a C program's: names are found without a walk over all of them. */
    uf_graph *graph;
    uf_model *made;
    assert_ok(uf_graph_create(context, &graph));
    uf_value x = uf_input(graph, "x", UF_SHAPE(1));
    for (int i = 0; i < NODES; ++i) {
        x = uf_relu(graph, x);
    }
    assert_ok(uf_model_create(graph, &made));
    assert_string_equal(uf_model_value_name(made, NODES), "relu_10000");
    free(text);
    uf_context_destroy(context);
}

int main(void) {
    const int descriptor = mkstemp(path);
    if (descriptor < 0 || read_every_function() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_locale),
        cmocka_unit_test(test_every_function), cmocka_unit_test(test_page),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_bad_files),      cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_shapes),         cmocka_unit_test(test_many_nodes),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(path);
    return failed;
}
