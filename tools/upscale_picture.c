/* upscale_picture.c - the way of one picture through `unfurl upscale`, tile by tile.
 *
 * Three things go on at once. The device computes a tile; meanwhile this thread reads the next
 * one's pixels and converts those of the last one; threads of a PNG file's writer compress the rows
 * of tiles that are finished. The picture that is made is never whole in memory.
 *
 * A tile is read with the border that the model file names, which are the picture's own pixels and
 * beyond its edges whatever the border_mode says. So where the border is all that an output pixel
 * depends on, a tile gives what the whole picture would have given. */
#include "upscale.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "planes.h"
#include "progress.h"
#include "signals.h"
#include "transparency.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Everything of one picture, released together whatever happened. */
struct upscaling {
    const struct upscale_arguments *arguments;
    const struct upscale_file *file;
    const struct upscaler *upscaler;
    struct upscale_report *report;
    int64_t scale;
    uf_picture input;
    uf_picture band;           /* for a picture: the output of one row of tiles */
    uf_picture_writer *writer; /* from the first finished row of tiles on, under signals_hold */
    bool holds_signals;
    char *values; /* the output for HDF5, in the run's type */
    struct planes_plan plan;
    struct planes_target target;
    struct cut rows, columns;
    struct upscale_means means;
    struct progress progress;
};

/* A program for one shape of tiles. */
struct tile_program {
    int64_t height, width; /* of the input, without the border */
    struct upscaler_program network;
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
    upscale_means_free(&work->means);
    free(work->values);
    uf_picture_writer_destroy(work->writer);
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
    struct upscale_report *report = work->report;
    double start = clock_seconds();
    uf_picture_read_options options = uf_picture_read_options_default();
    options.max_pixels = work->arguments->max_pixels;
    TRY_LIBRARY(uf_picture_read(work->file->input, &options, &work->input));
    if (!transparency_fill(&work->input)) {
        return fail("out of memory for the colours of %s where it is transparent",
                    work->file->input);
    }
    report->width = work->input.width;
    report->height = work->input.height;
    report->channels = work->input.channels;
    report->depth = work->input.depth;
    report->read_seconds = clock_seconds() - start;
    return EXIT_DONE;
}

/* Refused before the work, and not at its end. */
static int check_format(const struct upscaling *work) {
    uf_picture_format format;
    if (!file_picture_format(work->file->output, &format) || format != UF_PICTURE_JPEG) {
        return EXIT_DONE;
    }
    if (!uf_picture_has_format(format)) {
        return fail("cannot write %s: this unfurl was built without JPEG", work->file->output);
    }
    return pixels_have_alpha(&work->input)
               ? fail("%s has alpha, which a JPEG picture has not: %s would lose it; name a .png",
                      work->file->input, work->file->output)
               : EXIT_DONE;
}

static void cut_tiles(struct upscaling *work) {
    const struct upscaler *upscaler = work->upscaler;
    struct upscale_report *report = work->report;
    work->scale = upscaler->out.scale;
    work->plan = planes_plan_for(&work->input, &upscaler->in, &upscaler->out);
    work->rows = cut_axis(work->input.height, report->tile, upscaler->in.multiple);
    work->columns = cut_axis(work->input.width, report->tile, upscaler->in.multiple);
    report->tiles = work->rows.count * work->columns.count;
    report->made_width = work->scale * work->input.width;
    report->made_height = work->scale * work->input.height;
}

static int create_output(struct upscaling *work) {
    const struct upscale_report *report = work->report;
    const uf_shape shape = UF_SHAPE(work->input.channels, report->made_height, report->made_width);
    const uf_dtype dtype = work->upscaler->dtype;
    work->target = (struct planes_target){.dtype = dtype,
                                          .channels = work->input.channels,
                                          .height = report->made_height,
                                          .width = report->made_width};
    uf_picture_format format;
    if (file_picture_format(work->file->output, &format)) {
        const int32_t depth = format == UF_PICTURE_JPEG ? 8 : work->input.depth;
        const int64_t tallest = cut_length(&work->rows, work->rows.larger > 0);
        TRY_LIBRARY(uf_picture_create(report->made_width,
                                      smaller(work->scale * tallest, report->made_height),
                                      work->input.channels, depth, &work->band));
        move_colour(&work->input, &work->band);
        work->target.picture = &work->band;
        return EXIT_DONE;
    }
    int64_t count = uf_shape_count(&shape);
    size_t size = uf_dtype_size(dtype);
    if (count > 0 && (uint64_t)count <= SIZE_MAX / size) {
        work->values = malloc((size_t)count * size);
    }
    work->target.values = work->values;
    return work->values != NULL ? EXIT_DONE
                                : fail("out of memory for %" PRId64 " x %" PRId64 " pixels",
                                       report->made_width, report->made_height);
}

/* ---- tiles ---- */

static void tile_program_release(struct tile_program *tile) {
    upscaler_program_free(&tile->network);
    free(tile->row);
}

/* Does the network make of a tile what its model file says? */
static int check_output(const struct upscaling *work, const struct tile_program *tile) {
    const int64_t border = work->upscaler->in.border;
    const int64_t rest_high = tile->network.height - work->scale * tile->height;
    const int64_t rest_wide = tile->network.width - work->scale * tile->width;
    /* More than the scale of all that went in: then the picture line lacks a scale. */
    const bool too_large = tile->network.height > work->scale * (tile->height + 2 * border) ||
                           tile->network.width > work->scale * (tile->width + 2 * border);
    if (tile->network.channels != 3) {
        return fail("the network makes pictures of %" PRId64 " channels; it must be 3",
                    tile->network.channels);
    }
    if (rest_high < 0 || rest_wide < 0 || too_large) {
        return fail("the network makes %" PRId64 " x %" PRId64 " pixels of %" PRId64 " x %" PRId64
                    " and a border of %" PRId64 "; its picture lines say scale=%" PRId64
                    ", which is something else",
                    tile->network.width, tile->network.height, tile->width, tile->height, border,
                    work->scale);
    }
    return EXIT_DONE;
}

static int tile_program_create(const struct upscaling *work, struct tile_program *tile) {
    const int64_t border = work->upscaler->in.border;
    const uf_model *part = work->means.count > 0 ? work->upscaler->means.whole : NULL;
    TRY(upscaler_compile(work->upscaler, part, &work->arguments->run, work->plan.images,
                         tile->height + 2 * border, tile->width + 2 * border, &tile->network));
    tile->row = malloc((size_t)(work->scale * tile->width) * sizeof *tile->row);
    return tile->row != NULL ? check_output(work, tile) : fail("out of memory for a row of pixels");
}

/* Read the tile's pixels, while the device computes the one before. */
static void read_tile(const struct upscaling *work, const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    const int64_t border = work->upscaler->in.border;
    struct area seen = {cut_begin(&work->rows, run->row) - border,
                        cut_begin(&work->columns, run->column) - border, tile->height + 2 * border,
                        tile->width + 2 * border};
    planes_read(&work->plan, &work->input, seen, work->upscaler->dtype, tile->network.input);
}

static int start_tile(const struct upscaling *work, const struct tile_run *run) {
    const struct upscaler_program *network = &run->tile->network;
    TRY_LIBRARY(uf_tensor_upload(network->from, network->input));
    TRY(upscale_means_upload(&work->means, network->program));
    TRY_LIBRARY(uf_program_run(network->program));
    return EXIT_DONE;
}

/* Wait for the tile. Its pixels are converted by store_tile, when the next one is on its way. */
static int await_tile(const struct tile_run *run) {
    const struct upscaler_program *network = &run->tile->network;
    TRY_LIBRARY(uf_tensor_download(network->to, network->output));
    return EXIT_DONE;
}

/* Hand the finished rows of pixels to the writer. */
static int write_band(struct upscaling *work, int64_t rows) {
    if (work->writer == NULL) {
        const int64_t threads = work->arguments->run.threads;
        uf_picture_write_options options = uf_picture_write_options_default();
        (void)file_picture_format(work->file->output, &options.format);
        options.quality = (int32_t)work->arguments->quality;
        options.threads = threads < 1 ? 0 : (int32_t)threads;
        uf_picture head = work->band;
        head.height = work->target.height;
        signals_hold();
        work->holds_signals = true;
        TRY_LIBRARY(uf_picture_writer_create(work->file->output, &head, &options, &work->writer));
    }
    TRY_LIBRARY(uf_picture_writer_rows(work->writer, work->band.samples, rows));
    return EXIT_DONE;
}

/* Tiles at the lower and right edge leave out what is beyond the picture, up to the multiple. */
static int store_tile(struct upscaling *work, const struct tile_run *run) {
    const struct tile_program *tile = run->tile;
    const int64_t scale = work->scale;
    const bool is_picture = work->target.picture != NULL;
    const int64_t top = scale * cut_begin(&work->rows, run->row);
    const int64_t left = scale * cut_begin(&work->columns, run->column);
    const struct area made = {is_picture ? 0 : top, left,
                              smaller(scale * tile->height, work->target.height - top),
                              smaller(scale * tile->width, work->target.width - left)};
    const struct planes_source source = {.planes = tile->network.output,
                                         .dtype = work->upscaler->dtype,
                                         .height = tile->network.height,
                                         .width = tile->network.width,
                                         .top = (tile->network.height - scale * tile->height) / 2,
                                         .left = (tile->network.width - scale * tile->width) / 2};
    if (!planes_write(&work->plan, &work->target, made, &source, tile->row)) {
        return fail("the network gave values that are not finite; the weights are damaged");
    }
    progress_advance(&work->progress, 1);
    if (is_picture && run->column == work->columns.count - 1) {
        double start = clock_seconds();
        TRY(write_band(work, made.height));
        work->report->write_seconds += clock_seconds() - start;
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
            if (tile->network.program == NULL) {
                tile->height = cut_length(&work->rows, begin < work->rows.larger);
                tile->width = cut_length(&work->columns, larger);
                TRY(tile_program_create(work, tile));
            }
            const struct tile_run next = {tile, row, column};
            read_tile(work, &next);
            if (last.tile != NULL) {
                TRY(await_tile(&last));
            }
            TRY(start_tile(work, &next));
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
    work->progress = progress_begin("upscale", "tiles", work->report->tiles);
    int status = EXIT_DONE;
    for (int part = 0; part < 2 && status == EXIT_DONE; part++) {
        struct tile_program programs[2] = {{0}, {0}};
        status = run_rows(work, ends[part], ends[part + 1], programs);
        tile_program_release(&programs[0]);
        tile_program_release(&programs[1]);
    }
    progress_end(&work->progress);
    work->report->network_seconds = clock_seconds() - start - work->report->write_seconds;
    return status;
}

static int write_output(struct upscaling *work) {
    double start = clock_seconds();
    if (work->writer != NULL) {
        TRY_LIBRARY(uf_picture_writer_finish(work->writer));
        release_signals(work);
    } else {
        const uf_shape shape =
            UF_SHAPE(work->target.channels, work->target.height, work->target.width);
        TRY(file_write(work->file->output, "output", work->upscaler->dtype, shape, work->values,
                       NULL, 0));
    }
    work->report->write_seconds += clock_seconds() - start;
    return EXIT_DONE;
}

static int enlarge(struct upscaling *work, const struct network_choice *choice,
                   struct upscaler *upscaler) {
    const struct upscale_arguments *arguments = work->arguments;
    TRY(read_input(work));
    TRY(check_format(work));
    if (upscaler->model == NULL) {
        TRY(upscaler_open(&arguments->run, choice, arguments->trust, upscaler));
    }
    work->upscaler = upscaler;
    work->report->tile = arguments->tile >= 0 ? arguments->tile : choice->tile;
    cut_tiles(work);
    TRY(create_output(work));
    if (work->report->tiles > 1) {
        const double start = clock_seconds();
        const struct upscale_tiles tiles = {&work->plan, &work->input, work->rows, work->columns};
        TRY(upscale_means_find(upscaler, &arguments->run, &tiles, &work->means));
        work->report->means_seconds = clock_seconds() - start;
    }
    TRY(run_network(work));
    return write_output(work);
}

int upscale_picture(const struct upscale_arguments *arguments, const struct network_choice *choice,
                    const struct upscale_file *file, struct upscaler *upscaler,
                    struct upscale_report *report) {
    const double start = clock_seconds();
    struct upscaling work = {.arguments = arguments, .file = file, .report = report};
    *report = (struct upscale_report){0};
    const int status = enlarge(&work, choice, upscaler);
    release(&work);
    report->total_seconds = clock_seconds() - start;
    return status;
}
