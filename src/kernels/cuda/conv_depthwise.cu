/* conv_depthwise.cu - conv_fprop and conv_dgrad where groups have one channel, or a few: all that
 * conv_direct.cu then has to do is move memory.
 *
 * A thread makes four rows of one, two or four neighbours of one channel: both column phases, so
 * that a warp writes runs. What these read, it has in registers, by vectors where rows are aligned;
 * all its loads are independent of each other and under way at once. Neighbouring threads find what
 * they share in the first-level cache. Nothing goes through shared memory but activations. Where a
 * sum is not finite, the thread makes its elements again one by one. */
#include "kernels/cuda/conv_depthwise_launch.cuh"

extern "C" uf_status uf_cuda_conv_depthwise(uf_context *context, const uf_depthwise_plan *plan) {
    return depthwise_launch<float>(context, *plan);
}
