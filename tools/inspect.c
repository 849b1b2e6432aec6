/* inspect.c - `unfurl inspect`: what is in a file of weights. */
#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "text.h"
#include "weights.h"

struct inspect_arguments {
    const char *path;
    bool stats, trust, json;
};

struct totals {
    int64_t tensors, parameters, elements, bytes;
};

/* Statistics of the finite values of a tensor. */
struct stats {
    double minimum, maximum, mean, deviation; /* NaN where no value is finite */
    int64_t not_finite;
};

/* As state_dict() has it: what is learned is real-valued and no running statistic of a batch norm.
 */
static bool is_parameter(const uf_weights_entry *entry) {
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

static struct totals add_up(const struct weights *weights) {
    struct totals totals = {0};
    for (int64_t i = 0; i < weights->count; i++) {
        const uf_weights_entry *entry = &weights->rows[i].entry;
        if (!entry->is_tensor) {
            continue;
        }
        int64_t elements = uf_shape_count(&entry->shape);
        totals.tensors++;
        totals.elements += elements;
        totals.parameters += is_parameter(entry) ? elements : 0;
        totals.bytes += entry->bytes;
    }
    return totals;
}

/* ---- statistics ---- */

/* The squares of very large and very small numbers, and sums of large ones, fit a double after this
 * power of two. */
static double scale_of(double minimum, double maximum) {
    const double largest = fmax(fabs(minimum), fabs(maximum));
    return largest > 0x1p+400 ? 0x1p-600 : largest < 0x1p-400 ? 0x1p+600 : 1.0;
}

/* The standard deviation is that of all values: their number divides the sum of squares. */
static struct stats measure(const double *values, int64_t count) {
    struct stats stats = {.minimum = (double)INFINITY, .maximum = (double)-INFINITY};
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            stats.minimum = fmin(stats.minimum, values[i]);
            stats.maximum = fmax(stats.maximum, values[i]);
        } else {
            stats.not_finite++;
        }
    }
    if (stats.not_finite == count) {
        stats.minimum = stats.maximum = stats.mean = stats.deviation = (double)NAN;
        return stats;
    }
    const double finite = (double)(count - stats.not_finite);
    const double scale = scale_of(stats.minimum, stats.maximum);
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += isfinite(values[i]) ? values[i] * scale : 0.0;
    }
    const double mean = sum / finite;
    for (int64_t i = 0; i < count; i++) {
        const double distance = values[i] * scale - mean;
        squares += isfinite(values[i]) ? distance * distance : 0.0;
    }
    stats.mean = mean / scale;
    stats.deviation = sqrt(squares / finite) / scale;
    return stats;
}

/* Statistics of the tensors among the rows; *all is freed by the caller. */
static int measure_all(const struct weights *weights, struct stats **all) {
    *all = calloc((size_t)weights->count + 1, sizeof **all);
    if (*all == NULL) {
        return fail("out of memory");
    }
    for (int64_t i = 0; i < weights->count; i++) {
        const struct weights_row *row = &weights->rows[i];
        if (row->entry.is_tensor) {
            void *values;
            TRY(weights_read(weights, row, UF_F64, &values));
            (*all)[i] = measure(values, uf_shape_count(&row->entry.shape));
            free(values);
        }
    }
    return EXIT_DONE;
}

/* ---- the report ---- */

static void print_stats_json(struct json *json, const struct stats *stats) {
    json_number(json, "min", stats->minimum);
    json_number(json, "max", stats->maximum);
    json_number(json, "mean", stats->mean);
    json_number(json, "std", stats->deviation);
    json_integer(json, "not_finite", stats->not_finite);
}

static void print_metadata_json(struct json *json, const struct weights *weights) {
    json_open(json, "metadata", '[');
    for (int64_t i = 0; i < uf_weights_metadata_count(weights->file); i++) {
        const char *name, *text;
        if (uf_weights_metadata_at(weights->file, i, &name, &text) == UF_OK) {
            json_open(json, NULL, '{');
            json_text(json, "name", name);
            json_text(json, "text", text);
            json_close(json, '}');
        }
    }
    json_close(json, ']');
}

static void print_json(const struct weights *weights, const struct stats *stats) {
    struct totals totals = add_up(weights);
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "file", weights->path);
    json_text(&json, "format", uf_weights_format_name(uf_weights_format_of(weights->file)));
    json_open(&json, "datasets", '[');
    for (int64_t i = 0; i < weights->count; i++) {
        const uf_weights_entry *entry = &weights->rows[i].entry;
        json_open(&json, NULL, '{');
        json_text(&json, "name", entry->name);
        json_text(&json, "type", entry->type);
        json_bool(&json, "is_tensor", entry->is_tensor);
        if (entry->is_tensor) {
            json_open(&json, "shape", '[');
            for (int32_t axis = 0; axis < entry->shape.rank; axis++) {
                json_integer(&json, NULL, entry->shape.extent[axis]);
            }
            json_close(&json, ']');
            json_integer(&json, "bytes", entry->bytes);
            if (stats != NULL) {
                print_stats_json(&json, &stats[i]);
            }
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    print_metadata_json(&json, weights);
    json_integer(&json, "tensors", totals.tensors);
    json_integer(&json, "parameters", totals.parameters);
    json_integer(&json, "elements", totals.elements);
    json_integer(&json, "bytes", totals.bytes);
    json_close(&json, '}');
}

static void print_row(const uf_weights_entry *entry, int width, const struct stats *stats) {
    char shape[256] = "";
    if (entry->is_tensor) {
        uf_shape_format(&entry->shape, shape, sizeof shape);
    }
    const char *shown = entry->is_tensor ? shape : "(no tensor)";
    const int padding = text_padding(entry->name, width);
    if (stats != NULL && entry->is_tensor) {
        say("%s%*s  %-6s  %-18s  min %-11.5g max %-11.5g mean %-11.5g std %-11.5g not finite "
            "%" PRId64,
            entry->name, padding, "", entry->type, shown, stats->minimum, stats->maximum,
            stats->mean, stats->deviation, stats->not_finite);
    } else {
        say("%s%*s  %-6s  %s", entry->name, padding, "", entry->type, shown);
    }
}

static void print_table(const struct weights *weights, const struct stats *stats) {
    int width = 4;
    for (int64_t i = 0; i < weights->count; i++) {
        int columns = text_columns(weights->rows[i].entry.name);
        width = columns > width ? columns : width;
    }
    for (int64_t i = 0; i < weights->count; i++) {
        print_row(&weights->rows[i].entry, width, stats != NULL ? &stats[i] : NULL);
    }
    for (int64_t i = 0; i < uf_weights_metadata_count(weights->file); i++) {
        const char *name, *text;
        if (uf_weights_metadata_at(weights->file, i, &name, &text) == UF_OK) {
            say("metadata %s: %s", name, text);
        }
    }
    struct totals totals = add_up(weights);
    say("%" PRId64 " tensors, %" PRId64 " parameters, %" PRId64 " elements, %" PRId64 " bytes",
        totals.tensors, totals.parameters, totals.elements, totals.bytes);
}

static int inspect_file(const struct inspect_arguments *arguments, struct weights *weights,
                        struct stats **stats) {
    TRY(weights_open(arguments->path, arguments->trust, weights));
    if (arguments->stats) {
        TRY(measure_all(weights, stats));
    }
    if (arguments->json) {
        print_json(weights, *stats);
    } else {
        print_table(weights, *stats);
    }
    return EXIT_DONE;
}

static int inspect_run(const void *parsed) {
    struct weights weights;
    struct stats *stats = NULL;
    const int status = inspect_file(parsed, &weights, &stats);
    free(stats);
    weights_close(&weights);
    return status;
}

static const struct option inspect_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "FILE",
     .help = "the file",
     .offset = offsetof(struct inspect_arguments, path)},
    {.kind = OPTION_FLAG,
     .name = "stats",
     .help = "read the values: least, largest, mean, standard deviation, count not finite",
     .offset = offsetof(struct inspect_arguments, stats)},
    WEIGHTS_TRUST_ROW(struct inspect_arguments),
    WEIGHTS_JSON_ROW(struct inspect_arguments),
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "List the tensors of a file: names, types, shapes, totals, statistics.",
    .example = "unfurl inspect weights.h5\nunfurl inspect weights.safetensors --stats",
    .options = inspect_options,
    .option_count = sizeof inspect_options / sizeof inspect_options[0],
    .arguments_size = sizeof(struct inspect_arguments),
    .run = inspect_run,
};
