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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_weights),
        cmocka_unit_test(test_groups),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("pass_steps", tests, NULL, NULL);
}
