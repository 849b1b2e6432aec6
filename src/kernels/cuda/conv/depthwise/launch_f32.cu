/* launch_f32.cu - the tiles of depthwise/launch.cu for f32 tensors. */
#include "kernels/cuda/conv/depthwise/launch.cuh"

extern "C" uf_status uf_depthwise_launch_f32(uf_context *context, const uf_depthwise_plan *plan) {
    return depthwise_launch<float>(context, *plan);
}
