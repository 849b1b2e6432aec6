/* costs.c - the plans of matrices of measurements, and the regret of the choice among them. */
#include "costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/select/choose.h"
#include "kernels/cuda/conv/select/explain.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

void bench_rates_built_in(bench_rates *rates) {
    rates->count = 0;
#define UF_CONV_LOOP(ID, NAME, DIRECTIONS, TYPES)                                                  \
    rates->id[rates->count] = #ID;                                                                 \
    rates->loop[rates->count] = loop;                                                              \
    rates->of[rates->count++] = *uf_conv_rates_of(loop++);
#define UF_CONV_VARIANT(ENUMERATOR, NAME, LEAST, MOST, LOOPS)                                      \
    {                                                                                              \
        const uf_conv_loop *loop = uf_conv_variants[UF_CUDA_CONV_##ENUMERATOR].loops;              \
        LOOPS                                                                                      \
    }
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP
}

static int index_of(const bench_rates *rates, const uf_conv_loop *loop) {
    int i = 0;
    while (rates->loop[i] != loop) {
        ++i;
    }
    return i;
}

static bench_candidate *add(bench_candidates *to) {
    if (to->count == to->room) {
        const int64_t room = to->room == 0 ? 1024 : 2 * to->room;
        bench_candidate *larger = realloc(to->at, (size_t)room * sizeof *to->at);
        if (larger == NULL) {
            return NULL;
        }
        to->at = larger;
        to->room = room;
    }
    bench_candidate *const made = &to->at[to->count++];
    memset(made, 0, sizeof *made);
    made->inner_measured = -1;
    return made;
}

/* The plans of a transform's inner problem, one for each variant that takes it. */
static bool add_inner(bench_costs *costs, bench_candidate *of, const uf_conv_problem *problem,
                      const bench_rates *rates) {
    const char *const measured = strchr(of->row->main_loop, '/');
    of->inner = costs->inner.count;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        uf_conv_plan plan = {.inner = NULL};
        char name[64];
        if (!uf_conv_plan_variant(problem, (uf_cuda_conv_variant)v, &plan)) {
            continue;
        }
        bench_candidate *const made = add(&costs->inner);
        if (made == NULL) {
            return false;
        }
        (void)snprintf(name, sizeof name, "%s/%s", uf_conv_variants[v].name, plan.loop_name);
        if (measured != NULL && strcmp(measured + 1, name) == 0) {
            of->inner_measured = costs->inner.count - 1;
        }
        made->row = of->row;
        made->loop = index_of(rates, plan.loop);
        made->arithmetic = uf_conv_arithmetic(problem->args);
        made->of = uf_conv_features_of(problem, plan.cost);
    }
    of->inners = costs->inner.count - of->inner;
    return true;
}

/* A row's layer as the library sees it. The problem points into it: it does not move. */
typedef struct layer {
    uf_conv_kernel_args args;
    uf_gpu gpu;
    uf_conv_problem problem;
} layer;

static void layer_of(const bench_matrix_row *row, layer *made) {
    static const uf_conv_direction direction_of[] = {UF_CONV_DGRAD, UF_CONV_FPROP, UF_CONV_WGRAD};
    made->gpu = uf_gpu_h200();
    bench_kernel_args(&row->shape, row->dtype, row->math, &made->args);
    made->problem = uf_conv_problem_of(direction_of[row->op], &made->args, &made->gpu);
}

static bool plan_tile(const layer *of, uf_cuda_conv_variant variant, int tile,
                      uf_conv_plan plan[2]) {
    uf_conv_problem problem = of->problem;
    problem.tile = tile;
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    return uf_conv_plan_variant(&problem, variant, plan);
}

/* The main loop of a transform is its own here, whatever its inner plan is now. */
static bool has_loop(const bench_matrix_row *row, const uf_conv_plan *plan) {
    const size_t length = strcspn(row->main_loop, "/");
    return strlen(plan->loop_name) == length &&
           strncmp(row->main_loop, plan->loop_name, length) == 0;
}

static bool has_inner(const uf_conv_plan *plan) {
    return plan->inner != NULL && plan->inner->loop != NULL;
}

/* Was the row's plan the same, as far as words say? Those of a transform are of its inner plan,
 * which the rates choose. */
static bool is_same(const bench_matrix_row *row, const layer *of, const uf_conv_plan *plan) {
    char words[sizeof row->plan];
    uf_conv_explain_plan(&of->problem, plan, words, sizeof words);
    return has_loop(row, plan) &&
           (row->plan[0] == '\0' || has_inner(plan) || strcmp(row->plan, words) == 0);
}

static bool was_own(const bench_matrix_row *row) {
    return row->tile < 0 || row->own_tile;
}

/* The row of a variant's plan of now among `count` rows of it in a cell: that of the same words,
 * else that of its own tile then; NULL: it had another main loop. */
static const bench_matrix_row *row_of(const bench_matrix_row *rows, int64_t count, const layer *of,
                                      const uf_conv_plan *plan, bool *same) {
    const bench_matrix_row *found = NULL;
    *same = false;
    for (int64_t i = 0; i < count && !*same; ++i) {
        const bool own = was_own(&rows[i]) && has_loop(&rows[i], plan);
        *same = is_same(&rows[i], of, plan) && (rows[i].ms > 0.0 || own);
        found = *same || (found == NULL && own) ? &rows[i] : found;
    }
    return found;
}

static bool add_candidate(bench_costs *costs, const bench_matrix_row *row, const layer *of,
                          const uf_conv_plan *plan, const bench_rates *rates) {
    bench_candidate *const made = add(&costs->rows);
    if (made == NULL) {
        return false;
    }
    made->row = row;
    made->loop = index_of(rates, plan->loop);
    made->arithmetic = uf_conv_arithmetic(&of->args);
    made->from_80 = uf_conv_variants[plan->variant].least <= 80 &&
                    uf_conv_variants[plan->variant].most == UF_CONV_ANY_GPU;
    made->us = row->ms > 0.0 ? 1e3 * row->ms : row->estimate_us;
    if (!has_inner(plan)) {
        made->of = uf_conv_features_of(&of->problem, plan->cost);
        return true;
    }
    const uf_space_to_depth_plan *const moves = UF_CONV_CONST_PLAN_OF(uf_space_to_depth_plan, plan);
    const uf_conv_problem inner =
        uf_conv_problem_of(of->problem.direction, &moves->inner, &of->gpu);
    made->of = uf_conv_features_of(&of->problem, moves->cost);
    return add_inner(costs, made, &inner, rates);
}

/* Does the variant still have the row's plan, by any number? Numbers of tiles shift. */
static bool is_there(const bench_matrix_row *row, const layer *of, uf_cuda_conv_variant variant,
                     int tiles) {
    uf_conv_plan plan[2];
    if (row->tile < 0) {
        return false; /* nothing but its own tile of that day */
    }
    for (int i = -1; i < tiles; ++i) {
        const int tile = i < 0 ? row->tile : i;
        if (plan_tile(of, variant, tile, plan) && is_same(row, of, plan)) {
            return true;
        }
    }
    return false;
}

/* The rows of a variant in a cell. A variant that does not take the layer is no candidate, nor is
 * one of which nothing says how long it takes. False: out of memory. */
static bool add_variant(bench_costs *costs, bench_choice *choice, const bench_matrix_row *rows,
                        int64_t count, const bench_rates *rates) {
    const uf_cuda_conv_variant variant = uf_conv_forced_of(rows->variant).variant;
    uf_conv_plan own[2];
    layer of;
    bool same = false;
    layer_of(rows, &of);
    const bool takes = plan_tile(&of, variant, UF_CONV_ANY_TILE, own);
    const bench_matrix_row *const row = takes ? row_of(rows, count, &of, own, &same) : NULL;
    for (int64_t i = 0; i < count; ++i) {
        /* A tile that is not the variant's own is one that a better plan might take. */
        const bool is = &rows[i] == row || (takes && is_there(&rows[i], &of, variant, own->tiles));
        costs->gone += !is;
        choice->best = is && rows[i].ms > 0.0 ? fmin(choice->best, 1e3 * rows[i].ms) : choice->best;
        choice->was = rows[i].chosen ? 1e3 * rows[i].ms : choice->was;
    }
    costs->changed += takes && !same;
    return row == NULL || (row->ms <= 0.0 && row->estimate_us <= 0.0) ||
           add_candidate(costs, row, &of, own, rates);
}

static bool same_cell(const bench_matrix_row *a, const bench_matrix_row *b) {
    return strcmp(a->shape.name, b->shape.name) == 0 && strcmp(a->shape.list, b->shape.list) == 0 &&
           a->op == b->op && a->dtype == b->dtype && a->math == b->math;
}

static bool add_matrix(bench_costs *costs, const bench_matrix *matrix, int index,
                       const bench_rates *rates) {
    for (int64_t i = 0, next; i < matrix->count; i = next) {
        const bench_matrix_row *const rows = &matrix->rows[i];
        if (i == 0 || !same_cell(rows, rows - 1)) {
            costs->choices[costs->choice_count++] =
                (bench_choice){.matrix = index, .first = costs->rows.count, .best = HUGE_VAL};
        }
        for (next = i + 1; next < matrix->count && same_cell(rows, &matrix->rows[next]) &&
                           strcmp(rows->variant, matrix->rows[next].variant) == 0;) {
            ++next;
        }
        bench_choice *const choice = &costs->choices[costs->choice_count - 1];
        if (!add_variant(costs, choice, rows, next - i, rates)) {
            return false;
        }
        choice->count = costs->rows.count - choice->first;
        if (choice->count > 0) {
            choice->arithmetic = costs->rows.at[choice->first].arithmetic;
        }
    }
    return true;
}

bench_costs *bench_costs_create(const bench_matrix *const *matrices, int count,
                                const bench_rates *rates) {
    int64_t rows = 1;
    for (int i = 0; i < count; ++i) {
        rows += matrices[i]->count;
    }
    bench_costs *const costs = calloc(1, sizeof *costs);
    if (costs == NULL) {
        return NULL;
    }
    costs->choices = calloc((size_t)rows, sizeof *costs->choices);
    bool made = costs->choices != NULL;
    for (int i = 0; i < count && made; ++i) {
        made = add_matrix(costs, matrices[i], i, rates);
    }
    if (!made) {
        bench_costs_destroy(costs);
        return NULL;
    }
    return costs;
}

void bench_costs_destroy(bench_costs *costs) {
    if (costs != NULL) {
        free(costs->rows.at);
        free(costs->inner.at);
        free(costs->choices);
        free(costs);
    }
}

uf_conv_features bench_costs_features(const bench_costs *costs, const bench_candidate *of,
                                      const bench_rates *rates, int64_t *inner) {
    uf_conv_features features = of->of;
    double least = HUGE_VAL;
    *inner = -1;
    for (int64_t i = of->inner; i < of->inner + of->inners; ++i) {
        const bench_candidate *const one = &costs->inner.at[i];
        const double us = uf_conv_estimate(&one->of, &rates->of[one->loop], one->arithmetic);
        if (us < least) {
            least = us;
            *inner = i;
        }
    }
    features.work += *inner >= 0 ? least : 0.0;
    return features;
}

double bench_costs_estimate(const bench_costs *costs, const bench_candidate *of,
                            const bench_rates *rates, int64_t *inner) {
    const uf_conv_features features = bench_costs_features(costs, of, rates, inner);
    return uf_conv_estimate(&features, &rates->of[of->loop], of->arithmetic);
}

const bench_candidate *bench_costs_chosen(const bench_costs *costs, const bench_choice *choice,
                                          const bench_rates *rates, bool *known) {
    const bench_candidate *chosen = NULL;
    double least = HUGE_VAL;
    *known = false;
    for (int64_t i = choice->first; i < choice->first + choice->count; ++i) {
        const bench_candidate *const one = &costs->rows.at[i];
        int64_t inner;
        const double us = bench_costs_estimate(costs, one, rates, &inner);
        if (us < least) {
            least = us;
            chosen = one;
            *known = one->row->ms > 0.0 && inner == one->inner_measured;
        }
    }
    return chosen;
}

bench_regret bench_regret_of(const bench_costs *costs, int arithmetic, int matrix, const char *list,
                             const bench_rates *rates) {
    bench_regret regret = {0.0, 0.0, NULL, 0, 0};
    double logs = 0.0;
    for (int64_t i = 0; i < costs->choice_count; ++i) {
        const bench_choice *const choice = &costs->choices[i];
        bool known;
        const bench_candidate *const chosen = bench_costs_chosen(costs, choice, rates, &known);
        if (chosen == NULL || choice->arithmetic != arithmetic ||
            (matrix >= 0 && choice->matrix != matrix) ||
            (list != NULL && strcmp(list, chosen->row->shape.list) != 0)) {
            continue;
        }
        if (!known) {
            ++regret.unknown;
            continue;
        }
        const double ratio = chosen->us / choice->best;
        logs += log(ratio);
        ++regret.cells;
        if (ratio - 1.0 > regret.worst || regret.worst_row == NULL) {
            regret.worst = ratio - 1.0;
            regret.worst_row = chosen->row;
        }
    }
    regret.mean = regret.cells > 0 ? expm1(logs / (double)regret.cells) : 0.0;
    return regret;
}
