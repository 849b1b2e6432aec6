/* test_common.c - what the examples that train are made of: random numbers, grids, the progress
 * line on a terminal. */
/* Before cmocka.h, which has a macro of the name fail. */
#include "common/common.h"
#include "common/grid.h"
#include "common/progress.h"
#include "common/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const example_name = "test_common";

enum { DRAWS = 40000 };

/* Mean and deviation have to be those of the distribution within five standard errors. */
static void random_is_a_function_of_its_place(void **state) {
    (void)state;
    static float a[DRAWS], b[DRAWS];
    random_stream stream = random_at(7, "latents", 12), again = random_at(7, "latents", 12);
    random_normals(&stream, a, DRAWS - 1); /* an odd number */
    random_normals(&again, b, DRAWS - 1);
    assert_memory_equal(a, b, (DRAWS - 1) * sizeof a[0]);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS - 1; ++i) {
        assert_true(isfinite(a[i]));
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    assert_true(fabs(sum / DRAWS) < 5.0 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 1.0) < 5.0 * sqrt(2.0 / DRAWS));
    const random_stream others[] = {random_at(8, "latents", 12), random_at(7, "samples", 12),
                                    random_at(7, "latents", 13)};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; ++k) {
        stream = others[k];
        random_normals(&stream, b, DRAWS - 1);
        double product = 0;
        for (int i = 0; i < DRAWS - 1; ++i) {
            product += (double)a[i] * (double)b[i];
        }
        assert_true(fabs(product / DRAWS) < 5.0 / sqrt(DRAWS));
    }
}

static void random_below_reaches_all(void **state) {
    (void)state;
    random_stream stream = random_at(1, "labels", 0);
    int seen[10] = {0};
    for (int i = 0; i < DRAWS; ++i) {
        const int64_t number = random_below(&stream, 10);
        assert_in_range(number, 0, 9);
        ++seen[number];
    }
    for (int k = 0; k < 10; ++k) { /* five standard errors of a binomial number */
        assert_true(fabs(seen[k] - DRAWS / 10.0) < 5.0 * sqrt(DRAWS * 0.1 * 0.9));
    }
    assert_int_equal(random_below(&stream, 1), 0);
}

/* Three images of 2 x 3 in two columns: every pixel of the file is looked at. */
static void a_grid_of_colours(void **state) {
    (void)state;
    enum { COUNT = 3, COLUMNS = 2, CHANNELS = 3, HEIGHT = 2, WIDTH = 3, BORDER = 2 };
    enum { ACROSS = COLUMNS * (WIDTH + BORDER) + BORDER, DOWN = 2 * (HEIGHT + BORDER) + BORDER };
    float images[COUNT][CHANNELS][HEIGHT][WIDTH];
    uint8_t expected[DOWN][ACROSS][CHANNELS];
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < COUNT; ++i) {
        for (int c = 0; c < CHANNELS; ++c) {
            for (int y = 0; y < HEIGHT; ++y) {
                for (int x = 0; x < WIDTH; ++x) {
                    const int level =
                        17 * i + 80 * c + 10 * y + x - 5; /* some below 0 and above 255 */
                    images[i][c][y][x] = (float)level / 127.5f - 1.0f;
                    expected[BORDER + i / COLUMNS * (HEIGHT + BORDER) + y]
                            [BORDER + i % COLUMNS * (WIDTH + BORDER) + x][c] =
                                (uint8_t)(level < 0     ? 0
                                          : level > 255 ? 255
                                                        : level);
                }
            }
        }
    }
    images[2][2][1][2] = 9.0f;
    expected[BORDER + HEIGHT + BORDER + 1][BORDER + 2][2] = 255;
    grid_write("test_common.png", &images[0][0][0][0], COUNT, COLUMNS, CHANNELS, HEIGHT, WIDTH);
    uf_picture picture;
    must(uf_png_read("test_common.png", &picture));
    assert_int_equal(picture.width, ACROSS);
    assert_int_equal(picture.height, DOWN);
    assert_int_equal(picture.channels, CHANNELS);
    assert_memory_equal(picture.samples, expected, sizeof expected);
    uf_picture_free(&picture);
    assert_int_equal(unlink("test_common.png"), 0);
}

/* ---- the progress line, on a terminal of our own in the place of stderr ---- */

static int begin_terminal(int *saved) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        return -1;
    }
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0) {
        return -1;
    }
    *saved = dup(STDERR_FILENO);
    assert_true(*saved >= 0 && dup2(slave, STDERR_FILENO) >= 0);
    close(slave);
    return master;
}

static void resize(int master, int columns) {
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
}

/* The last line that was drawn, without what moves the cursor. */
static const char *drawn(int master, char *text, size_t size) {
    const ssize_t got = read(master, text, size - 1);
    assert_true(got > 0);
    text[got] = '\0';
    char *end = strstr(text, "\033[K");
    assert_non_null(end);
    *end = '\0';
    const char *begin = strrchr(text, '\r');
    return begin != NULL ? begin + 1 : text;
}

static void the_line_fits_its_terminal(void **state) {
    (void)state;
    static const struct {
        int columns;
        const char *line;
    } cases[] = {
        {80, "[###############...............] step 9  d 0.5  0:12 left  123 images/s"},
        {47, "[###..] step 9  d 0.5  0:12 left  123 images/s"},
        {46, "step 9  d 0.5  0:12 left  123 images/s"},
        {40, "step 9  d 0.5  0:12 left  123 images/s"},
        {38, "[#####.....] step 9  d 0.5  0:12 left"},
        {8, "step 9"},
        {6, ""},
        {1, ""},
    };
    const char *const texts[] = {"step 9", "d 0.5", "0:12 left", "123 images/s"};
    int saved = -1;
    const int master = begin_terminal(&saved);
    if (master < 0) {
        skip();
    }
    char text[2048], lines[sizeof cases / sizeof cases[0]][2048];
    progress line = progress_begin(false);
    assert_true(line.terminal);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        resize(master, cases[i].columns);
        progress_show(&line, 9, 0.5, texts, 4, true);
        snprintf(lines[i], sizeof lines[i], "%s", drawn(master, text, sizeof text));
    }
    progress_say(&line, "a sentence");
    const ssize_t said = read(master, text, sizeof text - 1);
    text[said > 0 ? said : 0] = '\0';
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(master);
    assert_string_equal(text, "\033[A\r\033[Ka sentence\r\n"); /* in place of the line */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_true((int)strlen(lines[i]) < cases[i].columns || lines[i][0] == '\0');
        assert_string_equal(lines[i], cases[i].line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_is_a_function_of_its_place),
        cmocka_unit_test(random_below_reaches_all),
        cmocka_unit_test(a_grid_of_colours),
        cmocka_unit_test(the_line_fits_its_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
