/* norm.c - instance, group and layer norm on the CPU. Each statistic and each parameter's gradient
 * is summed in f64 by one thread: the same bits for any number of threads. */
#include "kernels/norm.h"

#include <math.h>
#include <string.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa.h"

/* How many of `left` elements the next stretch has. */
static inline int64_t uf_piece(int64_t left) {
    return left < UF_ROW ? left : UF_ROW;
}

/* The loops of one element type. */
typedef struct norm_loops {
    void (*forward_row)(const uf_norm_kernel_args *args, int64_t o);
    void (*backward_row)(const uf_norm_kernel_args *args, int64_t o);
    void (*forward_columns)(const uf_norm_kernel_args *args, int64_t o, int64_t first);
    void (*backward_columns)(const uf_norm_kernel_args *args, int64_t o, int64_t first);
    void (*parameters)(const uf_norm_kernel_args *args, int64_t group, int64_t first,
                       int64_t count);
    void (*running)(const uf_norm_kernel_args *args);
} norm_loops;

#define UF_VARIANTS_OF "kernels/cpu/norm_types.inc"
#include "kernels/cpu/variants.inc"

static const norm_loops *loops_for(uf_dtype dtype) {
    static const norm_loops *const by_isa[] = UF_BY_ISA(loops);
    return &by_isa[uf_cpu_isa_detect()][dtype];
}

typedef struct norm_call {
    const uf_norm_kernel_args *args;
    const norm_loops *loops;
    bool backward;
    int64_t blocks;  /* units of one o, or of one group's parameters */
    int64_t at_once; /* parameters of a unit */
} norm_call;

static void statistics_unit(void *argument, int64_t unit, int32_t thread) {
    const norm_call *call = argument;
    const norm_loops *loops = call->loops;
    const int64_t o = unit / call->blocks, first = unit % call->blocks * UF_ROW;
    (void)thread;
    if (call->args->layout.inner == 1) {
        (call->backward ? loops->backward_row : loops->forward_row)(call->args, o);
    } else {
        (call->backward ? loops->backward_columns : loops->forward_columns)(call->args, o, first);
    }
}

static void each_statistic(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    const uf_norm_layout *layout = &args->layout;
    norm_call call = {args, loops_for(args->input.dtype), backward, 1, 0};
    if (layout->inner > 1) {
        call.blocks = (layout->inner + UF_ROW - 1) / UF_ROW;
    }
    uf_parallel_for(context, layout->outer * call.blocks, statistics_unit, &call);
}

static void parameters_unit(void *argument, int64_t unit, int32_t thread) {
    const norm_call *call = argument;
    const uf_norm_layout *layout = &call->args->layout;
    const int64_t params = layout->size / layout->run; /* of a group */
    const int64_t first = unit % call->blocks * call->at_once;
    const int64_t count = params - first < call->at_once ? params - first : call->at_once;
    (void)thread;
    call->loops->parameters(call->args, unit / call->blocks, first, count);
}

uf_status uf_cpu_norm_forward(uf_context *context, const uf_norm_kernel_args *args) {
    each_statistic(context, args, false);
    if (args->running_mean.data != NULL && args->layout.outer > 0) {
        loops_for(args->input.dtype)->running(args);
    }
    return UF_OK;
}

uf_status uf_cpu_norm_backward(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_norm_layout *layout = &args->layout;
    /* Before grad_input, which may be grad_output's memory. */
    if (args->grad_weight.data != NULL || args->grad_bias.data != NULL) {
        const int64_t params = layout->size / layout->run;
        const int64_t length = layout->run * layout->inner;
        norm_call call = {args, loops_for(args->input.dtype), true, 0, 0};
        call.at_once = length < UF_ROW ? UF_ROW / length : 1;
        call.blocks = (params + call.at_once - 1) / call.at_once;
        uf_parallel_for(context, layout->groups * call.blocks, parameters_unit, &call);
    }
    if (args->grad_input.data != NULL) {
        each_statistic(context, args, true);
    }
    return UF_OK;
}

size_t uf_cpu_norm_forward_workspace(uf_context *context, const uf_norm_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

size_t uf_cpu_norm_backward_workspace(uf_context *context, const uf_norm_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}
