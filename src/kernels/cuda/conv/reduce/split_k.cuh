/* split_k.cuh - the end of every weight gradient on tensor cores: the sums of the splits,
 * repaired where they are not finite, written. */
#ifndef UF_KERNELS_CUDA_CONV_REDUCE_SPLIT_K_CUH
#define UF_KERNELS_CUDA_CONV_REDUCE_SPLIT_K_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_dependent_launch.cuh"

/* The statement with MATH, a constant, for each math there is. */
#define UF_DISPATCH_MATH(math, ...)                                                                \
    switch (math) {                                                                                \
    case UF_MMA_TF32X3: {                                                                          \
        constexpr uf_mma_math MATH = UF_MMA_TF32X3;                                                \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case UF_MMA_TF32: {                                                                            \
        constexpr uf_mma_math MATH = UF_MMA_TF32;                                                  \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case UF_MMA_BF16: {                                                                            \
        constexpr uf_mma_math MATH = UF_MMA_BF16;                                                  \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case UF_MMA_F16X3:                                                                             \
        break;                                                                                     \
    }

/* Is it written? */
static __device__ __forceinline__ bool wgrad_fixup_has(const wgrad_plan &p, const wgrad_element &at,
                                                       int32_t k) {
    return p.fixup.spans == nullptr ||
           p.fixup.spans[(int64_t)(at.group * p.k_per_group + k) * p.fixup.per_row +
                         (at.column.channel >> p.fixup.span_log)] != 0;
}

/* This thread's share of an element as chains of FFMAs: a block makes one this way when it is not
 * finite, because an infinity or an input near FLT_MAX spoils rounded MMAs. Pixels whose tap
 * reads outside do not count. T: the type of their elements. */
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

/* WIDTH neighbours of a row of a tile. */
template <int WIDTH>
struct wgrad_neighbours {
    float value[WIDTH];

    __device__ __forceinline__ void load(const float *from) {
        if constexpr (WIDTH == 4) {
            const float4 four = *(const float4 *)from;
            value[0] = four.x;
            value[1] = four.y;
            value[2] = four.z;
            value[3] = four.w;
        } else {
            value[0] = *from;
        }
    }
};

/* Makes again the elements of a block that are not finite: the block sums each by FFMAs. `first` is
 * the block's first element of the tile, `mine` this thread's first of `together`. All threads call
 * it. */
template <int WIDTH, int REPEAT>
static __device__ __forceinline__ void
wgrad_fix_up(const wgrad_plan &p, int32_t tile, int32_t first, int32_t together, int32_t mine,
             int32_t adder, const int32_t (&writes)[REPEAT], float (&value)[REPEAT][WIDTH],
             float *shared, bool *spoiled) {
#pragma unroll
    for (int j = 0; j < REPEAT; ++j) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            spoiled[(int32_t)threadIdx.x * WIDTH + i] = i < writes[j] && !mma_finite(value[j][i]);
        }
        __syncthreads();
        for (int32_t i = 0; i < together; ++i) {
            if (spoiled[i]) {
                const float exact = uf_block_sum(
                    wgrad_exact<float>(p, wgrad_element_of(&p, tile, first + j * together + i)),
                    shared);
#pragma unroll
                for (int other = 0; other < WIDTH; ++other) {
                    value[j][other] = mine + other == i && adder == 0 ? exact : value[j][other];
                }
            }
        }
        __syncthreads();
    }
}

/* A block adds the splits of UF_BLOCK / adders times WIDTH elements, REPEAT times: each thread a
 * run of splits of neighbours (four channels at one tap: to find out what an element is costs more
 * than its sum), then the first threads those runs, always in the same order. With REPEAT an
 * element's column is that of the next one too, some rows (k) on: it is found out once. */
template <int WIDTH, int REPEAT>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_mma_add(const __grid_constant__ wgrad_plan p, int32_t per_tile) {
    __shared__ __align__(16) float shared[UF_BLOCK * WIDTH];
    uf_overlap_launches();
    if (p.fixup.any != nullptr && __ldcg(p.fixup.any) == 0) {
        return;
    }
    const int32_t size = p.rows * p.columns;
    const int32_t slots = UF_BLOCK / p.adders;
    const int32_t together = slots * WIDTH;
    const int32_t tile = (int32_t)(blockIdx.x / (unsigned)per_tile);
    const int32_t first = ((int32_t)blockIdx.x - tile * per_tile) * together * REPEAT;
    const int32_t mine = (int32_t)threadIdx.x % slots * WIDTH;
    const int32_t adder = (int32_t)threadIdx.x / slots;
    const bool inside = first + mine < size;
    const wgrad_sums sums = wgrad_sums_of(&p, tile);
    const int32_t begin = (int32_t)((int64_t)adder * sums.count / p.adders);
    const int32_t end = inside ? (int32_t)((int64_t)(adder + 1) * sums.count / p.adders) : begin;
    const int64_t step = (int64_t)sums.step * size;
    const float *from = p.partial + begin * step + (int64_t)sums.first * size + first + mine;
    uf_long_sum<float> sum[REPEAT][WIDTH];
    wgrad_neighbours<WIDTH> at_hand;
#pragma unroll
    for (int j = 0; j < REPEAT; ++j) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            sum[j][i].clear();
        }
    }
#pragma unroll(REPEAT > 1 ? 2 : 4)
    for (int32_t split = begin; split < end; ++split) {
#pragma unroll
        for (int j = 0; j < REPEAT; ++j) {
            at_hand.load(from + j * together);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                sum[j][i].add(at_hand.value[i]);
            }
        }
        from += step;
    }
    float value[REPEAT][WIDTH];
#pragma unroll
    for (int j = 0; j < REPEAT; ++j) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            value[j][i] = sum[j][i].total();
        }
    }
    if (REPEAT == 1 && p.adders > 1) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            shared[(int32_t)threadIdx.x * WIDTH + i] = value[0][i];
            sum[0][i].clear();
        }
        __syncthreads();
        for (int32_t other = 0; other < p.adders; ++other) {
            at_hand.load(shared + other * slots * WIDTH + mine);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                sum[0][i].add(at_hand.value[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            value[0][i] = sum[0][i].total();
        }
        __syncthreads();
    }
    const wgrad_element at = wgrad_element_of(&p, tile, inside ? first + mine : 0);
    const int32_t below = REPEAT > 1 ? together / p.columns : 0; /* rows */
    int32_t writes[REPEAT];
    bool finite = true;
#pragma unroll
    for (int j = 0; j < REPEAT; ++j) {
        /* An element outside the fix-up may have no sums. */
        writes[j] = adder == 0 && inside && at.column.there && at.k + j * below < p.k_per_group &&
                            wgrad_fixup_has(p, at, at.k + j * below)
                        ? min(p.c_per_group - at.column.channel, WIDTH)
                        : 0;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            finite = finite && (i >= writes[j] || mma_finite(value[j][i]));
        }
    }
    const int32_t r = at.column.tap / p.taps_w;
    float *const to = (float *)p.w + ((int64_t)at.group * p.k_per_group + at.k) * p.w_stride[0] +
                      at.column.channel * p.w_stride[1] + r * p.w_stride[2] +
                      (at.column.tap - r * p.taps_w) * p.w_stride[3];
    /* All at once: a load would wait for the store before it, which may be to the same place. */
    float before[REPEAT][WIDTH] = {};
    if (p.accumulate) {
#pragma unroll
        for (int j = 0; j < REPEAT; ++j) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                if (i < writes[j]) {
                    before[j][i] = to[j * below * p.w_stride[0] + i * p.w_stride[1]];
                }
            }
        }
    }
    if (__syncthreads_or(!finite)) {
        __shared__ bool spoiled[UF_BLOCK * WIDTH];
        wgrad_fix_up<WIDTH, REPEAT>(p, tile, first, together, mine, adder, writes, value, shared,
                                    spoiled);
    }
#pragma unroll
    for (int j = 0; j < REPEAT; ++j) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            if (i < writes[j]) {
                to[j * below * p.w_stride[0] + i * p.w_stride[1]] =
                    p.accumulate ? before[j][i] + value[j][i] : value[j][i];
            }
        }
    }
}

/* Adds p.splits sums of every tile into w; in mma_implicit_gemm/wgrad_launch.cu, so that one object
 * has these kernels. */
uf_status wgrad_add(uf_context *context, const wgrad_plan &p);

#endif
