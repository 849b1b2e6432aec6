/* vector.cuh - elements loaded and stored 16 bytes at a time where their addresses allow it, one by
 * one elsewhere; and bf16 to f32 on the way. */
#ifndef UF_KERNELS_CUDA_VECTOR_CUH
#define UF_KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/device/element.cuh"

/* Elements of 16 bytes. */
template <typename T>
struct uf_vector {
    enum { COUNT = 16 / sizeof(T) };
};

/* COUNT elements in registers, as they are in memory: bf16 takes half of what f32 takes. set rounds
 * to nearest even. */
template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T)) uf_pack {
    T element[COUNT];

    __device__ __forceinline__ T get(int i) const {
        return element[i];
    }
    __device__ __forceinline__ void set(int i, T value) {
        element[i] = value;
    }
};

template <int COUNT>
struct alignas(COUNT * 2) uf_pack<__nv_bfloat16, COUNT> {
    uint32_t pair[COUNT / 2]; /* the lower half is the first element */

    __device__ __forceinline__ float get(int i) const {
        const uint32_t both = pair[i / 2];
        return __uint_as_float(i % 2 == 0 ? both << 16 : both & 0xffff0000u);
    }
    __device__ __forceinline__ void set(int i, float value) {
        const uint32_t bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
        pair[i / 2] =
            i % 2 == 0 ? (pair[i / 2] & 0xffff0000u) | bits : (pair[i / 2] & 0xffffu) | bits << 16;
    }
};

template <>
struct uf_pack<__nv_bfloat16, 1> {
    __nv_bfloat16 element;

    __device__ __forceinline__ float get(int) const {
        return __bfloat162float(element);
    }
    __device__ __forceinline__ void set(int, float value) {
        element = __float2bfloat16_rn(value);
    }
};

/* May uf_load and uf_store move COUNT elements of T at once from here? */
template <typename T, int COUNT>
static inline bool uf_is_aligned(const void *address) {
    return (uintptr_t)address % (COUNT * sizeof(T)) == 0;
}

/* `from` is aligned for the pack. Plain loads: a kernel may overwrite what it has read. */
template <typename T, int COUNT>
static __device__ __forceinline__ uf_pack<T, COUNT> uf_load(const T *from) {
    return *reinterpret_cast<const uf_pack<T, COUNT> *>(from);
}

template <typename T, int COUNT>
static __device__ __forceinline__ void uf_store(T *to, const uf_pack<T, COUNT> &pack) {
    *reinterpret_cast<uf_pack<T, COUNT> *>(to) = pack;
}

#endif
