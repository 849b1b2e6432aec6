/* upscaler.h - a network that enlarges pictures. */
#ifndef UF_TOOLS_UPSCALER_H
#define UF_TOOLS_UPSCALER_H

#include <unfurl/unfurl.h>

#include "networks.h"
#include "runtime.h"

struct upscaler {
    uf_dtype dtype;
    uf_context *context;
    uf_model *model;
    char input[UF_NAME_SIZE], output[UF_NAME_SIZE]; /* names of the graph's */
    uf_picture_map in, out;
};

/* Open the context and load the network. After a failure too upscaler_close is called. */
int upscaler_open(const struct run_options *run, const struct network_choice *choice, bool trust,
                  struct upscaler *upscaler);
void upscaler_close(struct upscaler *upscaler); /* a zeroed struct is legal */

#endif
