/* plan.h - tiles, windows, taps and splits of channel_blocked/launch.cu, from the
 * arguments alone. Plain C: the choice of a variant asks too. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PLAN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_CHANNEL_BLOCKED_ROWS = 64,    /* channels of y in a warpgroup's MMA */
    UF_CHANNEL_BLOCKED_PIXELS = 128, /* of a tile: 16 runs of 8, the depth of a stage */
    UF_CHANNEL_BLOCKED_TAPS = 64,
    UF_CHANNEL_BLOCKED_CLASSES = 64,
    UF_CHANNEL_BLOCKED_STAGES = 8 /* at most */
};

/* Tiles. A block has `rows` x 64 channels of y by `across` x `units` units of `width` columns: a
 * unit is a filter tap of `width` channels of x. A warpgroup holds 64 channels of `units` units,
 * width / 2 registers for each. id, width, units, across, rows */
#define UF_CHANNEL_BLOCKED_TILES                                                                   \
    UF_CHANNEL_BLOCKED_TILE(0, 64, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(1, 64, 5, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(2, 64, 6, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(3, 64, 4, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(4, 32, 3, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(5, 32, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(6, 32, 7, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(7, 32, 7, 3, 1)

/* The same where FP32 is made of split f16 (split_f16/launch.cu): twice the registers, for sums
 * of a stage and those of all before. id, width, units, across, rows */
#define UF_SPLIT_F16_TILES                                                                         \
    UF_CHANNEL_BLOCKED_TILE(0, 64, 3, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(1, 64, 3, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(2, 64, 2, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(3, 32, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(4, 32, 4, 2, 1)
enum { UF_SPLIT_F16_SPLITTING = 128 /* columns of a warpgroup that splits y, at most */ };

/* May consumers split y themselves? Of 128 channels shared memory holds no third stage. */
#define UF_SPLIT_F16_SPLITS_Y(WIDTH, UNITS, ROWS)                                                  \
    ((ROWS) == 1 && (WIDTH) * (UNITS) <= UF_SPLIT_F16_SPLITTING)

/* How y comes to shared memory. */
typedef enum uf_channel_blocked_source {
    UF_CHANNEL_BLOCKED_PACKED = 0, /* rearranged first, as x is */
    UF_CHANNEL_BLOCKED_BF16,       /* as it is: rows of 32 pixels by channel */
    UF_CHANNEL_BLOCKED_F32
} uf_channel_blocked_source;

/* One axis. A window is what the taps of one class see of x: its position v is element (j + first +
 * v)*mul + residue, j the tile's first element of y. */
typedef struct uf_channel_blocked_axis {
    int32_t extent, mul;
    int32_t patch;      /* elements of y in a tile */
    int32_t images_log; /* log2 of images side by side */
    int32_t tiles;
} uf_channel_blocked_axis;

typedef struct uf_channel_blocked_plan {
    uf_channel_blocked_axis axis[2];
    int32_t tile_id, width, units, across, rows;
    uf_channel_blocked_source source;
    bool
        split_f16; /* FP32: x, and y where it is packed, are two tensors, of big halves and small */
    int32_t half_bytes; /* of a window, then: of its big halves; its small ones follow */
    int32_t image_tiles;
    bool down_first; /* the order of tiles: what they share is then near in time */
    int32_t twin;    /* 0, or: rows 32 to 63 of a MMA are channels 0 to 31 of y, `twin` elements
                        further up */
    int32_t y_rows;  /* that a tile reads of y: its patch, and `twin` */
    int32_t y_bytes;
    int32_t window_rows, window_bytes; /* of `width` channels, a multiple of 128 bytes */
    int32_t run_pitch; /* rows of a window between the two runs of 8 pixels of a MMA */
    int32_t step_at[UF_CHANNEL_BLOCKED_PIXELS / 16]; /* its rows, by MMA */
    int32_t windows;                                 /* that a block reads, at most */
    int32_t stages, stage_bytes, shared;
    int32_t classes, taps;
    /* Units of a chunk: taps, or pairs of taps `twin` apart; sorted by class; at the end there may
     * be some of no tap. */
    int32_t kinds;
    int32_t x_planes, y_planes; /* of 8 channels, per group (and half) */
    int32_t chunks;             /* of `width` channels of x */
    int32_t all_units;          /* chunks * kinds */
    int32_t unit_blocks, k_blocks;
    int32_t pixel_tiles, splits;
    int32_t groups, k_per_group, c_per_group;
    int64_t blocks;
    double cost;                                     /* an estimate for an H200 */
    int32_t class_of[UF_CHANNEL_BLOCKED_CLASSES][2]; /* residues, down and across */
    int32_t first[UF_CHANNEL_BLOCKED_CLASSES][2];    /* by class, down and across */
    uint8_t unit_class[UF_CHANNEL_BLOCKED_TAPS];
    int16_t unit_tap[UF_CHANNEL_BLOCKED_TAPS][2]; /* r * S + s of both halves; -1: none */
    int16_t shift[UF_CHANNEL_BLOCKED_TAPS];       /* of a unit: rows of the window */
} uf_channel_blocked_plan;

/* TMA loads take a tensor as it is where rows are contiguous and everything else is a multiple
 * of 16 bytes. */
static inline bool uf_channel_blocked_aligned(const uf_view *view) {
    const int64_t size = view->dtype == UF_F32 ? 4 : 2;
    bool aligned = view->stride[3] == 1;
    for (int axis = 0; axis < 3; ++axis) {
        aligned = aligned && (view->extent[axis] == 1 ||
                              (view->stride[axis] > 0 && view->stride[axis] * size % 16 == 0 &&
                               view->stride[axis] < INT64_C(1) << 36));
    }
    return aligned;
}

/* False where the kernel does not compute this: too many taps or classes, a window beyond shared
 * memory. `packed`: y is not aligned, or that is yet unknown. */
bool uf_wgrad_channel_blocked_plan_of(const uf_conv_kernel_args *args, bool packed,
                                      uf_channel_blocked_plan *plan);

UF_END_DECLS

#endif
