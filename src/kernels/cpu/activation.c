/* activation.c - activations on the CPU. The formulas are in activations.def. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/cpu/isa.h"

typedef void unit_function(const uf_activation_kernel_args *, const uf_row_walk *, int64_t);

/* The loops of one instruction set, by element type. */
typedef struct activation_units {
    unit_function *forward[UF_BF16 + 1], *backward[UF_BF16 + 1];
} activation_units;

#define UF_VARIANTS_OF "kernels/cpu/activation_types.inc"
#include "kernels/cpu/variants.inc"

static const activation_units *units_here(void) {
    static const activation_units *const by_isa[] = UF_BY_ISA(&units);
    return by_isa[uf_cpu_isa_detect()];
}

typedef struct activation_loop {
    const uf_activation_kernel_args *args;
    uf_row_walk walk;
    unit_function *run;
} activation_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const activation_loop *loop = argument;
    (void)thread;
    loop->run(loop->args, &loop->walk, unit);
}

uf_status uf_cpu_activation_forward(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_view *const views[] = {&args->input, &args->output};
    activation_loop loop = {args, uf_row_walk_of(views, 2, 0),
                            units_here()->forward[args->input.dtype]};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_activation_backward(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_activation_read reads = uf_activation_reads(args->activation.kind);
    const uf_view *const views[] = {&args->grad_output, &args->grad_input,
                                    reads == UF_READS_RESULT ? &args->output : &args->input};
    activation_loop loop = {args, uf_row_walk_of(views, reads == UF_READS_NOTHING ? 2 : 3, 0),
                            units_here()->backward[args->grad_output.dtype]};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}
