/* probe.cu - asks the driver for a kernel, to see whether this GPU can run this build's code. */
#include "kernels/cuda/device/backend.h"

static __global__ void unfurl_probe() {
}

cudaError_t uf_cuda_probe(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)unfurl_probe);
}
