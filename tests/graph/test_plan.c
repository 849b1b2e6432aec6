/* test_plan.c - over random graphs, programs that share memory between values give the bits of
 * those that do not: on fresh memory, on memory full of NaN, in a second run, for any number of
 * threads. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/graph_door.h"
#include "support/network.h"

enum { GRAPHS = 250, MOST_OUTPUTS = 24 };

/* A context whose every allocation is NaN all over: what is read before it is written shows. */
static void *poisoned_allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                               void *stream) {
    (void)user;
    (void)kind;
    (void)stream;
    void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory != NULL) {
        memset(memory, 0xff, size);
    }
    return memory;
}

static void poisoned_release(void *user, void *pointer, size_t size, uf_memory_kind kind,
                             void *stream) {
    (void)user;
    (void)size;
    (void)kind;
    (void)stream;
    free(pointer);
}

static uf_context *poisoned_context(int32_t threads) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU; /* the allocator above gives host memory */
    options.threads = threads;
    options.allocator = (uf_allocator){poisoned_allocate, poisoned_release, NULL};
    assert_ok(uf_context_create(&options, &context));
    return context;
}

typedef struct results {
    int count;
    double *values[MOST_OUTPUTS];
    int64_t counts[MOST_OUTPUTS];
    size_t memory;
} results;

static void free_results(results *all) {
    for (int i = 0; i < all->count; ++i) {
        free(all->values[i]);
    }
}

static results run_graph(int64_t number, uf_dtype dtype, int32_t threads, uf_plan plan, bool fuse,
                         int runs) {
    results all;
    memset(&all, 0, sizeof all);
    uf_context *context = poisoned_context(threads);
    uf_store *store = NULL;
    uf_graph *graph = NULL;
    uf_program *program = NULL;
    test_random random = test_random_for("plan", number);
    uf_store_options store_options = uf_store_options_default();
    store_options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    assert_ok(uf_store_create_with(context, "random", &store_options, &store));
    assert_ok(uf_graph_create(context, &graph));
    const network_random_io io = network_random(graph, store, &random);
    network_fill_store(store, &random);
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.plan = plan;
    options.fuse = fuse;
    assert_ok(uf_program_compile(graph, &options, &program));
    char name[32];
    for (int i = 0; i < io.inputs; ++i) {
        (void)snprintf(name, sizeof name, "x%d", i);
        uf_tensor *input = uf_program_input(program, name);
        assert_non_null(input);
        const int64_t count = uf_tensor_count(input);
        double *values = test_allocate((size_t)count * sizeof *values);
        test_random_fill(&random, values, count, 1.0);
        assert_ok(uf_tensor_upload_as(input, UF_F64, values, count));
        free(values);
    }
    for (int run = 0; run < runs; ++run) {
        assert_ok(uf_program_run(program));
    }
    all.count = io.outputs;
    all.memory = uf_program_memory(program);
    for (int i = 0; i < io.outputs; ++i) {
        (void)snprintf(name, sizeof name, "y%d", i);
        uf_tensor *output = uf_program_output(program, name);
        assert_non_null(output);
        all.counts[i] = uf_tensor_count(output);
        all.values[i] = test_allocate((size_t)all.counts[i] * sizeof(double));
        assert_ok(uf_tensor_download_as(output, UF_F64, all.values[i], all.counts[i]));
        /* Finite: no value was read before it was written. */
        assert_close(name, compare_absolute(all.values[i], all.values[i], all.counts[i]), 0.0);
    }
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    uf_context_destroy(context);
    return all;
}

static void assert_same_results(int64_t number, const char *what, const results *got,
                                const results *expected) {
    assert_int_equal(got->count, expected->count);
    for (int i = 0; i < got->count; ++i) {
        char label[128];
        (void)snprintf(label, sizeof label, "random graph %lld, output y%d: %s", (long long)number,
                       i, what);
        assert_int_equal(got->counts[i], expected->counts[i]);
        assert_same_bits(label, got->values[i], expected->values[i],
                         got->counts[i] * (int64_t)sizeof(double));
    }
}

static void test_same_bits(void **state) {
    (void)state;
    int64_t smaller = 0;
    for (int64_t number = 0; number < GRAPHS; ++number) {
        static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const bool fuse = number % 4 < 2;
        results plain = run_graph(number, dtype, 1, UF_PLAN_NO_REUSE, fuse, 1);
        results shared = run_graph(number, dtype, 1, UF_PLAN_REUSE, fuse, 1);
        results twice = run_graph(number, dtype, 1, UF_PLAN_REUSE, fuse, 2);
        results threads = run_graph(number, dtype, 3, UF_PLAN_REUSE, fuse, 1);
        assert_same_results(number, "memory shared", &shared, &plain);
        assert_same_results(number, "memory shared, second run", &twice, &plain);
        assert_same_results(number, "three threads", &threads, &plain);
        assert_true(shared.memory <= plain.memory);
        smaller += shared.memory < plain.memory ? 1 : 0;
        free_results(&plain);
        free_results(&shared);
        free_results(&twice);
        free_results(&threads);
    }
    print_message("%d graphs, %lld with less memory when shared\n", GRAPHS, (long long)smaller);
    assert_true(smaller > GRAPHS / 4);
}

/* Fusion changes roundings, not results. */
static void test_fusion(void **state) {
    (void)state;
    for (int64_t number = 0; number < GRAPHS; ++number) {
        results fused = run_graph(number, UF_F64, 1, UF_PLAN_REUSE, true, 1);
        results plain = run_graph(number, UF_F64, 1, UF_PLAN_NO_REUSE, false, 1);
        assert_int_equal(fused.count, plain.count);
        for (int i = 0; i < fused.count; ++i) {
            char label[64];
            (void)snprintf(label, sizeof label, "random graph %lld, y%d fused", (long long)number,
                           i);
            assert_close(label,
                         compare_values(fused.values[i], plain.values[i], fused.counts[i], 0.1),
                         1e-11);
        }
        free_results(&fused);
        free_results(&plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_fusion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
