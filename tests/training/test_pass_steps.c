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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_weights),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("pass_steps", tests, NULL, NULL);
}
