/* cut.h - one axis of a picture cut into `count` pieces that differ by one unit at most: the first
 * `larger` have one more than `size`. No thin piece is left over at the end, and there are at most
 * four shapes of tiles. A unit is the map's `multiple` of pixels. */
#ifndef UF_TOOLS_CUT_H
#define UF_TOOLS_CUT_H

#include <stdbool.h>
#include <stdint.h>

struct cut {
    int64_t count, size, larger, unit;
};

/* Pieces of `tile` pixels at most, but of one unit at least; 0: one piece. */
static inline struct cut cut_axis(int64_t extent, int64_t tile, int64_t unit) {
    const int64_t units = (extent + unit - 1) / unit;
    const int64_t most = tile / unit > 0 ? tile / unit : 1;
    const int64_t count = tile == 0 ? 1 : (units + most - 1) / most;
    return (struct cut){
        .count = count, .size = units / count, .larger = units % count, .unit = unit};
}

static inline int64_t cut_begin(const struct cut *cut, int64_t piece) {
    return (piece * cut->size + (piece < cut->larger ? piece : cut->larger)) * cut->unit;
}

/* The length of a larger piece, or of the others. */
static inline int64_t cut_length(const struct cut *cut, bool larger) {
    return (cut->size + (larger ? 1 : 0)) * cut->unit;
}

#endif
