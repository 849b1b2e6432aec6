/* by_hand.h - a graph with two stores of f64, small enough for results by hand. */
#ifndef UF_TRAINING_BY_HAND_H
#define UF_TRAINING_BY_HAND_H

#include "support/test.h"

#include "core/store.h"
#include "support/compare.h"

typedef struct bench {
    uf_context *context;
    uf_store *store, *other;
    uf_graph *graph;
    uf_program *program;
} bench;

static inline uf_store *make_store(uf_context *context, const char *name, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    uf_store *store;
    options.dtype = dtype;
    assert_ok(uf_store_create_with(context, name, &options, &store));
    return store;
}

static inline bench open_bench(void) {
    bench b;
    b.context = test_context(2);
    b.store = make_store(b.context, "store", UF_F64);
    b.other = make_store(b.context, "other", UF_F64);
    assert_ok(uf_graph_create(b.context, &b.graph));
    b.program = NULL;
    return b;
}

static inline void close_bench(bench *b) {
    uf_program_destroy(b->program);
    uf_graph_destroy(b->graph);
    uf_store_destroy(b->other);
    uf_store_destroy(b->store);
    uf_context_destroy(b->context);
}

static inline void put(uf_tensor *tensor, const double *values) {
    assert_non_null(tensor);
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, uf_tensor_count(tensor)));
}

static inline void put_in_store(uf_store *store, const char *name, const double *values) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    put(tensor, values);
    uf_store_touch(store);
}

/* The first `count` numbers are expected, exactly. */
static inline void expect(const char *label, const uf_tensor *tensor, const double *values,
                          int64_t count) {
    double got[64];
    assert_non_null(tensor);
    assert_int_equal(uf_tensor_count(tensor), count);
    assert_true(count <= COUNT_OF(got));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, got, count));
    assert_close(label, compare_absolute(got, values, count), 1e-14);
}

static inline void expect_gradient(uf_store *store, const char *name, const double *values,
                                   int64_t count) {
    uf_tensor *gradient;
    assert_ok(uf_store_gradient(store, name, &gradient));
    expect(name, gradient, values, count);
}

static inline void expect_parameter(uf_store *store, const char *name, const double *values,
                                    int64_t count) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    expect(name, tensor, values, count);
}

static inline uf_program_options training_options(const uf_pass *passes, int32_t count) {
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.mode = UF_TRAIN;
    options.passes = passes;
    options.pass_count = count;
    return options;
}

static inline void compile(bench *b, const uf_pass *passes, int32_t count) {
    const uf_program_options options = training_options(passes, count);
    assert_ok(uf_program_compile(b->graph, &options, &b->program));
}

/* y = w x with w (1, 2), no bias: d mean(y^2) / dw is easily done by hand. */
static inline uf_value product(bench *b, uf_value x, uf_store *store, const char *scope) {
    return uf_linear(b->graph, x, uf_at(store, scope), 1, false);
}

static inline uf_value square(bench *b, uf_value y) {
    return uf_mse_loss(b->graph, y, uf_full_like(b->graph, y, 0.0));
}

#endif
