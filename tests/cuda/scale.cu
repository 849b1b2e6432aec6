/* scale.cu - see scale.h. */
#include "cuda/scale.h"

#include <cuda_runtime_api.h>

static __global__ void scale(const float *from, float *to, float factor, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = factor * from[i];
    }
}

bool scale_on(void *stream, const float *from, float *to, float factor, int64_t count) {
    const unsigned blocks = (unsigned)((count + 127) / 128);
    scale<<<blocks, 128, 0, (cudaStream_t)stream>>>(from, to, factor, count);
    return cudaGetLastError() == cudaSuccess;
}
