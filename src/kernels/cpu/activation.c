/* activation.c - activations on the CPU. The formulas are in activations.def. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/activation.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/activation.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/activation.inc"
#include "kernels/cpu/real_end.inc"

typedef void unit_function(const uf_activation_kernel_args *, const uf_row_walk *, int64_t);

static unit_function *const forward_units[] = {
    [UF_F32] = forward_unit_f32, [UF_F64] = forward_unit_f64, [UF_BF16] = forward_unit_bf16};
static unit_function *const backward_units[] = {
    [UF_F32] = backward_unit_f32, [UF_F64] = backward_unit_f64, [UF_BF16] = backward_unit_bf16};

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
    activation_loop loop = {args, uf_row_walk_of(views, 2, 0), forward_units[args->input.dtype]};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_activation_backward(uf_context *context, const uf_activation_kernel_args *args) {
    const uf_activation_read reads = uf_activation_reads(args->activation.kind);
    const uf_view *const views[] = {&args->grad_output, &args->grad_input,
                                    reads == UF_READS_RESULT ? &args->output : &args->input};
    activation_loop loop = {args, uf_row_walk_of(views, reads == UF_READS_NOTHING ? 2 : 3, 0),
                            backward_units[args->grad_output.dtype]};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}
