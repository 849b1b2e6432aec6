/* test_plan_training.c - random training programs give the same bits whether values share memory or
 * not, with dead memory poisoned, fused or not, and for any number of threads: outputs, gradients,
 * losses, weights after several steps.
 *
 *   test_plan_training <number of graphs> */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/network.h"

enum { STEPS = 3, MOST = 28, HEIGHT = 16, WIDTH = 4, PLANE = HEIGHT * WIDTH };

/* ---- random graphs: every value is (N, C, 16, 4), so that any two may meet; a channel is 256
 * bytes or 512, so that a concat's inputs may lie in its result where N is 1 ---- */

static uf_value layer(uf_graph *graph, uf_store *store, const uf_value *made, int count,
                      test_random *random) {
    char name[32];
    const uf_value x =
        made[test_random_one_in(random, 3) ? test_random_integer(random, 0, count - 1) : count - 1];
    const uf_value other = made[test_random_integer(random, 0, count - 1)];
    const int64_t channels = uf_value_shape(graph, x).extent[1];
    /* Now and then a layer's weights again, where they fit. */
    (void)snprintf(name, sizeof name, "c%d",
                   (int)(channels * 100 + test_random_integer(random, 0, 4)));
    switch (test_random_integer(random, 0, 13)) {
    case 0:
        return uf_relu(graph, x);
    case 1:
        /* A slope below 0 exchanges signs: backward needs the input then. */
        return uf_leaky_relu(graph, x, 0.2 * (double)test_random_integer(random, -1, 2));
    case 2:
        return uf_tanh(graph, x);
    case 3:
        return uf_sigmoid(graph, x);
    case 4:
        (void)snprintf(name, sizeof name, "n%d", (int)channels);
        return uf_batch_norm2d(graph, x, uf_at(store, name), NULL);
    case 5: {
        const uf_value parts[3] = {x, other, x};
        const int count_of_parts = (int)test_random_integer(random, 1, 3);
        const uf_value whole = uf_concat(graph, parts, count_of_parts);
        const int64_t wide = uf_value_shape(graph, whole).extent[1];
        if (wide <= 6) {
            return whole;
        }
        uf_conv2d_options narrow = uf_conv2d_options_default();
        narrow.kernel[0] = narrow.kernel[1] = 1;
        (void)snprintf(name, sizeof name, "w%d", (int)wide);
        return uf_conv2d(graph, whole, uf_at(store, name), 3, &narrow);
    }
    case 6:
    case 7: {
        const uf_shape a = uf_value_shape(graph, x), b = uf_value_shape(graph, other);
        return uf_shape_equal(&a, &b) ? uf_add(graph, x, other) : uf_add(graph, x, x);
    }
    case 8: {
        const uf_shape shape = uf_value_shape(graph, x);
        const uf_value rows = uf_reshape(graph, x, UF_SHAPE(-1, channels * PLANE));
        return uf_reshape(graph, test_random_one_in(random, 2) ? uf_tanh(graph, rows) : rows,
                          shape);
    }
    case 9:
        return test_random_one_in(random, 2)
                   ? uf_detach(graph, x)
                   : uf_pad2d(graph,
                              uf_conv2d(graph, x, uf_at(store, name), 4, NULL), /* (N, 4, 14, 2) */
                              test_random_one_in(random, 2) ? UF_PAD_REFLECT : UF_PAD_REPLICATE, 1,
                              1, 2, 0);
    case 10: {
        uf_conv_transpose2d_options same = uf_conv_transpose2d_options_default();
        same.padding[0] = same.padding[1] = 1;
        (void)snprintf(name, sizeof name, "t%d", (int)channels);
        return uf_conv_transpose2d(graph, x, uf_at(store, name), 3, &same);
    }
    case 11:
        return test_random_one_in(random, 3)
                   ? uf_add(graph, x, uf_noise_normal_like(graph, x, 0.0, 0.1))
               : test_random_one_in(random, 2) ? uf_dropout(graph, x, 0.3)
                                               : uf_dropout2d(graph, x, 0.3);
    default: {
        uf_conv2d_options same = uf_conv2d_options_default();
        same.padding[0] = same.padding[1] = 1;
        return uf_conv2d(graph, x, uf_at(store, name), 4, &same);
    }
    }
}

typedef struct built {
    uf_value values[MOST];
    int count, outputs;
    uf_value losses[2][2];
    int32_t loss_count[2];
} built;

static uf_value loss_of(uf_graph *graph, uf_value x, test_random *random) {
    const uf_value target = uf_full_like(graph, x, 0.25);
    switch (test_random_integer(random, 0, 3)) {
    case 0:
        return uf_mse_loss(graph, x, target);
    case 1:
        return uf_l1_loss(graph, x, target);
    case 2:
        return uf_bce_loss(graph, uf_sigmoid(graph, x), target);
    default:
        return uf_bce_with_logits_loss(graph, x, target);
    }
}

/* The first pass trains store 0, the second store 1; the second half of the graph reads the first
 * through both. */
static built build(uf_graph *graph, uf_store *const stores[2], test_random *random) {
    built b;
    memset(&b, 0, sizeof b);
    const int half = (int)test_random_integer(random, 2, MOST / 2 - 1);
    const int64_t images = test_random_integer(random, 1, 3);
    b.values[b.count++] = uf_input(graph, "x", UF_SHAPE(images, 3, HEIGHT, WIDTH));
    for (int pass = 0; pass < 2; ++pass) {
        /* A layer with a parameter first, so that the pass has something to train; in pass 1 it
         * reads the input, for the layers of store 0 that ran in pass 0 are stale then. */
        uf_conv2d_options same = uf_conv2d_options_default();
        same.padding[0] = same.padding[1] = 1;
        const int first = b.count;
        const uf_value from =
            pass == 0 ? b.values[0]
                      : uf_detach(graph, b.values[test_random_integer(random, 0, first - 1)]);
        b.values[b.count++] = uf_conv2d(graph, from, uf_at(stores[pass], "first"), 3, &same);
        for (int i = 0; i < half - 1 && b.count < MOST; ++i) {
            b.values[b.count] =
                layer(graph, stores[pass], &b.values[first], b.count - first, random);
            b.count += 1;
        }
        /* Detached values may have cut the last one off; the sum with the first has a path in any
         * case. */
        b.loss_count[pass] = 1 + (test_random_one_in(random, 2) ? 1 : 0);
        for (int l = 0; l < b.loss_count[pass]; ++l) {
            const uf_value last = l == 0
                                      ? b.values[b.count - 1]
                                      : b.values[test_random_integer(random, first, b.count - 1)];
            const uf_value parts[2] = {last, b.values[first]};
            b.losses[pass][l] = loss_of(graph, uf_concat(graph, parts, 2), random);
        }
    }
    for (int i = 0; i < b.count; ++i) {
        if (i == b.count - 1 || test_random_one_in(random, 6)) {
            char name[32];
            (void)snprintf(name, sizeof name, "y%d", b.outputs++);
            uf_output(graph, name, b.values[i]);
        }
    }
    assert_ok(uf_graph_status(graph));
    return b;
}

/* ---- everything that a program leaves, in a row ---- */

typedef struct record {
    double *values;
    int64_t count, capacity;
    size_t memory;
    int64_t steps;
} record;

static void note(record *all, const uf_tensor *tensor) {
    assert_non_null(tensor);
    const int64_t count = uf_tensor_count(tensor);
    if (all->count + count > all->capacity) {
        all->capacity = 2 * (all->count + count);
        all->values = realloc(all->values, (size_t)all->capacity * sizeof *all->values);
        assert_non_null(all->values);
    }
    assert_ok(uf_tensor_download_as(tensor, UF_F64, all->values + all->count, count));
    all->count += count;
}

static void note_store(record *all, uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        uf_tensor *tensor;
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_ok(uf_store_tensor(store, entry.name, &tensor));
        note(all, tensor);
        if (entry.role == UF_ROLE_PARAMETER) {
            assert_ok(uf_store_gradient(store, entry.name, &tensor));
            note(all, tensor);
        }
    }
}

/* How a program is compiled and run. */
typedef struct way {
    const char *what;
    int32_t threads;
    uf_plan plan;
    bool fuse;
} way;

static int64_t steps_of(const uf_program *program) {
    int64_t count = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        count += program->steps[s].removed ? 0 : 1;
    }
    return count;
}

static record run_graph(int64_t number, uf_dtype dtype, const way *how) {
    record all;
    memset(&all, 0, sizeof all);
    test_random random = test_random_for("plan_training", number);
    uf_context *context = test_context(how->threads);
    uf_store *stores[2];
    uf_graph *graph;
    uf_optimizer *optimizers[2];
    uf_program *program;
    uf_store_options store_options = uf_store_options_default();
    store_options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    assert_ok(uf_graph_create(context, &graph));
    for (int s = 0; s < 2; ++s) {
        assert_ok(
            uf_store_create_with(context, s == 0 ? "first" : "second", &store_options, &stores[s]));
    }
    const built b = build(graph, stores, &random);
    const uf_sgd_options sgd = {.struct_size = sizeof sgd, .lr = 1e-4, .momentum = 0.5};
    for (int s = 0; s < 2; ++s) {
        network_fill_store(stores[s], &random);
        assert_ok(s == 0 ? uf_optimizer_create_adam(stores[s], NULL, &optimizers[s])
                         : uf_optimizer_create_sgd(stores[s], &sgd, &optimizers[s]));
    }
    uf_pass passes[2];
    memset(passes, 0, sizeof passes);
    for (int p = 0; p < 2; ++p) {
        passes[p].losses = b.losses[p];
        passes[p].loss_count = b.loss_count[p];
        passes[p].stores = &stores[p];
        passes[p].optimizers = &optimizers[p];
        passes[p].store_count = passes[p].optimizer_count = 1;
    }
    /* Gradients of values as well: of the input, and of what stands first in pass 0. */
    const uf_value inputs[2] = {b.values[0], b.values[1]};
    passes[0].inputs = inputs;
    passes[0].input_count = 2;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.plan = how->plan;
    options.fuse = how->fuse;
    options.passes = passes;
    options.pass_count = 2;
    assert_ok(uf_program_compile(graph, &options, &program));
    all.memory = uf_program_memory(program);
    all.steps = steps_of(program);
    for (int step = 0; step < STEPS; ++step) {
        double x[3 * 3 * PLANE];
        const int64_t count = uf_tensor_count(uf_program_input(program, "x"));
        test_random_fill(&random, x, count, 1.0);
        assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, x, count));
        assert_ok(uf_program_run(program));
        for (int i = 0; i < b.outputs; ++i) {
            char name[32];
            (void)snprintf(name, sizeof name, "y%d", i);
            note(&all, uf_program_output(program, name));
        }
        for (int i = 0; i < 2; ++i) {
            note(&all, uf_program_gradient(program, 0, inputs[i]));
        }
        note_store(&all, stores[0]);
        note_store(&all, stores[1]);
        double losses[4];
        int64_t finished;
        bool finite;
        assert_ok(uf_context_synchronize(context));
        assert_ok(uf_program_losses(program, losses, 4, &finished, &finite));
        assert_true(finite);
        assert_int_equal(finished, step + 1);
    }
    uf_program_destroy(program);
    for (int s = 0; s < 2; ++s) {
        uf_optimizer_destroy(optimizers[s]);
    }
    uf_graph_destroy(graph);
    for (int s = 0; s < 2; ++s) {
        uf_store_destroy(stores[s]);
    }
    uf_context_destroy(context);
    return all;
}

static int64_t graphs = 250;

static void test_same_bits(void **state) {
    (void)state;
    const int64_t only = test_environment("UNFURL_TEST_CASE", -1);
    int64_t smaller = 0, shorter = 0, checked = 0;
    for (int64_t number = only >= 0 ? only : 0; number < graphs || number == only; ++number) {
        static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        static const way separate = {"separate", 1, UF_PLAN_NO_REUSE, false};
        static const way together = {"fused", 1, UF_PLAN_NO_REUSE, true};
        static const way ways[] = {
            {"memory shared", 1, UF_PLAN_REUSE, false},
            {"fused", 1, UF_PLAN_NO_REUSE, true},
            {"fused, memory shared", 1, UF_PLAN_REUSE, true},
            {"fused, memory shared, three threads", 3, UF_PLAN_REUSE, true},
            {"fused, dead memory poisoned", 1, UF_PLAN_POISON, true},
        };
        record plain = run_graph(number, dtype, &separate);
        /* A bf16 value that fusion removes is no longer rounded. */
        record fused = dtype == UF_BF16 ? run_graph(number, dtype, &together) : plain;
        char label[96];
        (void)snprintf(label, sizeof label, "random graph %lld", (long long)number);
        assert_close(label, compare_absolute(plain.values, plain.values, plain.count),
                     0.0); /* finite */
        for (int64_t w = 0; w < COUNT_OF(ways); ++w) {
            record got = run_graph(number, dtype, &ways[w]);
            (void)snprintf(label, sizeof label, "random graph %lld: %s", (long long)number,
                           ways[w].what);
            assert_int_equal(got.count, plain.count);
            assert_same_bits(label, got.values, ways[w].fuse ? fused.values : plain.values,
                             plain.count * (int64_t)sizeof(double));
            assert_true(ways[w].threads > 1 ||
                        got.memory <= plain.memory); /* scratch grows with the threads */
            smaller += w == 0 && got.memory < plain.memory ? 1 : 0;
            shorter += w == 1 && got.steps < plain.steps ? 1 : 0;
            free(got.values);
        }
        checked += plain.count;
        if (fused.values != plain.values) {
            free(fused.values);
        }
        free(plain.values);
        if (number == only) {
            return;
        }
    }
    print_message("%lld graphs, %lld with less memory when shared, %lld with fewer steps when "
                  "fused, %lld numbers\n",
                  (long long)graphs, (long long)smaller, (long long)shorter, (long long)checked);
    assert_true(smaller > graphs / 2);
    assert_true(shorter > graphs / 4);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    graphs = argc > 1 ? strtoll(argv[1], NULL, 10) : graphs;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
