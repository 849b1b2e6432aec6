/* cost.h - how long a plan takes. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_COST_H
#define UF_KERNELS_CUDA_CONV_SELECT_COST_H

#include "kernels/cuda/conv/registry.h"

UF_BEGIN_DECLS

/* Microseconds for a plan whose loop and cost are set: structure here, figures in gpu_h200.def. */
double uf_conv_microseconds(const uf_conv_problem *problem, const uf_conv_plan *plan);

/* Multiply-adds of a problem; and the cost where a multiprocessor makes 128 of them a cycle. */
double uf_conv_multiply_adds(const uf_conv_problem *problem);
double uf_conv_multiply_add_cost(const uf_conv_problem *problem);

UF_END_DECLS

#endif
