#include "upscaler.h"

#include <inttypes.h>
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
