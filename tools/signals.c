#include "signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t waiting; /* the signal; 0 when none came */
static int held;                      /* calls of signals_hold that are open */

static void on_signal(int number) {
    waiting = number;
}

void signals_begin(void) {
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

/* A signal that is ignored, as nohup's children do, stays so. */
static void replace(void (*from)(int), void (*to)(int)) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    /* Once: the second one finds the default. */
    struct sigaction action = {.sa_handler = to, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == from) {
            sigaction(numbers[i], &action, NULL);
        }
    }
}

void signals_hold(void) {
    if (held++ == 0) {
        replace(SIG_DFL, on_signal);
    }
}

bool signals_waiting(void) {
    return waiting != 0;
}

void signals_release(void) {
    if (--held > 0) {
        return;
    }
    replace(on_signal, SIG_DFL);
    if (waiting != 0) {
        raise(waiting);
    }
}
