/* tiles.h - the tiles of conv_wgmma that are compiled: a plan asks for these alone, and for each of
 * them (tests/cuda/test_instances.c). Plain C: the test includes it.
 *
 * math, warpgroups of 64 channels, MMAs of 128 pixels, packed windows, wide patches, scheduler,
 * dtype of the tensors, their elements */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_TILES_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_TILES_H

#define UF_WGMMA_WHOLE_TILES(MATH, WIDE, DTYPE, STORED)                                            \
    UF_WGMMA_TILE(MATH, 1, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 1, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, WIDE, WGMMA_ALONE, DTYPE, STORED)                              \
    UF_WGMMA_TILE(MATH, 2, 2, true, WIDE, WGMMA_ALONE, DTYPE, STORED)

#define UF_WGMMA_SHARED_TILES(MATH, DTYPE, STORED)                                                 \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 2, true, false, WGMMA_CLUSTERS, DTYPE, STORED)                          \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_STREAM_K, DTYPE, STORED)

/* One MMA of pixels, in 3xTF32 or 3xF16: registers have room for no more in most of them. */
#define UF_WGMMA_HALF_TILES(MATH)                                                                  \
    UF_WGMMA_TILE(MATH, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                            \
    UF_WGMMA_TILE(MATH, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                            \
    UF_WGMMA_WHOLE_TILES(MATH, false, UF_F32, float)                                               \
    UF_WGMMA_TILE(MATH, 1, 1, true, true, WGMMA_ALONE, UF_F32, float)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, true, WGMMA_ALONE, UF_F32, float)                              \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_CLUSTERS, UF_F32, float)                          \
    UF_WGMMA_TILE(MATH, 2, 1, true, false, WGMMA_STREAM_K, UF_F32, float)                          \
    UF_WGMMA_TILE(MATH, 1, 1, false, false, WGMMA_MERGED, UF_F32, float)                           \
    UF_WGMMA_TILE(MATH, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)

#define UF_WGMMA_TILES_FP32 UF_WGMMA_HALF_TILES(UF_MMA_TF32X3)
#define UF_WGMMA_TILES_SPLIT_F16 UF_WGMMA_HALF_TILES(UF_MMA_F16X3)

#define UF_WGMMA_TILES_TF32                                                                        \
    UF_WGMMA_TILE(UF_MMA_TF32, 1, 1, false, false, WGMMA_ALONE, UF_F32, float)                     \
    UF_WGMMA_TILE(UF_MMA_TF32, 1, 2, false, false, WGMMA_ALONE, UF_F32, float)                     \
    UF_WGMMA_TILE(UF_MMA_TF32, 2, 1, false, false, WGMMA_ALONE, UF_F32, float)                     \
    UF_WGMMA_WHOLE_TILES(UF_MMA_TF32, false, UF_F32, float)                                        \
    UF_WGMMA_WHOLE_TILES(UF_MMA_TF32, true, UF_F32, float)                                         \
    UF_WGMMA_SHARED_TILES(UF_MMA_TF32, UF_F32, float)                                              \
    UF_WGMMA_TILE(UF_MMA_TF32, 1, 1, true, false, WGMMA_MERGED, UF_F32, float)

/* bf16 windows are always packed. */
#define UF_WGMMA_TILES_BF16(DTYPE, STORED)                                                         \
    UF_WGMMA_WHOLE_TILES(UF_MMA_BF16, false, DTYPE, STORED)                                        \
    UF_WGMMA_WHOLE_TILES(UF_MMA_BF16, true, DTYPE, STORED)                                         \
    UF_WGMMA_SHARED_TILES(UF_MMA_BF16, DTYPE, STORED)                                              \
    UF_WGMMA_TILE(UF_MMA_BF16, 1, 1, true, false, WGMMA_MERGED, DTYPE, STORED)

#endif
