/* ncnn.h - `unfurl convert` of a network of ncnn's. */
#ifndef UF_TOOLS_NCNN_H
#define UF_TOOLS_NCNN_H

#include <stdbool.h>

#include "options.h"

struct ncnn_arguments {
    const char *param, *bin, *to;
    const char *picture;              /* --picture; NULL: not given */
    const struct option_list *shapes; /* --shape NAME=C,H,W */
    bool json;
};

/* Write the model file and report it. */
int ncnn_convert(const struct ncnn_arguments *arguments);

#endif
