/* signal.c - send a program a signal while it writes a file into the working directory.
 *
 *   cli_signal WAY SIGNAL PROGRAM ARGUMENTS...
 *
 * WAY: nameless, or named for file systems without O_TMPFILE. The signal, a number, is sent when
 * the file is opened; a program that was done before it came runs again. Prints what a shell calls
 * its status: 128 + the signal when it died of one. Status: 0; 77 where the kernel cannot do this.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "support/no_tmpfile.h"

enum { ATTEMPTS = 20, SKIPPED = 77, NO_FILTER = 126 };

/* Wait until a file in the directory is opened or `child` ends. */
static void await_file(int watch, pid_t child) {
    char events[4096];
    for (;;) {
        struct pollfd ready = {.fd = watch, .events = POLLIN};
        siginfo_t end = {0};
        if (poll(&ready, 1, 20) > 0) {
            const ssize_t size = read(watch, events, sizeof events);
            for (ssize_t at = 0; at < size;) {
                struct inotify_event event;
                memcpy(&event, events + at, sizeof event);
                if ((event.mask & IN_ISDIR) == 0) {
                    return;
                }
                at += (ssize_t)(sizeof event + event.len);
            }
        }
        if (waitid(P_PID, (id_t)child, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            end.si_pid == child) {
            return;
        }
    }
}

static int run(bool named, int number, char **words) {
    const int watch = inotify_init1(IN_CLOEXEC);
    if (watch < 0 || inotify_add_watch(watch, ".", IN_CREATE | IN_OPEN) < 0) {
        return -1;
    }
    const pid_t child = fork();
    if (child == 0) {
        if (named && !test_refuse_tmpfile()) {
            _exit(NO_FILTER);
        }
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(words[0], words);
        _exit(127);
    }
    int status = 0;
    if (child < 0) {
        return -1;
    }
    await_file(watch, child);
    kill(child, number);
    close(watch);
    if (waitpid(child, &status, 0) != child) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **words) {
    if (count < 4) {
        return 2;
    }
    int status = 0;
    for (int i = 0; i < ATTEMPTS && status == 0; ++i) {
        status = run(strcmp(words[1], "named") == 0, atoi(words[2]), words + 3);
    }
    printf("%d\n", status);
    return status < 0 || status == NO_FILTER ? SKIPPED : 0;
}
