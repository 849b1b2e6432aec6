/* filter.cuh - the kernels of space_to_depth/launch.cu that move w, and the fix-up of fprop's
 * results. One thread an element. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_FILTER_CUH
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_FILTER_CUH

#include "kernels/cuda/conv/transform/space_to_depth/exact.cuh"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "kernels/cuda/conv/transform/space_to_depth/words.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

enum { SPACE_TO_DEPTH_ELEMENTS = 4 /* loads of a thread in flight */ };

/* index / by.divisor; index becomes the remainder. */
static __device__ __forceinline__ int32_t space_to_depth_take(int32_t *index,
                                                              const uf_direct_divisor &by) {
    const int32_t rest = direct_divide(by, *index);
    *index -= rest * (int32_t)by.divisor;
    return rest;
}

/* The epilogue's scale and shift, repeated for each phase of a channel. */
struct space_to_depth_spread {
    int32_t count, phases; /* elements; of a channel */
    const void *from[2];   /* scale, shift; NULL: none */
    void *to[2];
    int64_t stride[2];
};

template <typename T>
static __global__ void __launch_bounds__(UF_SPACE_TO_DEPTH_THREADS)
    conv_space_to_depth_filter_in(const __grid_constant__ uf_space_to_depth_filter p,
                                  const __grid_constant__ space_to_depth_spread spread, const T *w,
                                  T *moved) {
    const int32_t threads = (int32_t)gridDim.x * UF_SPACE_TO_DEPTH_THREADS;
    const int32_t first = (int32_t)blockIdx.x * UF_SPACE_TO_DEPTH_THREADS + (int32_t)threadIdx.x;
    uf_launch_dependents();
    uf_wait_for_launcher();
#pragma unroll 1
    for (int32_t i = first; i < spread.count; i += threads) {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            if (spread.to[which] != nullptr) {
                ((T *)spread.to[which])[i] =
                    ((const T *)spread.from[which])[i / spread.phases * spread.stride[which]];
            }
        }
    }
#pragma unroll 1
    for (int32_t begin = first; begin < p.moved; begin += SPACE_TO_DEPTH_ELEMENTS * threads) {
        T value[SPACE_TO_DEPTH_ELEMENTS];
#pragma unroll
        for (int i = 0; i < SPACE_TO_DEPTH_ELEMENTS; ++i) {
            int32_t column = begin + i * threads; /* of the moved filter, innermost axis first */
            const bool inside = column < p.moved;
            int32_t row = space_to_depth_take(&column, p.by_taps[1]);
            int32_t across = space_to_depth_take(&row, p.by_taps[0]);
            int32_t down = space_to_depth_take(&across, p.by_phases[1]);
            int32_t c = space_to_depth_take(&down, p.by_phases[0]);
            const int32_t k = space_to_depth_take(&c, p.by_channels);
            const int32_t r = row * p.phases[0] + down, s = column * p.phases[1] + across;
            value[i] = (T)0.0f;
            if (inside && r < p.kernel[0] && s < p.kernel[1]) {
                value[i] = w[k * p.stride[0] + c * p.stride[1] + r * p.stride[2] + s * p.stride[3]];
            }
        }
#pragma unroll
        for (int i = 0; i < SPACE_TO_DEPTH_ELEMENTS; ++i) {
            if (begin + i * threads < p.moved) {
                moved[begin + i * threads] = value[i];
            }
        }
    }
}

/* wgrad. Zeros outside the image times a number that is not finite make a sum NaN, wrongly: so NaN
 * is fixed up. `conv` is that of fprop. */
template <typename T>
static __global__ void __launch_bounds__(UF_SPACE_TO_DEPTH_THREADS)
    conv_space_to_depth_filter_out(const __grid_constant__ uf_space_to_depth_filter p,
                                   const __grid_constant__ uf_direct_conv conv, const T *moved,
                                   T *w) {
    const int32_t threads = (int32_t)gridDim.x * UF_SPACE_TO_DEPTH_THREADS;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    uf_launch_dependents();
    uf_wait_for_launcher();
#pragma unroll 1
    for (int32_t i = (int32_t)blockIdx.x * UF_SPACE_TO_DEPTH_THREADS + (int32_t)threadIdx.x;
         i - lane < p.count; i += threads) { /* whole warps */
        const bool inside = i < p.count;
        int32_t s = inside ? i : 0;
        int32_t r = space_to_depth_take(&s, p.by_kernel[1]);
        int32_t c = space_to_depth_take(&r, p.by_kernel[0]);
        int32_t across = s, down = r;
        const int32_t column = space_to_depth_take(&across, p.by_phases[1]);
        const int32_t row = space_to_depth_take(&down, p.by_phases[0]);
        const int32_t channel = (c * p.phases[0] + down) * p.phases[1] + across;
        float value = (float)moved[(channel * p.taps[0] + row) * p.taps[1] + column];
        const int32_t k = space_to_depth_take(&c, p.by_channels);
        uint32_t range_flag = __ballot_sync(0xffffffffu, inside && value != value);
#pragma unroll 1
        for (; range_flag != 0; range_flag &= range_flag - 1) {
            const int from = __ffs((int)range_flag) - 1;
            const float exact = space_to_depth_exact_wgrad<T>(
                conv, __shfl_sync(0xffffffffu, k, from), __shfl_sync(0xffffffffu, c, from),
                __shfl_sync(0xffffffffu, r, from), __shfl_sync(0xffffffffu, s, from));
            value = lane == from ? exact : value;
        }
        if (inside) {
            direct_write_element(w + k * p.stride[0] + c * p.stride[1] + r * p.stride[2] +
                                     s * p.stride[3],
                                 value, conv.accumulate);
        }
    }
}

/* fprop, whose results already lie in y. VECTORS: y is in C order, and a thread reads 16 bytes. */
template <typename T, bool VECTORS>
static __global__ void __launch_bounds__(UF_SPACE_TO_DEPTH_THREADS, 4)
    conv_space_to_depth_fixup(const __grid_constant__ uf_direct_conv conv, int32_t count) {
    typedef typename space_to_depth_word<T>::type Word;
    constexpr int COUNT = VECTORS ? 16 / (int)sizeof(T) : 1;
    const int32_t step = (int32_t)gridDim.x * UF_SPACE_TO_DEPTH_THREADS * COUNT;
    uf_launch_dependents();
    uf_wait_for_launcher();
#pragma unroll 1
    for (int32_t first =
             ((int32_t)blockIdx.x * UF_SPACE_TO_DEPTH_THREADS + (int32_t)threadIdx.x) * COUNT;
         first < count; first += step) {
        if constexpr (VECTORS) {
            space_to_depth_run<Word, COUNT> run;
            bool nan = false;
            run.load((const Word *)conv.written + first);
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const float value = space_to_depth_value(run.get(i));
                nan = nan || value != value;
            }
            if (!nan) {
                continue;
            }
        }
#pragma unroll 1
        for (int32_t i = first; i < min(first + COUNT, count); ++i) {
            const uf_position<int32_t> at =
                uf_locate<int32_t>(i, conv.groups * conv.written_per_group, conv.axis[0].written,
                                   conv.axis[1].written);
            T *const to = (T *)conv.written + at.n * conv.written_stride[0] +
                          at.c * conv.written_stride[1] + at.h * conv.written_stride[2] +
                          at.w * conv.written_stride[3];
            if ((float)*to != (float)*to) {
                *to = (T)space_to_depth_exact<T>(conv, at.n, at.c, at.h, at.w);
            }
        }
    }
}

#endif
