/* exact.cuh - the exact fix-up of space_to_depth/launch.cu: one element from its own products
 * alone, by a chain of FFMAs. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_EXACT_CUH
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_EXACT_CUH

#include "kernels/cuda/conv/simt_direct/epilogue.cuh"

/* An element of fprop or dgrad, epilogue included. */
template <typename T>
static __device__ float space_to_depth_exact(const uf_direct_conv &conv, int32_t n, int32_t channel,
                                             int32_t h, int32_t w) {
    direct_coord at;
    at.n = n;
    at.group = channel / conv.written_per_group;
    const float sum = direct_exact<T>(conv, at, channel - at.group * conv.written_per_group, h, w);
    const float2 write_mode = direct_epilogue_behind_wait<T>(conv, channel);
    return direct_finish(conv, {write_mode.x, write_mode.y}, sum);
}

/* An element of a weight gradient, by a whole warp, whose lanes read neighbours of y: a tensor that
 * is NaN everywhere has every element fixed up. `conv` is that of fprop. */
template <typename T>
static __device__ float space_to_depth_exact_wgrad(const uf_direct_conv &conv, int32_t k, int32_t c,
                                                   int32_t r, int32_t s) {
    const int32_t group = k / conv.written_per_group;
    const T *const x =
        (const T *)conv.read + ((int64_t)group * conv.read_per_group + c) * conv.read_stride[1];
    const T *const y = (const T *)conv.written + k * conv.written_stride[1];
    uf_long_sum<float> sum;
    sum.clear();
    float part = 0.0f;
    int pending = 0;
    for (int32_t n = 0; n < conv.batch; ++n) {
        for (int32_t row = 0; row < conv.axis[0].written; ++row) {
            const int32_t h = direct_meets(conv, 0, row, r);
            const T *const x_row = x + n * conv.read_stride[0] + h * conv.read_stride[2];
            const T *const y_row = y + n * conv.written_stride[0] + row * conv.written_stride[2];
#pragma unroll 1
            for (int32_t column = h < 0 ? conv.axis[1].written : (int32_t)threadIdx.x & 31;
                 column < conv.axis[1].written; column += 32) {
                const int32_t w = direct_meets(conv, 1, column, s);
                if (w < 0) {
                    continue;
                }
                part = fmaf((float)x_row[w * conv.read_stride[3]],
                            (float)y_row[column * conv.written_stride[3]], part);
                if (++pending == 32) {
                    sum.add(part);
                    part = 0.0f;
                    pending = 0;
                }
            }
        }
    }
    sum.add(part);
    float total = sum.total();
    for (int distance = 16; distance > 0; distance >>= 1) {
        total += __shfl_xor_sync(0xffffffffu, total, distance);
    }
    return total;
}

#endif
