/* allocations.c - see allocations.h. Must be compiled with -fno-builtin: its malloc is not the
 * compiler's. */
#include "allocations.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_bool counting;
static atomic_long calls;

/* Where the driver's libraries lie; found before the counting begins. */
enum { MOST_SEGMENTS = 64 };
static struct { uintptr_t begin, end; } driver[MOST_SEGMENTS];
static int driver_segments;

static int note_driver(struct dl_phdr_info *object, size_t size, void *user) {
    (void)size;
    (void)user;
    if (strstr(object->dlpi_name, "libcuda.so") == NULL &&
        strstr(object->dlpi_name, "libnvidia-") == NULL) {
        return 0;
    }
    for (int i = 0; i < object->dlpi_phnum && driver_segments < MOST_SEGMENTS; ++i) {
        if (object->dlpi_phdr[i].p_type == PT_LOAD) {
            driver[driver_segments].begin =
                (uintptr_t)object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
            driver[driver_segments].end =
                driver[driver_segments].begin + object->dlpi_phdr[i].p_memsz;
            ++driver_segments;
        }
    }
    return 0;
}

void allocations_count(void) {
    atomic_fetch_add(&calls, 1);
}

/* `caller`: the address that the interposed function returns to. */
static void count(const void *caller) {
    if (!atomic_load(&counting)) {
        return;
    }
    for (int i = 0; i < driver_segments; ++i) {
        if ((uintptr_t)caller >= driver[i].begin && (uintptr_t)caller < driver[i].end) {
            return;
        }
    }
    allocations_count();
}

#define COUNT() count(__builtin_return_address(0))

/* glibc's own, which nobody interposes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *pointer);

void *malloc(size_t size) {
    COUNT();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    COUNT();
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    COUNT();
    return __libc_realloc(old, size);
}

void free(void *pointer) {
    COUNT();
    __libc_free(pointer);
}

void *aligned_alloc(size_t alignment, size_t size) {
    COUNT();
    return __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size) {
    COUNT();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    COUNT();
    *pointer = __libc_memalign(alignment, size);
    return *pointer != NULL ? 0 : ENOMEM;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    COUNT();
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

void allocations_start(void) {
    driver_segments = 0;
    (void)dl_iterate_phdr(note_driver, NULL);
    atomic_store(&calls, 0);
    atomic_store(&counting, true);
}

long allocations_stop(void) {
    atomic_store(&counting, false);
    return atomic_load(&calls);
}
