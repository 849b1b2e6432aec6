/* conv_shuffle_exact.cuh - single elements of what conv_shuffle.cu computes, from their own
 * products alone, as chains of FFMAs. */
#ifndef UF_KERNELS_CUDA_CONV_SHUFFLE_EXACT_CUH
#define UF_KERNELS_CUDA_CONV_SHUFFLE_EXACT_CUH

#include "kernels/cuda/conv_direct_store.cuh"

/* Elements as bits. */
template <typename T>
struct shuffle_word {
    typedef uint32_t type;
};

template <>
struct shuffle_word<__nv_bfloat16> {
    typedef uint16_t type;
};

static __device__ __forceinline__ float shuffle_value(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ float shuffle_value(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

/* Of fprop or dgrad, with its epilogue. */
template <typename T>
static __device__ float shuffle_exact(const uf_direct_conv &conv, int32_t n, int32_t channel,
                                      int32_t h, int32_t w) {
    direct_place at;
    at.n = n;
    at.group = channel / conv.written_per_group;
    const float sum = direct_exact<T>(conv, at, channel - at.group * conv.written_per_group, h, w);
    return direct_finish(conv, direct_way_out_of<T>(conv, channel), sum);
}

/* Of a weight gradient; `conv` is that of fprop. */
template <typename T>
static __device__ float shuffle_exact_wgrad(const uf_direct_conv &conv, int32_t k, int32_t c,
                                            int32_t r, int32_t s) {
    const int32_t group = k / conv.written_per_group;
    const T *const x =
        (const T *)conv.read + ((int64_t)group * conv.read_per_group + c) * conv.read_stride[1];
    const T *const y = (const T *)conv.written + k * conv.written_stride[1];
    uf_long_sum<float> sum;
    sum.clear();
    float part = 0.0f;
    int pending = 0;
#pragma unroll 1
    for (int32_t n = 0; n < conv.batch; ++n) {
#pragma unroll 1
        for (int32_t row = 0; row < conv.axis[0].written; ++row) {
            const int32_t h = direct_meets(conv, 0, row, r);
#pragma unroll 1
            for (int32_t column = 0; h >= 0 && column < conv.axis[1].written; ++column) {
                const int32_t w = direct_meets(conv, 1, column, s);
                if (w < 0) {
                    continue;
                }
                part = fmaf((float)x[n * conv.read_stride[0] + h * conv.read_stride[2] +
                                     w * conv.read_stride[3]],
                            (float)y[n * conv.written_stride[0] + row * conv.written_stride[2] +
                                     column * conv.written_stride[3]],
                            part);
                if (++pending == 32) {
                    sum.add(part);
                    part = 0.0f;
                    pending = 0;
                }
            }
        }
    }
    sum.add(part);
    return sum.total();
}

#endif
