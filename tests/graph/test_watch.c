/* test_watch.c - programs that are watched while they run: the steps that uf_program_profile lists,
 * and the numbers that uf_program_find_nonfinite finds. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/inspect.h>

#include "support/compare.h"

typedef struct trainer {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_optimizer *optimizer;
    uf_program *program;
} trainer;

/* A conv, a relu that is fused into it, a linear layer and a loss, trained by SGD; weights are all
 * `weight`, the loss's target 0. */
static trainer make_trainer(uf_dtype dtype, double weight, double lr) {
    trainer t;
    memset(&t, 0, sizeof t);
    t.context = test_context(2);
    assert_ok(uf_store_create(t.context, "net", &t.store));
    assert_ok(uf_graph_create(t.context, &t.graph));
    const uf_value in = uf_input(t.graph, "x", UF_SHAPE(2, 3, 5, 5));
    uf_value x = uf_relu(t.graph, uf_conv2d(t.graph, in, uf_at(t.store, "look"), 4, NULL));
    x = uf_reshape(t.graph, x, UF_SHAPE(2, 36));
    x = uf_linear(t.graph, x, uf_at(t.store, "judge"), 1, true);
    uf_output(t.graph, "y", x);
    const uf_value loss = uf_mse_loss(t.graph, x, uf_full_like(t.graph, x, 0.0));
    for (int64_t i = 0; i < uf_store_size(t.store); ++i) {
        uf_store_entry entry;
        assert_ok(uf_store_entry_at(t.store, i, &entry));
        assert_ok(uf_init_constant(t.store, entry.name, weight));
    }
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.lr = lr;
    assert_ok(uf_optimizer_create_sgd(t.store, &sgd, &t.optimizer));
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.loss_count = 1;
    pass.stores = &t.store;
    pass.store_count = 1;
    pass.optimizers = &t.optimizer;
    pass.optimizer_count = 1;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(t.graph, &options, &t.program));
    double image[150];
    for (int i = 0; i < 150; ++i) {
        image[i] = 0.01 * i;
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(t.program, "x"), UF_F64, image, 150));
    return t;
}

static void check_row(const uf_profile_row *row, const char *name, const char *layer,
                      const char *step) {
    assert_int_equal(row->struct_size, sizeof *row);
    assert_string_equal(row->name, name);
    assert_string_equal(row->layer, layer);
    assert_string_equal(row->step, step);
    assert_true(isfinite(row->ms) && row->ms >= 0.0);
}

static int64_t count_rows(const uf_profile_row *rows, int64_t count, const char *name,
                          const char *layer, const char *step) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (strcmp(rows[i].name, name) == 0 && strcmp(rows[i].layer, layer) == 0 &&
            strcmp(rows[i].step, step) == 0) {
            check_row(&rows[i], name, layer, step);
            found += 1;
        }
    }
    return found;
}

/* The steps are those that run; the runs are runs. */
static void test_profile(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F32, UF_BF16};
    for (int64_t d = 0; d < COUNT_OF(dtypes); ++d) {
        trainer profiled = make_trainer(dtypes[d], 0.01, 0.001);
        trainer plain = make_trainer(dtypes[d], 0.01, 0.001);
        uf_profile_row *rows;
        int64_t count;
        assert_ok(uf_program_profile(profiled.program, 3, &rows, &count));
        for (int r = 0; r < 4; ++r) { /* the first run is none of the three */
            assert_ok(uf_program_run(plain.program));
        }
        assert_int_equal(count_rows(rows, count, "look", "conv2d", "forward"), 1);
        assert_int_equal(count_rows(rows, count, "", "relu", "forward"), 0); /* fused */
        assert_int_equal(count_rows(rows, count, "judge", "linear", "forward"), 1);
        assert_int_equal(count_rows(rows, count, "", "mse_loss", "forward"), 1);
        assert_int_equal(count_rows(rows, count, "", "mse_loss", "backward"), 1);
        assert_int_equal(count_rows(rows, count, "judge", "linear", "backward"), 1);
        assert_int_equal(count_rows(rows, count, "look", "conv2d", "backward"), 1);
        /* The optimizer writes the copies of a bf16 program. */
        assert_int_equal(count_rows(rows, count, "look.weight", "cast", "cast"), 0);
        check_row(&rows[count - 1], "net", "optimizer", "optimize");
        double sum = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            sum += rows[i].ms;
        }
        assert_true(sum > 0.0);
        uf_profile_free(rows);
        double losses[2][1], weights[2][36];
        int64_t step[2];
        bool finite;
        const trainer *both[2] = {&profiled, &plain};
        for (int i = 0; i < 2; ++i) {
            uf_tensor *tensor;
            assert_ok(uf_context_synchronize(both[i]->context));
            assert_ok(uf_program_losses(both[i]->program, losses[i], 1, &step[i], &finite));
            assert_ok(uf_store_tensor(both[i]->store, "judge.weight", &tensor));
            assert_ok(uf_tensor_download_as(tensor, UF_F64, weights[i], 36));
        }
        assert_int_equal(step[0], 4);
        assert_int_equal(step[1], 4);
        assert_same_bits("losses", losses[0], losses[1], sizeof losses[0]);
        assert_same_bits("weights", weights[0], weights[1], sizeof weights[0]);
        assert_true(weights[0][0] != 0.01);
        uf_context_destroy(profiled.context);
        uf_context_destroy(plain.context);
    }
}

/* Steps of no layer have words too: the name is that of the store that they change. */
static void test_profile_stores(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store, *average;
    uf_graph *graph;
    uf_optimizer *optimizer;
    uf_ema *ema;
    uf_program *program;
    uf_profile_row *rows;
    int64_t count;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    uf_value x = uf_input(graph, "x", UF_SHAPE(4, 3));
    x = uf_linear(graph, x, uf_at(store, "judge"), 2, true);
    x = uf_batch_norm1d(graph, x, uf_at(store, "norm"), NULL);
    const uf_value loss = uf_mse_loss(graph, x, uf_full_like(graph, x, 0.0));
    assert_ok(uf_init_default(graph, store));
    assert_ok(uf_store_copy(store, context, UF_F32, &average));
    assert_ok(uf_optimizer_create_sgd(store, NULL, &optimizer));
    assert_ok(uf_ema_create(store, average, NULL, &ema));
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.stores = &store;
    pass.optimizers = &optimizer;
    pass.emas = &ema;
    pass.loss_count = pass.store_count = pass.optimizer_count = pass.ema_count = 1;
    pass.clip_norm = 1.0;
    uf_program_options options = uf_program_options_default();
    options.mode = UF_TRAIN;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(graph, &options, &program));
    assert_ok(uf_program_profile(program, 1, &rows, &count));
    assert_true(count > 5);
    check_row(&rows[count - 5], "net", "zero", "zero"); /* of judge.bias */
    check_row(&rows[count - 4], "net", "clip", "clip"); /* the norm */
    check_row(&rows[count - 3], "net", "clip", "clip");
    check_row(&rows[count - 2], "net", "optimizer", "optimize");
    check_row(&rows[count - 1], "net", "average", "average"); /* a copy has the name */
    uf_profile_free(rows);
    uf_context_destroy(context);
}

static void check_found(uf_program *program, const char *name, const char *layer, const char *step,
                        const char *value, int64_t index) {
    uf_nonfinite found;
    assert_ok(uf_program_find_nonfinite(program, &found));
    assert_int_equal(found.struct_size, sizeof found);
    assert_true(found.found);
    assert_string_equal(found.name, name);
    assert_string_equal(found.layer, layer);
    assert_string_equal(found.step, step);
    assert_string_equal(found.value, value);
    assert_int_equal(found.index, index);
    assert_true(isfinite(found.number) == 0);
}

/* In the inputs, in the parameters, in a layer's result, and where the optimizer steps too far. */
static void test_training(void **state) {
    (void)state;
    trainer t = make_trainer(UF_F32, 0.01, 0.001);
    uf_tensor *input = uf_program_input(t.program, "x");
    uf_tensor *weight;
    float image[150], numbers[108];
    uf_nonfinite found;
    assert_ok(uf_program_find_nonfinite(t.program, &found));
    assert_false(found.found);
    assert_null(found.name);
    assert_ok(uf_tensor_download(input, image));
    const float before = image[77];
    image[77] = (float)NAN;
    assert_ok(uf_tensor_upload(input, image));
    check_found(t.program, "x", "input", "before", "output", 77);
    image[77] = before;
    assert_ok(uf_tensor_upload(input, image));

    assert_ok(uf_store_tensor(t.store, "look.weight", &weight));
    assert_ok(uf_tensor_download(weight, numbers));
    numbers[107] = -(float)INFINITY;
    assert_ok(uf_tensor_upload(weight, numbers));
    check_found(t.program, "", "parameter", "before", "look.weight", 107);
    /* Large but finite: the second filter overflows, whose first result is behind 9 others. */
    numbers[107] = 0.0f;
    for (int i = 27; i < 54; ++i) {
        numbers[i] = 3e38f;
    }
    assert_ok(uf_tensor_upload(weight, numbers));
    check_found(t.program, "look", "conv2d", "forward", "output", 9);
    uf_context_destroy(t.context);

    /* The losses' gradient is fine, the step is not: 1e38 times a gradient of about 100. */
    t = make_trainer(UF_F32, 1.0, 1e38);
    check_found(t.program, "net", "optimizer", "optimize", "look.weight", 0);
    assert_ok(uf_store_tensor(t.store, "look.weight", &weight));
    assert_ok(uf_tensor_download(weight, numbers));
    assert_true(isfinite(numbers[0]) == 0);
    uf_context_destroy(t.context);
}

/* Gradients that overflow behind a forward run that does not, in a value and in a weight. */
static void test_backward(void **state) {
    (void)state;
    for (int of_weight = 0; of_weight < 2; ++of_weight) {
        uf_context *context = test_context(1);
        uf_store *store;
        uf_graph *graph;
        uf_program *program;
        assert_ok(uf_store_create(context, "net", &store));
        assert_ok(uf_graph_create(context, &graph));
        const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3));
        uf_value y = x;
        if (of_weight) { /* zero weights: the result is 0, whatever x is */
            y = uf_linear(graph, uf_leaky_relu(graph, x, 1.0), uf_at(store, "fc"), 4, false);
        }
        for (int i = 0; i < 2; ++i) {
            y = uf_leaky_relu(graph, y, of_weight ? 1e18 : 1e25);
        }
        const uf_value loss = uf_l1_loss(graph, y, uf_full_like(graph, y, 1.0));
        assert_ok(uf_store_seal(store));
        uf_pass pass = uf_pass_default();
        pass.losses = &loss;
        pass.loss_count = 1;
        pass.inputs = &x;
        pass.input_count = 1;
        pass.stores = &store;
        pass.store_count = of_weight;
        uf_program_options options = uf_program_options_default();
        options.passes = &pass;
        options.pass_count = 1;
        options.fuse = false;
        assert_ok(uf_program_compile(graph, &options, &program));
        const float image[6] = {-1e-26f, -1e-26f, -1e-26f, -1e-26f, -1e-26f, -1e-26f};
        const float large[6] = {1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f};
        assert_ok(uf_tensor_upload(uf_program_input(program, "x"), of_weight ? large : image));
        if (of_weight) {
            check_found(program, "fc", "linear", "backward", "gradient of fc.weight", 0);
        } else {
            check_found(program, "", "leaky_relu", "backward", "gradient of input 0", 0);
        }
        uf_context_destroy(context);
    }
}

/* The result of a batch norm is finite, the variance that it notes is not. */
static void test_buffers(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 2, 1, 1));
    uf_output(graph, "y", uf_batch_norm2d(graph, x, uf_at(store, "norm"), NULL));
    assert_ok(uf_store_seal(store));
    uf_program_options options = uf_program_options_default();
    options.mode = UF_TRAIN;
    assert_ok(uf_program_compile(graph, &options, &program));
    const float image[4] = {1.0f, -1e25f, 2.0f, 1e25f};
    assert_ok(uf_tensor_upload(uf_program_input(program, "x"), image));
    check_found(program, "norm", "batch_norm2d", "forward", "norm.running_var", 1);
    uf_context_destroy(context);
}

/* A part of a concat has gaps between its images; the place that is told counts none. */
static void test_gaps(void **state) {
    (void)state;
    for (int plan = 0; plan < 3; ++plan) {
        uf_context *context = test_context(1);
        uf_graph *graph;
        uf_program *program;
        assert_ok(uf_graph_create(context, &graph));
        const uf_value x = uf_input(graph, "x", UF_SHAPE(3, 2, 2, 2));
        const uf_value parts[2] = {uf_sigmoid(graph, x), uf_leaky_relu(graph, x, 1e20)};
        uf_output(graph, "y", uf_tanh(graph, uf_concat(graph, parts, 2)));
        uf_program_options options = uf_program_options_default();
        options.plan = (uf_plan)plan;
        assert_ok(uf_program_compile(graph, &options, &program));
        float image[24], expected[48], got[48];
        for (int i = 0; i < 24; ++i) {
            image[i] = 0.1f * (float)(i - 5);
        }
        uf_tensor *input = uf_program_input(program, "x");
        uf_tensor *output = uf_program_output(program, "y");
        uf_nonfinite found;
        assert_ok(uf_tensor_upload(input, image));
        assert_ok(uf_program_find_nonfinite(program, &found));
        assert_false(found.found); /* poison is none of the values' */
        assert_ok(uf_tensor_download(output, expected));
        image[19] = -1e30f;
        assert_ok(uf_tensor_upload(input, image));
        check_found(program, "", "leaky_relu", "forward", "output", 19);
        image[19] = 0.1f * 14.0f;
        assert_ok(uf_tensor_upload(input, image));
        for (int run = 0; run < 3; ++run) { /* a run that ended early leaves nothing behind */
            assert_ok(uf_program_run(program));
            assert_ok(uf_tensor_download(output, got));
            assert_same_bits("after a run that ended early", got, expected, sizeof got);
        }
        uf_context_destroy(context);
    }
}

static void test_refusals(void **state) {
    (void)state;
    trainer t = make_trainer(UF_F32, 0.01, 0.001);
    uf_profile_row *rows;
    int64_t count;
    assert_error(uf_program_profile(t.program, 0, &rows, &count), UF_ERROR_INVALID_ARGUMENT, "runs",
                 "0");
    assert_null(rows);
    assert_error(uf_program_profile(NULL, 1, &rows, &count), UF_ERROR_INVALID_ARGUMENT, "program");
    assert_error(uf_program_find_nonfinite(t.program, NULL), UF_ERROR_INVALID_ARGUMENT, "found");
    uf_profile_free(NULL);
    uf_context_destroy(t.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile),  cmocka_unit_test(test_profile_stores),
        cmocka_unit_test(test_training), cmocka_unit_test(test_backward),
        cmocka_unit_test(test_buffers),  cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
