/* pool.c - pooling on the CPU. A unit is some rows of one image and channel. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/geometry.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/pool.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/pool.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/pool.inc"
#include "kernels/cpu/real_end.inc"

/* Rows `begin` to `end` - 1 of the written image n, channel c. */
typedef void rows_function(const uf_pool_kernel_args *, int64_t n, int64_t c, int64_t begin,
                           int64_t end);

typedef struct pool_loop {
    const uf_pool_kernel_args *args;
    const uf_view *written;
    int64_t rows_per_unit, bands; /* bands: units of a plane */
    rows_function *run;
} pool_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const pool_loop *loop = argument;
    const int64_t plane = unit / loop->bands;
    const int64_t begin = unit % loop->bands * loop->rows_per_unit;
    const int64_t left = loop->written->extent[2] - begin;
    const int64_t rows = left < loop->rows_per_unit ? left : loop->rows_per_unit;
    (void)thread;
    loop->run(loop->args, plane / loop->written->extent[1], plane % loop->written->extent[1], begin,
              begin + rows);
}

static void run(uf_context *context, const uf_pool_kernel_args *args, const uf_view *written,
                rows_function *const functions[]) {
    const int64_t width = written->extent[3];
    pool_loop loop = {.args = args, .written = written, .run = functions[written->dtype]};
    loop.rows_per_unit = width < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / width : 1;
    loop.bands = uf_div_up(written->extent[2], loop.rows_per_unit);
    uf_parallel_for(context, written->extent[0] * written->extent[1] * loop.bands, run_unit, &loop);
}

uf_status uf_cpu_pool_forward(uf_context *context, const uf_pool_kernel_args *args) {
    static rows_function *const functions[] = {
        [UF_F32] = forward_rows_f32, [UF_F64] = forward_rows_f64, [UF_BF16] = forward_rows_bf16};
    UF_TRY(uf_pool_check(args, false));
    run(context, args, &args->output, functions);
    return UF_OK;
}

uf_status uf_cpu_pool_backward(uf_context *context, const uf_pool_kernel_args *args) {
    static rows_function *const functions[] = {
        [UF_F32] = backward_rows_f32, [UF_F64] = backward_rows_f64, [UF_BF16] = backward_rows_bf16};
    UF_TRY(uf_pool_check(args, true));
    run(context, args, &args->grad_input, functions);
    return UF_OK;
}
