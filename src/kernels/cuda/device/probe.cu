/* probe.cu - does this build have machine code that this GPU can run? */
#include "kernels/cuda/device/backend.h"

static __global__ void unfurl_probe() {
}

cudaError_t uf_cuda_probe(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)unfurl_probe);
}
