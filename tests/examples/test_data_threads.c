/* test_data_threads.c - batches are the same for any number of threads and after any jump, and
 * memory stays flat. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/data_fixture.h"

enum { SIZE = 8, BATCH = 10, STEPS = 24, FLOATS = BATCH * 3 * SIZE * SIZE };

/* 64 pictures of several sizes in two classes, for all tests. */
static int write_pictures(void **state) {
    if (data_setup(state) != 0) {
        return 1;
    }
    data_folder("a");
    data_folder("b");
    for (int i = 0; i < 64; ++i) {
        char name[32];
        snprintf(name, sizeof name, "%c/%d.png", i % 3 == 0 ? 'a' : 'b', i);
        data_png(name, i, 5 + i % 7, 5 + i % 11, 1 + i % 4, 8);
    }
    return 0;
}

static void expect_batch(data_loader *d, int64_t step, const float *images, const int64_t *labels) {
    const int64_t *got_labels;
    const float *got = data_batch(d, step, &got_labels);
    if (memcmp(got, images + step * FLOATS, FLOATS * sizeof *got) != 0 ||
        memcmp(got_labels, labels + step * BATCH, BATCH * sizeof *labels) != 0) {
        fail_msg("batch %d differs", (int)step);
    }
}

static void test_threads(void **state) {
    (void)state;
    float *images = test_allocate(sizeof(float) * STEPS * FLOATS);
    int64_t *labels = test_allocate(sizeof(int64_t) * STEPS * BATCH);
    for (int variant = 0; variant < 4; ++variant) {
        static const int threads[] = {1, 8, 3, 0};
        data_options wish = data_wish(data_path(""), 3, SIZE, BATCH);
        wish.threads = threads[variant];
        wish.flip = true;
        wish.crop = DATA_CROP_RANDOM;
        wish.cache_bytes = variant % 2 == 0 ? 0 : 3000;
        data_loader *d = data_open(&wish);
        for (int64_t step = 0; step < STEPS; ++step) {
            if (variant > 0) {
                expect_batch(d, step, images, labels);
                continue;
            }
            const int64_t *made;
            memcpy(images + step * FLOATS, data_batch(d, step, &made), FLOATS * sizeof *images);
            memcpy(labels + step * BATCH, made, BATCH * sizeof *labels);
            assert_memory_not_equal(images, images + step * FLOATS + (step == 0), 16);
        }
        data_close(d);
        /* As one that resumes, goes back, repeats and skips. */
        static const int64_t steps[] = {17, 18, 18, 19, 3, 4, 5, 23, 0, 1, 9, 8, 7, 9, 10, 11};
        d = data_open(&wish);
        for (int64_t i = 0; i < COUNT_OF(steps); ++i) {
            expect_batch(d, steps[i], images, labels);
        }
        data_close(d);
    }
    free(labels);
    free(images);
}

static void test_seeds(void **state) {
    (void)state;
    float first[FLOATS];
    for (uint64_t seed = 0; seed < 3; ++seed) {
        data_options wish = data_wish(data_path(""), 3, SIZE, BATCH);
        wish.seed = seed;
        data_loader *d = data_open(&wish);
        const float *images = data_batch(d, 0, NULL);
        if (seed > 0) {
            assert_memory_not_equal(images, first, sizeof first);
        }
        memcpy(first, images, sizeof first);
        data_close(d);
    }
}

/* Opened and closed at once, and with threads in the middle of their work. */
static void test_ends(void **state) {
    (void)state;
    for (int i = 0; i < 20; ++i) {
        data_options wish = data_wish(data_path(""), 1, SIZE, BATCH);
        wish.threads = 1 + i % 5;
        data_loader *d = data_open(&wish);
        for (int step = 0; step < i % 4; ++step) {
            assert_non_null(data_batch(d, 7 * step, NULL));
        }
        data_close(d);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int64_t resident_pages(void) {
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void test_memory(void **state) {
    (void)state;
    data_options wish = data_wish(data_path(""), 3, SIZE, BATCH);
    wish.threads = 4;
    data_loader *d = data_open(&wish);
    int64_t after_100 = 0;
    for (int64_t step = 0; step < 1000; ++step) {
        assert_non_null(data_batch(d, step, NULL));
        if (step == 100) {
            after_100 = resident_pages();
        }
    }
    const int64_t grown = (resident_pages() - after_100) * sysconf(_SC_PAGESIZE);
    if (grown > 2 << 20) {
        fail_msg("900 steps took %d bytes of memory", (int)grown);
    }
    data_close(d);
}
#else
static void test_memory(void **state) {
    (void)state;
    skip(); /* the sanitizer's own memory grows */
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, write_pictures, data_teardown);
}
