/* activation.c - activations on the CPU. The formulas are in activations.def. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/parallel.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/activation.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/activation.inc"
#include "kernels/cpu/real_end.inc"

typedef struct activation_loop {
    const uf_activation_kernel_args *args;
    uf_row_walk walk;
    void (*run)(const uf_activation_kernel_args *, const uf_row_walk *, int64_t);
} activation_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const activation_loop *loop = argument;
    (void)thread;
    loop->run(loop->args, &loop->walk, unit);
}

uf_status uf_cpu_activation_forward(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_view *const views[] = {&args->input, &args->output};
    activation_loop loop = {args, uf_row_walk_of(views, 2, 0),
                            args->input.dtype == UF_F64 ? forward_unit_f64 : forward_unit_f32};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_activation_backward(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_activation_read reads = uf_activation_reads(args->activation.kind);
    const uf_view *const views[] = {&args->grad_output, &args->grad_input,
                                    reads == UF_READS_RESULT ? &args->output : &args->input};
    activation_loop loop = {args, uf_row_walk_of(views, reads == UF_READS_NOTHING ? 2 : 3, 0),
                            args->grad_output.dtype == UF_F64 ? backward_unit_f64
                                                              : backward_unit_f32};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}
