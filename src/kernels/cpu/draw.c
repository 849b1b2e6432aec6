/* draw.c - dropout and noise on the CPU. The arithmetic is in random_math.h. */
#include "kernels/kernels.h"

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/random_math.h"

#define UNIT_ELEMENTS 8192 /* a multiple of 4: a block's numbers are one unit's */

/* Where element i in C order lies, and how many follow it without a gap. */
static inline int64_t place_of(const uf_view *view, int64_t i, int64_t *left) {
    const int64_t image = view->extent[1] * view->extent[2] * view->extent[3];
    const int64_t n = i / image;
    *left = (n + 1) * image - i;
    return n * view->stride[0] + (i - n * image);
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/draw.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/draw.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/draw.inc"
#include "kernels/cpu/real_end.inc"

typedef void dropout_range(const uf_dropout_kernel_args *, int64_t, int64_t);
typedef void noise_range(const uf_noise_kernel_args *, int64_t, int64_t);

static dropout_range *const dropout_ranges[] = {
    [UF_F32] = dropout_range_f32, [UF_F64] = dropout_range_f64, [UF_BF16] = dropout_range_bf16};
static noise_range *const noise_ranges[] = {
    [UF_F32] = noise_range_f32, [UF_F64] = noise_range_f64, [UF_BF16] = noise_range_bf16};

static int64_t end_of(const uf_view *view, int64_t unit) {
    const int64_t count = uf_view_count(view);
    const int64_t end = (unit + 1) * UNIT_ELEMENTS;
    return end < count ? end : count;
}

static int64_t units_of(const uf_view *view) {
    return (uf_view_count(view) + UNIT_ELEMENTS - 1) / UNIT_ELEMENTS;
}

static void dropout_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_dropout_kernel_args *args = argument;
    (void)thread;
    dropout_ranges[args->output.dtype](args, unit * UNIT_ELEMENTS, end_of(&args->output, unit));
}

static void noise_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_noise_kernel_args *args = argument;
    (void)thread;
    noise_ranges[args->output.dtype](args, unit * UNIT_ELEMENTS, end_of(&args->output, unit));
}

uf_status uf_cpu_dropout(uf_context *context, const uf_dropout_kernel_args *args) {
    uf_dropout_kernel_args call = *args;
    uf_parallel_for(context, units_of(&args->output), dropout_unit, &call);
    return UF_OK;
}

uf_status uf_cpu_noise(uf_context *context, const uf_noise_kernel_args *args) {
    uf_noise_kernel_args call = *args;
    uf_parallel_for(context, units_of(&args->output), noise_unit, &call);
    return UF_OK;
}

uf_status uf_cpu_random_advance(uf_context *context, const uf_random_advance_kernel_args *args) {
    (void)context;
    *args->step += 1;
    return UF_OK;
}
