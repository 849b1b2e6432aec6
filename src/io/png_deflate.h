/* png_deflate.h - rows in, one zlib stream out: rows are filtered and compressed in stripes side by
 * side, as pigz does it.
 *
 * Stripes are cut by the picture's shape alone, so the bytes are the same for any number of
 * threads. One thread puts rows in and takes stripes out; others help it with what lies between. */
#ifndef UF_IO_PNG_DEFLATE_H
#define UF_IO_PNG_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <unfurl/export.h>

UF_BEGIN_DECLS

typedef struct uf_png_deflate uf_png_deflate;

typedef struct uf_png_rows {
    size_t size;   /* of a row in bytes */
    size_t pixel;  /* of a pixel in bytes */
    int64_t count; /* of the picture's rows */
    bool swap;     /* samples of 16 bits that are not in the file's order */
} uf_png_rows;

/* For `threads` threads, 1 or more, the caller among them; fewer run when the system gives no more
 * or the picture has fewer stripes. All memory is allocated here, some stripes for each thread.
 * NULL when there is none. */
uf_png_deflate *uf_png_deflate_create(const uf_png_rows *rows, int32_t threads);

/* End the threads. NULL is legal, and so are stripes that nobody has taken. */
void uf_png_deflate_destroy(uf_png_deflate *deflate);

/* Copy the next `count` rows, or as many as there is room for; returns how many. */
int64_t uf_png_deflate_put(uf_png_deflate *deflate, const void *rows, int64_t count);

/* The stream's next bytes, which stay until uf_png_deflate_release. Returns false when no stripe is
 * packed, with `wait` only when none is full; the caller compresses too while it waits. A size of 0
 * says that zlib's bound of its output was too small. */
bool uf_png_deflate_next(uf_png_deflate *deflate, bool wait, const unsigned char **bytes,
                         size_t *size);

/* Make room for another stripe, after uf_png_deflate_next has given one. */
void uf_png_deflate_release(uf_png_deflate *deflate);

UF_END_DECLS

#endif
