/* test_random_geometry.c - both convolutions over random geometries against the plain loops: every
 * parameter, channels to 600, groups, strided views, both write modes. Arguments: the layer and how
 * many.
 *
 * UNFURL_TEST_SEED=... repeats a run, UNFURL_TEST_CASE=... a single case of it. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/ops_door.h"

typedef struct plan {
    const layer_family *family;
    int64_t count;
} plan;

/* Mostly contiguous: strided views take other paths, but the common one has most geometries to
 * cover. */
static guard_layout random_layout(test_random *random) {
    return test_random_one_in(random, 2)
               ? GUARD_NCHW
               : (guard_layout)test_random_integer(random, 1, GUARD_LAYOUTS - 1);
}

static void test_geometries(void **state) {
    const plan *work = *state;
    uf_context *context = test_context(2);
    const int64_t only = test_environment("UNFURL_TEST_CASE", -1);
    int64_t most_channels = 0;
    int64_t grouped = 0;
    for (int64_t i = only >= 0 ? only : 0; i < (only >= 0 ? only + 1 : work->count); ++i) {
        test_random random = test_random_for(work->family->name, i);
        layer_case one;
        case_begin(&one, work->family);
        one.plain = test_random_one_in(&random, 4);
        work->family->random(&random, &one);
        const size_t used = strlen(one.label);
        (void)snprintf(one.label + used, sizeof one.label - used, " (UNFURL_TEST_CASE=%lld)",
                       (long long)i);
        const int64_t channels = one.conv.in_channels > one.conv.out_channels
                                     ? one.conv.in_channels
                                     : one.conv.out_channels;
        most_channels = channels > most_channels ? channels : most_channels;
        grouped += one.conv.groups > 1 ? 1 : 0;
        ops_run run = {.dtype = UF_F64, .random = &random};
        run.input = random_layout(&random);
        run.output = random_layout(&random);
        run.parameters = test_random_one_in(&random, 4) ? random_layout(&random) : GUARD_NCHW;
        double slack = 1.0;
        if (one.plain) {
            run.mode = UF_ACCUMULATE;
            slack = 1.5; /* one more rounding, of the sum with what is there */
        }
        ops_door_check(context, &one, &run, slack * case_tolerance(&one, UF_F64), one.size);
        run.dtype = UF_F32;
        ops_door_check(context, &one, &run, slack * case_tolerance(&one, UF_F32), one.size);
        case_free(&one);
    }
    print_message("%s: %lld geometries, %lld with groups, up to %lld channels\n",
                  work->family->name, (long long)work->count, (long long)grouped,
                  (long long)most_channels);
    if (only < 0 && work->count >= 500) {
        assert_true(most_channels > 300 && grouped > work->count / 8);
    }
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    plan work = {NULL, argc == 3 ? strtoll(argv[2], NULL, 10) : 0};
    for (int i = 0; argc == 3 && layer_families[i] != NULL; ++i) {
        if (strcmp(layer_families[i]->name, argv[1]) == 0) {
            work.family = layer_families[i];
        }
    }
    if (work.family == NULL || work.family->random == NULL || work.count < 1) {
        fprintf(stderr, "usage: test_random_geometry conv_transpose2d|conv2d COUNT\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_geometries, &work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
