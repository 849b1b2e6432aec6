/* split_f16.cuh - FP32 by 3xF16 on the device (arch/split_f16.h): the ranges of an MMA's two
 * tensors, and words of f16 parts. */
#ifndef UF_KERNELS_CUDA_ARCH_SPLIT_F16_CUH
#define UF_KERNELS_CUDA_ARCH_SPLIT_F16_CUH

#include "core/tensor.h"
#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/arch/split_f16.h"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

/* The ranges that the blocks of the pass found, blocks of `a` first. */
struct uf_split_f16_found {
    uf_split_f16_range *range;
    int32_t of_a, all; /* blocks: of a, of both */
};

/* transform/split_f16.cu: one launch writes at most UF_SPLIT_F16_BLOCKS ranges of f32 tensors `a`
 * and `b` at `at`. */
uf_status uf_split_f16_find(uf_context *context, const uf_view *a, const uf_view *b, void *at,
                            uf_split_f16_found *found);

/* Workspace: bytes of the ranges; and with the scales, for kernels after the first, behind them. */
enum { UF_SPLIT_F16_FOUND_BYTES = UF_SPLIT_F16_BLOCKS * 8, UF_SPLIT_F16_BYTES = 4096 };

/* Are all elements of a view one span of memory? No two indices name one element, so a span as long
 * as their number has no gap, whatever the order of the axes. */
static inline bool uf_split_f16_dense(const uf_view *view) {
    int64_t span = 1; /* elements from the first to the last */
    for (int axis = 0; axis < 4; ++axis) {
        if (view->extent[axis] != 1 && view->stride[axis] <= 0) {
            return false;
        }
        span += (view->extent[axis] - 1) * view->stride[axis];
    }
    return span == uf_view_count(view);
}

static __device__ __forceinline__ float uf_split_f16_as_float(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ uint32_t uf_split_f16_as_bits(float value) {
    return __float_as_uint(value);
}

static __device__ __forceinline__ void uf_split_f16_see(uf_split_f16_range &range, float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    range.largest = max(range.largest, bits);
    range.least = min(range.least, bits - 1);
}

static __device__ __forceinline__ uf_split_f16_range uf_split_f16_warp(uf_split_f16_range range) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    range.largest = __reduce_max_sync(0xffffffffu, range.largest);
    range.least = __reduce_min_sync(0xffffffffu, range.least);
#else
    for (int distance = 16; distance > 0; distance >>= 1) {
        range.largest = max(range.largest, __shfl_xor_sync(0xffffffffu, range.largest, distance));
        range.least = min(range.least, __shfl_xor_sync(0xffffffffu, range.least, distance));
    }
#endif
    return range;
}

/* The ranges of both tensors, in every thread. All threads of a block of whole warps call it, after
 * the pass; `shared` has 64 elements. */
static __device__ __forceinline__ void uf_split_f16_ranges(const uf_split_f16_found &found,
                                                           uf_split_f16_range *shared,
                                                           uf_split_f16_range *of_a,
                                                           uf_split_f16_range *of_b) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    const int warps = (int)blockDim.x >> 5;
    uf_split_f16_range a = {0, 0xffffffffu}, b = {0, 0xffffffffu};
    for (int32_t i = (int32_t)threadIdx.x; i < found.all; i += (int32_t)blockDim.x) {
        const uint2 bits = __ldcg((const uint2 *)found.range + i);
        uf_split_f16_range &to = i < found.of_a ? a : b;
        to.largest = max(to.largest, bits.x);
        to.least = min(to.least, bits.y);
    }
    a = uf_split_f16_warp(a);
    b = uf_split_f16_warp(b);
    if (lane == 0) {
        shared[warp] = a;
        shared[32 + warp] = b;
    }
    __syncthreads();
    for (int i = 0; i < warps; ++i) {
        a.largest = max(a.largest, shared[i].largest);
        a.least = min(a.least, shared[i].least);
        b.largest = max(b.largest, shared[32 + i].largest);
        b.least = min(b.least, shared[32 + i].least);
    }
    *of_a = a;
    *of_b = b;
}

/* The scales, likewise. */
static __device__ __forceinline__ uf_split_f16_scales
uf_split_f16_gather(const uf_split_f16_found &found, float mmas, uf_split_f16_range *shared) {
    uf_split_f16_range a, b;
    uf_split_f16_ranges(found, shared, &a, &b);
    return uf_split_f16_scales_of(a, b, mmas, uf_split_f16_as_float, uf_split_f16_as_bits);
}

/* Two scaled elements as a word of big parts and one of small parts, `low` in the low 16 bits. */
static __device__ __forceinline__ void uf_split_f16_split(float low, float high, uint32_t *big,
                                                          uint32_t *small) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    constexpr float UP = 1 << UF_SPLIT_F16_SMALL;
    float low_big, high_big;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(*big) : "f"(high), "f"(low));
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}\n"
        : "=f"(low_big), "=f"(high_big)
        : "r"(*big));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n"
        : "=r"(*small)
        : "f"((high - high_big) * UP), "f"((low - low_big) * UP));
#else
    *big = *small = 0;
#endif
}

/* 8 elements of K, multiplied by `scale`: 16 bytes of big parts and 16 of small parts. */
static __device__ __forceinline__ void uf_split_f16_words(const float *values, float scale,
                                                          uint4 *big, uint4 *small) {
    uint32_t word[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uf_split_f16_split(values[2 * i] * scale, values[2 * i + 1] * scale, &word[i], &rest[i]);
    }
    *big = make_uint4(word[0], word[1], word[2], word[3]);
    *small = make_uint4(rest[0], rest[1], rest[2], rest[3]);
}

#endif
