/* test_custom.c - operations of the user's own: several inputs, gradients with several parts,
 * workspace, memory that is used again, messages of failures, and every refusal. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/program.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} fixture;

static fixture open_fixture(void) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_F64;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* y[i] = a[i] * b[i % |b|] + c, f64, on the CPU; c is the user's. */
typedef struct state {
    double c;
    int forwards, backwards, absent;
    uf_status fails; /* of the next call */
    const char *message;
} state;

static uf_status product_shape(void *user, const uf_shape *inputs, int32_t count,
                               uf_shape *output) {
    (void)user;
    if (count != 2 || uf_shape_count(&inputs[0]) % uf_shape_count(&inputs[1]) != 0) {
        return uf_custom_fail(UF_ERROR_SHAPE, "the inputs do not fit");
    }
    *output = inputs[0];
    return UF_OK;
}

static uf_status product(void *user, const uf_custom_call *call) {
    state *own = user;
    const double *a = call->inputs[0].data, *b = call->inputs[1].data;
    const int64_t width = uf_shape_count(&call->inputs[1].shape);
    own->forwards += 1;
    if (own->fails != UF_OK) {
        return own->message != NULL ? uf_custom_fail(own->fails, own->message) : own->fails;
    }
    assert_int_equal(call->struct_size, sizeof *call);
    assert_int_equal(call->output.dtype, UF_F64);
    assert_null(call->stream);
    assert_true(call->workspace_size >= 24);
    memset(call->workspace, 0xff, 24);
    for (int64_t i = 0; i < uf_shape_count(&call->output.shape); ++i) {
        ((double *)call->output.data)[i] = a[i] * b[i % width] + own->c;
    }
    return UF_OK;
}

static uf_status product_gradient(void *user, const uf_custom_call *call) {
    state *own = user;
    const double *a = call->inputs[0].data, *b = call->inputs[1].data;
    const double *upstream = call->grad_output.data;
    const int64_t count = uf_shape_count(&call->inputs[0].shape);
    const int64_t width = uf_shape_count(&call->inputs[1].shape);
    double *to_a = call->grad_inputs[0].data, *to_b = call->grad_inputs[1].data;
    own->backwards += 1;
    own->absent += (to_a == NULL) + (to_b == NULL);
    assert_null(call->output.data); /* not asked for */
    assert_true(call->workspace_size >= 40 && (uintptr_t)call->workspace % 256 == 0);
    memset(call->workspace, 0xff, 40);
    for (int64_t i = 0; i < count && to_a != NULL; ++i) {
        to_a[i] = upstream[i] * b[i % width];
    }
    for (int64_t j = 0; j < width && to_b != NULL; ++j) {
        to_b[j] = 0.0;
        for (int64_t i = j; i < count; i += width) {
            to_b[j] += upstream[i] * a[i];
        }
    }
    return UF_OK;
}

static size_t product_workspace(void *user, const uf_shape *inputs, int32_t count, uf_dtype dtype,
                                bool of_backward) {
    (void)user;
    (void)inputs;
    (void)count;
    assert_int_equal(dtype, UF_F64);
    return of_backward ? 40 : 24;
}

static uf_custom_definition product_definition(state *own) {
    uf_custom_definition definition = uf_custom_definition_default();
    definition.name = "product";
    definition.user = own;
    definition.infer = product_shape;
    definition.forward = product;
    definition.backward = product_gradient;
    definition.workspace = product_workspace;
    definition.backward_reads = 1u << 0 | 1u << 1;
    return definition;
}

static uf_value append(fixture *f, state *own, uf_value a, uf_value b) {
    const uf_custom_definition definition = product_definition(own);
    const uf_value inputs[2] = {a, b};
    return uf_custom(f->graph, &definition, inputs, 2);
}

/* Each operand is read by several, one reader twice; activations before and behind. */
static void build(fixture *f, state *own) {
    const uf_value x = uf_input(f->graph, "x", UF_SHAPE(2, 3, 4, 4));
    const uf_value b = uf_input(f->graph, "b", UF_SHAPE(4));
    uf_value y = uf_conv2d(f->graph, x, uf_at(f->store, "0"), 3, NULL);
    y = uf_tanh(f->graph, uf_reshape(f->graph, y, UF_SHAPE(2, 12)));
    const uf_value first = append(f, own, y, b);
    const uf_value square = append(f, own, first, uf_reshape(f->graph, first, UF_SHAPE(24)));
    uf_output(f->graph, "y", uf_sigmoid(f->graph, square));
    uf_output(f->graph, "z", append(f, own, uf_add(f->graph, first, y), b));
    assert_ok(uf_init_default(f->graph, f->store));
}

static void test_gradients(void **unused) {
    (void)unused;
    fixture f = open_fixture();
    state own = {.c = 0.25};
    build(&f, &own);
    uf_gradcheck_result result;
    uf_gradcheck_options options = uf_gradcheck_options_default();
    options.mode = UF_TRAIN;
    assert_ok(uf_gradcheck(f.graph, &options, &result));
    if (!result.passed) {
        fail_msg("%s[%lld]: %g, numeric %g", result.worst_tensor, (long long)result.worst_index,
                 result.worst_analytic, result.worst_numeric);
    }
    assert_int_equal(result.skipped, 0);
    assert_true(own.backwards >= 3);
    close_fixture(&f);
}

/* The same bits whatever the plan does with memory, and poison reaches nothing. */
static void test_plans(void **unused) {
    (void)unused;
    double want[28], have[28], x[96], b[4] = {0.5, -1.5, 2.0, 0.75};
    for (int i = 0; i < 96; ++i) {
        x[i] = 0.01 * (double)(i * 37 % 100) - 0.5;
    }
    for (int plan = UF_PLAN_REUSE; plan <= UF_PLAN_POISON; ++plan) {
        fixture f = open_fixture();
        state own = {.c = 0.25};
        build(&f, &own);
        uf_value losses[2], wanted = {0};
        uf_pass pass = uf_pass_default();
        losses[0] = uf_graph_value_of(f.graph, f.graph->outputs.list[0].value);
        losses[1] = uf_graph_value_of(f.graph, f.graph->outputs.list[1].value);
        wanted = uf_graph_value_of(f.graph, f.graph->inputs.list[1].value);
        pass.losses = losses;
        pass.loss_count = 2;
        pass.inputs = &wanted;
        pass.input_count = 1;
        pass.external_seeds = true;
        uf_program_options options = uf_program_options_default();
        options.dtype = UF_F64;
        options.plan = (uf_plan)plan;
        options.passes = &pass;
        options.pass_count = 1;
        uf_program *program;
        assert_ok(uf_program_compile(f.graph, &options, &program));
        assert_ok(uf_tensor_upload(uf_program_input(program, "x"), x));
        assert_ok(uf_tensor_upload(uf_program_input(program, "b"), b));
        assert_ok(uf_program_run(program));
        assert_ok(uf_program_run(program));
        assert_int_equal(own.forwards, 6);
        assert_int_equal(own.backwards, 6);
        assert_int_equal(own.absent, 2); /* once a run: nobody wants the convolution's gradient */
        assert_ok(uf_tensor_download(uf_program_gradient(program, 0, wanted), have));
        assert_ok(uf_tensor_download(uf_program_output(program, "y"), have + 4));
        if (plan == UF_PLAN_REUSE) {
            memcpy(want, have, sizeof want);
        } else {
            assert_memory_equal(want, have, sizeof want);
        }
        uf_program_destroy(program);
        close_fixture(&f);
    }
}

/* A failure in a run is the run's status, with its message or with one of ours. */
static void test_failures(void **unused) {
    (void)unused;
    fixture f = open_fixture();
    state own = {.c = 0.0};
    const uf_value a = uf_input(f.graph, "a", UF_SHAPE(4));
    const uf_value b = uf_input(f.graph, "b", UF_SHAPE(2));
    uf_output(f.graph, "y", append(&f, &own, a, b));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_null(uf_program_input(program, "nothing")); /* an earlier message */
    own.fails = UF_ERROR_IO;
    for (int again = 0; again < 2; ++again) {
        assert_int_equal(uf_program_run(program), UF_ERROR_IO);
        assert_string_equal(uf_last_error(),
                            "product: forward returned UF_ERROR_IO without a message");
        own.message = "the disc is full at 7 of 9";
        assert_int_equal(uf_program_run(program), UF_ERROR_IO);
        assert_string_equal(uf_last_error(), "product: the disc is full at 7 of 9");
        own.message = NULL;
    }
    own.fails = (uf_status)77;
    assert_int_equal(uf_program_run(program), UF_ERROR_INVALID_ARGUMENT);
    assert_string_equal(uf_last_error(), "product: forward returned 77, which is no uf_status");
    own.fails = UF_OK;
    assert_ok(uf_program_run(program));
    assert_string_equal(uf_last_error(), "product: forward returned 77, which is no uf_status");
    uf_program_destroy(program);
    close_fixture(&f);
}

static uf_status no_shape(void *user, const uf_shape *inputs, int32_t count, uf_shape *output) {
    (void)user;
    (void)inputs;
    (void)count;
    (void)output;
    return UF_OK;
}

static void refuse(const uf_custom_definition *definition, int32_t count, uf_status expected,
                   const char *sentence) {
    fixture f = open_fixture();
    const uf_value a = uf_input(f.graph, "a", UF_SHAPE(4));
    const uf_value inputs[9] = {a, a, a, a, a, a, a, a, a};
    assert_int_equal(uf_custom(f.graph, definition, inputs, count).id, 0);
    assert_int_equal(uf_graph_status(f.graph), expected);
    assert_string_equal(uf_last_error(), sentence);
    close_fixture(&f);
}

static void test_refusals(void **unused) {
    (void)unused;
    state own = {.c = 0.0};
    uf_custom_definition definition = product_definition(&own);
    definition.name = "a name of forty-eight characters is one too many";
    refuse(&definition, 2, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: an operation needs a name of 1 to 47 characters");
    definition.name = NULL;
    refuse(&definition, 2, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: an operation needs a name of 1 to 47 characters");
    refuse(NULL, 2, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: an operation needs a name of 1 to 47 characters");
    definition = product_definition(&own);
    definition.forward = NULL;
    refuse(&definition, 2, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: operation product has no forward");
    definition = product_definition(&own);
    refuse(&definition, 0, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: operation product takes 1 to 8 inputs, not 0");
    refuse(&definition, 9, UF_ERROR_INVALID_ARGUMENT,
           "uf_custom: operation product takes 1 to 8 inputs, not 9");
    refuse(&definition, 3, UF_ERROR_SHAPE, "product: the inputs do not fit");
    definition.infer = no_shape;
    refuse(&definition, 2, UF_ERROR_SHAPE, "product: infer gave the output the shape (no shape)");
}

/* Without backward no gradient passes; without infer the output is like input 0. */
static void test_what_may_be_missing(void **unused) {
    (void)unused;
    fixture f = open_fixture();
    state own = {.c = 1.0};
    uf_custom_definition definition = product_definition(&own);
    definition.backward = NULL;
    definition.infer = NULL;
    definition.every_run = true;
    const uf_value a = uf_input(f.graph, "a", UF_SHAPE(2, 3));
    const uf_value inputs[2] = {a, a};
    const uf_value y = uf_custom(f.graph, &definition, inputs, 2);
    const uf_shape shape = uf_value_shape(f.graph, y);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.extent[1], 3);
    uf_output(f.graph, "y", y);
    uf_pass pass = uf_pass_default();
    pass.losses = &y;
    pass.loss_count = 1;
    pass.inputs = &a;
    pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_int_equal(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT);
    options.passes = NULL;
    options.pass_count = 0;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_false(program->capture);
    assert_ok(uf_program_run(program));
    uf_program_destroy(program);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_what_may_be_missing),
    };
    return cmocka_run_group_tests_name("custom", tests, NULL, NULL);
}
