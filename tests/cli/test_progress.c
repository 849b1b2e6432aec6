/* test_progress.c - the bar of long work fits the terminal: its line is read back from the other
 * end of a pseudo-terminal. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "progress.h"

/* A terminal in the place of stderr. */
struct terminal {
    int keyboard, stderr_before;
};

static void resize(const struct terminal *terminal, unsigned short columns) {
    const struct winsize size = {.ws_col = columns, .ws_row = 24};
    assert_int_equal(ioctl(terminal->keyboard, TIOCSWINSZ, &size), 0);
}

static int set_up(void **state) {
    static struct terminal terminal;
    terminal.keyboard = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal.keyboard >= 0);
    assert_int_equal(grantpt(terminal.keyboard), 0);
    assert_int_equal(unlockpt(terminal.keyboard), 0);
    const int screen = open(ptsname(terminal.keyboard), O_RDWR | O_NOCTTY);
    assert_true(screen >= 0);
    terminal.stderr_before = dup(STDERR_FILENO);
    assert_int_equal(dup2(screen, STDERR_FILENO), STDERR_FILENO);
    close(screen);
    assert_int_equal(unsetenv("COLUMNS"), 0);
    *state = &terminal;
    return 0;
}

static int tear_down(void **state) {
    const struct terminal *terminal = *state;
    dup2(terminal->stderr_before, STDERR_FILENO);
    close(terminal->stderr_before);
    close(terminal->keyboard);
    return 0;
}

/* The next line that is drawn: what stands between "\r" and the erasing of the rest. */
static void read_line(const struct terminal *terminal, char *line, size_t size) {
    static const char erase[] = "\033[K";
    char text[8192] = "";
    size_t length = 0;
    while (strstr(text, erase) == NULL) { /* it may come in pieces */
        const ssize_t more = read(terminal->keyboard, text + length, sizeof text - 1 - length);
        assert_true(more > 0);
        length += (size_t)more;
        text[length] = '\0';
    }
    assert_string_equal(strstr(text, erase), erase);
    *strstr(text, erase) = '\0';
    const char *start = text[0] == '\r' ? text + 1 : text;
    assert_null(strchr(start, '\r'));
    const int written = snprintf(line, size, "%s", start);
    assert_true(written >= 0 && (size_t)written < size);
}

/* Draw 50 of 100 at this width, as a resize in the middle of the work. */
static void draw_half(const struct terminal *terminal, unsigned short columns, char *line,
                      size_t size) {
    char begun[1024];
    resize(terminal, 100);
    struct progress progress = progress_begin("generate", "images", 100);
    read_line(terminal, begun, sizeof begun);
    assert_int_equal(strlen(begun), 99);
    resize(terminal, columns);
    progress.drawn = 0; /* the next line is due */
    progress.start -= 10;
    progress_advance(&progress, 50);
    read_line(terminal, line, size);
    progress_end(&progress);
    read_line(terminal, begun, sizeof begun);
    assert_string_equal(begun, "");
}

static void test_fits(void **state) {
    char line[1024];
    for (unsigned short columns = 1; columns <= 300; columns++) {
        draw_half(*state, columns, line, sizeof line);
        assert_true(strlen(line) < columns);
        if (columns >= 5) {
            assert_non_null(strstr(line, " 50%"));
        }
    }
}

/* All of it where there is room, the rate first to go, the bar next. */
static void test_what_goes(void **state) {
    char line[1024];
    draw_half(*state, 120, line, sizeof line);
    assert_int_equal(strlen(line), 119);
    assert_non_null(strstr(line, "generate [#"));
    assert_non_null(strstr(line, "#.")); /* half of the bar */
    assert_non_null(strstr(line, "images/s"));
    assert_non_null(strstr(line, " left"));
    draw_half(*state, 40, line, sizeof line);
    assert_int_equal(strlen(line), 39);
    assert_non_null(strstr(line, "generate [#"));
    assert_null(strstr(line, "images/s"));
    draw_half(*state, 20, line, sizeof line);
    assert_string_equal(line, " 50%");
    draw_half(*state, 4, line, sizeof line);
    assert_string_equal(line, "");
}

/* A terminal that does not know its width: COLUMNS, else 80. */
static void test_unknown_width(void **state) {
    static const struct {
        const char *columns;
        size_t width;
    } rows[] = {{"33", 32}, {"", 79},     {"0", 79},
                {"-5", 79}, {"wide", 79}, {"99999999999999999999", 79}};
    char line[1024];
    for (int64_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(setenv("COLUMNS", rows[i].columns, 1), 0);
        draw_half(*state, 0, line, sizeof line);
        assert_int_equal(strlen(line), rows[i].width);
    }
    draw_half(*state, 50, line, sizeof line); /* the terminal knows better */
    assert_int_equal(strlen(line), 49);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_width, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
