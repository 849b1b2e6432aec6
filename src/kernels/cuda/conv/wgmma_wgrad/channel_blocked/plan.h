/* plan.h - the plan of channel_blocked/launch.cu and split_f16/launch.cu. Needs no GPU and no
 * toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/transform/channel_blocked.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.h"

UF_BEGIN_DECLS

enum {
    UF_CHANNEL_BLOCKED_ROWS = 64,    /* channels of y in a warpgroup's MMA */
    UF_CHANNEL_BLOCKED_PIXELS = 128, /* pixels of a tile: 16 runs of 8, the depth of a stage */
    UF_CHANNEL_BLOCKED_TAPS = 64,
    UF_CHANNEL_BLOCKED_CLASSES = 64,
    UF_CHANNEL_BLOCKED_STAGES = 8 /* most stages */
};

/* Tiles. A block has `rows` x 64 channels of y by `across` x `units` units of `width` columns: a
 * unit is a filter tap of `width` channels of x. A warpgroup holds 64 channels of `units` units,
 * width / 2 registers for each. id, width, units, across, rows */
#define UF_CHANNEL_BLOCKED_TILES                                                                   \
    UF_CHANNEL_BLOCKED_TILE(0, 64, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(1, 64, 4, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(2, 32, 3, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(3, 32, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(4, 32, 7, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(5, 32, 7, 3, 1)

/* The same for 3xF16 (split_f16/launch.cu), which holds the sums of a stage and those of all stages
 * before. id, width, units, across, rows */
#define UF_SPLIT_F16_TILES                                                                         \
    UF_CHANNEL_BLOCKED_TILE(0, 64, 3, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(1, 64, 3, 2, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(2, 64, 2, 1, 2)                                                        \
    UF_CHANNEL_BLOCKED_TILE(3, 32, 3, 3, 1)                                                        \
    UF_CHANNEL_BLOCKED_TILE(4, 32, 4, 2, 1)
enum { UF_SPLIT_F16_SPLITTING = 128 /* most columns of a warpgroup that splits y */ };

/* May consumers split y? With 128 channels shared memory has no third stage. */
#define UF_SPLIT_F16_SPLITS_Y(WIDTH, UNITS, ROWS)                                                  \
    ((ROWS) == 1 && (WIDTH) * (UNITS) <= UF_SPLIT_F16_SPLITTING)

/* The source of y's TMA loads. */
typedef enum uf_channel_blocked_source {
    UF_CHANNEL_BLOCKED_PACKED = 0, /* a channel-blocked copy, as of x */
    UF_CHANNEL_BLOCKED_BF16,       /* the bf16 tensor: rows of 32 pixels of a channel */
    UF_CHANNEL_BLOCKED_F32         /* the f32 tensor, likewise */
} uf_channel_blocked_source;

/* One axis. A window holds the elements of x that the taps of one class read. Its position v is
 * element (j + first + v) * mul + residue, with j the tile's first element of y. */
typedef struct uf_channel_blocked_axis {
    int32_t extent;     /* positions of a window */
    int32_t mul;        /* the stride */
    int32_t patch;      /* elements of y in a tile */
    int32_t images_log; /* log2 of images side by side */
    int32_t tiles;      /* of an image */
} uf_channel_blocked_axis;

typedef struct uf_channel_blocked_plan {
    uf_channel_blocked_axis axis[2];
    int32_t tile_id, width, units, across, rows; /* see UF_CHANNEL_BLOCKED_TILES */
    uf_channel_blocked_source source;
    bool split_f16;     /* 3xF16: x, and packed y, are two tensors, of big and of small f16 parts */
    int32_t part_bytes; /* bytes of a window's big parts; the small ones follow (3xF16) */
    int32_t image_tiles; /* tiles along the axis of images */
    bool down_first;     /* order of tiles: the rows that neighbours share stay in the L2 cache */
    int32_t twin;        /* rows of the image by which rows 32 to 63 of an MMA lie further up, the
                            channels being those of rows 0 to 31; 0: channels 32 to 63 */
    int32_t y_rows;      /* rows of y that a tile reads: its patch, and `twin` */
    int32_t y_bytes;     /* bytes of y in a stage */
    int32_t window_rows, window_bytes; /* of `width` channels, a multiple of 128 bytes */
    int32_t run_pitch; /* rows of a window between the two runs of 8 pixels of an MMA */
    int32_t step_at[UF_CHANNEL_BLOCKED_PIXELS / 16]; /* first row of a window, by MMA of a stage */
    int32_t windows;                                 /* most windows that a block loads */
    int32_t stages, stage_bytes, shared;             /* shared: bytes of a block */
    int32_t classes, taps;                           /* of the filter */
    int32_t kinds;                 /* units of a chunk: taps, or pairs of taps `twin` apart; sorted
                                      by class, padding units last */
    int32_t x_planes, y_planes;    /* planes of 8 channels, of a group (and f16 part) */
    int32_t chunks;                /* of `width` channels of x */
    int32_t all_units;             /* chunks * kinds */
    int32_t unit_blocks, k_blocks; /* blocks along units, along channels of y */
    int32_t pixel_tiles, splits;   /* tiles of pixels; their shares */
    int32_t groups, k_per_group, c_per_group;
    int64_t blocks;                                  /* of the grid */
    double cost;                                     /* cycles */
    int32_t class_of[UF_CHANNEL_BLOCKED_CLASSES][2]; /* residues, down and across */
    int32_t first[UF_CHANNEL_BLOCKED_CLASSES][2];    /* first shifts, down and across, by class */
    uint8_t unit_class[UF_CHANNEL_BLOCKED_TAPS];     /* by unit of a chunk */
    int16_t unit_tap[UF_CHANNEL_BLOCKED_TAPS][2];    /* r * S + s of both taps; -1: none */
    int16_t shift[UF_CHANNEL_BLOCKED_TAPS];          /* rows of the window, by unit of a chunk */
} uf_channel_blocked_plan;

/* TMA loads take the tensor itself: its rows are contiguous, other strides multiples of 16 bytes.
 */
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

/* How many ids there are, which number the tiles (conv/plan.h). */
#define UF_CHANNEL_BLOCKED_TILE(ID, WIDTH, UNITS, ACROSS, ROWS) +1
enum {
    UF_CHANNEL_BLOCKED_IDS = 0 UF_CHANNEL_BLOCKED_TILES,
    UF_SPLIT_F16_IDS = 0 UF_SPLIT_F16_TILES
};
#undef UF_CHANNEL_BLOCKED_TILE

/* False: too many taps or classes, or windows of all tiles, or of `tile`, beyond shared memory.
 * `packed`: y is not aligned to 16 bytes, or that is not known yet. A problem that has one plan has
 * the other. */
bool uf_wgrad_channel_blocked_plan_of(const uf_conv_kernel_args *args, bool packed, int tile,
                                      uf_channel_blocked_plan *plan);

/* Both plans, for a y that is aligned and for any: an address counts in a launch alone. A tile is
 * asked of the first. */
typedef struct uf_channel_blocked_plans {
    uf_channel_blocked_plan aligned, any;
} uf_channel_blocked_plans;

/* Positions and blocks of the packing kernel, and elements of w, have 30 bits; y is not empty. */
bool uf_channel_blocked_fits(const uf_conv_kernel_args *args);

/* False: no plan, or the problem does not fit. */
bool uf_channel_blocked_plans_of(const uf_conv_kernel_args *args, int tile,
                                 uf_channel_blocked_plans *plans);

static inline const uf_channel_blocked_plan *
uf_channel_blocked_plan_for(const uf_channel_blocked_plans *plans,
                            const uf_conv_kernel_args *args) {
    return (uintptr_t)args->y.data % 16 == 0 ? &plans->aligned : &plans->any;
}

/* The workspace of a plan from byte `begin` on: the copies of x and, where it is packed, y, and the
 * sums. 3xF16 has two tensors for each copy. */
typedef struct uf_channel_blocked_workspace {
    uf_channel_blocked x, y; /* layouts, without addresses of copies */
    uf_channel_blocked_reduction reduction;
    size_t x_at, y_at, sums_at; /* bytes from the workspace's begin */
    size_t end;
} uf_channel_blocked_workspace;

uf_channel_blocked_workspace uf_channel_blocked_workspace_of(const uf_conv_kernel_args *args,
                                                             const uf_channel_blocked_plan *plan,
                                                             size_t begin);

/* Bytes for either plan. */
size_t uf_channel_blocked_workspace_bytes(const uf_conv_kernel_args *args,
                                          const uf_channel_blocked_plans *plans);

/* launch.cu: the main loop, for plans of these arguments. */
uf_status uf_channel_blocked_launch(uf_context *context, const uf_conv_kernel_args *args,
                                    const uf_channel_blocked_plans *plans);

UF_END_DECLS

#endif
