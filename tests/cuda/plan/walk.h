/* walk.h - one harness for the tests of plans. A family tells how its kernel walks a plan; the
 * harness owns the layers, the definition of a convolution, and the count.
 *
 * A term is a multiply-add: an element of y, one of x and one of w, in every direction the same
 * three. Terms of neighbouring channels are told together. The harness demands that each term of
 * the definition is made exactly once, that no other one is made, and that each written element is
 * stored as often as the plan has copies of it. Terms with an element outside of a tensor are
 * products with zero: they may be made, and do not count.
 *
 * How often the channels (k, c) of a term were made is not counted one by one: each k has a random
 * number, each c too, and a rectangle adds the sum of its k times the sum of its c. Any other cover
 * of the channels than each pair once gives another sum, but for one chance in about 2^60. */
#ifndef TEST_CUDA_PLAN_WALK_H
#define TEST_CUDA_PLAN_WALK_H

#include "support/test.h"

#include "core/tensor.h"
#include "cuda/plan/layers.h"
#include "cuda/plan/random_conv.h"
#include "support/random.h"

enum {
    PLAN_FPROP = 1 << UF_CONV_FPROP,
    PLAN_DGRAD = 1 << UF_CONV_DGRAD,
    PLAN_WGRAD = 1 << UF_CONV_WGRAD,
    PLAN_KINDS = 16, /* of plans that a family counts, at most */
    PLAN_TILES = 16
};

/* Numbers that every plan has; but for the cost and grid[0] one of 0 is not looked at. */
typedef struct plan_facts {
    double cost;                 /* in any unit */
    int64_t grid[3];             /* CTAs */
    int64_t threads;             /* of a CTA */
    int64_t shared, most_shared; /* bytes of a CTA, and what it may have */
    int64_t workspace;           /* bytes */
    int64_t copies;              /* of each written element, that another kernel adds; 0: one */
} plan_facts;

/* Channels from the first to before the second, of a group; positions of the small side, of the
 * large one, of the filter. */
typedef struct plan_term {
    int64_t n, group, small[2], large[2], tap[2], k[2], c[2];
} plan_term;

typedef struct plan_walk plan_walk;

typedef struct plan_family {
    const char *name;
    unsigned directions; /* PLAN_FPROP and so on */
    size_t size;         /* of a plan */
    /* Random layers: within limits, or drawn by the family. */
    const conv_limits *limits;
    void (*draw)(test_random *random, plan_layer *layer); /* direction is given */
    int64_t cases;
    bool (*plan)(const plan_layer *layer, void *plan);
    /* In its place, of a family that chooses among tiles: the plan of one, or UF_CONV_ANY_TILE.
     * Each number below `tiles` must be walked: all of each named layer, one in turn of each random
     * one.
     */
    bool (*tiled)(const plan_layer *layer, int tile, void *plan);
    int tiles;         /* at most PLAN_TILES */
    bool all_tiles;    /* of random layers, too */
    unsigned no_plans; /* bits: numbers that every layer refuses */
    plan_facts (*facts)(const plan_layer *layer, const void *plan);
    /* Tells the harness all that the kernel does with the plan. */
    void (*walk)(plan_walk *walk, const plan_layer *layer, const void *plan);
    /* The same of some tiles of a layer that is too large to be walked: each term is looked at, and
     * none is counted. NULL: nothing. */
    void (*some)(plan_walk *walk, const plan_layer *layer, const void *plan, test_random *random);
    /* Whatever else is true of the family's plans, of any size. NULL: nothing. */
    void (*check)(const plan_layer *layer, const void *plan, test_random *random);
    /* Kinds of plans of any tile that must all come: their names, NULL behind the last, and which a
     * plan is. */
    const char *kinds[PLAN_KINDS];
    int64_t least_seen[PLAN_KINDS]; /* plans of each kind; 0: one */
    void (*count)(const plan_layer *layer, const void *plan, int64_t seen[PLAN_KINDS]);
    int64_t least_walked; /* of all layers */
} plan_family;

/* ---- for adapters ---- */

void plan_make(plan_walk *walk, const plan_term *term);

/* Stores the written element of a term; the other two are not looked at. */
void plan_store(plan_walk *walk, const plan_term *term);

/* Shares of 0 to `all`, in order: each begins where the last one ended, and is not empty. */
void plan_share(plan_walk *walk, int64_t begin, int64_t end, int64_t all);

/* The tile that is asked for. */
int plan_tile(void);

/* Bytes of shared memory that are nobody else's, at a multiple of `unit`. */
void plan_claim(plan_walk *walk, int64_t begin, int64_t bytes, int64_t unit);

/* ---- for tests ---- */

/* All layers of a family: a test of its own, which prints the layer that failed. */
void plan_test(void **state);
int plan_teardown(void **state);
#define plan_unit_test(family)                                                                     \
    { (family)->name, plan_test, NULL, plan_teardown, (void *)(uintptr_t)(family) }

/* One layer, which must be taken with any tile; `plan` is its plan. */
void plan_examine(const plan_family *family, const plan_layer *layer, void *plan,
                  test_random *random);

/* A test that looks at layers itself says which one it is at. */
void plan_at(const plan_layer *layer);

#endif
