/* optimizer.c - Adam and SGD on the CPU, over flat spans. The formulas are in optimizer_math.inc. */
#include "kernels/kernels.h"

#include <math.h>

#include "kernels/cpu/parallel.h"

#define UNIT_ELEMENTS 16384

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/optimizer.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/optimizer.inc"
#include "kernels/cpu/real_end.inc"

uf_status uf_cpu_optimizer_advance(uf_context *context, const uf_optimizer_kernel_args *args) {
    (void)context;
    args->control->step += 1;
    args->control->power1 *= args->rule.beta1;
    args->control->power2 *= args->rule.beta2;
    return UF_OK;
}

uf_status uf_cpu_optimizer_step(uf_context *context, const uf_optimizer_kernel_args *args) {
    const int64_t units = (args->count + UNIT_ELEMENTS - 1) / UNIT_ELEMENTS;
    void (*const run)(const uf_optimizer_kernel_args *, int64_t, int64_t) =
        args->dtype == UF_F64 ? update_f64 : update_f32;
    UF_PARALLEL_FOR(context->threads)
    for (int64_t unit = 0; unit < units; ++unit) {
        const int64_t begin = unit * UNIT_ELEMENTS;
        const int64_t left = args->count - begin;
        run(args, begin, begin + (left < UNIT_ELEMENTS ? left : UNIT_ELEMENTS));
    }
    return UF_OK;
}
