/* test_training.c - what the passes of a training program promise: which gradients are made, from
 * what, into what; what optimizers and batch norms change; what is refused and how it is said. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by_hand.h"
#include "gan.h"

/* ---- gradients ---- */

/* loss = mean (w x)^2 over a batch of two; gradients by hand. */
static void test_by_hand(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(2, 2));
    const uf_value y = product(&b, x, b.store, "a");
    const uf_value loss = square(&b, y);
    uf_output(b.graph, "y", y);
    const uf_pass pass = {.losses = &loss,
                          .loss_count = 1,
                          .stores = &b.store,
                          .store_count = 1,
                          .inputs = (const uf_value[]){x, y},
                          .input_count = 2};
    compile(&b, &pass, 1);
    put_in_store(b.store, "a.weight", (const double[]){3.0, -1.0});
    put(uf_program_input(b.program, "x"), (const double[]){1.0, 2.0, 0.5, -4.0});
    assert_ok(uf_program_run(b.program));
    /* y = (1, 5.5); dloss/dy = y */
    expect("y", uf_program_output(b.program, "y"), (const double[]){1.0, 5.5}, 2);
    expect("dy", uf_program_gradient(b.program, 0, y), (const double[]){1.0, 5.5}, 2);
    expect("dx", uf_program_gradient(b.program, 0, x), (const double[]){3.0, -1.0, 16.5, -5.5}, 4);
    expect_gradient(b.store, "a.weight", (const double[]){1.0 + 2.75, 2.0 - 22.0}, 2);
    double losses[1];
    int64_t step;
    bool finite;
    assert_ok(uf_program_losses(b.program, losses, 1, &step, &finite));
    assert_true(losses[0] == (1.0 + 30.25) / 2.0 && step == 1 && finite);
    assert_null(uf_program_gradient(b.program, 0, loss));
    assert_null(uf_program_gradient(b.program, 1, x));
    assert_null(uf_program_seed(b.program, 0, 0)); /* no external seeds */
    close_bench(&b);
}

/* A value read three times, one of them through detach: the parts add up, the detached one is not
 * among them. */
static void test_fan_out_and_detach(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 3));
    const uf_value y = uf_tanh(b.graph, x);
    const uf_value sum = uf_add(b.graph, uf_add(b.graph, y, x), uf_detach(b.graph, y));
    const uf_pass pass = {
        .losses = &sum, .loss_count = 1, .inputs = &x, .input_count = 1, .external_seeds = true};
    compile(&b, &pass, 1);
    const double at[3] = {0.3, -1.0, 0.0}, seed[3] = {1.0, -2.0, 0.5};
    double expected[3];
    for (int i = 0; i < 3; ++i) {
        const double t = tanh(at[i]);
        expected[i] = seed[i] * (1.0 - t * t) + seed[i];
    }
    put(uf_program_input(b.program, "x"), at);
    put(uf_program_seed(b.program, 0, 0), seed);
    for (int run = 0; run < 3; ++run) { /* overwritten in every run */
        assert_ok(uf_program_run(b.program));
        expect("dx", uf_program_gradient(b.program, 0, x), expected, 3);
    }
    int64_t step;
    bool finite;
    double losses[1];
    assert_error(uf_program_losses(b.program, losses, 1, &step, &finite), UF_ERROR_STATE,
                 "scalar losses");
    close_bench(&b);
}

/* Gradients go to the stores that a pass names, through all others, and past a detach nowhere. */
static void test_named_stores(void **state) {
    (void)state;
    for (int32_t detached = 0; detached < 2; ++detached) {
        bench b = open_bench();
        const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
        uf_value y = uf_linear(b.graph, x, uf_at(b.store, "a"), 2, false);
        y = detached == 1 ? uf_detach(b.graph, y) : y;
        const uf_value loss = square(&b, product(&b, y, b.other, "b"));
        uf_store *const named = detached == 1 ? b.other : b.store;
        const uf_pass pass = {.losses = &loss, .loss_count = 1, .stores = &named, .store_count = 1};
        compile(&b, &pass, 1);
        put_in_store(b.store, "a.weight", (const double[]){1.0, 0.0, 0.0, 2.0});
        put_in_store(b.other, "b.weight", (const double[]){1.0, 1.0});
        /* A marker in the other store's gradient must stay. */
        uf_store *const silent = detached == 1 ? b.store : b.other;
        const char *name = detached == 1 ? "a.weight" : "b.weight";
        const int64_t count = detached == 1 ? 4 : 2;
        const double marker[4] = {7.0, 7.0, 7.0, 7.0};
        uf_tensor *gradient;
        assert_ok(uf_store_gradient(silent, name, &gradient));
        put(gradient, marker);
        put(uf_program_input(b.program, "x"), (const double[]){3.0, 5.0});
        assert_ok(uf_program_run(b.program));
        expect_gradient(silent, name, marker, count);
        /* y = (3, 10), output 13, dloss = 26 */
        if (detached == 1) {
            expect_gradient(b.other, "b.weight", (const double[]){78.0, 260.0}, 2);
        } else {
            expect_gradient(b.store, "a.weight", (const double[]){78.0, 130.0, 78.0, 130.0}, 4);
        }
        close_bench(&b);
    }
}

static void test_accumulate_across_runs(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value loss = square(&b, product(&b, x, b.store, "a"));
    const uf_pass pass = {
        .losses = &loss, .loss_count = 1, .stores = &b.store, .store_count = 1, .accumulate = true};
    compile(&b, &pass, 1);
    put_in_store(b.store, "a.weight", (const double[]){1.0, 1.0});
    put(uf_program_input(b.program, "x"), (const double[]){1.0, 2.0}); /* gradient 6 x */
    for (int run = 1; run <= 3; ++run) {
        assert_ok(uf_program_run(b.program));
        expect_gradient(b.store, "a.weight", (const double[]){6.0 * run, 12.0 * run}, 2);
    }
    assert_ok(uf_store_zero_gradients(b.store));
    expect_gradient(b.store, "a.weight", (const double[]){0.0, 0.0}, 2);
    assert_ok(uf_program_run(b.program));
    expect_gradient(b.store, "a.weight", (const double[]){6.0, 12.0}, 2);
    close_bench(&b);
}

/* One layer applied twice, and a layer on an alias of its weight: one gradient, the sum; one
 * optimizer step. */
static void test_tied_weights(void **state) {
    (void)state;
    for (int32_t kind = 0; kind < 2; ++kind) {
        bench b = open_bench();
        assert_ok(uf_store_declare(b.store, "a.weight", UF_SHAPE(1, 2), UF_ROLE_PARAMETER));
        if (kind == 1) {
            assert_ok(uf_store_alias(b.store, "tied.weight", "a.weight"));
        }
        const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2)),
                       z = uf_input(b.graph, "z", UF_SHAPE(1, 2));
        const uf_value losses[2] = {square(&b, product(&b, x, b.store, "a")),
                                    square(&b, product(&b, z, b.store, kind == 1 ? "tied" : "a"))};
        const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.5};
        uf_optimizer *optimizer;
        assert_ok(uf_optimizer_create_sgd(b.store, &sgd, &optimizer));
        const uf_pass pass = {.losses = losses,
                              .loss_count = 2,
                              .stores = &b.store,
                              .store_count = 1,
                              .optimizers = &optimizer,
                              .optimizer_count = 1};
        compile(&b, &pass, 1);
        put_in_store(b.store, "a.weight", (const double[]){1.0, 1.0});
        put(uf_program_input(b.program, "x"), (const double[]){1.0, 0.0}); /* dw = 2 (1, 0) */
        put(uf_program_input(b.program, "z"), (const double[]){1.0, 2.0}); /* dw = 6 (1, 2) */
        assert_ok(uf_program_run(b.program));
        expect_gradient(b.store, "a.weight", (const double[]){8.0, 12.0}, 2);
        expect_parameter(b.store, "a.weight", (const double[]){1.0 - 4.0, 1.0 - 6.0}, 2);
        if (kind == 1) {
            expect_gradient(b.store, "tied.weight", (const double[]){8.0, 12.0}, 2);
            expect_parameter(b.store, "tied.weight", (const double[]){-3.0, -5.0}, 2);
        }
        uf_program_destroy(b.program);
        b.program = NULL;
        uf_optimizer_destroy(optimizer);
        close_bench(&b);
    }
}

/* A parameter that no loss reaches keeps its value, weight decay or not. */
static void test_unreached_parameters(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    uf_output(b.graph, "aside", product(&b, x, b.store, "aside"));
    const uf_value loss = square(&b, product(&b, x, b.store, "used"));
    uf_output(b.graph, "last", product(&b, x, b.store, "last"));
    uf_optimizer *optimizer;
    uf_adam_options adam = uf_adam_options_default();
    adam.weight_decay = 0.1;
    adam.lr = 0.01;
    assert_ok(uf_optimizer_create_adam(b.store, &adam, &optimizer));
    const uf_pass pass = {.losses = &loss,
                          .loss_count = 1,
                          .stores = &b.store,
                          .store_count = 1,
                          .optimizers = &optimizer,
                          .optimizer_count = 1};
    compile(&b, &pass, 1);
    const double start[2] = {1.0, -2.0};
    put_in_store(b.store, "aside.weight", start);
    put_in_store(b.store, "used.weight", start);
    put_in_store(b.store, "last.weight", start);
    put(uf_program_input(b.program, "x"), (const double[]){1.0, 2.0});
    const uint64_t version = uf_store_version(b.store);
    assert_ok(uf_program_run(b.program));
    assert_true(uf_store_version(b.store) > version);
    expect_parameter(b.store, "aside.weight", start, 2);
    expect_parameter(b.store, "last.weight", start, 2);
    double moved[2];
    uf_tensor *used;
    assert_ok(uf_store_tensor(b.store, "used.weight", &used));
    assert_ok(uf_tensor_download(used, moved));
    assert_true(fabs(moved[0] - 1.01) < 1e-6 &&
                fabs(moved[1] + 1.99) < 1e-6); /* Adam's first step is lr */
    uf_program_destroy(b.program);
    b.program = NULL;
    uf_optimizer_destroy(optimizer);
    close_bench(&b);
}

/* A later pass sees the weights that an earlier one left. */
static void test_passes_in_order(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value first = square(&b, product(&b, x, b.store, "a"));
    const uf_value second = square(&b, product(&b, x, b.store, "a"));
    const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.125};
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(b.store, &sgd, &optimizer));
    const uf_pass passes[2] = {
        {.losses = &first,
         .loss_count = 1,
         .stores = &b.store,
         .store_count = 1,
         .optimizers = &optimizer,
         .optimizer_count = 1},
        {.losses = &second, .loss_count = 1, .inputs = &x, .input_count = 1},
    };
    compile(&b, passes, 2);
    put_in_store(b.store, "a.weight", (const double[]){2.0, 0.0});
    put(uf_program_input(b.program, "x"), (const double[]){1.0, 1.0});
    assert_ok(uf_program_run(b.program));
    /* y = 2, dw = 4 (1, 1): w = (1.5, -0.5), then y = 1, dx = 2 w */
    expect_parameter(b.store, "a.weight", (const double[]){1.5, -0.5}, 2);
    expect("dx", uf_program_gradient(b.program, 1, x), (const double[]){3.0, -1.0}, 2);
    double losses[4] = {-1.0, -1.0, -1.0, -1.0};
    int64_t step;
    bool finite;
    assert_ok(uf_program_losses(b.program, losses, 4, &step, &finite));
    assert_true(losses[0] == 4.0 && losses[1] == 1.0 &&
                losses[2] == -1.0); /* two losses, no more */
    uf_program_destroy(b.program);
    b.program = NULL;
    uf_optimizer_destroy(optimizer);
    close_bench(&b);
}

/* ---- losses ---- */

static void test_losses(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 1));
    const uf_value loss = square(&b, x);
    const uf_pass pass = {.losses = &loss, .loss_count = 1, .inputs = &x, .input_count = 1};
    compile(&b, &pass, 1);
    double losses[1] = {-1.0};
    int64_t step = -1;
    bool finite = true;
    assert_ok(uf_program_losses(b.program, losses, 1, &step, &finite));
    assert_int_equal(step, 0); /* before the first run */
    assert_true(losses[0] == -1.0);
    for (int run = 1; run <= 200; ++run) { /* three times around the ring */
        const double value = run % 7 == 0   ? (double)NAN
                             : run % 7 == 3 ? (double)INFINITY
                                            : (double)run;
        put(uf_program_input(b.program, "x"), &value);
        assert_ok(uf_program_run(b.program));
        assert_ok(uf_context_synchronize(b.context));
        assert_ok(uf_program_losses(b.program, losses, 1, &step, &finite));
        assert_int_equal(step, run);
        if (run % 7 == 0 || run % 7 == 3) {
            assert_false(finite);
            assert_true(!isfinite(losses[0]));
        } else {
            assert_true(finite && losses[0] == (double)run * (double)run);
        }
    }
    losses[0] = -1.0;
    assert_ok(uf_program_losses(b.program, losses, 0, &step, &finite)); /* no room, no numbers */
    assert_true(losses[0] == -1.0);
    assert_error(uf_program_losses(b.program, NULL, 1, &step, &finite), UF_ERROR_INVALID_ARGUMENT,
                 "NULL");
    close_bench(&b);
}

/* ---- batch norm ---- */

static int64_t batches(uf_store *store, const char *name) {
    uf_tensor *tensor;
    int64_t count = -1;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_download(tensor, &count));
    return count;
}

/* D's batch norms see three batches a step (real, fake, and the fake again for G's pass), G's one.
 */
static void test_batch_norm_counters(void **state) {
    (void)state;
    gan one = gan_open(2, UF_F32, UF_PLAN_REUSE);
    for (int64_t step = 0; step < 5; ++step) {
        assert_int_equal(batches(one.g, "main.1.num_batches_tracked"), step);
        assert_int_equal(batches(one.d, "main.3.num_batches_tracked"), 3 * step);
        gan_step(&one, step);
    }
    assert_int_equal(batches(one.g, "main.4.num_batches_tracked"), 5);
    assert_int_equal(batches(one.d, "main.3.num_batches_tracked"), 15);
    gan_close(&one);
}

/* Running statistics after steps, against the formula: momentum, the unbiased variance, one update
 * per run. */
static void test_batch_norm_buffers(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(2, 1, 1, 2));
    const uf_value y = uf_batch_norm2d(b.graph, x, uf_at(b.store, "norm"), NULL);
    const uf_value loss = square(&b, y);
    const uf_pass pass = {.losses = &loss, .loss_count = 1, .stores = &b.store, .store_count = 1};
    assert_ok(uf_init_default(b.graph, b.store));
    compile(&b, &pass, 1);
    double mean = 0.0, variance = 1.0;
    for (int run = 1; run <= 6; ++run) {
        const double values[4] = {1.0 * run, 2.0, 3.0, 6.0 * run};
        const double average = (values[0] + values[1] + values[2] + values[3]) / 4.0;
        double squares = 0.0;
        for (int i = 0; i < 4; ++i) {
            squares += (values[i] - average) * (values[i] - average);
        }
        mean = 0.9 * mean + 0.1 * average;
        variance = 0.9 * variance + 0.1 * squares / 3.0;
        put(uf_program_input(b.program, "x"), values);
        assert_ok(uf_program_run(b.program));
        expect_parameter(b.store, "norm.running_mean", &mean, 1);
        uf_tensor *tensor;
        double got;
        assert_ok(uf_store_tensor(b.store, "norm.running_var", &tensor));
        assert_ok(uf_tensor_download(tensor, &got));
        assert_true(fabs(got - variance) <= 1e-13 * variance);
        assert_int_equal(batches(b.store, "norm.num_batches_tracked"), run);
    }
    close_bench(&b);
}

/* TRAIN and EVAL by program and by scope; the longest path wins, and a path is whole names. */
static void test_scope_modes(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(2, 1, 2, 2));
    const char *const scopes[] = {"net.a", "net.b.c", "net.bc", "top"};
    uf_value y = x;
    for (int i = 0; i < 4; ++i) {
        y = uf_batch_norm2d(b.graph, y, uf_at(b.store, scopes[i]), NULL);
    }
    uf_output(b.graph, "y", y);
    assert_ok(uf_init_default(b.graph, b.store));
    static const struct {
        uf_mode mode, scope_mode[3];
        const char *path[3];
        bool trains[4]; /* of the scopes above */
    } rows[] = {
        {UF_TRAIN, {UF_TRAIN}, {NULL}, {true, true, true, true}},
        {UF_EVAL, {UF_TRAIN}, {NULL}, {false, false, false, false}},
        {UF_TRAIN, {UF_EVAL}, {"net"}, {false, false, false, true}},
        {UF_EVAL, {UF_TRAIN, UF_EVAL}, {"net", "net.b"}, {true, false, true, false}},
        {UF_EVAL, {UF_EVAL, UF_TRAIN}, {"net.b", "net"}, {true, false, true, false}},
        {UF_TRAIN,
         {UF_EVAL, UF_TRAIN, UF_EVAL},
         {"net", "net.b", "net.b.c"},
         {false, false, false, true}},
        {UF_EVAL, {UF_TRAIN, UF_EVAL}, {"", "top"}, {true, true, true, false}},
    };
    for (int64_t r = 0; r < COUNT_OF(rows); ++r) {
        uf_scope_mode modes[3];
        int32_t count = 0;
        for (; count < 3 && rows[r].path[count] != NULL; ++count) {
            modes[count] =
                (uf_scope_mode){uf_at(b.store, rows[r].path[count]), rows[r].scope_mode[count]};
        }
        uf_program_options options = training_options(NULL, 0);
        options.mode = rows[r].mode;
        options.scope_modes = modes;
        options.scope_mode_count = count;
        uf_program *program;
        assert_ok(uf_program_compile(b.graph, &options, &program));
        put(uf_program_input(program, "x"), (const double[]){1, 2, 3, 4, 5, 6, 7, 8});
        for (int i = 0; i < 4; ++i) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s.num_batches_tracked", scopes[i]);
            assert_ok(uf_init_constant(b.store, name, 0.0));
        }
        assert_ok(uf_program_run(program));
        for (int i = 0; i < 4; ++i) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s.num_batches_tracked", scopes[i]);
            if (batches(b.store, name) != (rows[r].trains[i] ? 1 : 0)) {
                fail_msg("row %lld: %s has %lld batches", (long long)r, scopes[i],
                         (long long)batches(b.store, name));
            }
        }
        uf_program_destroy(program);
    }
    /* The same path of another store is another scope. */
    const uf_scope_mode elsewhere = {uf_at(b.other, "net"), UF_TRAIN};
    uf_program_options options = training_options(NULL, 0);
    options.mode = UF_EVAL;
    options.scope_modes = &elsewhere;
    options.scope_mode_count = 1;
    assert_ok(uf_program_compile(b.graph, &options, &b.program));
    assert_ok(uf_init_constant(b.store, "net.a.num_batches_tracked", 0.0));
    assert_ok(uf_program_run(b.program));
    assert_int_equal(batches(b.store, "net.a.num_batches_tracked"), 0);
    close_bench(&b);
}

/* ---- bindings ---- */

/* A training program on an f64 copy: the copy is trained, the f32 original stays. */
static void test_bound_copy(void **state) {
    (void)state;
    bench b = open_bench();
    uf_store *narrow = make_store(b.context, "narrow", UF_F32), *wide;
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value loss = square(&b, product(&b, x, narrow, "a"));
    put_in_store(narrow, "a.weight", (const double[]){1.0, 1.0});
    assert_ok(uf_store_copy(narrow, b.context, UF_F64, &wide));
    const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 0.5};
    uf_optimizer *optimizer, *original;
    assert_ok(uf_optimizer_create_sgd(wide, &sgd, &optimizer));
    assert_ok(uf_optimizer_create_sgd(narrow, &sgd, &original));
    for (int32_t by_copy = 0; by_copy < 2; ++by_copy) { /* the pass may name either of the two */
        uf_store *const named = by_copy == 1 ? wide : narrow;
        const uf_binding binding = {narrow, wide};
        uf_pass pass = {.losses = &loss,
                        .loss_count = 1,
                        .stores = &named,
                        .store_count = 1,
                        .optimizers = &optimizer,
                        .optimizer_count = 1};
        uf_program_options options = training_options(&pass, 1);
        options.bindings = &binding;
        options.binding_count = 1;
        assert_ok(uf_program_compile(b.graph, &options, &b.program));
        put_in_store(wide, "a.weight", (const double[]){1.0, 1.0});
        put(uf_program_input(b.program, "x"), (const double[]){1.0, 2.0});
        assert_ok(uf_program_run(b.program));
        expect_gradient(wide, "a.weight", (const double[]){6.0, 12.0}, 2);
        expect_parameter(wide, "a.weight", (const double[]){-2.0, -5.0}, 2);
        expect_parameter(narrow, "a.weight", (const double[]){1.0, 1.0}, 2);
        uf_program_destroy(b.program);
        b.program = NULL;
        /* The optimizer of the store that was replaced would step on gradients that nobody makes.
         */
        pass.optimizers = &original;
        assert_error(uf_program_compile(b.graph, &options, &b.program), UF_ERROR_INVALID_ARGUMENT,
                     "optimizer 0", "narrow");
    }
    uf_optimizer_destroy(original);
    uf_optimizer_destroy(optimizer);
    uf_graph_destroy(b.graph);
    b.graph = NULL;
    uf_store_destroy(wide);
    uf_store_destroy(narrow);
    close_bench(&b);
}

/* ---- refusals ---- */

/* Differentiating through a layer whose weights have changed since it ran. */
static void test_stale_weights(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    const uf_value y = product(&b, x, b.store, "net.3");
    const uf_value loss = square(&b, y),
                   again = uf_l1_loss(b.graph, y, uf_full_like(b.graph, y, 1.0));
    const uf_value fresh = square(&b, product(&b, x, b.store, "net.3"));
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(b.store, NULL, &optimizer));
    uf_pass passes[2] = {
        {.losses = &loss,
         .loss_count = 1,
         .stores = &b.store,
         .store_count = 1,
         .optimizers = &optimizer,
         .optimizer_count = 1},
        {.losses = &again, .loss_count = 1, .inputs = &x, .input_count = 1},
    };
    const uf_program_options options = training_options(passes, 2);
    assert_error(uf_program_compile(b.graph, &options, &b.program), UF_ERROR_INVALID_ARGUMENT,
                 "net.3", "pass 1", "pass 0", "apply the layer again");
    assert_null(b.program);
    passes[1].losses = &fresh; /* the layer applied again */
    assert_ok(uf_program_compile(b.graph, &options, &b.program));
    uf_program_destroy(b.program);
    passes[1].losses = &again;
    passes[0].optimizer_count = 0; /* or weights that stay */
    assert_ok(uf_program_compile(b.graph, &options, &b.program));
    uf_program_destroy(b.program);
    b.program = NULL;
    uf_optimizer_destroy(optimizer);
    close_bench(&b);
}

static void refuse(bench *b, uf_pass pass, const char *word, const char *other) {
    const uf_program_options options = training_options(&pass, 1);
    assert_error(uf_program_compile(b->graph, &options, &b->program), UF_ERROR_INVALID_ARGUMENT,
                 "pass 0", word, other);
    assert_null(b->program);
}

static void test_refused_passes(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2)),
                   z = uf_input(b.graph, "z", UF_SHAPE(1, 2));
    const uf_value y = product(&b, x, b.store, "a"), wide = uf_tanh(b.graph, x);
    const uf_value loss = square(&b, y), held = square(&b, uf_detach(b.graph, y));
    const uf_value nothing = {0}, beyond = {.id = 1000}, both[2] = {loss, loss};
    uf_store *const none = NULL;
    uf_optimizer *optimizer, *const no_optimizer = NULL;
    uf_output(b.graph, "y", y);
    (void)uf_linear(b.graph, x, uf_at(b.other, "q"), 1, true);
    assert_ok(uf_optimizer_create_adam(b.other, NULL, &optimizer));
    const uf_pass good = {.losses = &loss, .loss_count = 1, .stores = &b.store, .store_count = 1};
    uf_pass bad = good;
    bad.losses = &wide;
    bad.inputs = &x;
    bad.input_count = 1;
    refuse(&b, bad, "loss 0 is (1, 2)", "external_seeds");
    bad = good;
    bad.store_count = 0;
    refuse(&b, bad, "neither stores nor inputs", "differentiate");
    bad = good;
    bad.loss_count = 0;
    refuse(&b, bad, "no losses", "");
    bad = good;
    bad.losses = &nothing;
    refuse(&b, bad, "loss 0 is not a value", "");
    bad.losses = &beyond;
    refuse(&b, bad, "loss 0 is not a value", "");
    bad = good;
    bad.losses = both;
    bad.loss_count = 2;
    refuse(&b, bad, "loss 1 is named twice", "");
    bad = good;
    bad.losses = &held;
    refuse(&b, bad, "loss 0 does not depend", "");
    bad = good;
    bad.stores = &b.other;
    refuse(&b, bad, "loss 0 does not depend", "");
    bad = good;
    bad.stores = &none;
    refuse(&b, bad, "store 0 is NULL", "");
    bad = good;
    bad.stores = NULL;
    refuse(&b, bad, "no pointer", "");
    bad = good;
    bad.optimizers = &optimizer;
    bad.optimizer_count = 1;
    refuse(&b, bad, "store \"other\"", "no gradient");
    bad.optimizers = &no_optimizer;
    refuse(&b, bad, "optimizer 0 is NULL", "");
    bad = good;
    bad.inputs = &z;
    bad.input_count = 1;
    refuse(&b, bad, "no loss depends", "inputs[0]");
    bad.inputs = &beyond;
    refuse(&b, bad, "inputs[0] is not a value", "");
    const uf_program_options no_pointer = training_options(NULL, 1);
    assert_error(uf_program_compile(b.graph, &no_pointer, &b.program), UF_ERROR_INVALID_ARGUMENT,
                 "1 passes at NULL");
    compile(&b, &good, 1); /* none of it has spoiled the graph */
    assert_ok(uf_init_default(b.graph, b.store));
    assert_ok(uf_program_run(b.program));
    uf_program_destroy(b.program);
    b.program = NULL;
    uf_optimizer_destroy(optimizer);
    close_bench(&b);
}

/* Fifteen losses are one too many; fourteen are not. */
static void test_many_losses(void **state) {
    (void)state;
    bench b = open_bench();
    uf_value losses[15];
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(1, 2));
    for (int i = 0; i < 15; ++i) {
        losses[i] = uf_mse_loss(b.graph, x, uf_full_like(b.graph, x, (double)i));
    }
    uf_pass pass = {.losses = losses, .loss_count = 15, .inputs = &x, .input_count = 1};
    const uf_program_options options = training_options(&pass, 1);
    assert_error(uf_program_compile(b.graph, &options, &b.program), UF_ERROR_INVALID_ARGUMENT,
                 "at most 14 losses");
    pass.loss_count = 14;
    assert_ok(uf_program_compile(b.graph, &options, &b.program));
    assert_ok(uf_program_run(b.program));
    assert_ok(uf_context_synchronize(b.context));
    double got[14];
    int64_t step;
    bool finite;
    assert_ok(uf_program_losses(b.program, got, 14, &step, &finite));
    for (int i = 0; i < 14; ++i) {
        assert_true(got[i] == (double)i * (double)i);
    }
    /* d/dx of the sum: each loss gives (x - i), and there are two elements */
    expect("dx", uf_program_gradient(b.program, 0, x), (const double[]){-91.0, -91.0}, 2);
    close_bench(&b);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_fan_out_and_detach),
        cmocka_unit_test(test_named_stores),
        cmocka_unit_test(test_accumulate_across_runs),
        cmocka_unit_test(test_tied_weights),
        cmocka_unit_test(test_unreached_parameters),
        cmocka_unit_test(test_passes_in_order),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_batch_norm_counters),
        cmocka_unit_test(test_batch_norm_buffers),
        cmocka_unit_test(test_scope_modes),
        cmocka_unit_test(test_bound_copy),
        cmocka_unit_test(test_stale_weights),
        cmocka_unit_test(test_refused_passes),
        cmocka_unit_test(test_many_losses),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
