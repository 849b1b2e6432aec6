/* tiles.h - the tiles of conv_wgmma_patch that are compiled, in each type: a plan asks for these
 * alone, and for each of them (tests/cuda/test_instances.c). Plain C: the test includes it.
 *
 * columns of the read side under a pixel, columns of the written one */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_TILES_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_TILES_H

#define UF_PATCH_TILES                                                                             \
    UF_PATCH_TILE(16, 1)                                                                           \
    UF_PATCH_TILE(8, 1)                                                                            \
    UF_PATCH_TILE(4, 1)                                                                            \
    UF_PATCH_TILE(2, 1)                                                                            \
    UF_PATCH_TILE(1, 4)                                                                            \
    UF_PATCH_TILE(1, 2)                                                                            \
    UF_PATCH_TILE(1, 1)

/* Tiles of these that FP32 has for brief sums, too: plans of others are refused. */
#define UF_PATCH_TILES_BRIEF                                                                       \
    UF_PATCH_TILE(4, 1)                                                                            \
    UF_PATCH_TILE(2, 1)                                                                            \
    UF_PATCH_TILE(1, 4)                                                                            \
    UF_PATCH_TILE(1, 2)                                                                            \
    UF_PATCH_TILE(1, 1)

#endif
