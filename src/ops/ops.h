/* ops.h - what the plain door's files share. */
#ifndef UF_OPS_OPS_H
#define UF_OPS_OPS_H

#include <unfurl/ops.h>

#include "kernels/kernels.h"

/* A context that works, and the caller's arguments over the defaults in `known` (uf_read_struct).
 */
uf_status uf_ops_begin(const char *op, uf_context *context, const char *args_name,
                       const void *given, void *known, size_t size);

/* The tensor `name` of a call must be there. */
uf_status uf_ops_require(const char *op, const char *name, const uf_view *view);

/* `view` as one element per channel: any view with one axis of `channels` elements and the others
 * of 1. An absent view stays absent. */
uf_status uf_ops_channels(const char *op, const char *name, const uf_view *view, int64_t channels,
                          uf_view *result);

/* A workspace of `needed` bytes or more, UF_ALIGNMENT-aligned. */
uf_status uf_ops_workspace(const char *op, const void *workspace, size_t size, size_t needed);

/* "(2, 3, 4, 5)" of a view's extents into `text`, which it returns. */
const char *uf_ops_extents(const uf_view *view, char *text, size_t size);

#endif
