/* sum.cuh - the second half of a sum of two launches: f64 partial sums, added in a fixed order. */
#ifndef UF_KERNELS_CUDA_SUM_CUH
#define UF_KERNELS_CUDA_SUM_CUH

#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/device/launch.cuh"

/* One block per output element adds its partial sums; output = factor * sum. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    uf_sum_pieces(const double *partial, int64_t pieces, double factor, uf_cuda_view<T> output,
                  bool accumulate) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const double *const own = partial + (int64_t)blockIdx.x * pieces;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < pieces; i += UF_BLOCK) {
        sum += own[i];
    }
    sum = factor * uf_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        T *const to = output.data + (int64_t)blockIdx.x * output.stride[1];
        *to = (T)(accumulate ? (double)*to + sum : sum);
    }
}

static inline uf_status uf_sum_needs(const char *kernel, size_t given, size_t needed) {
    if (given < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s was given %zu bytes of workspace and needs %zu", kernel,
                given, needed);
    }
    return UF_OK;
}

#endif
