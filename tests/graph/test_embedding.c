/* test_embedding.c - embedding against a plain loop, in every type, over tiles and chunks of its
 * kernels, for indices that are illegal and for one that all share; the order of the sums; a weight
 * that two layers share or that is frozen; first values, and errors. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bf16.h"
#include "graph/program.h"
#include "support/compare.h"
#include "support/random.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    uf_value indices, y;
    int64_t count, width;
} fixture;

static fixture open_fixture(int32_t threads, uf_dtype dtype, uf_shape indices, int64_t count,
                            int64_t width) {
    fixture f = {.context = test_context(threads), .count = count, .width = width};
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    assert_ok(uf_store_create_with(f.context, "net", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.indices = uf_input_i64(f.graph, "indices", indices);
    f.y = uf_embedding(f.graph, f.indices, uf_at(f.store, "token"), count, width);
    return f;
}

static void close_fixture(fixture *f) {
    uf_context_destroy(f->context);
    memset(f, 0, sizeof *f);
}

/* The sum of `losses` under upstreams from outside. */
static void compile(fixture *f, uf_dtype dtype, const uf_value *losses, int32_t loss_count,
                    bool trains) {
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = loss_count;
    pass.external_seeds = true;
    pass.stores = &f->store;
    pass.store_count = 1;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.passes = &pass;
    options.pass_count = trains ? 1 : 0;
    uf_output(f->graph, "y", f->y);
    assert_ok(uf_graph_status(f->graph));
    assert_ok(uf_init_default(f->graph, f->store));
    assert_ok(uf_program_compile(f->graph, &options, &f->program));
}

/* Random numbers that every type has. */
static double *fill(uf_tensor *tensor, const char *name) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)(count + 1) * sizeof *values);
    test_random random = test_random_for(name, 0);
    for (int64_t i = 0; i < count; ++i) {
        const float value = (float)test_random_real(&random, -1.0, 1.0);
        values[i] = (double)uf_bf16_to_f32(uf_bf16_from_f32(value));
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    return values;
}

static double *fill_weight(fixture *f) {
    uf_tensor *weight;
    assert_ok(uf_store_tensor(f->store, "token.weight", &weight));
    double *values = fill(weight, "weight");
    uf_store_touch(f->store);
    return values;
}

static double *download(const uf_tensor *tensor) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)(count + 1) * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
    return values;
}

static double *weight_gradient(fixture *f) {
    uf_tensor *gradient;
    assert_ok(uf_store_gradient(f->store, "token.weight", &gradient));
    return download(gradient);
}

/* sum[indices[i]] += upstream[i], in this order: what the library promises, to the bit. */
static void plain_gradient(const int64_t *indices, int64_t index_count, const double *upstream,
                           int64_t count, int64_t width, double *sum) {
    memset(sum, 0, (size_t)(count * width) * sizeof *sum);
    for (int64_t i = 0; i < index_count; ++i) {
        for (int64_t c = 0; c < width && indices[i] >= 0 && indices[i] < count; ++c) {
            sum[indices[i] * width + c] += upstream[i * width + c];
        }
    }
}

static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};

typedef enum choice {
    ANY,
    ONE,    /* all the same */
    ILLEGAL /* some outside of the weight */
} choice;

static const struct {
    uf_shape indices;
    int64_t count, width;
    choice choice;
} table[] = {
    {{0}, 4, 3, ANY},
    {{1, {1}}, 1, 1, ONE},
    {{1, {7}}, 3, 8, ANY},
    {{2, {5, 9}}, 10, 100, ANY},
    {{1, {300}}, 70, 65, ANY},
    {{1, {600}}, 9, 129, ONE},
    {{3, {4, 16, 16}}, 150, 130, ANY},
    {{1, {257}}, 1000, 16, ANY},
    {{7, {1, 2, 1, 3, 1, 2, 2}}, 5, 4, ANY},
    {{2, {3, 40}}, 11, 20, ILLEGAL},
};

static int64_t *make_indices(int64_t row) {
    static const int64_t outside[] = {-1, 11, INT64_MIN, INT64_MAX, 1 << 20};
    const int64_t count = uf_shape_count(&table[row].indices);
    int64_t *indices = test_allocate((size_t)(count + 1) * sizeof *indices);
    test_random random = test_random_for("indices", row);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t any = test_random_integer(&random, 0, table[row].count - 1);
        indices[i] = table[row].choice == ONE ? table[row].count / 2 : any;
        if (table[row].choice == ILLEGAL && i % 3 == 1) {
            indices[i] = outside[i % COUNT_OF(outside)];
        }
    }
    return indices;
}

static void check_forward(const char *label, const fixture *f, const int64_t *indices,
                          int64_t index_count, const double *weight) {
    double *got = download(uf_program_output(f->program, "y"));
    for (int64_t i = 0; i < index_count; ++i) {
        const bool legal = indices[i] >= 0 && indices[i] < f->count;
        for (int64_t c = 0; c < f->width; ++c) {
            const double value = got[i * f->width + c];
            if (legal ? value != weight[indices[i] * f->width + c] : !isnan(value)) {
                fail_msg("%s: element %lld of row %lld is %g", label, (long long)c, (long long)i,
                         value);
            }
        }
    }
    free(got);
}

/* Three runs, the last of which a GPU replays. Gradients are the plain loop's bits. */
static void test_table(void **state) {
    (void)state;
    for (int64_t number = 0; number < COUNT_OF(table) * COUNT_OF(dtypes); ++number) {
        const int64_t row = number / COUNT_OF(dtypes);
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const int64_t elements = table[row].count * table[row].width;
        const int64_t index_count = uf_shape_count(&table[row].indices);
        char label[64];
        (void)snprintf(label, sizeof label, "row %d, %s", (int)row, uf_dtype_name(dtype));
        fixture f = open_fixture(2, dtype, table[row].indices, table[row].count, table[row].width);
        compile(&f, dtype, &f.y, 1, true);
        int64_t *indices = make_indices(row);
        double *weight = fill_weight(&f);
        double *upstream = fill(uf_program_seed(f.program, 0, 0), "upstream");
        double *expected = test_allocate((size_t)elements * sizeof *expected);
        assert_int_equal(uf_tensor_dtype(uf_program_output(f.program, "y")), dtype);
        assert_ok(uf_tensor_upload(uf_program_input(f.program, "indices"), indices));
        plain_gradient(indices, index_count, upstream, f.count, f.width, expected);
        for (int64_t k = 0; k < elements; ++k) {
            expected[k] = dtype == UF_F64 ? expected[k] : (double)(float)expected[k];
        }
        for (int run = 0; run < 3; ++run) {
            assert_ok(uf_program_run(f.program));
            check_forward(label, &f, indices, index_count, weight);
            double *got = weight_gradient(&f);
            assert_same_bits(label, got, expected, elements * (int64_t)sizeof *got);
            free(got);
        }
        free(indices);
        free(weight);
        free(upstream);
        free(expected);
        close_fixture(&f);
    }
}

/* Any number of threads, and sums whose order shows in f64. */
static void test_threads(void **state) {
    (void)state;
    enum { INDICES = 3000, ROWS = 140, WIDTH = 200 };
    double *expected = test_allocate(ROWS * WIDTH * sizeof *expected);
    for (int32_t threads = 1; threads <= 3; ++threads) {
        fixture f = open_fixture(threads, UF_F64, UF_SHAPE(INDICES), ROWS, WIDTH);
        compile(&f, UF_F64, &f.y, 1, true);
        int64_t indices[INDICES];
        test_random random = test_random_for("threads", 0);
        for (int64_t i = 0; i < INDICES; ++i) {
            indices[i] = test_random_integer(&random, 0, ROWS - 1);
        }
        uf_tensor *seed = uf_program_seed(f.program, 0, 0);
        double *upstream = test_allocate(INDICES * WIDTH * sizeof *upstream);
        for (int64_t i = 0; i < INDICES * WIDTH; ++i) {
            upstream[i] = test_random_real(&random, -1.0, 1.0);
        }
        assert_ok(uf_tensor_upload(seed, upstream));
        assert_ok(uf_tensor_upload(uf_program_input(f.program, "indices"), indices));
        assert_ok(uf_program_run(f.program));
        plain_gradient(indices, INDICES, upstream, ROWS, WIDTH, expected);
        double *got = weight_gradient(&f);
        assert_same_bits("threads", got, expected, ROWS * WIDTH * (int64_t)sizeof *got);
        free(got);
        free(upstream);
        close_fixture(&f);
    }
    free(expected);
}

/* Two layers of one weight: both gradients are in it, each rounded once. */
static void test_shared(void **state) {
    (void)state;
    static const int64_t first[] = {2, 0, 2, 2}, second[] = {1, 2, 1};
    fixture f = open_fixture(2, UF_F32, UF_SHAPE(4), 4, 6);
    const uf_value j = uf_input_i64(f.graph, "j", UF_SHAPE(3));
    const uf_value losses[2] = {f.y, uf_embedding(f.graph, j, uf_at(f.store, "token"), 4, 6)};
    compile(&f, UF_F32, losses, 2, true);
    double *upstream[2], sum[2][24];
    for (int i = 0; i < 2; ++i) {
        upstream[i] = fill(uf_program_seed(f.program, 0, i), i == 0 ? "one" : "two");
    }
    assert_ok(uf_tensor_upload(uf_program_input(f.program, "indices"), first));
    assert_ok(uf_tensor_upload(uf_program_input(f.program, "j"), second));
    plain_gradient(first, 4, upstream[0], 4, 6, sum[0]);
    plain_gradient(second, 3, upstream[1], 4, 6, sum[1]);
    for (int run = 0; run < 2; ++run) {
        assert_ok(uf_program_run(f.program));
        double *got = weight_gradient(&f);
        for (int k = 0; k < 24; ++k) {
            assert_true(got[k] == (double)((float)sum[0][k] + (float)sum[1][k]));
        }
        free(got);
    }
    free(upstream[0]);
    free(upstream[1]);
    close_fixture(&f);
}

/* Without a pass over its store a weight gets no gradient, and forward is the same. */
static void test_forward_alone(void **state) {
    (void)state;
    static const int64_t indices[] = {3, 0, 1};
    fixture f = open_fixture(1, UF_F32, UF_SHAPE(3), 4, 6);
    compile(&f, UF_F32, NULL, 0, false);
    double *weight = fill_weight(&f);
    assert_ok(uf_tensor_upload(uf_program_input(f.program, "indices"), indices));
    assert_ok(uf_program_run(f.program));
    check_forward("alone", &f, indices, 3, weight);
    free(weight);
    close_fixture(&f);
}

/* PyTorch's first values: normal with mean 0 and variance 1. */
static void test_first_values(void **state) {
    (void)state;
    enum { ELEMENTS = 200 * 300 };
    fixture f = open_fixture(1, UF_F64, UF_SHAPE(3), 200, 300);
    compile(&f, UF_F64, NULL, 0, false);
    uf_tensor *weight;
    assert_ok(uf_store_tensor(f.store, "token.weight", &weight));
    double *values = download(weight);
    double mean = 0.0, square = 0.0;
    for (int64_t i = 0; i < ELEMENTS; ++i) {
        mean += values[i] / ELEMENTS;
        square += values[i] * values[i] / ELEMENTS;
    }
    assert_true(fabs(mean) < 4.0 / sqrt(ELEMENTS));
    assert_true(fabs(square - 1.0) < 4.0 * sqrt(2.0 / ELEMENTS));
    free(values);
    close_fixture(&f);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        uf_shape indices;
        int64_t count, width;
        const char *message;
    } bad[] = {
        {{1, {2}}, 0, 4, "num_embeddings is 0"},
        {{1, {2}}, 4, -1, "embedding_dim is -1"},
        {{8, {1, 1, 1, 1, 1, 1, 1, 1}}, 4, 4, "rank 8; at most 7"},
        {{1, {2}}, INT64_C(1) << 40, INT64_C(1) << 40, "the size overflows"},
    };
    for (int64_t i = 0; i < COUNT_OF(bad); ++i) {
        fixture f = open_fixture(1, UF_F32, bad[i].indices, bad[i].count, bad[i].width);
        assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, bad[i].message);
        close_fixture(&f);
    }
    fixture f = open_fixture(1, UF_F32, UF_SHAPE(2), 3, 4);
    (void)uf_embedding(f.graph, f.y, uf_at(f.store, "other"), 3, 4);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT,
                 "other: embedding: input 0 has real values where indices are needed");
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_shared),       cmocka_unit_test(test_forward_alone),
        cmocka_unit_test(test_first_values), cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
