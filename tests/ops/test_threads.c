/* test_threads.c - the bits of a result do not depend on the number of threads. */
#include "support/test.h"

#include <stdlib.h>

#include "support/compare.h"
#include "support/graph_door.h"
#include "support/ops_door.h"

enum { THREADS = 3 };

/* Through ops.h, or the graph for a layer that only a graph has. */
static void run_case(uf_context *context, const layer_case *one, uf_dtype dtype, double *result) {
    if (one->family->ops != NULL) {
        const ops_run run = {.dtype = dtype};
        assert_ok(ops_door_try(context, one, &run, result, result));
        return;
    }
    graph_door door = graph_door_open(context, one, dtype, true);
    graph_door_run(&door, one, result);
    graph_door_close(&door);
}

static void check_case(uf_context *const contexts[THREADS], const layer_case *one) {
    const size_t bytes = (size_t)one->output.count * sizeof(double);
    double *first = test_allocate(bytes);
    double *other = test_allocate(bytes);
    for (int type = 0; type < 2; ++type) {
        const uf_dtype dtype = type == 0 ? UF_F32 : UF_F64;
        run_case(contexts[0], one, dtype, first);
        for (int i = 1; i < THREADS; ++i) {
            run_case(contexts[i], one, dtype, other);
            assert_same_bits(one->label, other, first, (int64_t)bytes);
        }
    }
    free(first);
    free(other);
}

static void test_same_bits(void **state) {
    const layer_family *family = *state;
    uf_context *contexts[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        contexts[i] = test_context(i + 1);
        assert_int_equal(uf_context_threads(contexts[i]), i + 1);
    }
    const int64_t random_count = family->random != NULL ? 200 : 0;
    for (int64_t i = 0; i < family->table_count + random_count; ++i) {
        test_random random = test_random_for("threads", i);
        layer_case one;
        case_begin(&one, family);
        if (i < family->table_count) {
            family->table(i, &random, &one);
        } else {
            family->random(&random, &one);
        }
        check_case(contexts, &one);
        case_free(&one);
    }
    for (int i = 0; i < THREADS; ++i) {
        uf_context_destroy(contexts[i]);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : test_run_families("threads", test_same_bits);
}
