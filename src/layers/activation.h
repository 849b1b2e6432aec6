/* activation.h - the settings of an activation, for its layer and for the layer of its gradient. */
#ifndef UF_LAYERS_ACTIVATION_H
#define UF_LAYERS_ACTIVATION_H

#include "layers/layer.h"

typedef struct uf_activation_attributes {
    uf_activation activation;
    double maximum; /* of kinds with two parameters */
} uf_activation_attributes;

/* The tensor that the derivative is made from, as activations.def says: NOTHING, INPUT or RESULT.
 * The output, where it will do: fusion leaves no input, and the plan may write the output over
 * it. */
uf_activation_read uf_activation_source(const void *attributes);

/* The rule of uf_gradient (activation_backward.c). */
uf_value uf_activation_gradient(const uf_gradient_rule *rule, int32_t input);

#endif
