/* channel_blocked.h - the channel-blocked layout of a tensor: rounded once, 16 bytes of channels
 * at each position, so that one TMA load reads a window anywhere, with zeros outside the image.
 *
 * [group][class][plane][image group][y][image down][x][image across][16 bytes]
 *
 * A plane has 4 channels (TF32), 8 (BF16), or the big or the small parts of 4 (3xTF32: the last 4
 * of 8 planes are small parts) or of 8 (3xF16: the last 2 of 4 planes). Position (y, x) of class
 * (a, b) is element (y * mul[0] + a, x * mul[1] + b). 2^images_log images lie side by side, so that
 * short rows make long runs. Channels, images and elements beyond the tensor are zero. Needs no
 * GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_CHANNEL_BLOCKED_H
#define UF_KERNELS_CUDA_CONV_TRANSFORM_CHANNEL_BLOCKED_H

#include <string.h>

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    CHANNEL_BLOCKED_RESIDUES = 16, /* most of an axis: the largest stride */
    CHANNEL_BLOCKED_UNIT = 16      /* channels that a thread makes at once */
};

/* The tag is a part of the kernels' names. */
typedef struct channel_blocked {
    const void *from;                    /* f32 or bf16 */
    void *to;                            /* 16-byte words */
    int64_t stride[4];                   /* elements of `from` */
    int64_t plane;                       /* positions from one plane to the next */
    int32_t batch, groups, channels;     /* channels: of a group */
    int32_t extent[2], mul[2];           /* elements of an image; the stride */
    int32_t rows, columns, image_groups; /* of a plane */
    bool stacked;                        /* images below each other are one image to TMA loads */
    int32_t first[2];                    /* row and column of an image's first element */
    int32_t parts;         /* TMA loads of a window where all rows are one line; 0: they are not */
    int32_t pitch;         /* positions from one row to the next */
    int32_t deep;          /* units of 16 channels that a thread makes */
    int32_t images_log[2]; /* log2 of images side by side: down, across */
    int32_t planes;        /* of a class and group */
    int32_t classes[2];
    int8_t class_of[2][CHANNEL_BLOCKED_RESIDUES]; /* by residue; -1: no tap reads it */
} uf_channel_blocked;

static inline int64_t channel_blocked_plane(const uf_channel_blocked *b) {
    const int64_t positions = (int64_t)b->image_groups * b->rows * b->pitch << b->images_log[0];
    return ((positions + 7) / 8 | 1) * 8;
}

/* The layout of `view` with `planes` planes for each class and group. It has no class yet:
 * channel_blocked_classes adds at least one on each axis. */
static inline uf_channel_blocked channel_blocked_of(const uf_view *view, uf_mma_math math,
                                                    int64_t groups, int32_t planes,
                                                    const int32_t mul[2],
                                                    const int32_t images_log[2], void *to) {
    const int32_t unit_planes = math == UF_MMA_BF16 ? 2 : math == UF_MMA_TF32X3 ? 8 : 4;
    uf_channel_blocked made;
    memset(&made, 0, sizeof made);
    memset(made.class_of, -1, sizeof made.class_of);
    made.from = view->data;
    made.to = to;
    made.batch = (int32_t)view->extent[0];
    made.groups = (int32_t)groups;
    made.channels = (int32_t)(view->extent[1] / groups);
    made.planes = planes;
    for (int i = 0; i < 4; ++i) {
        made.stride[i] = view->stride[i];
    }
    for (int axis = 0; axis < 2; ++axis) {
        made.extent[axis] = (int32_t)view->extent[2 + axis];
        made.mul[axis] = mul[axis];
        made.images_log[axis] = images_log[axis];
    }
    made.rows = (int32_t)uf_div_up(made.extent[0], mul[0]);
    made.columns = (int32_t)uf_div_up(made.extent[1], mul[1]);
    const int log = images_log[0] + images_log[1];
    made.image_groups = (made.batch + (1 << log) - 1) >> log;
    /* Rows and planes a power of two apart would share sets of the L2 cache. */
    made.pitch = made.columns << images_log[1];
    made.pitch += made.pitch % 128 == 0 ? 8 : 0;
    made.plane = channel_blocked_plane(&made);
    /* A thread that makes several units divides less; large tensors still fill the GPU. */
    const int32_t units = made.planes / unit_planes;
    made.deep =
        view->dtype == UF_BF16 &&
                (int64_t)made.image_groups * made.rows * made.columns * units >= (INT64_C(1) << 23)
            ? 4
            : 1;
    made.deep = made.deep < units ? made.deep : units;
    return made;
}

/* Images of `rows` rows, zeros behind the tensor's own: a box may go on from one image to the next
 * below. Needs images_log of 0. */
static inline void channel_blocked_stack(uf_channel_blocked *blocks, int32_t rows) {
    blocks->rows = rows;
    blocks->stacked = true;
    blocks->plane = channel_blocked_plane(blocks);
}

/* All rows of all images as one line: an image has `rows` rows of `columns` positions, and its
 * first element at `first`. Other positions, up to `end`, are zero. A window takes `parts` TMA
 * loads. */
static inline void channel_blocked_line(uf_channel_blocked *blocks, int32_t rows, int32_t columns,
                                        const int32_t first[2], int32_t parts, int64_t end) {
    const int64_t image = (int64_t)rows * columns;
    blocks->rows = rows;
    blocks->columns = blocks->pitch = columns;
    blocks->first[0] = first[0];
    blocks->first[1] = first[1];
    blocks->parts = parts;
    blocks->image_groups =
        end > image * blocks->batch ? (int32_t)uf_div_up(end, image) : blocks->batch;
    blocks->plane = channel_blocked_plane(blocks);
}

/* Numbers the classes of each axis, from 0, in the order of new residues (down, across). */
static inline void channel_blocked_classes(uf_channel_blocked *blocks, const int32_t (*residues)[2],
                                           int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        for (int axis = 0; axis < 2; ++axis) {
            int8_t *const of = &blocks->class_of[axis][residues[i][axis]];
            *of = *of < 0 ? (int8_t)blocks->classes[axis]++ : *of;
        }
    }
}

static inline int64_t channel_blocked_bytes(const uf_channel_blocked *blocks) {
    return blocks->groups * blocks->classes[0] * blocks->classes[1] * blocks->planes *
           blocks->plane * 16;
}

UF_END_DECLS

#endif
