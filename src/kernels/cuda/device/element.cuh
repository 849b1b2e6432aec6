/* element.cuh - element types with fewer bits than the type that computes with them. */
#ifndef UF_KERNELS_CUDA_ELEMENT_CUH
#define UF_KERNELS_CUDA_ELEMENT_CUH

#include "kernels/cuda/device/bf16.cuh"
#include "kernels/cuda/device/device.cuh"

/* The type that computes with elements of type T. Loads are exact; the cast back, (T)value, is the
 * one rounding of a result, to nearest even. */
template <typename T>
struct uf_arithmetic {
    typedef T type;
};

template <>
struct uf_arithmetic<uf_bf16> {
    typedef float type;
};

/* a * b, or old + a * b rounded once. In so many words: ptxas joins a product and a sum in one
 * kernel and rounds twice in another, and bits may not depend on which of two kernels a view's
 * strides ask for. */
static __device__ __forceinline__ float uf_product(bool accumulate, float old, float a, float b) {
    return accumulate ? __fmaf_rn(a, b, old) : __fmul_rn(a, b);
}

static __device__ __forceinline__ double uf_product(bool accumulate, double old, double a,
                                                    double b) {
    return accumulate ? __fma_rn(a, b, old) : __dmul_rn(a, b);
}

/* UF_DISPATCH for kernels that also take bf16. */
#define UF_DISPATCH_STORED(type, count, ...)                                                       \
    do {                                                                                           \
        if ((type) == UF_BF16) {                                                                   \
            typedef uf_bf16 T;                                                                     \
            UF_DISPATCH_INDEX(count, __VA_ARGS__);                                                 \
        } else {                                                                                   \
            UF_DISPATCH(type, count, __VA_ARGS__);                                                 \
        }                                                                                          \
    } while (0)

/* The same where no index type is asked for. */
#define UF_DISPATCH_STORED_TYPE(type, ...)                                                         \
    do {                                                                                           \
        if ((type) == UF_BF16) {                                                                   \
            typedef uf_bf16 T;                                                                     \
            __VA_ARGS__;                                                                           \
        } else if ((type) == UF_F64) {                                                             \
            typedef double T;                                                                      \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

static inline uf_status uf_cuda_needs_stored(const char *kernel, uf_dtype dtype) {
    if (dtype == UF_F32 || dtype == UF_F64 || dtype == UF_BF16) {
        return UF_OK;
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "%s on a GPU takes f32, f64 and bf16, not %s", kernel,
            uf_dtype_name(dtype));
}

#endif
