/* choose.c - the choice of a main loop: of those that take the problem, the one that select/cost.c
 * expects to be the fastest. */
#include "kernels/cuda/conv/select/choose.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/select/cost.h"

enum { MOST_DIGITS = 4 /* of a tile's number */ };

static const char *const direction_names[] = {
    [UF_CONV_FPROP] = "conv_fprop",
    [UF_CONV_DGRAD] = "conv_dgrad",
    [UF_CONV_WGRAD] = "conv_wgrad",
};

uf_gpu uf_gpu_h200(void) {
    const uf_gpu gpu = {.capability = 90,
                        .multiprocessors = 132,
                        .shared_per_block = 227 << 10,
                        .cycles_per_microsecond = 1755.0};
    return gpu;
}

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS ? uf_conv_variants[variant].name
                                                     : "not a variant";
}

uf_conv_forced uf_conv_forced_of(const char *text) {
    uf_conv_forced forced = {UF_CUDA_CONV_VARIANTS, UF_CONV_ANY_TILE};
    const size_t length = strcspn(text, ":");
    if (text[length] == ':') {
        const char *const digits = text + length + 1;
        const size_t count = strspn(digits, "0123456789");
        if (count < 1 || count > MOST_DIGITS || digits[count] != '\0') {
            return forced;
        }
        forced.tile = 0;
        for (size_t i = 0; i < count; ++i) {
            forced.tile = forced.tile * 10 + (digits[i] - '0');
        }
    }
    int v = 0;
    while (v < UF_CUDA_CONV_VARIANTS && (strncmp(text, uf_conv_variants[v].name, length) != 0 ||
                                         uf_conv_variants[v].name[length] != '\0')) {
        ++v;
    }
    forced.variant = (uf_cuda_conv_variant)v;
    return forced;
}

static bool takes(const uf_conv_loop *loop, const uf_conv_problem *problem) {
    return (loop->directions >> problem->direction & 1) != 0 &&
           (loop->types >> problem->args->x.dtype & 1) != 0;
}

/* Whatever a plan function need not set. */
static void begin(uf_conv_plan *plan, uf_cuda_conv_variant variant, const uf_conv_loop *loop) {
    plan->variant = (int)variant;
    plan->loop = loop;
    plan->loop_name = loop->name;
    plan->tile = 0;
    plan->tiles = 1;
    plan->packed = plan->workspace_apart = 0;
    plan->packs_alone = false;
    plan->writes_f32 = false;
    if (plan->inner != NULL) {
        plan->inner->loop = NULL; /* until a transform makes a plan for it */
    }
}

bool uf_conv_plan_variant(const uf_conv_problem *problem, uf_cuda_conv_variant variant,
                          uf_conv_plan *plan) {
    if ((unsigned)variant >= UF_CUDA_CONV_VARIANTS) {
        return false;
    }
    const uf_conv_variant *const of = &uf_conv_variants[variant];
    if (problem->gpu->capability < of->least || problem->gpu->capability > of->most) {
        return false;
    }
    const uf_conv_problem any = uf_conv_any_tile(problem);
    for (const uf_conv_loop *loop = of->loops; loop->name != NULL; ++loop) {
        begin(plan, variant, loop);
        if (takes(loop, problem) && loop->plan(&any, plan)) {
            /* A tile is asked of the main loop that computes the problem, and of no other one. */
            if (!uf_conv_is_tile(problem->tile, plan->tile)) {
                if (problem->tile < 0 || problem->tile >= plan->tiles) {
                    return false;
                }
                begin(plan, variant, loop);
                if (!loop->plan(problem, plan)) {
                    return false;
                }
            }
            plan->microseconds = uf_conv_microseconds(problem, plan);
            return true;
        }
    }
    return false;
}

static uf_status forced(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const char *const name = problem->args->variant;
    const uf_conv_forced asked = uf_conv_forced_of(name);
    const uf_conv_problem any = uf_conv_any_tile(problem);
    uf_conv_problem tiled = any;
    tiled.tile = asked.tile;
    if (uf_conv_plan_variant(&tiled, asked.variant, plan)) {
        return UF_OK;
    }
    if (asked.tile != UF_CONV_ANY_TILE && uf_conv_plan_variant(&any, asked.variant, plan)) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "\"%s\" asks %s for tile %d, which the main loop %s does not have for these "
                "arguments: it has some of 0 to %d",
                name, direction_names[problem->direction], asked.tile, plan->loop_name,
                plan->tiles - 1);
    }
    char known[64 * UF_CUDA_CONV_VARIANTS];
    size_t used = 0;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (uf_conv_plan_variant(&any, (uf_cuda_conv_variant)v, plan)) {
            /* The names are ours and short: they fit. */
            used += (size_t)snprintf(known + used, sizeof known - used, "%s\"%s\"",
                                     used > 0 ? ", " : "", uf_conv_variants[v].name);
        }
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED,
            "no variant \"%s\" of %s takes these arguments on a GPU of compute capability %d.%d; "
            "these do: %s",
            name, direction_names[problem->direction], problem->gpu->capability / 10,
            problem->gpu->capability % 10, known);
}

/* A copy of the plan, and of its inner one. */
static void keep(uf_conv_plan *to, const uf_conv_plan *from) {
    uf_conv_plan *const inner = to->inner;
    *to = *from;
    to->inner = inner;
    if (inner != NULL) {
        *inner = *from->inner;
    }
}

/* The fastest plan with at most `most` bytes of scratch; false where none has so few. */
static bool fastest_within(const uf_conv_problem *problem, size_t most, uf_conv_plan *plan) {
    uf_conv_plan candidate[2];
    bool found = false;
    candidate[0].inner = plan->inner != NULL ? &candidate[1] : NULL;
    candidate[1].inner = NULL;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (uf_conv_plan_variant(problem, (uf_cuda_conv_variant)v, candidate) &&
            candidate->workspace <= most &&
            (!found || candidate->microseconds < plan->microseconds)) {
            keep(plan, candidate);
            found = true;
        }
    }
    return found;
}

/* naive takes everything, so that there always is a plan. */
static void fastest(const uf_conv_problem *problem, uf_conv_plan *plan) {
    (void)fastest_within(problem, SIZE_MAX, plan);
}

/* As far as plans may ask (problem.h). */
static bool is_aligned(const uf_conv_kernel_args *args) {
    return (((uintptr_t)args->x.data | (uintptr_t)args->w.data | (uintptr_t)args->y.data) & 127) ==
           0;
}

/* A workspace query may come before the tensors, whose addresses it then takes for aligned. Where
 * they are not, a variant that wants more scratch than the query said does not count. There is one
 * that does not: the plan of the variant that the query found has room for any address. */
static void fastest_anywhere(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_conv_kernel_args args = *problem->args;
    const uf_conv_problem aligned = uf_conv_problem_of(problem->direction, &args, problem->gpu);
    args.x.data = args.w.data = args.y.data = NULL;
    fastest(&aligned, plan);
    if (!is_aligned(problem->args) && !fastest_within(problem, plan->workspace, plan)) {
        fastest(problem, plan);
    }
}

uf_status uf_conv_choose(const uf_conv_problem *problem, uf_conv_plan *plan) {
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    if (problem->args->variant != NULL) {
        return forced(problem, plan);
    }
    const uf_conv_problem any = uf_conv_any_tile(problem);
    if (uf_conv_is_empty(problem)) {
        (void)uf_conv_plan_variant(&any, UF_CUDA_CONV_NAIVE, plan); /* nothing to be fast at */
    } else {
        fastest_anywhere(&any, plan);
    }
    return UF_OK;
}

void uf_conv_plan_inner(const uf_conv_problem *problem, uf_conv_plan *plan) {
    plan->inner = NULL;
    fastest(problem, plan);
}
