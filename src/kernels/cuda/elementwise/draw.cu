/* draw.cu - dropout and noise. A thread has the four elements of one block of random words: one
 * call of cuRAND's Philox4x32-10, ten rounds, for 16 bytes in and 16 out of f32. Dropout is bound
 * by memory; noise of normals by its arithmetic in f64, some sixty operations a number. The bits
 * are the CPU's: products and sums are rounded one by one. */
#include <curand_kernel.h>

#include "kernels/cuda/device/vector.cuh"
#include "kernels/random_math.h"

enum { WORDS = 4 };

static __device__ __forceinline__ uint4 words_of(uint64_t key, uint64_t step, uint64_t block) {
    return curand_Philox4x32_10(make_uint4((unsigned)block, (unsigned)(block >> 32), (unsigned)step,
                                           (unsigned)(step >> 32)),
                                make_uint2((unsigned)key, (unsigned)(key >> 32)));
}

static __device__ __forceinline__ uint32_t word_of(const uint4 &words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* Where element i in C order lies: images of `image` elements, `pitch` from one to the next. */
template <typename I>
static __device__ __forceinline__ int64_t place_of(I i, I image, int64_t pitch) {
    const I n = i / image;
    return (int64_t)n * pitch + (int64_t)(i - n * image);
}

struct dropout_rule {
    uint64_t key, threshold;
    double scale;
    int64_t plane, input_pitch, output_pitch, image;
    bool packed, accumulate; /* packed: no gaps, aligned for packs of WORDS */
};

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    dropout_elements(dropout_rule rule, const int64_t *step, const T *input, T *output, I count) {
    typedef typename uf_arithmetic<T>::type R;
    uf_overlap_launches();
    const uint64_t now = (uint64_t)*step;
    const R scale = (R)rule.scale;
    UF_EACH(I, group, (count + WORDS - 1) / WORDS) {
        const I first = group * WORDS;
        const int here = count - first < WORDS ? (int)(count - first) : WORDS;
        const bool packed = rule.packed && here == WORDS;
        uf_pack<T, WORDS> from, to;
        if (packed) {
            from = uf_load<T, WORDS>(input + first);
            to = rule.accumulate ? uf_load<T, WORDS>(output + first) : from;
        } else {
            to = from = uf_pack<T, WORDS>();
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                if (k < here) {
                    from.set(k, (R)input[place_of(first + k, (I)rule.image, rule.input_pitch)]);
                }
                if (k < here && rule.accumulate) {
                    to.set(k, (R)output[place_of(first + k, (I)rule.image, rule.output_pitch)]);
                }
            }
        }
        uint64_t known = ~(uint64_t)0;
        uint4 words = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            const uint64_t number =
                rule.plane == 1 ? (uint64_t)(first + k) : (uint64_t)((first + k) / (I)rule.plane);
            if (number / WORDS != known) {
                known = number / WORDS;
                words = words_of(rule.key, now, known);
            }
            const bool kept = word_of(words, (int)(number % WORDS)) >= rule.threshold;
            const R value = kept ? uf_product(false, (R)0, (R)from.get(k), scale) : (R)0;
            to.set(k, rule.accumulate ? to.get(k) + value : value);
        }
        if (packed) {
            uf_store<T, WORDS>(output + first, to);
        } else {
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                if (k < here) {
                    output[place_of(first + k, (I)rule.image, rule.output_pitch)] = (T)to.get(k);
                }
            }
        }
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    noise_elements(uint64_t key, const int64_t *step, bool normal, double a, double b, T *output,
                   int64_t image, int64_t pitch, I count) {
    typedef typename uf_arithmetic<T>::type R;
    uf_overlap_launches();
    const uint64_t now = (uint64_t)*step;
    UF_EACH(I, group, (count + WORDS - 1) / WORDS) {
        const uint4 words = words_of(key, now, (uint64_t)group);
        const I first = group * WORDS;
        for (int k = 0; k < WORDS && first + k < count; ++k) {
            const double number = uf_random_number(normal, a, b, uf_uniform_of(word_of(words, k)));
            output[place_of(first + k, (I)image, pitch)] = (T)(R)number;
        }
    }
}

static __global__ void advance(int64_t *step) {
    uf_overlap_launches();
    *step += 1;
}

static uf_launch launch_of(int64_t count) {
    return {dim3(uf_blocks((count + WORDS - 1) / WORDS)), UF_BLOCK};
}

static int64_t image_of(const uf_view *view) {
    return view->extent[1] * view->extent[2] * view->extent[3];
}

template <typename T>
static bool is_packed(const uf_view *view) {
    return uf_view_is_contiguous(view) && uf_is_aligned<T, WORDS>(view->data);
}

template <typename T, typename I>
static uf_status run_dropout(uf_context *context, const uf_dropout_kernel_args *args,
                             int64_t count) {
    dropout_rule rule;
    rule.key = args->draw.key;
    rule.threshold = uf_dropout_threshold(args->p);
    rule.scale = uf_dropout_scale(args->p);
    rule.plane = args->plane;
    rule.input_pitch = args->input.stride[0];
    rule.output_pitch = args->output.stride[0];
    rule.image = image_of(&args->output);
    rule.packed = is_packed<T>(&args->input) && is_packed<T>(&args->output);
    rule.accumulate = args->mode == UF_ACCUMULATE;
    return uf_cuda_launch(context, "dropout", launch_of(count), dropout_elements<T, I>, rule,
                          args->draw.step, (const T *)args->input.data, (T *)args->output.data,
                          (I)count);
}

extern "C" uf_status uf_cuda_dropout(uf_context *context, const uf_dropout_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("dropout", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(args->output.dtype, count, return run_dropout<T, I>(context, args, count));
}

extern "C" uf_status uf_cuda_noise(uf_context *context, const uf_noise_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("noise", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(args->output.dtype, count,
                       return uf_cuda_launch(context, "noise", launch_of(count),
                                             noise_elements<T, I>, args->draw.key, args->draw.step,
                                             args->kind == UF_RANDOM_NORMAL, args->a, args->b,
                                             (T *)args->output.data, image_of(&args->output),
                                             args->output.stride[0], (I)count));
}

extern "C" uf_status uf_cuda_random_advance(uf_context *context,
                                            const uf_random_advance_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_launch(context, "random_advance", {dim3(1), 1}, advance, args->step);
}
