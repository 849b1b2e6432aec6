/* field.h - which elements of its input an element of a layer's output depends on, along one axis
 * of an image: what tiling needs to know of a layer. */
#ifndef UF_LAYERS_FIELD_H
#define UF_LAYERS_FIELD_H

#include "layers/layer.h"

/* Element o reads the elements floor((o * down + low) / up) to floor((o * down + high) / up), as
 * far as they are there. `high` covers too how far an input has to reach for the output to have
 * element o. */
typedef struct uf_field {
    int64_t up, down; /* output elements on `down` of the input; 1 or more */
    int64_t low, high;
} uf_field;

/* One axis of one layer. The inputs in `tiled` (bit i) are images of the same extents, cut alike;
 * the others are whole. */
typedef struct uf_field_query {
    const void *attributes;
    const uf_shape *inputs;
    int32_t input_count;
    uint32_t tiled;
    int32_t back; /* the axis counted from the last one: 1 is the width */
} uf_field_query;

/* Element by element: activations, sums with whole values that repeat along the axis. */
bool uf_field_point(const uf_field_query *query, uf_field *field);

/* Windows of `kernel` elements, which begin `stride` apart. */
uf_field uf_field_window(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

/* Is axis number `axis` (negative: from the end) of inputs[0] the one that is tiled? */
bool uf_field_is_axis(const uf_field_query *query, int64_t axis);

#endif
