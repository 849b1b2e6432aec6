/* plan.h - the plan of simt_direct/launch.cu: the kernel's parameters. Needs no GPU and no toolkit.
 */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_PLAN_H
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_PLAN_H

#include "kernels/cuda/conv/problem.h"

UF_BEGIN_DECLS

enum {
    UF_DIRECT_TAPS = 32,         /* taps of one axis, at most */
    UF_DIRECT_PHASES = 64,       /* phases of one axis (the stride), at most */
    UF_DIRECT_DEAD = 255,        /* in a map: a phase without taps, a residue that is not read */
    UF_DIRECT_WARPS = 8,         /* warps of a block, at most */
    UF_DIRECT_SHARED = 99 * 1024 /* bytes of a block, at most: compute capability 8.6 has no more */
};

/* x / divisor for 0 <= x < 2^31 (Granlund and Montgomery). */
typedef struct uf_direct_divisor {
    uint32_t divisor, multiplier, shift;
} uf_direct_divisor;

/* One axis. Cell J is one step of the written side with all its phases, the elements out_step*J +
 * phase - out_shift; these read in_step*J + low + offset for the offsets of their taps. Cells of a
 * tile are neighbours. The tile's window, the elements that it reads, is sorted by residue mod
 * in_step: neighbouring cells then read neighbours. */
typedef struct uf_direct_axis {
    int32_t read, written; /* extents */
    int32_t out_step, out_shift, in_step, low;
    int32_t cell_first, cells, tile, tiles; /* cells: of the axis, of a tile */
    int32_t residues, coords;        /* of a window: residues that are read, elements of each */
    int32_t span;                    /* elements of a window, from the first to the last */
    int32_t live;                    /* phases that have taps */
    uint8_t residue[UF_DIRECT_TAPS]; /* those that are read */
    uint8_t phase[UF_DIRECT_TAPS];   /* those that have taps */
    uint8_t map[UF_DIRECT_PHASES]; /* out_step > 1: phase to its number in `phase`; else: residue to
                                      that in `residue` */
} uf_direct_axis;

/* A tap of a live row phase: offset of its row in the window, row of the filter. */
typedef struct uf_direct_row_tap {
    int32_t offset, tap;
} uf_direct_row_tap;

/* Column phases that read the same element: `count` live ones from `first` on, counted within the
 * pass. */
typedef struct uf_direct_run {
    int32_t offset;
    int32_t column; /* the first of its `count` columns of the weight in shared memory */
    uint8_t first, count;
} uf_direct_run;

typedef struct uf_direct_conv {
    uf_direct_axis axis[2];
    int32_t row_begin[UF_DIRECT_TAPS + 1]; /* by live row phase */
    uf_direct_row_tap row[UF_DIRECT_TAPS];
    int32_t passes,
        pass_begin[UF_DIRECT_TAPS + 1]; /* over live column phases, some at a time; runs of each */
    uf_direct_run run[UF_DIRECT_TAPS];
    uint8_t column_tap[UF_DIRECT_TAPS],
        column_run[UF_DIRECT_TAPS]; /* by column of the weight in shared memory */
    int32_t kernel[2], stride[2], padding[2], dilation[2];
    bool dgrad;

    int32_t batch, groups, read_per_group, written_per_group;
    int32_t chunk, chunks;             /* read channels in shared memory at a time */
    int32_t buffers;                   /* 2: the next chunk is loaded while one is used */
    int32_t slices;                    /* of the channels of a group, one per block */
    int32_t warps_m, warps_c, warps_h; /* a block's warps: by cells, channels, row phases */
    int32_t row_warps; /* warps to a row of cells; 0: rows run on from warp to warp */
    int32_t pitch, plane, channel_words;            /* of the window, in floats */
    int32_t input_words, weight_words, stage_words; /* of shared memory, the last for each warp */
    int32_t group_bits;                             /* 2^this lanes load a line of the window */
    bool vector; /* the window is loaded in aligned runs of four elements */
    uf_direct_divisor by_coords, by_residues, by_pitch, by_chunk;

    const void *read, *weight, *scale, *shift;
    void *written;
    int64_t read_stride[4], written_stride[4];
    int64_t w_group, w_written, w_read, w_row, w_column;
    int64_t scale_stride, shift_stride;
    uf_activation_kind activation;
    float parameter;
    bool accumulate;
} uf_direct_conv;

/* Tiles of the kernel: column phases, channels of a warp, cells of a lane. Weights of 3 channels
 * are kept in fours. */
#define UF_DIRECT_TILES                                                                            \
    UF_DIRECT_TILE(1, 3, 4)                                                                        \
    UF_DIRECT_TILE(1, 3, 8)                                                                        \
    UF_DIRECT_TILE(1, 8, 8)                                                                        \
    UF_DIRECT_TILE(2, 3, 8)                                                                        \
    UF_DIRECT_TILE(2, 4, 8)                                                                        \
    UF_DIRECT_TILE(3, 4, 8)                                                                        \
    UF_DIRECT_TILE(4, 1, 4)

static inline int32_t uf_direct_weight_step(int32_t channels) {
    return channels == 3 ? 4 : channels;
}

typedef struct uf_direct_plan {
    uf_direct_conv conv;
    int32_t phases, channels, cells; /* the tile */
    int64_t blocks;
    int32_t threads;
    size_t shared;
    double cost; /* cycles */
} uf_direct_plan;

/* A tap of one axis: live phase, filter index, element that cell 0 reads, relative to `low`. */
typedef struct uf_direct_tap {
    int32_t phase, tap;
    int64_t offset;
} uf_direct_tap;

/* axis.c, which other families plan with too. Taps by live phase, and everything of an axis but the
 * tile; false where it has too many taps, or positions beyond 32 bits. */
bool uf_direct_axis_of(const uf_conv_kernel_args *args, bool dgrad, int i, uf_direct_axis *axis,
                       uf_direct_tap taps[UF_DIRECT_TAPS], int32_t begin[UF_DIRECT_TAPS + 1]);

/* Moves `low` down by `by`: offsets grow. */
void uf_direct_lower(uf_direct_axis *axis, uf_direct_tap taps[UF_DIRECT_TAPS], int32_t count,
                     int32_t by);

/* Residues of the offsets mod in_step, and the number of one. */
void uf_direct_find_residues(uf_direct_axis *axis, const uf_direct_tap taps[UF_DIRECT_TAPS],
                             int32_t count);
int32_t uf_direct_residue(const uf_direct_axis *axis, int64_t offset);
void uf_direct_set_tile(uf_direct_axis *axis, int32_t cell_span, int64_t tile);
uf_direct_divisor uf_direct_divisor_of(int64_t divisor);

/* Everything of the arguments that does not follow from a plan: tensors, extents, weights,
 * epilogue. */
void uf_direct_describe(uf_direct_conv *conv, const uf_conv_kernel_args *args, bool dgrad);

/* A plan that is kept holds no address: each launch describes its own arguments again. */
static inline void uf_direct_clear_addresses(uf_direct_conv *conv) {
    conv->read = conv->weight = conv->scale = conv->shift = NULL;
    conv->written = NULL;
}

/* False: positions beyond 32 bits, too many taps, a window that shared memory cannot hold. */
bool uf_direct_plan_of(const uf_conv_problem *problem, uf_direct_plan *plan);

UF_END_DECLS

#endif
