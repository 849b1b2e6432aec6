/* copy.c - copies and sums of views on the CPU. */
#include "kernels/cpu/elementwise.h"

#include "core/parallel.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/copy.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/copy.inc"
#include "kernels/cpu/real_end.inc"

typedef struct copy_loop {
    const uf_copy_kernel_args *args;
    uf_row_walk walk;
} copy_loop;

static void copy_unit(void *argument, int64_t unit, int32_t thread) {
    const copy_loop *loop = argument;
    (void)thread;
    if (loop->args->input.dtype == UF_F64) {
        copy_unit_f64(loop->args, &loop->walk, unit);
    } else {
        copy_unit_f32(loop->args, &loop->walk, unit);
    }
}

uf_status uf_cpu_copy(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_view *const views[] = {&args->input, &args->output};
    copy_loop loop = {args, uf_row_walk_of(views, 2, 0)};
    uf_parallel_for(context, loop.walk.units, copy_unit, &loop);
    return UF_OK;
}
