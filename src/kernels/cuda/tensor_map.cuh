/* tensor_map.cuh - what tensor copies (TMA) must know of a tensor. */
#ifndef UF_KERNELS_CUDA_TENSOR_MAP_CUH
#define UF_KERNELS_CUDA_TENSOR_MAP_CUH

#include <cuda.h>

#include "kernels/cuda/backend.h"

/* `stride` in elements, that of axis 0 is 1; a stride beside an extent of 1 does not matter. Zeros
 * are read outside. */
static inline uf_status uf_cuda_tensor_map(uf_context *context, uf_dtype dtype, void *data,
                                           const int64_t extent[5], const int64_t stride[5],
                                           const int32_t box[5], CUtensorMapSwizzle swizzle,
                                           CUtensorMap *map) {
    void *const entry = ((const uf_cuda_state *)context->state)->encode_tensor_map;
    if (entry == nullptr) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "the CUDA driver has no cuTensorMapEncodeTiled");
    }
    const int64_t element = (int64_t)uf_dtype_size(dtype);
    cuuint64_t extents[5], strides[4];
    cuuint32_t boxes[5];
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    for (int axis = 0; axis < 5; ++axis) {
        extents[axis] = (cuuint64_t)extent[axis];
        boxes[axis] = (cuuint32_t)box[axis];
        if (axis > 0) {
            strides[axis - 1] = extent[axis] > 1 ? (cuuint64_t)(stride[axis] * element) : 16;
        }
    }
    typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    const CUresult result = ((encode *)entry)(
        map, dtype == UF_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        5, data, extents, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        UF_FAIL(UF_ERROR_INTERNAL, "cuTensorMapEncodeTiled: error %d", (int)result);
    }
    return UF_OK;
}

#endif
