/* plan.h - the plan of register_a/launch.cu: rows, columns, box, stages and splits, from the
 * arguments alone; and the index arithmetic that host and device share. Columns, boxes and lines
 * are those of mma_implicit_gemm/wgrad_plan.h; here the columns are the rows of an MMA. Needs no
 * GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_PLAN_H

#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"

UF_BEGIN_DECLS

enum {
    WGRAD_RS_PRODUCERS = 8,                     /* warps that copy */
    WGRAD_RS_CONSUMERS = 2,                     /* warpgroups that multiply */
    WGRAD_RS_M = 64,                            /* columns of an MMA */
    WGRAD_RS_ENTRIES = 1024,                    /* of the table of coordinates, at most */
    WGRAD_RS_SHARED = 227 << 10,                /* bytes of a block */
    WGRAD_RS_BLOCKS = 132,                      /* one per multiprocessor of a large GPU */
    WGRAD_RS_STAGES = 16,                       /* at most */
    WGRAD_RS_CACHED = 12 << 20,                 /* elements that the second-level cache holds */
    WGRAD_RS_BARRIERS = 2 * WGRAD_RS_STAGES * 8 /* bytes */
};

/* Channels of y in an MMA, and those that FP32 sums at once; MMAs of each of two warpgroups,
 * in FP32 and otherwise. */
#define UF_WGRAD_RS_TILES                                                                          \
    UF_WGRAD_RS_TILE(32, 32, 6, 6)                                                                 \
    UF_WGRAD_RS_TILE(64, 64, 2, 5)                                                                 \
    UF_WGRAD_RS_TILE(128, 64, 2, 2)

/* Pixels of y in 16 bytes of a row. */
#define WGRAD_RS_PER_PIECE(math) ((math) == UF_MMA_BF16 ? 8 : 4)

/* May blocks go on to another tile? They keep more in registers then: no room beside five MMAs of
 * 64. */
#define WGRAD_RS_SHARES(math, rows) ((math) == UF_MMA_TF32X3 || (rows) != 64)

typedef struct wgrad_rs_plan {
    wgrad_plan sums;
    int32_t mmas;          /* per block, each of WGRAD_RS_M columns */
    int32_t group_warps;   /* that fill a stage together */
    int32_t plane;         /* bytes from one piece of 16 bytes of a row of y to the next */
    int32_t set;           /* bytes of one set of planes; there are two unless math is TF32 */
    int32_t operand[2][4]; /* 16-byte units from a stage to the planes of an MMA, by set */
    int32_t vector;        /* words of x that are copied at once: 4, 2 or 1, see wgrad_rs_lay */
    int32_t lead;          /* words of a row of a box before the first that a tap reads */
    int32_t tap_w;         /* words from a column of lines[1] to the next */
    int32_t run[WGRAD_PIXELS / 4]; /* bytes of x from pixel 0 to pixels 0, 4, 8 ... */
    double cost;                   /* an estimate for an H200 */
} wgrad_rs_plan;

/* Word of a column's pixel 0 in a stage's x. Columns past the last read something that is there. */
static inline UF_HD int32_t wgrad_rs_column_offset(const wgrad_rs_plan *plan, int32_t first_column,
                                                   int32_t column) {
    const wgrad_plan *const p = &plan->sums;
    if (column >= p->all_columns) {
        return 0;
    }
    const wgrad_column at = wgrad_column_of(p, column);
    const int32_t r = at.tap / p->taps_w;
    const int32_t local = at.channel - wgrad_first_block(p, first_column) * p->channels;
    return local * p->pitch + wgrad_line_start(&p->lines[0], r) * p->step_h +
           wgrad_line_start(&p->lines[1], at.tap - r * p->taps_w) * plan->tap_w + plan->lead;
}

static inline UF_HD wgrad_coord wgrad_rs_coord_of(const wgrad_rs_plan *plan, int32_t first_column,
                                                  int32_t entry) {
    const wgrad_plan *const p = &plan->sums;
    if (plan->vector == 1) {
        return wgrad_coord_of(p, first_column, entry);
    }
    const int32_t across = p->lines[1].count / plan->vector;
    const int32_t plane = p->lines[0].count * across;
    wgrad_coord coord;
    coord.n = entry / plane;
    entry -= coord.n * plane;
    const int32_t row = entry / across;
    const int32_t column = (entry - row * across) * plan->vector;
    coord.h = wgrad_line_source(&p->lines[0], row);
    coord.w = column - plan->lead;
    coord.to = coord.n * p->step_n + row * p->step_h + column;
    coord.from = coord.n * p->x_stride[0] + coord.h * p->x_stride[2] + coord.w;
    return coord;
}

/* Boxes that a block multiplies: from one of a tile on; further tiles follow. */
typedef struct wgrad_rs_part {
    int32_t tile, box, boxes;
} wgrad_rs_part;

/* Share `share` of the boxes of all tiles, where p->share is not 0. */
static UF_HD_INLINE void wgrad_rs_share_of(const wgrad_plan *p, int32_t share,
                                           wgrad_rs_part *part) {
    const int32_t first = share * p->share;
    part->tile = first / p->all_boxes;
    part->box = first - part->tile * p->all_boxes;
    part->boxes = wgrad_least(p->share, p->tiles * p->all_boxes - first);
}

/* Split `split` of the boxes of a tile, where p->share is 0. */
static UF_HD_INLINE void wgrad_rs_split_of(const wgrad_plan *p, int32_t tile, int32_t split,
                                           wgrad_rs_part *part) {
    part->tile = tile;
    part->box = wgrad_split_begin(p, split);
    part->boxes = wgrad_split_begin(p, split + 1) - part->box;
}

/* Boxes of a part in its tile `on`, from 0; 0 or less: it has no such tile. */
static UF_HD_INLINE int32_t wgrad_rs_boxes_of(const wgrad_plan *p, const wgrad_rs_part *part,
                                              int32_t on) {
    return on == 0 ? wgrad_least(part->boxes, p->all_boxes - part->box)
                   : wgrad_least(part->box + part->boxes - on * p->all_boxes, p->all_boxes);
}

/* The taps of 32 pixels must fit the table and shared memory: with 32 taps they do even where they
 * share nothing. */
bool uf_wgrad_rs_fits(const uf_conv_kernel_args *args);

/* Numbers of tiles (conv/plan.h): for each of UF_WGRAD_RS_TILES the fewest blocks across, and up to
 * three more; the last number stands for more than these, too. */
enum { WGRAD_RS_ACROSS = 4, WGRAD_RS_TILE_NUMBERS = 3 * WGRAD_RS_ACROSS };

int uf_wgrad_rs_tile_of(const wgrad_rs_plan *plan, const uf_conv_kernel_args *args);

/* The plan; `rows` is 0 where nothing of the tile fits. */
wgrad_rs_plan uf_wgrad_rs_plan_of(const uf_conv_kernel_args *args, int tile);

/* The same for tensors that are where they are: copies as wide as that allows. */
wgrad_rs_plan uf_wgrad_rs_plan_at(const uf_conv_kernel_args *args, int tile);

/* The plan of a launch, which binds it: that of the flat arguments, without addresses. */
wgrad_rs_plan uf_wgrad_rs_unbound(const uf_conv_kernel_args *args, int tile);

UF_END_DECLS

#endif
