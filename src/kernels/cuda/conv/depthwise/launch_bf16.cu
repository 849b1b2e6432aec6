/* launch_bf16.cu - the tiles of depthwise/launch.cu for bf16 tensors. */
#include "kernels/cuda/conv/depthwise/launch.cuh"

extern "C" uf_status uf_depthwise_launch_bf16(uf_context *context, const uf_depthwise_plan *plan) {
    return depthwise_launch<uf_bf16>(context, *plan);
}
