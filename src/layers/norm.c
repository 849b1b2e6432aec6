/* norm.c - instance, group and layer norm: one kernel, which sees the tensor as norm.h says. */
#include "kernels/norm.h"

#include <inttypes.h>
#include <string.h>

#include "layers/batch_norm.h"
#include "layers/field.h"
#include "layers/function.h"
#include "layers/layer.h"

typedef struct norm_attributes {
    double eps, momentum;
    int64_t groups; /* of group norm */
    int32_t axes;   /* of layer norm: trailing ones; of instance norm: behind the channels */
    bool weight, bias, tracks;
} norm_attributes;

static int64_t extents(const uf_shape *shape, int32_t first, int32_t end) {
    int64_t count = 1;
    for (int32_t i = first; i < end; ++i) {
        count *= shape->extent[i];
    }
    return count;
}

/* ---- parameters and what forward saves: alike in all four ---- */

/* The places in uf_infer.params; -1 for what a layer does not have. */
typedef struct norm_places {
    int weight, bias, running_mean, running_var;
} norm_places;

static norm_places places_of(const norm_attributes *norm) {
    norm_places made = {-1, -1, -1, -1};
    int next = norm->tracks ? 3 : 0;
    if (norm->tracks) {
        made.running_mean = 0;
        made.running_var = 1;
    }
    made.weight = norm->weight ? next++ : -1;
    made.bias = norm->bias ? next++ : -1;
    return made;
}

static void need(uf_infer *infer, const char *name, uf_shape shape, uf_role role,
                 uf_init_rule rule) {
    infer->params[infer->param_count++] = (uf_param_need){name, shape, role, rule};
}

/* `params` is the shape of weight and bias, `statistics` how many means the input has. */
static void infer_tensors(uf_infer *infer, uf_shape params, int64_t statistics) {
    const norm_attributes *norm = infer->attributes;
    infer->output = infer->inputs[0];
    if (norm->tracks) {
        need(infer, "running_mean", params, UF_ROLE_BUFFER, UF_INIT_ZEROS);
        need(infer, "running_var", params, UF_ROLE_BUFFER, UF_INIT_ONES);
        need(infer, "num_batches_tracked", UF_SCALAR, UF_ROLE_COUNTER, UF_INIT_ZEROS);
    }
    if (norm->weight) {
        need(infer, "weight", params, UF_ROLE_PARAMETER, UF_INIT_ONES);
    }
    if (norm->bias) {
        need(infer, "bias", params, UF_ROLE_PARAMETER, UF_INIT_ZEROS);
    }
    infer->saved[0] = infer->saved[1] = UF_SHAPE(statistics);
    infer->saved_count = 2;
}

/* ---- the run, in either direction ---- */

typedef uf_norm_layout layout_function(const norm_attributes *norm, const uf_shape *input);

/* The same elements as (1, count, 1, 1). */
static uf_view in_channels(uf_view view) {
    return view.data == NULL ? view
                             : uf_view_nchw(view.data, view.dtype, 1, uf_view_count(&view), 1, 1);
}

static uf_view param_at(const uf_view *views, int place) {
    uf_view absent;
    memset(&absent, 0, sizeof absent);
    return place < 0 ? absent : in_channels(views[place]);
}

static uf_norm_kernel_args arguments(const uf_exec *exec, layout_function *layout_of) {
    const norm_attributes *norm = exec->attributes;
    const norm_places at = places_of(norm);
    uf_norm_kernel_args args;
    memset(&args, 0, sizeof args);
    args.layout = layout_of(norm, exec->input_shapes[0]);
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.weight = param_at(exec->params, at.weight);
    args.bias = param_at(exec->params, at.bias);
    args.save_mean = in_channels(exec->saved[0]);
    args.save_invstd = in_channels(exec->saved[1]);
    args.eps = norm->eps;
    args.activation = exec->epilogue.activation;
    args.running_mean = param_at(exec->params, at.running_mean);
    args.running_var = param_at(exec->params, at.running_var);
    args.momentum = norm->momentum;
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_norm_kernel_args backward_arguments(const uf_exec *exec, layout_function *layout_of) {
    const norm_places at = places_of(exec->attributes);
    uf_norm_kernel_args args = arguments(exec, layout_of);
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.grad_input_mode = exec->grad_input_modes[0];
    args.grad_weight = param_at(exec->grad_params, at.weight);
    args.grad_bias = param_at(exec->grad_params, at.bias);
    args.grad_weight_mode = exec->grad_param_modes[at.weight < 0 ? 0 : at.weight];
    args.grad_bias_mode = exec->grad_param_modes[at.bias < 0 ? 0 : at.bias];
    return args;
}

static uf_status run_forward(const uf_exec *exec, layout_function *layout_of) {
    const uf_norm_kernel_args args = arguments(exec, layout_of);
    UF_TRY(uf_norm_check(&args, false));
    return exec->context->kernels->norm_forward(exec->context, &args);
}

static uf_status run_backward(const uf_exec *exec, layout_function *layout_of) {
    const uf_norm_kernel_args args = backward_arguments(exec, layout_of);
    UF_TRY(uf_norm_check(&args, true));
    return exec->context->kernels->norm_backward(exec->context, &args);
}

static size_t scratch(const uf_exec *exec, bool of_backward, layout_function *layout_of) {
    const struct uf_kernels *kernels = exec->context->kernels;
    const uf_norm_kernel_args args =
        of_backward ? backward_arguments(exec, layout_of) : arguments(exec, layout_of);
    return of_backward ? kernels->norm_backward_workspace(exec->context, &args)
                       : kernels->norm_forward_workspace(exec->context, &args);
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1;
}

/* A layer's functions, which differ in the layout; the row of facts follows. */
#define NORM_FUNCTIONS(name)                                                                       \
    static uf_status name##_forward(const uf_exec *exec) {                                         \
        return run_forward(exec, name##_layout);                                                   \
    }                                                                                              \
    static uf_status name##_backward(const uf_exec *exec) {                                        \
        return run_backward(exec, name##_layout);                                                  \
    }                                                                                              \
    static uf_status name##_workspace(const uf_exec *exec, bool of_backward, size_t *size) {       \
        *size = scratch(exec, of_backward, name##_layout);                                         \
        return UF_OK;                                                                              \
    }

#define NORM_LAYER(layer)                                                                          \
    .name = #layer, .functions = layer##_functions, .infer = layer##_infer,                        \
    .forward = layer##_forward, .backward = layer##_backward, .workspace = layer##_workspace,      \
    .backward_reads = backward_reads, .overwrites_inputs = 1, .overwrites_gradient = true,         \
    .fusion = UF_FUSION_NORM

/* ---- the functions, for models ---- */

static void complete_affine(void *attributes) {
    norm_attributes *norm = attributes;
    norm->bias = norm->weight;
}

/* A bias comes with a weight alone. */
static void complete_elementwise(void *attributes) {
    norm_attributes *norm = attributes;
    norm->bias = norm->bias && norm->weight;
}

#define FIELD(kind, name, member, fallback) UF_FIELD(kind, name, norm_attributes, member, fallback)

#define INSTANCE(axes_)                                                                            \
    UF_FIXED(SMALL, norm_attributes, axes, axes_), FIELD(NUMBER, "eps", eps, 1e-5),                \
        FIELD(NUMBER, "momentum", momentum, 0.1), FIELD(FLAG, "affine", weight, 0),                \
        FIELD(FLAG, "track_running_stats", tracks, 0)
#define ELEMENTWISE                                                                                \
    FIELD(NUMBER, "eps", eps, 1e-5), FIELD(FLAG, "elementwise_affine", weight, 1),                 \
        FIELD(FLAG, "bias", bias, 1)

static const uf_option instance_2d[] = {INSTANCE(2)}, instance_1d[] = {INSTANCE(1)};
static const uf_option group[] = {UF_REQUIRED(INTEGER, "groups", norm_attributes, groups),
                                  FIELD(NUMBER, "eps", eps, 1e-5),
                                  FIELD(FLAG, "affine", weight, 1)};
static const uf_option of_rows[] = {UF_REQUIRED(SMALL, "axes", norm_attributes, axes), ELEMENTWISE};
static const uf_option of_pixels[] = {ELEMENTWISE};

#define FUNCTION(name_, options_, table_, complete_)                                               \
    {                                                                                              \
        .name = (name_), .size = sizeof(norm_attributes), .least_inputs = 1, .most_inputs = 1,     \
        .scope = true, .options = (options_), UF_TABLE(table_), .complete = (complete_)            \
    }

static const uf_layer_function instance_norm_functions[] = {
    FUNCTION("instance_norm2d", "uf_instance_norm_options", instance_2d, complete_affine),
    FUNCTION("instance_norm1d", "uf_instance_norm_options", instance_1d, complete_affine),
    {0},
};
static const uf_layer_function group_norm_functions[] = {
    FUNCTION("group_norm", "uf_group_norm_options", group, complete_affine), {0}};
static const uf_layer_function layer_norm_functions[] = {
    FUNCTION("layer_norm", "uf_layer_norm_options", of_rows, complete_elementwise), {0}};
static const uf_layer_function layer_norm2d_functions[] = {
    FUNCTION("layer_norm2d", "uf_layer_norm_options", of_pixels, complete_elementwise), {0}};

/* ---- group norm: (N, G, C/G * rest) ---- */

static uf_norm_layout group_norm_layout(const norm_attributes *norm, const uf_shape *input) {
    const int64_t pixels = extents(input, 2, input->rank);
    const int64_t channels = input->extent[1];
    return (uf_norm_layout){input->extent[0] * norm->groups, channels / norm->groups * pixels, 1,
                            norm->groups, pixels};
}

static uf_status group_norm_infer(uf_infer *infer) {
    const norm_attributes *norm = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank >= 2, "group_norm: the input is %s; (N, C, ...) is needed",
                 uf_shape_format(input, text, sizeof text));
    UF_CHECK_ARG(norm->groups >= 1 && input->extent[1] % norm->groups == 0,
                 "group_norm: %" PRId64 " channels do not divide into %" PRId64 " groups",
                 input->extent[1], norm->groups);
    infer_tensors(infer, UF_SHAPE(input->extent[1]), input->extent[0] * norm->groups);
    return UF_OK;
}

static bool group_norm_balances(const void *attributes, const uf_shape *input, bool training) {
    const norm_attributes *norm = attributes;
    (void)training;
    return norm->groups == input->extent[1];
}

NORM_FUNCTIONS(group_norm)
const uf_layer uf_layer_group_norm = {NORM_LAYER(group_norm),
                                      .balances_gradient = group_norm_balances};

/* ---- layer norm: (rows, row) ---- */

static uf_norm_layout layer_norm_layout(const norm_attributes *norm, const uf_shape *input) {
    const int32_t first = input->rank - norm->axes;
    return (uf_norm_layout){extents(input, 0, first), extents(input, first, input->rank), 1, 1, 1};
}

static uf_status layer_norm_infer(uf_infer *infer) {
    const norm_attributes *norm = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(norm->axes >= 1 && norm->axes <= input->rank,
                 "layer_norm: %d axes of the input %s; it must be 1 to %d", (int)norm->axes,
                 uf_shape_format(input, text, sizeof text), (int)input->rank);
    const int32_t first = input->rank - norm->axes;
    infer_tensors(infer, uf_shape_from(input->extent + first, norm->axes),
                  extents(input, 0, first));
    return UF_OK;
}

NORM_FUNCTIONS(layer_norm)
static bool layer_norm_field(const uf_field_query *query, uf_field *field) {
    const norm_attributes *norm = query->attributes;
    return norm->axes < query->back && uf_field_point(query, field);
}

/* Does a row lie in one channel of an image? */
static bool layer_norm_balances(const void *attributes, const uf_shape *input, bool training) {
    const norm_attributes *norm = attributes;
    (void)training;
    return input->rank - norm->axes >= 2;
}

const uf_layer uf_layer_layer_norm = {NORM_LAYER(layer_norm), .field = layer_norm_field,
                                      .balances_gradient = layer_norm_balances};

/* ---- layer norm over the channels of each pixel: (N, C, H*W) ---- */

static uf_norm_layout layer_norm2d_layout(const norm_attributes *norm, const uf_shape *input) {
    (void)norm;
    return (uf_norm_layout){input->extent[0], input->extent[1], extents(input, 2, 4), 1, 1};
}

static uf_status layer_norm2d_infer(uf_infer *infer) {
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 4, "layer_norm2d: the input is %s; (N, C, H, W) is needed",
                 uf_shape_format(input, text, sizeof text));
    infer_tensors(infer, UF_SHAPE(input->extent[1]), input->extent[0] * extents(input, 2, 4));
    return UF_OK;
}

NORM_FUNCTIONS(layer_norm2d)
const uf_layer uf_layer_layer_norm2d = {NORM_LAYER(layer_norm2d), .field = uf_field_point};

/* ---- instance norm: (N*C, pixels); evaluated with running statistics it is a batch norm ---- */

static uf_norm_layout instance_norm_layout(const norm_attributes *norm, const uf_shape *input) {
    const int64_t pixels = extents(input, 2, input->rank);
    (void)norm;
    return (uf_norm_layout){input->extent[0] * input->extent[1], pixels, 1, input->extent[1],
                            pixels};
}

static const char *instance_norm_title(const void *attributes) {
    const norm_attributes *norm = attributes;
    return norm->axes == 1 ? "instance_norm1d" : "instance_norm2d";
}

static uf_status instance_norm_infer(uf_infer *infer) {
    const norm_attributes *norm = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 2 + norm->axes, "%s: the input is %s; %s is needed",
                 instance_norm_title(norm), uf_shape_format(input, text, sizeof text),
                 norm->axes == 1 ? "(N, C, L)" : "(N, C, H, W)");
    const bool of_image = infer->training || !norm->tracks;
    UF_CHECK_ARG(!of_image || extents(input, 2, input->rank) > 1,
                 "%s: expected more than 1 value per channel of an image, the input is %s",
                 instance_norm_title(norm), uf_shape_format(input, text, sizeof text));
    infer_tensors(infer, UF_SHAPE(input->extent[1]), input->extent[0] * input->extent[1]);
    infer->saved_count = of_image ? 2 : 0;
    return UF_OK;
}

static bool uses_running(const uf_exec *exec) {
    const norm_attributes *norm = exec->attributes;
    return norm->tracks && !exec->training;
}

/* The call of batch norm, which evaluates with running statistics. */
static uf_batch_norm_kernel_args evaluated(const uf_norm_kernel_args *args) {
    uf_batch_norm_kernel_args made;
    memset(&made, 0, sizeof made);
    made.input = args->input;
    made.output = args->output;
    made.weight = args->weight;
    made.bias = args->bias;
    made.running_mean = args->running_mean;
    made.running_var = args->running_var;
    made.eps = args->eps;
    made.activation = args->activation;
    made.grad_output = args->grad_output;
    made.grad_input = args->grad_input;
    made.grad_input_mode = args->grad_input_mode;
    made.grad_weight = args->grad_weight;
    made.grad_bias = args->grad_bias;
    made.grad_param_mode = args->grad_weight_mode;
    made.workspace = args->workspace;
    made.workspace_size = args->workspace_size;
    return made;
}

static uf_status instance_norm_forward(const uf_exec *exec) {
    if (!uses_running(exec)) {
        return run_forward(exec, instance_norm_layout);
    }
    const uf_norm_kernel_args args = arguments(exec, instance_norm_layout);
    const uf_batch_norm_kernel_args call = evaluated(&args);
    return exec->context->kernels->batch_norm_forward(exec->context, &call);
}

static uf_status instance_norm_backward(const uf_exec *exec) {
    if (!uses_running(exec)) {
        return run_backward(exec, instance_norm_layout);
    }
    const uf_norm_kernel_args args = backward_arguments(exec, instance_norm_layout);
    const uf_batch_norm_kernel_args call = evaluated(&args);
    return uf_batch_norm_layer_backward(exec->context, &call, args.grad_bias_mode);
}

static uf_status instance_norm_workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    if (!uses_running(exec)) {
        *size = scratch(exec, of_backward, instance_norm_layout);
        return UF_OK;
    }
    const struct uf_kernels *kernels = exec->context->kernels;
    const uf_norm_kernel_args args = of_backward ? backward_arguments(exec, instance_norm_layout)
                                                 : arguments(exec, instance_norm_layout);
    const uf_batch_norm_kernel_args call = evaluated(&args);
    *size = of_backward ? kernels->batch_norm_backward_workspace(exec->context, &call)
                        : kernels->batch_norm_forward_workspace(exec->context, &call);
    return UF_OK;
}

/* With running statistics the norm is the same everywhere. */
static bool instance_norm_field(const uf_field_query *query, uf_field *field) {
    return ((const norm_attributes *)query->attributes)->tracks && uf_field_point(query, field);
}

static bool instance_norm_balances(const void *attributes, const uf_shape *input, bool training) {
    (void)input;
    return training || !((const norm_attributes *)attributes)->tracks;
}

const uf_layer uf_layer_instance_norm = {
    NORM_LAYER(instance_norm), .title = instance_norm_title, .field = instance_norm_field,
    .balances_gradient = instance_norm_balances, .has_buffer_effects = true};

/* ---- the layers as users see them ---- */

/* A layer without tensors does the same in TRAIN and in EVAL: it needs no scope. */
static uf_value append(uf_graph *graph, const uf_layer *layer, const norm_attributes *norm,
                       uf_value input, const uf_scope *scope) {
    const bool has_tensors = norm->tracks || norm->weight || norm->bias;
    return uf_graph_append(graph, layer, norm, sizeof *norm, &input, 1, has_tensors ? scope : NULL);
}

static uf_value instance_norm(uf_graph *graph, int32_t axes, uf_value input, uf_scope scope,
                              const uf_instance_norm_options *given) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    if (!uf_graph_options(graph, "uf_instance_norm_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    norm_attributes norm;
    memset(&norm, 0, sizeof norm);
    norm.eps = options.eps;
    norm.momentum = options.momentum;
    norm.axes = axes;
    norm.weight = norm.bias = options.affine;
    norm.tracks = options.track_running_stats;
    return append(graph, &uf_layer_instance_norm, &norm, input, &scope);
}

uf_value uf_instance_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                            const uf_instance_norm_options *options) {
    return instance_norm(graph, 2, input, scope, options);
}

uf_value uf_instance_norm1d(uf_graph *graph, uf_value input, uf_scope scope,
                            const uf_instance_norm_options *options) {
    return instance_norm(graph, 1, input, scope, options);
}

uf_value uf_group_norm(uf_graph *graph, uf_value input, uf_scope scope, int64_t groups,
                       const uf_group_norm_options *given) {
    uf_group_norm_options options = uf_group_norm_options_default();
    if (!uf_graph_options(graph, "uf_group_norm_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    norm_attributes norm;
    memset(&norm, 0, sizeof norm);
    norm.eps = options.eps;
    norm.groups = groups;
    norm.weight = norm.bias = options.affine;
    return append(graph, &uf_layer_group_norm, &norm, input, &scope);
}

static uf_value layer_norm(uf_graph *graph, const uf_layer *layer, int32_t axes, uf_value input,
                           uf_scope scope, const uf_layer_norm_options *given) {
    uf_layer_norm_options options = uf_layer_norm_options_default();
    if (!uf_graph_options(graph, "uf_layer_norm_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    norm_attributes norm;
    memset(&norm, 0, sizeof norm);
    norm.eps = options.eps;
    norm.axes = axes;
    norm.weight = options.elementwise_affine;
    norm.bias = options.elementwise_affine && options.bias;
    return append(graph, layer, &norm, input, &scope);
}

uf_value uf_layer_norm(uf_graph *graph, uf_value input, uf_scope scope, int32_t axes,
                       const uf_layer_norm_options *options) {
    return layer_norm(graph, &uf_layer_layer_norm, axes, input, scope, options);
}

uf_value uf_layer_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                         const uf_layer_norm_options *options) {
    return layer_norm(graph, &uf_layer_layer_norm2d, 0, input, scope, options);
}
