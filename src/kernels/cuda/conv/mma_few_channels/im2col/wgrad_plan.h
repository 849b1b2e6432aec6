/* wgrad_plan.h - the plan of im2col/wgrad_launch.cu, from the arguments alone, and the index
 * arithmetic that host and device share. Needs no GPU and no toolkit.
 *
 * Columns. A tile of w has 8 * n rows (k) and all taps of tile_c channels (c). Its columns come in
 * blocks of 16: 2^log_c channels by 16 >> log_c taps. The order within a block is rotated so that
 * eight lanes read different banks.
 *
 * Box. Pixels are walked in boxes of rows x columns of one image, 16 neighbours at a time. Shared
 * memory holds the rows of x that some tap reads as lines, channel after channel. Taps whose rows
 * are a multiple of the stride from each other share a class of lines: line t of a class is row t *
 * stride + class * dilation. Pitches in shared memory equal those in memory modulo 16 bytes. All
 * lines of a box then have the same misalignment, and 16-byte copies suffice. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_PLAN_H

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

enum {
    UF_WGRAD_IM2COL_WARPS = 8,          /* warps of a block, at most */
    UF_WGRAD_IM2COL_SHARED = 99 * 1024, /* bytes of a block: the limit of compute capability 8.6 */
    UF_WGRAD_IM2COL_BLOCKS = 264 /* blocks that the splits make, at least; no GPU's own number, so
                                    that sums do not depend on it */
};

typedef struct uf_wgrad_im2col_plan {
    int32_t size;                     /* bytes of an element */
    int32_t n, m;                     /* of a warp: 8-row blocks, 16-column blocks */
    int32_t tile_c, tiles_c, tiles_k; /* channels of a tile; tiles of a group by c, by k */
    int32_t log_c, rotation,
        taps; /* log2 of channels in a column block; rotation in bits; taps of w (see Columns) */
    int32_t tap_blocks, sixteens; /* column blocks of 2^log_c channels; of a tile */
    int32_t warps_m, warps_p;     /* warps that share the columns; that share the pixels */
    int32_t box[2], boxes[3];     /* pixel rows and columns of a box; boxes by image, row, column */
    int32_t all_boxes;
    int32_t classes, class_lines,
        shift; /* classes; lines of a class; lines from a tap of a class to its next */
    int32_t pitch_c, pitch_class,
        pitch_h;    /* of x in shared memory, in elements: channel, class, line */
    int32_t chunks; /* 16-byte copies of a line, an even number */
    int32_t lines_x, lines_y;
    int32_t x_bytes, pitch_y; /* bytes of x in a stage; bytes from channel to channel of y */
    int32_t table_bytes, stage_bytes, stages, shared;
    int32_t pitch_sums; /* words of a staged row of sums (uf_wgrad_im2col_sum) */
    int32_t splits;
    /* Lines and pairs of copies from one pair of a thread to its next, of x and of y; pixel rows
     * and 16-pixel runs from one step of a warp to its next. */
    int32_t steps_x[2], steps_y[2], walk[2];
    bool vector_y;     /* rows of y are aligned to 16 bytes */
    int32_t copy_y;    /* otherwise bytes of one copy of y: 8, 4 or an element */
    int32_t conflicts; /* bank conflicts among the 64 loads of x of a column block */
    double load_cost;  /* cycles of a box's loads without bank conflicts */
    double cost;       /* cycles, modelled */
} uf_wgrad_im2col_plan;

/* Column i of a block, unrotated: the channel in the low log_c bits, the tap above. */
static inline UF_HD int32_t uf_wgrad_im2col_turn(const uf_wgrad_im2col_plan *p, int32_t i) {
    return (i << p->rotation | i >> (4 - p->rotation)) & 15;
}

/* Channel and tap of a column of a tile's column block; either may be beyond the tile's. */
static inline UF_HD void uf_wgrad_im2col_column(const uf_wgrad_im2col_plan *p, int32_t sixteen,
                                                int32_t column, int32_t *c, int32_t *tap) {
    const int32_t turn = uf_wgrad_im2col_turn(p, column);
    const int32_t block = sixteen / p->tap_blocks;
    *c = (block << p->log_c) + (turn & ((1 << p->log_c) - 1));
    *tap = ((sixteen - block * p->tap_blocks) << (4 - p->log_c)) + (turn >> p->log_c);
}

/* The word of channel c and tap `tap` in a staged row of sums: blocks of 16 in the order of the
 * MMA, 17 words each against bank conflicts. */
static inline UF_HD int32_t uf_wgrad_im2col_sum(const uf_wgrad_im2col_plan *p, int32_t c,
                                                int32_t tap) {
    const int32_t in_taps = 4 - p->log_c;
    const int32_t sixteen = (c >> p->log_c) * p->tap_blocks + (tap >> in_taps);
    const int32_t turn = (c & ((1 << p->log_c) - 1)) | (tap & ((1 << in_taps) - 1)) << p->log_c;
    return sixteen * 17 + ((turn >> p->rotation | turn << (4 - p->rotation)) & 15);
}

/* Offset of channel c and tap (r, s) in a box's x, in elements from channel 0, tap 0, pixel 0. */
static inline UF_HD int32_t uf_wgrad_im2col_coord(const uf_wgrad_im2col_plan *p, int32_t c,
                                                  int32_t r, int32_t s, int32_t dilation_w) {
    const int32_t run = r / p->classes;
    return c * p->pitch_c + (r - run * p->classes) * p->pitch_class + run * p->shift * p->pitch_h +
           s * dilation_w;
}

/* Channel, class and number within the class of a line of x. */
static inline UF_HD void uf_wgrad_im2col_line(const uf_wgrad_im2col_plan *p, int32_t line,
                                              int32_t *c, int32_t *of_class, int32_t *t) {
    const int32_t plane = line / p->class_lines;
    *t = line - plane * p->class_lines;
    *c = plane / p->classes;
    *of_class = plane - *c * p->classes;
}

/* Numbers of tiles (conv/plan.h): twice how often the channels of x are halved, from the fewest
 * tiles that a plan may have on, and 1 for more rather than fewer column blocks of a warp. */
enum { UF_WGRAD_IM2COL_HALVINGS = 6, UF_WGRAD_IM2COL_TILES = 2 * UF_WGRAD_IM2COL_HALVINGS };

int uf_wgrad_im2col_tile_of(const uf_wgrad_im2col_plan *plan, const uf_conv_kernel_args *args);

/* False: columns of x are not contiguous, no box fits shared memory, offsets exceed 28 bits, or
 * there is no such tile. */
bool uf_wgrad_im2col_plan_of(const uf_conv_problem *problem, uf_wgrad_im2col_plan *plan);

/* Elements of a row of a tile's partial sums: padded to fours, which the reduction reads. */
static inline int32_t uf_wgrad_im2col_columns(const uf_wgrad_im2col_plan *p) {
    return (p->tile_c * p->taps + 3) / 4 * 4;
}

UF_END_DECLS

#endif
