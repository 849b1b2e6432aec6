/* networks.h - which network enlarges a picture: one of networks.def, or a model file. */
#ifndef UF_TOOLS_NETWORKS_H
#define UF_TOOLS_NETWORKS_H

#include <stdint.h>
#include <stdio.h>

struct network_choice {
    const char *name; /* for messages */
    const char *text; /* the model as text, its weights in the file `path`; NULL: all is in there */
    char path[4096];
    int64_t tile;    /* of --tile where that is not given; 0: one tile */
    int64_t overlap; /* of tiles, at most; -1: what the network looks at */
};

/* Choose by --model (NULL, a name of networks.def, or a file), --scale and --noise (-1: not given).
 * `weights` takes the place of those that come with unfurl; NULL: they do not. Prints a sentence
 * where there is no such network or it was not fetched. */
int network_choose(const char *model, int64_t scale, int64_t noise, const char *weights,
                   struct network_choice *choice);

/* `unfurl --print networks`, for scripts/fetch-networks: a line for each network that is fetched,
 * with tabs between file, source, picture, scale and residual. */
void networks_print(FILE *stream);

#endif
