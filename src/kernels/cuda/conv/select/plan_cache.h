/* plan_cache.h - the plans of the last convolutions of a context: choosing costs tens of
 * microseconds of the host, as long as a small convolution takes. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_PLAN_CACHE_H
#define UF_KERNELS_CUDA_CONV_SELECT_PLAN_CACHE_H

#include "kernels/cuda/conv/select/autotune.h"

UF_BEGIN_DECLS

enum { UF_CONV_PLAN_CACHE_SLOTS = 64 /* a power of two: more than a network has layers */ };

/* Everything that a plan may depend on besides the device, in integers without gaps. */
typedef struct uf_conv_plan_cache_key {
    uf_conv_key of;
    int64_t strides[3][4], aligned[3]; /* x, w, y; of their addresses the last bits */
    int64_t mode, epilogue;
    int64_t forced, tile; /* variant + 1, or 0; its tile + 1, or 0 */
} uf_conv_plan_cache_key;

typedef struct uf_conv_plan_cache_row {
    uf_conv_plan_cache_key key;
    uf_conv_plan *plan; /* owned, with its inner plan; NULL: not known yet */
} uf_conv_plan_cache_row;

/* All zero is empty. */
typedef struct uf_conv_plan_cache {
    uf_conv_plan_cache_row rows[UF_CONV_PLAN_CACHE_SLOTS];
} uf_conv_plan_cache;

/* The row for these arguments, with its plan, or for uf_conv_plan_cache_keep. The plan that was
 * there before is forgotten. */
uf_conv_plan_cache_row *uf_conv_plan_cache_row_of(uf_conv_plan_cache *plan_cache,
                                                  uf_conv_direction direction,
                                                  const uf_conv_kernel_args *args);

/* The arguments for the plan function of a plan that is kept: nothing in them differs between two
 * calls of one key. They have the last bits of addresses, and neither a workspace nor a packed form
 * nor an epilogue's numbers, so that no plan can hold one call's for another. */
uf_conv_kernel_args uf_conv_plan_cache_args(const uf_conv_kernel_args *args);

/* A copy of the plan in the row; without memory for it the row stays unknown. */
void uf_conv_plan_cache_keep(uf_conv_plan_cache_row *row, const uf_conv_plan *plan);

void uf_conv_plan_cache_release(uf_conv_plan_cache *plan_cache);

UF_END_DECLS

#endif
