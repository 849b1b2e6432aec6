/* convert.cu - contiguous NCHW into any strides, and into bf16: inputs in bf16, and cuDNN's in its
 * layouts. */
#include <cuda_bf16.h>

#include "bench.h"

struct layout {
    int64_t extent[4], stride[4];
};

template <typename To, typename From>
static __global__ void convert(To *to, const From *from, layout at, int64_t count) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = i;
        int64_t offset = 0;
        for (int axis = 3; axis >= 0; --axis) {
            offset += rest % at.extent[axis] * at.stride[axis];
            rest /= at.extent[axis];
        }
        to[offset] = (To)from[i];
    }
}

int bench_convert(void *stream, void *to, const void *from, uf_dtype dtype, bool narrow,
                  const int64_t extent[4], const int64_t stride[4]) {
    layout at;
    int64_t count = 1;
    for (int axis = 0; axis < 4; ++axis) {
        at.extent[axis] = extent[axis];
        at.stride[axis] = stride[axis];
        count *= extent[axis];
    }
    const cudaStream_t s = (cudaStream_t)stream;
    if (narrow) {
        convert<<<4096, 256, 0, s>>>((__nv_bfloat16 *)to, (const float *)from, at, count);
    } else if (dtype == UF_F64) {
        convert<<<4096, 256, 0, s>>>((double *)to, (const double *)from, at, count);
    } else {
        convert<<<4096, 256, 0, s>>>((float *)to, (const float *)from, at, count);
    }
    return (int)cudaGetLastError();
}
