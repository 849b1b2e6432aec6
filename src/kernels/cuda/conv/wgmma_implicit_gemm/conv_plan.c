/* conv_plan.c - plans of wgmma_implicit_gemm and wgmma_split_f16 as objects: limits, cost,
 * workspace.
 */
#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"

enum { MOST_TILES = 1 << 30 }; /* kernels count tiles in 32 bits */

/* Cycles to store phases one after the other, in parts of sectors. */
static double step_cost(const uf_conv_problem *problem) {
    const uf_conv_kernel_args *const args = problem->args;
    const double written = (double)uf_view_count(&args->x);
    const bool one_row = args->x.extent[2] == 1;
    return problem->direction != UF_CONV_DGRAD || args->stride[1] < 4 ? 0.0
           : args->x.dtype == UF_BF16                                 ? written * 0.003
                                      : written * (one_row ? 0.012 : 0.007);
}

/* Models divide by extents. */
static double cost_of(const uf_conv_problem *problem, const uf_wgmma_geometry *geometry) {
    return uf_conv_is_empty(problem) ? 0.0 : geometry->cost + step_cost(problem);
}

static bool writes_nothing(const uf_conv_problem *problem) {
    return uf_view_count(uf_conv_written(problem)) == 0;
}

/* Without an element to write there are no tiles to divide by, and no launch. */
static mma_plan mma_of(const uf_conv_problem *problem, const uf_conv_kernel_args *canonical) {
    mma_plan none;
    memset(&none, 0, sizeof none);
    return writes_nothing(problem)
               ? none
               : uf_mma_shape_of(problem->direction, canonical, UF_CONV_ANY_TILE);
}

bool uf_wgmma_take(const uf_conv_problem *problem, uf_wgmma_plan *plan) {
    const uf_conv_kernel_args *const args = problem->args;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    if ((args->x.dtype != UF_F32 && args->x.dtype != UF_BF16) ||
        !uf_conv_tiles_fit(problem->direction, args) ||
        !uf_wgmma_geometry_of(problem->direction, &canonical, problem->tile, &plan->geometry) ||
        plan->geometry.tiles >= MOST_TILES) {
        return false;
    }
    plan->mma = mma_of(problem, &canonical);
    return true;
}

bool uf_conv_plan_wgmma_implicit_gemm(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_wgmma_plan *const own = UF_CONV_PLAN_OF(uf_wgmma_plan, plan);
    if (!uf_wgmma_take(problem, own)) {
        return false;
    }
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
    plan->tile = uf_wgmma_tile_of(&own->geometry);
    plan->tiles = UF_WGMMA_TILES;
    plan->cost = cost_of(problem, &own->geometry);
    plan->workspace = writes_nothing(problem)
                          ? 0
                          : uf_wgmma_workspace(problem->direction, &canonical, &own->geometry);
    if (plan->workspace > 0) {
        plan->packed = (size_t)uf_wgmma_packed_bytes(&own->geometry, canonical.groups);
        plan->workspace_apart = plan->workspace - plan->packed;
    }
    return true;
}

bool uf_conv_plan_wgmma_split_f16(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_wgmma_split_f16_plan *const own = UF_CONV_PLAN_OF(uf_wgmma_split_f16_plan, plan);
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
    if (problem->args->x.dtype != UF_F32 || !uf_conv_tiles_fit(problem->direction, problem->args) ||
        !uf_wgmma_split_f16_of(problem->direction, &canonical, problem->tile, &own->geometry) ||
        own->geometry.tiles >= MOST_TILES) {
        return false;
    }
    plan->tile = uf_wgmma_tile_of(&own->geometry);
    plan->tiles = UF_WGMMA_SPLIT_F16_TILES;
    own->fixup = uf_wgmma_fixup(problem->direction, &canonical, &own->geometry);
    own->mma = mma_of(problem, &canonical);
    plan->cost = cost_of(problem, &own->geometry);
    plan->workspace =
        writes_nothing(problem)
            ? 0
            : uf_wgmma_split_f16_workspace(problem->direction, &canonical, own, false);
    if (plan->workspace > 0) {
        plan->packed = UF_WGMMA_SPLIT_F16_RANGE_BYTES +
                       (size_t)uf_wgmma_packed_bytes(&own->geometry, canonical.groups);
        plan->workspace_apart =
            uf_wgmma_split_f16_workspace(problem->direction, &canonical, own, true);
        plan->packs_alone = true;
    }
    return true;
}
