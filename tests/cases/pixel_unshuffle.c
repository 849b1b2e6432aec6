/* pixel_unshuffle.c - cases of PixelUnshuffle. */
#include "cases/shuffle.h"

static void make(int64_t row, test_random *random, layer_case *one) {
    shuffle_case(row, random, one, true);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return uf_pixel_unshuffle(graph, input, shuffle_factor(one->row));
}

const layer_family pixel_unshuffle_family = {
    .name = "pixel_unshuffle",
    .table_count = SHUFFLE_CASES,
    .table = make,
    .graph = build,
};
