/* conv_tensor_map.cuh - tensors as tensor copies (TMA) see them where they are. */
#ifndef UF_KERNELS_CUDA_CONV_TENSOR_MAP_CUH
#define UF_KERNELS_CUDA_CONV_TENSOR_MAP_CUH

#include <cstring>

#include "kernels/cuda/tensor_map.cuh"

/* Boxes of `columns` elements of a row of `channels` channels of an image of `view`, f32 or bf16;
 * what lies outside is zero. `swizzle`: which pieces of 16 bytes change places on the way, so that
 * operands and fragments are free of bank conflicts. */
static inline uf_status conv_tensor_map(uf_context *context, const uf_view &view, int32_t columns,
                                        int32_t channels, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion, CUtensorMap *map) {
    uf_tensor_boxes boxes;
    memset((void *)&boxes, 0, sizeof boxes);
    uf_cuda_tensor_element(view.dtype, &boxes);
    boxes.rank = 4;
    static const int axes[4] = {3, 2, 1, 0};
    const int32_t box[4] = {columns, 1, channels, 1};
    for (int i = 0; i < 4; ++i) {
        boxes.extent[i] = view.extent[axes[i]];
        boxes.stride[i] = view.stride[axes[i]];
        boxes.box[i] = box[i];
    }
    boxes.swizzle = swizzle;
    boxes.promotion = promotion;
    return uf_cuda_tensor_map(context, boxes, view.data, map);
}

#endif
