/* bf16.cuh - bf16 elements: the upper half of an f32. Written out here because cuda_bf16.h is
 * 14,000 lines, which each object of the library would compile. */
#ifndef UF_KERNELS_CUDA_BF16_CUH
#define UF_KERNELS_CUDA_BF16_CUH

#include <cstdint>

/* To nearest even; NaN stays NaN. */
static __device__ __forceinline__ uint16_t uf_bf16_bits(float value) {
#if __CUDA_ARCH__ >= 800
    uint16_t bits;
    asm("{  cvt.rn.bf16.f32 %0, %1;}\n" : "=h"(bits) : "f"(value));
    return bits;
#else
    const uint32_t word = __float_as_uint(value);
    return (word & 0x7fffffffu) > 0x7f800000u
               ? (uint16_t)0x7fff
               : (uint16_t)((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
#endif
}

/* Rounded once: by way of f32 to nearest it would be twice. */
static __device__ __forceinline__ uint16_t uf_bf16_bits(double value) {
#if __CUDA_ARCH__ >= 900
    uint16_t bits;
    asm("{  cvt.rn.bf16.f64 %0, %1;}\n" : "=h"(bits) : "d"(value));
    return bits;
#else
    /* To f32 towards zero, whose last bit says that there was a rest. */
    const float near = __double2float_rz(value);
    const bool rest = (double)near != value && value == value;
    return uf_bf16_bits(__uint_as_float(__float_as_uint(near) | (rest ? 1u : 0u)));
#endif
}

struct alignas(2) uf_bf16 {
    uint16_t bits;

    uf_bf16() = default;
    explicit __device__ __forceinline__ uf_bf16(float value) : bits(uf_bf16_bits(value)) {
    }
    explicit __device__ __forceinline__ uf_bf16(double value) : bits(uf_bf16_bits(value)) {
    }

    __device__ __forceinline__ operator float() const {
        float value = 0.0f;
#if __CUDA_ARCH__ >= 900
        asm("{ cvt.f32.bf16 %0, %1;}\n" : "=f"(value) : "h"(bits));
#elif defined(__CUDA_ARCH__)
        asm("{ mov.b32 %0, {0,%1};}\n" : "=f"(value) : "h"(bits));
#endif
        return value;
    }
};

/* As CUDA's own for other types: code for any type of element calls it. */
static __device__ __forceinline__ uf_bf16 __ldg(const uf_bf16 *from) {
    uf_bf16 element;
    asm("ld.global.nc.b16 %0, [%1];\n" : "=h"(element.bits) : "l"(from));
    return element;
}

/* Two of them; `low` in the lower half. */
static __device__ __forceinline__ uint32_t uf_pack_bf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint32_t)uf_bf16_bits(high) << 16 | uf_bf16_bits(low);
#endif
}

#endif
