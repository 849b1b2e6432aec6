/* kernels.h - what kernels take, and the table of them that a device has.
 *
 * A kernel gets views and numbers that its check function has accepted; it queues its work on the
 * context's stream, allocates nothing and keeps nothing. */
#ifndef UF_KERNELS_KERNELS_H
#define UF_KERNELS_KERNELS_H

#include <unfurl/ops.h>

#include "core/context.h"
#include "core/tensor.h"
#include "kernels/pool.h"
#include "kernels/resample.h"
#include "kernels/activation_double.h"
#include "kernels/softmax.h"
#include "kernels/norm.h"
#include "kernels/strided.h"
#include "kernels/weight_norm.h"

UF_BEGIN_DECLS

/* The epilogue of a result: v -> activation(v * scale[c] + shift[c]). Absent views
 * are 1 and 0; a bias is a shift. */
typedef struct uf_epilogue {
    uf_view scale, shift; /* one element per channel of the written tensor */
    uf_activation activation;
} uf_epilogue;

/* Where fprop and dgrad have w in the form that they read, which they make of w
 * (conv_packed_bytes). It depends on w and on the arguments but for the addresses of x, y,
 * workspace and epilogue. */
typedef enum uf_conv_packing {
    UF_CONV_PACK_IN_CALL = 0, /* in the workspace: made by every call */
    UF_CONV_PACK_APART,       /* in `packed`: made by this call, and stays there */
    UF_CONV_PACK_ONLY,        /* in `packed`: made by this call, which writes nothing else */
    UF_CONV_PACKED /* in `packed`: made by an earlier call, and w has not changed since */
} uf_conv_packing;

/* Convolution seen from its large side x (N, C, H, W) and its small side y (N, K, P, Q), weight
 * w (K, C/groups, R, S), with h = p*stride - padding + r*dilation:
 *   conv_fprop: reads x, w;  writes y[n,k,p,q] = sum over c, r, s of x[n,c,h,w] w[k,c,r,s]
 *   conv_dgrad: reads y, w;  writes x[n,c,h,w] = sum over k, r, s of y[n,k,p,q] w[k,c,r,s]
 *   conv_wgrad: reads x, y;  writes w[k,c,r,s] = sum over n, p, q of x[n,c,h,w] y[n,k,p,q]
 * The epilogue applies to fprop and dgrad; with ACCUMULATE it must be empty. Elements of x that no
 * tap reaches get the epilogue of 0. All tensors have one type; wgrad of bf16 x and y also writes
 * an f32 w. */
typedef struct uf_conv_kernel_args {
    uf_view x, w, y;
    int64_t stride[2], padding[2], dilation[2], groups;
    uf_epilogue epilogue;
    uf_write_mode mode;
    uf_math math;
    void *workspace;
    size_t workspace_size;
    const char *variant;     /* NULL: the device chooses */
    uf_conv_packing packing; /* of wgrad: UF_CONV_PACK_IN_CALL */
    void *packed;            /* aligned to UF_ALIGNMENT; conv_packed_bytes long */
} uf_conv_kernel_args;

typedef struct uf_activation_kernel_args {
    uf_activation activation;
    uf_view input, output;
    uf_view grad_output, grad_input; /* backward */
    uf_write_mode mode;              /* of grad_input */
    double maximum;                  /* of kinds with two parameters */
} uf_activation_kernel_args;

/* With mean and invstd = 1/sqrt(var + eps) of the batch (training) or of the running statistics:
 *   batch_norm_forward:   output = act(z),  z = xhat*weight + bias,  xhat = (input - mean)*invstd
 *   batch_norm_backward:  g = grad_output * act'(z), in the type that computes,
 *     grad_bias = sum g,  grad_weight = sum g*xhat,
 *     grad_input = weight*invstd * (g - mean(g) - xhat*mean(g*xhat)) in training,
 *                  weight*invstd * g otherwise
 * Backward makes z again as forward made it. f32 and f64 results have the bits of
 * activation_backward on stored values with a batch_norm_backward behind it.
 * training: save_mean and save_invstd (one per channel) are written by forward and read by
 * backward. They are f64 for either element type: in grad_input nearly everything cancels where a
 * channel has few values, and a mean rounded to f32 would be what remains. running statistics are
 * updated in place, num_batches_tracked is advanced. weight, bias, running_*, num_batches_tracked
 * may be absent. bf16 tensors have f32 parameters, gradients of them and running statistics. output
 * may be input's memory, grad_input grad_output's. */
typedef struct uf_batch_norm_kernel_args {
    uf_view input, output, weight, bias;
    uf_view running_mean, running_var;
    int64_t *num_batches_tracked;
    uf_view save_mean, save_invstd;
    double eps, momentum;
    bool training;
    uf_activation activation; /* behind the norm; backward goes back through it first */
    /* The backward call's; absent ones are not made. */
    uf_view grad_output, grad_input, grad_weight, grad_bias;
    uf_write_mode grad_input_mode, grad_param_mode;
    void *workspace;
    size_t workspace_size;
} uf_batch_norm_kernel_args;

/* batch_norm_fold: what an evaluated batch norm behind a layer with an additive bias does, as
 *   scale = weight / sqrt(running_var + eps),  shift = bias + (input_bias - running_mean) * scale.
 * weight, bias, input_bias may be absent (1, 0, 0). Views of one element per channel. */
typedef struct uf_batch_norm_fold_kernel_args {
    uf_view running_mean, running_var, weight, bias, input_bias;
    double eps;
    uf_view scale, shift; /* overwritten */
} uf_batch_norm_fold_kernel_args;

typedef struct uf_pad_kernel_args {
    uf_pad_mode pad_mode;
    int64_t left, right, top, bottom;
    uf_view input, output;           /* forward */
    uf_view grad_output, grad_input; /* backward */
    uf_write_mode mode;              /* of grad_input */
} uf_pad_kernel_args;

/* copy: output = input (OVERWRITE) or output += input (ACCUMULATE), same extents, any strides. One
 * type, or f32 and bf16: into bf16 the result is rounded once, to nearest even. */
typedef struct uf_copy_kernel_args {
    uf_view input, output;
    uf_write_mode mode;
} uf_copy_kernel_args;

/* fill: output = value. The view may be bf16 or i64. */
typedef struct uf_fill_kernel_args {
    uf_view output;
    double value;
} uf_fill_kernel_args;

/* zero: the bytes of spans of one allocation = 0, all in one launch. */
#define UF_ZERO_SPANS 64

typedef struct uf_zero_span {
    int64_t offset, size; /* bytes, multiples of UF_ALIGNMENT */
} uf_zero_span;

typedef struct uf_zero_kernel_args {
    void *memory; /* UF_ALIGNMENT-aligned */
    uf_zero_span spans[UF_ZERO_SPANS];
    int32_t count; /* of spans */
} uf_zero_kernel_args;

/* channel_sum: output[c] = sum over n, h, w of input[n, c, h, w]; the gradient of a bias. One type,
 * or an f32 output of a bf16 input. */
typedef struct uf_channel_sum_kernel_args {
    uf_view input;  /* (N, C, H, W) */
    uf_view output; /* (1, C, 1, 1) */
    uf_write_mode mode;
    void *workspace;
    size_t workspace_size;
} uf_channel_sum_kernel_args;

#define UF_OPTIMIZER_GROUPS 16

/* Parameters of one group move by lr * lr_factor. */
typedef struct uf_parameter_group {
    double lr_factor, weight_decay;
} uf_parameter_group;

/* The numbers of an optimizer that change between steps: they live in device memory, so that a
 * captured graph never holds a stale number. */
typedef struct uf_optimizer_control {
    double lr;
    int64_t step;          /* steps done; advanced before the update */
    double power1, power2; /* beta1^step, beta2^step, by repeated multiplication */
    uf_parameter_group groups[UF_OPTIMIZER_GROUPS];
} uf_optimizer_control;

typedef enum uf_optimizer_kind {
    UF_OPTIMIZER_SGD = 0,
    UF_OPTIMIZER_ADAM,
    UF_OPTIMIZER_RMSPROP,
    UF_OPTIMIZER_AVERAGE /* p += lr * (g - p): the moving average of g */
} uf_optimizer_kind;

typedef struct uf_optimizer_rule {
    uf_optimizer_kind kind;
    double beta1, beta2, eps;   /* Adam; beta2, eps: RMSprop, whose alpha is beta2 */
    double momentum, dampening; /* SGD; momentum: RMSprop */
    bool decoupled, nesterov;
} uf_optimizer_rule;

/* state1: m of Adam, or the momentum buffer; state2: the mean of squares. */
static inline bool uf_optimizer_has_state1(const uf_optimizer_rule *rule) {
    return rule->kind == UF_OPTIMIZER_ADAM || rule->momentum != 0.0;
}

static inline bool uf_optimizer_has_state2(const uf_optimizer_rule *rule) {
    return rule->kind == UF_OPTIMIZER_ADAM || rule->kind == UF_OPTIMIZER_RMSPROP;
}

/* optimizer_advance: step += 1, powers *= betas.
 * optimizer_step: `count` consecutive elements of one type (f32 or f64), formulas in optimizer.h,
 * computed in f64 for f64 and in f32 for f32 (bias corrections in f64). A state that the rule does
 * not need is NULL. group_of has a byte for each UF_ALIGNMENT bytes of the parameters: element i is
 * element first + i of those, and its group is below UF_OPTIMIZER_GROUPS. A copy has the new f32
 * parameters, with the bits that the kernel `copy` rounds them to. */
typedef struct uf_optimizer_kernel_args {
    uf_optimizer_rule rule;
    uf_optimizer_control *control; /* device memory */
    const uint8_t *group_of;       /* device memory; NULL: all are in group 0 */
    uf_dtype dtype;
    int64_t first, count;
    void *parameter, *state1, *state2;
    const void *gradient;
    void *copy; /* count elements of bf16; NULL: none */
} uf_optimizer_kernel_args;

/* random_fill: contiguous output. uniform: low + (high - low)*u with u the i-th f32 uniform of
 * cuRAND's Philox4_32_10 for `seed`; normal: mean + std * inverse normal CDF(u). In f64, then
 * rounded to the output's type. */
typedef enum uf_random_kind { UF_RANDOM_UNIFORM = 0, UF_RANDOM_NORMAL } uf_random_kind;

typedef struct uf_random_kernel_args {
    uf_random_kind kind;
    uint64_t seed;
    double a, b; /* low, high; or mean, std */
    uf_view output;
} uf_random_kernel_args;

/* record_losses: write one entry of the program's ring (pinned host memory), then advance `step`.
 * entry e = step mod UF_LOSS_RING: {step + 1 written last, 1 if all are finite else 0, the
 * losses}. */
#define UF_LOSS_RING 64
#define UF_LOSS_MAX 14

typedef struct uf_loss_entry {
    volatile int64_t step; /* 1 for the first run; 0: being written or never written */
    double finite;
    double losses[UF_LOSS_MAX];
} uf_loss_entry;

typedef struct uf_record_kernel_args {
    uf_view losses[UF_LOSS_MAX]; /* one element each */
    int32_t count;
    uf_loss_entry *ring; /* UF_LOSS_RING entries, readable by host and device */
    int64_t *step;       /* device memory: runs done */
} uf_record_kernel_args;

#include "kernels/clip.h"
#include "kernels/loss.h"
#include "kernels/draw.h"
#include "kernels/embedding.h"

struct uf_kernels {
#define UF_KERNEL(name, args, cuda) uf_status (*name)(uf_context * context, const args *);
#include "kernels/kernels.def"
#undef UF_KERNEL
    /* Scratch that conv_fprop, conv_dgrad, conv_wgrad need for these arguments: a function of
     * geometry, type, math, forced variant, packing and (on the CPU) the number of threads. */
    size_t (*conv_fprop_workspace)(uf_context *context, const uf_conv_kernel_args *args);
    size_t (*conv_dgrad_workspace)(uf_context *context, const uf_conv_kernel_args *args);
    size_t (*conv_wgrad_workspace)(uf_context *context, const uf_conv_kernel_args *args);
    /* Bytes of `packed` of conv_fprop and conv_dgrad with args->packing; 0: w is read as it is, or
     * there is no form that this packing makes or takes. UF_CONV_PACK_IN_CALL is always legal. */
    size_t (*conv_fprop_packed_bytes)(uf_context *context, const uf_conv_kernel_args *args);
    size_t (*conv_dgrad_packed_bytes)(uf_context *context, const uf_conv_kernel_args *args);
    /* 0 when not training. Backward computes the same bits with less workspace, and slower. */
    size_t (*batch_norm_forward_workspace)(uf_context *context,
                                           const uf_batch_norm_kernel_args *args);
    size_t (*batch_norm_backward_workspace)(uf_context *context,
                                            const uf_batch_norm_kernel_args *args);
    size_t (*norm_forward_workspace)(uf_context *context, const uf_norm_kernel_args *args);
    size_t (*norm_backward_workspace)(uf_context *context, const uf_norm_kernel_args *args);
    size_t (*channel_sum_workspace)(uf_context *context, const uf_channel_sum_kernel_args *args);
    size_t (*reduce_workspace)(uf_context *context, const uf_strided_kernel_args *args);
    size_t (*loss_workspace)(uf_context *context, const uf_loss_kernel_args *args); /* of forward */
};

#define UF_KERNEL(name, args, cuda) uf_status uf_cpu_##name(uf_context *context, const args *);
#include "kernels/kernels.def"
#undef UF_KERNEL

size_t uf_cpu_conv_fprop_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cpu_conv_dgrad_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cpu_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cpu_conv_fprop_packed_bytes(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cpu_conv_dgrad_packed_bytes(uf_context *context, const uf_conv_kernel_args *args);
size_t uf_cpu_batch_norm_forward_workspace(uf_context *context,
                                           const uf_batch_norm_kernel_args *args);
size_t uf_cpu_batch_norm_backward_workspace(uf_context *context,
                                            const uf_batch_norm_kernel_args *args);
size_t uf_cpu_norm_forward_workspace(uf_context *context, const uf_norm_kernel_args *args);
size_t uf_cpu_norm_backward_workspace(uf_context *context, const uf_norm_kernel_args *args);
size_t uf_cpu_channel_sum_workspace(uf_context *context, const uf_channel_sum_kernel_args *args);
size_t uf_cpu_reduce_workspace(uf_context *context, const uf_strided_kernel_args *args);
size_t uf_cpu_loss_workspace(uf_context *context, const uf_loss_kernel_args *args);

extern const struct uf_kernels uf_cpu_kernels;

/* Are these arguments legal, on any device? One function per kernel; src/kernels/check.c. */
typedef enum uf_conv_direction {
    UF_CONV_FPROP = 0,
    UF_CONV_DGRAD,
    UF_CONV_WGRAD
} uf_conv_direction;

/* The tensor that an activation's backward reads (activations.def). */
typedef enum uf_activation_read {
    UF_READS_NOTHING = 0,
    UF_READS_INPUT,
    UF_READS_RESULT,
    UF_READS_SIGN /* as INPUT; where p >= 0 the view `input` may be the output's */
} uf_activation_read;

static inline uf_activation_read uf_activation_reads(uf_activation_kind kind) {
    switch (kind) {
#define UF_ACTIVATION(name, function, forward, reads, derivative)                                  \
    case UF_ACTIVATION_##name:                                                                     \
        return UF_READS_##reads;
#include "kernels/activations.def"
#undef UF_ACTIVATION
    case UF_ACTIVATION_COUNT:
        break;
    }
    return UF_READS_NOTHING;
}

/* Kinds that have a maximum beside uf_activation's one parameter. An epilogue or a norm has no room
 * for it, so they are a step of their own. */
static inline bool uf_activation_has_maximum(uf_activation_kind kind) {
    return kind == UF_ACTIVATION_HARDTANH || kind == UF_ACTIVATION_CLAMP;
}

uf_status uf_conv_check(uf_conv_direction direction, const uf_conv_kernel_args *args);
uf_status uf_activation_check(const uf_activation_kernel_args *args, bool backward);
uf_status uf_batch_norm_check(const uf_batch_norm_kernel_args *args, bool backward);
uf_status uf_pad_check(const uf_pad_kernel_args *args, bool backward);

/* src/kernels/check_train.c */
uf_status uf_copy_check(const uf_copy_kernel_args *args);
uf_status uf_fill_check(const uf_fill_kernel_args *args);
uf_status uf_zero_check(const uf_zero_kernel_args *args);
uf_status uf_channel_sum_check(const uf_channel_sum_kernel_args *args);
uf_status uf_loss_check(const uf_loss_kernel_args *args, bool backward);
uf_status uf_cross_entropy_check(const uf_cross_entropy_kernel_args *args, bool backward);
uf_status uf_optimizer_check(const uf_optimizer_kernel_args *args);
uf_status uf_clip_check(const uf_clip_kernel_args *args, bool squares);
uf_status uf_random_check(const uf_random_kernel_args *args);
uf_status uf_record_check(const uf_record_kernel_args *args);

UF_END_DECLS

#endif
