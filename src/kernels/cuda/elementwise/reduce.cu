/* reduce.cu - channel_sum: f64 sums over pieces, which a second launch adds in a fixed order.
 * Pieces and the elements of a thread are functions of the shape alone; where tensors are aligned,
 * a thread moves 16 bytes at a time. Bound by memory. */
#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/norm/channel.cuh"
#include "kernels/cuda/elementwise/sum.cuh"

/* partial is [channel][piece]; each block has one piece of one channel or of several. */
template <typename T, int WIDTH, bool WHOLE>
static __global__ void __launch_bounds__(UF_CHANNEL_BLOCK)
    channel_sum_pieces(uf_channel_plan plan, uf_planes<T> input, double *partial,
                       int64_t channels) {
    uf_overlap_launches();
    __shared__ double2 shared[UF_CHANNEL_BLOCK];
    enum { KEPT = WHOLE ? 4 : 1 };
    const uf_channel_thread me = uf_channel_thread_of(plan, channels, blockIdx.x);
    const uf_channel_walk walk = uf_channel_begin(plan, me, me.piece);
    T *plane = uf_plane_of(input, me, walk);
    int64_t p = walk.p;
    double2 sum = {0.0, 0.0};
#pragma unroll 1
    for (int32_t left = walk.left; left > 0; left -= KEPT) {
        uf_pack<T, WIDTH> x[KEPT];
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            if (k < left) {
                x[k] = uf_load_vector<WIDTH, WHOLE>(input, plane, p);
            }
            plane = uf_next_plane(input, plane, uf_channel_step(&plan, &p));
        }
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
#pragma unroll
            for (int j = 0; k < left && j < WIDTH; ++j) {
                sum.x += (double)x[k].get(j);
            }
        }
    }
    sum = uf_channel_sum2(plan, me, sum, shared);
    if (me.works && me.member == 0) {
        partial[me.channel * plan.pieces + me.piece] = sum.x;
    }
}

/* Partial sums of a channel; 0 where it has no element. */
static int64_t channel_pieces(const uf_view &input) {
    return uf_view_count(&input) == 0
               ? 0
               : uf_channel_plan_of(input.extent, uf_dtype_size(input.dtype)).pieces;
}

extern "C" size_t uf_cuda_channel_sum_workspace(uf_context *context,
                                                const uf_channel_sum_kernel_args *args) {
    (void)context;
    return (size_t)(channel_pieces(args->input) * args->input.extent[1]) * sizeof(double);
}

template <typename T>
static uf_status sum_channel_pieces(uf_context *context, const uf_channel_sum_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    const uf_channel_plan plan = uf_channel_plan_of(args->input.extent, sizeof(T));
    const uf_planes<T> input = uf_planes_of<T>(args->input, plan);
    const auto kernel = plan.width == 1 ? channel_sum_pieces<T, 1, false>
                        : input.whole   ? channel_sum_pieces<T, WIDTH, true>
                                        : channel_sum_pieces<T, WIDTH, false>;
    return uf_cuda_launch(context, "channel_sum_pieces",
                          {dim3((unsigned)(plan.groups * plan.pieces)), UF_CHANNEL_BLOCK}, kernel,
                          plan, input, (double *)args->workspace, args->input.extent[1]);
}

extern "C" uf_status uf_cuda_channel_sum(uf_context *context,
                                         const uf_channel_sum_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("channel_sum", args->input.dtype));
    UF_TRY(uf_sum_needs("channel_sum", args->workspace_size,
                        uf_cuda_channel_sum_workspace(context, args)));
    const int64_t pieces = channel_pieces(args->input);
    const int64_t channels = args->input.extent[1];
    if (channels == 0) {
        return UF_OK;
    }
    if (pieces > 0) {
        UF_DISPATCH_STORED_TYPE(args->input.dtype, UF_TRY(sum_channel_pieces<T>(context, args)));
    }
    const bool accumulate = args->mode == UF_ACCUMULATE;
    UF_DISPATCH_STORED_TYPE(
        args->output.dtype,
        return uf_cuda_launch(context, "channel_sum", {dim3((unsigned)channels), UF_BLOCK},
                              uf_sum_pieces<T>, (const double *)args->workspace, pieces, 1.0,
                              uf_cuda_view_of<T>(args->output), accumulate));
}
