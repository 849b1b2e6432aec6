/* model.c - the list of models, and what their files share. */
#include "models/model.h"

const bench_model_row bench_model_rows[] = {
    {.name = "dcgan_generate",
     .build = bench_dcgan_generate,
     .stores = {"generator"},
     .mode = UF_EVAL,
     .batches = {1, 64, 256},
     .size = {.channels = 3, .height = 64, .width = 64, .features = 64, .latent = 100},
     .quick = {.batch = 2, .channels = 3, .height = 16, .width = 16, .features = 4, .latent = 6}},
    {.name = "dcgan_train",
     .build = bench_dcgan_train,
     .stores = {"generator", "discriminator"},
     .mode = UF_TRAIN,
     .batches = {128},
     .size = {.channels = 3, .height = 64, .width = 64, .features = 64, .latent = 100},
     .quick = {.batch = 3, .channels = 3, .height = 16, .width = 16, .features = 4, .latent = 6}},
    {.name = "dcgan_train_gray",
     .build = bench_dcgan_train,
     .stores = {"generator", "discriminator"},
     .mode = UF_TRAIN,
     .batches = {64},
     .size = {.channels = 1, .height = 64, .width = 64, .features = 32, .latent = 64},
     .quick = {.batch = 2, .channels = 1, .height = 16, .width = 16, .features = 2, .latent = 4}},
    {.name = "pix2pix_generate",
     .build = bench_pix2pix_generate,
     .stores = {"generator"},
     .mode = UF_EVAL,
     .batches = {1, 8},
     .size = {.channels = 3, .height = 256, .width = 256, .features = 64},
     .quick = {.batch = 2, .channels = 3, .height = 32, .width = 32, .features = 2}},
    {.name = "pix2pix_train",
     .build = bench_pix2pix_train,
     .stores = {"generator", "discriminator"},
     .mode = UF_TRAIN,
     .batches = {1, 16},
     .size = {.channels = 3, .height = 256, .width = 256, .features = 64},
     .quick = {.batch = 2, .channels = 3, .height = 32, .width = 32, .features = 2}},
    {.name = "vae_decode",
     .build = bench_vae_decode,
     .stores = {"vae"},
     .mode = UF_EVAL,
     .batches = {64},
     .size = {.channels = 3, .height = 64, .width = 64, .features = 32, .latent = 128},
     .quick = {.batch = 2, .channels = 3, .height = 16, .width = 16, .features = 4, .latent = 5}},
    {.name = "vae_train",
     .build = bench_vae_train,
     .stores = {"vae"},
     .mode = UF_TRAIN,
     .batches = {128},
     .size = {.channels = 3, .height = 64, .width = 64, .features = 32, .latent = 128},
     .quick = {.batch = 3, .channels = 3, .height = 16, .width = 16, .features = 4, .latent = 5}},
    {.name = "upconv7",
     .build = bench_upconv7,
     .stores = {"network"},
     .mode = UF_EVAL,
     .batches = {1},
     .size = {.channels = 3, .height = 1200, .width = 1920},
     .quick = {.batch = 1, .channels = 3, .height = 17, .width = 20}},
    {.name = "cyclegan_generate",
     .build = bench_cyclegan_generate,
     .stores = {"generator"},
     .mode = UF_EVAL,
     .batches = {1},
     .size = {.channels = 3, .height = 256, .width = 256, .features = 64},
     .quick = {.batch = 2, .channels = 3, .height = 16, .width = 16, .features = 2}},
};
const int32_t bench_model_row_count = sizeof bench_model_rows / sizeof bench_model_rows[0];

uf_value bench_model_input(bench_model *model, uf_graph *graph, const char *name, uf_shape shape) {
    model->inputs[model->input_count++] = name;
    return uf_input(graph, name, shape);
}

uf_conv2d_options bench_conv(int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    uf_conv2d_options options = uf_conv2d_options_default();
    for (int axis = 0; axis < 2; ++axis) {
        options.kernel[axis] = kernel;
        options.stride[axis] = stride;
        options.padding[axis] = padding;
    }
    options.bias = bias;
    return options;
}

uf_conv_transpose2d_options bench_conv_transpose(int64_t kernel, int64_t stride, int64_t padding,
                                                 bool bias) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    for (int axis = 0; axis < 2; ++axis) {
        options.kernel[axis] = kernel;
        options.stride[axis] = stride;
        options.padding[axis] = padding;
    }
    options.bias = bias;
    return options;
}
