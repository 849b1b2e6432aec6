/* strided.c - arithmetic over operands of any strides, and sums over axes, on the CPU. Rows of the
 * innermost axis are brought into small buffers, so that every term is a loop over plain arrays. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

#define SPLIT_BELOW 64      /* units of work; with fewer outputs a sum is cut into parts */
#define PART_ELEMENTS 16384 /* of one part, at least */

/* A kernel's arguments, its index space cut into units. */
typedef struct strided_loop {
    const uf_strided_kernel_args *args;
    /* broadcast */
    uf_strided space;
    int64_t row, rows; /* elements of the innermost axis; how many rows there are */
    int64_t rows_per_unit, pieces;
    /* reduce */
    uf_strided_reduction sum;
    int64_t outputs, terms;      /* of the whole; of one output */
    int64_t block, blocks;       /* neighbouring outputs of one unit; blocks of a row of them */
    int64_t groups, parts, part; /* groups of outputs; parts of a sum, terms of a part */
    double *partial;             /* [part][output]; NULL with one part */
} strided_loop;

/* Add a step along the last axis to every operand's offset. */
static inline void step_along(const uf_strided *space, int64_t steps, int64_t *offset) {
    for (int32_t k = 0; k < space->operands; ++k) {
        offset[k] += steps * space->stride[k][space->rank - 1];
    }
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/strided.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/strided.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/strided.inc"
#include "kernels/cpu/real_end.inc"

typedef void unit_function(const strided_loop *, int64_t);

static unit_function *const broadcast_units[] = {
    [UF_F32] = broadcast_unit_f32, [UF_F64] = broadcast_unit_f64, [UF_BF16] = broadcast_unit_bf16};
static unit_function *const reduce_units[] = {
    [UF_F32] = reduce_unit_f32, [UF_F64] = reduce_unit_f64, [UF_BF16] = reduce_unit_bf16};
static unit_function *const add_units[] = {
    [UF_F32] = add_unit_f32, [UF_F64] = add_unit_f64, [UF_BF16] = add_unit_bf16};

static void run_broadcast(void *argument, int64_t unit, int32_t thread) {
    const strided_loop *loop = argument;
    (void)thread;
    broadcast_units[loop->args->dtype](loop, unit);
}

static void run_reduce(void *argument, int64_t unit, int32_t thread) {
    const strided_loop *loop = argument;
    (void)thread;
    reduce_units[loop->args->dtype](loop, unit);
}

static void run_add(void *argument, int64_t unit, int32_t thread) {
    const strided_loop *loop = argument;
    (void)thread;
    add_units[loop->args->dtype](loop, unit);
}

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

uf_status uf_cpu_broadcast(uf_context *context, const uf_strided_kernel_args *args) {
    UF_TRY(uf_broadcast_check(args));
    strided_loop loop = {.args = args, .space = args->space};
    uf_strided_sort(&loop.space);
    uf_strided_simplify(&loop.space);
    loop.row = loop.space.extent[loop.space.rank - 1];
    loop.rows = uf_strided_count(&loop.space) / loop.row;
    loop.rows_per_unit = loop.row < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / loop.row : 1;
    loop.pieces = divide_up(loop.row, UF_UNIT_ELEMENTS);
    const int64_t units = divide_up(loop.rows, loop.rows_per_unit) * loop.pieces;
    uf_parallel_for(context, units, run_broadcast, &loop);
    return UF_OK;
}

/* How a sum is cut, by its shape alone: the order of its additions is the same for any number of
 * threads. */
static strided_loop plan_reduce(const uf_strided_kernel_args *args) {
    strided_loop loop = {.args = args, .sum = uf_reduction_of(&args->space)};
    const uf_strided *kept = &loop.sum.kept;
    const int64_t row = kept->extent[kept->rank - 1];
    loop.outputs = uf_strided_count(kept);
    loop.terms = uf_strided_count(&loop.sum.reduced);
    if (loop.sum.columns) {
        loop.block = row < UF_ROW ? row : UF_ROW;
        loop.blocks = divide_up(row, loop.block);
        loop.groups = loop.outputs / row * loop.blocks;
    } else {
        loop.block = loop.terms < PART_ELEMENTS ? PART_ELEMENTS / loop.terms : 1;
        loop.blocks = 1;
        loop.groups = divide_up(loop.outputs, loop.block);
    }
    const int64_t work = loop.terms * (loop.sum.columns ? loop.block : 1);
    loop.parts = loop.groups < SPLIT_BELOW ? divide_up(work, PART_ELEMENTS) : 1;
    loop.parts = loop.parts < SPLIT_BELOW ? loop.parts : SPLIT_BELOW;
    loop.parts = loop.parts < loop.terms ? loop.parts : loop.terms;
    loop.part = divide_up(loop.terms, loop.parts);
    loop.parts = divide_up(loop.terms, loop.part);
    return loop;
}

size_t uf_cpu_reduce_workspace(uf_context *context, const uf_strided_kernel_args *args) {
    const strided_loop loop = plan_reduce(args);
    (void)context;
    return loop.parts > 1 ? (size_t)(loop.parts * loop.outputs) * sizeof(double) : 0;
}

uf_status uf_cpu_reduce(uf_context *context, const uf_strided_kernel_args *args) {
    UF_TRY(uf_reduce_check(args));
    strided_loop loop = plan_reduce(args);
    const size_t needed = uf_cpu_reduce_workspace(context, args);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "reduce was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    loop.partial = loop.parts > 1 ? args->workspace : NULL;
    uf_parallel_for(context, loop.groups * loop.parts, run_reduce, &loop);
    if (loop.parts > 1) {
        uf_parallel_for(context, divide_up(loop.outputs, UF_ROW), run_add, &loop);
    }
    return UF_OK;
}
