/* copy.c - copies and sums of views on the CPU, between f32 and bf16 with one rounding. */
#include "kernels/cpu/elementwise.h"

#include "core/bf16.h"
#include "core/parallel.h"

#define FN(name) name##_f32
#define FROM float
#define TO float
#define FROM_REAL(x) (x)
#define TO_REAL(x) (x)
#define ROUND(x) (x)
#include "kernels/cpu/copy.inc"

#define FN(name) name##_f64
#define FROM double
#define TO double
#define FROM_REAL(x) (x)
#define TO_REAL(x) (x)
#define ROUND(x) (x)
#include "kernels/cpu/copy.inc"

#define FN(name) name##_bf16
#define FROM uint16_t
#define TO uint16_t
#define FROM_REAL(x) uf_bf16_to_f32(x)
#define TO_REAL(x) uf_bf16_to_f32(x)
#define ROUND(x) uf_bf16_from_f32(x)
#include "kernels/cpu/copy.inc"

#define FN(name) name##_bf16_from_f32
#define FROM float
#define TO uint16_t
#define FROM_REAL(x) (x)
#define TO_REAL(x) uf_bf16_to_f32(x)
#define ROUND(x) uf_bf16_from_f32(x)
#include "kernels/cpu/copy.inc"

#define FN(name) name##_bf16_to_f32
#define FROM uint16_t
#define TO float
#define FROM_REAL(x) uf_bf16_to_f32(x)
#define TO_REAL(x) (x)
#define ROUND(x) (x)
#include "kernels/cpu/copy.inc"

typedef void unit_function(const uf_copy_kernel_args *, const uf_row_walk *, int64_t);

/* [from][to]: the pairs that uf_copy_check accepts. */
static unit_function *const units[][3] = {
    [UF_F32] = {[UF_F32] = copy_unit_f32, [UF_BF16] = copy_unit_bf16_from_f32},
    [UF_F64] = {[UF_F64] = copy_unit_f64},
    [UF_BF16] = {[UF_F32] = copy_unit_bf16_to_f32, [UF_BF16] = copy_unit_bf16},
};

typedef struct copy_loop {
    const uf_copy_kernel_args *args;
    uf_row_walk walk;
} copy_loop;

static void copy_unit(void *argument, int64_t unit, int32_t thread) {
    const copy_loop *loop = argument;
    (void)thread;
    units[loop->args->input.dtype][loop->args->output.dtype](loop->args, &loop->walk, unit);
}

uf_status uf_cpu_copy(uf_context *context, const uf_copy_kernel_args *args) {
    const uf_view *const views[] = {&args->input, &args->output};
    copy_loop loop = {args, uf_row_walk_of(views, 2, 0)};
    uf_parallel_for(context, loop.walk.units, copy_unit, &loop);
    return UF_OK;
}
