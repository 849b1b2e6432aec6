/* tiles.h - the tiles of conv_im2col that are compiled: a plan asks for these alone, and for each
 * of them (tests/cuda/test_instances.c). Plain C: the test includes it.
 *
 * 8-column blocks and 16-cell blocks of a warp */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_TILES_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_TILES_H

/* FP32: operands are split in registers. */
#define UF_IM2COL_TILES_FP32                                                                       \
    UF_IM2COL_TILE(1, 4)                                                                           \
    UF_IM2COL_TILE(1, 2)                                                                           \
    UF_IM2COL_TILE(2, 4)                                                                           \
    UF_IM2COL_TILE(2, 2)                                                                           \
    UF_IM2COL_TILE(4, 2)                                                                           \
    UF_IM2COL_TILE(4, 1)                                                                           \
    UF_IM2COL_TILE(6, 2)                                                                           \
    UF_IM2COL_TILE(6, 1)                                                                           \
    UF_IM2COL_TILE(8, 1)

/* TF32, BF16. */
#define UF_IM2COL_TILES                                                                            \
    UF_IM2COL_TILE(1, 4)                                                                           \
    UF_IM2COL_TILE(2, 4)                                                                           \
    UF_IM2COL_TILE(4, 2)                                                                           \
    UF_IM2COL_TILE(6, 2)                                                                           \
    UF_IM2COL_TILE(6, 1)                                                                           \
    UF_IM2COL_TILE(8, 2)                                                                           \
    UF_IM2COL_TILE(8, 1)

#endif
