/* poison.cu - see poison.h. */
#include "cuda/poison.h"

#include <cuda_runtime_api.h>

static __global__ void fill_shared(int bytes, int byte) {
    extern __shared__ char words[];
    for (int i = (int)threadIdx.x; i < bytes; i += (int)blockDim.x) {
        ((volatile char *)words)[i] = (char)byte;
    }
}

bool poison_shared(int byte) {
    int device, bytes, multiprocessors;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess ||
        cudaFuncSetAttribute((const void *)fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             bytes) != cudaSuccess) {
        return false;
    }
    /* No two of these blocks fit a multiprocessor. */
    fill_shared<<<(unsigned)multiprocessors, 1024, (size_t)bytes>>>(bytes, byte);
    return cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}
