/* upsample.c - Upsample: nearest and bilinear. */
#include "layers/upsample_conv.h"

#include "layers/field.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EXTENT_LIMIT (INT64_C(1) << 40) /* keeps positions exact in f64 */

typedef struct upsample_attributes {
    bool blend, align_corners;
    int64_t size[2];
    double scale[2];
} upsample_attributes;

static const char *title(const void *attributes) {
    const upsample_attributes *upsample = attributes;
    return upsample->blend ? "upsample_bilinear" : "upsample_nearest";
}

static uf_status infer(uf_infer *infer) {
    const upsample_attributes *upsample = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    const char *name = title(upsample);
    char text[128];
    UF_CHECK_ARG(input->rank == 4, "%s: the input is %s; (N, C, H, W) is needed", name,
                 uf_shape_format(input, text, sizeof text));
    UF_CHECK_ARG(upsample->blend || !upsample->align_corners,
                 "%s: align_corners is of bilinear upsampling", name);
    const bool has_size = upsample->size[0] != 0 || upsample->size[1] != 0;
    infer->output = *input;
    for (int i = 0; i < 2; ++i) {
        const double extent = (double)input->extent[2 + i];
        UF_CHECK_ARG(!has_size || (upsample->size[i] >= 1 && upsample->size[i] < EXTENT_LIMIT),
                     "%s: size is %" PRId64 ", %" PRId64
                     "; both must be 1 or more, or both 0 for a scale",
                     name, upsample->size[0], upsample->size[1]);
        UF_CHECK_ARG(has_size || (upsample->scale[i] > 0.0 && isfinite(upsample->scale[i])),
                     "%s: scale is %g, %g; both must be above 0 and finite", name,
                     upsample->scale[0], upsample->scale[1]);
        const double scaled = has_size ? (double)upsample->size[i] : extent * upsample->scale[i];
        UF_CHECK_ARG(scaled >= 1.0 && scaled < (double)EXTENT_LIMIT && extent < EXTENT_LIMIT,
                     "%s: scale is %g, %g; the output of %s would be empty or too large", name,
                     upsample->scale[0], upsample->scale[1],
                     uf_shape_format(input, text, sizeof text));
        infer->output.extent[2 + i] = (int64_t)scaled;
    }
    return UF_OK;
}

/* Corners aligned: the first elements meet, and the last ones. Else pixels are areas; the nearest
 * is the one whose area begins there. */
static uf_resample_axis axis_of(const upsample_attributes *upsample, int i, int64_t in,
                                int64_t out) {
    if (upsample->align_corners) {
        return uf_resample_axis_of(in, out, out > 1 ? (double)(in - 1) : 0.0,
                                   out > 1 ? (double)(out - 1) : 1.0, 0.0);
    }
    const bool has_size = upsample->size[0] != 0;
    return uf_resample_axis_of(in, out, has_size ? (double)in : 1.0,
                               has_size ? (double)out : upsample->scale[i],
                               upsample->blend ? 0.5 : 0.0);
}

bool uf_layer_doubles(const uf_layer *layer, const void *attributes, const uf_shape *in,
                      const uf_shape *out) {
    const upsample_attributes *upsample = attributes;
    if (layer != &uf_layer_upsample || upsample->blend) {
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        const bool by_two = upsample->size[0] != 0 || upsample->scale[i] == 2.0;
        if (!by_two || out->extent[2 + i] != 2 * in->extent[2 + i]) {
            return false;
        }
    }
    return true;
}

static uf_resample_kernel_args arguments(const uf_exec *exec) {
    const upsample_attributes *upsample = exec->attributes;
    uf_resample_kernel_args args;
    memset(&args, 0, sizeof args);
    args.blend = upsample->blend;
    for (int i = 0; i < 2; ++i) {
        args.axis[i] = axis_of(upsample, i, exec->input_shapes[0]->extent[2 + i],
                               exec->output_shape->extent[2 + i]);
    }
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_resample_kernel_args args = arguments(exec);
    return exec->context->kernels->resample_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_resample_kernel_args args = arguments(exec);
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->resample_backward(exec->context, &args);
}

#define OPTIONS(blend_)                                                                            \
    UF_FIXED(FLAG, upsample_attributes, blend, blend_),                                            \
        UF_FIELD(PAIR, "size", upsample_attributes, size, 0),                                      \
        UF_FIELD(NUMBERS, "scale", upsample_attributes, scale, 2),                                 \
        UF_FIELD(FLAG, "align_corners", upsample_attributes, align_corners, 0)
static const uf_option nearest[] = {OPTIONS(0)}, bilinear[] = {OPTIONS(1)};
#define FUNCTION(name_)                                                                            \
    {                                                                                              \
        .name = "upsample_" #name_, .size = sizeof(upsample_attributes), .least_inputs = 1,        \
        .most_inputs = 1, .options = "uf_upsample_options", UF_TABLE(name_)                        \
    }
static const uf_layer_function functions[] = {FUNCTION(nearest), FUNCTION(bilinear), {0}};

/* By a whole number, up or down. Otherwise positions depend on where the image begins. */
static bool field(const uf_field_query *query, uf_field *field) {
    const upsample_attributes *upsample = query->attributes;
    const double scale = upsample->scale[2 - query->back];
    const int64_t up = scale >= 1.0 ? (int64_t)fmin(scale, 1e6) : 1;
    const int64_t down = scale < 1.0 ? (int64_t)fmin(round(1.0 / scale), 1e6) : 1;
    if (upsample->size[0] != 0 || upsample->align_corners || (double)up / (double)down != scale) {
        return false;
    }
    *field = (uf_field){up, down, 0, down - 1};
    if (upsample->blend) { /* (o + 1/2) * down / up - 1/2, and the element behind that */
        field->low = down > 1 ? (down - 1) / 2 : -(up / 2);
        field->high = down > 1 ? down : up / 2 + 1;
    }
    return true;
}

const uf_layer uf_layer_upsample = {
    .name = "upsample",
    .functions = functions,
    .title = title,
    .infer = infer,
    .field = field,
    .forward = forward,
    .backward = backward,
    .takes_gaps = true,
};

static uf_value append(uf_graph *graph, uf_value input, const uf_upsample_options *given,
                       bool blend) {
    uf_upsample_options options = uf_upsample_options_default();
    if (!uf_graph_options(graph, "uf_upsample_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    upsample_attributes upsample;
    memset(&upsample, 0, sizeof upsample);
    upsample.blend = blend;
    upsample.align_corners = options.align_corners;
    memcpy(upsample.size, options.size, sizeof upsample.size);
    memcpy(upsample.scale, options.scale, sizeof upsample.scale);
    return uf_graph_append(graph, &uf_layer_upsample, &upsample, sizeof upsample, &input, 1, NULL);
}

uf_value uf_upsample_nearest(uf_graph *graph, uf_value input, const uf_upsample_options *options) {
    return append(graph, input, options, false);
}

uf_value uf_upsample_bilinear(uf_graph *graph, uf_value input, const uf_upsample_options *options) {
    return append(graph, input, options, true);
}
