/* upsample.c - nearest upsampling by 2 becomes a part of the convolution behind it, which then is a
 * transposed convolution (layers/upsample_conv.h). Where the upsampling was, a step makes its
 * weight of the convolution's; that is kept until a store's version changes. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

#include "layers/upsample_conv.h"

/* Let the step run `layer` in place of its node's, with its node's parameters. */
static uf_status replace_layer(uf_step *step, const uf_node *node, const uf_layer *layer,
                               const uf_conv_attributes *attributes) {
    step->own_node = malloc(sizeof *step->own_node);
    if (step->own_node == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    *step->own_node = *node;
    step->own_node->layer = layer;
    memcpy(step->own_node->attributes.bytes, attributes, sizeof *attributes);
    step->node = step->own_node;
    return UF_OK;
}

/* The step of an upsampling, and that of the convolution that alone reads it. */
static uf_status merge(uf_program *program, int32_t *readers, uf_step *before, uf_step *conv,
                       const uf_conv_attributes *made) {
    const uf_node *node = conv->node;
    const uf_shape *old = &program->values[conv->inputs[0]].shape;
    const uf_shape weight =
        UF_SHAPE(old->extent[1], made->out_channels, made->kernel[0], made->kernel[1]);
    const int32_t small = before->inputs[0];
    int32_t value;
    UF_TRY(
        uf_program_add_value(program, program->values[conv->output].dtype, &weight, true, &value));
    UF_TRY(replace_layer(conv, node, &uf_layer_conv_transpose2d, made));
    UF_TRY(replace_layer(before, node, &uf_layer_doubled_weight, made));
    conv->own_node->inputs[0] = conv->inputs[0] = small;
    conv->params[0] = value;
    before->own_node->input_count = before->input_count = 0;
    before->own_node->param_count = 1;
    before->own_node->output = before->output = value;
    before->inputs[0] = 0;
    before->kept = true;
    if (readers[small] >= 0) {
        readers[small] = (int32_t)(conv - program->steps);
    }
    return UF_OK;
}

uf_status uf_program_merge_upsampling(uf_program *program, int32_t *readers) {
    /* A merged weight has a value of its own, which `readers` does not know. */
    const int32_t steps = program->pass_count == 0 ? program->step_count : 0;
    for (int32_t s = 0; s < steps; ++s) {
        uf_step *step = &program->steps[s];
        const uf_node *node = step->node;
        if (step->kind != UF_STEP_FORWARD || step->removed || readers[step->output] < 0 ||
            !uf_layer_doubles(node->layer, node->attributes.bytes,
                              &program->values[step->inputs[0]].shape,
                              &program->values[step->output].shape)) {
            continue;
        }
        uf_step *conv = &program->steps[readers[step->output]];
        uf_conv_attributes made;
        if (conv->inputs[0] == step->output &&
            uf_layer_behind_doubling(conv->node->layer, conv->node->attributes.bytes, &made)) {
            UF_TRY(merge(program, readers, step, conv, &made));
        }
    }
    return UF_OK;
}
