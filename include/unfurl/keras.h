/* keras.h - what a store calls the layers of a Keras network, so that uf_weights_load and
 * uf_store_load_hdf5 can read its weights: files of Model.save_weights (".weights.h5" of Keras 3,
 * HDF5 of Keras 2) and of Model.save as ".h5". */
#ifndef UNFURL_KERAS_H
#define UNFURL_KERAS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <unfurl/export.h>

UF_BEGIN_DECLS

/* One layer of Keras, and the prefix of its tensors in the store. Keras has images as (height,
 * width, channels) and unfurl as (channels, height, width); so a Dense layer beside a Flatten or a
 * Reshape has its features in another order, and so has a norm between a Dense and a Reshape. */
typedef struct uf_keras_layer {
    const char *layer;    /* "conv2d_transpose_1"; in a model within the model "generator/dense" */
    const char *prefix;   /* "main.3", for main.3.weight and the like; NULL: it stays in the file */
    int64_t in_image[3];  /* height, width, channels that a Flatten before a Dense flattens; or 0 */
    int64_t out_image[3]; /* those that a Reshape after it makes of the features; or 0 */
    bool no_scale;        /* BatchNormalization(scale=False): its weight here becomes 1 */
    bool no_center;       /* center=False: its bias here becomes 0 */
} uf_keras_layer;

/* Variables become tensors by the names that torch.nn has: kernel, gamma, embeddings and alpha are
 * weight; bias and beta are bias; moving_mean and moving_variance are running_mean and running_var.
 * Kernels' axes are turned and nothing is flipped:
 *   Conv2D (kH, kW, in, out), Conv2DTranspose (kH, kW, out, in): axes 3, 2, 0, 1;
 *   Conv1D and Conv1DTranspose: axes 2, 1, 0;  Dense (in, out): axes 1, 0;
 *   DepthwiseConv2D (kH, kW, in, multiplier): (in * multiplier, 1, kH, kW).
 * Keras 3 numbers the variables of a layer; the store says which they are. */
typedef struct uf_keras_mapping {
    size_t struct_size;
    size_t layer_size;            /* of one of `layers` */
    const uf_keras_layer *layers; /* may be NULL */
    int32_t layer_count;
    const char *prefix; /* stands before the name of a layer that `layers` lacks, its slashes as
                           dots: "net." makes net.dense.weight; NULL: such a layer is unexpected */
    bool same_padding;  /* true: the graph does what padding="same" does, by a crop or a pad of its
                           own. false: a file of Model.save that has a convolution of
                           padding="same" for which no padding of unfurl is the same is UNSUPPORTED,
                           and the message has the two that come closest. Files of save_weights do
                           not say what padding is */
} uf_keras_mapping;

static inline uf_keras_mapping uf_keras_mapping_default(void) {
    uf_keras_mapping mapping;
    memset(&mapping, 0, sizeof mapping);
    mapping.struct_size = sizeof mapping;
    mapping.layer_size = sizeof(uf_keras_layer);
    return mapping;
}

UF_END_DECLS

#endif
