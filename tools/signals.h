/* signals.h - signals and files that are being written. */
#ifndef UF_TOOLS_SIGNALS_H
#define UF_TOOLS_SIGNALS_H

#include <stdbool.h>

/* At the start: a limit on the size of files (SIGXFSZ) and a reader that has gone (SIGPIPE) become
 * errors of the write that meets them. */
void signals_begin(void);

/* Between the two the first SIGHUP, SIGINT or SIGTERM waits, so that no temporary file is left; a
 * second one ends the process at once. signals_release ends it by the signal that waits. Pairs of
 * them may lie within others, and then the outermost counts. */
void signals_hold(void);
void signals_release(void);

/* Has a signal come since signals_hold? Long work asks, cleans up and ends. */
bool signals_waiting(void);

#endif
