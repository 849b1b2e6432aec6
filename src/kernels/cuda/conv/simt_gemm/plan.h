/* plan.h - the matrices of simt_gemm/launch.cu: extents, strides and splits. Needs no GPU and no
 * toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_GEMM_PLAN_H
#define UF_KERNELS_CUDA_CONV_SIMT_GEMM_PLAN_H

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

enum {
    GEMM_TILE = 64,  /* rows and columns of a block */
    GEMM_DEPTH = 32, /* of the sum in shared memory at a time */
};

/* c[m][n] = sum over k of a[m][k] b[k][n], for every group. Strides count elements. */
typedef struct gemm_operand {
    const void *data;            /* NULL in a plan */
    int64_t group, across, deep; /* across: from row to row of a, from column to column of b */
    bool vector;                 /* four neighbours lie aligned */
} gemm_operand;

typedef struct gemm_call {
    gemm_operand a, b;
    void *c; /* NULL in a plan */
    int64_t c_group, c_row, c_column;
    bool c_vector;
    int32_t groups, m, n, k;
    int32_t tiles_m, tiles_n;
    int32_t splits;
    int32_t split_depth;       /* of k; a multiple of GEMM_DEPTH unless there is one split */
    float *partial;            /* splits > 1: [split][group][m][n]; NULL in a plan */
    const void *scale, *shift; /* by channel, which has `per_channel` columns; NULL in a plan */
    int64_t scale_stride, shift_stride;
    int32_t per_channel;
    uf_activation_kind activation;
    float parameter;
    bool accumulate;
} gemm_call;

UF_END_DECLS

#endif
