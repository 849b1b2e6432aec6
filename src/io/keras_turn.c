/* keras_turn.c - from Keras's order of axes, (height, width, channels), to that of a store. */
#include "io/keras.h"

#include <string.h>

#include "core/tensor.h"

/* An axis of features as the axes of the image that they are in Keras: height, width, channels. */
static bool split_axis(int64_t count, const int64_t image[3], uf_keras_turn *turn) {
    int64_t area;
    if (image == NULL || image[0] == 0) {
        turn->extent[turn->rank++] = count;
        return true;
    }
    for (int i = 0; i < 3; ++i) {
        if (image[i] < 1) {
            return false;
        }
        turn->extent[turn->rank++] = image[i];
    }
    return !uf_mul_overflows(image[0], image[1], &area) &&
           !uf_mul_overflows(area, image[2], &area) && area == count;
}

/* Axes `at` to the end of the result are those of a feature axis that begins at `first`: channels
 * come first. */
static int32_t take_axis(uf_keras_turn *turn, int32_t at, int32_t first, int32_t axes) {
    if (axes == 3) {
        turn->from[at++] = first + 2;
    }
    turn->from[at++] = first;
    if (axes == 3) {
        turn->from[at++] = first + 1;
    }
    return at;
}

/* A vector, and the (in, out) of a Dense. */
static bool turn_features(const uf_shape *stored, const uf_keras_layer *layer,
                          uf_keras_turn *turn) {
    const int64_t *in = layer != NULL && stored->rank == 2 ? layer->in_image : NULL;
    const int64_t *out = layer != NULL ? layer->out_image : NULL;
    if (stored->rank == 2 && !split_axis(stored->extent[0], in, turn)) {
        return false;
    }
    const int32_t in_axes = turn->rank;
    if (!split_axis(stored->extent[stored->rank - 1], out, turn)) {
        return false;
    }
    const int32_t at = take_axis(turn, 0, in_axes, turn->rank - in_axes);
    if (stored->rank == 2) {
        (void)take_axis(turn, at, 0, in_axes);
    }
    return true;
}

/* The order of axes of a kernel: the window's in front go behind. */
static void turn_kernel(const uf_shape *stored, const int32_t *from, uf_keras_turn *turn) {
    turn->rank = stored->rank;
    for (int32_t i = 0; i < stored->rank; ++i) {
        turn->extent[i] = stored->extent[i];
        turn->from[i] = from[i];
    }
}

bool uf_keras_find_turn(const uf_shape *stored, const uf_keras_layer *layer, const uf_shape *wanted,
                        bool is_table, uf_keras_turn *turn, uf_shape *turned) {
    static const int32_t window1[] = {2, 1, 0}, window2[] = {3, 2, 0, 1},
                         depthwise[] = {2, 3, 0, 1};
    const int64_t *e = stored->extent;
    memset(turn, 0, sizeof *turn);
    *turned = *stored;
    if (stored->rank == 3 && e[0] == 1 && e[1] == 1) { /* PReLU's slopes, shared by all pixels */
        *turned = UF_SHAPE(e[2]);
    } else if (stored->rank == 3) {
        turn_kernel(stored, window1, turn);
        *turned = UF_SHAPE(e[2], e[1], e[0]);
    } else if (stored->rank == 4) {
        const uf_shape plain = UF_SHAPE(e[3], e[2], e[0], e[1]);
        int64_t channels;
        const bool is_depthwise = wanted != NULL && !uf_shape_equal(wanted, &plain) &&
                                  wanted->rank == 4 && wanted->extent[1] == 1 &&
                                  !uf_mul_overflows(e[2], e[3], &channels);
        turn_kernel(stored, is_depthwise ? depthwise : window2, turn);
        *turned = is_depthwise ? UF_SHAPE(channels, 1, e[0], e[1]) : plain;
    } else if ((stored->rank == 1 || stored->rank == 2) && !is_table) {
        if (stored->rank == 2) {
            *turned = UF_SHAPE(e[1], e[0]);
        }
        return turn_features(stored, layer, turn);
    }
    return true;
}

void uf_keras_apply_turn(const uf_keras_turn *turn, size_t size, const void *from, void *to) {
    int64_t stride[UF_KERAS_AXES], at[UF_KERAS_AXES] = {0}, count = 1, offset = 0;
    for (int32_t i = turn->rank - 1; i >= 0; --i) {
        stride[i] = count;
        count *= turn->extent[i];
    }
    for (int64_t done = 0; done < count; ++done) {
        memcpy((char *)to + (size_t)done * size, (const char *)from + (size_t)offset * size, size);
        for (int32_t i = turn->rank - 1; i >= 0; --i) { /* the next element, the last axis first */
            const int32_t axis = turn->from[i];
            offset += stride[axis];
            if (++at[i] < turn->extent[axis]) {
                break;
            }
            offset -= at[i] * stride[axis];
            at[i] = 0;
        }
    }
}
