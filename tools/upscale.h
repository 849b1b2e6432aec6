/* upscale.h - what the files of `unfurl upscale` share: the command (upscale.c), the pictures that
 * it goes through (upscale_files.c) and the way of one of them (upscale_picture.c). */
#ifndef UF_TOOLS_UPSCALE_H
#define UF_TOOLS_UPSCALE_H

#include "networks.h"
#include "options.h"
#include "runtime.h"
#include "stream.h"
#include "upscaler.h"

struct upscale_arguments {
    const char *input;
    struct option_list others; /* more inputs, and last the output */
    const char *model, *weights;
    int64_t scale, noise, tile, max_pixels, quality;
    bool trust;
    struct run_options run;
};

/* ---- upscale_files.c ---- */

struct upscale_file {
    char *input, *output;    /* owned; input may be "-" */
    const char *stdout_type; /* of an output "-" or "jpg:-"; NULL: it is a file */
};

struct upscale_files {
    struct upscale_file *list;
    int64_t count, capacity;
    struct streams streams; /* of "-" */
};

/* Each picture of the operands with the file that it becomes. Makes the folder that they go to. */
int upscale_files_find(const struct upscale_arguments *arguments, struct upscale_files *files);
void upscale_files_free(struct upscale_files *files); /* a zeroed struct is legal */

/* The figures of one picture. */
struct upscale_report {
    int64_t width, height, made_width, made_height, tile, tiles;
    int32_t channels, depth;
    double read_seconds, means_seconds, network_seconds, write_seconds, total_seconds;
};

/* ---- upscale_picture.c ---- */

/* Enlarge picture `index`. The network is opened after the first one has been read. */
int upscale_picture(const struct upscale_arguments *arguments, const struct network_choice *choice,
                    struct upscale_files *files, int64_t index, struct upscaler *upscaler,
                    struct upscale_report *report);

#endif
