#include "common/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1

enum { NARROWEST_BAR = 5, WIDEST_BAR = 30, STEPS_PER_LINE = 100, LONGEST_LINE = 512 };

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

progress progress_begin(bool quiet) {
    const progress line = {.quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .step = -1};
    return line;
}

/* The columns of the terminal now: asked for each line, because it may have been resized. */
static int terminal_columns(void) {
    struct winsize size;
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const int columns = known ? size.ws_col : 80;
    return columns < LONGEST_LINE ? columns : LONGEST_LINE - 1;
}

/* Append the texts to `line`, two blanks before each, as long as all has `width` columns at most.
 */
static int append(char *line, int length, int width, const char *const *texts, int count) {
    for (int i = 0; i < count; ++i) {
        const int blanks = length > 0 ? 2 : 0, more = (int)strlen(texts[i]);
        if (length + blanks + more > width) {
            break;
        }
        memset(line + length, ' ', (size_t)blanks);
        memcpy(line + length + blanks, texts[i], (size_t)more + 1);
        length += blanks + more;
    }
    return length;
}

/* The line stands above the cursor, so that a sentence of whoever ends the program has its own. */
static void draw(progress *line, double share, const char *const *texts, int count) {
    char text[LONGEST_LINE] = "", bar[WIDEST_BAR + 1] = "";
    /* The last column stays empty: a terminal goes to the next line behind it. */
    const int columns = terminal_columns() - 1;
    const int length = append(text, 0, columns, texts, count), brackets = 3;
    int width = columns - length - brackets;
    width = width < WIDEST_BAR ? width : WIDEST_BAR;
    for (int i = 0; i < width; ++i) {
        bar[i] = (double)i < share * width ? '#' : '.';
    }
    const bool barred = width >= NARROWEST_BAR;
    fprintf(stderr, "%s%s%s%s%s\033[K\n", line->open ? "\033[A\r" : "", barred ? "[" : "",
            barred ? bar : "", barred ? "] " : "", text);
    fflush(stderr);
}

void progress_show(progress *line, int64_t step, double share, const char *const *texts, int count,
                   bool last) {
    if (line->quiet) {
        return;
    }
    if (!line->terminal) {
        if ((step % STEPS_PER_LINE == 0 || last) && step != line->step) {
            char text[LONGEST_LINE] = "";
            append(text, 0, LONGEST_LINE - 1, texts, count);
            fprintf(stderr, "%s\n", text);
            line->step = step;
        }
        return;
    }
    const double now = clock_seconds();
    if (last || !line->open || now - line->drawn >= REDRAW_SECONDS) {
        draw(line, share, texts, count);
        line->drawn = now;
        line->open = true;
    }
}

void progress_say(progress *line, const char *sentence) {
    fprintf(stderr, "%s%s\n", line->open ? "\033[A\r\033[K" : "", sentence);
    line->open = false;
}
