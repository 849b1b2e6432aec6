/* launch_f32.cu - conv_fprop and conv_dgrad where groups have one channel, or a few: all that
 * simt_direct/launch.cu then has to do is move memory.
 *
 * A thread makes four or eight rows of one to eight neighbours of one channel: both column phases,
 * so that a warp writes runs. What these read, it has in registers, by vectors where rows are
 * aligned; all its loads are independent of each other and under way at once. Neighbouring threads
 * find what they share in the first-level cache. Short rows, and elements that would leave one by
 * one, leave through shared memory: a block's as one range. Where a sum is not finite, the thread
 * makes its elements again one by one. */
#include "kernels/cuda/conv/depthwise/launch.cuh"

extern "C" uf_status uf_cuda_conv_depthwise(uf_context *context, const uf_depthwise_plan *plan) {
    return depthwise_launch<float>(context, *plan);
}
