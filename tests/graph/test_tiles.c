/* Graphs run in tiles beside the same graphs run whole: random chains of layers, the models of
 * examples/zoo, and what is refused. */
#include <string.h>

#include "graph/tiled.h"
#include "zoo.h"

static int setup(void **state) {
    *state = test_context(1);
    return 0;
}

static int teardown(void **state) {
    uf_context_destroy(*state);
    return 0;
}

/* ---- random chains ---- */

static uf_value conv(uf_graph *graph, uf_value x, uf_scope scope, test_random *random) {
    uf_conv2d_options options = uf_conv2d_options_default();
    for (int i = 0; i < 2; ++i) {
        options.kernel[i] = test_random_integer(random, 1, 4);
        options.stride[i] = test_random_integer(random, 1, 3);
        options.dilation[i] = test_random_integer(random, 1, 2);
        options.padding[i] = test_random_integer(random, 0, 3);
    }
    return uf_conv2d(graph, x, scope, test_random_integer(random, 2, 3), &options);
}

static uf_value transposed(uf_graph *graph, uf_value x, uf_scope scope, test_random *random) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    for (int i = 0; i < 2; ++i) {
        options.kernel[i] = test_random_integer(random, 1, 5);
        options.stride[i] = test_random_integer(random, 1, 3);
        options.dilation[i] = test_random_integer(random, 1, 2);
        options.padding[i] = test_random_integer(random, 0, 3);
        options.output_padding[i] = test_random_integer(random, 0, options.stride[i] - 1);
    }
    return uf_conv_transpose2d(graph, x, scope, test_random_integer(random, 2, 3), &options);
}

static uf_value pool(uf_graph *graph, uf_value x, test_random *random) {
    if (test_random_one_in(random, 2)) {
        uf_max_pool2d_options options = uf_max_pool2d_options_default();
        options.kernel[0] = options.kernel[1] = 3;
        options.stride[0] = test_random_integer(random, 1, 3);
        options.stride[1] = test_random_integer(random, 1, 3);
        options.padding[0] = 1;
        options.ceil_mode = test_random_one_in(random, 2);
        return uf_max_pool2d(graph, x, &options);
    }
    uf_avg_pool2d_options options = uf_avg_pool2d_options_default();
    options.padding[1] = 1;
    options.ceil_mode = test_random_one_in(random, 2);
    options.count_include_pad = test_random_one_in(random, 2);
    return uf_avg_pool2d(graph, x, &options);
}

static uf_value upsample(uf_graph *graph, uf_value x, test_random *random) {
    static const double scales[] = {2.0, 3.0, 1.0, 0.5, 0.25};
    uf_upsample_options options = uf_upsample_options_default();
    options.scale[0] = scales[test_random_integer(random, 0, 4)];
    options.scale[1] = scales[test_random_integer(random, 0, 4)];
    return test_random_one_in(random, 2) ? uf_upsample_nearest(graph, x, &options)
                                         : uf_upsample_bilinear(graph, x, &options);
}

enum { KINDS = 12 };

static uf_value append(uf_graph *graph, uf_value x, uf_scope scope, int64_t kind,
                       test_random *random) {
    static const int32_t channels[] = {1};
    switch (kind) {
    case 0:
    case 1:
        return conv(graph, x, scope, random);
    case 2:
    case 3:
        return transposed(graph, x, scope, random);
    case 4:
        return pool(graph, x, random);
    case 5:
        return upsample(graph, x, random);
    case 6:
        return uf_pad2d(graph, x, (uf_pad_mode)test_random_integer(random, 0, 2),
                        test_random_integer(random, 0, 3), test_random_integer(random, 0, 3),
                        test_random_integer(random, 0, 3), test_random_integer(random, 0, 3));
    case 7:
        return uf_pixel_unshuffle(graph, x, 2);
    case 8: {
        uf_conv2d_options options = uf_conv2d_options_default();
        options.kernel[0] = options.kernel[1] = 1;
        return uf_pixel_shuffle(graph, uf_conv2d(graph, x, scope, 8, &options), 2);
    }
    case 9: /* some less at each end of the rows */
        return uf_slice(graph, x, -1, test_random_integer(random, 0, 4),
                        -test_random_integer(random, 1, 4));
    case 10: /* the mean of the channels, one of them again, all beside each other */
        return uf_concat(graph,
                         (const uf_value[]){uf_mul(graph, x, uf_mean(graph, x, channels, 1, true)),
                                            uf_softmax(graph, x, 1)},
                         2);
    default:
        return uf_leaky_relu(graph, uf_batch_norm2d(graph, x, scope, NULL), 0.1);
    }
}

static void test_chains(void **state) {
    int64_t run = 0, cut = 0;
    for (int64_t i = 0; i < 400; ++i) {
        test_random random = test_random_for("tiles", i);
        uf_store *store;
        uf_graph *graph;
        const uf_store_options in_f64 = {.struct_size = sizeof in_f64, .dtype = UF_F64};
        assert_ok(uf_store_create_with(*state, "store", &in_f64, &store));
        assert_ok(uf_graph_create(*state, &graph));
        const uf_shape shape = UF_SHAPE(1, 2, test_random_integer(&random, 20, 60),
                                        test_random_integer(&random, 20, 60));
        uf_value x = uf_input(graph, "image", shape);
        const int64_t depth = test_random_integer(&random, 1, 5);
        for (int64_t layer = 0; layer < depth; ++layer) {
            const int64_t kind = test_random_integer(&random, 0, KINDS - 1);
            x = append(graph, x, uf_atf(store, "%d", (int)layer), kind, &random);
        }
        uf_output(graph, "out", x);
        /* A layer may not fit what is left of the image. */
        if (uf_graph_status(graph) == UF_OK && uf_init_default(graph, store) == UF_OK) {
            uf_tiles_plan plan;
            const int64_t tile = test_random_integer(&random, 1, 24);
            const double worst = compare(graph, "image", &shape, tile, UF_F64, &random, &plan);
            if (!(worst < 1e-12)) {
                fail_msg("chain %d in tiles of %d: off by %g", (int)i, (int)tile, worst);
            }
            ++run;
            cut += plan.rows * plan.columns > 1;
        }
        uf_graph_destroy(graph);
        uf_store_destroy(store);
    }
    assert_true(run > 200 && cut > 150);
}

/* ---- the zoo ---- */

/* Each model: a picture with sides that its strides do not divide, or the layer that forbids tiles.
 */
static const struct {
    const char *name, *input;
    int64_t height, width;
    int64_t tiles[3];
    const char *refused;
} models[] = {
    {"dcgan", "z", 19, 17, {1, 3, 6}, NULL},
    {"vae", "image", 37, 45, {0}, "flatten cannot be tiled: "},
    {"pix2pix", "image", 832, 64, {1, 64, 100}, NULL},
    {"cyclegan", "image", 37, 45, {0}, "instance_norm2d cannot be tiled: "},
    {"fsrcnn", "image", 61, 43, {5, 16, 30}, NULL},
    {"fast_style", "image", 37, 45, {0}, "in1: instance_norm2d cannot be tiled: "},
    {"hifigan", "mel", 0, 61, {1, 10, 25}, NULL},
    {"sngan", "image", 16, 16, {0}, "flatten cannot be tiled: "},
    {"taesd", "latents", 61, 19, {3, 8, 16}, NULL},
    {"ldm_decoder", "latents", 37, 45, {0}, "group_norm cannot be tiled: "},
    {"esrgan", "image", 23, 131, {5, 16, 40}, NULL},
    {"cond_gan", "z", 0, 0, {0}, "the input z is (3, 7); an image of real values"},
    {"sam_upscaler", "image", 37, 45, {0}, "flatten cannot be tiled: "},
};

static void check_model(uf_graph *graph, int64_t i, const uf_shape *usual, test_random *random) {
    uf_shape shape = *usual;
    uf_tiles_plan plan;
    shape.extent[0] = 1;
    shape.extent[shape.rank - 1] = models[i].width;
    if (shape.rank == 4) {
        shape.extent[2] = models[i].height;
    }
    for (int size = 0; size < 3; ++size) {
        const int64_t tile = models[i].tiles[size];
        const double worst = compare(graph, models[i].input, &shape, tile, UF_F32, random, &plan);
        if (!(worst <= 2e-6) || plan.rows * plan.columns < 2) {
            fail_msg("%s in %d x %d tiles of %d: off by %g", models[i].name, (int)plan.rows,
                     (int)plan.columns, (int)tile, worst);
        }
    }
}

static void test_zoo(void **state) {
    assert_int_equal(COUNT_OF(models), zoo_model_count);
    for (int64_t i = 0; i < zoo_model_count; ++i) {
        const zoo_model *model = &zoo_models[i];
        test_random random = test_random_for("zoo", i);
        uf_store *store;
        uf_graph *graph;
        uf_program *program;
        uf_tiles_plan plan;
        assert_string_equal(model->name, models[i].name);
        assert_ok(uf_store_create(*state, model->name, &store));
        assert_ok(uf_graph_create(*state, &graph));
        model->build(graph, store, &model->test);
        assert_ok(uf_init_default(graph, store));
        assert_ok(uf_program_compile(graph, NULL, &program));
        const uf_shape usual = uf_program_input_shape(program, 0);
        uf_tiles_options options = uf_tiles_options_default();
        options.input = models[i].input;
        if (models[i].refused != NULL) {
            const bool is_layer = strstr(models[i].refused, "cannot be tiled") != NULL;
            assert_error(uf_tiles_plan_of(graph, &options, &plan),
                         is_layer ? UF_ERROR_UNSUPPORTED : UF_ERROR_INVALID_ARGUMENT,
                         models[i].refused);
            assert_int_equal(plan.struct_size, 0);
        } else {
            check_model(graph, i, &usual, &random);
        }
        uf_program_destroy(program);
        uf_graph_destroy(graph);
        uf_store_destroy(store);
    }
}

/* ---- memory, other inputs, what is refused ---- */

static size_t held, most;

static void *count_allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                            void *stream) {
    (void)user, (void)kind, (void)stream;
    held += size;
    most = held > most ? held : most;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *pointer, size_t size, uf_memory_kind kind,
                          void *stream) {
    (void)user, (void)kind, (void)stream;
    held -= size;
    free(pointer);
}

static uf_status read_zeros(void *user, const uf_tile_area *area, void *values) {
    (void)user;
    memset(values, 0, (size_t)(area->height * area->width) * sizeof(float));
    return UF_OK;
}

static uf_status write_nothing(void *user, const uf_tile_area *area, const void *values) {
    (void)values;
    *(int64_t *)user += area->height * area->width;
    return UF_OK;
}

static void test_memory(void **state) {
    (void)state;
    size_t peaks[2];
    for (int i = 0; i < 2; ++i) {
        uf_context_options options = uf_context_options_default();
        options.device = UF_DEVICE_CPU;
        options.threads = 1;
        options.allocator = (uf_allocator){count_allocate, count_release, NULL};
        uf_context *context;
        uf_store *store;
        uf_graph *graph;
        held = most = 0;
        assert_ok(uf_context_create(&options, &context));
        assert_ok(uf_store_create(context, "fsrcnn", &store));
        assert_ok(uf_graph_create(context, &graph));
        const zoo_model *model = &zoo_models[4];
        model->build(graph, store, &model->test);
        assert_ok(uf_init_default(graph, store));
        uf_tiles_options tiles = uf_tiles_options_default();
        uf_tiles_plan plan;
        int64_t written = 0;
        tiles.shape = UF_SHAPE(1, 1, 100, 100);
        tiles.tile = 24;
        assert_ok(uf_tiles_plan_of(graph, &tiles, &plan));
        /* No smaller tiles would do in either, so that they are of one size. */
        const int64_t side = (i == 0 ? 4 : 17) * 24 + plan.overlap[0] + plan.overlap[1];
        tiles.shape = UF_SHAPE(1, 1, side, side);
        tiles.read = read_zeros;
        tiles.write = write_nothing;
        tiles.user = &written;
        assert_ok(uf_tiles_run(graph, &tiles));
        assert_int_equal(written, side * side * 9);
        peaks[i] = most;
        uf_context_destroy(context);
    }
    assert_true(peaks[0] > 0 && peaks[1] <= peaks[0]);
}

static uf_status fill_scale(void *user, uf_program *program) {
    const float scale[2] = {2.0F, -3.0F};
    (void)user;
    return uf_tensor_upload(uf_program_input(program, "scale"), scale);
}

/* Another input is whole, and counts in each tile. */
static void test_whole_input(void **state) {
    const double in[2 * 9] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    double out[2 * 9];
    uf_graph *graph;
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "image", UF_SHAPE(1, 2, 3, 3));
    uf_output(graph, "out", uf_mul(graph, uf_input(graph, "scale", UF_SHAPE(2, 1, 1)), x));
    image one = {.in = in,
                 .out = out,
                 .in_shape = UF_SHAPE(1, 2, 3, 3),
                 .out_shape = UF_SHAPE(1, 2, 3, 3),
                 .single = true};
    for (int i = 0; i < 18; ++i) {
        out[i] = NAN;
    }
    uf_tiles_options options = uf_tiles_options_default();
    options.tile = 2;
    options.read = read_part;
    options.write = write_part;
    options.prepare = fill_scale;
    options.user = &one;
    assert_ok(uf_tiles_run(graph, &options));
    assert_int_equal(one.parts, 4);
    for (int i = 0; i < 18; ++i) {
        assert_true(out[i] == in[i] * (i < 9 ? 2.0 : -3.0));
    }
    uf_graph_destroy(graph);
}

static uf_status refuse_part(void *user, const uf_tile_area *area, const void *values) {
    (void)area, (void)values;
    return ++*(int64_t *)user == 2 ? UF_ERROR_IO : UF_OK;
}

static void test_wrong(void **state) {
    uf_graph *graph;
    uf_tiles_plan plan;
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "image", UF_SHAPE(1, 1, 9, 9));
    uf_output(graph, "out", uf_relu(graph, x));
    uf_output(graph, "noise", uf_noise_normal_like(graph, x, 0.0, 1.0));
    uf_output(graph, "norm", uf_instance_norm2d(graph, x, (uf_scope){0}, NULL));
    uf_output(graph, "mean", uf_global_avg_pool2d(graph, x));
    uf_output(graph, "rows", uf_add(graph, x, uf_mean(graph, x, (const int32_t[]){2}, 1, true)));
    uf_output(graph, "half", uf_add(graph, x, uf_slice(graph, x, 3, 0, 1)));
    uf_output(graph, "other", uf_input(graph, "other", UF_SHAPE(1, 1, 9, 9)));
    static const struct {
        const char *output, *sentence;
        uf_status status;
    } cases[] = {
        {"absent", "no output named absent", UF_ERROR_NOT_FOUND},
        {"noise", "noise_normal_like cannot be tiled: ", UF_ERROR_UNSUPPORTED},
        {"norm", "instance_norm2d cannot be tiled: its results depend on more",
         UF_ERROR_UNSUPPORTED},
        {"mean", "or on sums over all of it alone", UF_ERROR_INVALID_ARGUMENT},
        {"rows", "mean cannot be tiled: its results depend on more", UF_ERROR_UNSUPPORTED},
        {"half", "slice cannot be tiled: ", UF_ERROR_UNSUPPORTED},
        {"other", "does not depend on the input", UF_ERROR_INVALID_ARGUMENT},
    };
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        uf_tiles_options options = uf_tiles_options_default();
        options.output = cases[i].output;
        assert_error(uf_tiles_plan_of(graph, &options, &plan), cases[i].status, cases[i].sentence);
    }
    uf_tiles_options options = uf_tiles_options_default();
    uf_program_options train = uf_program_options_default();
    train.mode = UF_TRAIN;
    options.program = &train;
    assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT, "EVAL");
    options.program = NULL;
    options.tile = -1;
    assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT, "tile is -1");
    options.tile = 2;
    options.shape = UF_SHAPE(1, 9);
    assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT,
                 "the input image is (1, 9)");
    options.shape = UF_SHAPE(0);
    options.shape.rank = 0;
    options.overlap = -2;
    assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT,
                 "overlap is -2");
    options.overlap = -1;
    static const uf_tile_area areas[] = {{0, 0, 10, 9}, {-1, 0, 1, 1}, {0, 9, 1, 1}, {0, 0, 1, 0}};
    for (int64_t i = 0; i < COUNT_OF(areas); ++i) {
        options.area = areas[i];
        assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT,
                     "uf_tiles_options.area is ");
    }
    options.area = (uf_tile_area){0, 0, 0, 0};
    assert_error(uf_tiles_run(graph, &options), UF_ERROR_INVALID_ARGUMENT, "read or write is NULL");
    int64_t parts = 0;
    options.read = read_zeros;
    options.write = refuse_part;
    options.user = &parts;
    assert_int_equal(uf_tiles_run(graph, &options), UF_ERROR_IO);
    assert_int_equal(parts, 2);
    uf_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains), cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_whole_input),
        cmocka_unit_test(test_wrong),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, setup, teardown);
}
