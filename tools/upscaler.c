#include "upscaler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int load(struct upscaler *upscaler, const struct network_choice *choice, bool trust) {
    uf_model_options options = uf_model_options_default();
    options.dtype = upscaler->dtype;
    options.untrusted = !trust;
    if (choice->text == NULL) {
        TRY_LIBRARY(uf_model_load(upscaler->context, choice->path, &options, &upscaler->model));
        return EXIT_DONE;
    }
    TRY_LIBRARY(uf_model_parse(upscaler->context, choice->name, choice->text, strlen(choice->text),
                               &options, &upscaler->model));
    return runtime_load(uf_model_store(upscaler->model), choice->path, trust);
}

/* One picture goes in, one comes out. */
static int take_sides(struct upscaler *upscaler, const char *name) {
    const int32_t inputs = uf_model_input_count(upscaler->model);
    const int32_t outputs = uf_model_output_count(upscaler->model);
    uf_input_shape shape;
    if (inputs != 1 || outputs != 1) {
        return fail("%s has %" PRId32 " inputs and %" PRId32
                    " outputs; a network that enlarges pictures has one of each",
                    name, inputs, outputs);
    }
    TRY_LIBRARY(uf_model_input_shapes(upscaler->model, NULL, 0, &shape));
    char text[128];
    if (shape.shape.rank != 4 || shape.shape.extent[1] != 3 ||
        uf_model_input_dtype(upscaler->model, 0) != UF_F32) {
        return fail("%s: its input is %s; a network that enlarges pictures takes (N, 3, H, W)",
                    name, uf_shape_format(&shape.shape, text, sizeof text));
    }
    snprintf(upscaler->input, sizeof upscaler->input, "%s", shape.input);
    snprintf(upscaler->output, sizeof upscaler->output, "%s",
             uf_model_io_name(upscaler->model, true, 0));
    TRY_LIBRARY(uf_model_picture(upscaler->model, false, upscaler->input, &upscaler->in));
    TRY_LIBRARY(uf_model_picture(upscaler->model, true, upscaler->output, &upscaler->out));
    return EXIT_DONE;
}

int upscaler_open(const struct run_options *run, const struct network_choice *choice, bool trust,
                  struct upscaler *upscaler) {
    upscaler->dtype = runtime_dtype(run);
    TRY(runtime_open(run, 0, &upscaler->context));
    TRY(load(upscaler, choice, trust));
    return take_sides(upscaler, choice->name);
}

void upscaler_close(struct upscaler *upscaler) {
    means_free(&upscaler->means);
    uf_model_destroy(upscaler->model);
    uf_context_destroy(upscaler->context);
    upscaler->model = NULL;
    upscaler->context = NULL;
}

/* A part has a store of its own, which is empty: it reads the network's. */
static int compile(const struct upscaler *upscaler, const uf_model *model,
                   const struct run_options *run, const uf_input_shape *picture,
                   uf_program **program) {
    uf_program_options options = runtime_program(run);
    const uf_binding binding = {uf_model_store(model), uf_model_store(upscaler->model)};
    const int32_t count = uf_model_input_count(model);
    uf_input_shape *solved = calloc((size_t)count, sizeof *solved);
    if (solved == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    options.input_shapes = solved;
    options.input_shape_count = count;
    options.bindings = &binding;
    options.binding_count = model != upscaler->model ? 1 : 0;
    uf_status status = uf_model_input_shapes(model, picture, 1, solved);
    if (status == UF_OK) {
        status = uf_program_compile(uf_model_graph(model), &options, program);
    }
    free(solved);
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

int upscaler_compile(const struct upscaler *upscaler, const uf_model *part,
                     const struct run_options *run, int64_t images, int64_t height, int64_t width,
                     struct upscaler_program *program) {
    const uf_input_shape picture = {upscaler->input, UF_SHAPE(images, 3, height, width)};
    TRY(compile(upscaler, part != NULL ? part : upscaler->model, run, &picture, &program->program));
    program->from = uf_program_input(program->program, upscaler->input);
    program->to = uf_program_output(program->program, uf_program_output_name(program->program, 0));
    if (program->from == NULL || program->to == NULL) {
        return fail_library();
    }
    const uf_shape made = uf_tensor_shape(program->to);
    char text[128];
    if (made.rank != 4 || made.extent[0] != images) {
        return fail("the network makes %s of %" PRId64 " pictures of %" PRId64 " x %" PRId64
                    " pixels; (N, 3, H, W) is an image",
                    uf_shape_format(&made, text, sizeof text), images, width, height);
    }
    program->channels = made.extent[1];
    program->height = made.extent[2];
    program->width = made.extent[3];
    const size_t size = uf_dtype_size(upscaler->dtype);
    program->input = malloc((size_t)uf_tensor_count(program->from) * size);
    program->output = malloc((size_t)uf_tensor_count(program->to) * size);
    return program->input != NULL && program->output != NULL
               ? EXIT_DONE
               : fail("out of memory for a tile of %" PRId64 " x %" PRId64
                      " pixels; choose a smaller --tile",
                      width, height);
}

void upscaler_program_free(struct upscaler_program *program) {
    uf_program_destroy(program->program);
    free(program->input);
    free(program->output);
    *program = (struct upscaler_program){0};
}
