/* upscale.c - `unfurl upscale`: double a picture, tile by tile.
 *
 * Three things go on at once. The device computes a tile; meanwhile this thread reads the next
 * one's pixels and converts those of the last one; threads of the PNG writer compress the rows of
 * tiles that are finished. The picture that is made is never whole in memory. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "files.h"
#include "json.h"
#include "planes.h"
#include "progress.h"
#include "runtime.h"
#include "weights.h"
#include "signals.h"
#include "upconv.h"

/* The halo costs a tile of n pixels about 7/n more arithmetic; its memory grows with n squared. */
enum { DEFAULT_TILE = 128, LARGEST_TILE = 65536 };

struct upscale_arguments {
    const char *input, *output, *weights;
    int64_t tile, max_pixels;
    bool trust;
    struct run_options run;
};

/* One axis cut into `count` pieces that differ by one pixel at most: the first `larger` have
 * `size + 1`. No thin piece is left over at the end, and there are at most four shapes of tiles. */
struct cut {
    int64_t count, size, larger;
};

static struct cut cut_axis(int64_t extent, int64_t tile) {
    int64_t count = tile == 0 ? 1 : (extent + tile - 1) / tile;
    return (struct cut){.count = count, .size = extent / count, .larger = extent % count};
}

static int64_t cut_begin(const struct cut *cut, int64_t piece) {
    return piece * cut->size + (piece < cut->larger ? piece : cut->larger);
}

/* Everything of one run, released together whatever happened. */
struct upscaling {
    const struct upscale_arguments *arguments;
    uf_dtype dtype;
    uf_picture input;
    uf_picture band;       /* for PNG: the output of one row of tiles */
    uf_png_writer *writer; /* from the first finished row of tiles on, under signals_hold */
    bool holds_signals;
    char *values; /* the output for HDF5, in the run's type */
    struct planes_plan plan;
    struct planes_target target;
    struct cut rows, columns;
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    struct progress progress;
    double read_seconds, network_seconds, write_seconds;
};

/* A program for one shape of tiles, with its buffers. */
struct tile_program {
    int64_t height, width; /* of the input, without the halo */
    uf_program *program;
    void *input, *output; /* host memory for one tile */
    double *row;
};

/* A tile that is on its way through the network. */
struct tile_run {
    const struct tile_program *tile; /* NULL: none is */
    int64_t row, column;             /* among the tiles */
};

/* A signal that waits ends the process here. */
static void release_signals(struct upscaling *work) {
    if (work->holds_signals) {
        work->holds_signals = false;
        signals_release();
    }
}

static void release(struct upscaling *work) {
    uf_graph_destroy(work->graph);
    uf_store_destroy(work->store);
    uf_context_destroy(work->context);
    free(work->values);
    uf_png_writer_destroy(work->writer);
    uf_picture_free(&work->band);
    uf_picture_free(&work->input);
    release_signals(work);
}

/* The colour information says what the samples mean, and that does not change. The profile moves.
 */
static void move_colour(uf_picture *from, uf_picture *to) {
    to->gamma = from->gamma;
    to->srgb_intent = from->srgb_intent;
    to->has_chromaticities = from->has_chromaticities;
    for (int i = 0; i < 8; i++) {
        to->chromaticities[i] = from->chromaticities[i];
    }
    for (size_t i = 0; i < sizeof to->icc_name; i++) {
        to->icc_name[i] = from->icc_name[i];
    }
    to->icc_profile = from->icc_profile;
    to->icc_size = from->icc_size;
    from->icc_profile = NULL;
    from->icc_size = 0;
}

static int read_input(struct upscaling *work) {
    double start = clock_seconds();
    uf_png_read_options options = uf_png_read_options_default();
    options.max_pixels = work->arguments->max_pixels;
    TRY_LIBRARY(uf_png_read_with(work->arguments->input, &options, &work->input));
    work->plan = planes_plan_for(&work->input);
    work->rows = cut_axis(work->input.height, work->arguments->tile);
    work->columns = cut_axis(work->input.width, work->arguments->tile);
    work->read_seconds = clock_seconds() - start;
    return EXIT_DONE;
}

static uf_shape output_shape(const struct upscaling *work) {
    return UF_SHAPE(work->input.channels, UPCONV_SCALE * work->input.height,
                    UPCONV_SCALE * work->input.width);
}

static int create_output(struct upscaling *work) {
    uf_shape shape = output_shape(work);
    work->target = (struct planes_target){.dtype = work->dtype,
                                          .channels = work->input.channels,
                                          .height = shape.extent[1],
                                          .width = shape.extent[2]};
    if (file_kind_of(work->arguments->output) == FILE_PNG) {
        const int64_t tallest = work->rows.size + (work->rows.larger > 0 ? 1 : 0);
        TRY_LIBRARY(uf_picture_create(shape.extent[2], UPCONV_SCALE * tallest, work->input.channels,
                                      work->input.depth, &work->band));
        move_colour(&work->input, &work->band);
        work->target.picture = &work->band;
        return EXIT_DONE;
    }
    int64_t count = uf_shape_count(&shape);
    size_t size = uf_dtype_size(work->dtype);
    if (count > 0 && (uint64_t)count <= SIZE_MAX / size) {
        work->values = malloc((size_t)count * size);
    }
    work->target.values = work->values;
    return work->values != NULL ? EXIT_DONE
                                : fail("out of memory for %" PRId64 " x %" PRId64 " pixels",
                                       shape.extent[2], shape.extent[1]);
}

/* The network's input for a tile of height x width pixels. */
static uf_shape tile_input_shape(const struct upscaling *work, int64_t height, int64_t width) {
    return UF_SHAPE(work->plan.images, 3, height + 2 * UPCONV_HALO, width + 2 * UPCONV_HALO);
}

static int load_network(struct upscaling *work) {
    char shipped[4096];
    const char *weights = work->arguments->weights;
    if (weights == NULL) {
        TRY(file_find_weights(UPCONV_WEIGHTS, shipped, sizeof shipped));
        weights = shipped;
    }
    uf_store_options options = uf_store_options_default();
    options.dtype = work->dtype;
    TRY_LIBRARY(uf_store_create_with(work->context, "upconv_7", &options, &work->store));
    TRY_LIBRARY(uf_graph_create(work->context, &work->graph));
    uf_value tile =
        uf_input(work->graph, "tile", tile_input_shape(work, work->rows.size, work->columns.size));
    uf_output(work->graph, "doubled", upconv_build(work->graph, work->store, tile));
    TRY_LIBRARY(uf_graph_status(work->graph));
    return runtime_load(work->store, weights, work->arguments->trust);
}

static void tile_program_release(struct tile_program *tile) {
    uf_program_destroy(tile->program);
    free(tile->input);
    free(tile->output);
    free(tile->row);
}

static int tile_program_create(const struct upscaling *work, struct tile_program *tile) {
    uf_program_options options = runtime_program(&work->arguments->run);
    const uf_input_shape shape = {"tile", tile_input_shape(work, tile->height, tile->width)};
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    TRY_LIBRARY(uf_program_compile(work->graph, &options, &tile->program));
    const uf_tensor *input = uf_program_input(tile->program, "tile");
    const uf_tensor *output = uf_program_output(tile->program, "doubled");
    if (input == NULL || output == NULL) {
        return fail_library();
    }
    size_t size = uf_dtype_size(work->dtype);
    tile->input = malloc((size_t)uf_tensor_count(input) * size);
    tile->output = malloc((size_t)uf_tensor_count(output) * size);
    tile->row = malloc((size_t)(UPCONV_SCALE * tile->width) * sizeof *tile->row);
    return tile->input != NULL && tile->output != NULL && tile->row != NULL
               ? EXIT_DONE
               : fail("out of memory for a tile of %" PRId64 " x %" PRId64
                      " pixels; choose a smaller --tile",
                      tile->width, tile->height);
}

/* Read the tile's pixels, while the device computes the one before. */
static void read_tile(const struct upscaling *work, const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    struct area seen = {cut_begin(&work->rows, run->row) - UPCONV_HALO,
                        cut_begin(&work->columns, run->column) - UPCONV_HALO,
                        tile->height + 2 * UPCONV_HALO, tile->width + 2 * UPCONV_HALO};
    planes_read(&work->plan, &work->input, seen, work->dtype, tile->input);
}

static int start_tile(const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    TRY_LIBRARY(uf_tensor_upload(uf_program_input(tile->program, "tile"), tile->input));
    TRY_LIBRARY(uf_program_run(tile->program));
    return EXIT_DONE;
}

/* Wait for the tile. Its pixels are converted by store_tile, when the next one is on its way. */
static int await_tile(const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    TRY_LIBRARY(uf_tensor_download(uf_program_output(tile->program, "doubled"), tile->output));
    return EXIT_DONE;
}

/* Hand the finished rows of pixels to the writer. */
static int write_band(struct upscaling *work, int64_t rows) {
    if (work->writer == NULL) {
        const uf_png_write_options options = file_png_options(work->arguments->run.threads);
        uf_picture head = work->band;
        head.height = work->target.height;
        signals_hold();
        work->holds_signals = true;
        TRY_LIBRARY(uf_png_writer_create(work->arguments->output, &head, &options, &work->writer));
    }
    TRY_LIBRARY(uf_png_writer_rows(work->writer, work->band.samples, rows));
    return EXIT_DONE;
}

static int store_tile(struct upscaling *work, const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    const bool is_png = work->target.picture != NULL;
    struct area made = {is_png ? 0 : UPCONV_SCALE * cut_begin(&work->rows, run->row),
                        UPCONV_SCALE * cut_begin(&work->columns, run->column),
                        UPCONV_SCALE * tile->height, UPCONV_SCALE * tile->width};
    if (!planes_write(&work->plan, &work->target, made, work->dtype, tile->output, tile->row)) {
        return fail("the network gave values that are not finite; the weights are damaged");
    }
    progress_advance(&work->progress, 1);
    if (is_png && run->column == work->columns.count - 1) {
        double start = clock_seconds();
        TRY(write_band(work, made.height));
        work->write_seconds += clock_seconds() - start;
    }
    /* With a file begun, a signal ends the work here; release() lets it do what it does. */
    return work->holds_signals && signals_waiting() ? EXIT_FAILED : EXIT_DONE;
}

/* Rows `begin` … `end` of tiles, which have one height and so at most two shapes. */
static int run_rows(struct upscaling *work, int64_t begin, int64_t end,
                    struct tile_program programs[2]) {
    struct tile_run last = {0};
    for (int64_t row = begin; row < end; row++) {
        for (int64_t column = 0; column < work->columns.count; column++) {
            bool larger = column < work->columns.larger;
            struct tile_program *tile = &programs[larger ? 0 : 1];
            if (tile->program == NULL) {
                tile->height = work->rows.size + (begin < work->rows.larger ? 1 : 0);
                tile->width = work->columns.size + (larger ? 1 : 0);
                TRY(tile_program_create(work, tile));
            }
            const struct tile_run next = {tile, row, column};
            read_tile(work, &next);
            if (last.tile != NULL) {
                TRY(await_tile(&last));
            }
            TRY(start_tile(&next));
            if (last.tile != NULL) {
                TRY(store_tile(work, &last));
            }
            last = next;
        }
    }
    if (last.tile == NULL) {
        return EXIT_DONE;
    }
    TRY(await_tile(&last));
    return store_tile(work, &last);
}

/* The larger rows of tiles, then the others, so that two programs are in memory at a time. */
static int run_network(struct upscaling *work) {
    double start = clock_seconds();
    const struct cut *rows = &work->rows;
    const int64_t ends[3] = {0, rows->larger, rows->count};
    work->progress = progress_begin("upscale", "tiles", rows->count * work->columns.count);
    int status = EXIT_DONE;
    for (int part = 0; part < 2 && status == EXIT_DONE; part++) {
        struct tile_program programs[2] = {{0}, {0}};
        status = run_rows(work, ends[part], ends[part + 1], programs);
        tile_program_release(&programs[0]);
        tile_program_release(&programs[1]);
    }
    progress_end(&work->progress);
    work->network_seconds = clock_seconds() - start - work->write_seconds;
    return status;
}

static int write_output(struct upscaling *work) {
    double start = clock_seconds();
    if (work->writer != NULL) {
        TRY_LIBRARY(uf_png_writer_finish(work->writer));
        release_signals(work);
    } else {
        TRY(file_write(work->arguments->output, "output", work->dtype, output_shape(work),
                       work->values, NULL, 0));
    }
    work->write_seconds += clock_seconds() - start;
    return EXIT_DONE;
}

static void report(const struct upscaling *work, double total) {
    const struct upscale_arguments *arguments = work->arguments;
    const uf_picture *input = &work->input;
    if (!arguments->run.json) {
        say("%s: %" PRId64 " x %" PRId64 " pixels from %" PRId64 " x %" PRId64
            "; %s, network %.3f s, total %.3f s",
            arguments->output, UPCONV_SCALE * input->width, UPCONV_SCALE * input->height,
            input->width, input->height, uf_context_description(work->context),
            work->network_seconds, total);
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_open(&json, "input", '{');
    json_text(&json, "file", arguments->input);
    json_integer(&json, "width", input->width);
    json_integer(&json, "height", input->height);
    json_integer(&json, "channels", input->channels);
    json_integer(&json, "depth", input->depth);
    json_close(&json, '}');
    json_open(&json, "output", '{');
    json_text(&json, "file", arguments->output);
    json_integer(&json, "width", UPCONV_SCALE * input->width);
    json_integer(&json, "height", UPCONV_SCALE * input->height);
    json_close(&json, '}');
    runtime_report(&json, work->context, work->dtype);
    json_text(&json, "math", runtime_maths[arguments->run.math]);
    json_integer(&json, "tile", arguments->tile);
    json_integer(&json, "tiles", work->rows.count * work->columns.count);
    json_number(&json, "read_seconds", work->read_seconds);
    json_number(&json, "network_seconds", work->network_seconds);
    json_number(&json, "write_seconds", work->write_seconds);
    json_number(&json, "total_seconds", total);
    json_close(&json, '}');
}

static int upscale(struct upscaling *work) {
    double start = clock_seconds();
    if (file_kind_of(work->arguments->output) == FILE_OTHER) {
        return fail_usage("upscale: the output is '%s'; its name must end in .png or .h5",
                          work->arguments->output);
    }
    TRY_LIBRARY(uf_file_check_output(work->arguments->output));
    TRY(read_input(work));
    TRY(runtime_open(&work->arguments->run, 0, &work->context));
    TRY(load_network(work));
    TRY(create_output(work));
    TRY(run_network(work));
    TRY(write_output(work));
    report(work, clock_seconds() - start);
    return EXIT_DONE;
}

static int upscale_run(const void *parsed) {
    const struct upscale_arguments *arguments = parsed;
    struct upscaling work = {.arguments = arguments, .dtype = runtime_dtype(&arguments->run)};
    int status = upscale(&work);
    release(&work);
    return status;
}

static const struct option upscale_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "IN.png",
     .help = "grey, RGB, with or without alpha, 8 or 16 bits",
     .offset = offsetof(struct upscale_arguments, input)},
    {.kind = OPTION_OPERAND,
     .name = "OUT.png",
     .help = "of the same kind; a .h5 gets /output, before clamping and rounding",
     .offset = offsetof(struct upscale_arguments, output)},
    {.kind = OPTION_TEXT,
     .name = "weights",
     .value = "FILE.h5",
     .help = "upconv_7 weights; those that come with unfurl unless given",
     .offset = offsetof(struct upscale_arguments, weights)},
    {.kind = OPTION_INTEGER,
     .name = "tile",
     .value = "N",
     .help = "largest side of a tile in pixels, 0 for no tiles",
     .maximum = LARGEST_TILE,
     .fallback = DEFAULT_TILE,
     .offset = offsetof(struct upscale_arguments, tile)},
    {.kind = OPTION_INTEGER,
     .name = "max-pixels",
     .value = "N",
     .help = "refuse a picture of more pixels",
     .minimum = 1,
     .maximum = INT64_MAX,
     .fallback = UF_PNG_MAX_PIXELS,
     .offset = offsetof(struct upscale_arguments, max_pixels)},
    WEIGHTS_TRUST_ROW(struct upscale_arguments),
    RUN_OPTION_ROWS(struct upscale_arguments),
    MATH_OPTION_ROW(struct upscale_arguments, run.math),
};

const struct command command_upscale = {
    .name = "upscale",
    .summary = "Double a picture with a pretrained network.",
    .details =
        "The network is upconv_7 (waifu2x, by nagadomi). The result does not depend on the tiles:\n"
        "each is computed with all the pixels around it that it depends on.",
    .example = "unfurl upscale photo.png photo@2x.png",
    .options = upscale_options,
    .option_count = sizeof upscale_options / sizeof upscale_options[0],
    .arguments_size = sizeof(struct upscale_arguments),
    .run = upscale_run,
};
