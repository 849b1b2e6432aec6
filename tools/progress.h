/* progress.h - how far long work is, on a terminal's stderr; on a pipe nothing is written. The line
 * is as wide as the terminal is when it is drawn: a narrow one gets no rate, then no bar. */
#ifndef UF_TOOLS_PROGRESS_H
#define UF_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; /* "upscale" */
    const char *unit;  /* "tiles" */
    int64_t total, done;
    double start, drawn; /* seconds of clock_seconds; when the line was last drawn */
    bool visible;
};

/* A steady clock. */
double clock_seconds(void);

struct progress progress_begin(const char *label, const char *unit, int64_t total);
void progress_advance(struct progress *progress, int64_t count);
void progress_end(const struct progress *progress); /* wipes the line */

#endif
