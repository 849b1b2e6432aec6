/* table.c - the table of CUDA kernels. A row marked PLANNED_CUDA fails with UNSUPPORTED. */
#include "kernels/cuda/device/backend.h"

#define UF_STUB_CUDA(name, args)
#define UF_STUB_PLANNED_CUDA(name, args)                                                           \
    static uf_status planned_##name(uf_context *context, const args *unused) {                     \
        (void)context;                                                                             \
        (void)unused;                                                                              \
        UF_FAIL(UF_ERROR_UNSUPPORTED, "the kernel " #name " is not there for GPUs yet");           \
    }
#define UF_KERNEL(name, args, cuda) UF_STUB_##cuda(name, args)
#include "kernels/kernels.def"
#undef UF_KERNEL

#define UF_SLOT_CUDA(name) uf_cuda_##name
#define UF_SLOT_PLANNED_CUDA(name) planned_##name

const struct uf_kernels uf_cuda_kernels = {
#define UF_KERNEL(name, args, cuda) .name = UF_SLOT_##cuda(name),
#include "kernels/kernels.def"
#undef UF_KERNEL
    .conv_fprop_workspace = uf_cuda_conv_fprop_workspace,
    .conv_fprop_packed_bytes = uf_cuda_conv_fprop_packed_bytes,
    .conv_dgrad_packed_bytes = uf_cuda_conv_dgrad_packed_bytes,
    .conv_dgrad_workspace = uf_cuda_conv_dgrad_workspace,
    .conv_wgrad_workspace = uf_cuda_conv_wgrad_workspace,
    .batch_norm_forward_workspace = uf_cuda_batch_norm_forward_workspace,
    .batch_norm_backward_workspace = uf_cuda_batch_norm_backward_workspace,
    .norm_forward_workspace = uf_cuda_norm_forward_workspace,
    .norm_backward_workspace = uf_cuda_norm_backward_workspace,
    .channel_sum_workspace = uf_cuda_channel_sum_workspace,
    .reduce_workspace = uf_cuda_reduce_workspace,
    .loss_workspace = uf_cuda_loss_workspace,
};
