/* layout.h - how a call's tiles, windows and taps of wgmma_implicit_gemm/launch.cu lie: what the
 * host side makes and the kernels read. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAYOUT_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAYOUT_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_ROWS = 64,      /* written channels of a warpgroup */
    UF_WGMMA_WARP_ROWS = 16, /* of one of its warps */
    UF_WGMMA_PIXELS = 128,   /* of one MMA: 16 runs of 8 */
    UF_WGMMA_PLANES = 8,     /* of 16 bytes of K, at most: a chunk is 64 or 128 bytes per row */
    UF_WGMMA_FP32_STEPS = 2, /* of a chunk: two planes of big halves and two of small ones */
    UF_WGMMA_PLANE = 1024,   /* bytes of a plane of the weights of one chunk and tap: 64 rows */
    UF_WGMMA_TAPS = 64,      /* filter taps that fit a kernel's parameters */
    UF_WGMMA_PAIRS = 64,     /* of a phase and a class */
    UF_WGMMA_NO_TAP = 255,
    UF_WGMMA_MERGED = 32,   /* written channels of a warpgroup whose rows are two phases */
    UF_WGMMA_STAGES = 24,   /* at most, of all warpgroups */
    UF_WGMMA_WINDOWS = 4,   /* at most */
    UF_WGMMA_SPLITS = 4,    /* at most */
    UF_WGMMA_SHARES = 16,   /* of a tile, where there are few */
    UF_WGMMA_SUMS = 32768,  /* bytes of a MMA's sums */
    UF_WGMMA_UNIT = 16,     /* channels that a producer warp asks for at a time */
    UF_WGMMA_RAW_HALF = 2,  /* units under way with WM = 1 */
    UF_WGMMA_RAW_WHOLE = 4, /* and with WM = 2 */
    UF_WGMMA_PITCH =
        40, /* words from a channel to the next on the epilogue: free of bank conflicts */
    UF_WGMMA_PAIR_PITCH = 65, /* and of two phases side by side */
    UF_WGMMA_BARRIERS = 512,  /* bytes, a multiple of 128: TMA loads want windows aligned so */

    /* Where pixels are the rows of MMAs (swap_ab/launch.cu): */
    UF_WGMMA_SWAP_AB_PIXELS = 64,  /* of one MMA, neighbours of a row */
    UF_WGMMA_SWAP_AB_PLANES = 4,   /* of a chunk: 64 bytes per row */
    UF_WGMMA_SWAP_AB_GROUPS = 2,   /* consuming warpgroups, which take tiles in turn */
    UF_WGMMA_SWAP_AB_PITCH = 68,   /* words from a channel to the next on the epilogue */
    UF_WGMMA_SWAP_AB_POSITION = 8, /* bytes of what producers know of a window's position */
    UF_WGMMA_SWAP_AB_CHANNELS = 64 /* written, at most; in FP32 half as many */
};

/* Words of staging of a consuming warpgroup: channels of 64 pixels, their scale and shift. */
#define UF_WGMMA_SWAP_AB_STAGING(columns) ((columns) * (UF_WGMMA_SWAP_AB_PITCH + 2))

/* Tiles under way: the consuming warpgroups take them in turn, or halves of the same one. */
#define UF_WGMMA_SWAP_AB_TURNS(columns) ((columns) > 32 ? 1 : UF_WGMMA_SWAP_AB_GROUPS)

/* MMAs below each other that registers have room for: FP32 keeps sums three times. */
#define UF_WGMMA_SWAP_AB_MMAS(fp32, columns) ((fp32) || (columns) > 32 ? 4 : 8)

/* One axis. A window is what a tile reads: its position v, counted from element j of the tile's
 * first, is element (j + first + class_first + v)*mul + class of the read side. Written elements
 * are counted within a phase. */
typedef struct uf_wgmma_axis {
    int32_t first, extent, mul;
    int32_t patch;      /* written elements of one MMA: a power of two */
    int32_t images_log; /* log2 of images side by side: patch * images is 8 across and 16 down, or,
                           by runs_log, 16 and 8, 32 and 4, 64 and 2 */
    int32_t mmas;       /* beside each other on this axis: 1 or NT */
    int32_t tiles;
} uf_wgmma_axis;

/* dgrad has a phase per residue of the written position and one class; fprop has one phase and a
 * class per residue of the read position. Either way each filter tap belongs to one pair of a phase
 * and a class, and is a shift within its window. */
typedef struct uf_wgmma_geometry {
    uf_wgmma_axis axis[2];
    int32_t wm, nt;         /* warpgroups of 64 channels, MMAs of 128 pixels per warpgroup */
    int32_t pixels;         /* of a MMA: 128, or 64 */
    int32_t block_channels; /* written channels of a warpgroup: 64, or those of `mma_stride2_k4` */
    int32_t columns; /* 0, or pixels are the rows of MMAs and this many channels the columns */
    bool resident;   /* columns: weights stay in shared memory; else they come with each window */
    bool packed; /* windows come from blocked tensors (transform/channel_blocked.cuh); else producer
                    warps make them */
    bool merged; /* a MMA's rows are 8 channels at even columns, the same 8 at odd ones, and so
                    on: dgrad of stride 2. Such two are one phase, whose taps are those of both */
    int32_t merged_back; /* an even column is beside the odd one after it, or (1) before it */
    bool paired; /* a block's two warpgroups are the two phases of a row: dgrad of stride 2 */
    int32_t image_mmas; /* MMAs beside each other in images: 1 or NT */
    int32_t image_tiles;
    int32_t stack; /* 0, or tiles go on from an image to that below it, so many rows from its first
                      row to the next one's: axis[0].tiles are of all images */
    uint32_t stack_inverse; /* 2^32 / stack, rounded up */
    int32_t line; /* 0, or all rows of all images are one line, so many positions from a row to the
                     next one, `stack` rows from an image to the next one, with zeros between them;
                     a MMA is 128 positions of it */
    uint32_t line_inverse;
    int32_t line_first[2];  /* row and column of an image's first element */
    int32_t line_parts;     /* of a window, axis[1].extent positions each: a copy brings 128 at most
                               in a row */
    int32_t mma_rows;       /* rows of the window from one MMA to the next */
    int32_t mma_pitch;      /* and from a row of pixels to that below it */
    int32_t run_pitch;      /* and from one run of 8 pixels to the next */
    int32_t runs_log;       /* log2 of runs side by side: 3 is patches of 64 x 2 */
    int32_t patch_log;      /* log2 of runs side by side that have windows of their own, below each
                               other: any patch is then 16 runs at the same distance */
    int32_t window_rows;    /* of 16 bytes, per plane */
    int32_t planes;         /* of a chunk: 8, or 4 where there are few channels */
    int32_t windows;        /* buffers */
    int32_t depth;          /* chunks in one window */
    int32_t chunks;         /* of channels, whole windows */
    int32_t stages;         /* of weights, per warpgroup */
    int32_t promote;        /* FP32: taps of a chunk until sums go to ordinary registers; 0: half a
                               tap */
    bool split_f16;         /* of f16 */
    int32_t blocks_m;       /* per group: WM x 64 channels, of one phase or of several */
    int32_t channel_blocks; /* of 64 channels, per phase and group */
    int32_t together;       /* of blocks_m, that are neighbours among tiles: all of them, or, where
                               phases have more and fewer taps, those of a phase: a block then has
                               tiles of every phase, not always of the same one */
    bool backwards;         /* ... and the last phase is the first, because it has more taps */
    int32_t coords;         /* tiles / blocks_m */
    double busiest;         /* taps of a warpgroup, over the tiles of the first block */
    int32_t phases, classes;
    int32_t shared; /* bytes */
    int64_t tiles;
    double cost;      /* an estimate for one multiprocessor of an H200 */
    int32_t splits;   /* blocks that share the chunks of a tile: a cluster, which adds its sums */
    int32_t stream_k; /* 0: blocks take whole tiles in turn; or so many blocks, each of which has as
                        many taps and chunks of all tiles as the others, from anywhere in a tile to
                        anywhere in another: parts of a tile's sums meet in the workspace */
    int64_t work;     /* of all tiles: taps of all warpgroups, times windows of chunks */
    int16_t turn_taps[UF_WGMMA_PAIRS]; /* of a tile, by tile / (places * together) */
    uint16_t first_tap[UF_WGMMA_PAIRS +
                       1]; /* by phase*classes + class: its entries in the lists below */
    int32_t class_of[UF_WGMMA_PAIRS][2];    /* by class: down, across */
    int32_t class_first[UF_WGMMA_PAIRS][2]; /* what its first tap reads, from axis.first on */
    int16_t shift[UF_WGMMA_TAPS];           /* rows of the window */
    uint8_t tap_of[UF_WGMMA_TAPS][2];       /* filter row and column, or UF_WGMMA_NO_TAP */
    uint8_t odd_tap[UF_WGMMA_TAPS];         /* the same of odd columns, where they are merged */
} uf_wgmma_geometry;

/* Arguments whose stride says nothing, because the small side has one element, with the stride that
 * gives each tap a phase (dgrad) or a class (fprop) of its own: a MMA with no padding in it. */
uf_conv_kernel_args uf_wgmma_canonical(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
