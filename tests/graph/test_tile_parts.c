/* Graphs in tiles: sums over the whole image, a part of the output, less overlap, tiles of equal
 * size. */
#include "graph/tiled.h"

static int setup(void **state) {
    *state = test_context(1);
    return 0;
}

static int teardown(void **state) {
    uf_context_destroy(*state);
    return 0;
}

/* ---- sums over the image ---- */

/* A block whose channels are scaled by what follows from their means, in an image of `rank` 3 or 4.
 */
static uf_value squeeze(uf_graph *graph, uf_value x, uf_scope scope) {
    const uf_value mean = uf_global_avg_pool2d(graph, x);
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = 1;
    return uf_mul(graph, x, uf_sigmoid(graph, uf_conv2d(graph, mean, scope, 3, &options)));
}

/* Means that depend on means, at another scale, of the channels too, and a sum. */
static uf_value build_sums(uf_graph *graph, uf_store *store, uf_value in) {
    static const int32_t all[] = {1, 2, 3}, axes[] = {-2, -1};
    uf_value x = uf_conv2d(graph, in, uf_at(store, "0"), 3, NULL);
    x = squeeze(graph, x, uf_at(store, "1"));
    const uf_value sum = uf_reshape(graph, uf_sum(graph, x, axes, 2, false), UF_SHAPE(-1, 3, 1, 1));
    x = uf_avg_pool2d(graph, x, NULL);
    x = squeeze(graph, uf_conv2d(graph, x, uf_at(store, "2"), 3, NULL), uf_at(store, "3"));
    x = uf_add(graph, x, uf_scale(graph, sum, 0.01));
    x = uf_upsample_nearest(graph, uf_sub(graph, x, uf_mean(graph, x, all, 3, true)), NULL);
    return uf_conv2d(graph, x, uf_at(store, "4"), 2, NULL);
}

static void test_sums(void **state) {
    static const int64_t tiles[] = {1, 4, 9, 64};
    for (int64_t i = 0; i < 2 * COUNT_OF(tiles); ++i) {
        const bool single = i % 2 != 0;
        const int64_t tile = tiles[i / 2];
        test_random random = test_random_for("sums", i);
        uf_tiles_plan plan;
        uf_store *store;
        uf_graph *graph;
        const uf_store_options options = {.struct_size = sizeof options,
                                          .dtype = single ? UF_F32 : UF_F64};
        assert_ok(uf_store_create_with(*state, "store", &options, &store));
        assert_ok(uf_graph_create(*state, &graph));
        const uf_value x = uf_input(graph, "image", UF_SHAPE(1, 2, 16, 16));
        uf_output(graph, "out", build_sums(graph, store, x));
        uf_output(graph, "other", uf_layer_norm2d(graph, x, uf_at(store, "5"), NULL));
        assert_ok(uf_init_default(graph, store));
        const uf_shape shape = UF_SHAPE(2, 2, 33, 26);
        const double worst =
            compare(graph, "image", &shape, tile, single ? UF_F32 : UF_F64, &random, &plan);
        if (!(worst < (single ? 2e-6 : 1e-13))) {
            fail_msg("tiles of %d: off by %g", (int)tile, worst);
        }
        /* Four passes add up, where there is more than one tile. */
        assert_true(tile == 64 ? plan.tiles == 1 : plan.tiles > 4 * plan.rows * plan.columns);
        uf_graph_destroy(graph);
        uf_store_destroy(store);
    }
}

/* A sound, whose rows are not there. */
static void test_sum_of_sound(void **state) {
    static const int32_t axis = 2;
    test_random random = test_random_for("sound", 0);
    uf_tiles_plan plan;
    uf_graph *graph;
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "sound", UF_SHAPE(1, 3, 40));
    uf_output(graph, "out", uf_mul(graph, x, uf_mean(graph, uf_square(graph, x), &axis, 1, true)));
    const uf_shape shape = UF_SHAPE(1, 3, 40);
    const double worst = compare(graph, "sound", &shape, 7, UF_F64, &random, &plan);
    assert_true(worst < 1e-14 && plan.columns == 6 && plan.tiles == 12);
    uf_graph_destroy(graph);
}

/* ---- a part of the output, less overlap, sizes ---- */

static void test_area(void **state) {
    test_random random = test_random_for("area", 0);
    const uf_shape shape = UF_SHAPE(1, 1, 40, 50);
    double *in = test_allocate(40 * 50 * sizeof *in), *out = test_allocate(40 * 50 * sizeof *out);
    double *part = test_allocate(40 * 50 * sizeof *part);
    uf_graph *graph;
    uf_store *store;
    uf_tiles_plan plan;
    assert_ok(uf_store_create(*state, "store", &store));
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "image", shape);
    uf_conv2d_options same = uf_conv2d_options_default();
    same.kernel[0] = same.kernel[1] = 5;
    same.padding[0] = same.padding[1] = 2;
    uf_output(graph, "out", uf_conv2d(graph, x, uf_at(store, "0"), 1, &same));
    assert_ok(uf_init_default(graph, store));
    test_random_fill(&random, in, 40 * 50, 1.0);
    image one = {.in = in, .out = out, .in_shape = shape, .out_shape = shape, .single = true};
    uf_tiles_options options = uf_tiles_options_default();
    options.user = &one;
    options.read = read_part;
    options.write = write_part;
    for (int i = 0; i < 4; ++i) {
        for (int64_t k = 0; k < 40 * 50; ++k) {
            one.out[k] = NAN;
        }
        options.tile = i == 0 ? 64 : 8;
        options.area = i == 1 ? (uf_tile_area){3, 5, 11, 40} : (uf_tile_area){0, 0, 0, 0};
        options.overlap = i < 2 ? -1 : i == 2 ? 2 : 1;
        assert_ok(uf_tiles_plan_of(graph, &options, &plan));
        assert_ok(uf_tiles_run(graph, &options));
        int64_t written = 0, differing = 0;
        for (int64_t k = 0; k < 40 * 50; ++k) {
            const int64_t row = k / 50, column = k % 50;
            const bool inside = row >= 3 && row < 14 && column >= 5 && column < 45;
            assert_true(!isnan(one.out[k]) || (i == 1 && !inside));
            written += !isnan(one.out[k]);
            differing += i > 0 && !isnan(one.out[k]) && fabs(one.out[k] - out[k]) > 1e-6;
        }
        assert_int_equal(written, i == 1 ? 11 * 40 : 40 * 50);
        assert_int_equal(plan.rows * plan.columns, i == 0 ? 1 : i == 1 ? 2 * 5 : 5 * 6);
        /* One row less beside tiles is seen on both sides, and in no other place: in 7 rows (the
         * last tile's overlap is larger) and 10 columns. */
        assert_true(i < 3 ? differing == 0 : differing > 640 && differing <= 680);
        one.out = part;
    }
    free(in);
    free(out);
    free(part);
    uf_graph_destroy(graph);
    uf_store_destroy(store);
}

/* One tile, as large as the image: layers that no tile has what they need of. */
static void test_one_tile(void **state) {
    test_random random = test_random_for("one", 0);
    const uf_shape shape = UF_SHAPE(1, 2, 20, 30);
    uf_tiles_plan plan;
    uf_graph *graph;
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "image", UF_SHAPE(1, 2, 8, 8));
    uf_output(graph, "out", uf_instance_norm2d(graph, x, (uf_scope){0}, NULL));
    uf_output(graph, "flat", uf_flatten(graph, x, 2, -1));
    const double worst = compare(graph, "image", &shape, 30, UF_F64, &random, &plan);
    assert_true(worst == 0.0 && plan.tiles == 1);
    assert_true(uf_shape_equal(&plan.tile, &shape));
    uf_tiles_options options = uf_tiles_options_default();
    options.tile = 8;
    options.output = "flat";
    assert_error(uf_tiles_plan_of(graph, &options, &plan), UF_ERROR_INVALID_ARGUMENT,
                 "the output flat is (1, 2, 64), no image");
    uf_graph_destroy(graph);
}

/* A layer that draws gets the numbers that it has in the whole graph, with another before it. */
static void test_one_tile_draws(void **state) {
    test_random random = test_random_for("draws", 0);
    const uf_shape shape = UF_SHAPE(1, 1, 9, 9);
    uf_tiles_plan plan;
    uf_graph *graph;
    assert_ok(uf_graph_create(*state, &graph));
    const uf_value x = uf_input(graph, "image", shape);
    const uf_value other = uf_noise_normal_like(graph, x, 0.0, 1.0);
    uf_output(graph, "out", uf_add(graph, x, uf_noise_normal_like(graph, x, 0.0, 1.0)));
    uf_output(graph, "other", other);
    assert_true(compare(graph, "image", &shape, 9, UF_F64, &random, &plan) == 0.0);
    uf_graph_destroy(graph);
}

/* Tiles of equal size: of 26 elements at most 10 each, 3 times 9. */
static void test_even(void **state) {
    uf_graph *graph;
    uf_tiles_plan plan;
    assert_ok(uf_graph_create(*state, &graph));
    uf_output(graph, "out", uf_relu(graph, uf_input(graph, "image", UF_SHAPE(1, 1, 26, 40))));
    uf_tiles_options options = uf_tiles_options_default();
    options.tile = 10;
    assert_ok(uf_tiles_plan_of(graph, &options, &plan));
    assert_int_equal(plan.rows, 3);
    assert_int_equal(plan.tile.extent[2], 9);
    assert_int_equal(plan.columns, 4);
    assert_int_equal(plan.tile.extent[3], 10);
    uf_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_sum_of_sound),
        cmocka_unit_test(test_area),     cmocka_unit_test(test_even),
        cmocka_unit_test(test_one_tile), cmocka_unit_test(test_one_tile_draws),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, setup, teardown);
}
