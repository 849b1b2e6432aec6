/* planes.h - kernels over the planes of an image: a unit is some rows of one image and channel. */
#ifndef UF_KERNELS_CPU_PLANES_H
#define UF_KERNELS_CPU_PLANES_H

#include "kernels/kernels.h"

/* Rows `begin` to `end` - 1 of image n, channel c of what a kernel with these arguments writes. */
typedef void uf_plane_rows(const void *arguments, int64_t n, int64_t c, int64_t begin, int64_t end);

/* All rows of `written`, by the function for its type. */
void uf_each_plane_rows(uf_context *context, const uf_view *written, const void *arguments,
                        uf_plane_rows *const functions[]);

#endif
