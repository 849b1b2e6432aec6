/* test_place.c - placement against the plain search that it stands for, and the limits of arrays
 * and arenas. */
#include "support/test.h"

#include <stdlib.h>

#include "graph/program.h"
#include "support/random.h"

enum { ROUNDS = 400, MOST = 120 };

static bool lives_meet(const uf_storage *a, const uf_storage *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset from `base` on at which `storage` meets none of the `count` placed ones. */
static size_t lowest_offset(uf_storage *const *placed, int32_t count, const uf_storage *storage,
                            size_t base) {
    size_t offset = base;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < count; ++i) {
            const uf_storage *other = placed[i];
            if (lives_meet(other, storage) && other->offset < offset + storage->size &&
                offset < other->offset + other->size) {
                offset = other->offset + other->size;
                moved = true;
            }
        }
    }
    return offset;
}

/* Lives of all lengths, at both ends of the steps too; sizes that fit into each other's gaps and
 * that do not. */
static void test_lowest_offsets(void **state) {
    (void)state;
    for (int64_t round = 0; round < ROUNDS; ++round) {
        test_random random = test_random_for("place", round);
        uf_storage storages[MOST];
        uf_storage *order[MOST];
        const int32_t steps = (int32_t)test_random_log(&random, 1, 200);
        const int32_t count = (int32_t)test_random_integer(&random, 1, MOST);
        const int64_t sizes = test_random_log(&random, 1, 1000);
        const size_t base = (size_t)test_random_integer(&random, 0, 3) * 100;
        size_t end = base;
        for (int32_t i = 0; i < count; ++i) {
            const int32_t first = (int32_t)test_random_integer(&random, 0, steps);
            const int32_t length = (int32_t)test_random_log(&random, 1, steps + 1) - 1;
            storages[i] = (uf_storage){
                .size = (size_t)test_random_integer(&random, 1, sizes),
                .first = first,
                .last = first + length < steps ? first + length : steps,
            };
            order[i] = &storages[i];
        }
        assert_ok(uf_place(order, count, steps, &end));
        size_t reach = base;
        for (int32_t i = 0; i < count; ++i) {
            const size_t expected = lowest_offset(order, i, &storages[i], base);
            if (storages[i].offset != expected) {
                fail_msg("round %lld: storage %d is at %zu, the lowest offset is %zu",
                         (long long)round, (int)i, storages[i].offset, expected);
            }
            const size_t top = expected + storages[i].size;
            reach = top > reach ? top : reach;
        }
        assert_int_equal(end, reach);
    }
}

/* Sizes whose sum no address space holds are refused, alive at once or not placed at all. */
static void test_too_large(void **state) {
    (void)state;
    const size_t half = SIZE_MAX / 4 + 1;
    uf_storage storages[3] = {{.size = half, .first = 0, .last = 1},
                              {.size = half, .first = 2, .last = 3},
                              {.size = half, .first = 1, .last = 2}};
    uf_storage *order[3] = {&storages[0], &storages[1], &storages[2]};
    size_t end = 0;
    assert_ok(uf_place(order, 2, 3, &end));
    assert_int_equal(end, half);
    end = 0;
    assert_error(uf_place(order, 3, 3, &end), UF_ERROR_OUT_OF_MEMORY, "values", "bytes");
}

static void test_too_large_program(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph = NULL;
    uf_program *program = NULL;
    assert_ok(uf_graph_create(context, &graph));
    /* 2^62 bytes each, three of them persistent. */
    uf_value x = uf_input(graph, "x", UF_SHAPE(INT64_C(3037000500), INT64_C(379625062)));
    for (int i = 0; i < 8; ++i) {
        x = uf_relu(graph, x);
        uf_output(graph, (const char[]){(char)('a' + i), '\0'}, x);
    }
    for (int plan = UF_PLAN_REUSE; plan <= UF_PLAN_POISON; ++plan) {
        uf_program_options options = uf_program_options_default();
        options.plan = (uf_plan)plan;
        assert_error(uf_program_compile(graph, &options, &program), UF_ERROR_OUT_OF_MEMORY,
                     "values", "bytes");
    }
    uf_context_destroy(context);
}

static void test_growth(void **state) {
    (void)state;
    void *array = NULL;
    int32_t capacity = 0;
    assert_ok(uf_grow(&array, 0, &capacity, 1));
    assert_non_null(array);
    assert_true(capacity > 0);
    free(array);
    array = NULL;
    capacity = INT32_MAX; /* full: there is no number for one more */
    assert_error(uf_grow(&array, INT32_MAX, &capacity, 1), UF_ERROR_UNSUPPORTED, "2147483647");
    assert_int_equal(capacity, INT32_MAX);
    assert_null(array);
    capacity = INT32_MAX / 2 + 1; /* doubled it would pass the last number */
    assert_ok(uf_grow(&array, capacity, &capacity, 1));
    assert_int_equal(capacity, INT32_MAX);
    free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_offsets),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_too_large_program),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
