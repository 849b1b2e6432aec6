/* channel_blocked.cuh - the kernels' side of the channel-blocked layout (channel_blocked.h):
 * packing, and TMA loads. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_CHANNEL_BLOCKED_CUH
#define UF_KERNELS_CUDA_CONV_TRANSFORM_CHANNEL_BLOCKED_CUH

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/arch/split_f16.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"
#include "kernels/cuda/conv/transform/channel_blocked.h"
#include "kernels/geometry.h"

/* Positions that threads walk over, those of no class included. */
static inline UF_HD int64_t channel_blocked_positions(const channel_blocked &blocks) {
    return ((int64_t)blocks.image_groups << (blocks.images_log[0] + blocks.images_log[1])) *
           (blocks.rows * blocks.mul[0]) * (blocks.columns * blocks.mul[1]);
}

/* Planes of 16 channels. SEPARATE: small parts are in `planes` planes behind those of the big ones.
 */
template <uf_mma_math MATH, bool SEPARATE = false>
struct channel_blocked_unit {
    static constexpr bool SPLIT = MATH == UF_MMA_TF32X3 || MATH == UF_MMA_F16X3;
    static constexpr int PER_PIECE = MATH == UF_MMA_BF16 || MATH == UF_MMA_F16X3 ? 8 : 4;
    static constexpr int PIECES = CHANNEL_BLOCKED_UNIT / PER_PIECE;
    static constexpr int PLANES = SPLIT && !SEPARATE ? 2 * PIECES : PIECES;
};

/* Blocks of UF_BLOCK positions and 16 channels along positions. */
static inline UF_HD int32_t channel_blocked_across(const channel_blocked &b) {
    return (int32_t)((channel_blocked_positions(b) + UF_BLOCK - 1) / UF_BLOCK);
}

template <uf_mma_math MATH, bool SEPARATE = false>
static inline int64_t channel_blocked_count(const channel_blocked &b) {
    const int32_t units = b.planes / channel_blocked_unit<MATH, SEPARATE>::PLANES;
    return (int64_t)channel_blocked_across(b) * ((units + b.deep - 1) / b.deep) * b.groups;
}

/* 16 bytes of K as MMAs read them; 3xF16 splits values multiplied by `scale`. */
template <uf_mma_math MATH>
static __device__ __forceinline__ void conv_words(const float *values, float scale, uint4 *words,
                                                  uint4 *small) {
    if constexpr (MATH == UF_MMA_F16X3) {
        uf_split_f16_words(values, scale, words, small);
    } else {
        mma_words<MATH>(values, words, small);
    }
}

/* 16 bytes of K from `values`; bf16 values need no rounding. */
template <uf_mma_math MATH, typename T>
struct channel_blocked_words {
    static __device__ __forceinline__ void of(const T *values, uint4 *words, uint4 *small,
                                              float scale = 1.0f) {
        conv_words<MATH>(values, scale, words, small);
    }
};

template <>
struct channel_blocked_words<UF_MMA_BF16, uf_bf16> {
    static __device__ __forceinline__ void of(const uf_bf16 *values, uint4 *words, uint4 *,
                                              float = 1.0f) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            word[i] = (uint32_t)values[2 * i].bits | (uint32_t)values[2 * i + 1].bits << 16;
        }
        *words = make_uint4(word[0], word[1], word[2], word[3]);
    }
};

/* An observer of packed elements that ignores them. */
struct channel_blocked_unseen {
    template <typename T, int COUNT>
    __device__ __forceinline__ void see(const T (&)[COUNT]) {
    }
};

/* Block `block` of channel_blocked_count: a thread makes 16 channels of a position, `deep` times.
 * Lanes are neighbours in the order of the layout, so that they write whole lines. `seer` observes
 * the elements before they are scaled. */
template <uf_mma_math MATH, typename T, bool SEPARATE, typename Seer>
static __device__ __forceinline__ void channel_blocked_make(const channel_blocked &b, int32_t block,
                                                            float scale, Seer &seer) {
    constexpr int PER_PIECE = channel_blocked_unit<MATH, SEPARATE>::PER_PIECE;
    constexpr int PIECES = channel_blocked_unit<MATH, SEPARATE>::PIECES;
    constexpr int UNIT_PLANES = channel_blocked_unit<MATH, SEPARATE>::PLANES;
    const int32_t blocks_across = channel_blocked_across(b);
    const int32_t tasks = block / blocks_across;
    const uint32_t width = (uint32_t)(b.columns * b.mul[1]);
    const uint32_t height = (uint32_t)(b.rows * b.mul[0]);
    const uint32_t index = (uint32_t)(block - tasks * blocks_across) * UF_BLOCK + threadIdx.x;
    uint32_t rest = index / width;
    const int32_t w = (int32_t)(index - rest * width);
    const int32_t across = (int32_t)rest & ((1 << b.images_log[1]) - 1);
    rest >>= b.images_log[1];
    const int32_t beside = (int32_t)(rest / height);
    const int32_t h = (int32_t)(rest - (uint32_t)beside * height);
    const int32_t n = (beside << b.images_log[1]) + across;
    const int32_t y = h / b.mul[0], x = w / b.mul[1];
    const int32_t class_y = b.class_of[0][h - y * b.mul[0]];
    const int32_t class_x = b.class_of[1][w - x * b.mul[1]];
    const int32_t image_group = n >> (b.images_log[0] + b.images_log[1]);
    if (image_group >= b.image_groups || class_y < 0 || class_x < 0) {
        return;
    }
    const int32_t down = beside & ((1 << b.images_log[0]) - 1);
    const int64_t position =
        ((((int64_t)image_group * b.rows + y) << b.images_log[0]) + down) * b.pitch +
        (x << b.images_log[1]) + across;
    const int32_t row = h - b.first[0] * b.mul[0], column = w - b.first[1] * b.mul[1];
    const bool there =
        n < b.batch && row >= 0 && row < b.extent[0] && column >= 0 && column < b.extent[1];
    const T *const from = (const T *)b.from +
                          (there ? n * b.stride[0] + row * b.stride[2] + column * b.stride[3] : 0);
    const int32_t units = b.planes / UNIT_PLANES;
    const int32_t classes = b.classes[0] * b.classes[1];
    const int32_t klass = class_y * b.classes[1] + class_x;
    const int32_t deep = sizeof(T) == 2 ? b.deep : 1; /* channel_blocked_of: 1 for f32 */
    const int32_t per_group = (units + deep - 1) / deep;
    const int32_t group = tasks / per_group;
    int32_t first = (tasks - group * per_group) * deep * CHANNEL_BLOCKED_UNIT;
    const int32_t end = first + deep * CHANNEL_BLOCKED_UNIT;
    const T *at = from + ((int64_t)group * b.channels + first) * b.stride[1];
    const int32_t planes = SEPARATE ? 2 * b.planes : b.planes;
    uint4 *to =
        (uint4 *)b.to +
        ((int64_t)(group * classes + klass) * planes + first / CHANNEL_BLOCKED_UNIT * UNIT_PLANES) *
            b.plane +
        position;
    const int64_t to_small = (SEPARATE ? b.planes : PIECES) * b.plane;
#pragma unroll 1
    for (; first < end && first < units * CHANNEL_BLOCKED_UNIT; first += CHANNEL_BLOCKED_UNIT) {
        T value[CHANNEL_BLOCKED_UNIT];
        if (there && first + CHANNEL_BLOCKED_UNIT <= b.channels) {
#pragma unroll
            for (int i = 0; i < CHANNEL_BLOCKED_UNIT; ++i) {
                value[i] = *at;
                at += b.stride[1];
            }
        } else {
#pragma unroll
            for (int i = 0; i < CHANNEL_BLOCKED_UNIT; ++i) {
                value[i] = (T)0.0f;
                if (there && first + i < b.channels) {
                    value[i] = *at;
                    at += b.stride[1];
                }
            }
        }
        seer.see(value);
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            uint4 words, small;
            channel_blocked_words<MATH, T>::of(value + piece * PER_PIECE, &words, &small, scale);
            to[0] = words;
            if (channel_blocked_unit<MATH>::SPLIT) {
                to[to_small] = small;
            }
            to += b.plane;
        }
        to += (UNIT_PLANES - PIECES) * b.plane;
    }
}

template <uf_mma_math MATH, typename T>
static __device__ __forceinline__ void channel_blocked_make(const channel_blocked &b, int32_t block,
                                                            float scale = 1.0f) {
    channel_blocked_unseen seer;
    channel_blocked_make<MATH, T, false>(b, block, scale, seer);
}

/* TMA map of boxes of `columns` x `rows` positions of `images` image groups and `planes` planes:
 * [plane][image group][y][image down][x][image across][16 bytes]. Its elements have 8 bytes,
 * because a row of a box has at most 256 of them. */
static inline uf_status channel_blocked_map(uf_context *context, const channel_blocked &blocks,
                                            int32_t columns, int32_t rows, int32_t images,
                                            int32_t planes, CUtensorMap *map) {
    const int64_t all_planes =
        (int64_t)blocks.groups * blocks.classes[0] * blocks.classes[1] * blocks.planes;
    if (blocks.parts > 0) {
        /* Rows of this map overlap: each part begins where the one before ends. */
        const uf_tensor_boxes line = {CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
                                      8,
                                      5,
                                      {blocks.plane * 2, blocks.parts, 1, 1, all_planes},
                                      {1, (int64_t)columns * 2, 0, 0, (int64_t)blocks.plane * 2},
                                      {columns * 2, blocks.parts, 1, 1, planes},
                                      CU_TENSOR_MAP_SWIZZLE_NONE,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
        return uf_cuda_tensor_map(context, line, blocks.to, map);
    }
    const int64_t row = (int64_t)blocks.columns << blocks.images_log[1];
    const int64_t down = 1 << blocks.images_log[0];
    const int64_t images_here = blocks.stacked ? 1 : blocks.image_groups;
    const int64_t rows_here = blocks.image_groups / images_here * blocks.rows;
    const int64_t pitch = (int64_t)blocks.pitch * 2; /* elements of 8 bytes */
    const uf_tensor_boxes boxes = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        8,
        5,
        {row * 2, down, rows_here, images_here, all_planes},
        {1, pitch, pitch * down, pitch * down * rows_here, (int64_t)blocks.plane * 2},
        {(columns << blocks.images_log[1]) * 2, (int32_t)down, rows, images, planes},
        CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
    return uf_cuda_tensor_map(context, boxes, blocks.to, map);
}

#if UF_HAS_WGMMA

/* TMA load of the box at position (x, y), image group and plane to shared memory, aligned to 128
 * bytes; completes at `barrier`. */
static __device__ __forceinline__ void channel_blocked_copy(uint32_t shared, const CUtensorMap *map,
                                                            int32_t x, int32_t images_across_log,
                                                            int32_t y, int32_t image_group,
                                                            int32_t plane, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];\n" ::"r"(shared),
                 "l"(map), "r"((x << images_across_log) * 2), "r"(0), "r"(y), "r"(image_group),
                 "r"(plane), "r"(uf_shared_address(barrier))
                 : "memory");
}

#endif

#endif
