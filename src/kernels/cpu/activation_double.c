/* activation_double.c - the second derivatives of activations on the CPU. The formulas are in
 * activation_curves.def. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/activation_double.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/activation_double.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/activation_double.inc"
#include "kernels/cpu/real_end.inc"

typedef struct curve_loop {
    const uf_activation_double_kernel_args *args;
    uf_row_walk walk;
    void (*run)(const uf_activation_double_kernel_args *, const uf_row_walk *, int64_t);
} curve_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const curve_loop *loop = argument;
    (void)thread;
    loop->run(loop->args, &loop->walk, unit);
}

uf_status uf_cpu_activation_double_backward(uf_context *context,
                                            const uf_activation_double_kernel_args *args) {
    const uf_view *const views[] = {&args->grad_output, &args->grad, &args->source,
                                    &args->grad_source};
    UF_TRY(uf_activation_double_check(args));
    curve_loop loop = {args, uf_row_walk_of(views, 4, 0),
                       args->source.dtype == UF_F64    ? unit_f64
                       : args->source.dtype == UF_BF16 ? unit_bf16
                                                       : unit_f32};
    uf_parallel_for(context, loop.walk.units, run_unit, &loop);
    return UF_OK;
}
