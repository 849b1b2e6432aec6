/* conv_wgrad_add.cuh - the end of every weight gradient on tensor cores: the sums of the splits,
 * repaired where they are not finite, written. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_ADD_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_ADD_CUH

#include "kernels/cuda/conv_wgrad_mma_plan.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma_split.cuh"

/* The statement with MATH, a constant, for each math there is. */
#define UF_DISPATCH_MATH(math, ...)                                                                \
    switch (math) {                                                                                \
    case UF_MATH_FP32: {                                                                           \
        constexpr uf_math MATH = UF_MATH_FP32;                                                     \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case UF_MATH_TF32: {                                                                           \
        constexpr uf_math MATH = UF_MATH_TF32;                                                     \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case UF_MATH_BF16: {                                                                           \
        constexpr uf_math MATH = UF_MATH_BF16;                                                     \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    }

/* An element of w by its place in the tiles. */
struct wgrad_element {
    int32_t group, k; /* k: within the group */
    wgrad_column column;
    bool there;
};

static __device__ __forceinline__ wgrad_element wgrad_element_of(const wgrad_plan &p, int32_t tile,
                                                                 int32_t in_tile) {
    const int32_t rest = tile / p.tiles_n;
    const int32_t row = in_tile / p.columns;
    wgrad_element at;
    at.group = rest / p.tiles_m;
    at.k = (rest - at.group * p.tiles_m) * p.rows + row;
    at.column =
        wgrad_column_of(p, (tile - rest * p.tiles_n) * p.columns + in_tile - row * p.columns);
    at.there = at.k < p.k_per_group && at.column.there;
    return at;
}

/* This thread's share of an element as chains of FFMAs: a block makes one this way when it is not
 * finite, because an infinity or an input near FLT_MAX spoils rounded products. Pixels whose tap
 * reads outside do not count. T: what the tensors hold. */
template <typename T>
static __device__ float wgrad_exact(const wgrad_plan &p, const wgrad_element &at) {
    const int32_t r = at.column.tap / p.taps_w;
    const int32_t h_first = r * p.dilation[0] - p.padding[0];
    const int32_t w_first = (at.column.tap - r * p.taps_w) * p.dilation[1] - p.padding[1];
    const T *const x =
        (const T *)p.x + ((int64_t)at.group * p.c_per_group + at.column.channel) * p.x_stride[1];
    const T *const y = (const T *)p.y + ((int64_t)at.group * p.k_per_group + at.k) * p.y_stride[1];
    const int32_t pixels = p.batch * p.small[0] * p.small[1];
    uf_long_sum<float> sum;
    sum.clear();
    float part = 0.0f;
    int pending = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < pixels; i += UF_BLOCK) {
        const uf_position<int32_t> pixel = uf_locate<int32_t>(i, 1, p.small[0], p.small[1]);
        const int32_t h = pixel.h * p.stride[0] + h_first;
        const int32_t w = pixel.w * p.stride[1] + w_first;
        if ((uint32_t)h < (uint32_t)p.large[0] && (uint32_t)w < (uint32_t)p.large[1]) {
            part = fmaf(
                (float)x[pixel.n * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3]],
                (float)
                    y[pixel.n * p.y_stride[0] + pixel.h * p.y_stride[2] + pixel.w * p.y_stride[3]],
                part);
        }
        if (++pending == 32) {
            sum.add(part);
            part = 0.0f;
            pending = 0;
        }
    }
    sum.add(part);
    return sum.total();
}

/* A block adds the splits of UF_BLOCK / adders elements: each thread a run of splits, then the
 * first threads those runs, always in the same order. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_mma_add(const __grid_constant__ wgrad_plan p) {
    __shared__ float shared[UF_BLOCK];
    const int32_t size = p.rows * p.columns;
    const int32_t elements = UF_BLOCK / p.adders;
    const int32_t per_tile = size / elements; /* exact: size is a multiple of 256 */
    const int32_t tile = (int32_t)(blockIdx.x / (unsigned)per_tile);
    const int32_t first = ((int32_t)blockIdx.x - tile * per_tile) * elements;
    const int32_t mine = (int32_t)threadIdx.x % elements;
    const int32_t adder = (int32_t)threadIdx.x / elements;
    const int32_t begin = (int32_t)((int64_t)adder * p.splits / p.adders);
    const int32_t end = (int32_t)((int64_t)(adder + 1) * p.splits / p.adders);
    const int64_t step = (int64_t)p.tiles * size;
    const float *from = p.partial + begin * step + (int64_t)tile * size + first + mine;
    uf_long_sum<float> sum;
    sum.clear();
#pragma unroll 4
    for (int32_t split = begin; split < end; ++split) {
        sum.add(*from);
        from += step;
    }
    float value = sum.total();
    if (p.adders > 1) {
        shared[threadIdx.x] = value;
        __syncthreads();
        sum.clear();
        for (int32_t i = 0; i < p.adders; ++i) {
            sum.add(shared[i * elements + mine]);
        }
        value = sum.total();
        __syncthreads();
    }
    const wgrad_element at = wgrad_element_of(p, tile, first + mine);
    const bool writes = adder == 0 && at.there;
    if (__syncthreads_or(writes && !mma_finite(value))) {
        __shared__ bool spoiled[UF_BLOCK];
        spoiled[threadIdx.x] = writes && !mma_finite(value);
        __syncthreads();
        for (int32_t i = 0; i < elements; ++i) {
            if (spoiled[i]) {
                const float exact = uf_block_sum(
                    wgrad_exact<float>(p, wgrad_element_of(p, tile, first + i)), shared);
                value = (int32_t)threadIdx.x == i ? exact : value;
            }
        }
    }
    if (writes) {
        const int32_t r = at.column.tap / p.taps_w;
        float *const to = p.w + ((int64_t)at.group * p.k_per_group + at.k) * p.w_stride[0] +
                          at.column.channel * p.w_stride[1] + r * p.w_stride[2] +
                          (at.column.tap - r * p.taps_w) * p.w_stride[3];
        *to = p.accumulate ? *to + value : value;
    }
}

#endif
