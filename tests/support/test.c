/* test.c - the context a test runs on, expected errors, paths. */
#include "support/test.h"

#include "core/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TEST_SOURCE_DIR
#error "TEST_SOURCE_DIR is the root of the source tree; tests/CMakeLists.txt defines it"
#endif

void test_expect_error(const char *call, uf_status got, uf_status expected,
                       const char *const *words) {
    if (got != expected) {
        fail_msg("%s gave %s, expected %s (last message: %s)", call, uf_status_name(got),
                 uf_status_name(expected), uf_last_error());
    }
    for (int i = 0; words[i] != NULL; ++i) {
        if (strstr(uf_last_error(), words[i]) == NULL) {
            fail_msg("%s: the message lacks \"%s\": %s", call, words[i], uf_last_error());
        }
    }
}

static uf_device wanted_device(void) {
    const char *name = getenv("UNFURL_TEST_DEVICE");
    if (name == NULL || strcmp(name, "cpu") == 0) {
        return UF_DEVICE_CPU;
    }
    if (strcmp(name, "cuda") == 0) {
        return UF_DEVICE_CUDA;
    }
    fprintf(stderr, "UNFURL_TEST_DEVICE is \"%s\", neither cpu nor cuda\n", name);
    exit(2);
}

int test_device_or_skip(void) {
    const char *reason = NULL;
    if (uf_device_count(wanted_device(), &reason) < 1) {
        fprintf(stderr, "skipped: %s\n", reason != NULL ? reason : "the device is not there");
        return TEST_SKIPPED;
    }
    return 0;
}

uf_context *test_context(int32_t threads) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = wanted_device();
    options.threads = threads;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

bool test_on_gpu(void) {
    return wanted_device() == UF_DEVICE_CUDA;
}

/* A context of its own: memory outlives the contexts of single tests. */
static uf_context *memory_context(void) {
    static uf_context *context;
    if (context == NULL) {
        context = test_context(1);
    }
    return context;
}

void *test_shared_allocate(size_t size) {
    void *memory = NULL;
    if (uf_context_allocate(memory_context(), size > 0 ? size : 1, UF_MEMORY_PINNED, &memory) !=
        UF_OK) {
        fprintf(stderr, "%s\n", uf_last_error());
        exit(2);
    }
    return memory;
}

void test_shared_free(void *memory, size_t size) {
    uf_context_release(memory_context(), memory, size > 0 ? size : 1, UF_MEMORY_PINNED);
}

void *test_allocate(size_t size) {
    void *memory = malloc(size > 0 ? size : 1);
    if (memory == NULL) {
        fprintf(stderr, "out of memory: the test asked for %zu bytes\n", size);
        exit(2);
    }
    return memory;
}

bool test_variant_wanted(const char *variant) {
    const char *wanted = getenv("UNFURL_TEST_VARIANT");
    return wanted == NULL || strcmp(wanted, variant != NULL ? variant : "chosen") == 0;
}

bool test_rows_shared(void) {
    return test_environment("UNFURL_TEST_SHARES", 1) > 1;
}

bool test_row_wanted(int64_t row) {
    return !test_rows_shared() || row % test_environment("UNFURL_TEST_SHARES", 1) ==
                                      test_environment("UNFURL_TEST_SHARE", 0);
}

int64_t test_environment(const char *name, int64_t fallback) {
    const char *text = getenv(name);
    if (text == NULL) {
        return fallback;
    }
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "%s is \"%s\", which is no number\n", name, text);
        exit(2);
    }
    return (int64_t)value;
}

const char *test_source_path(const char *name) {
    static _Thread_local char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", TEST_SOURCE_DIR, name);
    return path;
}

const char *test_data_path(const char *name) {
    char relative[1024];
    (void)snprintf(relative, sizeof relative, "tests/data/%s", name);
    return test_source_path(relative);
}
