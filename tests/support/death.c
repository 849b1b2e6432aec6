/* death.c - see death.h. */
#define _GNU_SOURCE /* dladdr */
#include "support/death.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>

static death_note *on_death_note;

const char *death_module(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Code that merely carries out what its caller asked: memcpy, abort, an interceptor, tests/attack's
 * malloc. */
static int is_carrier(const char *module) {
    static const char *const carriers[] = {"libc.so",    "libc-",      "libasan",
                                           "libubsan",   "libpthread", "ld-linux",
                                           "linux-vdso", "libm.",      "libattack_failing"};
    for (size_t i = 0; i < sizeof carriers / sizeof carriers[0]; ++i) {
        if (strncmp(module, carriers[i], strlen(carriers[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Frame 0 is this function, frame 1 the C library's return from a signal handler. Not all that is
 * called here is promised to work in a handler; the process is dying anyway, and its parent ends a
 * hang. */
static void on_death(int signal_number) {
    void *frames[64];
    const int count = backtrace(frames, 64);
    const char *module = "unknown", *symbol = "unknown";
    for (int i = 2; i < count; ++i) {
        Dl_info info;
        if (dladdr(frames[i], &info) != 0 && info.dli_fname != NULL &&
            !is_carrier(death_module(info.dli_fname))) {
            module = death_module(info.dli_fname);
            symbol = info.dli_sname != NULL ? info.dli_sname : symbol;
            break;
        }
    }
    on_death_note(module, symbol);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void death_watch(death_note *note) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    static char stack[1 << 16]; /* an overflowing stack has no room for a handler */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    void *frame;
    on_death_note = note;
    (void)backtrace(&frame, 1); /* its first call loads a library */
    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; ++i) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_death;
        action.sa_flags = SA_ONSTACK | (int)SA_RESETHAND;
        sigaction(deadly[i], &action, NULL);
    }
}
