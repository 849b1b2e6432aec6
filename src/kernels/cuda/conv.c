/* conv.c - conv_fprop, conv_dgrad, conv_wgrad on a GPU: choose a variant, run it. */
#include "kernels/cuda/conv.h"

/* "mma" is two kernels: pixels are rows of the product in fprop and dgrad, and its depth in wgrad. */
static size_t mma_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma_workspace(args)
                                      : uf_cuda_conv_mma_workspace(direction, args);
}

static uf_status mma_run(uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args) {
    return direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma(context, args)
                                      : uf_cuda_conv_mma(context, direction, args);
}

static size_t direct_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return direction == UF_CONV_WGRAD ? uf_cuda_conv_direct_wgrad_workspace(args)
                                      : uf_cuda_conv_direct_workspace(direction, args);
}

static uf_status direct_run(uf_context *context, uf_conv_direction direction,
                            const uf_conv_kernel_args *args) {
    return direction == UF_CONV_WGRAD ? uf_cuda_conv_direct_wgrad(context, args)
                                      : uf_cuda_conv_direct(context, direction, args);
}

static const uf_cuda_conv_code codes[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {uf_cuda_conv_naive_workspace, uf_cuda_conv_naive},
    [UF_CUDA_CONV_MMA] = {mma_workspace, mma_run},
    [UF_CUDA_CONV_WGMMA] = {uf_cuda_conv_wgmma_workspace, uf_cuda_conv_wgmma},
    [UF_CUDA_CONV_DIRECT] = {direct_workspace, direct_run},
};

static bool is_empty(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *written = direction == UF_CONV_FPROP   ? &args->y
                             : direction == UF_CONV_DGRAD ? &args->x
                                                          : &args->w;
    return uf_view_count(written) == 0;
}

static int capability_of(const uf_context *context) {
    const int capability = ((const uf_cuda_state *)context->state)->capability;
#if !UF_CUDA_HAS_90A
    return capability == 90 ? 89 : capability; /* this build lacks what only an H100's like can run */
#else
    return capability;
#endif
}

uf_status uf_cuda_conv_untuned(const uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args, uf_cuda_conv_variant *variant) {
    return uf_cuda_conv_choose(direction, args, capability_of(context), variant);
}

uf_status uf_cuda_conv_chosen(const uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_cuda_conv_variant *variant) {
    uf_conv_tuning *tuning = &((uf_cuda_state *)context->state)->tuning;
    if (args->variant == NULL) {
        const uf_conv_key key = uf_conv_key_of(direction, args);
        const uf_conv_tuned *tuned = uf_conv_tuning_find(tuning, &key);
        tuning->used = true;
        if (tuned != NULL && uf_cuda_conv_suits(direction, args, capability_of(context), tuned->variant)) {
            *variant = tuned->variant;
            return UF_OK;
        }
    }
    return uf_cuda_conv_untuned(context, direction, args, variant);
}

static size_t workspace(const uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_cuda_conv_variant variant;
    /* An unknown variant is reported by the call itself. */
    if (is_empty(direction, args) || uf_cuda_conv_chosen(context, direction, args, &variant) != UF_OK) {
        return 0;
    }
    return codes[variant].workspace(direction, args);
}

static uf_status run(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    uf_cuda_conv_variant variant;
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_conv_chosen(context, direction, args, &variant));
    if (is_empty(direction, args)) {
        return UF_OK;
    }
    const size_t needed = codes[variant].workspace(direction, args);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    return codes[variant].run(context, direction, args);
}

uf_status uf_cuda_conv_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_FPROP, args);
}

uf_status uf_cuda_conv_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_DGRAD, args);
}

uf_status uf_cuda_conv_wgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_WGRAD, args);
}

size_t uf_cuda_conv_fprop_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_FPROP, args);
}

size_t uf_cuda_conv_dgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_DGRAD, args);
}

size_t uf_cuda_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_WGRAD, args);
}
