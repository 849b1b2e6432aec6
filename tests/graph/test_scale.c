/* test_scale.c - graphs, stores and passes by the hundred thousand. Each case takes seconds; with
 * work that grows with the square of a count it would take the limit of CPU time below, which is
 * tens of times what it needs. The stack is small: nothing may recurse as deep as a graph is. */
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MANY = 100000, MORE = 150000, STACK = 256 * 1024, CPU_SECONDS = 60 };

static const char *indexed(const char *prefix, int i) {
    static _Thread_local char name[32];
    (void)snprintf(name, sizeof name, "%s%d", prefix, i);
    return name;
}

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} fixture;

static fixture open_fixture(void) {
    fixture f = {.context = test_context(1)};
    assert_ok(uf_store_create(f.context, "net", &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    return f;
}

static uf_program *compile(const fixture *f, const uf_program_options *options) {
    uf_program *program = NULL;
    assert_ok(uf_program_compile(f->graph, options, &program));
    return program;
}

static void upload(uf_tensor *tensor, float number) {
    assert_non_null(tensor);
    assert_int_equal(uf_tensor_count(tensor), 1);
    assert_ok(uf_tensor_upload(tensor, &number));
}

static void assert_number(uf_tensor *tensor, float expected) {
    float number = NAN;
    assert_non_null(tensor);
    assert_int_equal(uf_tensor_count(tensor), 1);
    assert_ok(uf_tensor_download(tensor, &number));
    assert_true(number == expected);
}

/* The layer "l<i>", with a weight of 1 and no bias: it computes its input. */
static uf_value identity(const fixture *f, uf_store *store, uf_value x, int i) {
    return uf_linear(f->graph, x, uf_at(store, indexed("l", i)), 1, false);
}

static void fill_ones(uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry = {.struct_size = sizeof entry};
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_ok(uf_init_constant(store, entry.name, 1.0));
    }
}

/* Layers in a row, each with an activation that is folded into it. */
static void test_chain(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    for (int i = 0; i < MANY; ++i) {
        x = uf_relu(f.graph, identity(&f, f.store, x, i));
    }
    uf_output(f.graph, "y", x);
    fill_ones(f.store);
    for (int way = 0; way < 3; ++way) {
        uf_program_options options = uf_program_options_default();
        options.fuse = way == 0;
        options.plan = way == 2 ? UF_PLAN_POISON : UF_PLAN_REUSE;
        uf_program *program = compile(&f, &options);
        upload(uf_program_input(program, "x"), 3.0F);
        assert_ok(uf_program_run(program));
        assert_number(uf_program_output(program, "y"), 3.0F);
        uf_program_destroy(program);
    }
    uf_context_destroy(f.context);
}

/* Every value is read again in the backward half, so that all of them live at once. The target is
 * 2, x is 3: the loss is 1 and its gradient by any weight 2*(3 - 2)*3. */
static void train(fixture *f, uf_value x, uf_store *const *stores, int store_count,
                  float gradient) {
    uf_optimizer **optimizers = test_allocate((size_t)store_count * sizeof(uf_optimizer *));
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.lr = 0.0;
    for (int i = 0; i < store_count; ++i) {
        fill_ones(stores[i]);
        assert_ok(uf_optimizer_create_sgd(stores[i], &sgd, &optimizers[i]));
    }
    const uf_value loss = uf_mse_loss(f->graph, x, uf_input(f->graph, "target", UF_SHAPE(1, 1)));
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.loss_count = 1;
    pass.stores = stores;
    pass.store_count = store_count;
    pass.optimizers = optimizers;
    pass.optimizer_count = store_count;
    uf_program_options options = uf_program_options_default();
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program = compile(f, &options);
    upload(uf_program_input(program, "x"), 3.0F);
    upload(uf_program_input(program, "target"), 2.0F);
    assert_ok(uf_program_run(program));
    double number = 0.0;
    int64_t step = 0;
    bool finite = false;
    assert_ok(uf_program_losses(program, &number, 1, &step, &finite));
    assert_true(number == 1.0 && step == 1 && finite);
    for (int i = 0; i < store_count; ++i) {
        for (int64_t k = 0; k < uf_store_size(stores[i]); ++k) {
            uf_store_entry entry = {.struct_size = sizeof entry};
            uf_tensor *tensor = NULL;
            assert_ok(uf_store_entry_at(stores[i], k, &entry));
            assert_ok(uf_store_gradient(stores[i], entry.name, &tensor));
            assert_number(tensor, gradient);
        }
    }
    uf_program_destroy(program);
    free(optimizers);
    uf_context_destroy(f->context);
}

static void test_training(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    for (int i = 0; i < MORE; ++i) {
        x = identity(&f, f.store, x, i);
    }
    train(&f, x, &f.store, 1, 6.0F);
}

/* One weight under many names. Its gradient is the sum over the layers, up to 2^24 exact. */
static void test_aliases(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    x = identity(&f, f.store, x, 0);
    for (int i = 1; i < MORE; ++i) {
        char alias[32];
        (void)snprintf(alias, sizeof alias, "l%d.weight", i);
        assert_ok(uf_store_alias(f.store, alias, "l0.weight"));
        x = identity(&f, f.store, x, i);
    }
    train(&f, x, &f.store, 1, 6.0F * MORE);
}

static void test_stores(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_store **stores = test_allocate(MANY * sizeof *stores);
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    for (int i = 0; i < MANY; ++i) {
        assert_ok(uf_store_create(f.context, indexed("store", i), &stores[i]));
        x = identity(&f, stores[i], x, 0);
    }
    train(&f, x, stores, MANY, 6.0F);
    free(stores);
}

/* A binding and a mode for every scope. */
static void test_options(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_binding *bindings = test_allocate(MANY * sizeof *bindings);
    uf_scope_mode *modes = test_allocate(MANY * sizeof *modes);
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    for (int i = 0; i < MANY; ++i) {
        uf_store *store = NULL;
        assert_ok(uf_store_create(f.context, indexed("store", i), &store));
        x = identity(&f, store, x, i);
        fill_ones(store);
        bindings[i].store = store;
        assert_ok(uf_store_copy(store, f.context, UF_F32, &bindings[i].with));
        modes[i] = (uf_scope_mode){.scope = uf_at(store, indexed("l", i)), .mode = UF_TRAIN};
    }
    uf_output(f.graph, "y", x);
    uf_program_options options = uf_program_options_default();
    options.bindings = bindings;
    options.binding_count = MANY;
    options.scope_modes = modes;
    options.scope_mode_count = MANY;
    uf_program *program = compile(&f, &options);
    upload(uf_program_input(program, "x"), 3.0F);
    assert_ok(uf_program_run(program));
    assert_number(uf_program_output(program, "y"), 3.0F);
    free(bindings);
    free(modes);
    uf_context_destroy(f.context);
}

/* Inputs and outputs, found by name; the shapes of all inputs are given. */
static void test_inputs(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_input_shape *shapes = test_allocate(MANY * sizeof *shapes);
    char(*names)[16] = test_allocate(MANY * sizeof *names);
    for (int i = 0; i < MANY; ++i) {
        (void)snprintf(names[i], sizeof names[i], "x%d", i);
        shapes[i] = (uf_input_shape){.input = names[i], .shape = UF_SHAPE(1)};
        uf_output(f.graph, indexed("y", i),
                  uf_relu(f.graph, uf_input(f.graph, names[i], UF_SHAPE(7))));
    }
    uf_program_options options = uf_program_options_default();
    options.input_shapes = shapes;
    options.input_shape_count = MANY;
    uf_program *program = compile(&f, &options);
    for (int i = 0; i < MANY; ++i) {
        upload(uf_program_input(program, names[i]), (float)i);
    }
    assert_ok(uf_program_run(program));
    for (int i = 0; i < MANY; ++i) {
        assert_number(uf_program_output(program, indexed("y", i)), (float)i);
    }
    assert_null(uf_program_input(program, "x"));
    assert_null(uf_program_output(program, indexed("y", MANY)));
    (void)uf_input(f.graph, names[MANY - 1], UF_SHAPE(1));
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "two inputs",
                 names[MANY - 1]);
    free(names);
    free(shapes);
    uf_context_destroy(f.context);
}

/* Passes that share nothing, each of a loss and an input. */
static void differentiate_apart(int pass_count) {
    fixture f = open_fixture();
    uf_value *losses = test_allocate(MANY * sizeof *losses);
    uf_value *inputs = test_allocate(MANY * sizeof *inputs);
    uf_pass *passes = test_allocate((size_t)pass_count * sizeof *passes);
    const int each = MANY / pass_count;
    for (int i = 0; i < MANY; ++i) {
        inputs[i] = uf_input(f.graph, indexed("x", i), UF_SHAPE(1));
        losses[i] = uf_relu(f.graph, inputs[i]);
    }
    for (int p = 0; p < pass_count; ++p) {
        passes[p] = uf_pass_default();
        passes[p].losses = &losses[p * each];
        passes[p].inputs = &inputs[p * each];
        passes[p].loss_count = passes[p].input_count = each;
        passes[p].external_seeds = true;
    }
    uf_program_options options = uf_program_options_default();
    options.passes = passes;
    options.pass_count = pass_count;
    uf_program *program = compile(&f, &options);
    for (int i = 0; i < MANY; ++i) {
        upload(uf_program_input(program, indexed("x", i)), 1.0F);
        upload(uf_program_seed(program, i / each, i % each), (float)i);
    }
    assert_ok(uf_program_run(program));
    for (int i = 0; i < MANY; ++i) {
        assert_number(uf_program_gradient(program, i / each, inputs[i]), (float)i);
    }
    free(passes);
    free(losses);
    free(inputs);
    uf_context_destroy(f.context);
}

static void test_gradients(void **state) {
    (void)state;
    differentiate_apart(1);
}

static void test_passes(void **state) {
    (void)state;
    differentiate_apart(MANY);
}

/* One value that many nodes read, and whose results are all alive until they are added up. */
static void test_wide(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_value *branches = test_allocate(MORE * sizeof *branches);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 1));
    for (int i = 0; i < MORE; ++i) {
        branches[i] = uf_relu(f.graph, x);
    }
    uf_value sum = branches[0];
    for (int i = 1; i < MORE; ++i) {
        sum = uf_add(f.graph, sum, branches[i]);
    }
    uf_output(f.graph, "sum", sum);
    uf_program *program = compile(&f, NULL);
    upload(uf_program_input(program, "x"), 1.0F);
    assert_ok(uf_program_run(program));
    assert_number(uf_program_output(program, "sum"), (float)MORE);
    free(branches);
    uf_context_destroy(f.context);
}

/* Values of two sizes in turn, and one that lives all along. */
static void test_concat(void **state) {
    (void)state;
    fixture f = open_fixture();
    const uf_value skip = uf_relu(f.graph, uf_input(f.graph, "x", UF_SHAPE(1, 1)));
    uf_value x = skip;
    for (int i = 0; i < MORE; ++i) {
        const uf_value pair[2] = {x, skip};
        x = uf_linear(f.graph, uf_concat(f.graph, pair, 2), uf_at(f.store, "half"), 1, false);
    }
    uf_output(f.graph, "y", uf_add(f.graph, x, skip));
    assert_ok(uf_init_constant(f.store, "half.weight", 0.5));
    uf_program *program = compile(&f, NULL);
    upload(uf_program_input(program, "x"), 3.0F);
    assert_ok(uf_program_run(program));
    assert_number(uf_program_output(program, "y"), 6.0F);
    uf_context_destroy(f.context);
}

/* The scratch of a convolution whose phases nobody can count one by one. */
static void test_extents(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    float number;
    for (int64_t extent = INT64_C(3037000500); extent < INT64_C(1) << 50; extent *= 30) {
        uf_conv2d_args args = uf_conv2d_args_default();
        size_t size = 0;
        args.params.stride[1] = extent;
        args.grad_input = uf_view_nchw(&number, UF_F32, 1, 1, 1, extent);
        args.weight = uf_view_nchw(&number, UF_F32, 1, 1, 1, 1);
        args.grad_output = args.weight;
        assert_ok(uf_conv2d_backward_input_workspace(context, &args, &size));
        assert_true(size > 0);
    }
    uf_context_destroy(context);
}

static const struct {
    const char *name;
    void (*run)(void **state);
} cases[] = {
    {"chain", test_chain},   {"training", test_training},   {"aliases", test_aliases},
    {"stores", test_stores}, {"options", test_options},     {"inputs", test_inputs},
    {"passes", test_passes}, {"gradients", test_gradients}, {"wide", test_wide},
    {"concat", test_concat}, {"extents", test_extents},
};

/* The whole of cmocka runs on the small stack: a failure jumps within a thread. */
static void *run_case(void *number) {
    const size_t i = *(const size_t *)number;
    const struct CMUnitTest tests[] = {{cases[i].name, cases[i].run, NULL, NULL, NULL}};
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? number : NULL;
}

int main(int argc, char **argv) {
    const struct rlimit limit = {CPU_SECONDS, CPU_SECONDS};
    pthread_attr_t attributes;
    pthread_t thread;
    void *passed = NULL;
    size_t i = 0;
    while (i < (size_t)COUNT_OF(cases) && (argc != 2 || strcmp(argv[1], cases[i].name) != 0)) {
        ++i;
    }
    if (i == (size_t)COUNT_OF(cases)) {
        fprintf(stderr, "usage: test_scale CASE\n");
        return 2;
    }
    if (setrlimit(RLIMIT_CPU, &limit) != 0 || pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, STACK) != 0 ||
        pthread_create(&thread, &attributes, run_case, &i) != 0 ||
        pthread_join(thread, &passed) != 0) {
        perror("test_scale");
        return 2;
    }
    return passed != NULL ? 0 : 1;
}
