/* plan_cache.h - what was chosen for the last few convolutions of a context: choosing costs tens of
 * microseconds of the host, as long as a small convolution takes. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_PLAN_CACHE_H
#define UF_KERNELS_CUDA_CONV_SELECT_PLAN_CACHE_H

#include "kernels/cuda/conv/select/autotune.h"

UF_BEGIN_DECLS

enum { UF_CONV_PLAN_CACHE_SLOTS = 64 /* a power of two: more than a network has layers */ };

/* Everything that a choice or a size of scratch may depend on besides the device, in integers
 * without gaps. */
typedef struct uf_conv_plan_cache_key {
    uf_conv_key of;
    int64_t strides[3][4], aligned[3]; /* x, w, y; of their addresses the last bits */
    int64_t mode, epilogue;
} uf_conv_plan_cache_key;

typedef struct uf_conv_plan_cache_row {
    bool known;
    uf_conv_plan_cache_key key;
    uf_cuda_conv_variant variant;
    size_t workspace; /* bytes */
} uf_conv_plan_cache_row;

/* All zero is empty. */
typedef struct uf_conv_plan_cache {
    uf_conv_plan_cache_row rows[UF_CONV_PLAN_CACHE_SLOTS];
} uf_conv_plan_cache;

/* The row for these arguments: `known`, or to be filled in by the caller. What was there before is
 * forgotten. The arguments force no variant. */
uf_conv_plan_cache_row *uf_conv_plan_cache_row_of(uf_conv_plan_cache *plan_cache,
                                                  uf_conv_direction direction,
                                                  const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
