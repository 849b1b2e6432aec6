/* probe.cu - does this build have machine code that this GPU can run? */
#include "kernels/cuda/backend.h"

static __global__ void unfurl_probe() {
}

cudaError_t uf_cuda_probe(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)unfurl_probe);
}

bool uf_cuda_has_image(int capability) {
    static const int architectures[] = {__CUDA_ARCH_LIST__}; /* nvcc: 900 for 9.0 */
    for (int architecture : architectures) {
        if (architecture / 10 <= capability) {
            return true;
        }
    }
    return false;
}
