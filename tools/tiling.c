#include "tiling.h"

#include <inttypes.h>
#include <stdlib.h>

#include "command.h"
#include "files.h"
#include "signals.h"

void tiling_free(struct tiling *t) {
    uf_picture_writer_destroy(t->writer);
    uf_picture_free(&t->band);
    free(t->values);
    free(t->row);
    free(t->solved);
    t->writer = NULL;
    t->values = t->row = NULL;
    t->solved = NULL;
    if (t->holds_signals) { /* a signal that waits ends the process here */
        t->holds_signals = false;
        signals_release();
    }
}

/* ---- the functions of uf_tiles_run ---- */

static uf_status read_tile(void *user, const uf_tile_area *area, void *values) {
    struct tiling *t = user;
    const int64_t border = t->planes.in.border;
    if (t->tiles_read > 0 && t->tiles_read == t->plan.tiles - t->plan.rows * t->plan.columns) {
        t->means_seconds = clock_seconds() - t->progress.start;
    }
    t->tiles_read++;
    planes_read(&t->planes, t->picture,
                (struct area){area->top - border, area->left - border, area->height, area->width},
                runtime_stored(t->run), values);
    progress_advance(&t->progress, 1);
    return UF_OK;
}

static uf_status prepare(void *user, uf_program *program) {
    const struct tiling *t = user;
    return t->prepare != NULL ? t->prepare(t->user, program) : UF_OK;
}

static uf_status create_writer(struct tiling *t) {
    const uf_picture_write_options options =
        file_picture_options(t->path, t->run->threads, t->quality);
    signals_hold();
    t->holds_signals = true;
    return uf_picture_writer_create(t->path, &t->head, &options, &t->writer);
}

/* Hand the finished rows of pixels to the writer. */
static uf_status write_band(struct tiling *t, int64_t rows) {
    const double start = clock_seconds();
    if (t->writer == NULL) {
        UF_TRY(create_writer(t));
    }
    UF_TRY(uf_picture_writer_rows(t->writer, t->band.samples, rows));
    t->write_seconds += clock_seconds() - start;
    return UF_OK;
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
    const bool is_picture = t->values == NULL;
    if (is_picture) {
        UF_TRY(make_band(t, area->height));
    }
    struct planes_target target = {.picture = is_picture ? &t->band : NULL,
                                   .values = t->values,
                                   .channels = t->head.channels,
                                   .height = t->head.height,
                                   .width = t->head.width};
    const struct area to = {is_picture ? 0 : area->top - t->area.top, area->left - t->area.left,
                            area->height, area->width};
    if (!planes_write(&t->planes, &target, to, runtime_stored(t->run), values, t->row)) {
        t->not_finite = true;
        return UF_ERROR_INVALID_ARGUMENT;
    }
    if (is_picture && to.left + to.width == t->head.width) {
        UF_TRY(write_band(t, area->height));
    }
    /* With a file begun, a signal ends the work here; signals_release lets it do what it does. */
    return signals_waiting() ? UF_ERROR_STATE : UF_OK;
}

/* ---- before and behind ---- */

/* The part of the output that belongs to the picture: its centre, or all of it where that is not as
 * large as the model's scale says. */
static void choose_area(struct tiling *t, const uf_shape *out) {
    const struct values_frame frame = values_frame_of(t->picture, &t->planes.in);
    const int64_t scale = t->planes.out.scale;
    const int64_t rest_high = out->extent[2] - scale * frame.whole_height;
    const int64_t rest_wide = out->extent[3] - scale * frame.whole_width;
    const bool cut = rest_high >= 0 && rest_wide >= 0;
    t->planes.outputs = (int32_t)out->extent[1];
    if (t->head.channels == 0) {
        t->head.channels = t->planes.colours = t->planes.outputs;
    }
    t->head.height = cut ? scale * frame.height : out->extent[2];
    t->head.width = cut ? scale * frame.width : out->extent[3];
    t->area = (uf_tile_area){cut ? rest_high / 2 : 0, cut ? rest_wide / 2 : 0, t->head.height,
                             t->head.width};
    t->options.area = t->area;
}

int tiling_plan(struct tiling *t) {
    char text[128];
    uf_graph *graph = uf_model_graph(t->model);
    t->solved = calloc((size_t)t->shape_count + 1, sizeof *t->solved);
    if (t->solved == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    TRY_LIBRARY(uf_model_input_shapes(t->model, t->shapes, t->shape_count, t->solved));
    t->program.input_shapes = t->solved;
    t->program.input_shape_count = t->shape_count;
    t->options = uf_tiles_options_default();
    t->options.input = t->shapes[t->input].input;
    t->options.output = t->output;
    t->options.shape = t->solved[t->input].shape;
    t->options.program = &t->program;
    t->options.tile = t->tile;
    t->options.overlap = t->overlap;
    t->options.read = read_tile;
    t->options.write = write_tile;
    t->options.prepare = prepare;
    t->options.user = t;
    TRY_LIBRARY(uf_tiles_plan_of(graph, &t->options, &t->plan));
    const uf_shape *out = &t->plan.output;
    if (out->rank != 4 || out->extent[0] != t->planes.images ||
        (out->extent[1] != 1 && out->extent[1] != 3)) {
        return fail("output %s is %s; a picture is made of 1 or 3 channels", t->output,
                    uf_shape_format(out, text, sizeof text));
    }
    choose_area(t, out);
    TRY_LIBRARY(uf_tiles_plan_of(graph, &t->options, &t->plan));
    return EXIT_DONE;
}

/* Memory for a row, and for values where these are not a picture's. */
static int create_output(struct tiling *t) {
    uf_picture_format format;
    const uf_dtype dtype = runtime_stored(t->run);
    const uf_shape shape = UF_SHAPE(t->head.channels, t->head.height, t->head.width);
    const int64_t count = uf_shape_count(&shape);
    bool has_memory = (t->row = malloc((size_t)t->head.width * sizeof *t->row)) != NULL;
    if (!file_picture_format(t->path, &format)) {
        if (count > 0 && (uint64_t)count <= SIZE_MAX / uf_dtype_size(dtype)) {
            t->values = malloc((size_t)count * uf_dtype_size(dtype));
        }
        has_memory = has_memory && t->values != NULL;
    }
    return has_memory ? EXIT_DONE
                      : fail("out of memory for %" PRId64 " x %" PRId64 " pixels", t->head.width,
                             t->head.height);
}

static int finish_output(struct tiling *t) {
    const double start = clock_seconds();
    if (t->values == NULL) {
        TRY_LIBRARY(uf_picture_writer_finish(t->writer));
    } else {
        TRY(file_write(t->path, "output", runtime_stored(t->run),
                       UF_SHAPE(t->head.channels, t->head.height, t->head.width), t->values, NULL,
                       0));
    }
    t->write_seconds += clock_seconds() - start;
    return EXIT_DONE;
}

int tiling_run(struct tiling *t) {
    TRY(create_output(t));
    t->progress = progress_begin(t->label, "tiles", t->plan.tiles);
    const uf_status status = uf_tiles_run(uf_model_graph(t->model), &t->options);
    progress_end(&t->progress);
    t->network_seconds = clock_seconds() - t->progress.start - t->means_seconds - t->write_seconds;
    if (t->not_finite) {
        return fail("output %s has values that are not finite", t->output);
    }
    if (signals_waiting()) {
        return EXIT_FAILED;
    }
    TRY_LIBRARY(status);
    return finish_output(t);
}
