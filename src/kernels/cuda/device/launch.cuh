/* launch.cuh - how every kernel is launched. */
#ifndef UF_KERNELS_CUDA_LAUNCH_CUH
#define UF_KERNELS_CUDA_LAUNCH_CUH

#include <cstddef>
#include <cstring>

#include "kernels/cuda/arch/sm90_dependent_launch.cuh"
#include "kernels/cuda/device/backend.h"

struct uf_launch {
    dim3 grid;
    dim3 block;        /* its threads */
    size_t shared = 0; /* bytes of dynamic shared memory */
    int cluster = 0;   /* blocks of a cluster along x; 0: none */
};

/* Asynchronous, in the context's stream; `name` is for messages. The kernel starts while the one
 * before it ends, so that it begins with uf_wait_for_launcher (sm90_dependent_launch.cuh).
 *
 * The limit on a kernel's shared memory belongs to the process, not to the launch. A thread that
 * set its own need could lower the limit between another thread's setting and launch. So all
 * threads set the same limit: the device's. */
template <typename... Parameters, typename... Arguments>
static uf_status uf_cuda_launch(uf_context *context, const char *name, const uf_launch &how,
                                void (*kernel)(Parameters...), const Arguments &...arguments) {
    enum { WITHOUT_ASKING = 48 * 1024 };
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config;
    memset((void *)attributes, 0, sizeof attributes);
    memset((void *)&config, 0, sizeof config);
    config.gridDim = how.grid;
    config.blockDim = how.block;
    config.dynamicSmemBytes = how.shared;
    config.stream = uf_cuda_stream(context);
    config.attrs = attributes;
    if (how.shared > WITHOUT_ASKING) {
        cudaFuncAttributes code;
        int most = 0;
        UF_CUDA_TRY(context, cudaFuncGetAttributes(&code, (const void *)kernel));
        UF_CUDA_TRY(context, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                                    context->device_index));
        UF_CUDA_TRY(context, cudaFuncSetAttribute((const void *)kernel,
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  most - (int)code.sharedSizeBytes));
    }
    if (((const uf_cuda_state *)context->state)->overlaps) {
        cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    if (how.cluster > 1) {
        cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)how.cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    }
    UF_TRY(uf_cuda_check(context, cudaLaunchKernelEx(&config, kernel, arguments...), name));
    return uf_cuda_launched(context, name);
}

#endif
