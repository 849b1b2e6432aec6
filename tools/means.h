/* means.h - networks with means over the whole picture (squeeze-and-excitation), in tiles.
 *
 * A tile alone has another mean than the picture. So the network is cut at its means: stage k is
 * the network up to the value that the k-th mean is of, and the means before it are inputs. Each
 * stage goes over all tiles, and the picture's mean is the sum of what the tiles have of the value.
 * At last the whole network runs with the means as inputs. */
#ifndef UF_TOOLS_MEANS_H
#define UF_TOOLS_MEANS_H

#include <unfurl/unfurl.h>

struct means_stage {
    uf_model *model; /* its one output is the value */
    int64_t channels;
    int64_t rise, run; /* the value grows by `rise` where the picture does by `run` */
};

struct means {
    struct means_stage *stages;
    bool is_known;   /* means_split has been here */
    int32_t count;   /* 0: there is no mean, or none that this file knows how to cut at */
    uf_model *whole; /* the network with the means as inputs behind the picture */
};

/* Cut the model; `multiple` is its picture's. */
int means_split(uf_context *context, const uf_model *model, uf_dtype dtype, int64_t multiple,
                struct means *means);
void means_free(struct means *means); /* a zeroed struct is legal */

#endif
