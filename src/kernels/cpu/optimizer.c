/* optimizer.c - Adam, RMSprop and SGD on the CPU, over flat spans. The formulas are in
 * optimizer_math.inc.
 */
#include "kernels/kernels.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

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

static void update_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_optimizer_kernel_args *args = argument;
    const int64_t begin = unit * UNIT_ELEMENTS;
    const int64_t left = args->count - begin;
    const int64_t end = begin + (left < UNIT_ELEMENTS ? left : UNIT_ELEMENTS);
    (void)thread;
    if (args->dtype == UF_F64) {
        update_f64(args, begin, end);
    } else {
        update_f32(args, begin, end);
    }
}

uf_status uf_cpu_optimizer_step(uf_context *context, const uf_optimizer_kernel_args *args) {
    const int64_t units = (args->count + UNIT_ELEMENTS - 1) / UNIT_ELEMENTS;
    uf_optimizer_kernel_args call = *args;
    uf_parallel_for(context, units, update_unit, &call);
    return UF_OK;
}
