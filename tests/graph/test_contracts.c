/* test_contracts.c - who owns what, whose values and stores are taken, and weights that nobody
 * gave. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct net {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x, y, loss;
} net;

static uf_context *make_context(void) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

static net make_net(uf_context *context) {
    net n = {.context = context};
    assert_ok(uf_store_create(context, "weights", &n.store));
    assert_ok(uf_graph_create(context, &n.graph));
    n.x = uf_input(n.graph, "x", UF_SHAPE(2, 3));
    n.y = uf_linear(n.graph, n.x, uf_at(n.store, "main.0"), 4, true);
    n.loss = uf_mse_loss(n.graph, n.y, uf_full_like(n.graph, n.y, 1.0));
    uf_output(n.graph, "y", n.y);
    assert_ok(uf_graph_status(n.graph));
    return n;
}

/* A file of this process alone. */
static const char *file_path(char *text, size_t size) {
    snprintf(text, size, "/tmp/unfurl_contracts.%ld.h5", (long)getpid());
    return text;
}

static uf_status compile_pass(const net *n, const uf_pass *pass, uf_program **program) {
    uf_program_options options = uf_program_options_default();
    options.passes = pass;
    options.pass_count = 1;
    return uf_program_compile(n->graph, &options, program);
}

/* ---- ownership ---- */

enum { TENSOR, STORE, GRAPH, OPTIMIZER, PROGRAM, KINDS };

/* Destroy some of the objects in some order, then the context: nothing is freed twice, and nothing
 * is left, which the memory that is still out and AddressSanitizer say. */
static int64_t live;

static void *count_allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                            void *stream) {
    (void)user, (void)kind, (void)stream;
    live += 1;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *pointer, size_t size, uf_memory_kind kind,
                          void *stream) {
    (void)user, (void)size, (void)kind, (void)stream;
    live -= 1;
    free(pointer);
}

static void destroy_in_order(const int *order, int count) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    options.allocator = (uf_allocator){count_allocate, count_release, NULL};
    uf_context *context;
    live = 0;
    assert_ok(uf_context_create(&options, &context));
    uf_tensor *tensor;
    uf_optimizer *optimizer;
    uf_program *program;
    assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(7), &tensor));
    net n = make_net(context);
    assert_ok(uf_init_default(n.graph, n.store));
    assert_ok(uf_optimizer_create_adam(n.store, NULL, &optimizer));
    const uf_pass pass = {.losses = &n.loss,
                          .loss_count = 1,
                          .stores = &n.store,
                          .store_count = 1,
                          .optimizers = &optimizer,
                          .optimizer_count = 1};
    assert_ok(compile_pass(&n, &pass, &program));
    bool has_program = true;
    for (int i = 0; i < count; ++i) {
        switch (order[i]) {
        case TENSOR:
            uf_tensor_destroy(tensor);
            break;
        case STORE:
            uf_store_destroy(n.store);
            break;
        case GRAPH:
            uf_graph_destroy(n.graph);
            break;
        case OPTIMIZER:
            uf_optimizer_destroy(optimizer);
            break;
        default:
            uf_program_destroy(program);
            has_program = false;
            break;
        }
        if (has_program) {
            assert_ok(uf_program_run(program)); /* it keeps what it needs */
        }
    }
    assert_true(count < KINDS || live == 0);
    uf_context_destroy(context);
    assert_int_equal(live, 0);
}

static void test_any_order(void **state) {
    (void)state;
    int order[KINDS];
    for (int code = 0; code < 3125;
         ++code) { /* every sequence of five kinds without a repetition, and its beginnings */
        int seen = 0, count = 0;
        for (int i = 0, rest = code; i < KINDS; ++i, rest /= KINDS) {
            if ((seen >> rest % KINDS & 1) == 0) {
                order[count++] = rest % KINDS;
            }
            seen |= 1 << rest % KINDS;
        }
        if (code % 7 == 0 || count == KINDS) {
            destroy_in_order(order, count);
        }
    }
    destroy_in_order(NULL, 0);
}

static void test_loading_keeps_the_store(void **state) {
    (void)state;
    uf_context *context = make_context();
    net n = make_net(context);
    uf_store *empty;
    char text[64];
    const char *path = file_path(text, sizeof text);
    assert_ok(uf_init_default(n.graph, n.store));
    assert_ok(uf_store_save_hdf5(n.store, path));
    assert_ok(uf_store_create(context, "empty", &empty));
    assert_ok(uf_store_load_hdf5(empty, path,
                                 NULL)); /* declares the tensors in a store that takes its place */
    assert_int_equal(uf_store_size(empty), 2);
    uf_store_destroy(n.store);
    uf_store_destroy(empty);
    uf_context_destroy(context);
    remove(path);
}

/* A graph that goes on growing leaves the programs compiled from it as they are, and later ones see
 * all of it. */
static void test_growing_graph(void **state) {
    (void)state;
    const float x[] = {-1.0F, 2.0F, 0.5F, 0.0F, 1.0F, -3.0F};
    float before[8], after[8];
    uf_context *context = make_context();
    net n = make_net(context);
    uf_program *small, *large;
    assert_ok(uf_init_default(n.graph, n.store));
    assert_ok(uf_program_compile(n.graph, NULL, &small));
    assert_ok(uf_tensor_upload(uf_program_input(small, "x"), x));
    assert_ok(uf_program_run(small));
    assert_ok(uf_tensor_download(uf_program_output(small, "y"), before));
    uf_value deep = n.y;
    for (int i = 0; i < 1000; ++i) {
        deep = uf_detach(n.graph, deep);
    }
    uf_output(n.graph, "deep", deep);
    assert_ok(uf_program_run(small));
    assert_ok(uf_tensor_download(uf_program_output(small, "y"), after));
    assert_memory_equal(before, after, sizeof before);
    assert_ok(uf_program_compile(n.graph, NULL, &large));
    assert_ok(uf_tensor_upload(uf_program_input(large, "x"), x));
    assert_ok(uf_program_run(large));
    assert_ok(uf_tensor_download(uf_program_output(large, "deep"), after));
    assert_memory_equal(before, after, sizeof before);
    uf_context_destroy(context);
}

/* ---- values and stores of others ---- */

static void test_foreign_values(void **state) {
    (void)state;
    uf_context *context = make_context();
    net a = make_net(context), b = make_net(context);
    assert_int_equal(uf_value_shape(a.graph, b.x).rank, -1);
    assert_int_equal(uf_value_shape(a.graph, a.x).rank, 2);

    uf_program *program;
    uf_pass pass = {.losses = &b.loss, .loss_count = 1, .stores = &a.store, .store_count = 1};
    assert_error(compile_pass(&a, &pass, &program), UF_ERROR_INVALID_ARGUMENT, "pass 0: loss 0",
                 "another graph", "loss");
    pass.losses = &a.loss;
    pass.inputs = &b.x;
    pass.input_count = 1;
    assert_error(compile_pass(&a, &pass, &program), UF_ERROR_INVALID_ARGUMENT, "pass 0: inputs[0]",
                 "input x of another graph");
    pass.inputs = &a.x;
    assert_ok(compile_pass(&a, &pass, &program));
    assert_non_null(uf_program_gradient(program, 0, a.x));
    assert_null(uf_program_gradient(program, 0, b.x));
    assert_non_null(strstr(uf_last_error(), "input x of another graph"));

    uf_output(a.graph, "z", b.y);
    assert_error(uf_graph_status(a.graph), UF_ERROR_INVALID_ARGUMENT, "output z",
                 "the output of main.0 (linear) of another graph");
    uf_linear(b.graph, a.y, uf_at(b.store, "main.1"), 4, true);
    assert_error(uf_graph_status(b.graph), UF_ERROR_INVALID_ARGUMENT, "main.1: linear: input 0",
                 "the output of main.0 (linear) of another graph");

    /* A value of a graph that is gone is refused too, and not looked up. */
    net c = make_net(context);
    uf_graph_destroy(a.graph);
    uf_program_destroy(program);
    uf_relu(c.graph, a.x);
    assert_error(uf_graph_status(c.graph), UF_ERROR_INVALID_ARGUMENT, "a value of another graph");
    uf_context_destroy(context);
}

/* A new context may lie where one that is gone did; its graphs' values are others all the same. */
static void test_values_of_gone_contexts(void **state) {
    (void)state;
    uf_value old = {0};
    for (int i = 0; i < 20; ++i) {
        uf_context *context = make_context();
        net n = make_net(context);
        assert_int_equal(uf_value_shape(n.graph, old).rank, -1);
        old = n.x;
        uf_context_destroy(context);
    }
}

static void test_foreign_stores(void **state) {
    (void)state;
    uf_context *one = make_context(), *two = make_context();
    net a = make_net(one), b = make_net(two);
    uf_program *program;
    const uf_pass pass = {.losses = &a.loss,
                          .loss_count = 1,
                          .stores = &b.store,
                          .store_count = 1,
                          .inputs = &a.x,
                          .input_count = 1};
    assert_error(compile_pass(&a, &pass, &program), UF_ERROR_INVALID_ARGUMENT, "pass 0",
                 "\"weights\"", "another context", uf_context_description(two));
    uf_linear(a.graph, a.y, uf_at(b.store, "main.9"), 4, true);
    assert_error(uf_graph_status(a.graph), UF_ERROR_INVALID_ARGUMENT, "\"weights\"",
                 "another context");
    uf_context_destroy(one);
    uf_context_destroy(two);
}

/* ---- weights that nobody gave ---- */

static void test_ungiven(void **state) {
    (void)state;
    uf_context *context = make_context();
    net n = make_net(context);
    uf_program *program;
    uf_tensor *weight;
    const float values[12] = {1.0f};
    uf_gradcheck_result result;
    assert_ok(uf_program_compile(n.graph, NULL, &program));
    assert_error(uf_program_run(program), UF_ERROR_STATE, "main.0.weight", "\"weights\"",
                 "uf_init_default");
    assert_error(uf_gradcheck(n.graph, NULL, &result), UF_ERROR_STATE, "main.0.weight");
    assert_ok(uf_store_tensor(n.store, "main.0.weight", &weight));
    assert_error(uf_program_run(program), UF_ERROR_STATE,
                 "main.0.weight"); /* borrowed is not given */
    assert_ok(uf_tensor_upload(weight, values));
    assert_error(uf_program_run(program), UF_ERROR_STATE, "main.0.bias");
    assert_ok(uf_init_constant(n.store, "main.0.bias", 0.0));
    assert_ok(uf_program_run(program));

    /* The caller who seals or touches a store means what is in it. */
    net sealed = make_net(context), touched = make_net(context);
    assert_ok(uf_store_seal(sealed.store));
    assert_ok(uf_program_compile(sealed.graph, NULL, &program));
    assert_ok(uf_program_run(program));
    assert_ok(uf_program_compile(touched.graph, NULL, &program));
    uf_store_touch(touched.store);
    assert_ok(uf_program_run(program));
    uf_context_destroy(context);
}

/* A copy has what its original had, and a file gives what it holds. */
static void test_given_by_copy_and_file(void **state) {
    (void)state;
    uf_context *context = make_context();
    net n = make_net(context);
    uf_store *copy;
    uf_program *program;
    assert_ok(uf_store_copy(n.store, context, UF_F32, &copy));
    const uf_binding binding = {.store = n.store, .with = copy};
    uf_program_options options = uf_program_options_default();
    options.bindings = &binding;
    options.binding_count = 1;
    assert_ok(uf_program_compile(n.graph, &options, &program));
    assert_error(uf_program_run(program), UF_ERROR_STATE, "main.0.weight");
    const float weight[12] = {1.0f};
    char text[64];
    const char *path = file_path(text, sizeof text);
    assert_ok(uf_hdf5_write(path, "main.0.weight", UF_F32, UF_SHAPE(4, 3), weight));
    uf_hdf5_load_options load = uf_hdf5_load_options_default();
    load.strict = false;
    assert_ok(uf_store_load_hdf5(copy, path, &load));
    assert_error(uf_program_run(program), UF_ERROR_STATE, "main.0.bias");
    assert_ok(uf_init_default(n.graph, n.store));
    assert_error(uf_program_run(program), UF_ERROR_STATE, "main.0.bias");
    uf_store_destroy(copy);
    assert_ok(uf_store_copy(n.store, context, UF_F32, &copy));
    uf_program *other;
    assert_ok(uf_program_compile(n.graph, &(uf_program_options){.struct_size = 16, .dtype = UF_F32},
                                 &other));
    assert_ok(uf_program_run(other));
    uf_context_destroy(context);
    remove(path);
}

/* ---- options ---- */

static void test_enums(void **state) {
    (void)state;
    uf_context *context = make_context();
    net n = make_net(context);
    uf_program *program;
    uf_gradcheck_result result;
    uf_program_options options = uf_program_options_default();
    options.math = (uf_math)99;
    assert_error(uf_program_compile(n.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "math is 99");
    options = uf_program_options_default();
    options.mode = (uf_mode)99;
    assert_error(uf_program_compile(n.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "mode is 99");
    options = uf_program_options_default();
    options.plan = (uf_plan)99;
    assert_error(uf_program_compile(n.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "plan is 99");
    options = uf_program_options_default();
    const uf_scope_mode mode = {.scope = uf_at(n.store, "main"), .mode = (uf_mode)-1};
    options.scope_modes = &mode;
    options.scope_mode_count = 1;
    assert_error(uf_program_compile(n.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "scope_modes[0].mode is -1");
    uf_gradcheck_options check = uf_gradcheck_options_default();
    check.mode = (uf_mode)99;
    assert_error(uf_gradcheck(n.graph, &check, &result), UF_ERROR_INVALID_ARGUMENT, "mode is 99");
    uf_context_options wrong = uf_context_options_default();
    uf_context *none;
    wrong.struct_size = 97;
    assert_error(uf_context_create(&wrong, &none), UF_ERROR_INVALID_ARGUMENT, "struct_size is 97",
                 "uf_context_options_default()");
    uf_pass passes[2] = {uf_pass_default(), uf_pass_default()};
    passes[1].struct_size = 1024; /* another than the first has */
    options = uf_program_options_default();
    options.passes = passes;
    options.pass_count = 2;
    assert_error(uf_program_compile(n.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "pass 1 has struct_size 1024");
    uf_context_destroy(context);
}

/* Losses that the caller seeds himself are told too, those that are one number. */
static void test_external_seeds(void **state) {
    (void)state;
    uf_context *context = make_context();
    net n = make_net(context);
    assert_ok(uf_init_default(n.graph, n.store));
    const uf_value losses[2] = {n.y, n.loss};
    const uf_pass pass = {.losses = losses,
                          .loss_count = 2,
                          .stores = &n.store,
                          .store_count = 1,
                          .external_seeds = true};
    uf_program *program;
    double values[2] = {-1.0, -1.0};
    int64_t step;
    bool finite;
    assert_ok(compile_pass(&n, &pass, &program));
    assert_ok(uf_tensor_upload(uf_program_input(program, "x"), (const float[6]){1, 2, 3, 4, 5, 6}));
    assert_ok(uf_program_run(program));
    assert_ok(uf_program_losses(program, values, 2, &step, &finite));
    assert_int_equal(step, 1);
    assert_true(finite && values[0] > 0.0);
    assert_true(values[1] == -1.0);
    const uf_pass without = {.losses = losses,
                             .loss_count = 1,
                             .stores = &n.store,
                             .store_count = 1,
                             .external_seeds = true};
    assert_ok(compile_pass(&n, &without, &program));
    assert_error(uf_program_losses(program, values, 2, &step, &finite), UF_ERROR_STATE,
                 "no scalar losses");
    uf_context_destroy(context);
}

static void test_concat_of_nothing(void **state) {
    (void)state;
    uf_context *context = make_context();
    for (int32_t count = -1; count < 20; ++count) {
        uf_graph *graph;
        assert_ok(uf_graph_create(context, &graph));
        assert_int_equal(uf_concat(graph, NULL, count).id, 0);
        assert_error(uf_graph_status(graph), UF_ERROR_INVALID_ARGUMENT, "concat");
    }
    uf_context_destroy(context);
}

/* Getters of NULL have an answer. */
static void test_getters(void **state) {
    (void)state;
    assert_int_equal(uf_context_device(NULL), UF_DEVICE_AUTO);
    assert_int_equal(uf_context_threads(NULL), 0);
    assert_true(uf_context_seed(NULL) == 0);
    assert_string_equal(uf_context_description(NULL), "");
    assert_int_equal(uf_tensor_dtype(NULL), UF_F32);
    assert_int_equal(uf_tensor_shape(NULL).rank, -1);
    assert_int_equal(uf_tensor_count(NULL), 0);
    assert_null(uf_tensor_data(NULL));
    assert_string_equal(uf_store_name(NULL), "");
    assert_int_equal(uf_store_dtype(NULL), UF_F32);
    assert_int_equal(uf_store_size(NULL), 0);
    assert_true(uf_store_version(NULL) == 0);
    uf_store_touch(NULL);
    assert_true(uf_optimizer_learning_rate(NULL) == 0.0);
    assert_true(uf_program_memory(NULL) == 0);
    assert_int_equal(uf_tuning_count(NULL), 0);
    assert_int_equal(uf_shape_count(NULL), -1);
    assert_false(uf_shape_equal(NULL, NULL));
    char text[32];
    assert_string_equal(uf_shape_format(NULL, text, sizeof text), "(no shape)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_loading_keeps_the_store),
        cmocka_unit_test(test_growing_graph),
        cmocka_unit_test(test_foreign_values),
        cmocka_unit_test(test_values_of_gone_contexts),
        cmocka_unit_test(test_foreign_stores),
        cmocka_unit_test(test_ungiven),
        cmocka_unit_test(test_given_by_copy_and_file),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_external_seeds),
        cmocka_unit_test(test_concat_of_nothing),
        cmocka_unit_test(test_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
