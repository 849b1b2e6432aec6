/* weight_norm.c - values that are made of parameters alone: a parameter itself, and weights under
 * weight norm and spectral norm. */
#include "layers/weight_norm.h"

#include <inttypes.h>
#include <string.h>

#include "layers/function.h"

/* ---- parameter ---- */

typedef struct parameter_attributes {
    uf_shape shape;
    char name[UF_PARAMETER_NAME_SIZE];
    uf_init_rule init;
    int64_t fan_in; /* of UF_INIT_BIAS */
} parameter_attributes;

static uf_status parameter_infer(uf_infer *infer) {
    const parameter_attributes *own = infer->attributes;
    infer->output = own->shape;
    infer->fan_in = own->fan_in;
    infer->params[0] = (uf_param_need){own->name, own->shape, UF_ROLE_PARAMETER, own->init};
    infer->param_count = 1;
    return UF_OK;
}

static uf_status copy(const uf_exec *exec, const uf_view *input, const uf_view *output,
                      uf_write_mode mode) {
    const uf_copy_kernel_args args = {.input = *input, .output = *output, .mode = mode};
    return exec->context->kernels->copy(exec->context, &args);
}

static uf_status parameter_forward(const uf_exec *exec) {
    return copy(exec, &exec->params[0], &exec->output, UF_OVERWRITE);
}

static uf_status parameter_backward(const uf_exec *exec) {
    return copy(exec, &exec->grad_output, &exec->grad_params[0], exec->grad_param_modes[0]);
}

static const uf_option parameter_table[] = {
    UF_REQUIRED(NAME, "name", parameter_attributes, name),
    UF_REQUIRED(SHAPE, "shape", parameter_attributes, shape),
};
static const uf_layer_function parameter_functions[] = {
    {.name = "parameter",
     .size = sizeof(parameter_attributes),
     .scope = true,
     UF_TABLE(parameter_table)},
    {0},
};

const uf_layer uf_layer_parameter = {
    .name = "parameter",
    .functions = parameter_functions,
    .infer = parameter_infer,
    .forward = parameter_forward,
    .backward = parameter_backward,
    .of_parameters = true,
};

uf_value uf_parameter_layer(uf_graph *graph, uf_scope scope, const char *name, uf_shape shape,
                            uf_init_rule init, int64_t fan_in) {
    parameter_attributes own;
    memset(&own, 0, sizeof own);
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof own.name) {
        return uf_graph_reject(graph, uf_fail(UF_ERROR_INVALID_ARGUMENT,
                                              "uf_parameter: the name must have 1 to %d characters",
                                              UF_PARAMETER_NAME_SIZE - 1));
    }
    memcpy(own.name, name, strlen(name));
    own.shape = shape;
    own.init = init;
    own.fan_in = fan_in;
    return uf_graph_append(graph, &uf_layer_parameter, &own, sizeof own, NULL, 0, &scope);
}

uf_value uf_parameter(uf_graph *graph, uf_scope scope, const char *name, uf_shape shape) {
    return uf_parameter_layer(graph, scope, name, shape, UF_INIT_ZEROS, 0);
}

/* ---- weight norm and spectral norm ---- */

typedef struct norm_attributes {
    uf_shape shape;
    int32_t dim;
} norm_attributes;

#define SPECTRAL_EPS 1e-12

static uf_status check_shape(const char *name, const norm_attributes *norm) {
    char text[128];
    UF_CHECK_ARG(norm->shape.rank >= 2 && uf_shape_count(&norm->shape) > 0,
                 "%s: the weight is %s; it must have 2 axes or more, of 1 or more", name,
                 uf_shape_format(&norm->shape, text, sizeof text));
    UF_CHECK_ARG(norm->dim >= 0 && norm->dim < norm->shape.rank,
                 "%s: dim is %d; it must be 0 to %d", name, (int)norm->dim,
                 (int)norm->shape.rank - 1);
    return UF_OK;
}

static uf_weight_matrix matrix_of(const uf_exec *exec) {
    const norm_attributes *norm = exec->attributes;
    return uf_weight_matrix_of(&norm->shape, norm->dim);
}

enum { V = 0, G };

/* v comes first: the first values of g are its norms. */
static uf_status weight_norm_infer(uf_infer *infer) {
    const norm_attributes *norm = infer->attributes;
    UF_TRY(check_shape("weight_norm", norm));
    uf_shape rows = norm->shape;
    for (int32_t i = 0; i < rows.rank; ++i) {
        rows.extent[i] = i == norm->dim ? rows.extent[i] : 1;
    }
    infer->output = norm->shape;
    infer->params[V] = (uf_param_need){"weight_v", norm->shape, UF_ROLE_PARAMETER, UF_INIT_KAIMING};
    infer->params[G] = (uf_param_need){"weight_g", rows, UF_ROLE_PARAMETER, UF_INIT_NORMS};
    infer->param_count = 2;
    infer->saved[0] = UF_SHAPE(norm->shape.extent[norm->dim]);
    infer->saved_count = 1;
    return UF_OK;
}

static uf_weight_norm_kernel_args weight_norm_args(const uf_exec *exec) {
    uf_weight_norm_kernel_args args;
    memset(&args, 0, sizeof args);
    args.matrix = matrix_of(exec);
    args.v = exec->params[V];
    args.g = exec->params[G];
    args.norms = exec->saved[0];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_v = exec->grad_params[V];
    args.grad_v_mode = exec->grad_param_modes[V];
    args.grad_g = exec->grad_params[G];
    args.grad_g_mode = exec->grad_param_modes[G];
    return args;
}

static uf_status weight_norm_forward(const uf_exec *exec) {
    const uf_weight_norm_kernel_args args = weight_norm_args(exec);
    return exec->context->kernels->weight_norm_forward(exec->context, &args);
}

static uf_status weight_norm_backward(const uf_exec *exec) {
    const uf_weight_norm_kernel_args args = weight_norm_args(exec);
    return exec->context->kernels->weight_norm_backward(exec->context, &args);
}

static uf_status weight_norm_workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const uf_weight_norm_kernel_args args = weight_norm_args(exec);
    *size = 0;
    return uf_weight_norm_check(&args, of_backward);
}

static const uf_option norm_table[] = {
    UF_REQUIRED(SHAPE, "shape", norm_attributes, shape),
    UF_ARGUMENT(SMALL, "dim", norm_attributes, dim, 0),
};
static const uf_layer_function weight_norm_functions[] = {
    {.name = "weight_norm", .size = sizeof(norm_attributes), .scope = true, UF_TABLE(norm_table)},
    {0},
};

const uf_layer uf_layer_weight_norm = {
    .name = "weight_norm",
    .functions = weight_norm_functions,
    .infer = weight_norm_infer,
    .forward = weight_norm_forward,
    .backward = weight_norm_backward,
    .workspace = weight_norm_workspace,
    .of_parameters = true,
};

enum { ORIGINAL = 0, U, COLUMNS };

static uf_status spectral_norm_infer(uf_infer *infer) {
    const norm_attributes *norm = infer->attributes;
    UF_TRY(check_shape("spectral_norm", norm));
    const uf_weight_matrix matrix = uf_weight_matrix_of(&norm->shape, norm->dim);
    infer->output = norm->shape;
    infer->params[ORIGINAL] =
        (uf_param_need){"weight_orig", norm->shape, UF_ROLE_PARAMETER, UF_INIT_KAIMING};
    infer->params[U] =
        (uf_param_need){"weight_u", UF_SHAPE(matrix.rows), UF_ROLE_BUFFER, UF_INIT_UNIT};
    infer->params[COLUMNS] = (uf_param_need){"weight_v", UF_SHAPE(uf_weight_columns(&matrix)),
                                             UF_ROLE_BUFFER, UF_INIT_UNIT};
    infer->param_count = 3;
    infer->saved[0] = UF_SHAPE(uf_spectral_norm_saved(&matrix));
    infer->saved_count = 1;
    return UF_OK;
}

static uf_spectral_norm_kernel_args spectral_norm_args(const uf_exec *exec) {
    uf_spectral_norm_kernel_args args;
    memset(&args, 0, sizeof args);
    args.matrix = matrix_of(exec);
    args.weight = exec->params[ORIGINAL];
    args.u = exec->params[U];
    args.v = exec->params[COLUMNS];
    args.saved = exec->saved[0];
    args.training = exec->training;
    args.eps = SPECTRAL_EPS;
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_weight = exec->grad_params[ORIGINAL];
    args.mode = exec->grad_param_modes[ORIGINAL];
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_status spectral_norm_forward(const uf_exec *exec) {
    const uf_spectral_norm_kernel_args args = spectral_norm_args(exec);
    return exec->context->kernels->spectral_norm_forward(exec->context, &args);
}

static uf_status spectral_norm_backward(const uf_exec *exec) {
    const uf_spectral_norm_kernel_args args = spectral_norm_args(exec);
    return exec->context->kernels->spectral_norm_backward(exec->context, &args);
}

static uf_status spectral_norm_workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    uf_spectral_norm_kernel_args args = spectral_norm_args(exec);
    *size = args.workspace_size = of_backward ? uf_spectral_norm_workspace(&args.matrix) : 0;
    return uf_spectral_norm_check(&args, of_backward);
}

static const uf_layer_function spectral_norm_functions[] = {
    {.name = "spectral_norm", .size = sizeof(norm_attributes), .scope = true, UF_TABLE(norm_table)},
    {0},
};

const uf_layer uf_layer_spectral_norm = {
    .name = "spectral_norm",
    .functions = spectral_norm_functions,
    .infer = spectral_norm_infer,
    .forward = spectral_norm_forward,
    .backward = spectral_norm_backward,
    .workspace = spectral_norm_workspace,
    .of_parameters = true,
    .has_buffer_effects = true,
};

static uf_value append_norm(uf_graph *graph, const uf_layer *layer, uf_scope scope, uf_shape shape,
                            int32_t dim) {
    const norm_attributes norm = {.shape = shape, .dim = dim};
    return uf_graph_append(graph, layer, &norm, sizeof norm, NULL, 0, &scope);
}

uf_value uf_weight_norm(uf_graph *graph, uf_scope scope, uf_shape shape, int32_t dim) {
    return append_norm(graph, &uf_layer_weight_norm, scope, shape, dim);
}

uf_value uf_spectral_norm(uf_graph *graph, uf_scope scope, uf_shape shape, int32_t dim) {
    return append_norm(graph, &uf_layer_spectral_norm, scope, shape, dim);
}
