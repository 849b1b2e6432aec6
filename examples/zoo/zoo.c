/* zoo.c - the list of models. */
#include "zoo.h"

#define SIZE(n, s, c, f, b, l)                                                                     \
    { .batch = n, .side = s, .channels = c, .features = f, .blocks = b, .latent = l }
const zoo_model zoo_models[] = {
    /* SIZE: batch, side, channels, features, blocks, latent; of the test, and the real one */
    {"dcgan", zoo_dcgan, SIZE(3, 16, 3, 4, 0, 6), SIZE(16, 64, 3, 64, 0, 100)},
    {"vae", zoo_vae, SIZE(3, 16, 3, 4, 3, 5), SIZE(16, 64, 3, 32, 5, 128)},
    {"pix2pix", zoo_pix2pix, SIZE(2, 64, 3, 2, 6, 0), SIZE(1, 256, 3, 64, 8, 0)},
    {"cyclegan", zoo_cyclegan, SIZE(2, 16, 3, 3, 2, 0), SIZE(1, 256, 3, 64, 9, 0)},
    {"fsrcnn", zoo_fsrcnn, SIZE(2, 11, 1, 9, 3, 0), SIZE(1, 256, 1, 56, 2, 0)},
    {"fast_style", zoo_fast_style, SIZE(2, 24, 3, 3, 2, 0), SIZE(1, 256, 3, 32, 5, 0)},
    {"hifigan", zoo_hifigan, SIZE(2, 5, 7, 32, 0, 0), SIZE(1, 64, 80, 512, 0, 0)},
    {"sngan", zoo_sngan, SIZE(3, 16, 3, 3, 0, 0), SIZE(16, 32, 3, 64, 0, 0)},
    {"taesd", zoo_taesd, SIZE(2, 3, 4, 6, 0, 0), SIZE(1, 32, 4, 64, 0, 0)},
    {"ldm_decoder", zoo_ldm_decoder, SIZE(2, 3, 4, 32, 0, 0), SIZE(1, 16, 4, 128, 0, 0)},
    {"esrgan", zoo_esrgan, SIZE(2, 7, 3, 6, 2, 0), SIZE(1, 32, 3, 64, 23, 0)},
    {"cond_gan", zoo_cond_gan, SIZE(3, 12, 3, 8, 10, 7), SIZE(16, 32, 3, 128, 10, 100)},
    {"sam_upscaler", zoo_sam_upscaler, SIZE(2, 5, 0, 16, 0, 0), SIZE(1, 64, 0, 256, 0, 0)},
};
const int zoo_model_count = sizeof zoo_models / sizeof zoo_models[0];
