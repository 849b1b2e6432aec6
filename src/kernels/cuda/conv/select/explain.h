/* explain.h - a plan in words, for benchmarks and tests. Needs no GPU. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_EXPLAIN_H
#define UF_KERNELS_CUDA_CONV_SELECT_EXPLAIN_H

#include "kernels/cuda/conv/registry.h"

UF_BEGIN_DECLS

/* "main loop", or "transform/VARIANT/main loop" where a plan has an inner one. */
void uf_conv_explain_loop(const uf_conv_plan *plan, char *text, size_t size);

/* Tile, stages and splits of a plan that was made for the problem, or of its inner plan; empty for
 * main loops that have nothing to say. Cut off where `size` is too small. */
void uf_conv_explain_plan(const uf_conv_problem *problem, const uf_conv_plan *plan, char *text,
                          size_t size);

UF_END_DECLS

#endif
