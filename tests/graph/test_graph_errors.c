/* test_graph_errors.c - what the builder and the compiler say about every mistake, with the layer's
 * name. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x; /* (2, 6, 4, 5) */
} fixture;

static fixture open_fixture(void) {
    fixture f;
    memset(&f, 0, sizeof f);
    f.context = test_context(1);
    assert_ok(uf_store_create(f.context, "net", &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", UF_SHAPE(2, 6, 4, 5));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* The builder's error flows through more layers and comes out of compilation, the same. */
static void expect(fixture *f, uf_value value, uf_status status, const char *const *words) {
    uf_program *program = (uf_program *)f; /* anything but NULL */
    const uf_value later = uf_tanh(f->graph, uf_relu(f->graph, value));
    uf_output(f->graph, "y", later);
    const uf_shape shape = uf_value_shape(f->graph, later);
    assert_int_equal(shape.rank, -1);
    test_expect_error("uf_graph_status", uf_graph_status(f->graph), status, words);
    test_expect_error("uf_program_compile", uf_program_compile(f->graph, NULL, &program), status,
                      words);
    assert_null(program);
    close_fixture(f);
}

#define expect_error(f, value, status, ...)                                                        \
    expect(&(f), (value), (status), (const char *const[]){__VA_ARGS__, NULL})

typedef struct transposed_row {
    int64_t out_channels;
    uf_conv_transpose2d_options options;
    uf_status status;
    const char *words[5];
} transposed_row;

static void test_conv_transpose2d(void **state) {
    (void)state;
    const uf_conv_transpose2d_options plain = uf_conv_transpose2d_options_default();
    transposed_row rows[16];
    int count = 0;
#define ROW(channels, field, value, code, ...)                                                     \
    do {                                                                                           \
        rows[count] = (transposed_row){channels, plain, code, {"main.0", __VA_ARGS__}};            \
        rows[count].options.field = value;                                                         \
        ++count;                                                                                   \
    } while (0)
    ROW(4, kernel[0], 0, UF_ERROR_INVALID_ARGUMENT, "kernel", "(0, 3)");
    ROW(4, kernel[1], -2, UF_ERROR_INVALID_ARGUMENT, "kernel", "(3, -2)");
    ROW(4, stride[0], 0, UF_ERROR_INVALID_ARGUMENT, "stride", "(0, 1)");
    ROW(4, padding[1], -1, UF_ERROR_INVALID_ARGUMENT, "padding", "(0, -1)");
    ROW(4, padding[0], 9, UF_ERROR_INVALID_ARGUMENT, "(4, 5)", "(-12, 7)", "too small");
    ROW(4, dilation[1], 0, UF_ERROR_INVALID_ARGUMENT, "dilation", "(1, 0)");
    ROW(4, output_padding[0], 1, UF_ERROR_INVALID_ARGUMENT, "output_padding", "(1, 0)", "stride");
    ROW(4, groups, 4, UF_ERROR_INVALID_ARGUMENT, "6", "divisible", "groups 4");
    ROW(4, groups, 3, UF_ERROR_INVALID_ARGUMENT, "4", "divisible", "groups 3");
    ROW(4, groups, 0, UF_ERROR_INVALID_ARGUMENT, "groups", "0");
    ROW(0, bias, true, UF_ERROR_INVALID_ARGUMENT, "out_channels", "0");
    ROW(INT64_C(1) << 61, bias, true, UF_ERROR_INVALID_ARGUMENT, "large");
    ROW(4, stride[0], INT64_C(1) << 60, UF_ERROR_INVALID_ARGUMENT, "stride", "overflow");
    ROW(4, struct_size, 3, UF_ERROR_INVALID_ARGUMENT,
        "uf_conv_transpose2d_options.struct_size is 3");
    rows[count - 1].words[0] = "uf_conv_transpose2d_options";
    ROW(4, has_output_size, true, UF_ERROR_INVALID_ARGUMENT, "(9, 8)", "(6, 7)");
    rows[count - 1].options.output_size[0] = 9;
    rows[count - 1].options.output_size[1] = 8;
#undef ROW
    for (int i = 0; i < count; ++i) {
        fixture f = open_fixture();
        const uf_value value = uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, "main.0"),
                                                   rows[i].out_channels, &rows[i].options);
        expect(&f, value, rows[i].status, rows[i].words);
    }
}

static void test_conv2d(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = 7;
    expect_error(f, uf_conv2d(f.graph, f.x, uf_at(f.store, "features.0"), 4, &options),
                 UF_ERROR_INVALID_ARGUMENT, "features.0", "(7, 3)", "(4, 5)", "can't be greater");
    f = open_fixture();
    options = uf_conv2d_options_default();
    options.groups = 4;
    expect_error(f, uf_conv2d(f.graph, f.x, uf_at(f.store, "features.0"), 4, &options),
                 UF_ERROR_INVALID_ARGUMENT, "features.0", "6", "divisible", "groups 4");
    f = open_fixture();
    options = uf_conv2d_options_default();
    options.kernel[1] = 0;
    expect_error(f, uf_conv2d(f.graph, f.x, uf_at(f.store, "features.0"), 4, &options),
                 UF_ERROR_INVALID_ARGUMENT, "features.0", "kernel", "(3, 0)");
    f = open_fixture();
    options = uf_conv2d_options_default();
    options.struct_size = 1;
    expect_error(f, uf_conv2d(f.graph, f.x, uf_at(f.store, "features.0"), 4, &options),
                 UF_ERROR_INVALID_ARGUMENT, "uf_conv2d_options.struct_size is 1");
}

static void test_activation(void **state) {
    (void)state;
    fixture f = open_fixture();
    expect_error(f, uf_hardtanh(f.graph, f.x, 0.5, 0.25), UF_ERROR_INVALID_ARGUMENT, "hardtanh",
                 "0.5", "0.25");
    f = open_fixture();
    expect_error(f, uf_clamp(f.graph, f.x, 0.0, (double)NAN), UF_ERROR_INVALID_ARGUMENT, "clamp",
                 "minimum");
    f = open_fixture();
    expect_error(f, uf_softplus(f.graph, f.x, 0.0), UF_ERROR_INVALID_ARGUMENT, "softplus", "beta");
}

static void test_pad2d(void **state) {
    (void)state;
    fixture f = open_fixture();
    expect_error(f, uf_pad2d(f.graph, f.x, UF_PAD_ZERO, 1, -2, 3, 4), UF_ERROR_INVALID_ARGUMENT,
                 "pad2d", "1, -2, 3, 4", "0 or more");
    f = open_fixture();
    expect_error(f, uf_pad2d(f.graph, f.x, UF_PAD_REFLECT, 5, 0, 0, 0), UF_ERROR_INVALID_ARGUMENT,
                 "reflection", "5", "(2, 6, 4, 5)");
    f = open_fixture();
    expect_error(f, uf_pad2d(f.graph, f.x, UF_PAD_ZERO, INT64_MAX, 0, 0, 0),
                 UF_ERROR_INVALID_ARGUMENT, "pad2d", "large");
    f = open_fixture();
    expect_error(f, uf_pad2d(f.graph, f.x, (uf_pad_mode)8, 1, 1, 1, 1), UF_ERROR_INVALID_ARGUMENT,
                 "pad2d", "8", "uf_pad_mode");
}

static void test_prelu(void **state) {
    (void)state;
    fixture f = open_fixture();
    expect_error(f, uf_prelu(f.graph, f.x, uf_at(f.store, "p"), 5), UF_ERROR_INVALID_ARGUMENT,
                 "prelu", "num_parameters is 5", "(2, 6, 4, 5)");
    f = open_fixture();
    const uf_value scalar = uf_input(f.graph, "scalar", UF_SCALAR);
    expect_error(f, uf_prelu(f.graph, scalar, uf_at(f.store, "p"), 2), UF_ERROR_INVALID_ARGUMENT,
                 "prelu", "num_parameters is 2");
}

static void test_softmax(void **state) {
    (void)state;
    fixture f = open_fixture();
    expect_error(f, uf_softmax(f.graph, f.x, 4), UF_ERROR_INVALID_ARGUMENT, "softmax", "axis is 4",
                 "(2, 6, 4, 5) has 4 axes");
    f = open_fixture();
    expect_error(f, uf_softmax(f.graph, f.x, -5), UF_ERROR_INVALID_ARGUMENT, "axis is -5");
    f = open_fixture();
    const uf_value scalar = uf_input(f.graph, "scalar", UF_SCALAR);
    expect_error(f, uf_softmax(f.graph, scalar, 0), UF_ERROR_INVALID_ARGUMENT, "axis is 0");
}

static void test_upsample(void **state) {
    (void)state;
    static const struct {
        int64_t size[2];
        double scale[2];
        const char *message;
    } rows[] = {
        {{0, 0}, {0.0, 1.0}, "scale is 0, 1"},        {{0, 0}, {2.0, (double)NAN}, "scale is 2, "},
        {{0, 0}, {1.0, 0.1}, "empty or too large"},   {{0, 0}, {1e300, 1.0}, "too large"},
        {{7, 0}, {2.0, 2.0}, "size is 7, 0"},         {{-1, 3}, {2.0, 2.0}, "size is -1, 3"},
        {{INT64_MAX, 1}, {2.0, 2.0}, "size is 9223"},
    };
    for (int64_t row = 0; row < COUNT_OF(rows); ++row) {
        fixture f = open_fixture();
        uf_upsample_options options = uf_upsample_options_default();
        memcpy(options.size, rows[row].size, sizeof options.size);
        memcpy(options.scale, rows[row].scale, sizeof options.scale);
        expect_error(f, uf_upsample_bilinear(f.graph, f.x, &options), UF_ERROR_INVALID_ARGUMENT,
                     "upsample_bilinear", rows[row].message);
    }
    fixture f = open_fixture();
    uf_upsample_options options = uf_upsample_options_default();
    options.align_corners = true;
    expect_error(f, uf_upsample_nearest(f.graph, f.x, &options), UF_ERROR_INVALID_ARGUMENT,
                 "upsample_nearest", "align_corners");
    f = open_fixture();
    expect_error(f, uf_upsample_nearest(f.graph, uf_reshape(f.graph, f.x, UF_SHAPE(2, -1)), NULL),
                 UF_ERROR_INVALID_ARGUMENT, "upsample_nearest", "(2, 120)");
}

static void test_pool2d(void **state) {
    (void)state;
    static const struct {
        int64_t kernel, stride, padding, dilation;
        const char *message;
    } rows[] = {
        {0, 1, 0, 1, "kernel is 2, 0"},
        {2, -1, 0, 1, "stride is 2, -1"},
        {3, 1, -1, 1, "padding is 0, -1"},
        {3, 1, 0, 0, "dilation is 1, 0"},
        {3, 1, 2, 1, "half of what a window spans, 1"},
        {6, 1, 0, 1, "a window spans 6 elements of axis 3; the input (2, 6, 4, 5)"},
        {2, INT64_MAX, 0, 1, "stride is 2, 9223"},
    };
    for (int64_t row = 0; row < COUNT_OF(rows); ++row) {
        fixture f = open_fixture();
        uf_max_pool2d_options options = uf_max_pool2d_options_default();
        options.kernel[1] = rows[row].kernel;
        options.stride[1] = rows[row].stride;
        options.padding[1] = rows[row].padding;
        options.dilation[1] = rows[row].dilation;
        expect_error(f, uf_max_pool2d(f.graph, f.x, &options), UF_ERROR_INVALID_ARGUMENT,
                     "max_pool2d", rows[row].message);
    }
    fixture f = open_fixture();
    expect_error(f, uf_avg_pool2d(f.graph, uf_reshape(f.graph, f.x, UF_SHAPE(2, -1)), NULL),
                 UF_ERROR_INVALID_ARGUMENT, "avg_pool2d", "(2, 120)");
}

static void test_inputs(void **state) {
    (void)state;
    fixture f = open_fixture();
    expect_error(f, uf_input(f.graph, "x", UF_SHAPE(1)), UF_ERROR_INVALID_ARGUMENT, "two inputs",
                 "x");
    f = open_fixture();
    expect_error(f, uf_input(f.graph, "q", UF_SHAPE(1, 0, 2)), UF_ERROR_INVALID_ARGUMENT, "q",
                 "(1, 0, 2)");
    f = open_fixture();
    expect_error(f, uf_input(f.graph, "q", UF_SHAPE(1, -3, 2)), UF_ERROR_INVALID_ARGUMENT, "q",
                 "(1, -3, 2)");
    f = open_fixture();
    expect_error(
        f, uf_input(f.graph, "q", UF_SHAPE(INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 31)),
        UF_ERROR_INVALID_ARGUMENT, "q", "2147483648");
    f = open_fixture();
    expect_error(f, uf_input(f.graph, "", UF_SHAPE(1)), UF_ERROR_INVALID_ARGUMENT, "input", "name");
    f = open_fixture();
    expect_error(f, uf_input(f.graph, NULL, UF_SHAPE(1)), UF_ERROR_INVALID_ARGUMENT, "input",
                 "name");
    f = open_fixture();
    expect_error(f, uf_relu(f.graph, (uf_value){.id = 99}), UF_ERROR_INVALID_ARGUMENT,
                 "not a value of this graph");
    /* A layer for images on something else. */
    f = open_fixture();
    const uf_value flat = uf_input(f.graph, "flat", UF_SHAPE(2, 6));
    expect_error(f, uf_conv_transpose2d(f.graph, flat, uf_at(f.store, "main.0"), 4, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "main.0", "(2, 6)", "(N, C, H, W)");
    f = open_fixture();
    const uf_value flat_again = uf_input(f.graph, "flat", UF_SHAPE(2, 6));
    expect_error(f, uf_batch_norm2d(f.graph, flat_again, uf_at(f.store, "main.1"), NULL),
                 UF_ERROR_INVALID_ARGUMENT, "main.1", "(2, 6)", "(N, C, H, W)");
}

/* The first error stays, whatever comes after. */
static void test_first_error(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.kernel[0] = 0;
    const uf_value bad = uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, "first"), 4, &options);
    assert_int_equal(bad.id, 0);
    options.kernel[0] = -1;
    const uf_value worse = uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, "second"), 4, &options);
    expect_error(f, worse, UF_ERROR_INVALID_ARGUMENT, "first", "kernel");
}

static void test_stores(void **state) {
    (void)state;
    /* The weight of the file has another shape than the graph needs. */
    fixture f = open_fixture();
    assert_ok(uf_store_declare(f.store, "main.3.weight", UF_SHAPE(6, 5, 3, 3), UF_ROLE_PARAMETER));
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, "main.3"), 4, NULL),
                 UF_ERROR_SHAPE, "main.3: conv_transpose2d", "main.3.weight is (6, 5, 3, 3)", "net",
                 "(6, 4, 3, 3)");
    /* A sealed store only gives what it has. */
    f = open_fixture();
    assert_ok(uf_store_seal(f.store));
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, "main.3"), 4, NULL),
                 UF_ERROR_STATE, "main.3.weight", "net", "sealed");
    f = open_fixture();
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_at(NULL, "main.3"), 4, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "store");
    f = open_fixture();
    char name[3 * UF_NAME_SIZE];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_at(f.store, name), 4, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "name", "159");
    f = open_fixture();
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_in(uf_at(f.store, name), "b"), 4, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "name", "159");
    f = open_fixture();
    expect_error(f, uf_conv_transpose2d(f.graph, f.x, uf_atf(f.store, "%s.%d", name, 3), 4, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "name", "159");
    f = open_fixture();
    expect_error(
        f, uf_conv_transpose2d(f.graph, f.x, uf_inf(uf_at(f.store, "a"), "%s", name), 4, NULL),
        UF_ERROR_INVALID_ARGUMENT, "name", "159");
}

static void test_compile(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_program *program = NULL;
    assert_error(uf_program_compile(f.graph, NULL, &program), UF_ERROR_INVALID_ARGUMENT,
                 "no output");
    assert_error(uf_program_compile(NULL, NULL, &program), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_program_compile(f.graph, NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    uf_output(f.graph, "y", uf_conv2d(f.graph, f.x, uf_at(f.store, "c"), 2, NULL));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_I64;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT, "i64",
                 "f32, f64 or bf16");
    options = uf_program_options_default();
    options.dtype = UF_F64;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT, "net",
                 "f32", "f64");
    assert_null(program);
    options = uf_program_options_default();
    options.struct_size = 5;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "uf_program_options.struct_size is 5");
    options = uf_program_options_default();
    options.input_shape_count = 2;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "input_shapes");
    assert_ok(uf_program_compile(f.graph, NULL, &program)); /* failures left nothing behind */
    uf_program_destroy(program);
    close_fixture(&f);

    f = open_fixture();
    uf_output(f.graph, "y", f.x);
    uf_output(f.graph, "y", f.x);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "two outputs", "y");
    close_fixture(&f);
    f = open_fixture();
    uf_output(f.graph, "", f.x);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "output", "name");
    close_fixture(&f);

    uf_graph *graph = (uf_graph *)&f;
    assert_error(uf_graph_create(NULL, &graph), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_null(graph);
    uf_program_destroy(NULL);
    uf_graph_destroy(NULL);
    assert_error(uf_program_run(NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
}

/* An allocator that runs out after `left` allocations. */
typedef struct stingy {
    int left;
    int live;
} stingy;

static void *stingy_allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                             void *stream) {
    stingy *s = user;
    (void)kind;
    (void)stream;
    if (s->left-- <= 0) {
        return NULL;
    }
    s->live += 1;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void stingy_release(void *user, void *pointer, size_t size, uf_memory_kind kind,
                           void *stream) {
    stingy *s = user;
    (void)size;
    (void)kind;
    (void)stream;
    s->live -= 1;
    free(pointer);
}

/* Whichever allocation fails: a status, a message, nothing leaked, and it works once there is
 * memory. */
static void test_out_of_memory(void **state) {
    (void)state;
    int failures = 0;
    for (int allowed = 0;; ++allowed) {
        stingy memory = {allowed, 0};
        uf_context_options options = uf_context_options_default();
        options.device = UF_DEVICE_CPU;
        options.threads = 1;
        options.allocator = (uf_allocator){stingy_allocate, stingy_release, &memory};
        uf_context *context = NULL;
        uf_store *store = NULL;
        uf_graph *graph = NULL;
        uf_program *program = NULL;
        assert_ok(uf_context_create(&options, &context));
        assert_ok(uf_store_create(context, "net", &store));
        assert_ok(uf_graph_create(context, &graph));
        uf_value x = uf_input(graph, "x", UF_SHAPE(2, 6, 4, 5));
        x = uf_conv_transpose2d(graph, x, uf_at(store, "a"), 4, NULL);
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "b"), NULL));
        uf_output(graph, "y", x);
        uf_status status = uf_program_compile(graph, NULL, &program);
        status = status == UF_OK ? uf_init_default(graph, store) : status;
        status = status == UF_OK ? uf_program_run(program) : status;
        if (status != UF_OK) {
            ++failures;
            test_expect_error("compile and run", status, UF_ERROR_OUT_OF_MEMORY,
                              (const char *const[]){"memory", NULL});
        }
        uf_program_destroy(program);
        uf_graph_destroy(graph);
        uf_store_destroy(store);
        uf_context_destroy(context);
        assert_int_equal(memory.live, 0);
        if (status == UF_OK) {
            break;
        }
    }
    assert_true(failures >= 3);
}

/* Ranks that a caller wrote by hand, and channels whose sum no int64_t holds. */
static void test_shapes_out_of_range(void **state) {
    (void)state;
    static const int32_t ranks[] = {UF_MAX_RANK + 1, INT32_MAX, -1};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; ++i) {
        uf_shape odd;
        memset(&odd, 1, sizeof odd);
        odd.rank = ranks[i];
        fixture f = open_fixture();
        expect_error(f, uf_reshape(f.graph, f.x, odd), UF_ERROR_INVALID_ARGUMENT, "reshape",
                     "at most 8 extents");
        f = open_fixture();
        expect_error(f, uf_input(f.graph, "odd", odd), UF_ERROR_INVALID_ARGUMENT,
                     "input odd: shape (no shape) is not legal");
        f = open_fixture();
        assert_error(uf_store_declare(f.store, "odd", odd, UF_ROLE_PARAMETER),
                     UF_ERROR_INVALID_ARGUMENT, "odd", "(no shape)");
        close_fixture(&f);
    }
    const int64_t most = INT64_C(1) << 62;
    fixture f = open_fixture();
    const uf_value wide = uf_input(f.graph, "wide", UF_SHAPE(1, most));
    const uf_value both[] = {wide, wide};
    expect_error(f, uf_concat(f.graph, both, 2), UF_ERROR_INVALID_ARGUMENT, "concat",
                 "the channels of input 1, 4611686018427387904, and those before it overflow");
}

/* Shapes that do not broadcast, axes that are not there. */
static void test_arithmetic(void **state) {
    (void)state;
    static uf_value (*const layers[])(uf_graph *, uf_value, uf_value) = {uf_add, uf_sub, uf_mul,
                                                                         uf_div};
    static const char *const names[] = {"add: the inputs", "sub: the inputs", "mul: the inputs",
                                        "div: the inputs"};
    for (int i = 0; i < 4; ++i) {
        fixture f = open_fixture();
        const uf_value a = uf_input(f.graph, "a", UF_SHAPE(2, 3, 4));
        const uf_value b = uf_input(f.graph, "b", UF_SHAPE(3, 2));
        expect_error(f, layers[i](f.graph, a, b), UF_ERROR_SHAPE, names[i], "(2, 3, 4)", "(3, 2)",
                     "equal or 1");
    }
    static const struct {
        int32_t axes[2], count;
        const char *words;
    } wrong[] = {{{3, 0}, 1, "axis 3 is not one of (2, 3, 4), which has 3 axes"},
                 {{-4, 0}, 1, "axis -4 is not one of"},
                 {{1, -2}, 2, "axis 1 is there twice"},
                 {{0, 0}, -1, "there are -1 axes"},
                 {{0, 0}, 9, "there are 9 axes"}};
    for (int64_t i = 0; i < 2 * COUNT_OF(wrong); ++i) {
        fixture f = open_fixture();
        const uf_value x = uf_input(f.graph, "box", UF_SHAPE(2, 3, 4));
        const int32_t *axes = wrong[i / 2].axes, count = wrong[i / 2].count;
        expect_error(f,
                     i % 2 == 0 ? uf_sum(f.graph, x, axes, count, true)
                                : uf_mean(f.graph, x, axes, count, false),
                     UF_ERROR_INVALID_ARGUMENT,
                     i % 2 == 0 ? "sum: " : "mean: ", wrong[i / 2].words);
    }
    fixture f = open_fixture();
    const uf_value x = uf_input(f.graph, "box", UF_SHAPE(2, 3));
    expect_error(f, uf_sum(f.graph, x, NULL, 1, true), UF_ERROR_INVALID_ARGUMENT, "which are NULL");
    f = open_fixture();
    const uf_value line = uf_input(f.graph, "line", UF_SHAPE(3));
    expect_error(f, uf_global_avg_pool2d(f.graph, line), UF_ERROR_INVALID_ARGUMENT, "axis -2");
}

static void test_permute(void **state) {
    (void)state;
    static const struct {
        int32_t axes[3], count;
        const char *words;
    } wrong[] = {{{0, 1, 3}, 3, "axis 3 is not one of (2, 3, 4), which has 3 axes"},
                 {{0, -4, 1}, 3, "axis -4 is not one of"},
                 {{0, 1, -2}, 3, "axis 1 is there twice"},
                 {{0, 1, 2}, 2, "there are 2 axes for (2, 3, 4), which has 3"},
                 {{0, 1, 2}, -1, "there are -1 axes"},
                 {{0, 1, 2}, 9, "there are 9 axes"}};
    for (int64_t i = 0; i < COUNT_OF(wrong); ++i) {
        fixture f = open_fixture();
        const uf_value x = uf_input(f.graph, "box", UF_SHAPE(2, 3, 4));
        expect_error(f, uf_permute(f.graph, x, wrong[i].axes, wrong[i].count),
                     UF_ERROR_INVALID_ARGUMENT, "permute: ", wrong[i].words);
    }
    fixture f = open_fixture();
    const uf_value x = uf_input(f.graph, "box", UF_SHAPE(2, 3));
    expect_error(f, uf_permute(f.graph, x, NULL, 2), UF_ERROR_INVALID_ARGUMENT, "which are NULL");
}

static void test_slice(void **state) {
    (void)state;
    static const struct {
        int32_t axis;
        int64_t start, stop;
        uf_status status;
        const char *words;
    } wrong[] = {{3, 0, 1, UF_ERROR_INVALID_ARGUMENT, "axis 3 is not one of (2, 3, 4)"},
                 {1, 2, 2, UF_ERROR_SHAPE, "2 to 2 of axis 1 of (2, 3, 4) is empty"},
                 {-1, 4, INT64_MAX, UF_ERROR_SHAPE, "of axis 2 of (2, 3, 4) is empty"},
                 {0, -1, -1, UF_ERROR_SHAPE, "-1 to -1 of axis 0"},
                 {0, 0, INT64_MIN, UF_ERROR_SHAPE, "is empty"}};
    for (int64_t i = 0; i < COUNT_OF(wrong); ++i) {
        fixture f = open_fixture();
        const uf_value x = uf_input(f.graph, "box", UF_SHAPE(2, 3, 4));
        expect_error(f, uf_slice(f.graph, x, wrong[i].axis, wrong[i].start, wrong[i].stop),
                     wrong[i].status, "slice: ", wrong[i].words);
    }
    fixture f = open_fixture();
    const uf_value large = uf_input(f.graph, "large", UF_SHAPE(1, 2, 5, 4));
    const uf_value x = uf_input(f.graph, "small", UF_SHAPE(1, 2, 4, 5));
    expect_error(f, uf_crop_like(f.graph, x, large), UF_ERROR_SHAPE, "crop_like: the input is",
                 "(1, 2, 4, 5)", "(1, 2, 5, 4)");
    f = open_fixture();
    const uf_value line = uf_input(f.graph, "line", UF_SHAPE(3));
    expect_error(f, uf_crop_like(f.graph, line, line), UF_ERROR_SHAPE, "crop_like", "a height");
}

static void test_concat_axis(void **state) {
    (void)state;
    fixture f = open_fixture();
    const uf_value a = uf_input(f.graph, "a", UF_SHAPE(2, 3, 4));
    const uf_value b = uf_input(f.graph, "b", UF_SHAPE(2, 3, 5));
    const uf_value both[] = {a, b};
    expect_error(f, uf_concat_axis(f.graph, both, 2, 0), UF_ERROR_SHAPE,
                 "concat_axis: input 1 is (2, 3, 5) and input 0 is (2, 3, 4); only extents of axis "
                 "0 may differ");
    f = open_fixture();
    const uf_value c = uf_input(f.graph, "a", UF_SHAPE(2, 3, 4));
    const uf_value d = uf_input(f.graph, "b", UF_SHAPE(2, 3));
    const uf_value ranks[] = {c, d};
    expect_error(f, uf_concat_axis(f.graph, ranks, 2, -1), UF_ERROR_SHAPE, "input 1 is (2, 3)");
    f = open_fixture();
    const uf_value e = uf_input(f.graph, "a", UF_SHAPE(2, 3, 4));
    expect_error(f, uf_concat_axis(f.graph, &e, 1, 3), UF_ERROR_INVALID_ARGUMENT,
                 "concat_axis: axis 3 is not one of (2, 3, 4)");
    f = open_fixture();
    expect_error(f, uf_concat_axis(f.graph, NULL, 0, 0), UF_ERROR_INVALID_ARGUMENT,
                 "concat_axis: there is nothing to join");
    f = open_fixture();
    const uf_value long_one = uf_input(f.graph, "long", UF_SHAPE(INT64_C(1) << 62));
    const uf_value twice[] = {long_one, long_one};
    expect_error(f, uf_concat_axis(f.graph, twice, 2, 0), UF_ERROR_INVALID_ARGUMENT,
                 "extents of axis 0 of input 1, 4611686018427387904, and those before it overflow");
    f = open_fixture();
    const uf_value g = uf_input(f.graph, "g", UF_SHAPE(2, 3, 4));
    expect_error(f, uf_flatten(f.graph, g, 2, 1), UF_ERROR_INVALID_ARGUMENT,
                 "flatten: axis 2 comes after axis 1");
    f = open_fixture();
    const uf_value h = uf_input(f.graph, "h", UF_SHAPE(2, 3, 4));
    expect_error(f, uf_flatten(f.graph, h, 1, 3), UF_ERROR_INVALID_ARGUMENT, "flatten: axis 3");
}

static void test_pixel_shuffle(void **state) {
    (void)state;
    static const struct {
        uf_shape shape;
        int64_t factor;
        bool back;
        uf_status status;
        const char *words;
    } wrong[] = {
        {{4, {2, 6, 4, 4}}, 2, false, UF_ERROR_SHAPE, "6 channels, no multiple of 2 squared"},
        {{4, {2, 6, 4, 5}}, 2, true, UF_ERROR_SHAPE, "(2, 6, 4, 5) must be multiples of 2"},
        {{4, {2, 6, 5, 4}}, 2, true, UF_ERROR_SHAPE, "(2, 6, 5, 4) must be multiples of 2"},
        {{4, {2, 4, 4, 4}}, 0, false, UF_ERROR_INVALID_ARGUMENT, "the factor is 0"},
        {{4, {2, 4, 4, 4}}, INT64_MAX, true, UF_ERROR_INVALID_ARGUMENT, "the factor is 92233720"},
        {{2, {4, 4}}, 2, false, UF_ERROR_INVALID_ARGUMENT, "3 to 6 extents"},
        {{7, {1, 1, 1, 1, 4, 4, 4}}, 2, true, UF_ERROR_INVALID_ARGUMENT, "3 to 6 extents"},
        {{3, {4, INT64_C(1) << 60, 1}}, 16, false, UF_ERROR_SHAPE, "16 squared"},
    };
    for (int64_t i = 0; i < COUNT_OF(wrong); ++i) {
        fixture f = open_fixture();
        const uf_value x = uf_input(f.graph, "box", wrong[i].shape);
        expect_error(f,
                     wrong[i].back ? uf_pixel_unshuffle(f.graph, x, wrong[i].factor)
                                   : uf_pixel_shuffle(f.graph, x, wrong[i].factor),
                     wrong[i].status,
                     wrong[i].back ? "pixel_unshuffle: " : "pixel_shuffle: ", wrong[i].words);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_transpose2d),
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_pad2d),
        cmocka_unit_test(test_prelu),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_upsample),
        cmocka_unit_test(test_pool2d),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_permute),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_concat_axis),
        cmocka_unit_test(test_pixel_shuffle),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_stores),
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_shapes_out_of_range),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
