/* embedding.c - rows of a weight, chosen by indices. */
#include "parity/replay.h"

#include <stdlib.h>

static int replay_embedding(struct replay *replay) {
    struct layer_run run;
    struct array weight;
    TRY(parity_read_array(replay, "weight", &weight));
    free(weight.values);
    int status = parity_begin(replay, &run, "indices", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_embedding(run.graph, run.inputs[0], uf_at(run.store, ""),
                                  weight.shape.extent[0], weight.shape.extent[1]);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_embedding[] = {
    {"embedding/", replay_embedding, false},
    {NULL, NULL, false},
};
