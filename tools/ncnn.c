/* ncnn.c - `unfurl convert NET.param NET.bin MODEL.h5`. */
#include "ncnn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json.h"
#include "runtime.h"
#include "signals.h"

/* The inputs' shapes, and the memory of their names. */
struct ncnn_shapes {
    uf_input_shape list[OPTION_LIST_SIZE];
    char *names[OPTION_LIST_SIZE];
    int32_t count;
};

/* "data=3,64,64" */
static int read_shape(const char *text, struct ncnn_shapes *shapes) {
    const char *at = strchr(text, '=');
    uf_shape shape = UF_SHAPE(1); /* the batch, which ncnn does not have */
    char *end = NULL;
    if (at == NULL || at == text) {
        return fail_usage("convert: --shape is '%s'; it takes NAME=C,H,W", text);
    }
    char *name = strndup(text, (size_t)(at - text));
    if (name == NULL) {
        return fail("out of memory for the shapes of inputs");
    }
    shapes->names[shapes->count] = name;
    do {
        errno = 0;
        const long long extent = at[1] >= '0' && at[1] <= '9' ? strtoll(at + 1, &end, 10) : 0;
        if (extent < 1 || errno != 0 || shape.rank == 4) {
            shapes->count += 1;
            return fail_usage("convert: --shape is '%s'; it takes NAME and 1 to 3 extents of 1 or "
                              "more, as in data=3,64,64",
                              text);
        }
        shape.extent[shape.rank++] = extent;
        at = end;
    } while (*at == ',');
    shapes->list[shapes->count++] = (uf_input_shape){.input = name, .shape = shape};
    return *at == '\0' ? EXIT_DONE
                       : fail_usage("convert: --shape is '%s'; '%s' ends no shape", text, at);
}

/* An output's side of the options of --picture: those of its numbers, and the scale. */
static uf_picture_map output_map(const uf_picture_map *map) {
    uf_picture_map made = uf_picture_map_default();
    made.minimum = map->minimum;
    made.maximum = map->maximum;
    memcpy(made.mean, map->mean, sizeof made.mean);
    memcpy(made.std, map->std, sizeof made.std);
    made.channels = map->channels;
    made.scale = map->scale;
    return made;
}

/* An input's side has no scale. */
static int set_pictures(uf_model *model, const char *text) {
    uf_picture_map map;
    if (uf_picture_map_parse(text, &map) != UF_OK) {
        return fail_usage("convert: --picture: %s", uf_last_error());
    }
    const uf_picture_map out = output_map(&map);
    map.scale = 1;
    for (int side = 0; side < 2; side++) {
        const char *name;
        for (int32_t i = 0; (name = uf_model_io_name(model, side == 1, i)) != NULL; i++) {
            TRY_LIBRARY(uf_model_set_picture(model, side == 1, name, side == 1 ? &out : &map));
        }
    }
    return EXIT_DONE;
}

static int report(const struct ncnn_arguments *arguments, const uf_model *model) {
    const int64_t layers = uf_model_value_count(model) - uf_model_input_count(model);
    const int64_t tensors = uf_store_size(uf_model_store(model));
    if (arguments->json) {
        struct json json = json_begin(stdout);
        json_open(&json, NULL, '{');
        json_text(&json, "file", arguments->to);
        json_text(&json, "format", "model");
        json_integer(&json, "layers", layers);
        json_integer(&json, "tensors", tensors);
        json_close(&json, '}');
    } else {
        say("%s: a model of %" PRId64 " layers and %" PRId64 " tensors", arguments->to, layers,
            tensors);
    }
    return EXIT_DONE;
}

static int convert(uf_context *context, const struct ncnn_arguments *arguments,
                   struct ncnn_shapes *shapes) {
    uf_ncnn_options options = uf_ncnn_options_default();
    uf_model *model;
    for (int64_t i = 0; i < arguments->shapes->count; i++) {
        TRY(read_shape(arguments->shapes->texts[i], shapes));
    }
    options.input_shapes = shapes->list;
    options.input_shape_count = shapes->count;
    TRY_LIBRARY(uf_file_check_output(arguments->to));
    TRY_LIBRARY(uf_model_load_ncnn(context, arguments->param, arguments->bin, &options, &model));
    if (arguments->picture != NULL) {
        TRY(set_pictures(model, arguments->picture));
    }
    signals_hold();
    const uf_status status = uf_model_save(model, arguments->to);
    signals_release();
    TRY_LIBRARY(status);
    return report(arguments, model);
}

int ncnn_convert(const struct ncnn_arguments *arguments) {
    const struct run_options run = {.device = 1 /* cpu */, .threads = 1};
    uf_context *context = NULL;
    TRY(runtime_open(&run, 0, &context));
    struct ncnn_shapes *shapes = calloc(1, sizeof *shapes);
    const int status = shapes != NULL ? convert(context, arguments, shapes)
                                      : fail("out of memory for the shapes of inputs");
    for (int32_t i = 0; shapes != NULL && i < shapes->count; i++) {
        free(shapes->names[i]);
    }
    free(shapes);
    uf_context_destroy(context);
    return status;
}
