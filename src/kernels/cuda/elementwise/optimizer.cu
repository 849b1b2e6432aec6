/* optimizer.cu - Adam and SGD over flat spans, and the control block that they read. Learning rate
 * and step live in device memory, so a captured graph of a step stays right. Bound by memory. */
#include "kernels/cuda/device/device.cuh"

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
    control->step += 1;
    control->power1 *= beta1;
    control->power2 *= beta2;
}

#define OPTIMIZER_STEP(REAL, suffix)                                                               \
    static __global__ void __launch_bounds__(UF_BLOCK) optimizer_step_##suffix(                    \
        uf_optimizer_rule rule, const uf_optimizer_control *control, REAL *parameter,              \
        const REAL *gradient, REAL *state1, REAL *state2, int64_t count) {                         \
        __shared__ optimizer_numbers_##suffix numbers;                                             \
        if (threadIdx.x == 0) {                                                                    \
            numbers = optimizer_prepare_##suffix(&rule, control);                                  \
        }                                                                                          \
        __syncthreads();                                                                           \
        UF_EACH(int64_t, i, count) {                                                               \
            if (rule.kind == UF_OPTIMIZER_ADAM) {                                                  \
                parameter[i] = adam_element_##suffix(&numbers, parameter[i], gradient[i],          \
                                                     &state1[i], &state2[i]);                      \
            } else {                                                                               \
                parameter[i] = sgd_element_##suffix(&numbers, parameter[i], gradient[i],           \
                                                    state1 != nullptr ? &state1[i] : nullptr);     \
            }                                                                                      \
        }                                                                                          \
    }

OPTIMIZER_STEP(float, f32)
OPTIMIZER_STEP(double, f64)

extern "C" uf_status uf_cuda_optimizer_advance(uf_context *context,
                                               const uf_optimizer_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    optimizer_advance<<<1, 1, 0, uf_cuda_stream(context)>>>(args->control, args->rule.beta1,
                                                            args->rule.beta2);
    return uf_cuda_launched(context, "optimizer_advance");
}

extern "C" uf_status uf_cuda_optimizer_step(uf_context *context,
                                            const uf_optimizer_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("optimizer_step", args->dtype));
    const cudaStream_t stream = uf_cuda_stream(context);
    if (args->count == 0) {
        return UF_OK;
    }
    /* Four elements a thread: they share the block's preparation. */
    const unsigned blocks = uf_blocks((args->count + 3) / 4);
    if (args->dtype == UF_F64) {
        optimizer_step_f64<<<blocks, UF_BLOCK, 0, stream>>>(
            args->rule, args->control, (double *)args->parameter, (const double *)args->gradient,
            (double *)args->state1, (double *)args->state2, args->count);
    } else {
        optimizer_step_f32<<<blocks, UF_BLOCK, 0, stream>>>(
            args->rule, args->control, (float *)args->parameter, (const float *)args->gradient,
            (float *)args->state1, (float *)args->state2, args->count);
    }
    return uf_cuda_launched(context, "optimizer_step");
}
