/* inspect.c - `unfurl inspect`: what is in a file of weights. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "text.h"

struct inspect_arguments {
    const char *path;
    bool json;
};

struct totals {
    int64_t tensors, parameters, elements, bytes;
};

/* As state_dict() has it: what is learned is real-valued and no running statistic of a batch norm.
 */
static bool is_parameter(const uf_hdf5_entry *entry) {
    static const char *const statistics[] = {"running_mean", "running_var"};
    size_t length = strlen(entry->name);
    for (size_t i = 0; i < sizeof statistics / sizeof statistics[0]; i++) {
        size_t tail = strlen(statistics[i]);
        if (length >= tail && strcmp(entry->name + length - tail, statistics[i]) == 0) {
            return false;
        }
    }
    return entry->type[0] == 'f' || entry->type[0] == 'b'; /* f32, bf16 … */
}

static struct totals add_up(const uf_hdf5_entry *entries, int64_t count) {
    struct totals totals = {0};
    for (int64_t i = 0; i < count; i++) {
        if (!entries[i].is_tensor) {
            continue;
        }
        int64_t elements = uf_shape_count(&entries[i].shape);
        totals.tensors++;
        totals.elements += elements;
        totals.parameters += is_parameter(&entries[i]) ? elements : 0;
        totals.bytes += entries[i].bytes;
    }
    return totals;
}

static void print_json(const char *path, const uf_hdf5_entry *entries, int64_t count) {
    struct totals totals = add_up(entries, count);
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "file", path);
    json_open(&json, "datasets", '[');
    for (int64_t i = 0; i < count; i++) {
        json_open(&json, NULL, '{');
        json_text(&json, "name", entries[i].name);
        json_text(&json, "type", entries[i].type);
        json_bool(&json, "is_tensor", entries[i].is_tensor);
        if (entries[i].is_tensor) {
            json_open(&json, "shape", '[');
            for (int32_t axis = 0; axis < entries[i].shape.rank; axis++) {
                json_integer(&json, NULL, entries[i].shape.extent[axis]);
            }
            json_close(&json, ']');
            json_integer(&json, "bytes", entries[i].bytes);
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_integer(&json, "tensors", totals.tensors);
    json_integer(&json, "parameters", totals.parameters);
    json_integer(&json, "elements", totals.elements);
    json_integer(&json, "bytes", totals.bytes);
    json_close(&json, '}');
}

static void print_table(const uf_hdf5_entry *entries, int64_t count) {
    int width = 4;
    for (int64_t i = 0; i < count; i++) {
        int columns = text_columns(entries[i].name);
        width = columns > width ? columns : width;
    }
    for (int64_t i = 0; i < count; i++) {
        char shape[256] = "";
        if (entries[i].is_tensor) {
            uf_shape_format(&entries[i].shape, shape, sizeof shape);
        }
        say("%s%*s  %-6s  %s", entries[i].name, text_padding(entries[i].name, width), "",
            entries[i].type, entries[i].is_tensor ? shape : "(no tensor)");
    }
    struct totals totals = add_up(entries, count);
    say("%" PRId64 " tensors, %" PRId64 " parameters, %" PRId64 " elements, %" PRId64 " bytes",
        totals.tensors, totals.parameters, totals.elements, totals.bytes);
}

static int compare_names(const void *a, const void *b) {
    return text_compare(((const uf_hdf5_entry *)a)->name, ((const uf_hdf5_entry *)b)->name);
}

static int inspect_run(const void *parsed) {
    const struct inspect_arguments *arguments = parsed;
    uf_hdf5_entry *entries = NULL;
    int64_t count = 0;
    TRY_LIBRARY(uf_hdf5_list(arguments->path, NULL, &entries, &count));
    qsort(entries, (size_t)count, sizeof *entries, compare_names);
    if (arguments->json) {
        print_json(arguments->path, entries, count);
    } else {
        print_table(entries, count);
    }
    uf_hdf5_list_free(entries);
    return EXIT_DONE;
}

static const struct option inspect_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "FILE.h5",
     .help = "the file",
     .offset = offsetof(struct inspect_arguments, path)},
    {.kind = OPTION_FLAG,
     .name = "json",
     .help = "print the list as JSON",
     .offset = offsetof(struct inspect_arguments, json)},
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "List the tensors of an HDF5 file: names, types, shapes, totals.",
    .example = "unfurl inspect weights.h5",
    .options = inspect_options,
    .option_count = sizeof inspect_options / sizeof inspect_options[0],
    .arguments_size = sizeof(struct inspect_arguments),
    .run = inspect_run,
};
