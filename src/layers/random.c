/* random.c - layers that draw: dropout, dropout2d and noise. */
#include "layers/field.h"
#include "layers/function.h"

#include <math.h>

/* ---- dropout ---- */

typedef struct dropout_attributes {
    double p;
    bool channels; /* whole channels go together */
} dropout_attributes;

static const char *dropout_title(const void *attributes) {
    const dropout_attributes *dropout = attributes;
    return dropout->channels ? "dropout2d" : "dropout";
}

static uf_status dropout_infer(uf_infer *infer) {
    const dropout_attributes *dropout = infer->attributes;
    const char *name = dropout_title(dropout);
    char text[128];
    UF_CHECK_ARG(dropout->p >= 0.0 && dropout->p <= 1.0, "%s: p is %g; it must be 0 to 1", name,
                 dropout->p);
    UF_CHECK_ARG(!dropout->channels || infer->inputs[0].rank >= 3,
                 "%s: the input is %s; (N, C, ...) of rank 3 or more is needed", name,
                 uf_shape_format(&infer->inputs[0], text, sizeof text));
    infer->output = infer->inputs[0];
    return UF_OK;
}

/* Both directions: the mask is the same. */
static uf_status drop(const uf_exec *exec, const uf_view *input, const uf_view *output,
                      uf_write_mode mode) {
    const dropout_attributes *dropout = exec->attributes;
    const uf_shape *shape = exec->input_shapes[0];
    if (!exec->training) {
        return uf_layer_copy(exec, input, output, mode);
    }
    uf_dropout_kernel_args args = {
        .draw = exec->draw,
        .p = dropout->p,
        .plane = 1,
        .input = *input,
        .output = *output,
        .mode = mode,
    };
    for (int32_t i = 2; dropout->channels && i < shape->rank; ++i) {
        args.plane *= shape->extent[i];
    }
    UF_TRY(uf_dropout_check(&args));
    return exec->context->kernels->dropout(exec->context, &args);
}

static uf_status dropout_forward(const uf_exec *exec) {
    return drop(exec, &exec->inputs[0], &exec->output, UF_OVERWRITE);
}

static uf_status dropout_backward(const uf_exec *exec) {
    return drop(exec, &exec->grad_output, &exec->grad_inputs[0], exec->grad_input_modes[0]);
}

#define DROPOUT(channels_)                                                                         \
    UF_FIXED(FLAG, dropout_attributes, channels, channels_),                                       \
        UF_ARGUMENT(NUMBER, "p", dropout_attributes, p, 0.5)
static const uf_option dropout_table[] = {DROPOUT(0)}, dropout2d_table[] = {DROPOUT(1)};
#define DROPOUT_FUNCTION(name_)                                                                    \
    {                                                                                              \
        .name = #name_, .size = sizeof(dropout_attributes), .least_inputs = 1, .most_inputs = 1,   \
        UF_TABLE(name_##_table)                                                                    \
    }
static const uf_layer_function dropout_functions[] = {
    DROPOUT_FUNCTION(dropout), DROPOUT_FUNCTION(dropout2d), {0}};

const uf_layer uf_layer_dropout = {
    .name = "dropout",
    .functions = dropout_functions,
    .title = dropout_title,
    .infer = dropout_infer,
    .field = uf_field_point,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
    .draws = true,
    .fusion = UF_FUSION_IDENTITY,
};

static uf_value append_dropout(uf_graph *graph, uf_value input, double p, bool channels) {
    dropout_attributes dropout = {.p = p, .channels = channels};
    return uf_graph_append(graph, &uf_layer_dropout, &dropout, sizeof dropout, &input, 1, NULL);
}

uf_value uf_dropout(uf_graph *graph, uf_value input, double p) {
    return append_dropout(graph, input, p, false);
}

uf_value uf_dropout2d(uf_graph *graph, uf_value input, double p) {
    return append_dropout(graph, input, p, true);
}

/* ---- noise ---- */

typedef struct noise_attributes {
    uf_random_kind kind;
    double a, b; /* low, high; or mean, std */
} noise_attributes;

static const char *noise_title(const void *attributes) {
    const noise_attributes *noise = attributes;
    return noise->kind == UF_RANDOM_NORMAL ? "noise_normal_like" : "noise_uniform_like";
}

static uf_status noise_infer(uf_infer *infer) {
    const noise_attributes *noise = infer->attributes;
    const bool normal = noise->kind == UF_RANDOM_NORMAL;
    const bool finite = isfinite(noise->a) && isfinite(noise->b);
    UF_CHECK_ARG(!normal || (finite && noise->b >= 0.0),
                 "%s: mean is %g, std is %g; std must be 0 or more", noise_title(noise), noise->a,
                 noise->b);
    UF_CHECK_ARG(normal || (finite && noise->a <= noise->b),
                 "%s: low is %g, high is %g; low <= high is needed", noise_title(noise), noise->a,
                 noise->b);
    infer->output = infer->inputs[0];
    return UF_OK;
}

static uf_status noise_forward(const uf_exec *exec) {
    const noise_attributes *noise = exec->attributes;
    const uf_noise_kernel_args args = {
        .draw = exec->draw,
        .kind = noise->kind,
        .a = noise->a,
        .b = noise->b,
        .output = exec->output,
    };
    UF_TRY(uf_noise_check(&args));
    return exec->context->kernels->noise(exec->context, &args);
}

#define NOISE(kind_, a_, of_a, b_, of_b)                                                           \
    UF_FIXED(SMALL, noise_attributes, kind, kind_),                                                \
        UF_ARGUMENT(NUMBER, a_, noise_attributes, a, of_a),                                        \
        UF_ARGUMENT(NUMBER, b_, noise_attributes, b, of_b)
static const uf_option noise_normal_like_table[] = {NOISE(UF_RANDOM_NORMAL, "mean", 0, "std", 1)},
                       noise_uniform_like_table[] = {NOISE(UF_RANDOM_UNIFORM, "low", 0, "high", 1)};
#define NOISE_FUNCTION(name_)                                                                      \
    {                                                                                              \
        .name = #name_, .size = sizeof(noise_attributes), .least_inputs = 1, .most_inputs = 1,     \
        UF_TABLE(name_##_table)                                                                    \
    }
static const uf_layer_function noise_functions[] = {
    NOISE_FUNCTION(noise_normal_like), NOISE_FUNCTION(noise_uniform_like), {0}};

const uf_layer uf_layer_noise = {
    .name = "noise",
    .functions = noise_functions,
    .title = noise_title,
    .infer = noise_infer,
    .forward = noise_forward,
    .takes_gaps = true,
    .draws = true,
};

static uf_value append_noise(uf_graph *graph, uf_value like, uf_random_kind kind, double a,
                             double b) {
    noise_attributes noise = {.kind = kind, .a = a, .b = b};
    return uf_graph_append(graph, &uf_layer_noise, &noise, sizeof noise, &like, 1, NULL);
}

uf_value uf_noise_normal_like(uf_graph *graph, uf_value like, double mean, double std) {
    return append_noise(graph, like, UF_RANDOM_NORMAL, mean, std);
}

uf_value uf_noise_uniform_like(uf_graph *graph, uf_value like, double low, double high) {
    return append_noise(graph, like, UF_RANDOM_UNIFORM, low, high);
}
