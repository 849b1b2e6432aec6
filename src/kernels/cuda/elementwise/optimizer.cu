/* optimizer.cu - Adam, RMSprop and SGD over flat spans, and the control block that they read.
 * Learning rate and step live in device memory, so a captured graph of a step stays right. Bound by
 * memory. */
#include "kernels/cuda/device/vector.cuh"

#define UF_INLINE static __device__ __forceinline__
#define FN(name) name##_f32
#define REAL float
#define MATH(name) name##f
#include "kernels/optimizer_math.inc"
#undef FN
#undef REAL
#undef MATH
#define FN(name) name##_f64
#define REAL double
#define MATH(name) name
#include "kernels/optimizer_math.inc"
#undef FN
#undef REAL
#undef MATH
#undef UF_INLINE

static __global__ void optimizer_advance(uf_optimizer_control *control, double beta1,
                                         double beta2) {
    uf_overlap_launches();
    control->step += 1;
    control->power1 *= beta1;
    control->power2 *= beta2;
}

/* WIDTH consecutive elements a thread: each tensor is loaded once and stored once, 28 bytes an f32
 * parameter with Adam. The last count % WIDTH elements take the threads of the first block. All
 * threads ask alike whether there is a copy in bf16: a template for it makes nvcc 13.0 keep states
 * in local memory in one of its two kernels. */
#define OPTIMIZER_STEP(REAL, suffix)                                                               \
    static __device__ __forceinline__ void update_##suffix(                                        \
        uf_optimizer_kind kind, const optimizer_numbers_##suffix *numbers, REAL &p, REAL g,        \
        REAL *s1, REAL *s2) {                                                                      \
        p = optimizer_element_##suffix(kind, numbers, p, g, s1, s2);                               \
    }                                                                                              \
    template <int WIDTH>                                                                           \
    static __global__ void __launch_bounds__(UF_BLOCK)                                             \
        optimizer_step_##suffix(uf_optimizer_rule rule, const uf_optimizer_control *control,       \
                                const uint8_t *group_of, int64_t first, REAL *parameter,           \
                                const REAL *gradient, REAL *state1, REAL *state2, int64_t count,   \
                                uf_bf16 *copy) {                                                   \
        enum { SHARE = UF_ALIGNMENT / sizeof(REAL) }; /* elements of one byte of group_of */       \
        __shared__ optimizer_numbers_##suffix numbers[UF_OPTIMIZER_GROUPS];                        \
        uf_overlap_launches();                                                                     \
        if (threadIdx.x < (group_of != nullptr ? UF_OPTIMIZER_GROUPS : 1)) {                       \
            numbers[threadIdx.x] = optimizer_prepare_##suffix(&rule, control, (int)threadIdx.x);   \
        }                                                                                          \
        __syncthreads();                                                                           \
        UF_EACH(int64_t, v, count / WIDTH) {                                                       \
            const int64_t at = v * WIDTH; /* a pack lies in one share: both are aligned */         \
            const int group = group_of != nullptr ? group_of[(first + at) / SHARE] : 0;            \
            uf_pack<REAL, WIDTH> p = uf_load<REAL, WIDTH>(parameter + at), s1, s2;                 \
            const uf_pack<REAL, WIDTH> g = uf_load<REAL, WIDTH>(gradient + at);                    \
            if (state1 != nullptr) {                                                               \
                s1 = uf_load<REAL, WIDTH>(state1 + at);                                            \
            }                                                                                      \
            if (state2 != nullptr) {                                                               \
                s2 = uf_load<REAL, WIDTH>(state2 + at);                                            \
            }                                                                                      \
            _Pragma("unroll") for (int j = 0; j < WIDTH; ++j) {                                    \
                update_##suffix(rule.kind, &numbers[group], p.element[j], g.element[j],            \
                                state1 != nullptr ? &s1.element[j] : nullptr, &s2.element[j]);     \
            }                                                                                      \
            uf_store(parameter + at, p);                                                           \
            if (sizeof(REAL) == sizeof(float) && copy != nullptr) {                                \
                uf_pack<uf_bf16, WIDTH> rounded;                                                   \
                _Pragma("unroll") for (int j = 0; j < WIDTH; ++j) {                                \
                    rounded.set(j, (float)p.element[j]);                                           \
                }                                                                                  \
                uf_store(copy + at, rounded);                                                      \
            }                                                                                      \
            if (state1 != nullptr) {                                                               \
                uf_store(state1 + at, s1);                                                         \
            }                                                                                      \
            if (state2 != nullptr) {                                                               \
                uf_store(state2 + at, s2);                                                         \
            }                                                                                      \
        }                                                                                          \
        const int64_t i = count / WIDTH * WIDTH + threadIdx.x;                                     \
        if (blockIdx.x == 0 && i < count) {                                                        \
            const int group = group_of != nullptr ? group_of[(first + i) / SHARE] : 0;             \
            update_##suffix(rule.kind, &numbers[group], parameter[i], gradient[i],                 \
                            state1 != nullptr ? &state1[i] : nullptr,                              \
                            state2 != nullptr ? &state2[i] : nullptr);                             \
            if (sizeof(REAL) == sizeof(float) && copy != nullptr) {                                \
                copy[i] = uf_bf16((float)parameter[i]);                                            \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static uf_status launch_##suffix(uf_context *context, const uf_optimizer_kernel_args *args) {  \
        enum { WIDTH = uf_vector<REAL>::COUNT };                                                   \
        const void *const tensors[] = {args->parameter, args->gradient, args->state1,              \
                                       args->state2};                                              \
        bool aligned = uf_is_aligned<uf_bf16, WIDTH>(args->copy);                                  \
        for (const void *tensor : tensors) {                                                       \
            aligned = aligned && uf_is_aligned<REAL, WIDTH>(tensor);                               \
        }                                                                                          \
        const unsigned blocks = uf_blocks((args->count + WIDTH - 1) / WIDTH);                      \
        return uf_cuda_launch(                                                                     \
            context, "optimizer_step", {dim3(blocks), UF_BLOCK},                                   \
            aligned ? optimizer_step_##suffix<WIDTH> : optimizer_step_##suffix<1>, args->rule,     \
            args->control, args->group_of, args->first, (REAL *)args->parameter,                   \
            (const REAL *)args->gradient, (REAL *)args->state1, (REAL *)args->state2, args->count, \
            (uf_bf16 *)args->copy);                                                                \
    }

OPTIMIZER_STEP(float, f32)
OPTIMIZER_STEP(double, f64)

extern "C" uf_status uf_cuda_optimizer_advance(uf_context *context,
                                               const uf_optimizer_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_launch(context, "optimizer_advance", {dim3(1), 1}, optimizer_advance,
                          args->control, args->rule.beta1, args->rule.beta2);
}

extern "C" uf_status uf_cuda_optimizer_step(uf_context *context,
                                            const uf_optimizer_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("optimizer_step", args->dtype));
    if (args->count == 0) {
        return UF_OK;
    }
    return args->dtype == UF_F64 ? launch_f64(context, args) : launch_f32(context, args);
}
