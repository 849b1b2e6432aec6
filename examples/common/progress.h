/* progress.h - how far a training is, on stderr: a line that rewrites itself on a terminal, as wide
 * as the terminal is then; a line every 100 steps on anything else. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool quiet, terminal;
    int64_t step; /* of the last line on no terminal */
    double drawn; /* seconds of clock_seconds at which the line was last drawn */
    bool open;    /* the line above the cursor is to be drawn anew */
} progress;

double clock_seconds(void); /* a steady clock */

progress progress_begin(bool quiet);

/* Show one line: a bar with `share` of it filled, `texts` behind it, as many as fit. Terminals get
 * ten lines a second at most; `last` draws in any case. */
void progress_show(progress *line, int64_t step, double share, const char *const *texts, int count,
                   bool last);

/* A sentence in place of the progress line, which is drawn anew below it. Quiet or not. */
void progress_say(progress *line, const char *sentence);

#endif
