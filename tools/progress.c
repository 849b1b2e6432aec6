#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void draw(struct progress *progress, double now) {
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    double share = (double)progress->done / (double)progress->total;
    for (int i = 0; i < WIDTH; i++) {
        bar[i] = (double)i < share * WIDTH ? '#' : '.';
    }
    bar[WIDTH] = '\0';
    double elapsed = now - progress->start;
    double rate = elapsed > 0 ? (double)progress->done / elapsed : 0;
    fprintf(stderr, "\r%s [%s] %3d%%", progress->label, bar, (int)(100 * share));
    if (rate > 0) {
        double left = (double)(progress->total - progress->done) / rate;
        int seconds = left < 360000 ? (int)(left + 0.5) : 359999;
        fprintf(stderr, "  %.1f %s/s  %d:%02d left", rate, progress->unit, seconds / 60,
                seconds % 60);
    }
    fputs("\033[K", stderr); /* erase what a longer line left behind */
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
