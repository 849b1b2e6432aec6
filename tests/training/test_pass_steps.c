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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_weights),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_refused_clipping),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("pass_steps", tests, NULL, NULL);
}
