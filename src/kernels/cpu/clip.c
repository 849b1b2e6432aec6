/* clip.c - clipping of gradients on the CPU, over flat spans. The formulas are in clip_math.inc. */
#include "kernels/kernels.h"

#include <math.h>

#include "core/parallel.h"

#define LANES 8
#define PART_ELEMENTS 1024 /* of one part, at least */
#define UNIT_ELEMENTS 16384

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/clip.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/clip.inc"
#include "kernels/cpu/real_end.inc"

typedef struct clip_loop {
    const uf_clip_kernel_args *args;
    int64_t part; /* elements of a part or unit */
    double squares;
} clip_loop;

static void add_squares(void *argument, int64_t unit, int32_t thread) {
    const clip_loop *loop = argument;
    const uf_clip_kernel_args *args = loop->args;
    const int64_t begin = unit * loop->part < args->count ? unit * loop->part : args->count;
    const int64_t left = args->count - begin;
    const int64_t end = begin + (left < loop->part ? left : loop->part);
    const double sum = args->dtype == UF_F64 ? squares_f64(args->gradient, begin, end)
                                             : squares_f32(args->gradient, begin, end);
    (void)thread;
    args->partials[unit] = args->mode == UF_ACCUMULATE ? args->partials[unit] + sum : sum;
}

uf_status uf_cpu_gradient_squares(uf_context *context, const uf_clip_kernel_args *args) {
    const int64_t part = (args->count + UF_CLIP_PARTIALS - 1) / UF_CLIP_PARTIALS;
    clip_loop loop = {.args = args, .part = part > PART_ELEMENTS ? part : PART_ELEMENTS};
    uf_parallel_for(context, UF_CLIP_PARTIALS, add_squares, &loop);
    return UF_OK;
}

static void clip_unit(void *argument, int64_t unit, int32_t thread) {
    const clip_loop *loop = argument;
    const uf_clip_kernel_args *args = loop->args;
    const int64_t begin = unit * loop->part;
    const int64_t left = args->count - begin;
    const int64_t end = begin + (left < loop->part ? left : loop->part);
    (void)thread;
    if (args->dtype == UF_F64) {
        clip_f64(args, loop->squares, begin, end);
    } else {
        clip_f32(args, loop->squares, begin, end);
    }
}

uf_status uf_cpu_gradient_clip(uf_context *context, const uf_clip_kernel_args *args) {
    clip_loop loop = {.args = args, .part = UNIT_ELEMENTS};
    for (int i = 0; args->norm > 0.0 && i < UF_CLIP_PARTIALS; ++i) {
        loop.squares += args->partials[i];
    }
    uf_parallel_for(context, (args->count + UNIT_ELEMENTS - 1) / UNIT_ELEMENTS, clip_unit, &loop);
    return UF_OK;
}
