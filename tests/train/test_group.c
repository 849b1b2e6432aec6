/* test_group.c - groups of parameters with settings of their own, against loops in double. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/optimizer.h>

#include "optim/optimizer.h"
#include "support/compare.h"
#include "support/random.h"

enum { TENSORS = 5, MOST = 40000, STEPS = 6 };

/* Sizes below, at and above a share of 256 bytes; the last is more than one unit of work. */
static const struct {
    const char *name;
    int64_t count;
} tensors[TENSORS] = {
    {"conv.weight", 100}, {"conv.bias", 3}, {"norm.weight", 64}, {"norm.bias", 129}, {"head", MOST},
};

typedef struct settings {
    double lr_factor, weight_decay;
} settings;

typedef struct problem {
    double p[MOST], g[MOST], m[MOST], v[MOST];
} problem;

static uf_store *make_store(uf_context *context, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    uf_store *store;
    assert_ok(uf_store_create_with(context, "store", &options, &store));
    for (int i = 0; i < TENSORS; ++i) {
        assert_ok(uf_store_declare(store, tensors[i].name, UF_SHAPE(tensors[i].count),
                                   UF_ROLE_PARAMETER));
        assert_ok(uf_store_declare(store, i == 0 ? "conv.mean" : "norm.mean", UF_SHAPE(7),
                                   UF_ROLE_BUFFER));
    }
    return store;
}

static uf_optimizer *make_optimizer(uf_store *store, int kind) {
    uf_optimizer *optimizer;
    if (kind == 2) {
        uf_sgd_options options = uf_sgd_options_default();
        options.lr = 0.05;
        options.momentum = 0.5;
        options.weight_decay = 0.25;
        assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
        return optimizer;
    }
    uf_adam_options options = uf_adam_options_default();
    options.lr = 0.05;
    options.weight_decay = 0.25;
    options.decoupled = kind == 1;
    assert_ok(uf_optimizer_create_adam(store, &options, &optimizer));
    return optimizer;
}

/* Kinds: Adam, AdamW, SGD with momentum. */
static void step_in_double(problem *one, int64_t count, int kind, int step, settings with) {
    const double lr = 0.05 * with.lr_factor;
    for (int64_t i = 0; i < count; ++i) {
        const double decayed = one->g[i] + (kind == 1 ? 0.0 : with.weight_decay * one->p[i]);
        if (kind == 2) {
            one->m[i] = step == 1 ? decayed : 0.5 * one->m[i] + decayed;
            one->p[i] -= lr * one->m[i];
            continue;
        }
        one->p[i] -= kind == 1 ? lr * with.weight_decay * one->p[i] : 0.0;
        one->m[i] = 0.9 * one->m[i] + 0.1 * decayed;
        one->v[i] = 0.999 * one->v[i] + 0.001 * decayed * decayed;
        const double m = one->m[i] / (1.0 - pow(0.9, step));
        const double v = one->v[i] / (1.0 - pow(0.999, step));
        one->p[i] -= lr * m / (sqrt(v) + 1e-8);
    }
}

static void group(uf_optimizer *optimizer, uf_store *store, const char *path, double lr_factor,
                  double weight_decay) {
    uf_optimizer_group_options options = uf_optimizer_group_options_default();
    options.lr_factor = lr_factor;
    options.weight_decay = weight_decay;
    assert_ok(uf_optimizer_group(optimizer, uf_at(store, path), &options));
}

static void check(uf_context *context, int kind, uf_dtype dtype) {
    settings with[TENSORS] = {{1.0, 0.25}, {1.0, 0.0}, {0.5, 0.0}, {2.0, 0.125}, {0.1, 0.25}};
    uf_store *store = make_store(context, dtype);
    uf_optimizer *optimizer = make_optimizer(store, kind);
    group(optimizer, store, "norm", 0.5, 0.0);
    group(optimizer, store, "conv.bias", 1.0, 0.0);
    group(optimizer, store, "norm.bias", 2.0, 0.125); /* the last call that names it counts */
    group(optimizer, store, "head", 0.1, -1.0);
    problem *all = test_allocate(TENSORS * sizeof *all);
    double *got = test_allocate(MOST * sizeof *got);
    memset(all, 0, TENSORS * sizeof *all);
    test_random random = test_random_for("group", kind);
    uf_tensor *tensor;
    for (int i = 0; i < TENSORS; ++i) {
        test_random_fill(&random, all[i].p, tensors[i].count, 1.0);
        assert_ok(uf_store_tensor(store, tensors[i].name, &tensor));
        assert_ok(uf_tensor_upload_as(tensor, UF_F64, all[i].p, tensors[i].count));
    }
    for (int step = 1; step <= STEPS; ++step) {
        if (step == 4) { /* back to the optimizer's own */
            assert_ok(uf_optimizer_group(optimizer, uf_at(store, "norm"), NULL));
            with[2] = with[3] = (settings){1.0, 0.25};
        }
        for (int i = 0; i < TENSORS; ++i) {
            test_random_fill(&random, all[i].g, tensors[i].count, 1.0);
            assert_ok(uf_store_gradient(store, tensors[i].name, &tensor));
            assert_ok(uf_tensor_upload_as(tensor, UF_F64, all[i].g, tensors[i].count));
            step_in_double(&all[i], tensors[i].count, kind, step, with[i]);
        }
        assert_ok(uf_optimizer_step(optimizer));
        for (int i = 0; i < TENSORS; ++i) {
            assert_ok(uf_store_tensor(store, tensors[i].name, &tensor));
            assert_ok(uf_tensor_download_as(tensor, UF_F64, got, tensors[i].count));
            assert_close(tensors[i].name, compare_values(got, all[i].p, tensors[i].count, 0.0),
                         dtype == UF_F64 ? 1e-12 : 2e-5);
        }
    }
    free(got);
    free(all);
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
}

static void test_settings(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    for (int kind = 0; kind < 3; ++kind) {
        check(context, kind, UF_F64);
        check(context, kind, UF_F32);
    }
    uf_context_destroy(context);
}

/* Spans that begin inside a share: each element has the group of its own place. */
static void test_spans(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64);
    uf_sgd_options options = uf_sgd_options_default();
    options.lr = 1.0;
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
    group(optimizer, store, "norm.weight", 0.5, 0.0);
    group(optimizer, store, "norm.bias", 0.25, 0.0);
    double values[129];
    uf_tensor *tensor;
    for (int i = 2; i < 4; ++i) {
        for (int k = 0; k < 129; ++k) {
            values[k] = 1.0;
        }
        assert_ok(uf_store_gradient(store, tensors[i].name, &tensor));
        assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, tensors[i].count));
    }
    /* The two lie side by side: 64 elements fill two shares. */
    const int64_t offset =
        (int64_t)(store->slots[uf_store_find(store, "norm.weight")].offset / sizeof(double));
    const uf_span spans[] = {{offset + 3, 2}, {offset + 33, 34}};
    assert_ok(uf_optimizer_run(optimizer, spans, 2, NULL));
    for (int i = 2; i < 4; ++i) {
        assert_ok(uf_store_tensor(store, tensors[i].name, &tensor));
        assert_ok(uf_tensor_download_as(tensor, UF_F64, values, tensors[i].count));
        for (int k = 0; k < tensors[i].count; ++k) {
            const bool moved = i == 2 ? k == 3 || k == 4 || k >= 33 : k < 3;
            assert_true(values[k] == (!moved ? 0.0 : i == 2 ? -0.5 : -0.25));
        }
    }
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* A tied tensor goes with either of its names. */
static void test_alias(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64);
    assert_ok(uf_store_alias(store, "tied.weight", "conv.bias"));
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(store, NULL, &optimizer));
    group(optimizer, store, "tied", 0.0, -1.0);
    for (int i = 0; i < 2; ++i) {
        uf_tensor *tensor;
        double values[100] = {0};
        values[1] = 1.0;
        assert_ok(uf_store_gradient(store, tensors[i].name, &tensor));
        assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, tensors[i].count));
    }
    assert_ok(uf_optimizer_step(optimizer));
    for (int i = 0; i < 2; ++i) {
        uf_tensor *tensor;
        double values[100];
        assert_ok(uf_store_tensor(store, tensors[i].name, &tensor));
        assert_ok(uf_tensor_download_as(tensor, UF_F64, values, tensors[i].count));
        assert_true(values[1] == (i == 0 ? -1e-3 : 0.0));
    }
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void test_refusals(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store = make_store(context, UF_F64);
    uf_store *other = make_store(context, UF_F64);
    uf_optimizer *optimizer = make_optimizer(store, 0);
    uf_optimizer_group_options options = uf_optimizer_group_options_default();
    const uf_status invalid = UF_ERROR_INVALID_ARGUMENT;
    assert_error(uf_optimizer_group(NULL, uf_at(store, ""), NULL), invalid, "optimizer is NULL");
    assert_error(uf_optimizer_group(optimizer, uf_at(other, ""), NULL), invalid,
                 "scope is of store");
    assert_error(uf_optimizer_group(optimizer, uf_at(NULL, ""), NULL), invalid,
                 "scope is of store");
    /* A part of a name, a buffer and a name with more behind it are no scopes of parameters. */
    static const char *const absent[] = {"nor", "norm.mean", "head.weight", "norm.", "x"};
    for (int i = 0; i < COUNT_OF(absent); ++i) {
        assert_error(uf_optimizer_group(optimizer, uf_at(store, absent[i]), NULL),
                     UF_ERROR_NOT_FOUND, absent[i]);
    }
    options.lr_factor = -1.0;
    assert_error(uf_optimizer_group(optimizer, uf_at(store, "head"), &options), invalid,
                 "lr_factor is -1");
    options.lr_factor = 1.0;
    options.weight_decay = (double)NAN;
    assert_error(uf_optimizer_group(optimizer, uf_at(store, "head"), &options), invalid,
                 "weight_decay is");
    for (int i = 1; i <= 15; ++i) { /* sixteen with the optimizer's own */
        group(optimizer, store, "head", 1.0 + i, -1.0);
    }
    group(optimizer, store, "conv", 16.0, -1.0); /* known settings */
    options.weight_decay = 0.0;
    options.lr_factor = 17.0;
    assert_error(uf_optimizer_group(optimizer, uf_at(store, "head"), &options), invalid,
                 "at most 16");
    assert_ok(uf_optimizer_group(optimizer, uf_at(store, "head"), NULL));
    uf_optimizer_destroy(optimizer);
    uf_store_destroy(other);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
