/* device.cuh - views, index arithmetic, launches, and sums in a fixed order for all kernels. */
#ifndef UF_KERNELS_CUDA_DEVICE_CUH
#define UF_KERNELS_CUDA_DEVICE_CUH

#include <climits>
#include <cstdint>

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/device/launch.cuh"

/* A view with its element type. Strides count elements. */
template <typename T>
struct uf_cuda_view {
    T *data;
    int64_t extent[4];
    int64_t stride[4];
};

template <typename T>
static uf_cuda_view<T> uf_cuda_view_of(const uf_view &view) {
    uf_cuda_view<T> made;
    made.data = static_cast<T *>(view.data);
    for (int axis = 0; axis < 4; ++axis) {
        made.extent[axis] = view.extent[axis];
        made.stride[axis] = view.stride[axis];
    }
    return made;
}

template <typename T>
static __device__ __forceinline__ int64_t uf_offset(const uf_cuda_view<T> &view, int64_t n,
                                                    int64_t c, int64_t h, int64_t w) {
    return n * view.stride[0] + c * view.stride[1] + h * view.stride[2] + w * view.stride[3];
}

/* A position (N, C, H, W). I is int32_t where the count allows: 64-bit division is slow on a GPU.
 */
template <typename I>
struct uf_position {
    I n, c, h, w;
};

template <typename I>
static __device__ __forceinline__ uf_position<I> uf_locate(I i, I channels, I height, I width) {
    uf_position<I> at;
    I rest = i / width;
    at.w = i - rest * width;
    I next = rest / height;
    at.h = rest - next * height;
    at.n = next / channels;
    at.c = next - at.n * channels;
    return at;
}

/* Leaves room for the last step of a grid-stride loop, so that int32_t never wraps. */
static inline bool uf_fits_int32(int64_t count) {
    return count < INT_MAX - (1 << 28);
}

enum { UF_BLOCK = 256 };

/* Blocks for `count` elements, one per thread; beyond 2^20 blocks the kernel loops. */
static inline unsigned uf_blocks(int64_t count) {
    const int64_t blocks = (count + UF_BLOCK - 1) / UF_BLOCK;
    return (unsigned)(blocks < 1 ? 1 : blocks > (1 << 20) ? 1 << 20 : blocks);
}

/* for (I i = ...) over [0, count): the grid-stride loop of every elementwise kernel. */
#define UF_EACH(I, i, count)                                                                       \
    for (I i = (I)blockIdx.x * UF_BLOCK + (I)threadIdx.x; i < (count); i += (I)gridDim.x * UF_BLOCK)

/* The sum over a block, in every thread, in a fixed order: lanes by halving distance, then warps.
 * `shared` has 32 elements and is free again after the call. */
template <typename T>
static __device__ T uf_block_sum(T value, T *shared) {
    const int lane = (int)threadIdx.x & 31;
    const int warp = (int)threadIdx.x >> 5;
    const int warps = ((int)blockDim.x + 31) >> 5;
    for (int distance = 16; distance > 0; distance >>= 1) {
        value += __shfl_down_sync(0xffffffffu, value, (unsigned)distance);
    }
    if (lane == 0) {
        shared[warp] = value;
    }
    __syncthreads();
    if (warp == 0) {
        T total = lane < warps ? shared[lane] : (T)0;
        for (int distance = 16; distance > 0; distance >>= 1) {
            total += __shfl_down_sync(0xffffffffu, total, (unsigned)distance);
        }
        if (lane == 0) {
            shared[0] = total;
        }
    }
    __syncthreads();
    const T total = shared[0];
    __syncthreads();
    return total;
}

/* A sum that carries its rounding error (Knuth's two-sum). It adds partial sums of a few dozen
 * products, so that a reduction of any length has the error of a short one. After an infinity the
 * error is NaN, and the total is the plain sum. */
template <typename T>
struct uf_long_sum {
    T high, low;

    __device__ __forceinline__ void clear() {
        high = (T)0;
        low = (T)0;
    }
    __device__ __forceinline__ void add(T value) {
        const T sum = high + value;
        const T part = sum - high;
        low += (high - (sum - part)) + (value - part);
        high = sum;
    }
    __device__ __forceinline__ T total() const {
        const T sum = high + low;
        return sum == sum ? sum : high;
    }
};

/* Run `statement` with T and I bound to the element type of `dtype` and an index type for `count`.
 */
#define UF_DISPATCH_INDEX(count, ...)                                                              \
    do {                                                                                           \
        if (uf_fits_int32(count)) {                                                                \
            typedef int32_t I;                                                                     \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef int64_t I;                                                                     \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

#define UF_DISPATCH(type, count, ...)                                                              \
    do {                                                                                           \
        if ((type) == UF_F64) {                                                                    \
            typedef double T;                                                                      \
            UF_DISPATCH_INDEX(count, __VA_ARGS__);                                                 \
        } else {                                                                                   \
            typedef float T;                                                                       \
            UF_DISPATCH_INDEX(count, __VA_ARGS__);                                                 \
        }                                                                                          \
    } while (0)

/* For kernels that take f32 and f64 alone; element.cuh is for those that take bf16 too. */
static inline uf_status uf_cuda_needs_real(const char *kernel, uf_dtype dtype) {
    if (dtype == UF_F32 || dtype == UF_F64) {
        return UF_OK;
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "%s on a GPU takes f32 and f64, not %s", kernel,
            uf_dtype_name(dtype));
}

#endif
