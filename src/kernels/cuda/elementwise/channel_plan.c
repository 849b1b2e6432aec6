/* channel_plan.c - see channel_plan.h. */
#include "kernels/cuda/elementwise/channel_plan.h"

#include <stdbool.h>

enum {
    WARP = 32,
    LEAST_RUN = 64,   /* bytes of neighbouring channels that a warp reads at least, where it can */
    MANY_BLOCKS = 512 /* some for each multiprocessor of a large GPU */
};

/* The block's threads as lanes x channels x rows. */
static void shape_block(uf_channel_plan *plan, int64_t channels) {
    plan->lanes = WARP;
    while (plan->lanes > plan->plane) {
        plan->lanes /= 2;
    }
    plan->channels = WARP / plan->lanes;
    while (plan->channels / 2 >= channels) {
        plan->channels /= 2;
    }
    plan->lanes = WARP / plan->channels;
    plan->rows = UF_CHANNEL_BLOCK / WARP;
    /* Short channels: threads that would have nothing to do take other channels. */
    while (plan->rows > 1 && plan->lanes * plan->rows / 2 >= plan->vectors &&
           plan->channels < channels) {
        plan->rows /= 2;
        plan->channels *= 2;
    }
}

/* Does a piece of UF_CHANNEL_STEPS steps have the whole channel? Fewer channels a block may help.
 */
static bool fit_whole(uf_channel_plan *plan, size_t element) {
    uf_channel_plan tried = *plan;
    const int64_t bytes = (int64_t)element * plan->width;
    while (uf_channel_team(&tried) * UF_CHANNEL_STEPS < plan->vectors && tried.channels > 1 &&
           tried.lanes * tried.channels / 2 * bytes >= LEAST_RUN) {
        tried.channels /= 2;
        tried.rows *= 2;
    }
    if (uf_channel_team(&tried) * UF_CHANNEL_STEPS < plan->vectors) {
        return false;
    }
    *plan = tried;
    return true;
}

uf_channel_plan uf_channel_plan_of(const int64_t extent[4], size_t element) {
    const int64_t pixels = extent[2] * extent[3];
    const int64_t width = 16 / (int64_t)element;
    uf_channel_plan plan;
    plan.width = pixels % width == 0 ? (int32_t)width : 1;
    plan.plane = pixels / plan.width;
    plan.vectors = extent[0] * plan.plane;
    shape_block(&plan, extent[1]);
    const bool whole = fit_whole(&plan, element);
    const int64_t team = uf_channel_team(&plan);
    plan.groups = uf_div_up(extent[1], plan.channels);
    plan.steps = whole ? uf_div_up(plan.vectors, team) : UF_CHANNEL_STEPS;
    while (!whole && plan.steps > 1 &&
           plan.groups * uf_div_up(plan.vectors, team * plan.steps) < MANY_BLOCKS) {
        plan.steps /= 2;
    }
    const int64_t least = uf_div_up(plan.vectors, team * UF_CHANNEL_PIECES);
    plan.steps = plan.steps > least ? plan.steps : least;
    plan.pieces = uf_div_up(plan.vectors, team * plan.steps);
    return plan;
}
