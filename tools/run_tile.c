/* run_tile.c - `unfurl run --tile`: a picture through a model in tiles (tiling.h). */
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "json.h"
#include "tiling.h"

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

static uf_status fill_inputs(void *user, uf_program *program) {
    const struct run_work *work = user;
    for (int32_t i = 0; i < work->input_count; i++) {
        if (i + 1 != work->tiled) {
            uf_tensor *input = uf_program_input(program, work->shapes[i].input);
            UF_TRY(uf_tensor_upload_as(input, work->inputs[i].dtype, work->inputs[i].data,
                                       uf_tensor_count(input)));
        }
    }
    return UF_OK;
}

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

static int check_arguments(const struct run_work *work) {
    const struct run_arguments *arguments = work->arguments;
    if (work->tiled == 0 || arguments->outputs.count != 1 || arguments->check != NULL ||
        arguments->profile) {
        return fail_usage("run: --tile takes one picture as an input and one as an output, without "
                          "--check and --profile");
    }
    return EXIT_DONE;
}

static void report(const struct run_work *work, const struct tiling *t) {
    const char *file = strchr(work->arguments->outputs.texts[0], '=') + 1;
    if (!work->arguments->run.json) {
        say("%s: %" PRId64 " x %" PRId64 " pixels in %" PRId64 " x %" PRId64 " tiles, %.3f s on %s",
            file, t->head.width, t->head.height, t->plan.columns, t->plan.rows, t->network_seconds,
            uf_context_description(work->context));
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "model", work->arguments->path);
    json_text(&json, "file", file);
    json_integer(&json, "width", t->head.width);
    json_integer(&json, "height", t->head.height);
    json_integer(&json, "rows", t->plan.rows);
    json_integer(&json, "columns", t->plan.columns);
    json_integer(&json, "tile_height", t->plan.tile.extent[2]);
    json_integer(&json, "tile_width", t->plan.tile.extent[3]);
    runtime_report(&json, work->context, runtime_dtype(&work->arguments->run));
    json_text(&json, "math", runtime_maths[work->arguments->run.math]);
    json_number(&json, "seconds", t->network_seconds);
    json_close(&json, '}');
}

static int run(struct run_work *work, struct tiling *t) {
    const struct run_arguments *arguments = work->arguments;
    struct planes_plan *planes = &t->planes;
    struct run_output output;
    uf_picture_format format;
    TRY(check_arguments(work));
    TRY(read_tile_size(arguments->tile, &t->tile));
    TRY(run_output_open(work, arguments->outputs.texts[0], &output));
    if (!file_picture_format(output.path, &format)) {
        return fail_usage("run: --output is '%s'; with --tile it is a .png or .jpg",
                          arguments->outputs.texts[0]);
    }
    t->output = output.name;
    t->path = output.path;
    const uf_input_shape *input = &work->shapes[work->tiled - 1];
    TRY_LIBRARY(uf_model_picture(work->model, false, input->input, &planes->in));
    TRY_LIBRARY(uf_model_picture(work->model, true, output.name, &planes->out));
    planes->inputs = (int32_t)input->shape.extent[1];
    planes->images = 1;
    t->program.random_seed = (uint64_t)arguments->seed;
    t->head.depth = 8;
    TRY(tiling_plan(t));
    TRY(tiling_run(t));
    TRY(run_output_close(work, &output));
    report(work, t);
    return EXIT_DONE;
}

int run_tiles(struct run_work *work) {
    struct tiling t = {.label = "run",
                       .model = work->model,
                       .run = &work->arguments->run,
                       .program = runtime_program(&work->arguments->run),
                       .shapes = work->shapes,
                       .shape_count = work->input_count,
                       .input = work->tiled - 1,
                       .picture = &work->picture,
                       .head = uf_picture_default(),
                       .overlap = -1,
                       .quality = work->arguments->quality,
                       .prepare = fill_inputs,
                       .user = work};
    const int status = run(work, &t);
    tiling_free(&t);
    return status;
}
