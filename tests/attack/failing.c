/* failing.c - a shared object for LD_PRELOAD that lets one allocation of a process fail, and tells
 * how it died.
 *
 * UNFURL_ATTACK_FAIL says which call of malloc, calloc, realloc, aligned_alloc, memalign,
 * posix_memalign or pthread_create fails, counted from 1 over all libraries of the process; 0 lets
 * all succeed. UNFURL_ATTACK_REPORT names a file that receives "allocations N" at the end of the
 * process, or "died MODULE SYMBOL" (see death.h) on a deadly signal or when a library ends the
 * process by exit, as libhdf5 does. Compiled with -fno-builtin: its malloc is not the compiler's.
 */
#define _GNU_SOURCE /* RTLD_NEXT, program_invocation_short_name */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/death.h"

/* glibc's own, which nobody interposes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*start)(void *), void *argument);

typedef void exit_function(int status);

static atomic_bool counting;
static atomic_long calls;
static long failing_call;
static const char *program;
static int report = -1;
static create_function *real_create;
static exit_function *real_exit;

static bool fails(void) {
    return atomic_load(&counting) && atomic_fetch_add(&calls, 1) + 1 == failing_call;
}

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) {
    return fails() ? out_of_memory() : __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    return fails() ? out_of_memory() : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    return fails() ? out_of_memory() : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails() ? out_of_memory() : __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size) {
    return fails() ? out_of_memory() : __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    void *made = fails() ? NULL : __libc_memalign(alignment, size);
    if (made == NULL) {
        return ENOMEM;
    }
    *pointer = made;
    return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    return fails() ? EAGAIN : real_create(thread, attributes, start, argument);
}

static void write_report(const char *line, size_t length) {
    if (report >= 0 && write(report, line, length) != (ssize_t)length) {
        _exit(99);
    }
}

static void note_death(const char *module, const char *symbol) {
    char line[512];
    atomic_store(&counting, false);
    const int length = snprintf(line, sizeof line, "died %s %s\n", module, symbol);
    write_report(line, (size_t)length);
}

/* The program itself may exit; a library may not. */
void exit(int status) {
    Dl_info info;
    if (report >= 0 && dladdr(__builtin_return_address(0), &info) != 0 && info.dli_fname != NULL &&
        strcmp(death_module(info.dli_fname), program) != 0) {
        note_death(death_module(info.dli_fname), "exit");
    }
    real_exit(status);
    __builtin_unreachable();
}

/* Function pointers and data pointers are alike where there is a dlsym. */
static void find_next(const char *name, void *function) {
    void *const found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

__attribute__((constructor)) static void start(void) {
    find_next("pthread_create", &real_create);
    find_next("exit", &real_exit);
    const char *number = getenv("UNFURL_ATTACK_FAIL");
    const char *path = getenv("UNFURL_ATTACK_REPORT");
    if (number == NULL || path == NULL) {
        return;
    }
    program = program_invocation_short_name;
    failing_call = strtol(number, NULL, 10);
    report = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    death_watch(note_death);
    atomic_store(&counting, true);
}

/* This object is the first to be loaded and so the last to be finished: what others do at exit is
 * counted. */
__attribute__((destructor)) static void finish(void) {
    char line[64];
    atomic_store(&counting, false);
    const int length = snprintf(line, sizeof line, "allocations %ld\n", atomic_load(&calls));
    write_report(line, (size_t)length);
}
