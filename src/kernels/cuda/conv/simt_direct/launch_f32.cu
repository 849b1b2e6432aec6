/* launch_f32.cu - the tiles of simt_direct/launch.cu for f32 tensors. */
#include "kernels/cuda/conv/simt_direct/launch.cuh"

extern "C" uf_status uf_direct_launch_f32(uf_context *context, const uf_direct_plan *plan) {
    return direct_launch<float>(context, *plan);
}
