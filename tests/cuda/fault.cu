/* fault.cu - a kernel that writes where there is no memory. */
#include <cuda_runtime_api.h>

static __global__ void write_to_nowhere(int *nowhere) {
    *nowhere = 1;
}

extern "C" void test_fault(void *stream) {
    write_to_nowhere<<<1, 1, 0, (cudaStream_t)stream>>>((int *)8);
}
