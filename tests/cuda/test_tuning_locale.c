/* test_tuning_locale.c - the file of tuned convolutions is the same in a locale that writes 0,25.
 */
#include "support/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/conv/select/autotune.h"

#define DEVICE "Some GPU (CUDA)"

static char directory[] = "/tmp/unfurl-locale-XXXXXX";
static char path[64];

/* Make German's locale, since a machine need not have it, and take it. False where localedef or its
 * sources are missing. */
static bool decimal_comma(void) {
    char command[256];
    (void)snprintf(command, sizeof command,
                   "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", directory);
    return system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 &&
           setlocale(LC_ALL, "de_DE.UTF-8") != NULL && *localeconv()->decimal_point == ',';
}

static void write_and_read(double ms) {
    uf_conv_tuning tuning = {0}, loaded = {0};
    uf_conv_tuned row;
    const char *ignored;
    memset(&row, 0, sizeof row);
    row.key.direction = 1;
    row.ms = ms;
    assert_ok(uf_conv_tuning_set(&tuning, &row));
    assert_ok(uf_conv_tuning_write(&tuning, DEVICE, path));
    assert_ok(uf_conv_tuning_read(&loaded, DEVICE, path, &ignored));
    assert_int_equal(loaded.count, 1);
    assert_true(loaded.rows[0].ms == ms);
    uf_conv_tuning_release(&tuning);
    uf_conv_tuning_release(&loaded);
}

static void file_text(char *text, size_t size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
}

static void test_comma(void **state) {
    char plain[1024], german[1024], shown[16];
    (void)state;
    assert_non_null(setlocale(LC_ALL, "C"));
    write_and_read(0.25);
    file_text(plain, sizeof plain);
    assert_non_null(strstr(plain, " ms 0.25\n"));
    assert_non_null(setlocale(LC_ALL, "de_DE.UTF-8"));
    write_and_read(0.25);
    file_text(german, sizeof german);
    assert_string_equal(german, plain);
    /* The program's own numbers are as it wants them. */
    (void)snprintf(shown, sizeof shown, "%.2f", 0.25);
    assert_string_equal(shown, "0,25");
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_comma)};
    char command[128];
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/tuning.txt", directory);
    const int result = decimal_comma() ? cmocka_run_group_tests(tests, NULL, NULL) : TEST_SKIPPED;
    (void)snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) == 0 ? result : 1;
}
