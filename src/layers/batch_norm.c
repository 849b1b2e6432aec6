/* batch_norm.c - BatchNorm2d and BatchNorm1d, which differ in the ranks that they take. */
#include "layers/batch_norm.h"

#include <string.h>

#include "layers/field.h"
#include "layers/function.h"
#include "layers/layer.h"

typedef struct batch_norm_attributes {
    double eps, momentum;
    int32_t axes; /* behind the channels; of 1 there may be none */
    bool affine;
} batch_norm_attributes;

static const char *title(const void *attributes) {
    const batch_norm_attributes *norm = attributes;
    return norm->axes == 1 ? "batch_norm1d" : "batch_norm2d";
}

/* The order of uf_infer.params; without affine the first two are missing. */
enum { RUNNING_MEAN = 0, RUNNING_VAR, COUNTER, WEIGHT, BIAS };

static uf_status infer(uf_infer *infer) {
    const batch_norm_attributes *norm = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 2 + norm->axes || (norm->axes == 1 && input->rank == 2),
                 "%s: the input is %s; %s is needed", title(norm),
                 uf_shape_format(input, text, sizeof text),
                 norm->axes == 1 ? "(N, C) or (N, C, L)" : "(N, C, H, W)");
    UF_CHECK_ARG(!infer->training || uf_shape_count(input) > input->extent[1],
                 "%s: expected more than 1 value per channel when training, the input is %s",
                 title(norm), uf_shape_format(input, text, sizeof text));
    const uf_shape channels = UF_SHAPE(input->extent[1]);
    infer->output = *input;
    infer->params[RUNNING_MEAN] =
        (uf_param_need){"running_mean", channels, UF_ROLE_BUFFER, UF_INIT_ZEROS};
    infer->params[RUNNING_VAR] =
        (uf_param_need){"running_var", channels, UF_ROLE_BUFFER, UF_INIT_ONES};
    infer->params[COUNTER] =
        (uf_param_need){"num_batches_tracked", UF_SCALAR, UF_ROLE_COUNTER, UF_INIT_ZEROS};
    infer->param_count = 3;
    if (norm->affine) {
        infer->params[WEIGHT] =
            (uf_param_need){"weight", channels, UF_ROLE_PARAMETER, UF_INIT_ONES};
        infer->params[BIAS] = (uf_param_need){"bias", channels, UF_ROLE_PARAMETER, UF_INIT_ZEROS};
        infer->param_count = 5;
    }
    infer->saved[0] = infer->saved[1] = channels;
    infer->saved_count = infer->training ? 2 : 0;
    return UF_OK;
}

static uf_batch_norm_kernel_args arguments(const uf_exec *exec) {
    const batch_norm_attributes *norm = exec->attributes;
    uf_batch_norm_kernel_args args;
    memset(&args, 0, sizeof args);
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.running_mean = exec->params[RUNNING_MEAN];
    args.running_var = exec->params[RUNNING_VAR];
    args.num_batches_tracked = exec->params[COUNTER].data;
    args.weight = exec->params[WEIGHT];
    args.bias = exec->params[BIAS];
    args.save_mean = exec->saved[0];
    args.save_invstd = exec->saved[1];
    args.eps = norm->eps;
    args.momentum = norm->momentum;
    args.training = exec->training;
    args.activation = exec->epilogue.activation;
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_batch_norm_kernel_args args = arguments(exec);
    return exec->context->kernels->batch_norm_forward(exec->context, &args);
}

static uf_batch_norm_kernel_args backward_arguments(const uf_exec *exec) {
    uf_batch_norm_kernel_args args = arguments(exec);
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.grad_input_mode = exec->grad_input_modes[0];
    args.grad_weight = exec->grad_params[WEIGHT];
    args.grad_bias = exec->grad_params[BIAS];
    args.grad_param_mode = exec->grad_param_modes[WEIGHT];
    return args;
}

uf_status uf_batch_norm_layer_backward(uf_context *context, const uf_batch_norm_kernel_args *args,
                                       uf_write_mode grad_bias_mode) {
    uf_batch_norm_kernel_args second = *args;
    if (args->grad_bias.data != NULL && grad_bias_mode != args->grad_param_mode) {
        uf_batch_norm_kernel_args first = *args;
        memset(&first.grad_input, 0, sizeof first.grad_input);
        memset(&first.grad_weight, 0, sizeof first.grad_weight);
        first.grad_param_mode = grad_bias_mode;
        UF_TRY(context->kernels->batch_norm_backward(context, &first));
        memset(&second.grad_bias, 0, sizeof second.grad_bias);
    }
    return context->kernels->batch_norm_backward(context, &second);
}

static uf_status backward(const uf_exec *exec) {
    const uf_batch_norm_kernel_args args = backward_arguments(exec);
    return uf_batch_norm_layer_backward(exec->context, &args, exec->grad_param_modes[BIAS]);
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1;
}

static bool balances_gradient(const void *attributes, const uf_shape *input, bool training) {
    (void)attributes;
    (void)input;
    return training;
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const uf_batch_norm_kernel_args args = of_backward ? backward_arguments(exec) : arguments(exec);
    const struct uf_kernels *kernels = exec->context->kernels;
    *size = of_backward ? kernels->batch_norm_backward_workspace(exec->context, &args)
                        : kernels->batch_norm_forward_workspace(exec->context, &args);
    return UF_OK;
}

static uf_status fold(const uf_exec *exec, const uf_view *bias, const uf_view *scale,
                      const uf_view *shift) {
    const batch_norm_attributes *norm = exec->attributes;
    uf_batch_norm_fold_kernel_args args;
    memset(&args, 0, sizeof args);
    args.running_mean = exec->params[RUNNING_MEAN];
    args.running_var = exec->params[RUNNING_VAR];
    args.weight = exec->params[WEIGHT];
    args.bias = exec->params[BIAS];
    args.input_bias = *bias;
    args.eps = norm->eps;
    args.scale = *scale;
    args.shift = *shift;
    return exec->context->kernels->batch_norm_fold(exec->context, &args);
}

#define OPTIONS(axes_)                                                                             \
    UF_FIXED(SMALL, batch_norm_attributes, axes, axes_),                                           \
        UF_FIELD(NUMBER, "eps", batch_norm_attributes, eps, 1e-5),                                 \
        UF_FIELD(NUMBER, "momentum", batch_norm_attributes, momentum, 0.1),                        \
        UF_FIELD(FLAG, "affine", batch_norm_attributes, affine, 1)

static const uf_option options_2d[] = {OPTIONS(2)}, options_1d[] = {OPTIONS(1)};

#define FUNCTION(name_, table_)                                                                    \
    {                                                                                              \
        .name = (name_), .size = sizeof(batch_norm_attributes), .least_inputs = 1,                 \
        .most_inputs = 1, .scope = true, .options = "uf_batch_norm2d_options", UF_TABLE(table_)    \
    }
static const uf_layer_function functions[] = {
    FUNCTION("batch_norm2d", options_2d), FUNCTION("batch_norm1d", options_1d), {0}};

const uf_layer uf_layer_batch_norm2d = {
    .name = "batch_norm2d",
    .functions = functions,
    .title = title,
    .infer = infer,
    .field = uf_field_point,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .balances_gradient = balances_gradient,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
    .has_buffer_effects = true,
    .fusion = UF_FUSION_SCALE,
    .fold = fold,
};

static uf_value append(uf_graph *graph, int32_t axes, uf_value input, uf_scope scope,
                       const uf_batch_norm2d_options *given) {
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    if (!uf_graph_options(graph, "uf_batch_norm2d_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    batch_norm_attributes norm;
    memset(&norm, 0, sizeof norm);
    norm.eps = options.eps;
    norm.momentum = options.momentum;
    norm.axes = axes;
    norm.affine = options.affine;
    return uf_graph_append(graph, &uf_layer_batch_norm2d, &norm, sizeof norm, &input, 1, &scope);
}

uf_value uf_batch_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                         const uf_batch_norm2d_options *options) {
    return append(graph, 2, input, scope, options);
}

uf_value uf_batch_norm1d(uf_graph *graph, uf_value input, uf_scope scope,
                         const uf_batch_norm2d_options *options) {
    return append(graph, 1, input, scope, options);
}
