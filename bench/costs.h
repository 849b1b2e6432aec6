/* costs.h - what matrices of measurements say about the choice of variants, with any rates. Needs
 * the CUDA toolkit and no GPU. */
#ifndef BENCH_COSTS_H
#define BENCH_COSTS_H

#include "kernels/cuda/conv/select/cost.h"
#include "matrix.h"

UF_BEGIN_DECLS

enum { BENCH_MOST_LOOPS = 64 };

/* Rates of every main loop, in the order of registry.def. */
typedef struct bench_rates {
    int count;
    const char *id[BENCH_MOST_LOOPS];
    const uf_conv_loop *loop[BENCH_MOST_LOOPS];
    uf_conv_rates of[BENCH_MOST_LOOPS];
} bench_rates;

/* Those of gpu_h200.def. */
void bench_rates_built_in(bench_rates *rates);

/* A plan as the cost model sees it. */
typedef struct bench_candidate {
    const bench_matrix_row *row; /* has the layer of the plan */
    int loop;                    /* of bench_rates */
    int arithmetic;
    bool from_80;           /* its variant runs from compute capability 8.0 on */
    uf_conv_features of;    /* of a transform: work without the inner plan */
    double us;              /* measured, or the matrix' estimate; inner plans: 0 */
    int64_t inner, inners;  /* of costs->inner: what a transform chooses from */
    int64_t inner_measured; /* the one of these that ran; below 0: it is none of them */
} bench_candidate;

/* A layer, operation, type and math: what the choice chooses from, each variant with its own tile.
 */
typedef struct bench_choice {
    int matrix;
    int64_t first, count; /* of costs->rows */
    int arithmetic;
    double best; /* microseconds: the least of all times, of any tile that there is */
    double was;  /* those of the choice when the matrix was measured; 0: not known */
} bench_choice;

typedef struct bench_candidates {
    bench_candidate *at;
    int64_t count, room;
} bench_candidates;

typedef struct bench_costs {
    bench_candidates rows, inner;
    bench_choice *choices;
    int64_t choice_count;
    int64_t gone;    /* rows of plans that there are no longer: ignored */
    int64_t changed; /* plans that have no row of their own: that of the variant's own tile then
                        stands in, if the main loop is the same */
} bench_costs;

/* Every plan of the matrices, which are borrowed; NULL: out of memory. The rows of a cell stand
 * together in them. Rows may come from an older build: a row counts where the variant still takes
 * its layer by its main loop, with a plan in the same words. */
bench_costs *bench_costs_create(const bench_matrix *const *matrices, int count,
                                const bench_rates *rates);
void bench_costs_destroy(bench_costs *costs);

/* Microseconds that a candidate takes by these rates; *inner: which inner plan, or -1. */
double bench_costs_estimate(const bench_costs *costs, const bench_candidate *of,
                            const bench_rates *rates, int64_t *inner);

/* The features with what inner plans add to the work, for these rates. */
uf_conv_features bench_costs_features(const bench_costs *costs, const bench_candidate *of,
                                      const bench_rates *rates, int64_t *inner);

/* The candidate of the least estimate. *known: it was timed, with the inner plan of now. */
const bench_candidate *bench_costs_chosen(const bench_costs *costs, const bench_choice *choice,
                                          const bench_rates *rates, bool *known);

typedef struct bench_regret {
    double mean;  /* of time of the choice over the least of all variants, less 1: geometric, over
                     cells */
    double worst; /* of a cell */
    const bench_matrix_row *worst_row; /* a row of that cell */
    int64_t cells, unknown;            /* by whether the choice was timed */
} bench_regret;

/* Over the cells of an arithmetic in a matrix and a list of layers; matrix below 0: in all, list
 * NULL: of all. */
bench_regret bench_regret_of(const bench_costs *costs, int arithmetic, int matrix, const char *list,
                             const bench_rates *rates);

UF_END_DECLS

#endif
