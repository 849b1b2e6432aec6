/* probe.cu - asks the driver for a kernel, to see whether this GPU can run this build's code and
 * which of it. All other kernels are compiled for the same architectures, or for 9.0a alone. */
#include "kernels/cuda/arch/sm90_dependent_launch.cuh"
#include "kernels/cuda/device/backend.h"

static __global__ void unfurl_probe() {
    uf_overlap_launches();
}

/* ptxVersion is the architecture that the code was compiled for, before the driver translated it:
 * __CUDA_ARCH__ / 10 in its source. */
cudaError_t uf_cuda_probe(bool *overlaps) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, (const void *)unfurl_probe);
    *overlaps = error == cudaSuccess && attributes.ptxVersion >= UF_DEPENDENT_LAUNCH_CAPABILITY;
    return error;
}
