/* test_images.c - which GPUs can run the code of a build; no GPU and no toolkit. */
#include "support/test.h"

#include <stdlib.h>

#include "kernels/cuda/device/images.h"

static void test_table(void **state) {
    static const struct {
        const char *architectures;
        int capability;
        bool runs;
    } rows[] = {
        /* Warpgroup products hold for one chip: neither an older nor a newer GPU takes their code.
         */
        {"90a-real", 90, true},
        {"90a-real", 80, false},
        {"90a-real", 89, false},
        {"90a-real", 100, false},
        {"90a-real", 120, false},
        {"90a", 100, false},
        {"90a-virtual", 100, false},
        /* Machine code serves later minor versions of its major one. */
        {"80-real", 80, true},
        {"80-real", 86, true},
        {"80-real", 75, false},
        {"80-real", 90, false},
        {"86-real", 80, false},
        {"120-real", 121, true},
        {"100f-real", 103, true},
        {"100f-real", 120, false},
        /* PTX serves everything later. */
        {"80-virtual", 75, false},
        {"80-virtual", 80, true},
        {"80-virtual", 120, true},
        {"80", 120, true},
        {"80", 75, false},
        /* One of several is enough. */
        {"75-real,80-real,90a-real", 86, true},
        {"75-real,80-real,90a-real", 90, true},
        {"75-real,80-real,90a-real", 100, false},
        {"75-real,80-real,90a-real,120-virtual", 100, false},
        {"75-real,80-real,90a-real,120-virtual", 121, true},
        {"all", 75, true},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        if (uf_cuda_images_run(rows[i].architectures, rows[i].capability) != rows[i].runs) {
            fail_msg("\"%s\" on capability %d", rows[i].architectures, rows[i].capability);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
