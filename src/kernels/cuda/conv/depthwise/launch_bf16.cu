/* launch_bf16.cu - depthwise/launch_f32.cu for bf16 tensors: a file of its own, for the sake of
 * the compiler's time. */
#include "kernels/cuda/conv/depthwise/launch.cuh"

extern "C" uf_status uf_cuda_conv_depthwise_bf16(uf_context *context,
                                                 const uf_depthwise_plan *plan) {
    return depthwise_launch<__nv_bfloat16>(context, *plan);
}
