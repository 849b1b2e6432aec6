/* launch.cu - convolution where launches, packing and idle multiprocessors would be most of the
 * time (sm_80 and later).
 *
 * Computes: conv_fprop and conv_dgrad, without packing: in one launch, or two with splits.
 * Shapes and limits: at most 16 phases, and a box's window in shared memory; uf_small_plan_of.
 * GEMM mapping: M = positions, of all phases at once so that all taps of a weight's row are used; N
 *   = written channels; K = (read channel, tap). A table holds where the pixels and the weights of
 *   a step of K lie in a stage.
 * Data path: a chunk of read channels is a window with zeros around the image, and the chunk's
 *   weights as they lie in memory. Both come by 4-byte cp.async through tables of offsets that are
 *   made once, three chunks under way.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone. FFMAs compute results again that are not
 *   finite.
 * Split and order of sums: warps share phases, positions, channels and, where there are too few of
 *   these, the steps of a chunk, which are added in order. Blocks share the read channels;
 *   conv_mma_add adds the splits in order.
 * Bound by: latency.
 * Chosen when: there are few pixels or few channels.
 */
#define UF_MMA_SHARED(name) extern __shared__ __align__(16) uint32_t name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_small/mainloop.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/device/launch.cuh"

static int64_t blocks_of(const uf_small_plan &plan, int64_t groups) {
    return (int64_t)plan.boxes[0] * plan.boxes[1] * plan.boxes[2] * plan.channel_tiles *
           plan.splits * groups;
}

template <typename Tile>
static uf_status launch(uf_context *context, const small_conv &p, const mma_plan &sums) {
    const uf_launch mma = {dim3((unsigned)blocks_of(p.plan, p.conv.groups)), 32 * p.plan.warps,
                           (size_t)p.plan.shared};
    UF_TRY(uf_cuda_launch(context, "conv_small", mma, conv_small<Tile>, p));
    if (p.plan.splits == 1) {
        return UF_OK;
    }
    const uf_launch add = {
        dim3((unsigned)uf_div_up(sums.add_pixels, UF_BLOCK), (unsigned)sums.add_rows), UF_BLOCK};
    return uf_cuda_launch(context, "conv_mma_add", add, conv_mma_add<typename Tile::stored>,
                          p.conv);
}

template <uf_mma_math MATH, typename stored>
static uf_status run(uf_context *context, const small_conv &p, const mma_plan &sums) {
    return p.plan.tall   ? launch<small_tile<MATH, true, true, stored>>(context, p, sums)
           : p.plan.wide ? launch<small_tile<MATH, true, false, stored>>(context, p, sums)
                         : launch<small_tile<MATH, false, false, stored>>(context, p, sums);
}

static void small_divide(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         small_conv *p) {
    const uf_small_plan &plan = p->plan;
    const mma_axis *axis = p->conv.axis;
    small_divisors &by = p->by;
    memset((void *)&by, 0, sizeof by);
    memset(p->phase_of, 0, sizeof p->phase_of);
    by.channel_tiles = uf_small_divisor_of(plan.channel_tiles);
    by.splits = uf_small_divisor_of(plan.splits);
    for (int i = 0; i < 3; ++i) {
        by.boxes[i] = uf_small_divisor_of(plan.boxes[i]);
        by.box[i] = uf_small_divisor_of(plan.box[i]);
    }
    for (int i = 0; i < 2; ++i) {
        by.window[i] = uf_small_divisor_of(plan.window[i]);
        by.step[i] = uf_small_divisor_of(axis[i].out_step);
        by.out[i] = uf_small_divisor_of(plan.box[1 + i] * axis[i].out_step);
        for (int32_t coord = 0; direction == UF_CONV_DGRAD && coord < axis[i].out_step; ++coord) {
            p->phase_of[i][coord] = (int8_t)((coord + args->padding[i]) % axis[i].out_step);
        }
    }
    by.kernel = uf_small_divisor_of(axis[1].kernel);
    by.taps = uf_small_divisor_of(axis[0].kernel * axis[1].kernel);
    by.plane = uf_small_divisor_of(plan.plane);
    by.steps = uf_small_divisor_of(plan.most_steps);
    by.pixel_warps = uf_small_divisor_of(plan.pixel_warps);
    by.channel_warps = uf_small_divisor_of(plan.channel_warps);
    by.phases_all = uf_small_divisor_of(plan.phases);
    by.phases = uf_small_divisor_of(axis[1].phases);
    p->window = small_sharing_of(plan.plane, 32 * plan.warps);
    p->weights = small_sharing_of(plan.pieces, 32 * plan.warps);
    p->out = small_sharing_of(plan.box[0] * by.out[0].by * by.out[1].by, 32 * plan.warps);
    p->plain = p->conv.scale == nullptr && p->conv.shift == nullptr && !p->conv.accumulate &&
               p->conv.activation == UF_ACTIVATION_IDENTITY;
}

extern "C" uf_status uf_conv_launch_mma_small(uf_context *context, const uf_conv_problem *problem,
                                              const uf_conv_plan *plan) {
    const uf_conv_kernel_args *const args = problem->args;
    const uf_small_conv_plan &own = *UF_CONV_CONST_PLAN_OF(uf_small_conv_plan, plan);
    mma_plan sums = own.sums;
    uf_mma_bind(&sums, problem->direction, args);
    small_conv p;
    p.conv = sums.conv;
    p.conv.partial = (float *)args->workspace;
    p.dgrad = problem->direction == UF_CONV_DGRAD;
    p.plan = own.small;
    small_divide(problem->direction, args, &p);
    switch (uf_mma_math_of(args)) {
    case UF_MMA_TF32X3:
        return run<UF_MMA_TF32X3, float>(context, p, sums);
    case UF_MMA_TF32:
        return run<UF_MMA_TF32, float>(context, p, sums);
    default:
        return args->x.dtype == UF_BF16 ? run<UF_MMA_BF16, uf_bf16>(context, p, sums)
                                        : run<UF_MMA_BF16, float>(context, p, sums);
    }
}
