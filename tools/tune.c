/* tune.c - `unfurl tune`: measure which kernels compute a convolution layer fastest, and keep that
 * in a file. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "runtime.h"
#include "signals.h"

struct tune_arguments {
    const char *path;
    int64_t kernel[2], stride[2], padding[2], output_padding[2], dilation[2], size[2];
    int32_t layer, math, dtype;
    int64_t batch, in_channels, out_channels, groups;
    bool json;
};

static const char *const layers[] = {"conv_transpose2d", "conv2d", NULL};
static const struct {
    const char *name;
    uf_conv2d_operation transposed, plain;
} operations[] = {
    {"forward", UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, UF_OPERATION_CONV2D_FORWARD},
    {"backward_input", UF_OPERATION_CONV_TRANSPOSE2D_BACKWARD_INPUT,
     UF_OPERATION_CONV2D_BACKWARD_INPUT},
    {"backward_weight", UF_OPERATION_CONV_TRANSPOSE2D_BACKWARD_WEIGHT,
     UF_OPERATION_CONV2D_BACKWARD_WEIGHT},
};
enum { OPERATIONS = (int)(sizeof operations / sizeof operations[0]) };

/* A view of no memory; one that could not be addressed is refused. */
static int make_view(const char *what, uf_dtype dtype, const int64_t extent[4], uf_view *view) {
    const uf_shape shape = uf_shape_from(extent, 4);
    if (uf_shape_count(&shape) < 1) {
        char text[128];
        return fail("tune: the layer's %s is %s: it must have from 1 to 2^62 elements", what,
                    uf_shape_format(&shape, text, sizeof text));
    }
    *view = uf_view_nchw(NULL, dtype, extent[0], extent[1], extent[2], extent[3]);
    return EXIT_DONE;
}

/* All views that the three operations name; what one of them does not read is not looked at. */
static int make_call(const struct tune_arguments *arguments, uf_conv2d_args *args) {
    const bool transposed = arguments->layer == 0;
    const int64_t *size = arguments->size, *kernel = arguments->kernel;
    const int64_t n = arguments->batch, groups = arguments->groups;
    const int64_t c = arguments->in_channels, k = arguments->out_channels;
    const uf_dtype dtype = arguments->dtype == 1 ? UF_F64 : UF_F32;
    int64_t out[2];
    if (c % groups != 0 || k % groups != 0) {
        return fail_usage("tune: --groups %" PRId64 " must divide --in %" PRId64
                          " and --out %" PRId64,
                          groups, c, k);
    }
    *args = uf_conv2d_args_default();
    args->math = (uf_math)arguments->math;
    args->params.groups = groups;
    memcpy(args->params.stride, arguments->stride, sizeof args->params.stride);
    memcpy(args->params.padding, arguments->padding, sizeof args->params.padding);
    memcpy(args->params.output_padding, arguments->output_padding,
           sizeof args->params.output_padding);
    memcpy(args->params.dilation, arguments->dilation, sizeof args->params.dilation);
    TRY_LIBRARY(transposed ? uf_conv_transpose2d_output_size(&args->params, size, kernel, out)
                           : uf_conv2d_output_size(&args->params, size, kernel, out));
    const int64_t input[4] = {n, c, size[0], size[1]}, output[4] = {n, k, out[0], out[1]};
    const int64_t weight[4] = {transposed ? c : k, (transposed ? k : c) / groups, kernel[0],
                               kernel[1]};
    TRY(make_view("input", dtype, input, &args->input));
    TRY(make_view("output", dtype, output, &args->output));
    TRY(make_view("weight", dtype, weight, &args->weight));
    args->grad_input = args->input;
    args->grad_output = args->output;
    args->grad_weight = args->weight;
    return EXIT_DONE;
}

static void report(struct json *json, bool as_json, const char *operation,
                   const uf_tuning_result *result) {
    if (!as_json) {
        say("%-16s %s:%" PRId32 " %9.4f ms   untuned %s:%" PRId32 " %9.4f ms   %" PRId32
            " candidates",
            operation, result->variant, result->tile, result->ms, result->untuned,
            result->untuned_tile, result->untuned_ms, result->candidates);
        return;
    }
    json_open(json, NULL, '{');
    json_text(json, "operation", operation);
    json_text(json, "variant", result->variant);
    json_integer(json, "tile", result->tile);
    json_number(json, "ms", result->ms);
    json_text(json, "untuned", result->untuned);
    json_integer(json, "untuned_tile", result->untuned_tile);
    json_number(json, "untuned_ms", result->untuned_ms);
    json_integer(json, "candidates", result->candidates);
    json_close(json, '}');
}

static int tune(uf_context *context, const struct tune_arguments *arguments,
                const uf_conv2d_args *args) {
    /* A file that is not there yet is begun. */
    const uf_status loaded = uf_tuning_load(context, arguments->path);
    if (loaded != UF_OK && loaded != UF_ERROR_NOT_FOUND) {
        return fail_library();
    }
    uf_tuning_result results[OPERATIONS];
    for (int i = 0; i < OPERATIONS; i++) {
        const uf_conv2d_operation operation =
            arguments->layer == 0 ? operations[i].transposed : operations[i].plain;
        TRY_LIBRARY(uf_tuning_conv2d(context, operation, args, &results[i]));
    }
    signals_hold();
    const uf_status saved = uf_tuning_save(context, arguments->path);
    signals_release();
    TRY_LIBRARY(saved);
    struct json json = json_begin(stdout);
    if (arguments->json) {
        json_open(&json, NULL, '{');
        json_text(&json, "file", arguments->path);
        json_text(&json, "device", uf_context_description(context));
        json_open(&json, "operations", '[');
    }
    for (int i = 0; i < OPERATIONS; i++) {
        report(&json, arguments->json, operations[i].name, &results[i]);
    }
    if (arguments->json) {
        json_close(&json, ']');
        json_close(&json, '}');
    }
    return EXIT_DONE;
}

static int tune_run(const void *parsed) {
    const struct tune_arguments *arguments = parsed;
    uf_conv2d_args args;
    TRY(make_call(arguments, &args));
    const struct run_options options = {.device = 2 /* cuda */, .threads = -1};
    uf_context *context = NULL;
    TRY_LIBRARY(uf_file_check_output(arguments->path));
    TRY(runtime_open(&options, 0, &context));
    const int status = tune(context, arguments, &args);
    uf_context_destroy(context);
    return status;
}

/* As long as any side of a tensor in memory; products of two stay far from overflow. */
enum { LONGEST_SIDE = 1 << 20 };

#define PAIR_ROW(option, member, what, must, least, usual)                                         \
    {                                                                                              \
        .kind = OPTION_PAIR, .name = option, .value = "N|HxW", .help = what, .required = must,     \
        .minimum = least, .maximum = LONGEST_SIDE, .fallback = usual,                              \
        .offset = offsetof(struct tune_arguments, member)                                          \
    }
#define NUMBER_ROW(option, member, what, must, usual)                                              \
    {                                                                                              \
        .kind = OPTION_INTEGER, .name = option, .value = "N", .help = what, .required = must,      \
        .minimum = 1, .maximum = INT64_C(1) << 40, .fallback = usual,                              \
        .offset = offsetof(struct tune_arguments, member)                                          \
    }

static const struct option tune_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "FILE",
     .help = "the table of measured choices; read if it is there, then written",
     .offset = offsetof(struct tune_arguments, path)},
    {.kind = OPTION_CHOICE,
     .name = "layer",
     .help = "the layer's operation",
     .choices = layers,
     .offset = offsetof(struct tune_arguments, layer)},
    NUMBER_ROW("batch", batch, "images", false, 1),
    NUMBER_ROW("in", in_channels, "channels of the layer's input", true, -1),
    NUMBER_ROW("out", out_channels, "channels of the layer's output", true, -1),
    PAIR_ROW("size", size, "height and width of the layer's input", true, 1, -1),
    PAIR_ROW("kernel", kernel, "extents of the filter", true, 1, -1),
    PAIR_ROW("stride", stride, "steps of the filter", false, 1, 1),
    PAIR_ROW("padding", padding, "rows and columns around the input", false, 0, 0),
    PAIR_ROW("output-padding", output_padding, "rows and columns after the output", false, 0, 0),
    PAIR_ROW("dilation", dilation, "distance between taps of the filter", false, 1, 1),
    NUMBER_ROW("groups", groups, "groups of channels", false, 1),
    MATH_OPTION_ROW(struct tune_arguments, math),
    {.kind = OPTION_CHOICE,
     .name = "dtype",
     .help = "precision of the arithmetic",
     .choices = runtime_dtypes,
     .offset = offsetof(struct tune_arguments, dtype)},
    {.kind = OPTION_FLAG,
     .name = "json",
     .help = "print the report as JSON",
     .offset = offsetof(struct tune_arguments, json)},
};

const struct command command_tune = {
    .name = "tune",
    .summary = "Measure which kernels compute a layer fastest on this GPU.",
    .details =
        "Times every kernel that computes the forward pass and both gradients of one convolution\n"
        "layer, and tiles of the best ones, and adds the fastest to FILE, which programs load "
        "with\n"
        "uf_tuning_load. A kernel is printed as variant:tile.",
    .example = "unfurl tune tuned.txt --in 512 --out 256 --size 4 --kernel 4 --stride 2 --padding "
               "1 --batch 128",
    .options = tune_options,
    .option_count = sizeof tune_options / sizeof tune_options[0],
    .arguments_size = sizeof(struct tune_arguments),
    .run = tune_run,
};
