/* layout.h - the layout of a call's tiles, windows and taps: the host makes it, the kernels read
 * it. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAYOUT_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_LAYOUT_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_ROWS = 64,      /* written channels of a warpgroup */
    UF_WGMMA_WARP_ROWS = 16, /* written channels of a warp */
    UF_WGMMA_PIXELS = 128,   /* columns of an MMA: 16 runs of 8 pixels */
    UF_WGMMA_PLANES = 8, /* planes of 16 bytes of K in a chunk, at most: 64 or 128 bytes a row */
    UF_WGMMA_FP32_STEPS = 2, /* steps of a chunk: 2 large, 2 small planes */
    UF_WGMMA_PLANE = 1024,   /* bytes of a plane of the weights of one chunk and tap: 64 rows */
    UF_WGMMA_TAPS = 64,      /* filter taps that fit a kernel's parameters */
    UF_WGMMA_PAIRS = 64,     /* pairs of a phase and a class, at most */
    UF_WGMMA_NO_TAP = 255,
    UF_WGMMA_MERGED = 32,   /* written channels of a warpgroup whose rows are two phases */
    UF_WGMMA_STAGES = 24,   /* weight stages of all warpgroups, at most */
    UF_WGMMA_WINDOWS = 4,   /* window buffers, at most */
    UF_WGMMA_SPLITS = 4,    /* CTAs of a cluster that share a tile, at most */
    UF_WGMMA_SHARES = 16,   /* CTAs per tile in stream-K, at most */
    UF_WGMMA_SUMS = 32768,  /* bytes of an MMA's accumulators */
    UF_WGMMA_UNIT = 16,     /* channels that a producer warp loads at a time */
    UF_WGMMA_RAW_HALF = 2,  /* units in flight with WM = 1 */
    UF_WGMMA_RAW_WHOLE = 4, /* units in flight with WM = 2 */
    UF_WGMMA_PITCH = 40,    /* words from a channel to the next in the epilogue: no bank conflict */
    UF_WGMMA_PAIR_PITCH = 65, /* the same for two phases side by side */
    UF_WGMMA_BARRIERS = 512,  /* bytes, a multiple of 128: TMA loads need windows aligned so */

    /* Swap-AB (swap_ab/launch.cu): */
    UF_WGMMA_SWAP_AB_PIXELS = 64,  /* rows of an MMA: neighbours of an image row */
    UF_WGMMA_SWAP_AB_PLANES = 4,   /* planes of a chunk: 64 bytes a row */
    UF_WGMMA_SWAP_AB_GROUPS = 2,   /* consumer warpgroups */
    UF_WGMMA_SWAP_AB_PITCH = 68,   /* words from a channel to the next in the epilogue */
    UF_WGMMA_SWAP_AB_POSITION = 8, /* bytes of a wgmma_swap_ab_position */
    UF_WGMMA_SWAP_AB_CHANNELS = 64 /* written channels, at most; in FP32 half as many */
};

/* Words of staging of a consumer warpgroup: channels of 64 pixels, their scale and shift. */
#define UF_WGMMA_SWAP_AB_STAGING(columns) ((columns) * (UF_WGMMA_SWAP_AB_PITCH + 2))

/* Tiles in flight: consumer warpgroups take them in turn, or share one. */
#define UF_WGMMA_SWAP_AB_TURNS(columns) ((columns) > 32 ? 1 : UF_WGMMA_SWAP_AB_GROUPS)

/* MMAs below each other that fit the registers: FP32 holds three accumulators for each. */
#define UF_WGMMA_SWAP_AB_MMAS(fp32, columns) ((fp32) || (columns) > 32 ? 4 : 8)

/* One axis. A window is the part of the read side that a tile needs. Its position v, counted from
 * element j of the tile's first, is element (j + first + class_first + v)*mul + class of the read
 * side. Written elements are counted within a phase. */
typedef struct uf_wgmma_axis {
    int32_t first, extent, mul;
    int32_t patch;      /* written elements of an MMA, a power of two */
    int32_t images_log; /* log2 of images side by side; patch * images is 16 down by 8 across, by
                           runs_log 2 by 64 */
    int32_t mmas;       /* MMAs beside each other on this axis: 1 or NT */
    int32_t tiles;
} uf_wgmma_axis;

/* dgrad has a phase per residue of the written position and one class. fprop has one phase and a
 * class per residue of the read position. Each filter tap belongs to one pair of a phase and a
 * class; it is a shift within that pair's window. */
typedef struct uf_wgmma_geometry {
    uf_wgmma_axis axis[2];
    int32_t wm, nt;         /* warpgroups of 64 channels; MMAs of 128 pixels per warpgroup */
    int32_t pixels;         /* pixels of an MMA: 128, or 64 in swap-AB */
    int32_t block_channels; /* written channels of a warpgroup: 64, 32 if merged, `columns` in
                               swap-AB */
    int32_t columns;        /* written channels as columns of MMAs: swap-AB; 0: channels are rows */
    bool resident; /* swap-AB: weights stay in shared memory; else they come with each window */
    bool packed; /* windows come by TMA from a channel-blocked copy (transform/channel_blocked.cuh);
                    else producer warps make them */
    bool merged; /* dgrad of stride 2: two column phases are one, with the taps of both; rows
                    alternate between 8 channels of each */
    int32_t merged_back; /* 0: an even column is beside the odd one after it; 1: before it */
    bool paired;         /* dgrad of stride 2: a CTA's two warpgroups are the two phases of a row */
    int32_t image_mmas;  /* MMAs beside each other in images: 1 or NT */
    int32_t image_tiles;
    int32_t stack; /* rows from an image's first row to the next image's, where tiles cross images
                      (axis[0].tiles counts all images); 0: they do not */
    uint32_t stack_inverse; /* 2^32 / stack, rounded up */
    int32_t line; /* positions from a row to the next on one line of all rows of all images, with
                     zeros between; 0: no line */
    uint32_t line_inverse;
    int32_t line_first[2]; /* row and column of an image's first element in the line */
    int32_t line_parts;    /* parts of a line's window, axis[1].extent positions each: a TMA load
                              brings at most 128 in a row */
    int32_t mma_rows;      /* window rows from one MMA to the next */
    int32_t mma_pitch;     /* window rows from a row of pixels to the one below it */
    int32_t run_pitch;     /* window rows from one run of 8 pixels to the next */
    int32_t runs_log;      /* log2 of runs side by side: 3 is a patch of 64 x 2 */
    int32_t patch_log;     /* log2 of runs side by side that have windows of their own, below each
                              other: all 16 runs are then equally far apart */
    int32_t window_rows;   /* rows of 16 bytes per plane */
    int32_t planes;        /* planes of a chunk: 8, or 4 where channels are few */
    int32_t windows;       /* window buffers */
    int32_t depth;         /* chunks in a window */
    int32_t chunks;        /* chunks of channels, a multiple of depth */
    int32_t stages;        /* weight stages per warpgroup */
    int32_t promote;       /* FP32: taps of a chunk between accumulator promotions; 0: half a tap */
    bool split_f16;        /* parts are f16 (3xF16) */
    int32_t blocks_m; /* CTA tiles of channels per group: WM x 64, of one phase or of several */
    int32_t channel_blocks; /* blocks of 64 channels, per phase and group */
    int32_t together; /* blocks_m that are neighbours in tile order: all, or, where phases differ in
                         taps, those of one phase */
    bool backwards;   /* the last phase comes first, because it has more taps */
    int32_t coords;   /* tiles / blocks_m */
    double busiest;   /* taps of a warpgroup, averaged over the tiles of CTA 0 */
    int32_t phases, classes;
    int32_t shared; /* bytes of shared memory */
    int64_t tiles;
    double cost;      /* modelled cycles of one multiprocessor of an H200 */
    int32_t splits;   /* CTAs of a cluster that share the chunks of a tile (cluster split-K) */
    int32_t stream_k; /* CTAs of stream-K, with equal shares of the taps and chunks of all tiles; 0:
                         CTAs take whole tiles */
    int64_t work;     /* taps of all warpgroups times windows of chunks, of all tiles */
    int16_t turn_taps[UF_WGMMA_PAIRS];      /* taps of a tile, by tile / (coords * together) */
    uint16_t first_tap[UF_WGMMA_PAIRS + 1]; /* first list entry, by phase*classes + class */
    int32_t class_of[UF_WGMMA_PAIRS][2]; /* residue of the read position, by class: down, across */
    int32_t class_first[UF_WGMMA_PAIRS][2]; /* a class's first position, from axis.first */
    int16_t shift[UF_WGMMA_TAPS];           /* window rows, by entry */
    uint8_t tap_of[UF_WGMMA_TAPS][2];       /* filter row and column by entry, or UF_WGMMA_NO_TAP */
    uint8_t odd_tap[UF_WGMMA_TAPS];         /* filter column of odd columns by entry, if merged */
} uf_wgmma_geometry;

/* Bytes of the packed weights of all groups. */
static inline int64_t uf_wgmma_packed_bytes(const uf_wgmma_geometry *geometry, int64_t groups) {
    return groups * geometry->first_tap[geometry->phases * geometry->classes] *
           geometry->channel_blocks * geometry->chunks * geometry->planes * 16 *
           (geometry->columns > 0 ? geometry->columns : UF_WGMMA_ROWS);
}

/* The same convolution with another stride where the small side has one element, so that the stride
 * does not matter. Each tap then has a phase (dgrad) or a class (fprop) of its own, and MMAs have
 * no padding. */
uf_conv_kernel_args uf_wgmma_canonical(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
