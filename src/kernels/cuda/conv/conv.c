/* conv.c - conv_fprop, conv_dgrad, conv_wgrad on a GPU: choose a variant, run it. */
#include "kernels/cuda/conv/conv.h"

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"

static size_t no_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return 0;
}

/* `mma_implicit_gemm` of bf16 tensors. */
static size_t mma_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_cuda_conv_workspace *const of =
        direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma_workspace : uf_cuda_conv_mma_workspace;
    return args->x.dtype == UF_BF16 ? uf_cuda_conv_upcast_workspace(direction, args, of)
                                    : of(direction, args);
}

static uf_status mma(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma : uf_cuda_conv_mma;
    return args->x.dtype == UF_BF16 ? uf_cuda_conv_upcast(context, direction, args, of)
                                    : of(context, direction, args);
}

static uf_status stream(uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        direction == UF_CONV_DGRAD ? uf_cuda_conv_row_stream_dgrad : uf_cuda_conv_row_stream_fprop;
    return of(context, direction, args);
}

/* `mma_stride2_k4`, or `simt_direct` where tensors begin anywhere. */
static uf_status columns(uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        uf_stride2_k4_is_aligned(direction, args) ? uf_cuda_conv_stride2_k4 : uf_cuda_conv_direct;
    return of(context, direction, args);
}

/* Of either: scratch that was asked for must be enough wherever tensors begin. */
static size_t columns_wgrad_workspace(uf_conv_direction direction,
                                      const uf_conv_kernel_args *args) {
    const size_t own = uf_cuda_conv_stride2_k4_wgrad_workspace(direction, args);
    const size_t other = uf_cuda_conv_wgrad_direct_workspace(direction, args);
    return own > other ? own : other;
}

static uf_status columns_wgrad(uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of = uf_stride2_k4_is_aligned(direction, args)
                                     ? uf_cuda_conv_stride2_k4_wgrad
                                     : uf_cuda_conv_wgrad_direct;
    return of(context, direction, args);
}

/* `wgmma_filter_stationary`, or `wgmma_implicit_gemm`, whose workspace it has, where tensors begin
 * anywhere. */
static uf_status filter_stationary(uf_context *context, uf_conv_direction direction,
                                   const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        uf_filter_stationary_is_aligned(args) ? uf_cuda_conv_filter_stationary : uf_cuda_conv_wgmma;
    return of(context, direction, args);
}

/* Of what is under `space_to_depth`: below, where variants are known. */
static uf_cuda_conv_workspace inner_workspace;
static uf_cuda_conv_run run_inner;

static size_t space_to_depth_workspace(uf_conv_direction direction,
                                       const uf_conv_kernel_args *args) {
    return uf_cuda_conv_space_to_depth_workspace(direction, args, inner_workspace);
}

static uf_status space_to_depth(uf_context *context, uf_conv_direction direction,
                                const uf_conv_kernel_args *args) {
    return uf_cuda_conv_space_to_depth(context, direction, args, run_inner);
}

/* fprop and dgrad are one correlation; the weight gradient is another kernel. A variant may lack
 * either: its rule then takes nothing. */
static const struct {
    uf_cuda_conv_code correlate, wgrad;
} codes[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {{uf_cuda_conv_naive_workspace, uf_cuda_conv_naive},
                            {uf_cuda_conv_naive_workspace, uf_cuda_conv_naive}},
    [UF_CUDA_CONV_MMA_IMPLICIT_GEMM] = {{mma_workspace, mma}, {mma_workspace, mma}},
    [UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM] = {{uf_cuda_conv_wgmma_workspace, uf_cuda_conv_wgmma},
                                          {uf_cuda_conv_wgrad_rs_workspace, uf_cuda_conv_wgrad_rs}},
    [UF_CUDA_CONV_SIMT_DIRECT] = {{no_workspace, uf_cuda_conv_direct},
                                  {uf_cuda_conv_wgrad_direct_workspace, uf_cuda_conv_wgrad_direct}},
    [UF_CUDA_CONV_MMA_IM2COL] = {{no_workspace, uf_cuda_conv_im2col},
                                 {uf_cuda_conv_wgrad_im2col_workspace, uf_cuda_conv_wgrad_im2col}},
    [UF_CUDA_CONV_SIMT_GEMM] = {{uf_cuda_conv_gemm_workspace, uf_cuda_conv_gemm},
                                {uf_cuda_conv_gemm_workspace, uf_cuda_conv_gemm}},
    [UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED] = {{NULL, NULL},
                                            {uf_cuda_conv_wgrad_channel_blocked_workspace,
                                             uf_cuda_conv_wgrad_channel_blocked}},
    [UF_CUDA_CONV_MMA_SMALL] = {{uf_cuda_conv_small_workspace, uf_cuda_conv_small},
                                {uf_cuda_conv_small_wgrad_workspace, uf_cuda_conv_small_wgrad}},
    [UF_CUDA_CONV_WGMMA_SPLIT_F16] = {{uf_cuda_conv_split_f16_workspace, uf_cuda_conv_split_f16},
                                      {uf_cuda_conv_wgrad_split_f16_workspace,
                                       uf_cuda_conv_wgrad_split_f16}},
    [UF_CUDA_CONV_MMA_ROW_STREAM] = {{no_workspace, stream},
                                     {uf_cuda_conv_row_stream_wgrad_workspace,
                                      uf_cuda_conv_row_stream_wgrad}},
    [UF_CUDA_CONV_MMA_STRIDE2_K4] = {{no_workspace, columns},
                                     {columns_wgrad_workspace, columns_wgrad}},
    [UF_CUDA_CONV_WGMMA_FILTER_STATIONARY] = {{uf_cuda_conv_wgmma_workspace, filter_stationary},
                                              {NULL, NULL}},
    [UF_CUDA_CONV_SPACE_TO_DEPTH] = {{space_to_depth_workspace, space_to_depth},
                                     {space_to_depth_workspace, space_to_depth}},
};

static const uf_cuda_conv_code *code_of(uf_cuda_conv_variant variant, uf_conv_direction direction) {
    return direction == UF_CONV_WGRAD ? &codes[variant].wgrad : &codes[variant].correlate;
}

/* What run_inner runs, and its scratch in bytes: that needs no context. */
static uf_status choose_inner(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              uf_cuda_conv_variant *variant, size_t *bytes) {
    UF_TRY(uf_cuda_conv_choose(direction, args, UF_CUDA_CONV_SPACE_TO_DEPTH_CAPABILITY, variant));
    *bytes = code_of(*variant, direction)->workspace(direction, args);
    return UF_OK;
}

static size_t inner_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_cuda_conv_variant variant;
    size_t bytes;
    return choose_inner(direction, args, &variant, &bytes) == UF_OK ? bytes : 0;
}

static bool is_empty(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *written = direction == UF_CONV_FPROP   ? &args->y
                             : direction == UF_CONV_DGRAD ? &args->x
                                                          : &args->w;
    return uf_view_count(written) == 0;
}

static int capability_of(const uf_context *context) {
    const int capability = ((const uf_cuda_state *)context->state)->capability;
#if !UF_CUDA_HAS_90A
    return capability == 90 ? 89
                            : capability; /* this build lacks what only an H100's like can run */
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
        if (tuned != NULL &&
            uf_cuda_conv_suits(direction, args, capability_of(context), tuned->variant)) {
            *variant = tuned->variant;
            return UF_OK;
        }
    }
    return uf_cuda_conv_untuned(context, direction, args, variant);
}

/* The variant and its scratch in bytes, from memory where that was asked before. */
static uf_status look_up(const uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args, uf_cuda_conv_variant *variant,
                         size_t *bytes) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    uf_conv_plan_cache_row *row =
        args->variant == NULL ? uf_conv_plan_cache_row_of(&state->plan_cache, direction, args)
                              : NULL;
    if (row != NULL && row->known) {
        *variant = row->variant;
        *bytes = row->workspace;
        return UF_OK;
    }
    UF_TRY(uf_cuda_conv_chosen(context, direction, args, variant));
    *bytes =
        is_empty(direction, args) ? 0 : code_of(*variant, direction)->workspace(direction, args);
    if (row != NULL) {
        row->variant = *variant;
        row->workspace = *bytes;
        row->known = true;
    }
    return UF_OK;
}

/* What `space_to_depth` makes of a convolution, by the variant that its scratch was asked for:
 * neither what somebody has tuned nor where y is may change that, so y counts as well placed. */
static uf_status run_inner(uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    uf_conv_kernel_args placed = *args;
    placed.y.data = args->workspace;
    uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(&state->inner, direction, &placed);
    if (!row->known) {
        UF_TRY(choose_inner(direction, &placed, &row->variant, &row->workspace));
        row->known = true;
    }
    if (args->workspace_size < row->workspace) {
        UF_FAIL(UF_ERROR_INTERNAL, "what is under shuffle was given %zu bytes and needs %zu",
                args->workspace_size, row->workspace);
    }
    return code_of(row->variant, direction)->run(context, direction, args);
}

static size_t workspace(const uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_cuda_conv_variant variant;
    size_t bytes;
    /* An unknown variant is reported by the call itself. */
    return look_up(context, direction, args, &variant, &bytes) == UF_OK ? bytes : 0;
}

static uf_status run(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    uf_cuda_conv_variant variant;
    size_t needed;
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(look_up(context, direction, args, &variant, &needed));
    if (is_empty(direction, args)) {
        return UF_OK;
    }
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    return code_of(variant, direction)->run(context, direction, args);
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
