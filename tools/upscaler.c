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
    uf_model_destroy(upscaler->model);
    uf_context_destroy(upscaler->context);
    upscaler->model = NULL;
    upscaler->context = NULL;
}

int upscaler_compile(const struct upscaler *upscaler, const struct run_options *run, int64_t images,
                     int64_t height, int64_t width, struct upscaler_program *program) {
    uf_program_options options = runtime_program(run);
    const uf_input_shape given = {upscaler->input, UF_SHAPE(images, 3, height, width)};
    uf_input_shape solved;
    TRY_LIBRARY(uf_model_input_shapes(upscaler->model, &given, 1, &solved));
    options.input_shapes = &solved;
    options.input_shape_count = 1;
    TRY_LIBRARY(uf_program_compile(uf_model_graph(upscaler->model), &options, &program->program));
    const uf_tensor *input = uf_program_input(program->program, upscaler->input);
    const uf_tensor *output = uf_program_output(program->program, upscaler->output);
    if (input == NULL || output == NULL) {
        return fail_library();
    }
    const uf_shape made = uf_tensor_shape(output);
    char text[128];
    if (made.rank != 4 || made.extent[0] != images || made.extent[1] != 3) {
        return fail("the network makes %s of %" PRId64 " pictures of %" PRId64 " x %" PRId64
                    " pixels; (N, 3, H, W) is an image",
                    uf_shape_format(&made, text, sizeof text), images, width, height);
    }
    program->height = made.extent[2];
    program->width = made.extent[3];
    const size_t size = uf_dtype_size(upscaler->dtype);
    program->input = malloc((size_t)uf_tensor_count(input) * size);
    program->output = malloc((size_t)uf_tensor_count(output) * size);
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
