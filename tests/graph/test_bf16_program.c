/* test_bf16_program.c - programs of bf16: every layer's results and gradients against the same
 * program in f64 on the same numbers, with one rounding; copies of weights as new as the weights;
 * types, sizes and errors. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "ops/bf16_calls.h"
#include "support/compare.h"
#include "support/graph_door.h"

enum { RANDOM_GEOMETRIES = 40 };

static void round_all(case_tensor *tensor) {
    for (int64_t i = 0; i < tensor->count; ++i) {
        tensor->values[i] = to_bf16(tensor->values[i]);
    }
}

/* Case `number` of a family, of numbers that bf16 has. False for a graph that rounds in between:
 * the loss behind a sigmoid, a derivative that is made from a result. */
static bool make_case(const layer_family *family, int64_t number, bool plain, layer_case *one) {
    test_random random = test_random_for(family->name, number);
    case_begin(one, family);
    one->plain = plain;
    if (number < family->table_count) {
        family->table(number, &random, one);
    } else {
        family->random(&random, one);
    }
    round_all(&one->input);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        round_all(&one->parameters[i]);
    }
    return strncmp(one->label, "bce of", 6) != 0 &&
           strstr(one->label, "of a rounded result") == NULL;
}

static int64_t case_count(const layer_family *family) {
    return family->table_count + (family->random != NULL ? RANDOM_GEOMETRIES : 0);
}

/* Relative to the largest result, or to what results typically are. */
static double f32_error(const layer_case *one, const double *exact, int64_t count) {
    double size = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        size = fmax(size, fabs(exact[i]));
    }
    return case_tolerance(one, UF_F32) * (size > 0.0 ? fmax(size, one->size) / size : 1.0);
}

static bool makes_f32(const layer_family *family) {
    return strcmp(family->name, "loss") == 0 || strcmp(family->name, "cross_entropy") == 0;
}

static void check_values(const char *label, const layer_case *one, const double *got,
                         const double *exact, int64_t count, bool wide) {
    if (wide) {
        assert_close(label, compare_values(got, exact, count, one->size),
                     case_tolerance(one, UF_F32));
    } else {
        assert_rounded_once(label, got, exact, count, f32_error(one, exact, count));
    }
}

static void test_forward(void **state) {
    const layer_family *family = *state;
    uf_context *context = test_context(2);
    int64_t ran = 0;
    for (int64_t number = 0; number < case_count(family); ++number) {
        layer_case one;
        char label[512];
        if (make_case(family, number, false, &one)) {
            const size_t bytes = (size_t)one.output.count * sizeof(double);
            double *exact = test_allocate(bytes), *got = test_allocate(bytes);
            graph_door wide = graph_door_open(context, &one, UF_F64, true);
            graph_door narrow = graph_door_open(context, &one, UF_BF16, true);
            graph_door_run(&wide, &one, exact);
            graph_door_run(&narrow, &one, got);
            (void)snprintf(label, sizeof label, "%s [bf16]", one.label);
            check_values(label, &one, got, exact, one.output.count, makes_f32(family));
            double *again = test_allocate(bytes);
            graph_door_run(&narrow, &one, again);
            assert_same_bits(label, again, got, (int64_t)bytes);
            assert_int_equal(uf_tensor_dtype(uf_program_input(narrow.program, "x")), UF_BF16);
            assert_int_equal(uf_tensor_dtype(uf_program_output(narrow.program, "y")),
                             makes_f32(family) ? UF_F32 : UF_BF16);
            graph_door_close(&wide);
            graph_door_close(&narrow);
            free(exact);
            free(got);
            free(again);
            ++ran;
        }
        case_free(&one);
    }
    assert_true(ran > 0);
    uf_context_destroy(context);
}

/* ---- gradients ---- */

/* The gradients that one pass over a case's graph leaves, from a random upstream. */
typedef struct gradients {
    double *input, *parameters[CASE_PARAMETERS]; /* NULL: a buffer */
} gradients;

static double *downloaded(const uf_tensor *tensor) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
    return values;
}

static gradients differentiate(uf_context *context, const layer_case *one, uf_dtype dtype,
                               int64_t number) {
    gradients made;
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    uf_store_options store_options = uf_store_options_default();
    test_random random = test_random_for("upstream", number);
    memset(&made, 0, sizeof made);
    store_options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    assert_ok(uf_store_create_with(context, "case", &store_options, &store));
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", uf_shape_from(one->input.extent, one->input.rank));
    const uf_value y = one->family->graph(graph, x, uf_at(store, "layer"), one);
    uf_output(graph, "y", y);
    uf_pass pass = uf_pass_default();
    pass.losses = &y;
    pass.loss_count = 1;
    pass.external_seeds = true;
    pass.inputs = &x;
    pass.input_count = 1;
    pass.stores = &store;
    pass.store_count = one->parameter_count > 0 ? 1 : 0;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(graph, &options, &program));
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        char name[64];
        (void)snprintf(name, sizeof name, "layer.%s", one->parameters[i].name);
        store_put(store, name, one->parameters[i].values, one->parameters[i].count);
    }
    uf_tensor *seed = uf_program_seed(program, 0, 0);
    assert_non_null(seed);
    double *upstream = test_allocate((size_t)uf_tensor_count(seed) * sizeof *upstream);
    for (int64_t i = 0; i < uf_tensor_count(seed); ++i) {
        upstream[i] = to_bf16(test_random_real(&random, -1.0, 1.0));
    }
    assert_ok(uf_tensor_upload_as(seed, UF_F64, upstream, uf_tensor_count(seed)));
    free(upstream);
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, one->input.values,
                                  one->input.count));
    assert_ok(uf_program_run(program));
    uf_tensor *grad_input = uf_program_gradient(program, 0, x);
    assert_non_null(grad_input);
    assert_int_equal(uf_tensor_dtype(grad_input), dtype);
    made.input = downloaded(grad_input);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        char name[64];
        uf_tensor *gradient;
        (void)snprintf(name, sizeof name, "layer.%s", one->parameters[i].name);
        if (uf_store_gradient(store, name, &gradient) == UF_OK) {
            assert_int_equal(uf_tensor_dtype(gradient), store_options.dtype);
            made.parameters[i] = downloaded(gradient);
        }
    }
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    return made;
}

static void free_gradients(gradients *made) {
    free(made->input);
    for (int i = 0; i < CASE_PARAMETERS; ++i) {
        free(made->parameters[i]);
    }
}

/* These layers round each gradient once: activations behind a layer would add their rounding, and
 * the cases of concat read a value three times. */
static void test_backward(void **state) {
    static const char *const families[] = {
        "add",   "conv2d", "conv_transpose2d", "linear",   "loss",
        "pad2d", "prelu",  "reshape",          "upsample", "pool2d"};
    const layer_family *family = *state;
    bool known = false;
    for (int64_t i = 0; i < COUNT_OF(families); ++i) {
        known = known || strcmp(families[i], family->name) == 0;
    }
    if (!known) {
        skip();
    }
    uf_context *context = test_context(2);
    for (int64_t number = 0; number < case_count(family); ++number) {
        layer_case one;
        if (make_case(family, number, true, &one)) {
            gradients exact = differentiate(context, &one, UF_F64, number);
            gradients got = differentiate(context, &one, UF_BF16, number);
            char label[512];
            (void)snprintf(label, sizeof label, "%s [bf16, gradient of the input]", one.label);
            /* At most as many products as the layer's elements have in either direction. */
            one.reduction = one.reduction > one.input.count ? one.reduction : one.input.count;
            one.reduction = one.reduction > one.output.count ? one.reduction : one.output.count;
            one.size = 0.0;
            check_values(label, &one, got.input, exact.input, one.input.count, false);
            for (int32_t i = 0; i < one.parameter_count; ++i) {
                const double half_place = test_on_gpu() ? 0x1p-8 : 0.0; /* ops.h: grad_weight */
                (void)snprintf(label, sizeof label, "%s [bf16, gradient of %s]", one.label,
                               one.parameters[i].name);
                if (exact.parameters[i] != NULL) {
                    assert_close(label,
                                 compare_values(got.parameters[i], exact.parameters[i],
                                                one.parameters[i].count, 0.0),
                                 half_place + case_tolerance(&one, UF_F32));
                }
            }
            free_gradients(&exact);
            free_gradients(&got);
        }
        case_free(&one);
    }
    uf_context_destroy(context);
}

/* ---- programs ---- */

/* A convolution with a bias, and behind it what `rest` says; with a store of random numbers that
 * bf16 has. */
typedef struct network {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x, convolved, y;
} network;

enum { N = 2, C = 3, K = 5, H = 9, W = 8 };

static network network_open(int32_t threads, uf_dtype store_dtype) {
    network one = {.context = test_context(threads)};
    uf_store_options options = uf_store_options_default();
    uf_conv2d_options conv = uf_conv2d_options_default();
    options.dtype = store_dtype;
    conv.padding[0] = conv.padding[1] = 1;
    assert_ok(uf_store_create_with(one.context, "network", &options, &one.store));
    assert_ok(uf_graph_create(one.context, &one.graph));
    one.x = uf_input(one.graph, "x", UF_SHAPE(N, C, H, W));
    one.convolved = uf_conv2d(one.graph, one.x, uf_at(one.store, "conv"), K, &conv);
    one.y = one.convolved;
    return one;
}

static void network_fill(network *one) {
    test_random random = test_random_for("bf16 network", 0);
    for (int64_t i = 0; i < uf_store_size(one->store); ++i) {
        uf_store_entry entry;
        assert_ok(uf_store_entry_at(one->store, i, &entry));
        if (entry.role != UF_ROLE_COUNTER) {
            const int64_t count = uf_shape_count(&entry.shape);
            const double low = strstr(entry.name, "running_var") != NULL ? 0.25 : -1.0;
            double *values = test_allocate((size_t)count * sizeof *values);
            for (int64_t k = 0; k < count; ++k) {
                values[k] = to_bf16(test_random_real(&random, low, 1.0));
            }
            store_put(one->store, entry.name, values, count);
            free(values);
        }
    }
}

static void network_close(network *one) {
    uf_graph_destroy(one->graph);
    uf_store_destroy(one->store);
    uf_context_destroy(one->context);
}

static void upload_x(uf_program *program, double *values) {
    test_random random = test_random_for("bf16 input", 0);
    for (int64_t i = 0; i < N * C * H * W; ++i) {
        values[i] = to_bf16(test_random_real(&random, -1.0, 1.0));
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, values, N * C * H * W));
}

static double parameter(uf_store *store, const char *name, int64_t i) {
    double values[K];
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, K));
    return values[i];
}

/* A folded batch norm is a scale and a shift of bf16: with s the convolution without bias, a the
 * scale and b the shift, the result is within (|a*s| + |b| + |result|) half places of exact. */
static void test_folded(void **state) {
    enum { COUNT = N * K * H * W };
    const double half_place = 0x1p-8, f32 = 0x1p-16;
    double x[N * C * H * W], convolved[COUNT], exact[COUNT], got[COUNT];
    (void)state;
    for (int narrow = 0; narrow < 2; ++narrow) {
        network one = network_open(2, narrow == 1 ? UF_F32 : UF_F64);
        uf_program *program;
        one.y = uf_relu(one.graph,
                        uf_batch_norm2d(one.graph, one.convolved, uf_at(one.store, "norm"), NULL));
        uf_output(one.graph, "y", one.y);
        if (narrow == 0) {
            uf_output(one.graph, "convolved", one.convolved);
        }
        uf_program_options options = uf_program_options_default();
        options.dtype = narrow == 1 ? UF_BF16 : UF_F64;
        assert_ok(uf_program_compile(one.graph, &options, &program));
        network_fill(&one);
        upload_x(program, x);
        assert_ok(uf_program_run(program));
        assert_ok(uf_tensor_download_as(uf_program_output(program, "y"), UF_F64,
                                        narrow == 1 ? got : exact, COUNT));
        if (narrow == 0) {
            assert_ok(uf_tensor_download_as(uf_program_output(program, "convolved"), UF_F64,
                                            convolved, COUNT));
        }
        for (int64_t i = 0; narrow == 1 && i < COUNT; ++i) {
            const int64_t c = i / (H * W) % K;
            const double scale = parameter(one.store, "norm.weight", c) /
                                 sqrt(parameter(one.store, "norm.running_var", c) + 1e-5);
            const double bias = parameter(one.store, "conv.bias", c);
            const double mean = parameter(one.store, "norm.running_mean", c);
            const double shift = parameter(one.store, "norm.bias", c) + (bias - mean) * scale;
            const double product = scale * (convolved[i] - bias);
            const double allowed =
                (half_place + f32) * (fabs(product) + fabs(shift) + fabs(exact[i])) + f32;
            if (!(fabs(got[i] - exact[i]) <= allowed)) {
                fail_msg("element %lld is %.9g, exact %.9g, allowed %.3g", (long long)i, got[i],
                         exact[i], allowed);
            }
        }
        uf_program_destroy(program);
        network_close(&one);
    }
}

/* A program keeps its copies of weights while no store changes and makes them again when one has.
 */
static void test_kept_copies(void **state) {
    enum { COUNT = N * K * H * W };
    double x[N * C * H * W], before[COUNT], after[COUNT];
    network one = network_open(1, UF_F32);
    uf_program *program;
    (void)state;
    uf_output(one.graph, "y", one.y);
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_BF16;
    assert_ok(uf_program_compile(one.graph, &options, &program));
    network_fill(&one);
    upload_x(program, x);
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "y"), UF_F64, before, COUNT));
    double weight[K * C * 9], bias[K];
    uf_tensor *tensors[2];
    assert_ok(uf_store_tensor(one.store, "conv.weight", &tensors[0]));
    assert_ok(uf_store_tensor(one.store, "conv.bias", &tensors[1]));
    assert_ok(uf_tensor_download_as(tensors[0], UF_F64, weight, COUNT_OF(weight)));
    assert_ok(uf_tensor_download_as(tensors[1], UF_F64, bias, K));
    for (int64_t i = 0; i < COUNT_OF(weight); ++i) {
        weight[i] *= 2.0;
    }
    for (int64_t i = 0; i < K; ++i) {
        bias[i] *= 2.0;
    }
    store_put(one.store, "conv.weight", weight, COUNT_OF(weight)); /* and says so */
    store_put(one.store, "conv.bias", bias, K);
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "y"), UF_F64, after, COUNT));
    for (int64_t i = 0; i < COUNT; ++i) {
        assert_true(after[i] == 2.0 * before[i]);
    }
    uf_program_destroy(program);
    network_close(&one);
}

/* The same layer before and after an optimizer's step of its weights, in one run and in the next.
 */
static void test_copies_after_a_step(void **state) {
    enum { RUNS = 3 };
    double losses[2][RUNS][2];
    (void)state;
    for (int narrow = 0; narrow < 2; ++narrow) {
        network one = network_open(2, narrow == 1 ? UF_F32 : UF_F64);
        uf_program *program;
        uf_optimizer *sgd;
        uf_conv2d_options conv = uf_conv2d_options_default();
        uf_sgd_options rule = uf_sgd_options_default();
        conv.padding[0] = conv.padding[1] = 1;
        rule.lr = 0.5;
        const uf_value again = uf_conv2d(one.graph, one.x, uf_at(one.store, "conv"), K, &conv);
        const uf_value first_loss =
            uf_mse_loss(one.graph, one.convolved, uf_full_like(one.graph, one.convolved, 0.25));
        const uf_value second_loss =
            uf_mse_loss(one.graph, again, uf_full_like(one.graph, again, 0.25));
        network_fill(&one);
        assert_ok(uf_optimizer_create_sgd(one.store, &rule, &sgd));
        uf_pass passes[2] = {uf_pass_default(), uf_pass_default()};
        passes[0].losses = &first_loss;
        passes[1].losses = &second_loss;
        for (int p = 0; p < 2; ++p) {
            passes[p].loss_count = passes[p].store_count = 1;
            passes[p].stores = &one.store;
        }
        passes[0].optimizers = &sgd;
        passes[0].optimizer_count = 1;
        uf_program_options options = uf_program_options_default();
        options.dtype = narrow == 1 ? UF_BF16 : UF_F64;
        options.passes = passes;
        options.pass_count = 2;
        assert_ok(uf_program_compile(one.graph, &options, &program));
        double x[N * C * H * W];
        upload_x(program, x);
        for (int run = 0; run < RUNS; ++run) {
            int64_t step;
            bool finite;
            assert_ok(uf_program_run(program));
            assert_ok(uf_context_synchronize(one.context));
            assert_ok(uf_program_losses(program, losses[narrow][run], 2, &step, &finite));
            assert_true(step == run + 1 && finite);
        }
        uf_program_destroy(program);
        uf_optimizer_destroy(sgd);
        network_close(&one);
    }
    for (int run = 0; run < RUNS; ++run) {
        for (int p = 0; p < 2; ++p) {
            const double exact = losses[0][run][p], got = losses[1][run][p];
            print_message("run %d, pass %d: loss %.6g, exact %.6g\n", run, p, got, exact);
            assert_true(fabs(got - exact) <= 0.02 * exact);
        }
        /* A step changes the loss by more than that: a stale copy would show. */
        assert_true(losses[0][run][1] < 0.9 * losses[0][run][0]);
    }
}

/* Inputs, outputs and everything between them take half of f32's memory. */
static void test_memory(void **state) {
    size_t arena[2];
    (void)state;
    for (int narrow = 0; narrow < 2; ++narrow) {
        uf_context *context = test_context(1);
        uf_store *store;
        uf_graph *graph;
        uf_program *program;
        assert_ok(uf_store_create(context, "deep", &store));
        assert_ok(uf_graph_create(context, &graph));
        uf_value x = uf_input(graph, "x", UF_SHAPE(4, 8, 64, 64));
        uf_conv2d_options conv = uf_conv2d_options_default();
        conv.padding[0] = conv.padding[1] = 1;
        for (int i = 0; i < 4; ++i) {
            char name[16];
            (void)snprintf(name, sizeof name, "%d", i);
            x = uf_relu(graph, uf_conv2d(graph, x, uf_at(store, name), 8, &conv));
        }
        const uf_value loss = uf_mse_loss(graph, x, uf_full_like(graph, x, 0.5));
        uf_pass pass = uf_pass_default();
        pass.losses = &loss;
        pass.loss_count = 1;
        pass.stores = &store;
        pass.store_count = 1;
        uf_program_options options = uf_program_options_default();
        options.dtype = narrow == 1 ? UF_BF16 : UF_F32;
        options.passes = &pass;
        options.pass_count = 1;
        assert_ok(uf_store_seal(store));
        assert_ok(uf_program_compile(graph, &options, &program));
        arena[narrow] = program->arena_size;
        uf_program_destroy(program);
        uf_graph_destroy(graph);
        uf_store_destroy(store);
        uf_context_destroy(context);
    }
    const size_t copies = 4 * uf_align_up(8 * 8 * 9 * 2) + 4 * uf_align_up(8 * 2);
    const size_t scalars = 8 * UF_ALIGNMENT;
    print_message("f32 %zu bytes, bf16 %zu, copies of weights %zu\n", arena[0], arena[1], copies);
    assert_true(arena[1] <= arena[0] / 2 + copies + scalars);
}

/* NaN and infinities pass through a program. */
static void test_special_values(void **state) {
    static const double x[4] = {(double)NAN, INFINITY, -INFINITY, 3.3e38};
    double y[4];
    uf_context *context = test_context(1);
    uf_graph *graph;
    uf_program *program;
    (void)state;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value in = uf_input(graph, "x", UF_SHAPE(1, 1, 1, 4));
    uf_output(graph, "y", uf_leaky_relu(graph, uf_add(graph, in, in), 0.5));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_BF16;
    assert_ok(uf_program_compile(graph, &options, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, x, 4));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "y"), UF_F64, y, 4));
    assert_true(isnan(y[0]) && y[1] == (double)INFINITY && y[2] == -(double)INFINITY &&
                y[3] == (double)INFINITY);
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_context_destroy(context);
}

/* A bf16 program refuses parameters that are not f32, and layers that join losses with bf16. What
 * is computed from losses alone is f32. */
static void test_errors(void **state) {
    (void)state;
    uf_program *program;
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_BF16;
    network one = network_open(1, UF_F64);
    uf_output(one.graph, "y", one.y);
    assert_error(uf_program_compile(one.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "network", "holds f64", "bf16", "f32");
    network_close(&one);
    one = network_open(1, UF_F32);
    const uf_value loss = uf_mse_loss(one.graph, one.y, uf_full_like(one.graph, one.y, 0.0));
    const uf_value both = uf_add(one.graph, loss, uf_full_like(one.graph, loss, 1.0));
    uf_output(one.graph, "loss", both);
    assert_ok(uf_program_compile(one.graph, &options, &program));
    assert_int_equal(uf_tensor_dtype(uf_program_output(program, "loss")), UF_F32);
    uf_program_destroy(program);
    const uf_value scalar = uf_input(one.graph, "scalar", UF_SCALAR);
    uf_output(one.graph, "joined", uf_add(one.graph, both, scalar));
    assert_error(uf_program_compile(one.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "add", "f32", "bf16");
    network_close(&one);
}

int main(int argc, char **argv) {
    const struct CMUnitTest programs[] = {cmocka_unit_test(test_folded),
                                          cmocka_unit_test(test_kept_copies),
                                          cmocka_unit_test(test_copies_after_a_step),
                                          cmocka_unit_test(test_memory),
                                          cmocka_unit_test(test_special_values),
                                          cmocka_unit_test(test_errors)};
    const char *mode = argc == 2 ? argv[1] : "";
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    if (strcmp(mode, "layers") == 0) {
        const int failed = test_run_families("bf16 forward", test_forward);
        return failed != 0 ? failed : test_run_families("bf16 backward", test_backward);
    }
    if (strcmp(mode, "programs") == 0) {
        return cmocka_run_group_tests(programs, NULL, NULL);
    }
    fprintf(stderr, "usage: test_bf16_program layers|programs\n");
    return 2;
}
