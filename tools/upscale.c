/* upscale.c - `unfurl upscale`: enlarge pictures with a pretrained network. */
#include "upscale.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "command.h"
#include "files.h"
#include "json.h"
#include "weights.h"

enum { LARGEST_TILE = 65536 };

static void report_json(struct json *json, const struct upscale_arguments *arguments,
                        const struct network_choice *choice, const struct upscale_file *file,
                        const struct upscaler *upscaler, const struct upscale_report *report) {
    json_open(json, "input", '{');
    json_text(json, "file", file->input);
    json_integer(json, "width", report->width);
    json_integer(json, "height", report->height);
    json_integer(json, "channels", report->channels);
    json_integer(json, "depth", report->depth);
    json_close(json, '}');
    json_open(json, "output", '{');
    json_text(json, "file", file->output);
    json_integer(json, "width", report->made_width);
    json_integer(json, "height", report->made_height);
    json_close(json, '}');
    json_text(json, "model", choice->name);
    json_integer(json, "scale", upscaler->out.scale);
    runtime_report(json, upscaler->context, upscaler->dtype);
    json_text(json, "math", runtime_maths[arguments->run.math]);
    json_integer(json, "tile", report->tile);
    json_integer(json, "tiles", report->tiles);
    json_number(json, "read_seconds", report->read_seconds);
    json_number(json, "means_seconds", report->means_seconds);
    json_number(json, "network_seconds", report->network_seconds);
    json_number(json, "write_seconds", report->write_seconds);
    json_number(json, "total_seconds", report->total_seconds);
}

static void report_all_json(const struct upscale_arguments *arguments,
                            const struct network_choice *choice, const struct upscale_files *files,
                            const struct upscaler *upscaler, const struct upscale_report *reports) {
    const bool many = files->count > 1;
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    if (many) {
        json_open(&json, "files", '[');
    }
    for (int64_t i = 0; i < files->count; i++) {
        if (many) {
            json_open(&json, NULL, '{');
        }
        report_json(&json, arguments, choice, &files->list[i], upscaler, &reports[i]);
        if (many) {
            json_close(&json, '}');
        }
    }
    if (many) {
        json_close(&json, ']');
    }
    json_close(&json, '}');
}

static int upscale_all(const struct upscale_arguments *arguments,
                       const struct network_choice *choice, struct upscale_files *files,
                       struct upscaler *upscaler, struct upscale_report *reports) {
    for (int64_t i = 0; i < files->count; i++) {
        struct upscale_report *report = &reports[i];
        TRY(upscale_picture(arguments, choice, files, i, upscaler, report));
        if (!arguments->run.json) {
            say("%s: %" PRId64 " x %" PRId64 " pixels from %" PRId64 " x %" PRId64
                "; %s, network %.3f s, total %.3f s",
                files->list[i].output, report->made_width, report->made_height, report->width,
                report->height, uf_context_description(upscaler->context), report->network_seconds,
                report->total_seconds);
        }
    }
    if (arguments->run.json) {
        report_all_json(arguments, choice, files, upscaler, reports);
    }
    return EXIT_DONE;
}

static int upscale(const struct upscale_arguments *arguments, struct upscale_files *files,
                   struct upscaler *upscaler) {
    struct network_choice choice;
    TRY(upscale_files_find(arguments, files));
    for (int64_t i = 0; i < files->count; i++) {
        if (files->list[i].stdout_type == NULL) {
            TRY_LIBRARY(uf_file_check_output(files->list[i].output));
        }
    }
    TRY(network_choose(arguments->model, arguments->scale, arguments->noise, arguments->weights,
                       &choice));
    struct upscale_report *reports = calloc((size_t)files->count, sizeof *reports);
    if (reports == NULL) {
        return fail("out of memory for %" PRId64 " reports", files->count);
    }
    const int status = upscale_all(arguments, &choice, files, upscaler, reports);
    free(reports);
    return status;
}

static int upscale_run(const void *parsed) {
    struct upscale_files files = {.streams = {.command = "upscale"}};
    struct upscaler upscaler = {0};
    const int status = upscale(parsed, &files, &upscaler);
    upscaler_close(&upscaler);
    upscale_files_free(&files);
    return status;
}

static const struct option upscale_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "IN.png",
     .help = "PNG or JPEG: grey, RGB, with or without alpha, 8 or 16 bits; - is stdin; or a folder",
     .offset = offsetof(struct upscale_arguments, input)},
    {.kind = OPTION_OPERANDS,
     .name = "OUT.png",
     .help = "of the same kind; .h5: /output, before rounding; - or jpg:- is stdout; or a folder",
     .offset = offsetof(struct upscale_arguments, others)},
    {.kind = OPTION_TEXT,
     .name = "model",
     .value = "NAME|FILE.h5",
     .help = "waifu2x, cunet, realesrgan, realesrgan-anime, realcugan or a model file (waifu2x)",
     .offset = offsetof(struct upscale_arguments, model)},
    {.kind = OPTION_INTEGER,
     .name = "noise",
     .value = "N",
     .help = "take noise away, 0 (least) to 3, where the network has that",
     .minimum = 0,
     .maximum = 3,
     .fallback = -1,
     .offset = offsetof(struct upscale_arguments, noise)},
    {.kind = OPTION_INTEGER,
     .name = "scale",
     .value = "N",
     .help = "how many times as wide and high; 2 unless given, where the network has that",
     .minimum = 1,
     .maximum = 4,
     .fallback = -1,
     .offset = offsetof(struct upscale_arguments, scale)},
    {.kind = OPTION_TEXT,
     .name = "weights",
     .value = "FILE.h5",
     .help = "weights for waifu2x without --noise; those that come with unfurl unless given",
     .offset = offsetof(struct upscale_arguments, weights)},
    {.kind = OPTION_INTEGER,
     .name = "tile",
     .value = "N",
     .help = "largest side of a tile in pixels, 0 for no tiles; the network's own unless given",
     .maximum = LARGEST_TILE,
     .fallback = -1,
     .offset = offsetof(struct upscale_arguments, tile)},
    {.kind = OPTION_INTEGER,
     .name = "max-pixels",
     .value = "N",
     .help = "refuse a picture of more pixels",
     .minimum = 1,
     .maximum = INT64_MAX,
     .fallback = UF_PNG_MAX_PIXELS,
     .offset = offsetof(struct upscale_arguments, max_pixels)},
    {.kind = OPTION_INTEGER,
     .name = "quality",
     .value = "N",
     .help = "of a JPEG output",
     .minimum = 1,
     .maximum = 100,
     .fallback = 92,
     .offset = offsetof(struct upscale_arguments, quality)},
    WEIGHTS_TRUST_ROW(struct upscale_arguments),
    RUN_OPTION_ROWS(struct upscale_arguments),
    MATH_OPTION_ROW(struct upscale_arguments, run.math),
};

const struct command command_upscale = {
    .name = "upscale",
    .summary = "Enlarge pictures with a pretrained network.",
    .details =
        "The network that comes with unfurl is upconv_7 (waifu2x, by nagadomi), which doubles a\n"
        "picture. fetch-networks, in share/unfurl, gets the others. Behind several inputs, or a\n"
        "folder, the last name is that of a folder. Where stdout gets the picture (-, png:-,\n"
        "jpg:- or h5:-), the report goes to stderr.",
    .example = "unfurl upscale photo.png photo@2x.png\n"
               "unfurl upscale --model realcugan --noise 1 --scale 3 scans/ large/",
    .options = upscale_options,
    .option_count = sizeof upscale_options / sizeof upscale_options[0],
    .arguments_size = sizeof(struct upscale_arguments),
    .run = upscale_run,
};
