/* conv.c - conv_fprop, conv_dgrad, conv_wgrad on a GPU: choose a variant, run it. */
#include "kernels/cuda/conv/conv.h"

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/conv_columns_plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/conv_held_plan.h"

static size_t no_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return 0;
}

/* `mma` of bf16 tensors. */
static size_t mma_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_cuda_conv_workspace *const of =
        direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma_workspace : uf_cuda_conv_mma_workspace;
    return args->x.dtype == UF_BF16 ? uf_cuda_conv_widened_workspace(direction, args, of)
                                    : of(direction, args);
}

static uf_status mma(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        direction == UF_CONV_WGRAD ? uf_cuda_conv_wgrad_mma : uf_cuda_conv_mma;
    return args->x.dtype == UF_BF16 ? uf_cuda_conv_widened(context, direction, args, of)
                                    : of(context, direction, args);
}

static uf_status stream(uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        direction == UF_CONV_DGRAD ? uf_cuda_conv_stream_dgrad : uf_cuda_conv_stream_fprop;
    return of(context, direction, args);
}

/* `columns`, or `direct` where tensors begin anywhere. */
static uf_status columns(uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of =
        uf_columns_is_aligned(direction, args) ? uf_cuda_conv_columns : uf_cuda_conv_direct;
    return of(context, direction, args);
}

/* Of either: scratch that was asked for must be enough wherever tensors begin. */
static size_t columns_wgrad_workspace(uf_conv_direction direction,
                                      const uf_conv_kernel_args *args) {
    const size_t own = uf_cuda_conv_columns_wgrad_workspace(direction, args);
    const size_t other = uf_cuda_conv_wgrad_direct_workspace(direction, args);
    return own > other ? own : other;
}

static uf_status columns_wgrad(uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of = uf_columns_is_aligned(direction, args) ? uf_cuda_conv_columns_wgrad
                                                                        : uf_cuda_conv_wgrad_direct;
    return of(context, direction, args);
}

/* `held`, or `wgmma`, whose workspace it has, where tensors begin anywhere. */
static uf_status held(uf_context *context, uf_conv_direction direction,
                      const uf_conv_kernel_args *args) {
    uf_cuda_conv_run *const of = uf_held_is_aligned(args) ? uf_cuda_conv_held : uf_cuda_conv_wgmma;
    return of(context, direction, args);
}

/* Of what is under `shuffle`: below, where variants are known. */
static uf_cuda_conv_workspace inner_workspace;
static uf_cuda_conv_run run_inner;

static size_t shuffle_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return uf_cuda_conv_shuffled_workspace(direction, args, inner_workspace);
}

static uf_status shuffle(uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args) {
    return uf_cuda_conv_shuffled(context, direction, args, run_inner);
}

/* fprop and dgrad are one correlation; the weight gradient is another kernel. A variant may lack
 * either: its rule then takes nothing. */
static const struct {
    uf_cuda_conv_code correlate, wgrad;
} codes[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {{uf_cuda_conv_naive_workspace, uf_cuda_conv_naive},
                            {uf_cuda_conv_naive_workspace, uf_cuda_conv_naive}},
    [UF_CUDA_CONV_MMA] = {{mma_workspace, mma}, {mma_workspace, mma}},
    [UF_CUDA_CONV_WGMMA] = {{uf_cuda_conv_wgmma_workspace, uf_cuda_conv_wgmma},
                            {uf_cuda_conv_wgrad_lines_workspace, uf_cuda_conv_wgrad_lines}},
    [UF_CUDA_CONV_DIRECT] = {{no_workspace, uf_cuda_conv_direct},
                             {uf_cuda_conv_wgrad_direct_workspace, uf_cuda_conv_wgrad_direct}},
    [UF_CUDA_CONV_THIN] = {{no_workspace, uf_cuda_conv_thin},
                           {uf_cuda_conv_wgrad_thin_workspace, uf_cuda_conv_wgrad_thin}},
    [UF_CUDA_CONV_GEMM] = {{uf_cuda_conv_gemm_workspace, uf_cuda_conv_gemm},
                           {uf_cuda_conv_gemm_workspace, uf_cuda_conv_gemm}},
    [UF_CUDA_CONV_BLOCKS] = {{NULL, NULL},
                             {uf_cuda_conv_wgrad_blocks_workspace, uf_cuda_conv_wgrad_blocks}},
    [UF_CUDA_CONV_FEW] = {{uf_cuda_conv_few_workspace, uf_cuda_conv_few},
                          {uf_cuda_conv_few_wgrad_workspace, uf_cuda_conv_few_wgrad}},
    [UF_CUDA_CONV_HALVES] = {{uf_cuda_conv_halves_workspace, uf_cuda_conv_halves},
                             {uf_cuda_conv_wgrad_halves_workspace, uf_cuda_conv_wgrad_halves}},
    [UF_CUDA_CONV_STREAM] = {{no_workspace, stream},
                             {uf_cuda_conv_stream_wgrad_workspace, uf_cuda_conv_stream_wgrad}},
    [UF_CUDA_CONV_COLUMNS] = {{no_workspace, columns}, {columns_wgrad_workspace, columns_wgrad}},
    [UF_CUDA_CONV_HELD] = {{uf_cuda_conv_wgmma_workspace, held}, {NULL, NULL}},
    [UF_CUDA_CONV_SHUFFLE] = {{shuffle_workspace, shuffle}, {shuffle_workspace, shuffle}},
};

static const uf_cuda_conv_code *code_of(uf_cuda_conv_variant variant, uf_conv_direction direction) {
    return direction == UF_CONV_WGRAD ? &codes[variant].wgrad : &codes[variant].correlate;
}

/* What run_inner runs, and its scratch in bytes: that needs no context. */
static uf_status choose_inner(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              uf_cuda_conv_variant *variant, size_t *bytes) {
    UF_TRY(uf_cuda_conv_choose(direction, args, UF_CUDA_CONV_SHUFFLE_CAPABILITY, variant));
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
    uf_conv_memo_row *row =
        args->variant == NULL ? uf_conv_memo_row_of(&state->memo, direction, args) : NULL;
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

/* What `shuffle` makes of a convolution, by the variant that its scratch was asked for: neither
 * what somebody has tuned nor where y is may change that, so y counts as well placed. */
static uf_status run_inner(uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    uf_conv_kernel_args placed = *args;
    placed.y.data = args->workspace;
    uf_conv_memo_row *row = uf_conv_memo_row_of(&state->inner, direction, &placed);
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
