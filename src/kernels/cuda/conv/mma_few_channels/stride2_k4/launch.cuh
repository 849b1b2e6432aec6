/* launch.cuh - tensor maps, launch configuration and dispatch of the kernels of stride2_k4. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LAUNCH_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/load.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

/* The map of y: a row of a strip, all channels in `pieces` boxes, with zeros beyond the last
 * channel. */
static inline uf_status stride2_k4_map_rows(uf_context *context, const uf_view &y, int32_t pieces,
                                            CUtensorMap *map) {
    return uf_cuda_view_map(context, y, UF_STRIDE2_K4_PIXELS, 1, UF_STRIDE2_K4_SMALL / pieces,
                            y.dtype == UF_BF16 ? CU_TENSOR_MAP_SWIZZLE_64B
                                               : CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, map);
}

/* The map of x: the window that a row of a strip meets. */
static inline uf_status stride2_k4_map_windows(uf_context *context, const uf_view &x,
                                               CUtensorMap *map) {
    return uf_cuda_view_map(context, x, UF_STRIDE2_K4_WINDOW, UF_STRIDE2_K4_FILTER,
                            (int32_t)x.extent[1], CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, map);
}

static inline uf_launch stride2_k4_launch(const uf_stride2_k4_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.blocks), 32 * plan.warps, plan.shared};
    return how;
}

/* Calls call.run<Tile>() for the plan's channels. */
template <typename T, uf_mma_math MATH, int WARPS, int SHARE, int RESIDENT, typename Call>
static inline uf_status stride2_k4_by_channels(const uf_stride2_k4_plan &plan, const Call &call) {
    switch (plan.channels) {
    case 1:
        return call.template run<stride2_k4_tile<T, MATH, 1, WARPS, SHARE, RESIDENT>>();
    case 2:
        return call.template run<stride2_k4_tile<T, MATH, 2, WARPS, SHARE, RESIDENT>>();
    case 3:
        return call.template run<stride2_k4_tile<T, MATH, 3, WARPS, SHARE, RESIDENT>>();
    default:
        return call.template run<stride2_k4_tile<T, MATH, 4, WARPS, SHARE, RESIDENT>>();
    }
}

/* Calls call.run<Tile>() for the plan. FP32_SHARE: warps that share a row in FP32; elsewhere none
 * do. */
template <typename Bf16, int F32_WARPS, int BF16_WARPS, int FP32_SHARE, int RESIDENT, typename Call>
static inline uf_status stride2_k4_by_math(const uf_conv_kernel_args *args,
                                           const uf_stride2_k4_plan &plan, const Call &call) {
    return args->x.dtype == UF_BF16
               ? stride2_k4_by_channels<Bf16, UF_MMA_BF16, BF16_WARPS, 1, RESIDENT>(plan, call)
           : args->math == UF_MATH_FP32
               ? stride2_k4_by_channels<float, UF_MMA_TF32X3, F32_WARPS, FP32_SHARE, RESIDENT>(plan,
                                                                                               call)
               : stride2_k4_by_channels<float, UF_MMA_TF32, F32_WARPS, 1, RESIDENT>(plan, call);
}

#endif
