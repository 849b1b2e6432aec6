/* guard.h - tensors in memory that notices every write outside of them.
 *
 * A guarded tensor lies in a larger block filled with a canary pattern: before it, after it, and in
 * the gaps that its strides leave. Outputs begin as NaN, so an element that is never written is not
 * finite. */
#ifndef TEST_SUPPORT_GUARD_H
#define TEST_SUPPORT_GUARD_H

#include <stdint.h>

#include <unfurl/ops.h>

#include "support/random.h"

typedef enum guard_layout {
    GUARD_NCHW = 0,   /* contiguous */
    GUARD_NHWC,       /* channels last */
    GUARD_TRANSPOSED, /* (n, c, w, h): rows and columns swapped in memory */
    GUARD_GAPS,       /* C order with unused elements at the end of every axis, as a slice has */
    GUARD_SHIFTED,    /* contiguous, from one element past a multiple of 256 bytes */
    GUARD_IMAGES,     /* contiguous images with a gap behind each, as a slice of channels has */
    GUARD_LAYOUTS
} guard_layout;

typedef struct guarded {
    uf_view view;
    unsigned char *block;
    int64_t block_bytes;
    int64_t first; /* byte of the view's first element in the block */
} guarded;

/* A guarded tensor whose elements are NaN. `random` chooses the gaps; NULL is fine for the other
 * layouts. */
guarded guard_create(uf_dtype dtype, const int64_t extent[4], guard_layout layout,
                     test_random *random);
void guard_destroy(guarded *tensor);

/* Elements in logical C order. Storing into f32 or bf16 rounds. */
void guard_store(guarded *tensor, const double *values);
void guard_load(const guarded *tensor, double *values);

/* Fail the test, naming `label`, if any byte outside of the view's elements changed. */
void assert_guard_intact(const char *label, const guarded *tensor);

/* `size` bytes of scratch, 256-byte aligned, with canaries around and NaN bits inside. */
guarded guard_scratch(size_t size);

#endif
