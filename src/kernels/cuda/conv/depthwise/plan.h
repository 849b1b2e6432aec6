/* plan.h - the plan of depthwise/launch.cu: tile, grid, and the window of a thread. Needs no GPU
 * and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_DEPTHWISE_PLAN_H
#define UF_KERNELS_CUDA_CONV_DEPTHWISE_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_DEPTHWISE_THREADS = 128,
    UF_DEPTHWISE_CHANNELS = 4,    /* channels of a group, read or written, at most */
    UF_DEPTHWISE_ENOUGH = 1 << 17 /* threads that keep a GPU busy twice over: 132 x 8 warps x 32 x
                                     4, about */
};

/* A thread makes `rows` rows of `run` neighbours of one channel. Threads are counted along a piece
 * of a row, then by strips of rows, pieces, written channels and images. A thread's window begins
 * at element ((first written) * in_step + shift) / out_step - uf_depthwise_padding of the read
 * side. */
typedef struct uf_depthwise_conv {
    uf_direct_conv conv; /* tensors, weights, epilogue, extents of the axes */
    uf_direct_divisor by_piece, by_strips, by_pieces, by_channels, by_written;
    int32_t runs, threads; /* runs of a row; threads of the grid */
    int32_t origin[2];     /* the first written element of the first run: 0, or -1 outside */
    int32_t shift[2];
    bool flip; /* taps go the other way */
    /* A block has whole strips, which follow each other in memory: it stores them as one range. */
    bool whole;
} uf_depthwise_conv;

/* Tiles of the kernel: written elements of a step of the read side, read elements of a step of the
 * written side, filter, written rows and neighbours of a thread, and whether rows are so aligned
 * that both sides are loaded and stored as vectors. The first that suits and makes enough
 * threads is taken: bf16 has the first list too, because its vectors hold twice as many and an
 * element may not cost as many instructions. */
#define UF_DEPTHWISE_TILES_BF16                                                                    \
    UF_DEPTHWISE_TILE(1, 1, 3, 4, 8, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 5, 4, 8, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 3, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 4, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 5, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 7, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 3, 8, 8, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 4, 8, 8, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 5, 8, 8, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 7, 8, 8, true)

#define UF_DEPTHWISE_TILES                                                                         \
    UF_DEPTHWISE_TILE(1, 1, 3, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 5, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 7, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 3, 8, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 5, 8, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 1, 3, 8, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 1, 3, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 1, 4, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 1, 5, 8, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 1, 5, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 1, 7, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 2, 3, 4, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 4, 4, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 5, 4, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 7, 4, 2, true)                                                         \
    UF_DEPTHWISE_TILE(1, 2, 3, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 2, 4, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 2, 5, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(1, 2, 7, 4, 1, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 3, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 4, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 5, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 7, 4, 4, true)                                                         \
    UF_DEPTHWISE_TILE(2, 1, 3, 8, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 3, 4, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 4, 8, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 4, 4, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 5, 8, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 5, 4, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 7, 8, 2, false)                                                        \
    UF_DEPTHWISE_TILE(2, 1, 7, 4, 2, false)

typedef struct uf_depthwise_plan {
    uf_depthwise_conv depthwise;
    int32_t out_step, in_step, filter, rows, run; /* the tile */
    bool vector;
    int64_t blocks;
    int32_t threads; /* of a block */
} uf_depthwise_plan;

/* The padding whose window begins where a vector does, by filter. */
static inline int32_t uf_depthwise_padding(int32_t filter) {
    return (filter - 1) / 2;
}

/* False: not one to four channels of a group on either side, a filter or stride without a tile,
 * dilation, rows or filters that are not dense. */
bool uf_depthwise_plan_of(const uf_conv_problem *problem, uf_depthwise_plan *plan);

UF_END_DECLS

#endif
