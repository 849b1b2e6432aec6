/* tiles.h - the tiles of conv_wgmma that are compiled, and that plans are made of (tile.c): each of
 * them is some plan's (tests/cuda/test_instances.c). Plain C.
 *
 * math, warpgroups of 64 channels, MMAs of 128 pixels, packed windows, wide patches, scheduler,
 * dtype of the tensors, their elements */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_TILES_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_TILES_H

/* In TF32 and BF16 all windows are packed: where producer warps made them, calls took as long or
 * up to 15 % longer. */
#define UF_WGMMA_TILES_ROUNDED(MATH, DTYPE, STORED)                                                \
    UF_WGMMA_TILE(MATH, 1, 1, true, false, WGMMA_ALONE, DTYPE, STORED)                             \
    UF_WGMMA_TILE(MATH, 1, 2, true, false, WGMMA_ALONE, DTYPE, STORED)                             \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_ALONE, DTYPE, STORED)                             \
    UF_WGMMA_TILE(MATH, 2, 2, true, false, WGMMA_ALONE, DTYPE, STORED)                             \
    UF_WGMMA_TILE(MATH, 1, 2, true, true, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 2, true, true, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 2, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_STREAM_K, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 1, 1, true, false, WGMMA_MERGED, DTYPE, STORED)

#define UF_WGMMA_TILES_TF32 UF_WGMMA_TILES_ROUNDED(UF_MMA_TF32, UF_F32, float)
#define UF_WGMMA_TILES_BF16(DTYPE, STORED) UF_WGMMA_TILES_ROUNDED(UF_MMA_BF16, DTYPE, STORED)

/* 3xTF32, 3xF16: sums are kept twice, and registers have room for one MMA of pixels. */
#define UF_WGMMA_TILES_SPLIT(MATH)                                                                 \
    UF_WGMMA_TILE(MATH, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                            \
    UF_WGMMA_TILE(MATH, 1, 1, true, false, WGMMA_ALONE, UF_F32, float)                             \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_ALONE, UF_F32, float)                             \
    UF_WGMMA_TILE(MATH, 1, 1, true, true, WGMMA_ALONE, UF_F32, float)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_CLUSTERS, UF_F32, float)                          \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_STREAM_K, UF_F32, float)                          \
    UF_WGMMA_TILE(MATH, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)

/* 3xTF32 computes tiles of 3xF16 again, and so has all of these. */
#define UF_WGMMA_TILES_FP32                                                                        \
    UF_WGMMA_TILE(UF_MMA_TF32X3, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                   \
    UF_WGMMA_TILES_SPLIT(UF_MMA_TF32X3)

#define UF_WGMMA_TILES_SPLIT_F16 UF_WGMMA_TILES_SPLIT(UF_MMA_F16X3)

#endif
