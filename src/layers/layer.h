/* layer.h - what a layer is to the graph: one row of functions and facts. */
#ifndef UF_LAYERS_LAYER_H
#define UF_LAYERS_LAYER_H

#include <unfurl/layers.h>
#include <unfurl/store.h>

#include "kernels/kernels.h"

#define UF_MAX_INPUTS 8 /* of one node */
#define UF_MAX_PARAMS 5
#define UF_MAX_SAVED 2
#define UF_ATTRIBUTES_SIZE 192

/* A parameter's first values by default (uf_init_default). */
typedef enum uf_init_rule {
    UF_INIT_ZEROS = 0,
    UF_INIT_ONES,
    UF_INIT_QUARTER, /* as PyTorch's PReLU */
    UF_INIT_NORMAL,  /* mean 0, std 1, as PyTorch's Embedding */
    UF_INIT_KAIMING, /* uniform with a = sqrt(5), as PyTorch's convolutions and Linear */
    UF_INIT_BIAS,    /* uniform within 1/sqrt(fan_in) of the layer's params[0], or infer.fan_in */
    UF_INIT_NORMS,   /* the norms of the layer's params[0] over all axes that this one has not */
    UF_INIT_UNIT     /* normal, divided by its norm */
} uf_init_rule;

/* A tensor that a layer wants from its scope's store. */
typedef struct uf_param_need {
    const char *name; /* "weight"; appended to the scope's path */
    uf_shape shape;
    uf_role role;
    uf_init_rule init;
} uf_param_need;

/* Shape inference: a pure function of attributes and input shapes. `params` stays the same for
 * every legal choice of N (and H, W where the layer allows it). */
typedef struct uf_infer {
    const void *attributes;
    const uf_shape *inputs;
    int32_t input_count;
    bool training;
    /* filled by the layer: */
    uf_shape output;
    uf_param_need params[UF_MAX_PARAMS];
    int32_t param_count;
    int64_t fan_in;               /* of UF_INIT_BIAS; 0: params[0]'s */
    uf_shape saved[UF_MAX_SAVED]; /* written by forward for backward; f64 */
    int32_t saved_count;
} uf_infer;

/* One run of one layer, everything resolved. Absent views have data NULL. */
typedef struct uf_exec {
    uf_context *context;
    const void *attributes;
    uf_math math;
    bool training;
    int32_t input_count;
    /* Shapes are there in backward too, also of a view that is absent; a view has at most four
     * axes. */
    const uf_shape *input_shapes[UF_MAX_INPUTS];
    const uf_shape *output_shape;
    uf_view inputs[UF_MAX_INPUTS];
    uf_view output;
    uf_view params[UF_MAX_PARAMS]; /* in the order of uf_infer.params; counters are i64 */
    uf_view saved[UF_MAX_SAVED];
    uf_epilogue
        epilogue; /* put behind this layer by fusion, in either direction; empty otherwise */
    /* backward: a gradient that is not wanted is absent */
    uf_view grad_output;
    uf_view grad_inputs[UF_MAX_INPUTS];
    uf_write_mode grad_input_modes[UF_MAX_INPUTS];
    uf_view grad_params[UF_MAX_PARAMS];
    uf_write_mode grad_param_modes[UF_MAX_PARAMS];
    uf_draw draw; /* of a layer that draws */
    /* The packing of the convolution that `packed_conv` tells of. With UF_CONV_PACK_ONLY the call
     * makes `packed` and does nothing else. */
    uf_conv_packing packing;
    void *packed;
    void *workspace;
    size_t workspace_size;
} uf_exec;

#define UF_READS_OUTPUT (UINT32_C(1) << 31)

/* One layer of a graph, whose gradient is to become values of the graph (uf_gradient). */
typedef struct uf_gradient_rule {
    uf_graph *graph;
    const struct uf_layer *layer;
    const void *attributes;
    const uf_scope *scope; /* NULL: the layer has no parameters */
    const uf_value *inputs;
    int32_t input_count;
    uf_value output, grad_output;
} uf_gradient_rule;

/* The place of the bias among the parameters of a layer that fusion may put a scale behind. */
#define UF_PARAM_BIAS 1
/* The place of a bias that is a value among the inputs of such a layer, which then takes no
 * scale. */
#define UF_INPUT_BIAS 2

/* The ways in which fusion may take a layer. */
typedef enum uf_fusion {
    UF_FUSION_NONE = 0,
    UF_FUSION_HEAD,  /* takes a whole epilogue: scale, shift, activation */
    UF_FUSION_SCALE, /* in EVAL a scale and a shift per channel, see fold; takes an activation, in
                        backward too */
    UF_FUSION_NORM,  /* takes an activation, in backward too */
    UF_FUSION_ACTIVATION, /* it is an activation */
    UF_FUSION_IDENTITY    /* in EVAL its output is its input */
} uf_fusion;

struct uf_layer_function;
struct uf_field_query;
struct uf_field;

typedef struct uf_layer {
    const char *name;
    /* The functions of layers.h that append it (function.h). NULL: there is none. */
    const struct uf_layer_function *functions;
    /* The name by which users know it, where the attributes decide ("conv1d"). NULL: `name`. */
    const char *(*title)(const void *attributes);
    uf_status (*infer)(uf_infer *infer);
    /* In one forward run, by what infer found. NULL: none worth counting. */
    double (*multiply_adds)(const uf_infer *infer);
    /* How an axis of an image passes the layer, as it computes in EVAL (field.h). False: an element
     * depends on more than what is near it, and the image cannot be cut into tiles. NULL: always
     * false. */
    bool (*field)(const struct uf_field_query *query, struct uf_field *field);
    /* Does the layer need only each plane's sum, or mean, of an image whose last `axes` axes are
     * cut? NULL: it needs more. */
    bool (*sums_image)(const void *attributes, const uf_shape *input, int32_t axes, bool *is_mean);
    uf_status (*forward)(const uf_exec *exec);
    uf_status (*backward)(const uf_exec *exec); /* NULL: no gradient passes this layer */
    /* The convolution of a direction that reads params[0] for its w, and whose packed form of it
     * may be kept: its direction and arguments. False: the step has none. NULL: neither has. */
    bool (*packed_conv)(const uf_exec *exec, bool backward, uf_conv_direction *direction,
                        uf_conv_kernel_args *args);
    /* Scratch for a direction; NULL: none. */
    uf_status (*workspace)(const uf_exec *exec, bool backward, size_t *size);
    /* The tensors that backward reads: bit i for inputs[i], UF_READS_OUTPUT for the output. NULL:
     * nothing. */
    uint32_t (*backward_reads)(const void *attributes);
    /* Bit i: no gradient passes to inputs[i], of which only the shape counts, or in which the
     * output is constant but for jumps. backward is not asked for it. NULL: one passes to each. */
    uint32_t (*constant_inputs)(const void *attributes);
    /* Append layers that compute the gradient of inputs[input] from that of the output. NULL:
     * uf_gradient refuses the layer. */
    uf_value (*gradient)(const uf_gradient_rule *rule, int32_t input);
    /* Parameters that forward reads in the type of the inputs, bit i for params[i]: a bf16 program
     * hands over copies. backward reads those of the second mask where a gradient of an input is
     * wanted. Other parameters are read in the store's type. */
    uint32_t stored_params, backward_stored_params;
    /* Bit i: params[i] is added to every element of its channel, axis 1 (with channels_last the
     * last), and backward does no more for it than to sum the gradient of the output. */
    uint32_t channel_biases;
    /* Is the gradient of inputs[0], summed over all axes but the channels, axis 1, zero whatever
     * the output's? So it is where a norm takes its statistics from elements of one channel, and
     * from all that they hold for. NULL: it is not. */
    bool (*balances_gradient)(const void *attributes, const uf_shape *input, bool training);
    uint32_t i64_inputs;       /* bit i: inputs[i] are indices (uf_input_i64); others are real */
    bool makes_f32;            /* the output is f32 in a bf16 program: a loss */
    int32_t overwrites_inputs; /* forward may write its output over one of so many first inputs */
    bool overwrites_gradient;  /* backward may write one of grad_inputs over grad_output */
    /* The output is the inputs side by side in extent 1. Neither direction copies what is in its
     * place already. */
    bool joins_inputs;
    /* Neither direction minds gaps between the images (extent 0) of its inputs, output and their
     * gradients. */
    bool takes_gaps;
    uint32_t
        whole_inputs; /* bit i: no gaps in inputs[i] and its gradient, whatever takes_gaps says */
    /* Channels are the last axis. The layer takes gaps, and a scale by fusion, where that is axis
     * 1: in rank 2. */
    bool channels_last;
    bool shares_input; /* the output is inputs[0] under another shape; forward does nothing */
    /* The output depends on parameters alone. Without passes fusion keeps it, in EVAL, until a
     * store's version changes. */
    bool of_parameters;
    /* It has to be called in every run: a program with it is not recorded. NULL: it need not. */
    bool (*calls_every_run)(const void *attributes);
    bool has_buffer_effects; /* forward in TRAIN changes buffers or counters */
    bool draws;              /* takes random numbers */
    uf_fusion fusion;
    uf_activation (*activation)(const void *attributes); /* of FUSION_ACTIVATION */
    /* of FUSION_SCALE: write the scale and shift that stand for the layer in EVAL, with `bias` (of
     * the layer before it, may be absent) folded in. */
    uf_status (*fold)(const uf_exec *exec, const uf_view *bias, const uf_view *scale,
                      const uf_view *shift);
} uf_layer;

#define UF_LAYER(name) extern const uf_layer uf_layer_##name;
#include "layers/layers.def"
#undef UF_LAYER

static inline const char *uf_layer_title(const uf_layer *layer, const void *attributes) {
    return layer->title != NULL ? layer->title(attributes) : layer->name;
}

/* The rule of uf_gradient for a layer that is a linear function of its first input, has no
 * parameters and reads nothing backward: its backward step becomes a layer, and its forward step is
 * that one's backward (adjoint.c). */
uf_value uf_gradient_of_linear(const uf_gradient_rule *rule, int32_t input);

/* Append a node to a graph under construction. `attributes` (at most UF_ATTRIBUTES_SIZE bytes) are
 * copied. `scope` NULL: the layer has no parameters. */
uf_value uf_graph_append(uf_graph *graph, const uf_layer *layer, const void *attributes,
                         size_t attributes_size, const uf_value *inputs, int32_t input_count,
                         const uf_scope *scope);

/* output = input or output += input. In place, where the plan gave both one memory, there is
 * nothing to overwrite. */
uf_status uf_layer_copy(const uf_exec *exec, const uf_view *input, const uf_view *output,
                        uf_write_mode mode);

/* Remember a failure of the building (the first one stays) and return the invalid value. */
uf_value uf_graph_reject(uf_graph *graph, uf_status status);

/* The caller's options over the defaults in `known` (uf_read_struct). A struct of a wrong size
 * makes the graph invalid and gives false. */
bool uf_graph_options(uf_graph *graph, const char *name, const void *given, void *known,
                      size_t size);

#endif
