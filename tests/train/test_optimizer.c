/* test_optimizer.c - Adam, RMSprop and SGD against PyTorch's trajectories, and what the API
 * promises. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <unfurl/optimizer.h>

#include "support/compare.h"
#include "support/h5.h"
#include "support/random.h"
#include "optim/optimizer.h"

typedef struct optimizer_case {
    const char *name;
    bool adam, decoupled, rmsprop, weight_decay, momentum, nesterov;
} optimizer_case;

static const optimizer_case cases[] = {
    {.name = "adam", .adam = true},
    {.name = "adam_wd", .adam = true, .weight_decay = true},
    {.name = "adamw", .adam = true, .weight_decay = true, .decoupled = true},
    {.name = "rmsprop", .rmsprop = true},
    {.name = "sgd"},
    {.name = "sgd_momentum_wd", .weight_decay = true, .momentum = true},
    {.name = "sgd_nesterov", .momentum = true, .nesterov = true},
};

static uf_store *make_store(uf_context *context, uf_dtype dtype, uf_shape shape) {
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    uf_store *store;
    assert_ok(uf_store_create_with(context, "store", &options, &store));
    assert_ok(uf_store_declare(store, "first", UF_SHAPE(3), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "p", shape, UF_ROLE_PARAMETER));
    return store;
}

static void upload(uf_store *store, bool gradient, const char *name, const double *values,
                   int64_t count) {
    uf_tensor *tensor;
    if (gradient) {
        assert_ok(uf_store_gradient(store, name, &tensor));
    } else {
        assert_ok(uf_store_tensor(store, name, &tensor));
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
}

static void download(uf_store *store, const char *name, double *values, int64_t count) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
}

static uf_optimizer *optimizer_of(h5_file file, const char *group, const optimizer_case *one,
                                  uf_store *store) {
    uf_optimizer *optimizer;
    const double weight_decay =
        one->weight_decay ? h5_attribute_real(file, group, "weight_decay") : 0.0;
    if (one->adam) {
        uf_adam_options options = uf_adam_options_default();
        options.lr = h5_attribute_real(file, group, "lr");
        options.beta1 = h5_attribute_real(file, group, "beta1");
        options.beta2 = h5_attribute_real(file, group, "beta2");
        options.eps = h5_attribute_real(file, group, "eps");
        options.weight_decay = weight_decay;
        options.decoupled = one->decoupled;
        assert_ok(uf_optimizer_create_adam(store, &options, &optimizer));
    } else if (one->rmsprop) {
        uf_rmsprop_options options = uf_rmsprop_options_default();
        options.lr = h5_attribute_real(file, group, "lr");
        options.alpha = h5_attribute_real(file, group, "alpha");
        options.eps = h5_attribute_real(file, group, "eps");
        assert_ok(uf_optimizer_create_rmsprop(store, &options, &optimizer));
    } else {
        uf_sgd_options options = uf_sgd_options_default();
        options.lr = h5_attribute_real(file, group, "lr");
        options.momentum = one->momentum ? h5_attribute_real(file, group, "momentum") : 0.0;
        options.weight_decay = weight_decay;
        options.nesterov = one->nesterov;
        assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
    }
    return optimizer;
}

static void check_case(uf_context *context, h5_file file, const optimizer_case *one,
                       uf_dtype dtype) {
    char group[64];
    (void)snprintf(group, sizeof group, "optimizer/%s", one->name);
    h5_array before = h5_read(file, group, "param_before");
    h5_array grads = h5_read(file, group, "grads");
    h5_array after = h5_read(file, group, "params_after");
    uf_store *store = make_store(context, dtype, uf_shape_from(before.extent, before.rank));
    upload(store, false, "p", before.values, before.count);
    uf_optimizer *optimizer = optimizer_of(file, group, one, store);
    double *got = test_allocate((size_t)before.count * sizeof *got);
    assert_int_equal(grads.extent[0], 5);
    for (int64_t step = 0; step < grads.extent[0]; ++step) {
        const uint64_t version = uf_store_version(store);
        upload(store, true, "p", grads.values + step * before.count, before.count);
        assert_ok(uf_optimizer_step(optimizer));
        assert_true(uf_store_version(store) > version);
        download(store, "p", got, before.count);
        assert_close(one->name,
                     compare_values(got, after.values + step * before.count, before.count, 0.0),
                     dtype == UF_F64 ? 1e-12 : 2e-5);
    }
    free(got);
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
    h5_free(&before);
    h5_free(&grads);
    h5_free(&after);
}

static void test_pytorch(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    h5_file file = h5_open(test_data_path("ops_open.h5"));
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        check_case(context, file, &cases[i], UF_F64);
        check_case(context, file, &cases[i], UF_F32);
    }
    h5_close(file);
    uf_context_destroy(context);
}

/* Twenty steps over a store of more than one unit of work, bit for bit for 1, 2 and 3 threads. */
static void test_threads(void **state) {
    (void)state;
    enum { COUNT = 40007, STEPS = 20 };
    double *values = test_allocate(COUNT * sizeof *values);
    double *results[3];
    for (int kind = 0; kind < 3; ++kind) {
        for (int32_t threads = 1; threads <= 3; ++threads) {
            uf_context *context = test_context(threads);
            uf_store *store = make_store(context, UF_F32, UF_SHAPE(COUNT));
            uf_optimizer *optimizer;
            if (kind == 0) {
                assert_ok(uf_optimizer_create_adam(store, NULL, &optimizer));
            } else if (kind == 1) {
                uf_rmsprop_options options = uf_rmsprop_options_default();
                options.momentum = 0.5;
                assert_ok(uf_optimizer_create_rmsprop(store, &options, &optimizer));
            } else {
                uf_sgd_options options = uf_sgd_options_default();
                options.momentum = 0.9;
                assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
            }
            for (int64_t step = 0; step < STEPS; ++step) {
                test_random random = test_random_for("optimizer", step);
                test_random_fill(&random, values, COUNT, 1.0);
                upload(store, true, "p", values, COUNT);
                assert_ok(uf_optimizer_step(optimizer));
            }
            results[threads - 1] = test_allocate(COUNT * sizeof **results);
            download(store, "p", results[threads - 1], COUNT);
            uf_optimizer_destroy(optimizer);
            uf_store_destroy(store);
            uf_context_destroy(context);
        }
        assert_true(isfinite(results[0][COUNT - 1]) && results[0][COUNT - 1] != 0.0);
        assert_same_bits("2 threads", results[1], results[0], COUNT * 8);
        assert_same_bits("3 threads", results[2], results[0], COUNT * 8);
        for (int i = 0; i < 3; ++i) {
            free(results[i]);
        }
    }
    free(values);
}

/* Only the spans that are named move; the step counts once however many there are. */
static void test_spans(void **state) {
    (void)state;
    static const double ones[3] = {1.0, 1.0, 1.0};
    double got[3];
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64, UF_SHAPE(3));
    uf_adam_options options = uf_adam_options_default();
    options.lr = 0.5;
    options.weight_decay = 0.25;
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_adam(store, &options, &optimizer));
    upload(store, false, "first", ones, 3);
    upload(store, false, "p", ones, 3);
    upload(store, true, "first", ones, 3);
    upload(store, true, "p", ones, 3);
    const int64_t offset =
        (int64_t)(store->slots[uf_store_find(store, "p")].offset / sizeof(double));
    const uf_span spans[] = {{offset, 1}, {offset + 2, 1}};
    assert_ok(uf_optimizer_run(optimizer, spans, 2, NULL));
    download(store, "first", got, 3);
    assert_same_bits("first", got, ones, sizeof got);
    download(store, "p", got, 3);
    assert_true(got[1] == 1.0);
    /* At step 1 Adam moves by lr * g / (|g| + eps). */
    assert_true(fabs(got[0] - 0.5) < 1e-7 && got[0] == got[2]);
    uf_optimizer_control control;
    assert_ok(context->device->download(context, &control, optimizer->control, sizeof control));
    assert_true(control.step == 1 && control.power1 == 0.9 && control.power2 == 0.999);
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void test_learning_rate(void **state) {
    (void)state;
    static const double g[3] = {1.0, -2.0, (double)NAN};
    double got[3];
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64, UF_SHAPE(3));
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(store, NULL, &optimizer));
    assert_true(uf_optimizer_learning_rate(optimizer) == 1e-3);
    upload(store, true, "p", g, 3);
    assert_ok(uf_optimizer_set_learning_rate(optimizer, 0.5));
    assert_true(uf_optimizer_learning_rate(optimizer) == 0.5);
    assert_ok(uf_optimizer_step(optimizer));
    download(store, "p", got, 3);
    assert_true(got[0] == -0.5 && got[1] == 1.0 && isnan(got[2]));
    assert_error(uf_optimizer_set_learning_rate(optimizer, -1.0), UF_ERROR_INVALID_ARGUMENT, "lr",
                 "-1");
    assert_error(uf_optimizer_set_learning_rate(optimizer, (double)NAN), UF_ERROR_INVALID_ARGUMENT,
                 "lr");
    assert_true(uf_optimizer_learning_rate(optimizer) == 0.5);
    uf_optimizer_destroy(optimizer);
    uf_optimizer_destroy(NULL);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* The first step takes the gradient whole, the second is dampened: b = 1, then 0.5*1 + 0.75*1. */
static void test_dampening(void **state) {
    (void)state;
    static const double g[3] = {1.0, 1.0, 1.0};
    double got[3];
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64, UF_SHAPE(3));
    uf_sgd_options options = uf_sgd_options_default();
    options.lr = 1.0;
    options.momentum = 0.5;
    options.dampening = 0.25;
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
    upload(store, true, "p", g, 3);
    assert_ok(uf_optimizer_step(optimizer));
    download(store, "p", got, 3);
    assert_true(got[0] == -1.0);
    assert_ok(uf_optimizer_step(optimizer));
    download(store, "p", got, 3);
    assert_true(got[0] == -2.25);
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* Ten steps with all that the options have against a loop in double; f32 too. */
static void test_rmsprop(void **state) {
    (void)state;
    enum { COUNT = 37, STEPS = 10 };
    uf_context *context = test_context(2);
    for (int c = 0; c < 4; ++c) {
        const uf_dtype dtype = c % 2 == 0 ? UF_F64 : UF_F32;
        uf_store *store = make_store(context, dtype, UF_SHAPE(COUNT));
        uf_rmsprop_options options = uf_rmsprop_options_default();
        options.lr = 0.03;
        options.alpha = 0.9;
        options.eps = 1e-3;
        options.weight_decay = 0.125;
        options.momentum = c < 2 ? 0.75 : 0.0;
        uf_optimizer *optimizer;
        assert_ok(uf_optimizer_create_rmsprop(store, &options, &optimizer));
        double p[COUNT], g[COUNT], got[COUNT], v[COUNT] = {0}, b[COUNT] = {0};
        test_random random = test_random_for("rmsprop", c);
        test_random_fill(&random, p, COUNT, 1.0);
        upload(store, false, "p", p, COUNT);
        for (int step = 0; step < STEPS; ++step) {
            test_random_fill(&random, g, COUNT, 1.0);
            upload(store, true, "p", g, COUNT);
            assert_ok(uf_optimizer_step(optimizer));
            for (int i = 0; i < COUNT; ++i) {
                const double decayed = g[i] + 0.125 * p[i];
                v[i] = 0.9 * v[i] + (1.0 - 0.9) * decayed * decayed;
                b[i] = options.momentum * b[i] + decayed / (sqrt(v[i]) + 1e-3);
                p[i] -= 0.03 * b[i];
            }
        }
        download(store, "p", got, COUNT);
        assert_close("rmsprop", compare_values(got, p, COUNT, 0.0), dtype == UF_F64 ? 1e-12 : 2e-5);
        uf_optimizer_destroy(optimizer);
        uf_store_destroy(store);
    }
    uf_context_destroy(context);
}

/* ---- copies in bf16 ---- */

enum { COPIED = 16384 + 77, GUARD = 8 };

static void *device_memory(uf_context *context, const void *from, size_t size) {
    void *memory;
    assert_ok(uf_context_allocate(context, size, UF_MEMORY_DEVICE, &memory));
    assert_ok(context->device->upload(context, memory, from, size));
    return memory;
}

/* Numbers of all sizes, halfway between two of bf16, and those that are not finite. */
static void fill_numbers(float *values, int64_t count) {
    static const float special[] = {1.00390625f, 1.01171875f, -1.00390625f,    3.3961775e38f,
                                    -3.4e38f,    1e-40f,      -9.1835e-41f,    0.0f,
                                    -0.0f,       (float)NAN,  (float)INFINITY, -(float)INFINITY};
    test_random random = test_random_for("copied", 0);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = i % 3 == 0 ? special[i / 3 % COUNT_OF(special)]
                               : (float)ldexp(test_random_real(&random, -1.0, 1.0),
                                              (int)test_random_integer(&random, -60, 60));
    }
}

/* Two steps on `count` elements from number `skipped` of a span on, with a copy or without; the
 * parameters as they are then, and what the copy's memory then has. */
static void step_with(uf_context *context, const uf_optimizer_rule *rule, double lr, bool groups,
                      int64_t skipped, bool with_copy, float *parameters, uint16_t *copy) {
    static float numbers[COPIED], gradients[COPIED], zeros[COPIED];
    uint8_t group_of[COPIED * sizeof(float) / UF_ALIGNMENT + 1];
    const uf_optimizer_control control = {
        .lr = lr, .power1 = 1.0, .power2 = 1.0, .groups = {{1.0, 0.0}, {0.0, 0.0}, {2.0, 0.25}}};
    for (int64_t i = 0; i < COUNT_OF(group_of); ++i) {
        group_of[i] = (uint8_t)(i % 3);
    }
    fill_numbers(numbers, COPIED);
    test_random random = test_random_for("copied", 1);
    for (int64_t i = 0; i < COPIED; ++i) {
        gradients[i] = (float)test_random_real(&random, -1.0, 1.0);
    }
    for (int64_t i = 0; i < COPIED + 2 * GUARD; ++i) {
        copy[i] = 0x5aa5;
    }
    void *memory[] = {device_memory(context, &control, sizeof control),
                      device_memory(context, numbers, sizeof numbers),
                      device_memory(context, gradients, sizeof gradients),
                      device_memory(context, zeros, sizeof zeros),
                      device_memory(context, zeros, sizeof zeros),
                      device_memory(context, group_of, sizeof group_of),
                      device_memory(context, copy, (COPIED + 2 * GUARD) * sizeof *copy)};
    const size_t sizes[] = {sizeof control,
                            sizeof numbers,
                            sizeof gradients,
                            sizeof zeros,
                            sizeof zeros,
                            sizeof group_of,
                            (COPIED + 2 * GUARD) * sizeof *copy};
    const uf_optimizer_kernel_args args = {
        .rule = *rule,
        .control = memory[0],
        .group_of = groups ? memory[5] : NULL,
        .dtype = UF_F32,
        .first = skipped,
        .count = COPIED - skipped,
        .parameter = (float *)memory[1] + skipped,
        .gradient = (const float *)memory[2] + skipped,
        .state1 = uf_optimizer_has_state1(rule) ? (float *)memory[3] + skipped : NULL,
        .state2 = uf_optimizer_has_state2(rule) ? (float *)memory[4] + skipped : NULL,
        .copy = with_copy ? (uint16_t *)memory[6] + GUARD + skipped : NULL};
    assert_ok(uf_optimizer_check(&args));
    for (int step = 0; step < 2; ++step) {
        assert_ok(context->kernels->optimizer_advance(context, &args));
        assert_ok(context->kernels->optimizer_step(context, &args));
    }
    assert_ok(context->device->download(context, parameters, memory[1], sizes[1]));
    assert_ok(context->device->download(context, copy, memory[6], sizes[6]));
    for (int64_t i = 0; i < COUNT_OF(memory); ++i) {
        uf_context_release(context, memory[i], sizes[i], UF_MEMORY_DEVICE);
    }
}

/* The bits that the copy kernel gives these numbers. */
static void round_on_device(uf_context *context, const float *from, uint16_t *to) {
    const uf_shape shape = UF_SHAPE(COPIED);
    void *source = device_memory(context, from, COPIED * sizeof *from);
    void *target = device_memory(context, from, COPIED * sizeof *to);
    const uf_copy_kernel_args args = {.input = uf_view_of(source, UF_F32, &shape),
                                      .output = uf_view_of(target, UF_BF16, &shape),
                                      .mode = UF_OVERWRITE};
    assert_ok(context->kernels->copy(context, &args));
    assert_ok(context->device->download(context, to, target, COPIED * sizeof *to));
    uf_context_release(context, source, COPIED * sizeof *from, UF_MEMORY_DEVICE);
    uf_context_release(context, target, COPIED * sizeof *to, UF_MEMORY_DEVICE);
}

/* A copy has the bits of the copy kernel, nothing around it is written, and the parameters are what
 * they are without it: every rule, groups of which one is frozen, addresses that no vector begins
 * at, several threads, and a last vector that is cut. */
static void test_bf16_copies(void **state) {
    (void)state;
    static const uf_optimizer_rule rules[] = {
        {.kind = UF_OPTIMIZER_SGD},
        {.kind = UF_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true},
        {.kind = UF_OPTIMIZER_ADAM, .beta1 = 0.5, .beta2 = 0.999, .eps = 1e-8},
        {.kind = UF_OPTIMIZER_ADAM, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-8, .decoupled = true},
        {.kind = UF_OPTIMIZER_RMSPROP, .beta2 = 0.99, .eps = 1e-8},
        {.kind = UF_OPTIMIZER_RMSPROP, .beta2 = 0.99, .eps = 1e-8, .momentum = 0.9},
        {.kind = UF_OPTIMIZER_AVERAGE}};
    static float plain[COPIED], parameters[COPIED];
    static uint16_t untouched[COPIED + 2 * GUARD], copy[COPIED + 2 * GUARD], expected[COPIED];
    uf_context *context = test_context(2);
    for (int64_t r = 0; r < 4 * COUNT_OF(rules); ++r) {
        const uf_optimizer_rule *rule = &rules[r / 4];
        const bool groups = r % 2 == 1;
        const int64_t skipped = r / 2 % 2;
        const double lr = r % 3 == 0 ? 0.0 : 0.01;
        step_with(context, rule, lr, groups, skipped, false, plain, untouched);
        step_with(context, rule, lr, groups, skipped, true, parameters, copy);
        assert_memory_equal(parameters, plain, sizeof plain);
        round_on_device(context, parameters, expected);
        assert_same_bits("copy", copy + GUARD + skipped, expected + skipped,
                         (COPIED - skipped) * (int64_t)sizeof *copy);
        for (int64_t i = 0; i < GUARD + skipped; ++i) {
            assert_int_equal(copy[i], 0x5aa5);
        }
        for (int64_t i = 0; i < GUARD; ++i) {
            assert_int_equal(copy[GUARD + COPIED + i], 0x5aa5);
        }
        for (int64_t i = 0; i < COUNT_OF(untouched); ++i) {
            assert_int_equal(untouched[i], 0x5aa5);
        }
    }
    uf_context_destroy(context);
}

static void test_copy_of_f64(void **state) {
    (void)state;
    uf_optimizer_control control;
    double number = 1.0;
    uint16_t copy = 0;
    const uf_optimizer_kernel_args args = {.control = &control,
                                           .dtype = UF_F64,
                                           .count = 1,
                                           .parameter = &number,
                                           .gradient = &number,
                                           .copy = &copy};
    assert_error(uf_optimizer_check(&args), UF_ERROR_INVALID_ARGUMENT, "f64", "bf16");
}

static void test_refusals(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F32, UF_SHAPE(3));
    uf_optimizer *optimizer;
    uf_adam_options adam = uf_adam_options_default();
    adam.beta2 = 1.0;
    assert_error(uf_optimizer_create_adam(store, &adam, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "beta2", "[0, 1)");
    assert_null(optimizer);
    adam = uf_adam_options_default();
    adam.eps = 1e-60; /* 0 in f32 */
    assert_error(uf_optimizer_create_adam(store, &adam, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "eps");
    adam = uf_adam_options_default();
    adam.lr = (double)INFINITY;
    assert_error(uf_optimizer_create_adam(store, &adam, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "lr");
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.nesterov = true;
    assert_error(uf_optimizer_create_sgd(store, &sgd, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "nesterov", "momentum");
    sgd = uf_sgd_options_default();
    sgd.weight_decay = -0.5;
    assert_error(uf_optimizer_create_sgd(store, &sgd, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "weight_decay", "-0.5");
    uf_rmsprop_options rmsprop = uf_rmsprop_options_default();
    rmsprop.alpha = -0.5;
    assert_error(uf_optimizer_create_rmsprop(store, &rmsprop, &optimizer),
                 UF_ERROR_INVALID_ARGUMENT, "alpha", "-0.5");
    assert_null(optimizer);
    rmsprop = uf_rmsprop_options_default();
    rmsprop.eps = 0.0;
    assert_error(uf_optimizer_create_rmsprop(store, &rmsprop, &optimizer),
                 UF_ERROR_INVALID_ARGUMENT, "eps");
    assert_error(uf_optimizer_create_sgd(NULL, NULL, &optimizer), UF_ERROR_INVALID_ARGUMENT,
                 "store");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_spans),       cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_dampening),   cmocka_unit_test(test_rmsprop),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_bf16_copies),
        cmocka_unit_test(test_copy_of_f64),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
