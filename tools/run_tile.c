/* run_tile.c - `unfurl run --tile`: a picture through a model in tiles. The picture that goes in is
 * in memory as samples; of the one that is made there is one row of tiles. */
#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "json.h"
#include "pixels.h"
#include "progress.h"
#include "signals.h"

struct tiling {
    struct run_work *work;
    uf_picture_map in, out;
    const char *path; /* of the output */
    char name[UF_NAME_SIZE];
    uf_input_shape *solved; /* of all inputs */
    uf_tiles_plan plan;
    bool single;       /* values on the host are f32 */
    int64_t top, left; /* of the picture in the output, whose centre it is */
    uf_picture head;   /* of the picture, without samples */
    uf_picture band;   /* `head` with the rows that the newest row of tiles makes */
    uf_picture_writer *writer;
    bool holds_signals, not_finite;
    struct progress progress;
};

int run_tile_input(struct run_work *work, int32_t index, const char *path,
                   const uf_picture_map *map) {
    uf_shape *shape = &work->shapes[index].shape;
    if (work->tiled != 0) {
        return fail_usage("run: --tile takes one picture");
    }
    if (shape->extent[1] != 1 && shape->extent[1] != 3) {
        return fail("%s: the input has %" PRId64 " channels; a picture has 1 or 3", path,
                    shape->extent[1]);
    }
    TRY_LIBRARY(uf_picture_read(path, NULL, &work->picture));
    work->tiled = index + 1;
    work->frame = values_frame_of(&work->picture, map);
    *shape = values_shape_of(&work->frame, map, shape->extent[1]);
    return EXIT_DONE;
}

/* ---- the functions of uf_tiles_run ---- */

static uf_status read_tile(void *user, const uf_tile_area *area, void *values) {
    const struct tiling *t = user;
    const uf_shape *shape = &t->solved[t->work->tiled - 1].shape;
    const uf_dtype dtype = t->single ? UF_F32 : UF_F64;
    const size_t plane = (size_t)(area->height * area->width) * uf_dtype_size(dtype);
    const struct area part = {area->top - t->in.border, area->left - t->in.border, area->height,
                              area->width};
    for (int64_t c = 0; c < shape->extent[1]; c++) {
        pixels_read(&t->work->picture, &t->in, shape->extent[1], c, false, part, dtype,
                    (char *)values + (size_t)c * plane);
    }
    return UF_OK;
}

static uf_status fill_inputs(void *user, uf_program *program) {
    const struct run_work *work = ((struct tiling *)user)->work;
    for (int32_t i = 0; i < work->input_count; i++) {
        if (i + 1 != work->tiled) {
            uf_tensor *input = uf_program_input(program, work->shapes[i].input);
            UF_TRY(uf_tensor_upload_as(input, work->inputs[i].dtype, work->inputs[i].data,
                                       uf_tensor_count(input)));
        }
    }
    return UF_OK;
}

/* Rows `top` … `bottom` of the output as rows of the picture: those of its centre. */
static void cut_rows(const struct tiling *t, int64_t *top, int64_t *bottom) {
    const int64_t end = t->top + t->head.height;
    *top = *top < t->top ? t->top : *top;
    *bottom = *bottom > end ? end : *bottom;
}

/* The part's values as samples of the band. False at a number that is not finite. */
static bool place(struct tiling *t, const uf_tile_area *area, const void *values) {
    const int64_t channels = t->head.channels;
    int64_t top = area->top, bottom = area->top + area->height;
    cut_rows(t, &top, &bottom);
    uint8_t *samples = t->band.samples;
    for (int64_t c = 0; c < channels; c++) {
        const int64_t to = pixels_colour(&t->out, channels, c);
        for (int64_t y = top; y < bottom; y++) {
            for (int64_t x = 0; x < area->width; x++) {
                const int64_t at = (c * area->height + y - area->top) * area->width + x;
                const int64_t column = area->left + x - t->left;
                const double value =
                    t->single ? (double)((const float *)values)[at] : ((const double *)values)[at];
                if (!isfinite(value)) {
                    return false;
                }
                if (column >= 0 && column < t->head.width) {
                    const double sample = fmin(fmax(pixels_sample_of(&t->out, c, value), 0.0), 1.0);
                    samples[((y - top) * t->head.width + column) * channels + to] =
                        (uint8_t)(sample * 255.0 + 0.5);
                }
            }
        }
    }
    return true;
}

/* Room for the rows of a row of tiles. */
static uf_status make_band(struct tiling *t, int64_t rows) {
    if (rows <= t->band.height) {
        return UF_OK;
    }
    uf_picture_free(&t->band);
    return uf_picture_create(t->head.width, rows, t->head.channels, t->head.depth, &t->band);
}

static uf_status write_tile(void *user, const uf_tile_area *area, const void *values) {
    struct tiling *t = user;
    int64_t top = area->top, bottom = area->top + area->height;
    cut_rows(t, &top, &bottom);
    if (area->left == 0) {
        UF_TRY(make_band(t, bottom - top));
    }
    if (!place(t, area, values)) {
        t->not_finite = true;
        return UF_ERROR_INVALID_ARGUMENT;
    }
    progress_advance(&t->progress, 1);
    const bool is_last = area->left + area->width == t->plan.output.extent[3];
    if (is_last && bottom > top) {
        UF_TRY(uf_picture_writer_rows(t->writer, t->band.samples, bottom - top));
    }
    return signals_waiting() ? UF_ERROR_STATE
                             : UF_OK; /* release() lets the signal end the process */
}

/* ---- before and behind ---- */

static int read_tile_size(const char *text, int64_t *tile) {
    char *end = NULL;
    *tile = 0;
    if (strcmp(text, "auto") != 0) {
        *tile = strtoll(text, &end, 10);
        if (*end != '\0' || *tile < 1 || *tile > 65536) {
            return fail_usage("run: --tile is '%s'; it takes auto or a number from 1 to 65536",
                              text);
        }
    }
    return EXIT_DONE;
}

static int check_arguments(struct tiling *t) {
    const struct run_work *work = t->work;
    const struct run_arguments *arguments = work->arguments;
    uf_picture_format format;
    if (work->tiled == 0 || arguments->outputs.count != 1 || arguments->check != NULL ||
        arguments->profile) {
        return fail_usage("run: --tile takes one picture as an input and one as an output, without "
                          "--check and --profile");
    }
    const char *text = arguments->outputs.texts[0];
    t->path = strchr(text, '=') + 1;
    snprintf(t->name, sizeof t->name, "%.*s", (int)(t->path - 1 - text), text);
    if (!file_picture_format(t->path, &format)) {
        return fail_usage("run: --output is '%s'; with --tile it is a .png or .jpg", text);
    }
    return EXIT_DONE;
}

/* The picture that comes out. */
static int make_head(struct tiling *t) {
    const uf_shape *out = &t->plan.output;
    const struct run_work *work = t->work;
    char text[128];
    if (out->rank != 4 || out->extent[0] != 1 || (out->extent[1] != 1 && out->extent[1] != 3)) {
        return fail("output %s is %s; a picture is made of 1 or 3 channels", t->name,
                    uf_shape_format(out, text, sizeof text));
    }
    const struct values_frame *frame = &work->frame;
    const int64_t whole_height = frame->whole_height * t->out.scale;
    const int64_t whole_width = frame->whole_width * t->out.scale;
    const bool cut = whole_height <= out->extent[2] && whole_width <= out->extent[3];
    t->head = uf_picture_default();
    t->head.height = cut ? frame->height * t->out.scale : out->extent[2];
    t->head.width = cut ? frame->width * t->out.scale : out->extent[3];
    t->head.channels = (int32_t)out->extent[1];
    t->head.depth = 8;
    t->top = cut ? (out->extent[2] - whole_height) / 2 : 0;
    t->left = cut ? (out->extent[3] - whole_width) / 2 : 0;
    return EXIT_DONE;
}

static int begin(struct tiling *t, uf_tiles_options *options, uf_program_options *program) {
    struct run_work *work = t->work;
    TRY(check_arguments(t));
    TRY(read_tile_size(work->arguments->tile, &options->tile));
    t->solved = calloc((size_t)work->input_count + 1, sizeof *t->solved);
    if (t->solved == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    TRY_LIBRARY(uf_model_input_shapes(work->model, work->shapes, work->input_count, t->solved));
    TRY_LIBRARY(uf_model_picture(work->model, false, work->shapes[work->tiled - 1].input, &t->in));
    TRY_LIBRARY(uf_model_picture(work->model, true, t->name, &t->out));
    *program = runtime_program(&work->arguments->run);
    program->input_shapes = t->solved;
    program->input_shape_count = work->input_count;
    program->random_seed = (uint64_t)work->arguments->seed;
    t->single = program->dtype != UF_F64;
    options->input = work->shapes[work->tiled - 1].input;
    options->output = t->name;
    options->shape = t->solved[work->tiled - 1].shape;
    options->program = program;
    options->read = read_tile;
    options->write = write_tile;
    options->prepare = fill_inputs;
    options->user = t;
    TRY_LIBRARY(uf_tiles_plan_of(uf_model_graph(work->model), options, &t->plan));
    return make_head(t);
}

static int run_and_write(struct tiling *t, const uf_tiles_options *options) {
    const struct run_arguments *arguments = t->work->arguments;
    const uf_picture_write_options format =
        file_picture_options(t->path, arguments->run.threads, arguments->quality);
    signals_hold();
    t->holds_signals = true;
    TRY_LIBRARY(uf_picture_writer_create(t->path, &t->head, &format, &t->writer));
    t->progress = progress_begin("run", "tiles", t->plan.rows * t->plan.columns);
    const double start = clock_seconds();
    const uf_status status = uf_tiles_run(uf_model_graph(t->work->model), options);
    progress_end(&t->progress);
    t->work->seconds = clock_seconds() - start;
    if (t->not_finite) {
        return fail("output %s has values that are not finite", t->name);
    }
    if (signals_waiting()) {
        return EXIT_FAILED;
    }
    TRY_LIBRARY(status);
    TRY_LIBRARY(uf_picture_writer_finish(t->writer));
    return EXIT_DONE;
}

static void report(const struct tiling *t) {
    const struct run_work *work = t->work;
    if (!work->arguments->run.json) {
        say("%s: %" PRId64 " x %" PRId64 " pixels in %" PRId64 " x %" PRId64 " tiles, %.3f s on %s",
            t->path, t->head.width, t->head.height, t->plan.columns, t->plan.rows, work->seconds,
            uf_context_description(work->context));
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "model", work->arguments->path);
    json_text(&json, "file", t->path);
    json_integer(&json, "width", t->head.width);
    json_integer(&json, "height", t->head.height);
    json_integer(&json, "rows", t->plan.rows);
    json_integer(&json, "columns", t->plan.columns);
    json_integer(&json, "tile_height", t->plan.tile.extent[2]);
    json_integer(&json, "tile_width", t->plan.tile.extent[3]);
    runtime_report(&json, work->context, runtime_dtype(&work->arguments->run));
    json_text(&json, "math", runtime_maths[work->arguments->run.math]);
    json_number(&json, "seconds", work->seconds);
    json_close(&json, '}');
}

int run_tiles(struct run_work *work) {
    struct tiling t = {.work = work};
    uf_tiles_options options = uf_tiles_options_default();
    uf_program_options program;
    int status = begin(&t, &options, &program);
    if (status == EXIT_DONE) {
        status = run_and_write(&t, &options);
    }
    if (status == EXIT_DONE) {
        report(&t);
    }
    uf_picture_writer_destroy(t.writer);
    uf_picture_free(&t.band);
    free(t.solved);
    if (t.holds_signals) {
        signals_release();
    }
    return status;
}
