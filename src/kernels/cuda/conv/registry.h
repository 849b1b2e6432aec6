/* registry.h - registry.def as an enum and a table. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_REGISTRY_H
#define UF_KERNELS_CUDA_CONV_REGISTRY_H

#include <limits.h>

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

#define UF_CONV_VARIANT(enumerator, name, least, most, loops) UF_CUDA_CONV_##enumerator,
typedef enum uf_cuda_conv_variant {
#include "kernels/cuda/conv/registry.def"
    UF_CUDA_CONV_VARIANTS
} uf_cuda_conv_variant;
#undef UF_CONV_VARIANT

#define UF_CONV_ANY_GPU INT_MAX

enum {
    UF_CONV_FORWARD = 1 << UF_CONV_FPROP,
    UF_CONV_DATA = 1 << UF_CONV_DGRAD,
    UF_CONV_WEIGHTS = 1 << UF_CONV_WGRAD,
    UF_CONV_CORRELATE = UF_CONV_FORWARD | UF_CONV_DATA,
    UF_CONV_F32 = 1 << UF_F32,
    UF_CONV_BF16 = 1 << UF_BF16,
    UF_CONV_F32_BF16 = UF_CONV_F32 | UF_CONV_BF16,
    UF_CONV_ANY_TYPE = UF_CONV_F32_BF16 | 1 << UF_F64
};

/* Microseconds of a call are the sum of these; see select/cost.c. */
typedef struct uf_conv_rate {
    double work;    /* factor on the plan's cost */
    double call;    /* microseconds of any call */
    double filter;  /* microseconds of a MB of w */
    double tensors; /* microseconds of a MB of x and y */
} uf_conv_rate;

/* Rates by arithmetic: the math of f32 tensors, and bf16 tensors. */
enum {
    UF_CONV_RATE_FP32,
    UF_CONV_RATE_TF32,
    UF_CONV_RATE_BF16_MATH,
    UF_CONV_RATE_BF16,
    UF_CONV_RATES
};

typedef struct uf_conv_rates {
    uf_conv_rate of[UF_CONV_RATES];
    bool measured; /* false: the main loop has no row in gpu_h200.def, and these are all 0 */
} uf_conv_rates;

typedef struct uf_conv_loop {
    const char *name;
    unsigned directions, types; /* bits: 1 << uf_conv_direction, 1 << uf_dtype */
    uf_conv_plan_function *plan;
    uf_conv_launch_function *launch;
    const uf_conv_rates *rates; /* uf_conv_rates_of (select/cost.h) reads them */
} uf_conv_loop;

typedef struct uf_conv_variant {
    const char *name;
    int least, most;           /* compute capabilities, 80 for 8.0 */
    const uf_conv_loop *loops; /* the last has no name */
} uf_conv_variant;

extern const uf_conv_variant uf_conv_variants[UF_CUDA_CONV_VARIANTS];

#define UF_CONV_LOOP(id, name, directions, types)                                                  \
    uf_conv_plan_function uf_conv_plan_##id;                                                       \
    uf_conv_launch_function uf_conv_launch_##id;
#define UF_CONV_VARIANT(enumerator, name, least, most, loops) loops
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP

UF_END_DECLS

#endif
