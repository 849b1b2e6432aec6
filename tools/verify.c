/* verify.c - `unfurl verify`: is a file of weights whole? */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "weights.h"

struct verify_arguments {
    const char *path;
    bool trust, json;
};

struct counts {
    int64_t tensors, checksums, damaged, no_tensors;
};

/* A checkpoint says so in its metadata. */
static bool is_checkpoint(const struct weights *weights) {
    for (int64_t i = 0; i < uf_weights_metadata_count(weights->file); i++) {
        const char *name, *text;
        if (uf_weights_metadata_at(weights->file, i, &name, &text) == UF_OK &&
            strcmp(name, "format") == 0 && strcmp(text, "unfurl checkpoint") == 0) {
            return true;
        }
    }
    return false;
}

/* Read one entry. The sentence about one that is damaged is kept in `problem`, which is empty for
 * one that is whole. */
static void verify_row(const struct weights *weights, const struct weights_row *row,
                       bool wants_checksum, char *problem, size_t size) {
    void *values = weights_room(row);
    problem[0] = '\0';
    if (values == NULL) {
        snprintf(problem, size, "out of memory for the %" PRId64 " values of %s",
                 uf_shape_count(&row->entry.shape), row->entry.name);
    } else if (weights_fill(weights, row, UF_F64, values) != UF_OK) {
        snprintf(problem, size, "%s", uf_last_error());
    } else if (wants_checksum && !row->entry.has_checksum) {
        snprintf(problem, size, "%s has no checksum, though the file is a checkpoint",
                 row->entry.name);
    }
    free(values);
}

static struct counts verify_rows(const struct weights *weights, struct json *json) {
    struct counts counts = {0};
    const bool checkpoint = is_checkpoint(weights);
    for (int64_t i = 0; i < weights->count; i++) {
        char problem[2048];
        const struct weights_row *row = &weights->rows[i];
        if (!row->entry.is_tensor) {
            counts.no_tensors++;
            continue;
        }
        counts.tensors++;
        counts.checksums += row->entry.has_checksum;
        verify_row(weights, row, checkpoint, problem, sizeof problem);
        if (problem[0] == '\0') {
            continue;
        }
        counts.damaged++;
        if (json != NULL) {
            json_open(json, NULL, '{');
            json_text(json, "name", row->entry.name);
            json_text(json, "problem", problem);
            json_close(json, '}');
        } else {
            say("%s", problem);
        }
    }
    return counts;
}

static struct counts report_json(const struct weights *weights, const char *format) {
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "file", weights->path);
    json_text(&json, "format", format);
    json_open(&json, "damaged", '[');
    const struct counts counts = verify_rows(weights, &json);
    json_close(&json, ']');
    json_integer(&json, "tensors", counts.tensors);
    json_integer(&json, "checksums", counts.checksums);
    json_integer(&json, "no_tensors", counts.no_tensors);
    json_close(&json, '}');
    return counts;
}

static int verify_file(const struct verify_arguments *arguments, struct weights *weights) {
    TRY(weights_open(arguments->path, arguments->trust, weights));
    const char *format = uf_weights_format_name(uf_weights_format_of(weights->file));
    const struct counts counts =
        arguments->json ? report_json(weights, format) : verify_rows(weights, NULL);
    if (counts.damaged > 0) {
        return fail("%s: %" PRId64 " of %" PRId64 " tensors are damaged or cannot be read",
                    arguments->path, counts.damaged, counts.tensors);
    }
    if (!arguments->json) {
        say("%s: %s, %" PRId64 " tensors are whole, %" PRId64 " have checksums", arguments->path,
            format, counts.tensors, counts.checksums);
        if (counts.no_tensors > 0) {
            say("not read, for they are no tensors: %" PRId64, counts.no_tensors);
        }
    }
    return EXIT_DONE;
}

static int verify_run(const void *parsed) {
    const struct verify_arguments *arguments = parsed;
    struct weights weights;
    const int status = verify_file(arguments, &weights);
    weights_close(&weights);
    return status;
}

static const struct option verify_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "FILE",
     .help = "a checkpoint, or a file of weights",
     .offset = offsetof(struct verify_arguments, path)},
    WEIGHTS_TRUST_ROW(struct verify_arguments),
    WEIGHTS_JSON_ROW(struct verify_arguments),
};

const struct command command_verify = {
    .name = "verify",
    .summary = "Read all of a file: its structure, and the checksums of a checkpoint.",
    .details =
        "Each tensor is read and its CRC-32C compared where it has one, as all of a checkpoint\n"
        "have. Exits with 1 when a tensor is damaged or of a kind that is not read, or when a\n"
        "checkpoint's has no checksum. Entries that are no tensors are counted.",
    .example = "unfurl verify training.h5",
    .options = verify_options,
    .option_count = sizeof verify_options / sizeof verify_options[0],
    .arguments_size = sizeof(struct verify_arguments),
    .run = verify_run,
};
