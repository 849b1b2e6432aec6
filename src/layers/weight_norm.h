/* weight_norm.h - parameters as values, for layers that take these. */
#ifndef UF_LAYERS_WEIGHT_NORM_H
#define UF_LAYERS_WEIGHT_NORM_H

#include "layers/layer.h"

#define UF_PARAMETER_NAME_SIZE 64

/* uf_parameter with another rule for its first values; `fan_in` is of UF_INIT_BIAS. */
uf_value uf_parameter_layer(uf_graph *graph, uf_scope scope, const char *name, uf_shape shape,
                            uf_init_rule init, int64_t fan_in);

#endif
