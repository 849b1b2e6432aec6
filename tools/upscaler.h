/* upscaler.h - a network that enlarges pictures, ready to be compiled for tiles of any size. */
#ifndef UF_TOOLS_UPSCALER_H
#define UF_TOOLS_UPSCALER_H

#include <unfurl/unfurl.h>

#include "means.h"
#include "networks.h"
#include "runtime.h"

struct upscaler {
    uf_dtype dtype;
    uf_context *context;
    uf_model *model;
    char input[UF_NAME_SIZE], output[UF_NAME_SIZE]; /* names of the graph's */
    uf_picture_map in, out;
    struct means
        means; /* the network cut at its means, from the first picture of several tiles on */
};

/* A network's program and its host memory for one shape of tiles. */
struct upscaler_program {
    uf_program *program;
    uf_tensor *from, *to;            /* the picture, and the one output; the program's */
    void *input, *output;            /* the same in host memory, of the upscaler's dtype */
    int64_t channels, height, width; /* of the output */
};

/* Open the context and load the network. After a failure too upscaler_close is called. */
int upscaler_open(const struct run_options *run, const struct network_choice *choice, bool trust,
                  struct upscaler *upscaler);
void upscaler_close(struct upscaler *upscaler); /* a zeroed struct is legal */

/* Compile the network, or with `part` one of upscaler->means, for `images` images of height x
 * width, border included. */
int upscaler_compile(const struct upscaler *upscaler, const uf_model *part,
                     const struct run_options *run, int64_t images, int64_t height, int64_t width,
                     struct upscaler_program *program);
void upscaler_program_free(struct upscaler_program *program); /* a zeroed struct is legal */

#endif
