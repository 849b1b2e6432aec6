/* test_pass_steps.c - the steps of a pass besides its gradients: weights of losses, and how
 * optimizers are told to move. Results by hand. */
#include "by_hand.h"

#include <math.h>

/* ---- weights of losses ---- */

/* Weights scale gradients, not what uf_program_losses reports. */
static void test_loss_weights(void **state) {
    (void)state;
    static const double weights[] = {0.25, -3.0};
    static const double values[] = {1.0, -2.0};
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value losses[] = {square(&b, x),
                               uf_l1_loss(b.graph, x, uf_full_like(b.graph, x, 0.0))};
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = 2;
    pass.inputs = &x;
    pass.input_count = 1;
    pass.loss_weights = weights;
    compile(&b, &pass, 1);
    put(uf_program_input(b.program, "x"), values);
    for (int run = 0; run < 3; ++run) {
        double got[2];
        int64_t step;
        bool finite;
        assert_ok(uf_program_run(b.program));
        assert_ok(uf_context_synchronize(b.context));
        /* d/dx of 0.25 (x^2 + y^2)/2 - 3 (|x| + |y|)/2 */
        const double gradient[] = {0.25 * 1.0 - 1.5, 0.25 * -2.0 + 1.5};
        expect("gradient", uf_program_gradient(b.program, 0, x), gradient, 2);
        assert_ok(uf_program_losses(b.program, got, 2, &step, &finite));
        assert_true(step == run + 1 && finite && got[0] == 2.5 && got[1] == 1.5);
    }
    uf_program *refused;
    const double bad[] = {1.0, (double)NAN};
    pass.loss_weights = bad;
    const uf_program_options options = training_options(&pass, 1);
    assert_error(uf_program_compile(b.graph, &options, &refused), UF_ERROR_INVALID_ARGUMENT,
                 "pass 0: loss 1 has the weight", "not finite");
    close_bench(&b);
}

/* ---- groups ---- */

/* Settings change between runs of one program, a recorded one too: w -= lr * (g + decay * w). */
static void test_groups(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value losses[2] = {square(&b, product(&b, x, b.store, "a")),
                                square(&b, product(&b, x, b.store, "b"))};
    const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.125, .weight_decay = 0.5};
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(b.store, &sgd, &optimizer));
    const uf_pass pass = {.losses = losses,
                          .loss_count = 2,
                          .stores = &b.store,
                          .store_count = 1,
                          .optimizers = &optimizer,
                          .optimizer_count = 1};
    compile(&b, &pass, 1);
    double w[2][2] = {{1.0, -1.0}, {2.0, 0.5}};
    put_in_store(b.store, "a.weight", w[0]);
    put_in_store(b.store, "b.weight", w[1]);
    put(uf_program_input(b.program, "x"), (const double[]){1.0, 0.5});
    for (int run = 0; run < 6; ++run) {
        double factor = 1.0, decay = 0.5; /* of b */
        if (run == 2 || run == 3) {       /* recorded by now */
            uf_optimizer_group_options options = uf_optimizer_group_options_default();
            factor = options.lr_factor = run == 2 ? 0.25 : 0.0;
            decay = options.weight_decay = 0.0;
            assert_ok(uf_optimizer_group(optimizer, uf_at(b.store, "b"), &options));
        } else if (run == 4) {
            assert_ok(uf_optimizer_group(optimizer, uf_at(b.store, ""), NULL));
        }
        assert_ok(uf_program_run(b.program));
        for (int k = 0; k < 2; ++k) {
            const double lr = k == 1 ? 0.125 * factor : 0.125;
            const double y = w[k][0] + 0.5 * w[k][1]; /* dw = 2 y x */
            w[k][0] -= lr * (2.0 * y + (k == 1 ? decay : 0.5) * w[k][0]);
            w[k][1] -= lr * (y + (k == 1 ? decay : 0.5) * w[k][1]);
        }
        expect_parameter(b.store, "a.weight", w[0], 2);
        expect_parameter(b.store, "b.weight", w[1], 2);
    }
    uf_program_destroy(b.program);
    b.program = NULL;
    uf_optimizer_destroy(optimizer);
    close_bench(&b);
}

/* ---- clipping ---- */

/* Two stores have one norm; then each element is cut; the optimizer gets the result, which stays.
 */
static void test_clipping(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; ++kind) {
        bench b = open_bench();
        const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
        const uf_value losses[2] = {square(&b, product(&b, x, b.store, "a")),
                                    square(&b, product(&b, x, b.other, "b"))};
        uf_store *const stores[3] = {b.other, b.store, b.other};
        const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.5};
        uf_optimizer *optimizer;
        assert_ok(uf_store_declare(b.store, "unreached", UF_SHAPE(2), UF_ROLE_PARAMETER));
        assert_ok(uf_optimizer_create_sgd(b.store, &sgd, &optimizer));
        const uf_pass pass = {.losses = losses,
                              .loss_count = 2,
                              .stores = stores,
                              .store_count = 3,
                              .optimizers = &optimizer,
                              .optimizer_count = 1,
                              .clip_norm = kind % 2 == 1 ? 2.0 : 0.0,
                              .clip_value = kind / 2 == 1 ? 0.75 : 0.0};
        compile(&b, &pass, 1);
        double a[2] = {1.0, -0.5}, w[2] = {-2.0, 1.0};
        put_in_store(b.store, "a.weight", a);
        put_in_store(b.other, "b.weight", w);
        put_in_store(b.store, "unreached", a);
        /* A gradient that this pass does not make is no part of the norm. */
        uf_tensor *unreached;
        assert_ok(uf_store_gradient(b.store, "unreached", &unreached));
        put(unreached, (const double[]){1e6, 1e6});
        const double in[2] = {2.0, 1.0};
        put(uf_program_input(b.program, "x"), in);
        for (int run = 0; run < 4; ++run) {
            double da[2], dw[2], squares = 0.0;
            for (int i = 0; i < 2; ++i) { /* d (w x)^2 */
                da[i] = 2.0 * (a[0] * in[0] + a[1] * in[1]) * in[i];
                dw[i] = 2.0 * (w[0] * in[0] + w[1] * in[1]) * in[i];
                squares += da[i] * da[i] + dw[i] * dw[i];
            }
            const double limit = 2.0 / (sqrt(squares) + 1e-6);
            for (int i = 0; i < 2; ++i) {
                const double factor = kind % 2 == 1 && limit < 1.0 ? limit : 1.0;
                da[i] *= factor;
                dw[i] *= factor;
                if (kind / 2 == 1) {
                    da[i] = fmax(-0.75, fmin(0.75, da[i]));
                    dw[i] = fmax(-0.75, fmin(0.75, dw[i]));
                }
                a[i] -= 0.5 * da[i];
            }
            assert_ok(uf_program_run(b.program));
            expect_gradient(b.store, "a.weight", da, 2);
            expect_gradient(b.other, "b.weight", dw, 2);
            expect_parameter(b.store, "a.weight", a, 2);
            expect_parameter(b.other, "b.weight", w, 2);
            expect_gradient(b.store, "unreached", (const double[]){1e6, 1e6}, 2);
        }
        uf_program_destroy(b.program);
        b.program = NULL;
        uf_optimizer_destroy(optimizer);
        close_bench(&b);
    }
}

static void test_refused_clipping(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value loss = square(&b, x);
    uf_pass pass = {
        .losses = &loss, .loss_count = 1, .inputs = &x, .input_count = 1, .clip_norm = 1.0};
    const uf_program_options options = training_options(&pass, 1);
    const uf_status invalid = UF_ERROR_INVALID_ARGUMENT;
    assert_error(uf_program_compile(b.graph, &options, &b.program), invalid,
                 "pass 0 clips gradients", "no parameter");
    pass.clip_norm = -1.0;
    assert_error(uf_program_compile(b.graph, &options, &b.program), invalid, "clip_norm is -1");
    pass.clip_norm = 0.0;
    pass.clip_value = (double)NAN;
    assert_error(uf_program_compile(b.graph, &options, &b.program), invalid, "clip_value");
    close_bench(&b);
}

/* ---- averages ---- */

/* Three stores: trained, its average, and a program that reads the average in the first one's
 * place. The decay changes while the program is recorded. */
static void test_average(void **state) {
    (void)state;
    for (int buffers = 0; buffers < 2; ++buffers) {
        bench b = open_bench();
        const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
        const uf_value loss = square(&b, product(&b, x, b.store, "a"));
        const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.125};
        uf_optimizer *optimizer;
        uf_store *average;
        uf_ema *ema;
        assert_ok(uf_store_declare(b.store, "buffer", UF_SHAPE(3), UF_ROLE_BUFFER));
        assert_ok(uf_store_declare(b.store, "counter", UF_SCALAR, UF_ROLE_COUNTER));
        assert_ok(uf_optimizer_create_sgd(b.store, &sgd, &optimizer));
        double w[2] = {1.0, -0.5}, held[3] = {1.0, 2.0, 3.0};
        put_in_store(b.store, "a.weight", w);
        put_in_store(b.store, "buffer", held);
        assert_ok(uf_store_copy(b.store, b.context, UF_F64, &average));
        uf_ema_options options = uf_ema_options_default();
        options.decay = 0.75;
        options.average_buffers = buffers == 1;
        assert_ok(uf_ema_create(b.store, average, &options, &ema));
        const uf_pass pass = {.losses = &loss,
                              .loss_count = 1,
                              .stores = &b.store,
                              .store_count = 1,
                              .optimizers = &optimizer,
                              .optimizer_count = 1,
                              .emas = &ema,
                              .ema_count = 1};
        compile(&b, &pass, 1);
        uf_graph *sampling;
        uf_program *sampler;
        assert_ok(uf_graph_create(b.context, &sampling));
        const uf_value z = uf_input(sampling, "z", UF_SHAPE(1, 2));
        uf_output(sampling, "y", uf_linear(sampling, z, uf_at(b.store, "a"), 1, false));
        const uf_binding binding = {.store = b.store, .with = average};
        uf_program_options sampling_options = uf_program_options_default();
        sampling_options.dtype = UF_F64;
        sampling_options.bindings = &binding;
        sampling_options.binding_count = 1;
        assert_ok(uf_program_compile(sampling, &sampling_options, &sampler));
        put(uf_program_input(b.program, "x"), (const double[]){1.0, 0.5});
        put(uf_program_input(sampler, "z"), (const double[]){1.0, 10.0});
        double mean[2] = {w[0], w[1]}, buffer[3] = {1.0, 2.0, 3.0};
        for (int run = 0; run < 6; ++run) {
            double decay = 0.75;
            if (run >= 3) {
                decay = 0.5;
                assert_ok(uf_ema_set_decay(ema, decay));
            }
            for (int i = 0; i < 3; ++i) {
                held[i] += 1.0 + i;
                buffer[i] =
                    buffers == 1 ? buffer[i] + (1.0 - decay) * (held[i] - buffer[i]) : held[i];
            }
            put_in_store(b.store, "buffer", held);
            const int64_t count = 100 + run;
            int64_t counted;
            uf_tensor *counter;
            assert_ok(uf_store_tensor(b.store, "counter", &counter));
            assert_ok(uf_tensor_upload(counter, &count));
            const uint64_t version = uf_store_version(average);
            assert_ok(uf_program_run(b.program));
            assert_true(uf_store_version(average) > version);
            const double y = w[0] + 0.5 * w[1];
            w[0] -= 0.125 * 2.0 * y;
            w[1] -= 0.125 * y;
            for (int i = 0; i < 2; ++i) { /* after the optimizer */
                mean[i] += (1.0 - decay) * (w[i] - mean[i]);
            }
            expect_parameter(b.store, "a.weight", w, 2);
            expect_parameter(average, "a.weight", mean, 2);
            expect_parameter(average, "buffer", buffer, 3);
            assert_ok(uf_store_tensor(average, "counter", &counter));
            assert_ok(uf_tensor_download(counter, &counted));
            assert_int_equal(counted, count);
            assert_ok(uf_program_run(sampler));
            expect("y", uf_program_output(sampler, "y"), (const double[]){mean[0] + 10.0 * mean[1]},
                   1);
        }
        uf_ema_destroy(ema); /* the program keeps it */
        assert_ok(uf_program_run(b.program));
        uf_program_destroy(sampler);
        uf_graph_destroy(sampling);
        uf_program_destroy(b.program);
        b.program = NULL;
        uf_optimizer_destroy(optimizer);
        uf_store_destroy(average);
        close_bench(&b);
    }
}

/* A bf16 program whose second pass reads the average, which the first has changed: the copies in
 * bf16 are made again. */
static void test_average_in_bf16(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    uf_store *store = make_store(context, "store", UF_F32);
    uf_store *average;
    uf_graph *graph;
    uf_program *program;
    uf_optimizer *optimizer;
    uf_ema *ema;
    assert_ok(uf_store_declare(store, "a.weight", UF_SHAPE(1, 2), UF_ROLE_PARAMETER));
    put_in_store(store, "a.weight", (const double[]){1.0, 1.0});
    assert_ok(uf_store_copy(store, context, UF_F32, &average));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2));
    const uf_value y = uf_linear(graph, x, uf_at(store, "a"), 1, false);
    const uf_value before = uf_linear(graph, x, uf_at(average, "a"), 1, false);
    const uf_value after = uf_linear(graph, x, uf_at(average, "a"), 1, false);
    const uf_value zero = uf_full_like(graph, y, 0.0);
    const uf_value first[2] = {uf_mse_loss(graph, y, zero), uf_mse_loss(graph, before, zero)};
    const uf_value second = uf_mse_loss(graph, after, zero);
    const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.25};
    const uf_ema_options copying = {.struct_size = sizeof copying, .decay = 0.0};
    assert_ok(uf_optimizer_create_sgd(store, &sgd, &optimizer));
    assert_ok(uf_ema_create(store, average, &copying, &ema));
    const uf_pass passes[2] = {
        {.losses = first,
         .loss_count = 2,
         .stores = &store,
         .store_count = 1,
         .optimizers = &optimizer,
         .optimizer_count = 1,
         .emas = &ema,
         .ema_count = 1,
         .inputs = &x,
         .input_count = 1},
        {.losses = &second, .loss_count = 1, .inputs = &x, .input_count = 1}};
    uf_program_options options = training_options(passes, 2);
    options.dtype = UF_BF16;
    assert_ok(uf_program_compile(graph, &options, &program));
    put(uf_program_input(program, "x"), (const double[]){1.0, 1.0});
    /* y = 2: dw = 4 (1, 1), w = (0, 0); then all is 0 */
    for (int run = 0; run < 3; ++run) {
        double losses[3];
        int64_t step;
        bool finite;
        assert_ok(uf_program_run(program));
        assert_ok(uf_context_synchronize(context));
        assert_ok(uf_program_losses(program, losses, 3, &step, &finite));
        assert_true(losses[0] == (run == 0 ? 4.0 : 0.0) && losses[1] == losses[0] &&
                    losses[2] == 0.0);
    }
    uf_program_destroy(program);
    uf_ema_destroy(ema);
    uf_optimizer_destroy(optimizer);
    uf_graph_destroy(graph);
    uf_store_destroy(average);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void test_refused_averages(void **state) {
    (void)state;
    bench b = open_bench();
    uf_store *same = make_store(b.context, "same", UF_F64);
    uf_store *single = make_store(b.context, "single", UF_F32);
    uf_store *const stores[4] = {b.store, same, b.other, single};
    for (int i = 0; i < 4; ++i) {
        assert_ok(uf_store_declare(stores[i], i == 2 ? "v" : "w", UF_SHAPE(2), UF_ROLE_PARAMETER));
    }
    const uf_status invalid = UF_ERROR_INVALID_ARGUMENT;
    uf_ema *ema;
    assert_error(uf_ema_create(b.store, b.store, NULL, &ema), invalid, "its own average");
    assert_null(ema);
    assert_error(uf_ema_create(b.store, b.other, NULL, &ema), invalid, "tensor 0 is w", "v");
    assert_error(uf_ema_create(b.store, single, NULL, &ema), invalid, "f64", "f32");
    uf_ema_options options = uf_ema_options_default();
    options.decay = 1.5;
    assert_error(uf_ema_create(b.store, same, &options, &ema), invalid, "decay is 1.5");
    assert_ok(uf_ema_create(b.store, same, NULL, &ema));
    assert_error(uf_ema_set_decay(ema, (double)NAN), invalid, "decay");
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value loss = square(&b, x);
    uf_pass pass = {.losses = &loss,
                    .loss_count = 1,
                    .inputs = &x,
                    .input_count = 1,
                    .emas = &ema,
                    .ema_count = 1};
    compile(&b, &pass, 1);
    /* An average of nothing is not begun with. */
    put_in_store(b.store, "w", (const double[]){1.0, 2.0});
    assert_error(uf_program_run(b.program), UF_ERROR_STATE, "same");
    uf_program *refused;
    uf_ema *const none = NULL;
    pass.emas = &none;
    const uf_program_options compiling = training_options(&pass, 1);
    assert_error(uf_program_compile(b.graph, &compiling, &refused), invalid, "average 0 is NULL");
    uf_ema_destroy(ema);
    uf_ema_destroy(NULL);
    uf_store_destroy(single);
    uf_store_destroy(same);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_weights),     cmocka_unit_test(test_groups),
        cmocka_unit_test(test_clipping),         cmocka_unit_test(test_refused_clipping),
        cmocka_unit_test(test_average),          cmocka_unit_test(test_average_in_bf16),
        cmocka_unit_test(test_refused_averages),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("pass_steps", tests, NULL, NULL);
}
