/* channel_plan.c - see channel_plan.h. */
#include "kernels/cuda/norm/channel_plan.h"

enum {
    WARP = 32,
    LEAST_RUN = 64,   /* bytes of neighbouring channels that a warp reads at least, where it can */
    GOOD_RUN = 128,   /* the same, where more blocks are the only reason for a shorter one */
    FEW_STEPS = 2,    /* vectors that a thread has at least, where blocks of fewer channels share */
    MANY_BLOCKS = 512 /* four for each multiprocessor of a large GPU: all are resident at once */
};

/* The logarithm of a power of two. */
static int32_t bits_of(int32_t power) {
    int32_t bits = 0;
    while ((1 << bits) < power) {
        ++bits;
    }
    return bits;
}

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

/* Whole channels: blocks of fewer channels, until all multiprocessors have some. */
static void spread(uf_channel_plan *plan, int64_t channels, size_t element) {
    const int64_t bytes = (int64_t)element * plan->width;
    while (plan->channels > 1 && uf_div_up(channels, plan->channels) < MANY_BLOCKS &&
           plan->lanes * plan->channels / 2 * bytes >= GOOD_RUN &&
           2 * uf_channel_team(plan) * FEW_STEPS <= plan->vectors) {
        plan->channels /= 2;
        plan->rows *= 2;
    }
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
    if (whole) {
        spread(&plan, extent[1], element);
    }
    plan.lane_bits = bits_of(plan.lanes);
    plan.unit_bits = bits_of(plan.lanes * plan.channels);
    const int64_t team = uf_channel_team(&plan);
    plan.step_images = team / plan.plane;
    plan.step_vectors = team % plan.plane;
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
