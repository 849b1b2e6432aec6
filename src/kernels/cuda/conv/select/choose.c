/* choose.c - the choice of a main loop: of those that take the problem, the one that select/cost.c
 * expects to be the fastest. */
#include "kernels/cuda/conv/select/choose.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/select/cost.h"

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

uf_cuda_conv_variant uf_cuda_conv_variant_of(const char *name) {
    int v = 0;
    while (v < UF_CUDA_CONV_VARIANTS && strcmp(name, uf_conv_variants[v].name) != 0) {
        ++v;
    }
    return (uf_cuda_conv_variant)v;
}

static bool takes(const uf_conv_loop *loop, const uf_conv_problem *problem) {
    return (loop->directions >> problem->direction & 1) != 0 &&
           (loop->types >> problem->args->x.dtype & 1) != 0;
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
    if (plan->inner != NULL) {
        plan->inner->loop = NULL; /* until a transform makes a plan for it */
    }
    for (const uf_conv_loop *loop = of->loops; loop->name != NULL; ++loop) {
        plan->variant = (int)variant;
        plan->loop = loop;
        plan->loop_name = loop->name;
        if (takes(loop, problem) && loop->plan(problem, plan)) {
            plan->microseconds = uf_conv_microseconds(problem, plan);
            return true;
        }
    }
    return false;
}

static uf_status forced(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const char *const name = problem->args->variant;
    if (uf_conv_plan_variant(problem, uf_cuda_conv_variant_of(name), plan)) {
        return UF_OK;
    }
    char known[64 * UF_CUDA_CONV_VARIANTS];
    size_t used = 0;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (uf_conv_plan_variant(problem, (uf_cuda_conv_variant)v, plan)) {
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
    const uf_conv_problem aligned = {problem->direction, &args, problem->gpu};
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
    if (uf_conv_is_empty(problem)) {
        (void)uf_conv_plan_variant(problem, UF_CUDA_CONV_NAIVE, plan); /* nothing to be fast at */
    } else {
        fastest_anywhere(problem, plan);
    }
    return UF_OK;
}

void uf_conv_plan_inner(const uf_conv_problem *problem, uf_conv_plan *plan) {
    plan->inner = NULL;
    fastest(problem, plan);
}
