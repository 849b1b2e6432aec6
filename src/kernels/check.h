/* check.h - the questions that the validators of all kernels ask. Each returns UF_OK, or an error
 * whose message begins with the kernel's name. */
#ifndef UF_KERNELS_CHECK_H
#define UF_KERNELS_CHECK_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* Least extents: N may be 0 and the rest must be 1 or more; or anything. */
extern const int64_t uf_any_batch[4];
extern const int64_t uf_any_extent[4];

const char *uf_format_view(const uf_view *view, char *text, size_t size);

/* Extents of `least` (4 of them) or more, strides >= 0 (>= 1 where a written view has several
 * elements), and no offset that overflows. */
uf_status uf_check_view(const char *kernel, const char *name, const uf_view *view, bool written,
                        const int64_t *least);
/* f32 or f64. */
uf_status uf_check_real(const char *kernel, const char *name, const uf_view *view);
/* The same or bf16, for kernels that also take tensors stored in it. */
uf_status uf_check_stored(const char *kernel, const char *name, const uf_view *view);
uf_status uf_check_same_type(const char *kernel, const char *name, const uf_view *view,
                             const char *other_name, const uf_view *other);
/* The type of a parameter, statistic, loss or their gradients beside tensors of the other's type:
 * that type, or f32 for bf16. */
uf_status uf_check_parameter_type(const char *kernel, const char *name, const uf_view *view,
                                  const char *other_name, const uf_view *other);
uf_status uf_check_same_shape(const char *kernel, const char *name, const uf_view *view,
                              const char *other_name, const uf_view *other);
/* A view of one element per channel; absent ones pass. */
uf_status uf_check_channels(const char *kernel, const char *name, const uf_view *view,
                            int64_t channels, const char *other_name, const uf_view *other);
uf_status uf_check_mode(const char *kernel, uf_write_mode mode);
/* An activation behind something else that the kernel does. */
uf_status uf_check_fused_activation(const char *kernel, const uf_activation *activation);

UF_END_DECLS

#endif
