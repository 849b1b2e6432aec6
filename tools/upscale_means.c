/* upscale_means.c - the means over a picture that goes through a network in tiles (means.h). */
#include "upscale.h"

#include <inttypes.h>
#include <stdlib.h>

#include "command.h"
#include "progress.h"

void upscale_means_free(struct upscale_means *means) {
    for (int32_t i = 0; i < means->count; i++) {
        free(means->values[i]);
    }
    free(means->values);
    free(means->counts);
    *means = (struct upscale_means){0};
}

int upscale_means_upload(const struct upscale_means *means, uf_program *program) {
    /* The picture is the first input, and the means come in their order. */
    for (int32_t i = 1; i < uf_program_input_count(program); i++) {
        uf_tensor *input = uf_program_input(program, uf_program_input_name(program, i));
        TRY_LIBRARY(uf_tensor_upload_as(input, UF_F64, means->values[i - 1], means->counts[i - 1]));
    }
    return EXIT_DONE;
}

/* One stage on its way over the tiles. */
struct walk {
    const struct upscaler *upscaler;
    const struct run_options *run;
    const struct upscale_tiles *tiles;
    const struct means_stage *stage;
    const struct upscale_means *means; /* of the stages before */
    double *sums;                      /* (images, channels) */
    struct progress *progress;
};

/* A piece's rows, or columns, of the value: begin ... end of `extent`. They lie side by side in the
 * value of the whole picture; the first and the last piece have what is beyond, too. */
struct owned {
    int64_t begin, end;
};

static struct owned owned_of(const struct walk *walk, const struct cut *cut, int64_t piece,
                             int64_t length, int64_t extent) {
    const int64_t core = length * walk->stage->rise / walk->stage->run;
    const int64_t before = (extent - core) / 2;
    return (struct owned){.begin = piece == 0 ? 0 : before,
                          .end = piece == cut->count - 1 ? extent : before + core};
}

static double value_at(const void *values, uf_dtype dtype, int64_t at) {
    return dtype == UF_F64 ? ((const double *)values)[at] : (double)((const float *)values)[at];
}

static void add_tile(const struct walk *walk, const struct upscaler_program *program,
                     struct owned rows, struct owned columns) {
    const int64_t planes = walk->tiles->plan->images * program->channels;
    for (int64_t plane = 0; plane < planes; plane++) {
        double sum = 0.0;
        for (int64_t y = rows.begin; y < rows.end; y++) {
            const int64_t row = (plane * program->height + y) * program->width;
            for (int64_t x = columns.begin; x < columns.end; x++) {
                sum += value_at(program->output, walk->upscaler->dtype, row + x);
            }
        }
        walk->sums[plane] += sum;
    }
}

static int run_tile(const struct walk *walk, struct area area, struct upscaler_program *program) {
    const struct upscale_tiles *tiles = walk->tiles;
    planes_read(tiles->plan, tiles->picture, area, walk->upscaler->dtype, program->input);
    TRY_LIBRARY(uf_tensor_upload(program->from, program->input));
    TRY(upscale_means_upload(walk->means, program->program));
    TRY_LIBRARY(uf_program_run(program->program));
    TRY_LIBRARY(uf_tensor_download(program->to, program->output));
    return EXIT_DONE;
}

/* Rows and columns of tiles, each the larger ones or the others: they have one shape. */
static int walk_shape(const struct walk *walk, bool larger_rows, bool larger_columns,
                      struct upscaler_program *program) {
    const struct cut *rows = &walk->tiles->rows, *columns = &walk->tiles->columns;
    const int64_t border = walk->upscaler->in.border;
    const int64_t height = cut_length(rows, larger_rows);
    const int64_t width = cut_length(columns, larger_columns);
    const int64_t first_row = larger_rows ? 0 : rows->larger;
    const int64_t row_end = larger_rows ? rows->larger : rows->count;
    const int64_t first_column = larger_columns ? 0 : columns->larger;
    const int64_t column_end = larger_columns ? columns->larger : columns->count;
    if (first_row == row_end || first_column == column_end) {
        return EXIT_DONE;
    }
    TRY(upscaler_compile(walk->upscaler, walk->stage->model, walk->run, walk->tiles->plan->images,
                         height + 2 * border, width + 2 * border, program));
    for (int64_t row = first_row; row < row_end; row++) {
        const struct owned high = owned_of(walk, rows, row, height, program->height);
        for (int64_t column = first_column; column < column_end; column++) {
            const struct area area = {cut_begin(rows, row) - border,
                                      cut_begin(columns, column) - border, height + 2 * border,
                                      width + 2 * border};
            TRY(run_tile(walk, area, program));
            add_tile(walk, program, high, owned_of(walk, columns, column, width, program->width));
        }
    }
    return EXIT_DONE;
}

/* The value's extent for the whole picture, from that for a piece. */
static int64_t whole_extent(const struct walk *walk, const struct cut *cut, int64_t length,
                            int64_t extent) {
    const int64_t whole = (cut->size * cut->count + cut->larger) * cut->unit;
    return extent + (whole - length) * walk->stage->rise / walk->stage->run;
}

static int walk_stage(const struct walk *walk) {
    const struct cut *rows = &walk->tiles->rows, *columns = &walk->tiles->columns;
    int64_t count = 0;
    if (walk->stage->rise * rows->unit % walk->stage->run != 0) {
        return fail("a value of the network grows by %" PRId64
                    " where the picture grows by %" PRId64
                    ": its means need another multiple in the picture line, or --tile 0",
                    walk->stage->rise, walk->stage->run);
    }
    for (int shape = 0; shape < 4; shape++) {
        const bool larger_rows = shape < 2, larger_columns = shape % 2 == 0;
        struct upscaler_program program = {0};
        const int status = walk_shape(walk, larger_rows, larger_columns, &program);
        if (program.program != NULL) {
            count = whole_extent(walk, rows, cut_length(rows, larger_rows), program.height) *
                    whole_extent(walk, columns, cut_length(columns, larger_columns), program.width);
        }
        upscaler_program_free(&program);
        TRY(status);
    }
    for (int64_t i = 0; i < walk->tiles->plan->images * walk->stage->channels; i++) {
        walk->sums[i] /= (double)count;
    }
    return EXIT_DONE;
}

static int find(struct upscaler *upscaler, const struct run_options *run,
                const struct upscale_tiles *tiles, struct progress *progress,
                struct upscale_means *means) {
    const struct means *parts = &upscaler->means;
    means->values = calloc((size_t)parts->count, sizeof *means->values);
    means->counts = calloc((size_t)parts->count, sizeof *means->counts);
    if (means->values == NULL || means->counts == NULL) {
        return fail("out of memory for the means of a picture");
    }
    for (int32_t i = 0; i < parts->count; i++) {
        const int64_t count = tiles->plan->images * parts->stages[i].channels;
        double *sums = calloc((size_t)count, sizeof *sums);
        if (sums == NULL) {
            return fail("out of memory for the means of a picture");
        }
        const struct walk walk = {.upscaler = upscaler,
                                  .run = run,
                                  .tiles = tiles,
                                  .stage = &parts->stages[i],
                                  .means = means,
                                  .sums = sums,
                                  .progress = progress};
        means->values[i] = sums;
        means->counts[i] = count;
        const int status = walk_stage(&walk);
        means->count = i + 1;
        TRY(status);
    }
    return EXIT_DONE;
}

int upscale_means_find(struct upscaler *upscaler, const struct run_options *run,
                       const struct upscale_tiles *tiles, struct upscale_means *means) {
    struct means *parts = &upscaler->means;
    if (!parts->is_known) {
        TRY(means_split(upscaler->context, upscaler->model, upscaler->dtype, upscaler->in.multiple,
                        parts));
    }
    if (parts->count == 0) {
        return EXIT_DONE;
    }
    struct progress progress =
        progress_begin("means", "tiles", parts->count * tiles->rows.count * tiles->columns.count);
    const int status = find(upscaler, run, tiles, &progress, means);
    progress_end(&progress);
    return status;
}
