/* strided.h - how layers call the strided kernels: operands over a common index space. */
#ifndef UF_LAYERS_STRIDED_H
#define UF_LAYERS_STRIDED_H

#include "layers/layer.h"

/* The strides of a value of `shape` where `view` shows it: images may have gaps in between. */
void uf_layer_strides(const uf_view *view, const uf_shape *shape, int64_t stride[UF_MAX_RANK]);

/* The place of an axis that may be negative: -1 is the last one. */
uf_status uf_layer_axis(const char *layer, int32_t axis, const uf_shape *shape, int32_t *place);

/* Arguments that write over an index space; operands are added behind. The output comes first. */
uf_strided_kernel_args uf_layer_over(const uf_shape *space, uf_dtype dtype, uf_write_mode mode);
void uf_layer_operand(uf_strided_kernel_args *args, void *data, const int64_t stride[UF_MAX_RANK]);

/* Let operand `k` begin so many elements later. */
void uf_layer_advance(uf_strided_kernel_args *args, int32_t k, int64_t elements);

/* Arguments over the index space of `space`, of which `view` is the value of `shape` that is
 * written, as PyTorch broadcasts; nothing is read yet. */
uf_strided_kernel_args uf_layer_written(const uf_shape *space, const uf_view *view,
                                        const uf_shape *shape, uf_write_mode mode);

/* Let the term read one more operand. */
void uf_layer_reads(uf_strided_kernel_args *args, const uf_shape *space, const uf_view *view,
                    const uf_shape *shape);

/* Call broadcast, or reduce where the output repeats. Nothing happens where the output would be
 * copied onto itself. */
uf_status uf_layer_run_strided(const uf_exec *exec, uf_strided_kernel_args *args);

/* Raise *size to the scratch that the call needs. */
void uf_layer_strided_workspace(const uf_exec *exec, const uf_strided_kernel_args *args,
                                size_t *size);

/* Append the layer that sums `value` over the axes along which a value of like's shape would repeat
 * to fill its shape. */
uf_value uf_layer_append_sum_to_size(uf_graph *graph, uf_value value, uf_value like);

/* The rule of uf_gradient for a concat along `axis`: the part of the gradient that belongs to
 * inputs[input]. */
uf_value uf_layer_append_concat_part(const uf_gradient_rule *rule, int32_t input, int32_t axis);

#endif
