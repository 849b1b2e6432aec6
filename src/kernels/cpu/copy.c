/* copy.c - copies and sums of views on the CPU. */
#include "kernels/cpu/elementwise.h"

#include "kernels/cpu/parallel.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/copy.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/copy.inc"
#include "kernels/cpu/real_end.inc"

uf_status uf_cpu_copy(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_view *const views[] = {&args->input, &args->output};
    const uf_row_walk walk = uf_row_walk_of(views, 2, 0);
    void (*const run)(const uf_copy_kernel_args *, const uf_row_walk *, int64_t) =
        args->input.dtype == UF_F64 ? copy_unit_f64 : copy_unit_f32;
    UF_PARALLEL_FOR(context->threads)
    for (int64_t unit = 0; unit < walk.units; ++unit) {
        run(args, &walk, unit);
    }
    return UF_OK;
}
