/* upscale_picture.c - the way of one picture through `unfurl upscale`. */
#include "upscale.h"

#include <inttypes.h>

#include "command.h"
#include "files.h"
#include "tiling.h"
#include "transparency.h"

/* One picture on its way. */
struct upscaling {
    const struct upscale_arguments *arguments;
    const struct upscale_file *file;
    struct streams *streams;
    const char *path; /* to write to: the file's output, or a temporary one for stdout */
    struct upscale_report *report;
    uf_picture input;
};

static int read_input(struct upscaling *work) {
    struct upscale_report *report = work->report;
    const char *path = work->file->input;
    double start = clock_seconds();
    TRY(streams_input(work->streams, &path));
    uf_picture_read_options options = uf_picture_read_options_default();
    options.max_pixels = work->arguments->max_pixels;
    TRY_LIBRARY(uf_picture_read(path, &options, &work->input));
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
    if (!file_picture_format(work->path, &format) || format != UF_PICTURE_JPEG) {
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

/* Does the network make of the picture what its model file says? */
static int check_output(const struct tiling *t) {
    const uf_picture_map *in = &t->planes.in;
    const struct values_frame frame = values_frame_of(t->picture, in);
    const int64_t scale = t->planes.out.scale, border = in->border;
    const int64_t channels = t->plan.output.extent[1];
    const int64_t height = t->plan.output.extent[2], width = t->plan.output.extent[3];
    if (channels != 3) {
        return fail("the network makes pictures of %" PRId64 " channels; it must be 3", channels);
    }
    /* More than the scale of all that went in: then the picture line lacks a scale. */
    if (height < scale * frame.whole_height || height > scale * (frame.whole_height + 2 * border) ||
        width < scale * frame.whole_width || width > scale * (frame.whole_width + 2 * border)) {
        return fail("the network makes %" PRId64 " x %" PRId64 " pixels of %" PRId64 " x %" PRId64
                    " and a border of %" PRId64 "; its picture lines say scale=%" PRId64
                    ", which is something else",
                    width, height, frame.whole_width, frame.whole_height, border, scale);
    }
    return EXIT_DONE;
}

static int run(const struct upscaling *work, struct tiling *t) {
    struct upscale_report *report = work->report;
    uf_picture_format format;
    if (file_picture_format(t->path, &format) && format == UF_PICTURE_JPEG) {
        t->head.depth = 8;
    }
    TRY(tiling_plan(t));
    TRY(check_output(t));
    report->made_width = t->head.width;
    report->made_height = t->head.height;
    report->tiles = t->plan.rows * t->plan.columns;
    TRY(tiling_run(t));
    report->means_seconds = t->means_seconds;
    report->network_seconds = t->network_seconds;
    report->write_seconds = t->write_seconds;
    return EXIT_DONE;
}

static int enlarge(struct upscaling *work, const struct network_choice *choice,
                   struct upscaler *upscaler) {
    const struct upscale_arguments *arguments = work->arguments;
    TRY(read_input(work)); /* while signals end the process, as stdin may wait */
    if (work->file->stdout_type != NULL) {
        TRY(streams_output(work->streams, work->file->stdout_type, &work->path));
    }
    TRY(check_format(work));
    if (upscaler->model == NULL) {
        TRY(upscaler_open(&arguments->run, choice, arguments->trust, upscaler));
    }
    const int64_t tile = arguments->tile >= 0 ? arguments->tile : choice->tile;
    work->report->tile = tile;
    struct tiling t = {
        .label = "upscale",
        .model = upscaler->model,
        .run = &arguments->run,
        .program = runtime_program(&arguments->run),
        .shape_count = 1,
        .output = upscaler->output,
        .picture = &work->input,
        .planes = planes_plan_for(&work->input, &upscaler->in, &upscaler->out),
        .head = work->input, /* its samples keep their meaning */
        .path = work->path,
        .tile = tile > 0 ? tile : INT32_MAX,
        .overlap = choice->overlap,
        .quality = arguments->quality,
    };
    const struct values_frame frame = values_frame_of(&work->input, &upscaler->in);
    uf_input_shape shape = {upscaler->input, values_shape_of(&frame, &upscaler->in, 3)};
    shape.shape.extent[0] = t.planes.images;
    t.shapes = &shape;
    t.head.samples = NULL;
    const int status = run(work, &t);
    tiling_free(&t);
    return status == EXIT_DONE && work->file->stdout_type != NULL ? streams_send(work->streams)
                                                                  : status;
}

int upscale_picture(const struct upscale_arguments *arguments, const struct network_choice *choice,
                    struct upscale_files *files, int64_t index, struct upscaler *upscaler,
                    struct upscale_report *report) {
    const double start = clock_seconds();
    const struct upscale_file *file = &files->list[index];
    struct upscaling work = {.arguments = arguments,
                             .file = file,
                             .streams = &files->streams,
                             .path = file->output,
                             .report = report};
    *report = (struct upscale_report){0};
    const int status = enlarge(&work, choice, upscaler);
    uf_picture_free(&work.input);
    report->total_seconds = clock_seconds() - start;
    return status;
}
