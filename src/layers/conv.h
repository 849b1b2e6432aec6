/* conv.h - what the layers of convolution are, and calls of its three kernels, for layers. */
#ifndef UF_LAYERS_CONV_H
#define UF_LAYERS_CONV_H

#include "layers/function.h"

/* The attributes of every layer in conv.c: the tensors' extents follow from the inputs. */
typedef struct uf_conv_attributes {
    uf_conv2d_params params;
    int64_t kernel[2];
    int64_t out_channels;
    int64_t output_size[2];
    int32_t axes; /* of the image: 2, 1, or 0 for a linear layer */
    bool transposed, bias, has_output_size;
    bool by_value; /* the weight is input 1, the bias input 2 */
    bool has_like; /* the last input is there for its shape, the output's */
} uf_conv_attributes;

extern const uf_layer_function uf_conv2d_functions[], uf_conv_transpose2d_functions[],
    uf_linear_functions[]; /* conv_functions.c */

const char *uf_conv_layer_name(const uf_conv_attributes *conv);

/* (a, b) and the kernel's or image's last `axes` extents. */
uf_shape uf_conv_layer_shape(int64_t a, int64_t b, const int64_t extent[2], int32_t axes);

uf_status uf_conv_layer_run(const uf_exec *exec, uf_conv_direction direction,
                            const uf_conv_kernel_args *args);

/* Check the arguments, and raise *size to the scratch they need. */
uf_status uf_conv_layer_need(const uf_exec *exec, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, size_t *size);

#endif
