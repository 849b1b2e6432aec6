/* shuffle.c - see shuffle.h. */
#include "cases/shuffle.h"

#include "cases/arranged.h"

/* (..., C, H, W) of the packed tensor but for its r r times more channels. */
static const struct {
    int32_t rank;
    int64_t extent[5];
    int64_t factor;
} table[SHUFFLE_CASES] = {
    {4, {2, 3, 4, 5}, 2}, {4, {1, 1, 1, 1}, 3}, {4, {3, 2, 5, 3}, 3},
    {4, {2, 3, 4, 5}, 1}, {3, {2, 7, 16}, 4},   {5, {2, 3, 2, 3, 4}, 2},
};

int64_t shuffle_factor(int64_t row) {
    return table[row].factor;
}

/* packed[..., (c r + i) r + j, h, w] belongs to spread[..., c, h r + i, w r + j]. */
static void packed_of(int64_t row, const int64_t *spread, int64_t *packed) {
    const int64_t r = table[row].factor;
    const int32_t c = table[row].rank - 3;
    for (int32_t i = 0; i < c; ++i) {
        packed[i] = spread[i];
    }
    packed[c] = (spread[c] * r + spread[c + 1] % r) * r + spread[c + 2] % r;
    packed[c + 1] = spread[c + 1] / r;
    packed[c + 2] = spread[c + 2] / r;
}

static void spread_of(int64_t row, const int64_t *packed, int64_t *spread) {
    const int64_t r = table[row].factor;
    const int32_t c = table[row].rank - 3;
    for (int32_t i = 0; i < c; ++i) {
        spread[i] = packed[i];
    }
    spread[c] = packed[c] / (r * r);
    spread[c + 1] = packed[c + 1] * r + packed[c] / r % r;
    spread[c + 2] = packed[c + 2] * r + packed[c] % r;
}

void shuffle_case(int64_t row, test_random *random, layer_case *one, bool packs) {
    const int64_t r = table[row].factor;
    const int32_t rank = table[row].rank;
    int64_t packed[UF_MAX_RANK], spread[UF_MAX_RANK];
    for (int32_t i = 0; i < rank; ++i) {
        packed[i] = table[row].extent[i] * (i == rank - 3 ? r * r : 1);
        spread[i] = table[row].extent[i] * (i > rank - 3 ? r : 1);
    }
    one->input = case_tensor_of("", rank, packs ? spread : packed);
    one->output = case_tensor_of("", rank, packs ? packed : spread);
    arranged_case(row, random, one, packs ? spread_of : packed_of);
}
