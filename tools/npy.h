/* npy.h - arrays as NumPy writes them.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef UF_TOOLS_NPY_H
#define UF_TOOLS_NPY_H

#include "values.h"

/* Read an array of f4, f8, i1 to i8 or u1 to u4, little-endian, in C order. */
int npy_read(const char *path, uf_dtype dtype, struct values *values);

/* Write values as f4, f8 or i8, as a whole file or none. */
int npy_write(const char *path, uf_dtype dtype, const struct values *values);

#endif
