/* backend.h - declarations that the CUDA backend's files share on the host side. */
#ifndef UF_KERNELS_CUDA_BACKEND_H
#define UF_KERNELS_CUDA_BACKEND_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/conv/select/plan_cache.h"
#include "kernels/cuda/device/gpu.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* context->state of a CUDA context. */
typedef struct uf_cuda_state {
    cudaStream_t stream;
    bool owns_stream;
    bool overlaps; /* kernels start while the one before ends: the code of this GPU waits for it */
    uf_gpu gpu;
    void *encode_tensor_map; /* the driver's cuTensorMapEncodeTiled; NULL where it has none */
    uf_conv_tuning tuning;
    uf_conv_plan_cache plan_cache; /* never stale: `tuning` does not change once it is used */
} uf_cuda_state;

static inline cudaStream_t uf_cuda_stream(const uf_context *context) {
    return ((const uf_cuda_state *)context->state)->stream;
}

static inline const uf_gpu *uf_cuda_gpu(const uf_context *context) {
    return &((const uf_cuda_state *)context->state)->gpu;
}

/* Begins every call: the fault that poisoned the context, or UF_OK with the context's device
 * current in the calling thread. */
uf_status uf_cuda_enter(uf_context *context);

/* The status of `error`; `what` names the call. Errors that leave the device unusable poison the
 * context: every later call returns the same status and message. */
uf_status uf_cuda_check(uf_context *context, cudaError_t error, const char *what);

/* After each launch of the kernel called `name`. */
uf_status uf_cuda_launched(uf_context *context, const char *name);

#define UF_CUDA_TRY(context, call) UF_TRY(uf_cuda_check((context), (call), #call))

/* A static sentence for a failed cudaGetDeviceCount; versions as cudaDriverGetVersion gives them, 0
 * when there is no driver. Pure, so that a test can try every case. */
const char *uf_cuda_explain(cudaError_t error, int driver_version, int runtime_version);

/* Asks the driver whether the current GPU can run this build's kernels, and whether the code that
 * it runs waits for the kernel before (sm90_dependent_launch.cuh). Needs a device context, unlike
 * uf_cuda_images_run (images.h). */
cudaError_t uf_cuda_probe(bool *overlaps);

/* copy.cu: uf_cuda_copy without uf_cuda_enter. */
uf_status uf_cuda_convert(uf_context *context, const uf_copy_kernel_args *args);

/* select/autotune_run.c: measured choices of convolution kernels. */
extern const uf_tuning_interface uf_cuda_tuning;

/* The kernels, and scratch sizes of those that need some. */
#define UF_KERNEL(name, args, cuda) uf_status uf_cuda_##name(uf_context *context, const args *);
#include "kernels/kernels.def"
#undef UF_KERNEL

size_t uf_cuda_conv_fprop_packed_bytes(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cuda_conv_dgrad_packed_bytes(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cuda_conv_fprop_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cuda_conv_dgrad_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cuda_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cuda_batch_norm_forward_workspace(uf_context *context,
                                            const uf_batch_norm_kernel_args *args);
size_t uf_cuda_batch_norm_backward_workspace(uf_context *context,
                                             const uf_batch_norm_kernel_args *args);
size_t uf_cuda_norm_forward_workspace(uf_context *context, const uf_norm_kernel_args *args);
size_t uf_cuda_norm_backward_workspace(uf_context *context, const uf_norm_kernel_args *args);
size_t uf_cuda_channel_sum_workspace(uf_context *context, const uf_channel_sum_kernel_args *args);
size_t uf_cuda_reduce_workspace(uf_context *context, const uf_strided_kernel_args *args);
size_t uf_cuda_loss_workspace(uf_context *context, const uf_loss_kernel_args *args);

extern const struct uf_kernels uf_cuda_kernels;

UF_END_DECLS

#endif
