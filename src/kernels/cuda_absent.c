/* cuda_absent.c - linked in place of the CUDA backend when it is not built. */
#include "core/context.h"

const uf_device_ops *uf_cuda_device(const char **reason) {
    *reason = "this build of unfurl has no CUDA kernels";
    return NULL;
}
