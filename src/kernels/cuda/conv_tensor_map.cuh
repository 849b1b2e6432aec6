/* conv_tensor_map.cuh - tensors as tensor copies (TMA) see them where they are. */
#ifndef UF_KERNELS_CUDA_CONV_TENSOR_MAP_CUH
#define UF_KERNELS_CUDA_CONV_TENSOR_MAP_CUH

#include <cuda.h>

#include "kernels/cuda/backend.h"

/* Boxes of `columns` elements of a row of `channels` channels of an image of `view`, f32 or bf16;
 * what lies outside is zero. `swizzle`: which pieces of 16 bytes change places on the way, so that
 * operands and fragments are free of bank conflicts. */
static inline uf_status conv_tensor_map(uf_context *context, const uf_view &view, int32_t columns,
                                        int32_t channels, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion, CUtensorMap *map) {
    typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void *const entry = ((const uf_cuda_state *)context->state)->encode_tensor_map;
    if (entry == nullptr) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "the CUDA driver has no cuTensorMapEncodeTiled");
    }
    const bool f32 = view.dtype == UF_F32;
    static const int axes[4] = {3, 2, 1, 0};
    cuuint64_t extents[4], strides[3];
    for (int i = 0; i < 4; ++i) {
        extents[i] = (cuuint64_t)view.extent[axes[i]];
        if (i > 0) {
            strides[i - 1] =
                extents[i] == 1 ? 16 : (cuuint64_t)view.stride[axes[i]] * (f32 ? 4 : 2);
        }
    }
    const cuuint32_t box[4] = {(cuuint32_t)columns, 1, (cuuint32_t)channels, 1};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    const CUresult result = ((encode *)entry)(
        map, f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, view.data,
        extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        UF_FAIL(UF_ERROR_INTERNAL, "cuTensorMapEncodeTiled: error %d", (int)result);
    }
    return UF_OK;
}

#endif
