/* wgrad_reduce.cuh - elements of w for the kernels of simt_direct/wgrad_launch.cu, and the sum of
 * their splits. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_REDUCE_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_REDUCE_CUH

#include "kernels/cuda/conv/simt_direct/wgrad_plan.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

static __device__ __forceinline__ float direct_load(const float *from) {
    return *from;
}

static __device__ __forceinline__ float direct_load(const uint16_t *bf16) {
    return __uint_as_float((unsigned)*bf16 << 16);
}

static __device__ __forceinline__ void direct_store(float *to, float value) {
    *to = value;
}

/* To bf16, to nearest even; NaN stays NaN. */
static __device__ __forceinline__ void direct_store(uint16_t *to, float value) {
    const unsigned bits = __float_as_uint(value);
    *to = (uint16_t)(value == value ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16
                                    : (bits >> 16) | 0x40u);
}

/* The products of pixels first, first + step, ... of one element, as the definition has them: a
 * zero that fills a box spoils the sum where the other factor is not finite. */
template <typename T>
static __device__ __noinline__ float
direct_exact(const direct_wgrad_plan &p, const direct_element &at, int64_t first, int32_t step) {
    const int32_t r = at.tap / p.taps_w;
    const int32_t h_first = r * p.dilation[0] - p.padding[0];
    const int32_t w_first = (at.tap - r * p.taps_w) * p.dilation[1] - p.padding[1];
    const T *const x = (const T *)p.x + ((int64_t)at.group * p.c_per_group + at.c) * p.x_stride[1];
    const T *const y = (const T *)p.y + ((int64_t)at.group * p.k_per_group + at.k) * p.y_stride[1];
    const int64_t pixels = (int64_t)p.batch * p.small[0] * p.small[1];
    uf_long_sum<float> sum;
    sum.clear();
    for (int64_t i = first; i < pixels; i += step) {
        const uf_position<int64_t> pixel = uf_locate<int64_t>(i, 1, p.small[0], p.small[1]);
        const int64_t h = pixel.h * p.stride[0] + h_first;
        const int64_t w = pixel.w * p.stride[1] + w_first;
        if (h >= 0 && h < p.large[0] && w >= 0 && w < p.large[1]) {
            sum.add(
                direct_load(x + pixel.n * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3]) *
                direct_load(y + pixel.n * p.y_stride[0] + pixel.h * p.y_stride[2] +
                            pixel.w * p.y_stride[3]));
        }
    }
    return sum.total();
}

static __device__ __forceinline__ bool direct_finite(float value) {
    return value - value == 0.0f;
}

/* The address of an element. */
template <typename T>
static __device__ __forceinline__ T *direct_address(const direct_wgrad_plan &p,
                                                    const direct_element &at) {
    const int32_t r = at.tap / p.taps_w;
    return (T *)p.w + ((int64_t)at.group * p.k_per_group + at.k) * p.w_stride[0] +
           at.c * p.w_stride[1] + r * p.w_stride[2] + (at.tap - r * p.taps_w) * p.w_stride[3];
}

/* Overwrites, or accumulates. */
template <typename T>
static __device__ __forceinline__ void direct_write_element(const direct_wgrad_plan &p, T *to,
                                                            float value) {
    direct_store(to, p.accumulate ? direct_load(to) + value : value);
}

template <typename T>
static __device__ __forceinline__ void direct_write(const direct_wgrad_plan &p,
                                                    const direct_element &at, float value) {
    direct_write_element(p, direct_address<T>(p, at), value);
}

/* A thread adds the splits of four columns of some rows; where these are few, `adders` threads each
 * add a run of the splits, and one adds the runs, always in the same order. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    conv_direct_wgrad_add(const __grid_constant__ direct_wgrad_plan p) {
    __shared__ float shared[4][UF_BLOCK];
    __shared__ float scratch[32];
    __shared__ direct_wgrad_tile tile;
    const int32_t threads = UF_BLOCK / p.adders;
    const int32_t quads = p.columns / 4;
    const int32_t rows = p.lanes_g << p.log_tile_k;
    const int32_t units = rows / p.adder_rows * quads;
    const int32_t per_tile = (units + threads - 1) / threads;
    const int32_t tile_id = (int32_t)blockIdx.x / per_tile;
    if (threadIdx.x == 0) {
        tile = direct_wgrad_tile_of(&p, tile_id);
    }
    __syncthreads();
    const int32_t adder = (int32_t)threadIdx.x / threads;
    const int32_t mine = (int32_t)threadIdx.x - adder * threads;
    const int32_t first_unit = ((int32_t)blockIdx.x - tile_id * per_tile) * threads;
    const int32_t unit = first_unit + mine;
    const int32_t first_row = unit / quads * p.adder_rows;
    const int32_t column = (unit - unit / quads * quads) * 4;
    const int32_t begin = adder * p.splits / p.adders;
    const int32_t end = (adder + 1) * p.splits / p.adders;
    const int64_t step = (int64_t)p.tiles * p.size;
    bool there[4];
    int64_t offset[4]; /* of the column in w */
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        direct_element at;
        there[i] = adder == 0 && unit < units && direct_column_at(&p, &tile, column + i, &at);
        const int32_t r = at.tap / p.taps_w;
        offset[i] =
            at.c * p.w_stride[1] + r * p.w_stride[2] + (at.tap - r * p.taps_w) * p.w_stride[3];
    }
    uf_overlap_launches();
    for (int32_t row = first_row; row < first_row + p.adder_rows; ++row) {
        uf_long_sum<float> sum[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[i].clear();
        }
        if (unit < units) {
            const float *from =
                p.partial + begin * step + (int64_t)tile_id * p.size + row * p.columns + column;
#pragma unroll 4
            for (int32_t split = begin; split < end; ++split) {
                const float4 four = *(const float4 *)from;
                sum[0].add(four.x);
                sum[1].add(four.y);
                sum[2].add(four.z);
                sum[3].add(four.w);
                from += step;
            }
        }
        float value[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            value[i] = sum[i].total();
        }
        if (p.adders > 1) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                shared[i][threadIdx.x] = value[i];
            }
            __syncthreads();
            for (int32_t i = (int32_t)threadIdx.x; i < threads * 4; i += UF_BLOCK) {
                const int32_t which = i / threads;
                float *const runs = &shared[which][i - which * threads];
                sum[0].clear();
#pragma unroll 8
                for (int32_t a = 0; a < p.adders; ++a) {
                    sum[0].add(runs[a * threads]);
                }
                runs[0] = sum[0].total(); /* nobody else reads this one */
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                value[i] = shared[i][mine];
            }
        }
        direct_element at;
        const bool row_there = direct_row_of(&p, &tile, row, &at);
        const int64_t row_offset = ((int64_t)at.group * p.k_per_group + at.k) * p.w_stride[0];
        bool spoiled = false;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (row_there && there[i]) {
                if (direct_finite(value[i])) {
                    T *const to = (T *)p.w + row_offset + offset[i];
                    direct_write_element(p, to, value[i]);
                } else {
                    spoiled = true;
                }
            }
        }
        if (__syncthreads_or(spoiled)) {
            if (adder == 0) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    shared[i][mine] = value[i];
                }
            }
            __syncthreads();
            for (int32_t i = 0; i < threads * 4; ++i) {
                const int32_t other = first_unit + i / 4;
                if (other < units && !direct_finite(shared[i & 3][i >> 2]) &&
                    direct_row_of(&p, &tile, other / quads * p.adder_rows + row - first_row, &at) &&
                    direct_column_at(&p, &tile, other % quads * 4 + (i & 3), &at)) {
                    const float exact = uf_block_sum(
                        direct_exact<T>(p, at, (int64_t)threadIdx.x, UF_BLOCK), scratch);
                    if (threadIdx.x == 0) {
                        direct_write<T>(p, at, exact);
                    }
                }
            }
            __syncthreads();
        }
    }
}

/* Runs it; in wgrad_launch.cu, so that one object has it. T: float, or uint16_t for bf16. */
template <typename T>
uf_status direct_launch_add(uf_context *context, const direct_wgrad_plan &plan);

#endif
