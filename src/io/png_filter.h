/* png_filter.h - the filters of PNG: a byte is stored as its difference to a prediction from its
 * neighbours. */
#ifndef UF_IO_PNG_FILTER_H
#define UF_IO_PNG_FILTER_H

#include <stddef.h>

#include <unfurl/export.h>

UF_BEGIN_DECLS

/* Filter a row of `size` bytes, whose pixels have `pixel` bytes each, with each of the five
 * filters, and keep the one with the least sum of absolute values of its bytes, as libpng does.
 * `above` is the row before, of zeros for a picture's first; `best` and `other` have room for 1 +
 * size bytes each. Returns one of these two: the filter's number and the filtered bytes. */
const unsigned char *uf_png_filter_row(const unsigned char *row, const unsigned char *above,
                                       size_t size, size_t pixel, unsigned char *best,
                                       unsigned char *other);

UF_END_DECLS

#endif
