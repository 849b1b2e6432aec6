/* launch.cu - simt_gemm: a convolution whose small side is one pixel, as a product of matrices.
 *
 * Computes: fprop, dgrad and wgrad of the first layer of a generator, the last of a
 *     discriminator.
 * Shapes and limits: y of one pixel, x as large as the filter, no padding, x and w dense in (c,
 *     r, s). f32 and bf16.
 * GEMM mapping: columns j = (c, r, s). dgrad x[n][j] = sum over k of y[n][k] w[k][j]; fprop
 *     y[n][k] = sum over j of x[n][j] w[k][j]; wgrad w[k][j] = sum over n of y[n][k] x[n][j].
 * Data path: tiles of 64 x 64; 32 of the sum at a time go from global memory through registers
 *     to shared memory, two buffers, one barrier.
 * Precision: FFMA in f32 whatever the math. Latency and launches are most of the time of such
 *     layers, and to pack them for tensor cores would be another launch.
 * Split and order of sums: splits follow from the shape alone (plan.c); a second kernel adds
 *     them in order.
 * Bound by: latency.
 * Chosen when: the cost of its multiply-adds is the least of all variants'.
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/simt_gemm/mainloop.cuh"

/* The plan with this call's tensors and epilogue. */
static gemm_call call_of(const uf_conv_problem *problem, const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    gemm_call call = *UF_CONV_CONST_PLAN_OF(gemm_call, plan);
    const bool fprop = problem->direction == UF_CONV_FPROP;
    const bool wgrad = problem->direction == UF_CONV_WGRAD;
    call.a.data = fprop ? args->x.data : args->y.data;
    call.b.data = wgrad ? args->x.data : args->w.data;
    call.c = uf_conv_written(problem)->data;
    call.partial = (float *)args->workspace;
    if (!wgrad) {
        const uf_epilogue &epilogue = args->epilogue;
        call.scale = epilogue.scale.data;
        call.scale_stride = epilogue.scale.stride[1];
        call.shift = epilogue.shift.data;
        call.shift_stride = epilogue.shift.stride[1];
        call.activation = epilogue.activation.kind;
        call.parameter = (float)epilogue.activation.parameter;
    }
    return call;
}

template <typename T, int ADDERS>
static uf_status add_splits(uf_context *context, const gemm_call &call) {
    const int64_t elements = 256 / ADDERS;
    const int64_t blocks = ((int64_t)call.groups * call.m * call.n + elements - 1) / elements;
    return uf_cuda_launch(context, "conv_gemm_add", {dim3((unsigned)blocks), 256},
                          conv_gemm_add<T, ADDERS>, call);
}

template <typename T, bool A_DEEP, bool B_DEEP>
static uf_status launch(uf_context *context, const gemm_call &call) {
    const int64_t blocks = (int64_t)call.tiles_m * call.tiles_n * call.splits * call.groups;
    UF_TRY(uf_cuda_launch(context, "conv_gemm", {dim3((unsigned)blocks), GEMM_THREADS},
                          conv_gemm<T, A_DEEP, B_DEEP>, call));
    if (call.splits > 1) {
        return call.splits > GEMM_ADDERS ? add_splits<T, GEMM_ADDERS>(context, call)
                                         : add_splits<T, 1>(context, call);
    }
    return UF_OK;
}

template <typename T>
static uf_status run(uf_context *context, uf_conv_direction direction, const gemm_call &call) {
    return direction == UF_CONV_DGRAD   ? launch<T, true, false>(context, call)
           : direction == UF_CONV_FPROP ? launch<T, true, true>(context, call)
                                        : launch<T, false, false>(context, call);
}

extern "C" uf_status uf_conv_launch_simt_gemm(uf_context *context, const uf_conv_problem *problem,
                                              const uf_conv_plan *plan) {
    const gemm_call call = call_of(problem, plan);
    return problem->args->x.dtype == UF_BF16 ? run<uf_bf16>(context, problem->direction, call)
                                             : run<float>(context, problem->direction, call);
}

extern "C" uf_status uf_conv_launch_simt_gemm_wgrad(uf_context *context,
                                                    const uf_conv_problem *problem,
                                                    const uf_conv_plan *plan) {
    return uf_conv_launch_simt_gemm(context, problem, plan);
}
