/* wgrad_plan.h - the host side of im2col/wgrad_launch.cu and the index arithmetic that both
 * sides share, from the arguments alone. Needs no GPU and no toolkit.
 *
 * Columns. A tile of w has 8 * n rows (k) and all taps of tile_c channels (c), in sixteens: 2^log_c
 * channels by 16 >> log_c taps. Which row of a sixteen is which of them is rotated, so that eight
 * lanes read different banks.
 *
 * Box. Pixels are walked in boxes of rows x columns of one image, 16 neighbours at a time. Rows of
 * x that some tap reads lie in shared memory as lines, channel after channel; taps whose rows are a
 * multiple of the stride apart share a class of lines, and line t of a class is row t * stride +
 * class * dilation. A line comes in aligned copies of 16 bytes, whatever its place in memory: the
 * pitches of shared memory are those of memory modulo 16 bytes, so all lines of a box are shifted
 * alike. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_PLAN_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_WGRAD_IM2COL_WARPS = 8,          /* of a block, at most */
    UF_WGRAD_IM2COL_SHARED = 99 * 1024, /* bytes of a block: what compute capability 8.6 has */
    UF_WGRAD_IM2COL_BLOCKS = 264        /* that fill a large GPU once */
};

typedef struct uf_wgrad_im2col_plan {
    int32_t size;                     /* of an element, in bytes */
    int32_t n, m;                     /* of a warp: eights of rows, sixteens of columns */
    int32_t tile_c, tiles_c, tiles_k; /* channels of a tile; tiles of a group */
    int32_t log_c, rotation, taps;    /* see Columns */
    int32_t tap_blocks, sixteens;     /* sixteens of one block of channels, and of a tile */
    int32_t warps_m, warps_p;         /* warps that share the columns, the pixels */
    int32_t box[2], boxes[3];         /* rows, columns of a box; boxes of images, rows, columns */
    int32_t all_boxes;
    int32_t classes, class_lines, shift; /* of rows; a tap of a class begins `shift` lines later */
    int32_t pitch_c, pitch_class, pitch_h; /* of x in shared memory, in elements */
    int32_t chunks;                        /* of 16 bytes, of a line: even */
    int32_t lines_x, lines_y;
    int32_t x_bytes, pitch_y; /* bytes of x in a stage, and of a row (k) of y */
    int32_t table_bytes, stage_bytes, stages, shared;
    int32_t pitch_sums; /* words of a row of sums in shared memory: uf_wgrad_im2col_sum */
    int32_t splits;
    /* Lines and pairs of copies from one of a thread to its next, of x and of y; rows and sixteens
     * of pixels from one of a warp to its next. */
    int32_t steps_x[2], steps_y[2], walk[2];
    bool vector_y;    /* rows of y are aligned */
    int32_t copy_y;   /* else bytes of y that are copied at once: 8, 4 or an element */
    int32_t clashes;  /* loads of x that wait for others, of 64 */
    double load_cost; /* of the cycles of a box, if none waits */
    double cost;      /* an estimate for one multiprocessor of an H200 */
} uf_wgrad_im2col_plan;

/* Column i of a sixteen: channel and tap from the sixteen's first, channels first. */
static inline UF_HD int32_t uf_wgrad_im2col_turn(const uf_wgrad_im2col_plan *p, int32_t i) {
    return (i << p->rotation | i >> (4 - p->rotation)) & 15;
}

/* Column `column` of sixteen `sixteen` of a tile; may lie beyond the tile's channels or taps. */
static inline UF_HD void uf_wgrad_im2col_column(const uf_wgrad_im2col_plan *p, int32_t sixteen,
                                                int32_t column, int32_t *c, int32_t *tap) {
    const int32_t turn = uf_wgrad_im2col_turn(p, column);
    const int32_t block = sixteen / p->tap_blocks;
    *c = (block << p->log_c) + (turn & ((1 << p->log_c) - 1));
    *tap = ((sixteen - block * p->tap_blocks) << (4 - p->log_c)) + (turn >> p->log_c);
}

/* The word of a row of sums in shared memory where a tile's channel and tap lie: sixteens as they
 * are multiplied, a word apart. */
static inline UF_HD int32_t uf_wgrad_im2col_sum(const uf_wgrad_im2col_plan *p, int32_t c,
                                                int32_t tap) {
    const int32_t in_taps = 4 - p->log_c;
    const int32_t sixteen = (c >> p->log_c) * p->tap_blocks + (tap >> in_taps);
    const int32_t turn = (c & ((1 << p->log_c) - 1)) | (tap & ((1 << in_taps) - 1)) << p->log_c;
    return sixteen * 17 + ((turn >> p->rotation | turn << (4 - p->rotation)) & 15);
}

/* Where in a box's x, in elements from that of channel 0, tap 0 and pixel 0, a channel and a tap of
 * filter row r and column s begin. */
static inline UF_HD int32_t uf_wgrad_im2col_coord(const uf_wgrad_im2col_plan *p, int32_t c,
                                                  int32_t r, int32_t s, int32_t dilation_w) {
    const int32_t run = r / p->classes;
    return c * p->pitch_c + (r - run * p->classes) * p->pitch_class + run * p->shift * p->pitch_h +
           s * dilation_w;
}

/* A line of x: channel, class and number in its class. */
static inline UF_HD void uf_wgrad_im2col_line(const uf_wgrad_im2col_plan *p, int32_t line,
                                              int32_t *c, int32_t *of_class, int32_t *t) {
    const int32_t plane = line / p->class_lines;
    *t = line - plane * p->class_lines;
    *c = plane / p->classes;
    *of_class = plane - *c * p->classes;
}

/* False: columns are not neighbours in memory, or no box fits shared memory. Positions fit 28 bits.
 */
bool uf_wgrad_im2col_plan_of(const uf_conv_kernel_args *args, uf_wgrad_im2col_plan *plan);

UF_END_DECLS

#endif
