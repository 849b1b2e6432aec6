/* test.h - what every test file includes: cmocka, and the context a test runs on. */
#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unfurl/unfurl.h>

#define TEST_SKIPPED 77 /* the exit status that CTest takes for "skipped" */

#define COUNT_OF(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

/* Fail with the library's own message unless `call` gives UF_OK. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        const uf_status assert_ok_status = (call);                                                 \
        if (assert_ok_status != UF_OK) {                                                           \
            fail_msg("%s: %s: %s", #call, uf_status_name(assert_ok_status), uf_last_error());      \
        }                                                                                          \
    } while (0)

/* Demand that `call` fails with `status` and a message that contains every one of the words that
 * follow. */
#define assert_error(call, status, ...)                                                            \
    test_expect_error(#call, (call), (status), (const char *const[]){__VA_ARGS__, NULL})

void test_expect_error(const char *call, uf_status got, uf_status expected,
                       const char *const *words);

/* A context on the device that UNFURL_TEST_DEVICE names ("cpu", "cuda"; "cpu" when unset). Fails
 * the test when it cannot be made; test_device_or_skip has been called first. */
uf_context *test_context(int32_t threads);

/* At the top of main: TEST_SKIPPED when the wanted device is not there, else 0. */
int test_device_or_skip(void);

/* Is the device under test a GPU? */
bool test_on_gpu(void);

/* Memory that the device under test and the host both read and write at one address (on a GPU:
 * pinned host memory), 256-byte aligned; ends the process when there is none. Freed by
 * test_shared_free. */
void *test_shared_allocate(size_t size);
void test_shared_free(void *memory, size_t size);

/* malloc that ends the process with a message instead of giving NULL; for the tests' own
 * bookkeeping. */
void *test_allocate(size_t size);

/* The value of an environment variable as a number, or `fallback` when it is unset. */
int64_t test_environment(const char *name, int64_t fallback);

/* Is this convolution variant (NULL: what the library chooses, "chosen") to be tested? All are,
 * unless UNFURL_TEST_VARIANT names one: a sanitizer has no time for all of them in one process. */
bool test_variant_wanted(const char *variant);

/* Is row `row` of a table to be tested? All are, unless UNFURL_TEST_SHARES is how many processes
 * share the rows and UNFURL_TEST_SHARE, from 0 on, which of them this is. test_rows_shared: are
 * there others? */
bool test_row_wanted(int64_t row);
bool test_rows_shared(void);

/* The whole path of a file under tests/data, weights or the source tree's root; static storage of
 * the thread, overwritten by the next call. */
const char *test_data_path(const char *name);
const char *test_source_path(const char *name);

#endif
