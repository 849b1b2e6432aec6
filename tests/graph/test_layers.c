/* test_layers.c - every layer through a compiled program: PyTorch's results, the shape tables and
 * random geometries, fused and not. Which runs is the first argument: pytorch, table. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/graph_door.h"

static const uf_dtype dtypes[] = {UF_F64, UF_F32};

enum { RANDOM_GEOMETRIES = 200 };

static void test_pytorch(void **state) {
    const layer_family *family = *state;
    if (family->pytorch == NULL) {
        skip();
    }
    uf_context *context = test_context(2);
    const h5_file file = h5_open(test_data_path("ops_open.h5"));
    const int64_t count = h5_count(file, family->pytorch);
    int64_t ran = 0;
    for (int64_t i = 0; i < count; ++i) {
        char path[256];
        h5_child(file, family->pytorch, i, path, (int64_t)sizeof path);
        layer_case one;
        case_begin(&one, family);
        if (family->load(file, path, &one)) {
            graph_door_check(context, &one, UF_F64, true, 1e-12, 0.0);
            graph_door_check(context, &one, UF_F32, true, 1e-5, 0.0);
            ++ran;
        }
        case_free(&one);
    }
    print_message("%s: %lld of %lld cases\n", family->pytorch, (long long)ran, (long long)count);
    assert_true(ran > 0);
    h5_close(file);
    uf_context_destroy(context);
}

static void test_table(void **state) {
    const layer_family *family = *state;
    uf_context *context = test_context(2);
    const int64_t random_count = family->random != NULL ? RANDOM_GEOMETRIES : 0;
    for (int64_t i = 0; i < family->table_count + random_count; ++i) {
        test_random random = test_random_for(family->name, i);
        layer_case one;
        case_begin(&one, family);
        if (i < family->table_count) {
            family->table(i, &random, &one);
        } else {
            family->random(&random, &one);
        }
        for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
            const double tolerance = case_tolerance(&one, dtypes[t]);
            graph_door_check(context, &one, dtypes[t], true, tolerance, one.size);
            graph_door_check(context, &one, dtypes[t], false, tolerance, one.size);
        }
        case_free(&one);
    }
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    if (argc == 2 && strcmp(argv[1], "pytorch") == 0) {
        return test_run_families("graph pytorch", test_pytorch);
    }
    if (argc == 2 && strcmp(argv[1], "table") == 0) {
        return test_run_families("graph table", test_table);
    }
    fprintf(stderr, "usage: test_layers pytorch|table\n");
    return 2;
}
