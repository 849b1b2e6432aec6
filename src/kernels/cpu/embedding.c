/* embedding.c - rows of a matrix chosen by indices, on the CPU. A unit of backward owns a tile of
 * the gradient and walks all indices: ceil(count / 64) * ceil(width / 64) walks, which cost as much
 * as writing the gradient where there are some thousand indices. No list is made, no memory
 * needed, and each sum has the order of the indices for any number of threads. */
#include "kernels/cpu/elementwise.h"

#include <math.h>
#include <string.h>

#include "core/bf16.h"
#include "core/parallel.h"

#define TILE 64 /* rows and columns of the gradient; its sums are 32 KB on the stack */

static inline int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows of the output that a unit of forward writes. */
static inline int64_t rows_per_unit(const uf_embedding_kernel_args *args) {
    return args->width < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / args->width : 1;
}

static inline int64_t tiles_across(const uf_embedding_kernel_args *args) {
    return (args->width + TILE - 1) / TILE;
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/embedding.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/embedding.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/embedding.inc"
#include "kernels/cpu/real_end.inc"

typedef void unit_function(const uf_embedding_kernel_args *, int64_t);

static unit_function *const forward_units[] = {
    [UF_F32] = forward_unit_f32, [UF_F64] = forward_unit_f64, [UF_BF16] = forward_unit_bf16};
static unit_function *const backward_units[] = {
    [UF_F32] = backward_unit_f32, [UF_F64] = backward_unit_f64, [UF_BF16] = backward_unit_bf16};

static void run_forward(void *argument, int64_t unit, int32_t thread) {
    const uf_embedding_kernel_args *args = argument;
    (void)thread;
    forward_units[args->output.dtype](args, unit);
}

static void run_backward(void *argument, int64_t unit, int32_t thread) {
    const uf_embedding_kernel_args *args = argument;
    (void)thread;
    backward_units[args->grad_output.dtype](args, unit);
}

uf_status uf_cpu_embedding_forward(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args call = *args;
    const int64_t rows = uf_view_count(&args->indices), here = rows_per_unit(args);
    uf_parallel_for(context, (rows + here - 1) / here, run_forward, &call);
    return UF_OK;
}

uf_status uf_cpu_embedding_backward(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args call = *args;
    const int64_t units = (args->count + TILE - 1) / TILE * tiles_across(args);
    uf_parallel_for(context, units, run_backward, &call);
    return UF_OK;
}
