/* pool.c - pooling on the CPU. */
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/planes.h"

#include <math.h>

#include "core/bf16.h"
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

uf_status uf_cpu_pool_forward(uf_context *context, const uf_pool_kernel_args *args) {
    static uf_plane_rows *const functions[] = {
        [UF_F32] = forward_rows_f32, [UF_F64] = forward_rows_f64, [UF_BF16] = forward_rows_bf16};
    UF_TRY(uf_pool_check(args, false));
    uf_each_plane_rows(context, &args->output, args, functions);
    return UF_OK;
}

uf_status uf_cpu_pool_backward(uf_context *context, const uf_pool_kernel_args *args) {
    static uf_plane_rows *const functions[] = {
        [UF_F32] = backward_rows_f32, [UF_F64] = backward_rows_f64, [UF_BF16] = backward_rows_bf16};
    UF_TRY(uf_pool_check(args, true));
    uf_each_plane_rows(context, &args->grad_input, args, functions);
    return UF_OK;
}
