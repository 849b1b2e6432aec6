#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The columns of the terminal now: it may have been resized since the last line. */
static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    const char *columns = getenv("COLUMNS"); /* a serial line does not know its terminal's size */
    const long number = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return number > 0 && number <= UINT16_MAX ? (int)number : 80;
}

/* "  3.2 tiles/s  0:07 left"; empty before there is a rate. */
static void format_rate(const struct progress *progress, double elapsed, char *text, size_t size) {
    double rate = elapsed > 0 ? (double)progress->done / elapsed : 0;
    text[0] = '\0';
    if (rate > 0) {
        double left = (double)(progress->total - progress->done) / rate;
        int seconds = left < 360000 ? (int)(left + 0.5) : 359999;
        snprintf(text, size, "  %.1f %s/s  %d:%02d left", rate, progress->unit, seconds / 60,
                 seconds % 60);
    }
}

enum { NARROWEST_BAR = 5 };

/* The columns that the rest of the line leaves for the bar. A rate that leaves none is emptied. */
static int fit(int columns, const char *label, char *rate) {
    const int percent = 4, brackets = 4; /* "100%", " [" and "] " */
    const int fixed = (int)strlen(label) + brackets + percent;
    if (columns - fixed - (int)strlen(rate) < NARROWEST_BAR) {
        rate[0] = '\0';
    }
    return columns - fixed - (int)strlen(rate);
}

static void draw(struct progress *progress, double now) {
    char rate[96], bar[512];
    const double share = (double)progress->done / (double)progress->total;
    const int percent = (int)(100 * share);
    /* The last column stays empty: a terminal goes to the next line behind it. */
    const int columns = terminal_columns() - 1;
    format_rate(progress, now - progress->start, rate, sizeof rate);
    int width = fit(columns, progress->label, rate);
    width = width < (int)sizeof bar - 1 ? width : (int)sizeof bar - 1;
    for (int i = 0; i < width; i++) {
        bar[i] = (double)i < share * width ? '#' : '.';
    }
    char line[1024] = "";
    if (width >= NARROWEST_BAR) {
        snprintf(line, sizeof line, "%s [%.*s] %3d%%%s", progress->label, width, bar, percent,
                 rate);
    } else if (columns >= 4) {
        snprintf(line, sizeof line, "%3d%%", percent);
    }
    /* In one piece, against flicker; then erase what a longer line left behind. */
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    progress->drawn = now;
}

struct progress progress_begin(const char *label, const char *unit, int64_t total) {
    struct progress progress = {.label = label, .unit = unit, .total = total};
    progress.visible = total > 0 && isatty(STDERR_FILENO) == 1;
    progress.start = clock_seconds();
    if (progress.visible) {
        draw(&progress, progress.start);
    }
    return progress;
}

void progress_advance(struct progress *progress, int64_t count) {
    progress->done += count;
    if (!progress->visible) {
        return;
    }
    double now = clock_seconds();
    if (now - progress->drawn >= REDRAW_SECONDS || progress->done >= progress->total) {
        draw(progress, now);
    }
}

void progress_end(const struct progress *progress) {
    if (progress->visible) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
