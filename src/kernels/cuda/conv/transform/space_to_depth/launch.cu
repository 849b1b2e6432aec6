/* launch.cu - space_to_depth: a strided convolution as one of stride 1.
 *
 * Computes: fprop, dgrad and wgrad by another variant, on a rearranged x and w. With its phases as
 * channels, a tensor read or written at stride s has s * s times the channels at stride 1, and an R
 * x S filter becomes one of ceil(R / s) x ceil(S / s). The way up is also named pixel shuffle, or
 * sub-pixel convolution (Shi et al., 2016).
 *
 * Shapes and limits: compute capability 9.0; f32 and bf16 tensors. Some stride is 2 to 64, and
 * strided axes are not dilated; offsets have 30 bits. bf16 tensors and fprop are not accumulated.
 *
 * GEMM mapping (M, N, K): that of the variant that computes the inner convolution.
 *
 * Data path: one kernel moves x to scratch (fprop, wgrad) or from there (dgrad), through shared
 * memory, in whole runs on either side. Another moves w, one element a thread. The inner variant
 * runs between them and reads y, or writes it, in place.
 *
 * Precision: that of the inner variant. Zeros that pad the filter, and cells outside the image, are
 * multiplied as numbers. So a result that is NaN is computed again from its own products, by FFMAs.
 *
 * Split and order of sums: those of the inner variant.
 *
 * Bound by: the inner variant; memory for the moves, which cost two passes over x and w each.
 *
 * Chosen when: filters are several strides wide, as FCN's 16 x 16 at stride 8 or 1-D generators' 25
 * at stride 4. The inner variant then has channels in place of many taps. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/transform/space_to_depth/move.cuh"
#include "kernels/cuda/conv/transform/space_to_depth/filter.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_space_to_depth_move) + sizeof(uf_direct_conv) <= 4000, "kernel parameters");
static_assert(sizeof(uf_space_to_depth_filter) + sizeof(uf_direct_conv) <= 4000,
              "kernel parameters");

static uf_launch blocks_of(int64_t blocks) {
    return {dim3((unsigned)blocks), UF_SPACE_TO_DEPTH_THREADS};
}

/* One thread for `count` elements; at most 8192 blocks, which loop. */
static uf_launch threads_for(int64_t elements, int64_t count) {
    const int64_t blocks =
        (elements + UF_SPACE_TO_DEPTH_THREADS * count - 1) / (UF_SPACE_TO_DEPTH_THREADS * count);
    return blocks_of(blocks < 8192 ? blocks : 8192);
}

static space_to_depth_spread spread_of(const uf_space_to_depth_plan &plan,
                                       const uf_conv_kernel_args *args,
                                       const uf_conv_kernel_args &inner) {
    const uf_view *const from[] = {&args->epilogue.scale, &args->epilogue.shift};
    const uf_view *const to[] = {&inner.epilogue.scale, &inner.epilogue.shift};
    space_to_depth_spread spread;
    memset((void *)&spread, 0, sizeof spread);
    spread.count = plan.spread;
    spread.phases = plan.tensor.phases[0] * plan.tensor.phases[1];
    for (int i = 0; i < 2 && plan.spread > 0; ++i) {
        spread.from[i] = from[i]->data;
        spread.to[i] = to[i]->data;
        spread.stride[i] = from[i]->stride[1];
    }
    return spread;
}

template <typename T>
static uf_status fixup(uf_context *context, const uf_view &y, const uf_direct_conv &conv) {
    const int64_t count = uf_view_count(&y), piece = 16 / (int64_t)sizeof(T);
    const bool vectors =
        (uintptr_t)y.data % 16 == 0 && count % piece == 0 && uf_view_is_contiguous(&y);
    return vectors
               ? uf_cuda_launch(context, "conv_space_to_depth_fixup", threads_for(count, 2 * piece),
                                conv_space_to_depth_fixup<T, true>, conv, (int32_t)count)
               : uf_cuda_launch(context, "conv_space_to_depth_fixup", threads_for(count, 2),
                                conv_space_to_depth_fixup<T, false>, conv, (int32_t)count);
}

template <typename T>
static uf_status run_as(uf_context *context, const uf_conv_problem *problem,
                        const uf_conv_plan *made) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args *args = problem->args;
    const uf_space_to_depth_plan &plan = *UF_CONV_CONST_PLAN_OF(uf_space_to_depth_plan, made);
    const uf_conv_kernel_args inner = uf_space_to_depth_inner(&plan, args);
    uf_direct_conv conv; /* the outer convolution, for the exact fix-up */
    memset((void *)&conv, 0, sizeof conv);
    uf_direct_describe(&conv, args, direction == UF_CONV_DGRAD);
    T *const x = (T *)args->x.data, *const w = (T *)args->w.data;
    T *const cells = (T *)inner.x.data, *const moved = (T *)inner.w.data;
    uf_space_to_depth_move tensor = plan.tensor;
    tensor.vector = tensor.vector && (uintptr_t)x % 16 == 0; /* the plan holds for any address */
    if (direction != UF_CONV_DGRAD) {
        UF_TRY(uf_cuda_launch(context, "conv_space_to_depth_in", blocks_of(tensor.blocks),
                              conv_space_to_depth_in<T>, tensor, (const T *)x, cells));
    }
    if (direction != UF_CONV_WGRAD) {
        UF_TRY(uf_cuda_launch(context, "conv_space_to_depth_filter_in",
                              threads_for(plan.filter.moved, SPACE_TO_DEPTH_ELEMENTS),
                              conv_space_to_depth_filter_in<T>, plan.filter,
                              spread_of(plan, args, inner), (const T *)w, moved));
    }
    const uf_conv_problem moved_problem = uf_conv_problem_of(direction, &inner, problem->gpu);
    UF_TRY(made->inner->loop->launch(context, &moved_problem, made->inner));
    if (direction == UF_CONV_DGRAD) {
        return uf_cuda_launch(context, "conv_space_to_depth_out", blocks_of(tensor.blocks),
                              conv_space_to_depth_out<T>, tensor, conv, (const T *)cells, x);
    }
    if (direction == UF_CONV_WGRAD) {
        return uf_cuda_launch(context, "conv_space_to_depth_filter_out",
                              threads_for(plan.filter.count, 2), conv_space_to_depth_filter_out<T>,
                              plan.filter, conv, (const T *)moved, w);
    }
    return plan.fixups ? fixup<T>(context, args->y, conv) : UF_OK;
}

extern "C" uf_status uf_conv_launch_space_to_depth(uf_context *context,
                                                   const uf_conv_problem *problem,
                                                   const uf_conv_plan *plan) {
    return problem->args->x.dtype == UF_BF16 ? run_as<uf_bf16>(context, problem, plan)
                                             : run_as<float>(context, problem, plan);
}

extern "C" uf_status uf_conv_launch_space_to_depth_wgrad(uf_context *context,
                                                         const uf_conv_problem *problem,
                                                         const uf_conv_plan *plan) {
    return uf_conv_launch_space_to_depth(context, problem, plan);
}
