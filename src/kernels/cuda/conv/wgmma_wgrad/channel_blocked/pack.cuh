/* pack.cuh - bf16 tensors made channel-blocked, two pixels of a row at a time. channel_blocked_make
 * moves half as many bytes with each load, and the number of loads bounds it. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_PACK_CUH

#include "kernels/geometry.h"

#include "kernels/cuda/conv/transform/channel_blocked.cuh"

/* Pairs are aligned and cross no row; with a stride of 2 a pair is one position of two classes. */
static inline bool channel_blocked_paired(const channel_blocked &b, size_t element) {
    return element == 2 && b.parts == 0 && b.stride[3] == 1 && b.extent[1] % 2 == 0 &&
           b.mul[1] <= 2 && b.stride[0] % 2 == 0 && b.stride[1] % 2 == 0 && b.stride[2] % 2 == 0 &&
           (uintptr_t)b.from % 4 == 0;
}

static inline UF_HD int32_t channel_blocked_pairs_across(const channel_blocked &b) {
    return (int32_t)((channel_blocked_positions(b) / 2 + UF_BLOCK - 1) / UF_BLOCK);
}

static inline int64_t channel_blocked_pairs_count(const channel_blocked &b) {
    const int32_t units = b.planes / channel_blocked_unit<UF_MMA_BF16>::PLANES;
    return (int64_t)channel_blocked_pairs_across(b) * ((units + b.deep - 1) / b.deep) * b.groups;
}

/* Block `block` of channel_blocked_pairs_count: a thread makes two neighbours of 16 channels,
 * `deep` times. */
static __device__ __forceinline__ void channel_blocked_make_pairs(const channel_blocked &b,
                                                                  int32_t block) {
    constexpr int PIECES = channel_blocked_unit<UF_MMA_BF16>::PIECES;
    const int32_t blocks_across = channel_blocked_pairs_across(b);
    const int32_t tasks = block / blocks_across;
    const uint32_t width = (uint32_t)(b.columns * b.mul[1]) / 2;
    const uint32_t height = (uint32_t)(b.rows * b.mul[0]);
    const uint32_t index = (uint32_t)(block - tasks * blocks_across) * UF_BLOCK + threadIdx.x;
    uint32_t rest = index / width;
    const int32_t w = (int32_t)(index - rest * width) * 2;
    const int32_t across = (int32_t)rest & ((1 << b.images_log[1]) - 1);
    rest >>= b.images_log[1];
    const int32_t beside = (int32_t)(rest / height);
    const int32_t h = (int32_t)(rest - (uint32_t)beside * height);
    const int32_t n = (beside << b.images_log[1]) + across;
    const int32_t y = h / b.mul[0], x = w / b.mul[1];
    const int32_t class_y = b.class_of[0][h - y * b.mul[0]];
    const int32_t class_0 = b.class_of[1][0], class_1 = b.mul[1] == 1 ? class_0 : b.class_of[1][1];
    const int32_t image_group = n >> (b.images_log[0] + b.images_log[1]);
    const bool wanted = image_group < b.image_groups && class_y >= 0;
    const bool there = wanted && n < b.batch && h < b.extent[0] && w < b.extent[1];
    const int32_t down = beside & ((1 << b.images_log[0]) - 1);
    const int32_t units = b.planes / PIECES;
    const int32_t per_group = (units + b.deep - 1) / b.deep;
    const int32_t group = tasks / per_group;
    int32_t first = (tasks - group * per_group) * b.deep * CHANNEL_BLOCKED_UNIT;
    const int32_t end = first + b.deep * CHANNEL_BLOCKED_UNIT;
    /* Destinations of the two pixels, in 16 bytes of a plane; -1: none. */
    const int64_t class_step = (int64_t)b.planes * b.plane;
    const int64_t row =
        ((((int64_t)image_group * b.rows + y) << b.images_log[0]) + down) * b.pitch +
        (x << b.images_log[1]) + across +
        ((int64_t)group * b.classes[0] + class_y) * b.classes[1] * class_step;
    int64_t to[2] = {wanted && class_0 >= 0 ? row + class_0 * class_step : -1,
                     wanted && class_1 >= 0
                         ? row + class_1 * class_step + (b.mul[1] == 1 ? 1 << b.images_log[1] : 0)
                         : -1};
    /* Neighbouring lanes exchange a pixel, so that each store of a pair fills a sector. */
    const bool exchange = b.mul[1] == 1 && b.images_log[1] == 0;
    const bool odd = (threadIdx.x & 1) != 0;
    if (exchange) {
        const int64_t got = __shfl_xor_sync(0xffffffffu, odd ? to[0] : to[1], 1);
        to[0] = odd ? got : to[0];
        to[1] = odd ? to[1] : got;
    }
    uint4 *plane = (uint4 *)b.to + (int64_t)(first / CHANNEL_BLOCKED_UNIT * PIECES) * b.plane;
    const uf_bf16 *at =
        (const uf_bf16 *)b.from + (there ? n * b.stride[0] + h * b.stride[2] + w +
                                               ((int64_t)group * b.channels + first) * b.stride[1]
                                         : 0);
#pragma unroll 1
    for (; first < end && first < units * CHANNEL_BLOCKED_UNIT; first += CHANNEL_BLOCKED_UNIT) {
        uint32_t pair[CHANNEL_BLOCKED_UNIT];
#pragma unroll
        for (int i = 0; i < CHANNEL_BLOCKED_UNIT; ++i) {
            const bool loads = there && first + i < b.channels;
            pair[i] = loads ? *(const uint32_t *)at : 0;
            at += loads ? b.stride[1] : 0;
        }
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            uint32_t words[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t low = pair[piece * 8 + 2 * i], high = pair[piece * 8 + 2 * i + 1];
                words[0][i] = __byte_perm(low, high, 0x5410);
                words[1][i] = __byte_perm(low, high, 0x7632);
                if (exchange) {
                    const uint32_t got =
                        __shfl_xor_sync(0xffffffffu, odd ? words[0][i] : words[1][i], 1);
                    words[0][i] = odd ? got : words[0][i];
                    words[1][i] = odd ? words[1][i] : got;
                }
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (to[i] >= 0) {
                    plane[to[i]] = make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
                }
            }
            plane += b.plane;
        }
    }
}

#endif
