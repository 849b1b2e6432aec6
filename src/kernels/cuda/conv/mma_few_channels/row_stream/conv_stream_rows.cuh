/* conv_stream_rows.cuh - rows in shared memory as they lie in memory: what conv_stream_fprop and
 * conv_stream_wgrad share. */
#ifndef UF_KERNELS_CUDA_CONV_STREAM_ROWS_CUH
#define UF_KERNELS_CUDA_CONV_STREAM_ROWS_CUH

#include <cstdint>

#include "kernels/cuda/arch/wgmma.cuh"

/* The columns of a row that a tile's pixels meet, from the corner on, which is what the first tap
 * of the first pixel would meet; and those of them that are inside the image. */
struct stream_inside {
    int32_t begin, end;
};

static __device__ __forceinline__ stream_inside stream_inside_of(int32_t corner, int32_t pixels,
                                                                 int32_t stride, int32_t taps,
                                                                 int32_t dilation, int32_t extent) {
    const int32_t reach = (pixels - 1) * stride + (taps - 1) * dilation + 1;
    stream_inside inside;
    inside.begin = max(-corner, 0);
    inside.end = min(reach, extent - corner);
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

/* What of a row in shared memory has come: addresses from `low` on, `span` bytes. Around it lies
 * what came along in whole 16 bytes, or was there before; it counts as zeros, and is not
 * overwritten because several warps would. */
struct stream_came {
    uint32_t low, span;

    __device__ __forceinline__ bool holds(uint32_t address) const {
        return address - low < span;
    }
};

static __device__ __forceinline__ stream_came stream_came_of(const stream_inside &inside,
                                                             uint32_t corner, int32_t bytes) {
    const stream_came came = {corner + (uint32_t)(inside.begin * bytes),
                              (uint32_t)(max(inside.end - inside.begin, 0) * bytes)};
    return came;
}

#endif
