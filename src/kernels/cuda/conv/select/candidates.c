/* candidates.c - the variants and tiles that are worth timing for a convolution. */
#include <stdlib.h>

#include "kernels/cuda/conv/select/autotune.h"

enum {
    TILED_VARIANTS = 3, /* variants of least estimate, whose other tiles are candidates */
    MOST_TILES = 16     /* of a main loop */
};

/* A tile that costs so much more than the chosen plan is no candidate, however few there are. */
#define WORTHLESS 4.0

static int by_estimate(const void *a, const void *b) {
    const uf_conv_candidate *const left = a, *const right = b;
    const int variants = (int)left->variant - (int)right->variant;
    return left->microseconds != right->microseconds
               ? (left->microseconds > right->microseconds ? 1 : -1)
           : variants != 0 ? variants
                           : left->tile - right->tile;
}

static uf_conv_candidate candidate_of(const uf_conv_plan *plan) {
    const uf_conv_candidate made = {(uf_cuda_conv_variant)plan->variant, plan->tile,
                                    plan->microseconds, plan->workspace};
    return made;
}

/* The tiles of a variant but for its own; their number. */
static int other_tiles(const uf_conv_problem *problem, const uf_conv_candidate *own,
                       uf_conv_candidate *list) {
    uf_conv_problem tiled = *problem;
    uf_conv_plan plan[2];
    int count = 0, tiles = 1;
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    for (int tile = -1; tile < tiles && tile < MOST_TILES; ++tile) {
        tiled.tile = tile < 0 ? UF_CONV_ANY_TILE : tile;
        if (tile == own->tile || !uf_conv_plan_variant(&tiled, own->variant, plan)) {
            continue;
        }
        tiles = plan->tiles;
        if (tile >= 0) {
            list[count++] = candidate_of(plan);
        }
    }
    return count;
}

int uf_conv_candidates(const uf_conv_problem *problem, uf_conv_candidate list[UF_CONV_CANDIDATES]) {
    uf_conv_candidate more[TILED_VARIANTS * MOST_TILES];
    const uf_conv_problem any = uf_conv_any_tile(problem);
    uf_conv_plan plan[2];
    int count = 1, tiles = 0;
    if (problem->args->variant != NULL || uf_conv_choose(&any, plan) != UF_OK) {
        return 0;
    }
    list[0] = candidate_of(plan);
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (v != (int)list[0].variant &&
            uf_conv_plan_variant(&any, (uf_cuda_conv_variant)v, plan)) {
            list[count++] = candidate_of(plan);
        }
    }
    qsort(&list[1], (size_t)(count - 1), sizeof *list, by_estimate);
    for (int i = 0; i < count && i < TILED_VARIANTS; ++i) {
        tiles += other_tiles(&any, &list[i], &more[tiles]);
    }
    qsort(more, (size_t)tiles, sizeof *more, by_estimate);
    for (int i = 0; i < tiles && i < UF_CONV_MORE_TILES; ++i) {
        if (more[i].microseconds <= WORTHLESS * list[0].microseconds) {
            list[count++] = more[i];
        }
    }
    return count;
}
