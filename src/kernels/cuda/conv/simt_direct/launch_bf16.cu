/* launch_bf16.cu - the tiles of simt_direct/launch.cu for bf16 tensors. */
#include "kernels/cuda/conv/simt_direct/launch.cuh"

extern "C" uf_status uf_direct_launch_bf16(uf_context *context, const uf_direct_plan *plan) {
    return direct_launch<uf_bf16>(context, *plan);
}
