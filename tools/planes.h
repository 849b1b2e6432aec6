/* planes.h - a picture as the images of a network that takes and gives one channel or three.
 *
 * With an enlarging network, which has three: a grey picture goes in as R = G = B and comes out as
 * the mean of the three; alpha is scaled as such a grey picture of its own, in a second image of
 * the batch. Alpha that is the same in the whole picture needs no network and stays exactly what it
 * is. */
#ifndef UF_TOOLS_PLANES_H
#define UF_TOOLS_PLANES_H

#include <unfurl/unfurl.h>

#include "pixels.h"

struct planes_plan {
    uf_picture_map in, out;  /* of the network's input and output */
    int32_t inputs, outputs; /* channels of the network */
    int32_t colours;         /* of the picture that is made: 1 grey, 3 RGB */
    bool has_alpha;
    bool constant_alpha; /* then the network does not see it */
    double alpha;        /* its value, in [0, 1] */
    int64_t images;      /* in the network's batch: 1, or 2 with alpha */
};

struct planes_plan planes_plan_for(const uf_picture *picture, const uf_picture_map *in,
                                   const uf_picture_map *out);

/* Read `area` into `planes`, (images, inputs, height, width) of `dtype` (UF_F32 or UF_F64). */
void planes_read(const struct planes_plan *plan, const uf_picture *picture, struct area area,
                 uf_dtype dtype, void *planes);

/* Where results go: a picture, or values (channels, height, width). */
struct planes_target {
    uf_picture *picture;
    void *values; /* used when `picture` is NULL */
    int32_t channels;
    int64_t height, width;
};

/* Write `planes`, (images, outputs, area.height, area.width) of `dtype`, to `area` of the target. A
 * picture's samples are clamped to [0, 1] and rounded to nearest; values are stored as they are.
 * `row` is scratch for area.width doubles. Returns false at the first value that is not finite. */
bool planes_write(const struct planes_plan *plan, struct planes_target *target, struct area area,
                  uf_dtype dtype, const void *planes, double *row);

#endif
