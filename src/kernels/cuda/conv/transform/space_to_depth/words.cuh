/* words.cuh - the data of space_to_depth/launch.cu as bits: one element, or 16 bytes. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_WORDS_CUH
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_WORDS_CUH

#include <cstdint>

#include "kernels/cuda/device/bf16.cuh"

/* The integer with an element's bits. */
template <typename T>
struct space_to_depth_word {
    typedef uint32_t type;
};

template <>
struct space_to_depth_word<uf_bf16> {
    typedef uint16_t type;
};

static __device__ __forceinline__ float space_to_depth_value(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ float space_to_depth_value(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

/* COUNT elements as bits. */
template <typename Word, int COUNT>
struct space_to_depth_run {
    uint32_t words[COUNT == 1 ? 1 : 4];

    __device__ __forceinline__ Word get(int i) const {
        return sizeof(Word) == 4 ? (Word)words[i] : (Word)(words[i / 2] >> (16 * (i & 1)));
    }
    /* Only in ascending order of i: the low half clears the high one. */
    __device__ __forceinline__ void set(int i, Word value) {
        if (sizeof(Word) == 4) {
            words[i] = value;
        } else {
            words[i / 2] = (i & 1) == 0 ? value : words[i / 2] | (uint32_t)value << 16;
        }
    }
    __device__ __forceinline__ void load(const Word *from) {
        if constexpr (COUNT == 1) {
            words[0] = *from;
        } else {
            const uint4 four = *(const uint4 *)from;
            words[0] = four.x;
            words[1] = four.y;
            words[2] = four.z;
            words[3] = four.w;
        }
    }
    __device__ __forceinline__ void store(Word *to) const {
        if constexpr (COUNT == 1) {
            *to = (Word)words[0];
        } else {
            *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
    /* Elements [low, high) alone: beyond a tensor's last there may be no memory. */
    __device__ __forceinline__ void load_some(const Word *from, int32_t stride, int32_t low,
                                              int32_t high) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            set(i, i >= low && i < high ? from[i * stride] : (Word)0);
        }
    }
};

#endif
