/* table.c - the CPU's kernels. */
#include "kernels/kernels.h"

const struct uf_kernels uf_cpu_kernels = {
#define UF_KERNEL(name, args, cuda) .name = uf_cpu_##name,
#include "kernels/kernels.def"
#undef UF_KERNEL
    .conv_fprop_workspace = uf_cpu_conv_fprop_workspace,
    .conv_fprop_packed_bytes = uf_cpu_conv_fprop_packed_bytes,
    .conv_dgrad_packed_bytes = uf_cpu_conv_dgrad_packed_bytes,
    .conv_dgrad_workspace = uf_cpu_conv_dgrad_workspace,
    .conv_wgrad_workspace = uf_cpu_conv_wgrad_workspace,
    .batch_norm_forward_workspace = uf_cpu_batch_norm_forward_workspace,
    .batch_norm_backward_workspace = uf_cpu_batch_norm_backward_workspace,
    .norm_forward_workspace = uf_cpu_norm_forward_workspace,
    .norm_backward_workspace = uf_cpu_norm_backward_workspace,
    .channel_sum_workspace = uf_cpu_channel_sum_workspace,
    .reduce_workspace = uf_cpu_reduce_workspace,
    .loss_workspace = uf_cpu_loss_workspace,
};
