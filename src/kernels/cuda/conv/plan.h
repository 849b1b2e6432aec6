/* plan.h - a plan: a main loop's decision for one problem, made once, kept in the plan cache,
 * launched any number of times. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_PLAN_H
#define UF_KERNELS_CUDA_CONV_PLAN_H

#include "kernels/cuda/conv/problem.h"

UF_BEGIN_DECLS

#ifdef __cplusplus
#define UF_ALIGNED(bytes) alignas(bytes)
#else
#define UF_ALIGNED(bytes) _Alignas(bytes)
#endif

enum { UF_CONV_PLAN_BYTES = 5120 };

typedef struct uf_conv_plan {
    int variant;                     /* uf_cuda_conv_variant */
    const struct uf_conv_loop *loop; /* of the variant */
    const char *loop_name;           /* in tables; a plan function may say more than its row does */
    int tile, tiles;                 /* see Tiles */
    double cost;                     /* cycles on problem->gpu, by the main loop's own model */
    double microseconds;             /* cost with the rates of select/cost.c */
    size_t workspace;                /* bytes */
    size_t packed;          /* bytes of the form of w that may outlive a call; 0: there is none */
    size_t workspace_apart; /* bytes of a call that has that form elsewhere */
    bool packs_alone;       /* the form is not made by a call that uses it */
    bool writes_f32;        /* a launch also takes an f32 w, of any strides, as the gradient of bf16
                               factors */
    struct uf_conv_plan *inner; /* room for a transform's inner plan; NULL: no transform may plan */
    UF_ALIGNED(16)
    unsigned char own[UF_CONV_PLAN_BYTES]; /* the main loop's own plan, of its type */
} uf_conv_plan;

/* False: the main loop does not take the problem. Else cost, workspace and own are set; own plans
 * hold no address. The problem of a plan that is kept has no workspace, no packed form and no
 * numbers of an epilogue (uf_conv_plan_cache_args): they are each call's own.
 *
 * Tiles. A main loop that chooses among tile shapes, or among splits of a forward GEMM, numbers
 * them: from the order of its own list and the problem, whatever its model says. With problem->tile
 * set, its plan function takes that tile or refuses. It sets plan->tile to the one it took, and
 * plan->tiles beyond the last number; numbers below may be refused. The model chooses the rest of a
 * tile. A main loop without a choice leaves both as they are, 0 and 1. The splits of a weight
 * gradient have no numbers: they follow from the shape and the tile. */
typedef bool uf_conv_plan_function(const uf_conv_problem *problem, uf_conv_plan *plan);

/* Runs a plan of this problem, or of one with the same key in the plan cache. It takes addresses,
 * the epilogue's numbers and the workspace from the problem, and chooses nothing again.
 * Asynchronous on the context's stream. */
typedef uf_status uf_conv_launch_function(uf_context *context, const uf_conv_problem *problem,
                                          const uf_conv_plan *plan);

/* The main loop's own plan as a pointer to its type. */
#define UF_CONV_PLAN_OF(type, plan)                                                                \
    ((type *)(void *)((plan)->own + 0 * sizeof(char[sizeof(type) <= UF_CONV_PLAN_BYTES ? 1 : -1])))

#define UF_CONV_CONST_PLAN_OF(type, plan)                                                          \
    ((const type *)(const void *)((plan)->own +                                                    \
                                  0 * sizeof(char[sizeof(type) <= UF_CONV_PLAN_BYTES ? 1 : -1])))

UF_END_DECLS

#endif
