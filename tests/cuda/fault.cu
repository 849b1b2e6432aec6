/* fault.cu - see fault.h. */
#include "fault.h"

static __global__ void write_to(volatile int *address) {
    *address = 1;
}

static __global__ void trap() {
    __trap();
}

cudaError_t fault_bad_address(cudaStream_t stream) {
    write_to<<<1, 1, 0, stream>>>((volatile int *)0x10);
    return cudaGetLastError();
}

cudaError_t fault_trap(cudaStream_t stream) {
    trap<<<1, 1, 0, stream>>>();
    return cudaGetLastError();
}
