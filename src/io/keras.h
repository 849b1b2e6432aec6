/* keras.h - the variables of a Keras file under the names and in the order of axes of a store:
 * keras.c finds them, keras_turn.c turns them, keras_config.c reads what padding="same" was. */
#ifndef UF_IO_KERAS_H
#define UF_IO_KERAS_H

#include <unfurl/keras.h>
#include <unfurl/tensor.h>

#include "core/error.h"

enum { UF_KERAS_AXES = 6 };

/* The elements of an array of these extents in the order of other axes: axis i of the result is
 * axis from[i]. */
typedef struct uf_keras_turn {
    int32_t rank; /* 0: everything stays as it is */
    int64_t extent[UF_KERAS_AXES];
    int32_t from[UF_KERAS_AXES];
} uf_keras_turn;

/* Find how a variable of shape `stored` becomes a tensor, and the shape that this has. `layer` has
 * its images and may be NULL; `wanted` is the store's tensor, which tells a depthwise kernel from
 * another, and may be NULL; a table of embeddings stays as it is. False where an image of `layer`
 * does not fit. */
bool uf_keras_find_turn(const uf_shape *stored, const uf_keras_layer *layer, const uf_shape *wanted,
                        bool is_table, uf_keras_turn *turn, uf_shape *turned);

/* Copy elements of `size` bytes in the new order. */
void uf_keras_apply_turn(const uf_keras_turn *turn, size_t size, const void *from, void *to);

/* Refuse the network of a model_config whose convolutions pad as no padding of unfurl does.
 * Overwrites the text; `path` is for messages. Errors: FORMAT (no JSON), UNSUPPORTED. */
uf_status uf_keras_check_padding(char *config, const char *path);

#endif
