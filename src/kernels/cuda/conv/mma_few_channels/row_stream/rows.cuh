/* rows.cuh - rows in shared memory with their alignment in memory, for conv_row_stream_fprop and
 * conv_row_stream_wgrad. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_CUH

#include <cstdint>

#include "kernels/cuda/arch/sm90_wgmma.cuh"

/* The columns of a row that a tile's pixels read and that are inside the image, begin to end - 1.
 * Column 0 is the corner: the first pixel's first tap. */
struct row_stream_inside {
    int32_t begin, end;
};

static __device__ __forceinline__ row_stream_inside
row_stream_inside_of(int32_t corner, int32_t pixels, int32_t stride, int32_t taps, int32_t dilation,
                     int32_t extent) {
    const int32_t reach = (pixels - 1) * stride + (taps - 1) * dilation + 1;
    row_stream_inside inside;
    inside.begin = max(-corner, 0);
    inside.end = min(reach, extent - corner);
    return inside;
}

static __device__ __forceinline__ uint32_t row_stream_word(uint32_t shared) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(value) : "r"(shared) : "memory");
    return value;
}

static __device__ __forceinline__ uint32_t row_stream_half(uint32_t shared) {
    unsigned short value;
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(shared) : "memory");
    return value;
}

/* The loaded part of a row in shared memory: addresses from `low`, `span` bytes. The bytes around
 * it are old data or neighbours in a 16-byte word. Readers take them for zeros; several warps would
 * have to overwrite them. */
struct row_stream_valid {
    uint32_t low, span;

    __device__ __forceinline__ bool holds(uint32_t address) const {
        return address - low < span;
    }
};

static __device__ __forceinline__ row_stream_valid
row_stream_valid_of(const row_stream_inside &inside, uint32_t corner, int32_t bytes) {
    const row_stream_valid valid = {corner + (uint32_t)(inside.begin * bytes),
                                    (uint32_t)(max(inside.end - inside.begin, 0) * bytes)};
    return valid;
}

#endif
