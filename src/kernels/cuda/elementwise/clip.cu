/* clip.cu - clipping of gradients over flat spans: partial sums of squares in f64 by a fixed number
 * of blocks, which every block of the second kernel adds in the same order. So the norm never
 * leaves the device, and gradients below the limit are not touched. Bound by memory. */
#include "kernels/cuda/device/vector.cuh"

#define UF_INLINE static __device__ __forceinline__
#define FN(name) name##_f32
#define REAL float
#include "kernels/clip_math.inc"
#undef FN
#undef REAL
#define FN(name) name##_f64
#define REAL double
#include "kernels/clip_math.inc"
#undef FN
#undef REAL
#undef UF_INLINE

enum { CLIP_BLOCKS = 2048 /* at most: each reads all partials */ };

static __device__ __forceinline__ float clip_factor(double squares, double norm, float) {
    return clip_factor_f32(squares, norm);
}
static __device__ __forceinline__ double clip_factor(double squares, double norm, double) {
    return clip_factor_f64(squares, norm);
}
static __device__ __forceinline__ float clip_element(float g, float factor, float value) {
    return clip_element_f32(g, factor, value);
}
static __device__ __forceinline__ double clip_element(double g, double factor, double value) {
    return clip_element_f64(g, factor, value);
}

/* The last count % WIDTH elements take the threads of the first block. */
template <typename REAL, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK)
    gradient_squares(const REAL *gradient, int64_t count, double *partials, bool accumulate) {
    __shared__ double shared[32];
    uf_overlap_launches();
    double sum = 0;
    UF_EACH(int64_t, v, count / WIDTH) {
        const uf_pack<REAL, WIDTH> g = uf_load<REAL, WIDTH>(gradient + v * WIDTH);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            sum += (double)g.element[j] * (double)g.element[j];
        }
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        sum += (double)gradient[i] * (double)gradient[i];
    }
    sum = uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = accumulate ? partials[blockIdx.x] + sum : sum;
    }
}

template <typename REAL, int WIDTH>
static __global__ void __launch_bounds__(UF_BLOCK)
    gradient_clip(REAL *gradient, int64_t count, const double *partials, double norm,
                  double limit) {
    __shared__ double shared[32];
    uf_overlap_launches();
    double squares = 0;
    for (int i = threadIdx.x; norm > 0 && i < UF_CLIP_PARTIALS; i += UF_BLOCK) {
        squares += partials[i];
    }
    squares = uf_block_sum(squares, shared);
    const REAL factor = clip_factor(squares, norm, REAL());
    const REAL value = (REAL)limit;
    if (factor == 1 && value == 0) {
        return;
    }
    UF_EACH(int64_t, v, count / WIDTH) {
        uf_pack<REAL, WIDTH> g = uf_load<REAL, WIDTH>(gradient + v * WIDTH);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            g.element[j] = clip_element(g.element[j], factor, value);
        }
        uf_store(gradient + v * WIDTH, g);
    }
    const int64_t i = count / WIDTH * WIDTH + threadIdx.x;
    if (blockIdx.x == 0 && i < count) {
        gradient[i] = clip_element(gradient[i], factor, value);
    }
}

template <typename REAL, int WIDTH>
static uf_status launch(uf_context *context, const char *kernel, const uf_clip_kernel_args *args,
                        bool clip) {
    REAL *const gradient = (REAL *)args->gradient;
    if (!clip) {
        return uf_cuda_launch(context, kernel, {dim3(UF_CLIP_PARTIALS), UF_BLOCK},
                              gradient_squares<REAL, WIDTH>, gradient, args->count, args->partials,
                              args->mode == UF_ACCUMULATE);
    }
    const unsigned needed = uf_blocks((args->count + WIDTH - 1) / WIDTH);
    const unsigned blocks = needed < CLIP_BLOCKS ? needed : (unsigned)CLIP_BLOCKS;
    return uf_cuda_launch(context, kernel, {dim3(blocks), UF_BLOCK}, gradient_clip<REAL, WIDTH>,
                          gradient, args->count, args->partials, args->norm, args->value);
}

template <typename REAL>
static uf_status launch_aligned(uf_context *context, const char *kernel,
                                const uf_clip_kernel_args *args, bool clip) {
    enum { WIDTH = uf_vector<REAL>::COUNT };
    return uf_is_aligned<REAL, WIDTH>(args->gradient)
               ? launch<REAL, WIDTH>(context, kernel, args, clip)
               : launch<REAL, 1>(context, kernel, args, clip);
}

static uf_status run(uf_context *context, const char *kernel, const uf_clip_kernel_args *args,
                     bool clip) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real(kernel, args->dtype));
    return args->dtype == UF_F64 ? launch_aligned<double>(context, kernel, args, clip)
                                 : launch_aligned<float>(context, kernel, args, clip);
}

extern "C" uf_status uf_cuda_gradient_squares(uf_context *context,
                                              const uf_clip_kernel_args *args) {
    return run(context, "gradient_squares", args, false);
}

extern "C" uf_status uf_cuda_gradient_clip(uf_context *context, const uf_clip_kernel_args *args) {
    return run(context, "gradient_clip", args, true);
}
