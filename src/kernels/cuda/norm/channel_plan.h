/* channel_plan.h - how blocks of threads share the channels of a tensor (N, C, H, W) in kernels
 * that add over N, H and W. A function of extents and element size alone, so that sums keep their
 * order.
 *
 * A channel is cut into vectors (16 bytes where H*W is a multiple, else one element), numbered
 * image by image. Consecutive vectors make a piece. A block takes one piece of one channel, or of
 * several neighbours where planes are small: a warp then reads one run of memory. */
#ifndef UF_KERNELS_CUDA_CHANNEL_PLAN_H
#define UF_KERNELS_CUDA_CHANNEL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <unfurl/export.h>

#include "kernels/geometry.h"

UF_BEGIN_DECLS

enum {
    UF_CHANNEL_BLOCK = 256, /* threads of a block */
    UF_CHANNEL_STEPS = 8,   /* vectors that a thread takes at least, where there are enough */
    UF_CHANNEL_PIECES = 256 /* of a channel, at most: each block adds the sums of all */
};

typedef struct uf_channel_plan {
    int32_t width;                 /* elements of a vector: 16 bytes of them, or 1 */
    int32_t lanes, channels, rows; /* thread t = (row*channels + channel)*lanes + lane */
    int32_t lane_bits, unit_bits;  /* lanes and lanes*channels are these powers of two */
    int64_t plane, vectors;        /* vectors of a plane and of a channel */
    int64_t step_images;           /* a thread's next vector is a team further: so many images, */
    int64_t step_vectors;          /* and so many vectors of a plane, fewer than it has */
    int64_t steps;                 /* vectors that a thread takes of a piece, at most */
    int64_t pieces;                /* of a channel */
    int64_t groups;                /* of channels; a grid has groups*pieces blocks */
} uf_channel_plan;

/* All extents are 1 or more; `element` is the size of one. */
uf_channel_plan uf_channel_plan_of(const int64_t extent[4], size_t element);

/* Threads of a block that share a channel, and the vectors of a piece. */
static UF_HD_INLINE int32_t uf_channel_team(const uf_channel_plan *plan) {
    return plan->lanes * plan->rows;
}

static UF_HD_INLINE int64_t uf_channel_piece(const uf_channel_plan *plan) {
    return uf_channel_team(plan) * plan->steps;
}

/* The vector that a thread is at: number i of its channel is vector p of image n. */
typedef struct uf_channel_cursor {
    int64_t i, n, p;
} uf_channel_cursor;

static UF_HD_INLINE uf_channel_cursor uf_channel_at(const uf_channel_plan *plan, int64_t i) {
    uf_channel_cursor made;
    made.i = i;
    /* 64-bit division is slow on a GPU. */
    made.n = plan->vectors <= UINT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)plan->plane)
                                         : i / plan->plane;
    made.p = i - made.n * plan->plane;
    return made;
}

/* From vector p of a plane to the thread's next one, a team further and step_images on; true where
 * that is in one image more. No division: it would cost more than a vector's arithmetic. */
static UF_HD_INLINE bool uf_channel_step(const uf_channel_plan *plan, int64_t *p) {
    *p += plan->step_vectors;
    const bool wraps = *p >= plan->plane;
    *p -= wraps ? plan->plane : 0;
    return wraps;
}

UF_END_DECLS

#endif
