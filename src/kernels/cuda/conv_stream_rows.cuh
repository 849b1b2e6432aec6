/* conv_stream_rows.cuh - rows in shared memory as they lie in memory: what conv_stream_fprop and
 * conv_stream_wgrad share. */
#ifndef UF_KERNELS_CUDA_CONV_STREAM_ROWS_CUH
#define UF_KERNELS_CUDA_CONV_STREAM_ROWS_CUH

#include <cstdint>

#include "kernels/cuda/wgmma.cuh"

/* The columns of a row that a tile's pixels meet, from the corner on, which is what the first tap
 * of the first pixel would meet; and those of them that are inside the image. */
struct stream_inside {
    int32_t begin, end, reach;
};

static __device__ __forceinline__ stream_inside stream_inside_of(int32_t corner, int32_t pixels,
                                                                 int32_t stride, int32_t taps,
                                                                 int32_t dilation, int32_t extent) {
    stream_inside inside;
    inside.reach = (pixels - 1) * stride + (taps - 1) * dilation + 1;
    inside.begin = max(-corner, 0);
    inside.end = min(inside.reach, extent - corner);
    return inside;
}

static __device__ __forceinline__ uint32_t stream_word(uint32_t shared) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(value) : "r"(shared) : "memory");
    return value;
}

static __device__ __forceinline__ uint32_t stream_half(uint32_t shared) {
    unsigned short value;
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(shared) : "memory");
    return value;
}

#if UF_HAS_WGMMA

/* Zeros before and behind what has come of `channels` rows, `pitch` bytes apart; a lane has one. */
template <int BYTES>
static __device__ __forceinline__ void
stream_zero_outside(const stream_inside &inside, uint32_t corner, int32_t pitch, int32_t channels) {
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t before = min(inside.begin, inside.reach), from = max(inside.end, before);
    if (lane < channels) {
        const uint32_t row = corner + (uint32_t)(lane * pitch);
#pragma unroll 1
        for (int32_t i = 0; i < before + inside.reach - from; ++i) {
            const uint32_t to = row + (uint32_t)((i < before ? i : i - before + from) * BYTES);
            if (BYTES == 2) {
                asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(to), "h"((unsigned short)0)
                             : "memory");
            } else {
                asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(to), "r"(0) : "memory");
            }
        }
    }
    uf_fence_async_shared(); /* before the next copies */
    __syncwarp();
}

#endif

#endif
