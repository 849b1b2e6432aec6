/* softmax.c - softmax on the CPU. Where neighbours belong to one line a unit has some whole lines;
 * else it has neighbouring lines, side by side. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/geometry.h"

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/softmax.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/softmax.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/softmax.inc"
#include "kernels/cpu/real_end.inc"

/* `count` lines, the first element of the first at `offset`. */
typedef void line_function(const uf_softmax_kernel_args *, int64_t offset, int64_t count);

typedef struct softmax_loop {
    const uf_softmax_kernel_args *args;
    line_function *run;
} softmax_loop;

static int64_t lines_per_unit(const uf_softmax_kernel_args *args) {
    if (args->inner > 1) {
        return UF_ROW;
    }
    return args->extent < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / args->extent : 1;
}

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const softmax_loop *loop = argument;
    const uf_softmax_kernel_args *args = loop->args;
    const int64_t at_once = lines_per_unit(args);
    (void)thread;
    if (args->inner == 1) {
        const int64_t first = unit * at_once;
        const int64_t left = args->outer - first;
        loop->run(args, first * args->extent, left < at_once ? left : at_once);
        return;
    }
    const int64_t blocks = uf_div_up(args->inner, at_once);
    const int64_t first = unit % blocks * at_once;
    const int64_t left = args->inner - first;
    loop->run(args, unit / blocks * args->extent * args->inner + first,
              left < at_once ? left : at_once);
}

static uf_status run(uf_context *context, const uf_softmax_kernel_args *args,
                     line_function *const rows[], line_function *const columns[]) {
    const bool is_row = args->inner == 1;
    const int64_t at_once = lines_per_unit(args);
    softmax_loop loop = {args, (is_row ? rows : columns)[args->output.dtype]};
    const int64_t units =
        is_row ? uf_div_up(args->outer, at_once) : args->outer * uf_div_up(args->inner, at_once);
    uf_parallel_for(context, units, run_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_softmax_forward(uf_context *context, const uf_softmax_kernel_args *args) {
    static line_function *const rows[] = {
        [UF_F32] = forward_rows_f32, [UF_F64] = forward_rows_f64, [UF_BF16] = forward_rows_bf16};
    static line_function *const columns[] = {[UF_F32] = forward_columns_f32,
                                             [UF_F64] = forward_columns_f64,
                                             [UF_BF16] = forward_columns_bf16};
    UF_TRY(uf_softmax_check(args, false));
    return run(context, args, rows, columns);
}

uf_status uf_cpu_softmax_backward(uf_context *context, const uf_softmax_kernel_args *args) {
    static line_function *const rows[] = {
        [UF_F32] = backward_rows_f32, [UF_F64] = backward_rows_f64, [UF_BF16] = backward_rows_bf16};
    static line_function *const columns[] = {[UF_F32] = backward_columns_f32,
                                             [UF_F64] = backward_columns_f64,
                                             [UF_BF16] = backward_columns_bf16};
    UF_TRY(uf_softmax_check(args, true));
    return run(context, args, rows, columns);
}
