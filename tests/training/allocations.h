/* allocations.h - counts what a program allocates. allocations.c defines malloc and its friends for
 * the whole process, hands them to the C library and counts every call between start and stop,
 * whichever thread or library makes it; but not those that an NVIDIA driver makes inside its own
 * libraries. */
#ifndef TEST_TRAINING_ALLOCATIONS_H
#define TEST_TRAINING_ALLOCATIONS_H

void allocations_start(void);

/* Ends the counting: how often malloc, calloc, realloc, aligned_alloc, memalign, posix_memalign,
 * mmap and free were called. */
long allocations_stop(void);

/* One more, for functions that other test code interposes. */
void allocations_count(void);

#endif
