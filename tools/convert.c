/* convert.c - `unfurl convert`: one file of weights made of another. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "json.h"
#include "ncnn.h"
#include "signals.h"
#include "weights.h"

struct convert_arguments {
    const char *from, *to, *model, *group, *picture;
    struct option_list shapes;
    int32_t format, names, dtype; /* indices of the words below */
    int64_t compress;
    bool trust, json;
};

static const char *const formats[] = {"auto", "hdf5", "safetensors", NULL}; /* uf_weights_format */
static const char *const names[] = {"kept", "dotted", "nested", NULL};      /* uf_weights_names */
static const char *const dtypes[] = {"kept", "f32", "f16", "bf16", "f64", NULL};

static uf_weights_convert_options options_of(const struct convert_arguments *arguments) {
    static const uf_dtype of_words[] = {UF_F32, UF_F32, UF_F16, UF_BF16, UF_F64};
    uf_weights_convert_options options = uf_weights_convert_options_default();
    options.format = (uf_weights_format)arguments->format;
    options.names = (uf_weights_names)arguments->names;
    options.keep_types = arguments->dtype == 0;
    options.dtype = of_words[arguments->dtype];
    options.gzip_level = (int32_t)arguments->compress;
    options.group = arguments->group;
    options.untrusted = !arguments->trust;
    return options;
}

/* The names of formats that are not written: HDF5 under one of these would mislead. */
static int check_name(const struct convert_arguments *arguments) {
    static const char *const others[] = {".pt",  ".pth",  ".pkl",  ".npy",
                                         ".npz", ".onnx", ".gguf", ".keras"};
    const char *end = strrchr(arguments->to, '.');
    for (size_t i = 0; end != NULL && i < sizeof others / sizeof others[0]; i++) {
        if (arguments->format == 0 && strcmp(end, others[i]) == 0) {
            return fail_usage("convert: OUT is '%s'; it takes a name that ends in .h5 or "
                              ".safetensors, or --format with any name",
                              arguments->to);
        }
    }
    return EXIT_DONE;
}

static int report(const struct convert_arguments *arguments) {
    struct weights made;
    int status = weights_open(arguments->to, arguments->trust, &made);
    if (status == EXIT_DONE) {
        const char *format = uf_weights_format_name(uf_weights_format_of(made.file));
        if (arguments->json) {
            struct json json = json_begin(stdout);
            json_open(&json, NULL, '{');
            json_text(&json, "file", made.path);
            json_text(&json, "format", format);
            json_integer(&json, "tensors", made.count);
            json_integer(&json, "metadata", uf_weights_metadata_count(made.file));
            json_close(&json, '}');
        } else {
            say("%s: %" PRId64 " tensors, %s", made.path, made.count, format);
        }
    }
    weights_close(&made);
    return status;
}

static int convert_run(const void *parsed) {
    const struct convert_arguments *arguments = parsed;
    if (arguments->model != NULL) {
        return ncnn_convert(&(struct ncnn_arguments){.param = arguments->from,
                                                     .bin = arguments->to,
                                                     .to = arguments->model,
                                                     .picture = arguments->picture,
                                                     .shapes = &arguments->shapes,
                                                     .json = arguments->json});
    }
    if (arguments->picture != NULL || arguments->shapes.count > 0) {
        return fail_usage("convert: --picture and --shape are for three files: NET.param NET.bin "
                          "MODEL.h5");
    }
    const uf_weights_convert_options options = options_of(arguments);
    TRY(check_name(arguments));
    TRY_LIBRARY(uf_file_check_output(arguments->to));
    signals_hold();
    const uf_status status = uf_weights_convert(arguments->from, arguments->to, &options);
    signals_release();
    TRY_LIBRARY(status);
    return report(arguments);
}

static const struct option convert_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "IN",
     .help = "the file to read: HDF5 or safetensors, by its contents",
     .offset = offsetof(struct convert_arguments, from)},
    {.kind = OPTION_OPERAND,
     .name = "OUT",
     .help = "the file to write; it may be IN",
     .offset = offsetof(struct convert_arguments, to)},
    {.kind = OPTION_OPERAND,
     .name = "MODEL.h5",
     .help = "IN and OUT are ncnn's .param and .bin, and this is the model file to write",
     .optional = true,
     .offset = offsetof(struct convert_arguments, model)},
    {.kind = OPTION_CHOICE,
     .name = "format",
     .help = "of OUT; auto: safetensors where its name ends so, else HDF5",
     .choices = formats,
     .offset = offsetof(struct convert_arguments, format)},
    {.kind = OPTION_CHOICE,
     .name = "names",
     .help = "main.0.weight or main/0/weight",
     .choices = names,
     .offset = offsetof(struct convert_arguments, names)},
    {.kind = OPTION_CHOICE,
     .name = "dtype",
     .help = "of real numbers, rounded to nearest even",
     .choices = dtypes,
     .offset = offsetof(struct convert_arguments, dtype)},
    {.kind = OPTION_INTEGER,
     .name = "compress",
     .value = "N",
     .help = "HDF5 in chunks, shuffled and deflated at level N; 0: as it is",
     .minimum = 0,
     .maximum = 9,
     .fallback = 0,
     .offset = offsetof(struct convert_arguments, compress)},
    {.kind = OPTION_TEXT,
     .name = "group",
     .value = "NAME",
     .help = "only what is under this group, named from it",
     .offset = offsetof(struct convert_arguments, group)},
    {.kind = OPTION_TEXT,
     .name = "picture",
     .value = "OPTIONS",
     .help = "of a model: how a picture becomes a tensor, \"range=(0, 1) border=7 scale=2\"",
     .offset = offsetof(struct convert_arguments, picture)},
    {.kind = OPTION_LIST,
     .name = "shape",
     .value = "NAME=C,H,W",
     .help = "of a model's input, in place of the shape that .param says",
     .offset = offsetof(struct convert_arguments, shapes)},
    WEIGHTS_TRUST_ROW(struct convert_arguments),
    WEIGHTS_JSON_ROW(struct convert_arguments),
};

const struct command command_convert = {
    .name = "convert",
    .summary = "Convert weights between formats, or a network of ncnn's to a model file.",
    .details =
        "Types that are kept keep every bit. Integers always keep theirs. Metadata go along:\n"
        "texts at the root of HDF5, __metadata__ of safetensors.\n\n"
        "With three files the first two are a network of ncnn's and the third becomes a model\n"
        "file, which `unfurl run` runs. ncnn's files do not say how pictures become tensors:\n"
        "--picture does, in the words of a model's picture line. A border is added to inputs,\n"
        "and a scale is of outputs.",
    .example = "unfurl convert generator.h5 generator.safetensors --names dotted\n"
               "unfurl convert generator.safetensors small.h5 --dtype f16 --compress 6\n"
               "unfurl convert net.param net.bin net.h5 --picture \"border=7 scale=2\"",
    .options = convert_options,
    .option_count = sizeof convert_options / sizeof convert_options[0],
    .arguments_size = sizeof(struct convert_arguments),
    .run = convert_run,
};
