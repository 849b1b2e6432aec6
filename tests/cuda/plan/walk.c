/* walk.c - see cuda/plan/walk.h. */
#include "cuda/plan/walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/problem.h"

enum {
    MOST_SLOTS = 1 << 16,  /* terms of a pair of channels in a layer that is walked */
    MOST_WORK = 1 << 18,   /* these, times the channels' likely tiles */
    MOST_CALLS = 32 << 20, /* of a family's walks; then its layers are only looked at */
    MOST_CLAIMS = 512,
    GRID_X = 0x7fffffff,
    GRID_YZ = 65535,
    THREADS = 1024
};

struct plan_walk {
    const plan_layer *layer;
    plan_facts facts;
    int64_t batch, groups, k, c; /* channels of a group */
    uint64_t *of_k, *of_c;       /* sums of the numbers before each channel */
    int64_t slots, places;
    uint64_t *made;   /* by group, n, p, q, r, s */
    uint64_t *stored; /* by written element but for its channels */
    int64_t shared_until, shares;
    int64_t claims, claim[MOST_CLAIMS][2];
    int64_t calls;
};

/* The layer and the tile under test, for the message behind a failure. */
static plan_layer current;
static int current_tile = UF_CONV_ANY_TILE;
static bool is_open;

void plan_at(const plan_layer *layer) {
    is_open = layer != NULL;
    if (layer != NULL) {
        current = *layer;
    }
}

int plan_tile(void) {
    return current_tile;
}

int plan_teardown(void **state) {
    (void)state;
    if (is_open) {
        char text[PLAN_TEXT];
        plan_print(&current, text);
        print_error("failed at UNFURL_TEST_LAYER=\"%s\", tile %d\n", text, current_tile);
        is_open = false;
    }
    return 0;
}

/* ---- terms ---- */

static uint64_t number_of(uint64_t i) { /* splitmix64 */
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t *sums_of(int64_t count, uint64_t seed) {
    uint64_t *const sums = test_allocate((size_t)(count + 1) * sizeof *sums);
    sums[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
        sums[i + 1] = sums[i] + number_of(seed + (uint64_t)i);
    }
    return sums;
}

static int64_t clip(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

static uint64_t sum_in(const uint64_t *sums, int64_t count, const int64_t range[2]) {
    assert_true(range[0] <= range[1]);
    return sums[clip(range[1], count)] - sums[clip(range[0], count)];
}

static bool is_inside(const int64_t at[2], const uf_view *view) {
    return at[0] >= 0 && at[0] < view->extent[2] && at[1] >= 0 && at[1] < view->extent[3];
}

static int64_t slot_of(const plan_walk *walk, const plan_term *term) {
    const int64_t *y = walk->layer->args.y.extent, *w = walk->layer->args.w.extent;
    int64_t at = (term->group * walk->batch + term->n) * y[2] + term->small[0];
    at = (at * y[3] + term->small[1]) * w[2] + term->tap[0];
    return at * w[3] + term->tap[1];
}

void plan_make(plan_walk *walk, const plan_term *term) {
    const uf_conv_kernel_args *args = &walk->layer->args;
    ++walk->calls;
    assert_true(term->group >= 0 && term->group < walk->groups);
    if (term->n < 0 || term->n >= walk->batch || !is_inside(term->small, &args->y) ||
        !is_inside(term->large, &args->x) || !is_inside(term->tap, &args->w)) {
        return;
    }
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t named = term->small[axis] * args->stride[axis] - args->padding[axis] +
                              term->tap[axis] * args->dilation[axis];
        if (named != term->large[axis]) {
            fail_msg(
                "n %lld, axis %d: y's element %lld meets tap %lld at x's element %lld, the plan "
                "has %lld",
                (long long)term->n, axis, (long long)term->small[axis], (long long)term->tap[axis],
                (long long)named, (long long)term->large[axis]);
        }
    }
    if (walk->made != NULL) {
        walk->made[slot_of(walk, term)] +=
            sum_in(walk->of_k, walk->k, term->k) * sum_in(walk->of_c, walk->c, term->c);
    }
}

void plan_store(plan_walk *walk, const plan_term *term) {
    const uf_view *view = plan_written(walk->layer);
    const bool fprop = walk->layer->direction == UF_CONV_FPROP;
    const bool wgrad = walk->layer->direction == UF_CONV_WGRAD;
    const int64_t *at = fprop ? term->small : wgrad ? term->tap : term->large;
    ++walk->calls;
    assert_true(term->group >= 0 && term->group < walk->groups);
    if (walk->stored == NULL || (!wgrad && (term->n < 0 || term->n >= walk->batch)) ||
        !is_inside(at, view)) {
        return;
    }
    const int64_t image = wgrad ? term->group : term->group * walk->batch + term->n;
    uint64_t times = fprop || wgrad ? sum_in(walk->of_k, walk->k, term->k) : 1;
    times *= !fprop ? sum_in(walk->of_c, walk->c, term->c) : 1;
    walk->stored[(image * view->extent[2] + at[0]) * view->extent[3] + at[1]] += times;
}

void plan_share(plan_walk *walk, int64_t begin, int64_t end, int64_t all) {
    if (begin != walk->shared_until || end <= begin || end > all) {
        fail_msg("share %lld has %lld to %lld of %lld, the last one ended at %lld",
                 (long long)walk->shares, (long long)begin, (long long)end, (long long)all,
                 (long long)walk->shared_until);
    }
    walk->shared_until = end == all ? 0 : end;
    walk->shares = end == all ? 0 : walk->shares + 1;
}

void plan_claim(plan_walk *walk, int64_t begin, int64_t bytes, int64_t unit) {
    const int64_t most = walk->facts.shared;
    if (begin < 0 || bytes < 0 || begin + bytes > most || begin % unit != 0) {
        fail_msg("bytes %lld to %lld of %lld of shared memory, in units of %lld", (long long)begin,
                 (long long)(begin + bytes), (long long)most, (long long)unit);
    }
    for (int64_t i = 0; i < walk->claims; ++i) {
        if (begin < walk->claim[i][1] && walk->claim[i][0] < begin + bytes) {
            fail_msg("bytes %lld to %lld of shared memory meet %lld to %lld", (long long)begin,
                     (long long)(begin + bytes), (long long)walk->claim[i][0],
                     (long long)walk->claim[i][1]);
        }
    }
    assert_true(walk->claims < MOST_CLAIMS);
    walk->claim[walk->claims][0] = begin;
    walk->claim[walk->claims++][1] = begin + bytes;
}

/* ---- a walk ---- */

static int64_t slots_of(const uf_conv_kernel_args *args) {
    const int64_t *y = args->y.extent, *w = args->w.extent;
    const double slots = (double)args->groups * (double)y[0] * (double)y[2] * (double)y[3] *
                         (double)w[2] * (double)w[3];
    const double pixels =
        (double)args->groups * (double)y[0] * (double)args->x.extent[2] * (double)args->x.extent[3];
    return slots > MOST_SLOTS || pixels > MOST_SLOTS ? 0 : (int64_t)slots;
}

static bool can_walk(const uf_conv_kernel_args *args) {
    const int64_t slots = slots_of(args), c = args->w.extent[1];
    const int64_t k = args->w.extent[0] / args->groups;
    return slots > 0 && slots * (1 + k / 64) * (1 + c / 32) <= MOST_WORK;
}

static void check_made(const plan_walk *walk) {
    const uf_conv_kernel_args *args = &walk->layer->args;
    const int64_t *y = args->y.extent, *w = args->w.extent;
    const uint64_t once = walk->of_k[walk->k] * walk->of_c[walk->c];
    for (int64_t i = 0; i < walk->slots; ++i) {
        const int64_t s = i % w[3], r = i / w[3] % w[2], pixel = i / w[3] / w[2];
        const int64_t q = pixel % y[3], p = pixel / y[3] % y[2], n = pixel / y[3] / y[2];
        const int64_t large[2] = {p * args->stride[0] - args->padding[0] + r * args->dilation[0],
                                  q * args->stride[1] - args->padding[1] + s * args->dilation[1]};
        if (is_inside(large, &args->x) && walk->made[i] != once) {
            fail_msg("group %lld, n %lld, pixel (%lld, %lld), tap (%lld, %lld): products of %s",
                     (long long)(n / walk->batch), (long long)(n % walk->batch), (long long)p,
                     (long long)q, (long long)r, (long long)s,
                     walk->made[i] == 0          ? "no channels"
                     : walk->made[i] == 2 * once ? "all channels twice"
                                                 : "other than each pair of channels once");
        }
    }
}

static void check_stored(const plan_walk *walk) {
    const uf_conv_direction direction = walk->layer->direction;
    const int64_t copies = walk->facts.copies > 0 ? walk->facts.copies : 1;
    const uf_view *view = plan_written(walk->layer);
    const uint64_t once = (direction != UF_CONV_DGRAD ? walk->of_k[walk->k] : 1) *
                          (direction != UF_CONV_FPROP ? walk->of_c[walk->c] : 1);
    for (int64_t i = 0; i < walk->places; ++i) {
        if (walk->stored[i] != once * (uint64_t)copies) {
            fail_msg("written image %lld, element (%lld, %lld): stored %s %lld times",
                     (long long)(i / view->extent[3] / view->extent[2]),
                     (long long)(i / view->extent[3] % view->extent[2]),
                     (long long)(i % view->extent[3]),
                     walk->stored[i] == 0 ? "never, not" : "otherwise than each channel",
                     (long long)copies);
        }
    }
}

static plan_walk walk_of(const plan_family *family, const plan_layer *layer, const void *plan) {
    plan_walk walk;
    memset(&walk, 0, sizeof walk);
    walk.layer = layer;
    walk.facts = family->facts(layer, plan);
    walk.batch = layer->args.y.extent[0];
    walk.groups = layer->args.groups;
    walk.k = layer->args.w.extent[0] / walk.groups;
    walk.c = layer->args.w.extent[1];
    return walk;
}

/* Gives the number of calls that it took. */
static int64_t walk_plan(const plan_family *family, const plan_layer *layer, const void *plan) {
    const uf_view *view = plan_written(layer);
    plan_walk walk = walk_of(family, layer, plan);
    walk.of_k = sums_of(walk.k, 1);
    walk.of_c = sums_of(walk.c, UINT64_C(1) << 32);
    walk.slots = slots_of(&layer->args);
    walk.places = view->extent[2] * view->extent[3] * walk.groups *
                  (layer->direction == UF_CONV_WGRAD ? 1 : walk.batch);
    walk.made = calloc((size_t)walk.slots, sizeof *walk.made);
    walk.stored = calloc((size_t)walk.places, sizeof *walk.stored);
    assert_true(walk.made != NULL && walk.stored != NULL);
    family->walk(&walk, layer, plan);
    check_made(&walk);
    check_stored(&walk);
    assert_int_equal(walk.shared_until, 0);
    free(walk.of_k);
    free(walk.of_c);
    free(walk.made);
    free(walk.stored);
    return walk.calls;
}

/* ---- a plan ---- */

static void check_facts(const plan_facts *facts) {
    assert_true(isfinite(facts->cost) && facts->cost > 0);
    assert_true(facts->grid[0] >= 1 && facts->grid[0] <= GRID_X);
    assert_true(facts->grid[1] >= 0 && facts->grid[1] <= GRID_YZ);
    assert_true(facts->grid[2] >= 0 && facts->grid[2] <= GRID_YZ);
    assert_true(facts->threads >= 0 && facts->threads <= THREADS);
    assert_true(facts->shared >= 0 && facts->shared <= facts->most_shared);
    assert_true(facts->workspace >= 0 && facts->copies >= 0);
}

static bool ask(const plan_family *family, const plan_layer *layer, int tile, void *plan) {
    current_tile = tile;
    return family->tiled != NULL ? family->tiled(layer, tile, plan) : family->plan(layer, plan);
}

/* Equal arguments, equal plan, whatever was there before: bytes that differ with it were not
 * written at all, and nobody can mean them. */
static bool plan_of(const plan_family *family, const plan_layer *layer, int tile, void *plan) {
    unsigned char *const other = test_allocate(family->size);
    const plan_layer before = *layer;
    memset(plan, 0x55, family->size);
    memset(other, 0xaa, family->size);
    const bool taken = ask(family, layer, tile, plan);
    assert_int_equal(ask(family, layer, tile, other), taken);
    assert_memory_equal(&before.args, &layer->args, sizeof before.args);
    for (size_t i = 0; taken && i < family->size; ++i) {
        const unsigned char made = ((const unsigned char *)plan)[i];
        assert_true(made == other[i] || (made == 0x55 && other[i] == 0xaa));
    }
    free(other);
    return taken;
}

/* Examined and, if not too large, walked: of large batches some images. `calls`: of walks until
 * now; then of this one. False: not taken. */
static bool examine(const plan_family *family, const plan_layer *layer, int tile, void *plan,
                    test_random *random, int64_t *calls) {
    plan_at(layer);
    if (!plan_of(family, layer, tile, plan)) {
        plan_at(NULL);
        return false;
    }
    const plan_facts facts = family->facts(layer, plan);
    check_facts(&facts);
    if (family->check != NULL) {
        family->check(layer, plan, random);
    }
    if (family->some != NULL) {
        plan_walk walk = walk_of(family, layer, plan);
        family->some(&walk, layer, plan, random);
    }
    if (*calls > MOST_CALLS) {
        *calls = 0;
    } else if (can_walk(&layer->args)) {
        *calls = walk_plan(family, layer, plan);
    } else {
        void *const smaller = test_allocate(family->size);
        plan_layer some = *layer;
        while (!can_walk(&some.args) && some.args.y.extent[0] > 1) {
            some.args.x.extent[0] = some.args.y.extent[0] = some.args.y.extent[0] / 2;
        }
        plan_at(&some);
        if (can_walk(&some.args) && plan_of(family, &some, tile, smaller)) {
            *calls = walk_plan(family, &some, smaller);
        } else {
            *calls = 0;
        }
        free(smaller);
    }
    plan_at(NULL);
    return true;
}

void plan_examine(const plan_family *family, const plan_layer *layer, void *plan,
                  test_random *random) {
    int64_t calls = 0;
    plan_at(layer);
    assert_true(examine(family, layer, UF_CONV_ANY_TILE, plan, random, &calls));
}

typedef struct census {
    int64_t taken, walked, layers, calls, seen[PLAN_KINDS];
    int64_t tile_calls[PLAN_TILES], tile_walks[PLAN_TILES];
    bool all_tiles; /* of each layer, not one in turn */
} census;

/* One tile of the layer, the next in turn, or all. Together their walks may take twice as many
 * calls as those of any tile. */
static void examine_tiles(const plan_family *family, const plan_layer *layer, test_random *random,
                          void *plan, census *all) {
    const int turn = family->tiles > 0 ? (int)(all->taken % family->tiles) : 0;
    for (int tile = 0; tile < family->tiles; ++tile) {
        int64_t calls = all->tile_calls[tile] * family->tiles / 2;
        if ((all->all_tiles || tile == turn) &&
            examine(family, layer, tile, plan, random, &calls)) {
            assert_false(family->no_plans >> tile & 1);
            all->tile_walks[tile] += calls > 0;
            all->tile_calls[tile] += calls;
        }
    }
}

static void examine_one(const plan_family *family, const plan_layer *layer, test_random *random,
                        census *all) {
    void *const plan = test_allocate(family->size);
    int64_t calls = all->calls;
    ++all->layers;
    if (examine(family, layer, UF_CONV_ANY_TILE, plan, random, &calls)) {
        ++all->taken;
        all->walked += calls > 0;
        all->calls += calls;
        if (family->count != NULL) {
            family->count(layer, plan, all->seen);
        }
        examine_tiles(family, layer, random, plan, all);
    }
    free(plan);
}

static void examine_named(const plan_family *family, census *all) {
    static const struct {
        uf_dtype dtype;
        uf_math math;
    } types[] = {{UF_F32, UF_MATH_FP32},
                 {UF_F32, UF_MATH_TF32},
                 {UF_F32, UF_MATH_BF16},
                 {UF_BF16, UF_MATH_BF16}};
    for (int64_t i = 0; i < plan_table_rows * COUNT_OF(types) * 3; ++i) {
        const int64_t type = i / 3 % COUNT_OF(types), row = i / 3 / COUNT_OF(types);
        test_random random = test_random_for(family->name, -1 - i);
        const plan_layer layer = {
            (uf_conv_direction)(i % 3),
            plan_args_of(&plan_table[row].sizes, types[type].dtype, types[type].math)};
        if ((family->directions >> layer.direction & 1) != 0) {
            examine_one(family, &layer, &random, all);
        }
    }
}

static void examine_random(const plan_family *family, census *all) {
    uf_conv_direction directions[3];
    int64_t count = 0;
    for (int d = UF_CONV_FPROP; d <= UF_CONV_WGRAD; ++d) {
        if ((family->directions >> d & 1) != 0) {
            directions[count++] = (uf_conv_direction)d;
        }
    }
    for (int64_t i = 0; i < family->cases; ++i) {
        test_random random = test_random_for(family->name, i);
        plan_layer layer;
        memset(&layer, 0, sizeof layer);
        layer.direction = directions[i % count];
        if (family->draw != NULL) {
            family->draw(&random, &layer);
        } else {
            layer.args = random_conv(&random, family->limits);
        }
        examine_one(family, &layer, &random, all);
    }
}

void plan_test(void **state) {
    const plan_family *family = *state;
    const char *const wanted = getenv("UNFURL_TEST_LAYER");
    census all;
    memset(&all, 0, sizeof all);
    if (wanted != NULL) {
        plan_layer layer;
        assert_true(plan_parse(wanted, &layer));
        test_random random = test_random_for(family->name, 0);
        all.all_tiles = true;
        examine_one(family, &layer, &random, &all);
        print_message("%s: %s\n", family->name, all.taken > 0 ? "taken" : "not taken");
        return;
    }
    all.all_tiles = true;
    examine_named(family, &all);
    all.all_tiles = family->all_tiles;
    examine_random(family, &all);
    print_message("%s: %lld of %lld taken, %lld walked", family->name, (long long)all.taken,
                  (long long)all.layers, (long long)all.walked);
    for (int i = 0; i < PLAN_KINDS && family->kinds[i] != NULL; ++i) {
        print_message("; %s %lld", family->kinds[i], (long long)all.seen[i]);
    }
    print_message("\n");
    for (int tile = 0; tile < family->tiles; ++tile) {
        print_message("%s%lld", tile == 0 ? "walks by tile: " : ", ",
                      (long long)all.tile_walks[tile]);
    }
    print_message("%s", family->tiles > 0 ? "\n" : "");
    assert_true(all.walked >= family->least_walked && all.walked > 0);
    for (int tile = 0; tile < family->tiles; ++tile) {
        if (all.tile_walks[tile] == 0 && (family->no_plans >> tile & 1) == 0) {
            fail_msg("no plan of tile %d was walked", tile);
        }
    }
    for (int i = 0; i < PLAN_KINDS && family->kinds[i] != NULL; ++i) {
        const int64_t least = family->least_seen[i] > 0 ? family->least_seen[i] : 1;
        if (all.seen[i] < least) {
            fail_msg("%lld plans are of the kind \"%s\", and %lld are wanted",
                     (long long)all.seen[i], family->kinds[i], (long long)least);
        }
    }
}
