/* sm90_tma.cuh - tensor maps of TMA loads, and the loads and stores themselves. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_TMA_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_TMA_CUH

#include <cuda.h>

#include <cstring>

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

enum { UF_TENSOR_AXES = 5 };

/* A tensor of `rank` axes, the fastest first, and the boxes that are copied of it. Strides count
 * elements; that of axis 0 is 1, and one beside an extent of 1 does not matter. `swizzle`: the
 * pattern in which pieces of 16 bytes change places. */
struct uf_tensor_boxes {
    CUtensorMapDataType type;
    int32_t element; /* bytes */
    int32_t rank;
    int64_t extent[UF_TENSOR_AXES], stride[UF_TENSOR_AXES];
    int32_t box[UF_TENSOR_AXES];
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
};

/* Type and size of elements of f32 and bf16 tensors. */
static inline void uf_cuda_tensor_element(uf_dtype dtype, uf_tensor_boxes *boxes) {
    boxes->type =
        dtype == UF_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    boxes->element = dtype == UF_BF16 ? 2 : 4;
}

/* Elements outside are zero. */
static inline uf_status uf_cuda_tensor_map(uf_context *context, const uf_tensor_boxes &boxes,
                                           void *data, CUtensorMap *map) {
    void *const entry = ((const uf_cuda_state *)context->state)->encode_tensor_map;
    if (entry == nullptr) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "the CUDA driver has no cuTensorMapEncodeTiled");
    }
    cuuint64_t extents[UF_TENSOR_AXES], strides[UF_TENSOR_AXES];
    cuuint32_t box[UF_TENSOR_AXES];
    const cuuint32_t steps[UF_TENSOR_AXES] = {1, 1, 1, 1, 1};
    for (int axis = 0; axis < boxes.rank; ++axis) {
        extents[axis] = (cuuint64_t)boxes.extent[axis];
        box[axis] = (cuuint32_t)boxes.box[axis];
        if (axis > 0) {
            strides[axis - 1] =
                boxes.extent[axis] > 1 ? (cuuint64_t)(boxes.stride[axis] * boxes.element) : 16;
        }
    }
    typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    const CUresult result =
        ((encode *)entry)(map, boxes.type, (cuuint32_t)boxes.rank, data, extents, strides, box,
                          steps, CU_TENSOR_MAP_INTERLEAVE_NONE, boxes.swizzle, boxes.promotion,
                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        UF_FAIL(UF_ERROR_INTERNAL, "cuTensorMapEncodeTiled: error %d", (int)result);
    }
    return UF_OK;
}

/* Boxes of `columns` elements of `rows` rows of `channels` channels of an image of `view`, f32 or
 * bf16; elements outside are zero. `swizzle` keeps operands and fragments free of bank
 * conflicts. */
static inline uf_status uf_cuda_view_map(uf_context *context, const uf_view &view, int32_t columns,
                                         int32_t rows, int32_t channels, CUtensorMapSwizzle swizzle,
                                         CUtensorMapL2promotion promotion, CUtensorMap *map) {
    uf_tensor_boxes boxes;
    memset((void *)&boxes, 0, sizeof boxes);
    uf_cuda_tensor_element(view.dtype, &boxes);
    boxes.rank = 4;
    static const int axes[4] = {3, 2, 1, 0};
    const int32_t box[4] = {columns, rows, channels, 1};
    for (int i = 0; i < 4; ++i) {
        boxes.extent[i] = view.extent[axes[i]];
        boxes.stride[i] = view.stride[axes[i]];
        boxes.box[i] = box[i];
    }
    boxes.swizzle = swizzle;
    boxes.promotion = promotion;
    return uf_cuda_tensor_map(context, boxes, view.data, map);
}

#if UF_HAS_WGMMA

/* Loads a box of a tensor of four axes at these coordinates, the fastest axis first, to shared
 * memory; `barrier` counts it. `shared` is 128-byte aligned, and a multiple of eight box rows if
 * swizzled. */
static __device__ __forceinline__ void uf_copy_tensor(uint32_t shared, const CUtensorMap *map,
                                                      int32_t column, int32_t row, int32_t channel,
                                                      int32_t image, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(channel), "r"(image),
                 "r"(uf_shared_address(barrier))
                 : "memory");
}

/* Stores a box. Elements outside are not stored, but whole 16 bytes are: a row that ends within 16
 * bytes overwrites what follows it. One of a group of bulk stores. */
static __device__ __forceinline__ void uf_store_tensor(const CUtensorMap *map, int32_t column,
                                                       int32_t row, int32_t channel, int32_t image,
                                                       uint32_t shared) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2, %3, %4}], [%5];\n" ::"l"(map),
                 "r"(column), "r"(row), "r"(channel), "r"(image), "r"(shared)
                 : "memory");
}

#endif

#endif
