/* test_custom_kernel.c - an operation of the user's own with a kernel of the user's own: between
 * other layers, recorded and not. y = 2x has the bits of x + x, forward and backward. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/scale.h"
#include "support/compare.h"

enum { RUNS = 5, COUNT = 2 * 3 * 9 * 9 };

typedef struct calls {
    int forwards, backwards;
} calls;

static uf_status forward(void *user, const uf_custom_call *call) {
    ((calls *)user)->forwards += 1;
    return scale_on(call->stream, call->inputs[0].data, call->output.data, 2.0F,
                    uf_shape_count(&call->output.shape))
               ? UF_OK
               : uf_custom_fail(UF_ERROR_DEVICE, "the launch failed");
}

static uf_status backward(void *user, const uf_custom_call *call) {
    ((calls *)user)->backwards += 1;
    return scale_on(call->stream, call->grad_output.data, call->grad_inputs[0].data, 2.0F,
                    uf_shape_count(&call->output.shape))
               ? UF_OK
               : uf_custom_fail(UF_ERROR_DEVICE, "the launch failed");
}

/* x -> convolution -> doubled -> tanh; doubled by the operation, or by an addition. */
static uf_value branch(uf_graph *graph, uf_store *store, uf_value x,
                       const uf_custom_definition *definition) {
    uf_value y = uf_conv2d(graph, x, uf_at(store, "conv"), 3, NULL);
    y = definition != NULL ? uf_custom(graph, definition, &y, 1) : uf_add(graph, y, y);
    return uf_tanh(graph, y);
}

static void check(bool capture, bool every_run, int expected) {
    calls made = {0, 0};
    uf_context *context = test_context(1);
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    float x[COUNT], want[COUNT], have[COUNT];
    assert_ok(uf_store_create(context, "weights", &store));
    assert_ok(uf_graph_create(context, &graph));
    uf_custom_definition definition = uf_custom_definition_default();
    definition.name = "twice";
    definition.user = &made;
    definition.forward = forward;
    definition.backward = backward;
    definition.backward_reads = 0;
    definition.every_run = every_run;
    const uf_value inputs[2] = {uf_input(graph, "x", UF_SHAPE(2, 3, 9, 9)),
                                uf_input(graph, "z", UF_SHAPE(2, 3, 9, 9))};
    const uf_value losses[2] = {branch(graph, store, inputs[0], &definition),
                                branch(graph, store, inputs[1], NULL)};
    uf_output(graph, "custom", losses[0]);
    uf_output(graph, "added", losses[1]);
    assert_ok(uf_init_default(graph, store));
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = 2;
    pass.inputs = inputs;
    pass.input_count = 2;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.capture = capture;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(graph, &options, &program));
    for (int run = 0; run < RUNS; ++run) {
        for (int i = 0; i < COUNT; ++i) {
            x[i] = (float)((i * 37 + run * 11) % 64) / 32.0F - 1.0F;
        }
        assert_ok(uf_tensor_upload(uf_program_input(program, "x"), x));
        assert_ok(uf_tensor_upload(uf_program_input(program, "z"), x));
        assert_ok(uf_tensor_upload(uf_program_seed(program, 0, 0), x));
        assert_ok(uf_tensor_upload(uf_program_seed(program, 0, 1), x));
        assert_ok(uf_program_run(program));
        const int64_t outputs = uf_tensor_count(uf_program_output(program, "custom"));
        assert_ok(uf_tensor_download(uf_program_output(program, "custom"), have));
        assert_ok(uf_tensor_download(uf_program_output(program, "added"), want));
        assert_same_bits("output", have, want, outputs * (int64_t)sizeof *have);
        assert_ok(uf_tensor_download(uf_program_gradient(program, 0, inputs[0]), have));
        assert_ok(uf_tensor_download(uf_program_gradient(program, 0, inputs[1]), want));
        assert_same_bits("gradient", have, want, (int64_t)sizeof have);
    }
    assert_int_equal(made.forwards, expected);
    assert_int_equal(made.backwards, expected);
    uf_context_destroy(context);
}

static void test_recorded(void **state) {
    (void)state;
    check(true, false, 2); /* the first run and the recorded one */
}

static void test_every_run(void **state) {
    (void)state;
    check(true, true, RUNS);
    check(false, false, RUNS);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_every_run),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("custom_kernel", tests, NULL, NULL);
}
