/* fault.h - kernels with a defect, to see what the library makes of it. */
#ifndef TEST_CUDA_FAULT_H
#define TEST_CUDA_FAULT_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queue a kernel that writes where no memory is, or that executes a trap. */
cudaError_t fault_bad_address(cudaStream_t stream);
cudaError_t fault_trap(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
