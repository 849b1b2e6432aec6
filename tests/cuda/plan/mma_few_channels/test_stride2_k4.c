/* test_stride2_k4.c - the plan of stride2_k4: blocks that walk their rows make every product once,
 * windows hold what a strip reads, divisors find units, and nothing meets in shared memory. Needs
 * no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "cuda/plan/mma_few_channels/stride2_k4_layers.h"

/* ---- the walk ---- */

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_stride2_k4_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_stride2_k4_plan_of(&problem, plan);
}

/* All taps of a filter row at the pixels of a row of y. Each pixel makes two columns of x, with
 * what its neighbours have for them: the first one has none before it, the last one none behind it.
 */
static void walk_filter_row(plan_walk *walk, const plan_layer *layer, int64_t row, int64_t r,
                            plan_term *term) {
    term->small[0] = row;
    term->large[0] = STRIDE * row + r - layer->args.padding[0];
    term->tap[0] = r;
    for (int64_t i = 0; i < PIXELS * FILTER; ++i) {
        const int64_t w = i / FILTER, s = i % FILTER;
        term->small[1] = w;
        term->tap[1] = s;
        term->large[1] = STRIDE * w + s - layer->args.padding[1];
        if ((s > 0 || w > 0) && (s < FILTER - 1 || w + 1 < PIXELS)) {
            plan_make(walk, term);
        }
    }
}

static void store_rows(plan_walk *walk, const plan_layer *layer, int64_t row, plan_term *term) {
    for (int64_t i = 0; i < STRIDE * STRIDE * PIXELS; ++i) {
        term->large[0] = STRIDE * row + i % STRIDE - layer->args.padding[0];
        term->large[1] = i / STRIDE + 1 - layer->args.padding[1];
        plan_store(walk, term);
    }
}

/* The last two filter rows of a row of y are kept for the next row. A block begins with what the
 * row before its first one keeps. */
static void walk_dgrad(plan_walk *walk, const plan_layer *layer, const uf_stride2_k4_plan *plan,
                       int64_t first, int64_t end, plan_term *term) {
    const int64_t begin = first - (stride2_k4_coord_of(plan, first).row > 0 ? 1 : 0);
    for (int64_t unit = begin; unit < end; ++unit) {
        const stride2_k4_coord at = stride2_k4_coord_of(plan, unit);
        const bool is_kept = unit + 1 < end && stride2_k4_coord_of(plan, unit + 1).row > 0;
        term->n = at.n;
        for (int64_t r = 0; r < FILTER; ++r) {
            if (r < STRIDE ? unit >= first : is_kept) {
                walk_filter_row(walk, layer, at.row, r, term);
            }
        }
        if (unit >= first) {
            store_rows(walk, layer, at.row, term);
        }
    }
}

/* fprop and wgrad: a row of a strip and its window. */
static void walk_window(plan_walk *walk, const plan_layer *layer, const uf_stride2_k4_plan *plan,
                        const stride2_k4_coord *at, plan_term *term) {
    const int64_t column = at->strip * PIXELS;
    const int64_t begin = column * STRIDE - layer->args.padding[1] - plan->window_shift;
    assert_true(at->row < plan->rows && at->strip < plan->strips);
    term->n = at->n;
    term->small[0] = at->row;
    for (int64_t i = 0; i < PIXELS * TAPS; ++i) {
        const int64_t w = i / TAPS, r = i % TAPS / FILTER, s = i % FILTER;
        const int64_t on = plan->window_shift + STRIDE * w + s;
        assert_true(on / 2 + 1 < UF_STRIDE2_K4_WINDOW / 2); /* bf16: two words */
        term->small[1] = column + w;
        term->large[0] = at->row * STRIDE - layer->args.padding[0] + r;
        term->large[1] = begin + on;
        term->tap[0] = r;
        term->tap[1] = s;
        plan_make(walk, term);
        if (layer->direction == UF_CONV_FPROP && i % TAPS == 0) {
            plan_store(walk, term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_stride2_k4_plan *plan = of;
    plan_term term = {.k = {0, UF_STRIDE2_K4_SMALL}, .c = {0, plan->channels}};
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t first = stride2_k4_first_of(plan, block);
        const int64_t end = stride2_k4_first_of(plan, block + 1);
        plan_share(walk, first, end, plan->units);
        if (layer->direction == UF_CONV_DGRAD) {
            walk_dgrad(walk, layer, plan, first, end, &term);
            continue;
        }
        for (int64_t unit = first; unit < end; ++unit) {
            const stride2_k4_coord at = stride2_k4_coord_of(plan, unit);
            walk_window(walk, layer, plan, &at, &term);
        }
        for (int64_t i = 0; layer->direction == UF_CONV_WGRAD && i < TAPS; ++i) {
            term.tap[0] = i / FILTER;
            term.tap[1] = i % FILTER;
            plan_store(walk, &term);
        }
    }
}

/* ---- numbers ---- */

enum {
    PLACES = 64, /* looked at in a plan */
    LANES = 32,
    WINDOW_AT = 128,     /* a box begins at a multiple of this, one with exchanges at ALIGN */
    BYTES_COME = 1 << 20 /* less than this is what a barrier counts */
};

/* Rows, strips and blocks, of any size. */
static void check_units(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        const uf_stride2_k4_plan *plan, test_random *random) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t written = (dgrad ? &args->x : &args->y)->extent[2];
    if (dgrad) {
        /* Cells of STRIDE rows of x, from the padding's first on: the last row is in the last cell,
         * and so is every column in a pair that a pixel of y makes. */
        assert_true((int64_t)STRIDE * plan->rows - args->padding[0] >= written);
        assert_true((int64_t)STRIDE * (plan->rows - 1) - args->padding[0] < written);
        assert_true(args->padding[1] >= 1 && args->y.extent[3] <= PIXELS);
        assert_true(args->x.extent[3] - 1 + args->padding[1] <= STRIDE * args->y.extent[3]);
        assert_int_equal(plan->strips, 1);
    } else {
        assert_int_equal(plan->rows, written);
        assert_true((int64_t)plan->strips * PIXELS >= args->y.extent[3]);
        assert_true((int64_t)(plan->strips - 1) * PIXELS < args->y.extent[3]);
        /* Windows begin at multiples of 16 bytes, not more than that before their first tap. */
        const int64_t piece = PIECE / (int64_t)uf_dtype_size(args->x.dtype);
        assert_true(plan->window_shift >= 0 && plan->window_shift < piece);
        assert_int_equal((args->padding[1] + plan->window_shift) % piece, 0);
    }
    const int64_t image = (int64_t)plan->rows * plan->strips;
    assert_int_equal(plan->units, args->y.extent[0] * image);
    assert_true(plan->blocks >= 1 && plan->blocks <= UF_STRIDE2_K4_WGRAD_BLOCKS * plan->resident);
    assert_true(plan->blocks <= plan->units);
    assert_int_equal(stride2_k4_first_of(plan, plan->blocks), plan->units);
    /* A unit and stages of all rings beyond it are counted in 32 bits. */
    assert_true((int64_t)plan->units + plan->rings * (UF_STRIDE2_K4_STAGES + 1) <= INT32_MAX);
    for (int i = 0; i < PLACES; ++i) {
        int64_t unit = test_random_integer(random, 0, plan->units - 1);
        if (i % 2 == 0) { /* around the begin of an image, or of a row */
            const int64_t run = i % 4 == 0 ? image : plan->strips;
            unit = unit / run * run - test_random_integer(random, 0, 1);
            unit = unit < 0 ? plan->units - 1 : unit;
        }
        const stride2_k4_coord at = stride2_k4_coord_of(plan, unit);
        assert_int_equal(at.n, unit / image);
        assert_int_equal(at.row, unit % image / plan->strips);
        assert_int_equal(at.strip, unit % plan->strips);
    }
}

/* A piece is somebody's alone. */
static void claim(uint8_t *used, int64_t begin, int64_t bytes, const uf_stride2_k4_plan *plan) {
    assert_int_equal(begin % PIECE, 0);
    assert_true(begin >= 0 && bytes >= 0 && begin + bytes <= (int64_t)plan->shared);
    for (int64_t i = begin / PIECE; i < (begin + bytes + PIECE - 1) / PIECE; ++i) {
        assert_int_equal(used[i], 0);
        used[i] = 1;
    }
}

static void check_shared(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         const uf_stride2_k4_plan *plan) {
    static uint8_t used[UF_STRIDE2_K4_WGRAD_SHARED / PIECE];
    const bool fprop = direction == UF_CONV_FPROP, dgrad = direction == UF_CONV_DGRAD;
    const bool wgrad = direction == UF_CONV_WGRAD, bf16 = args->x.dtype == UF_BF16;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int64_t tile = UF_STRIDE2_K4_SMALL * PIXELS * element;
    const int64_t window = args->x.extent[1] * FILTER * UF_STRIDE2_K4_WINDOW * element;
    const int64_t columns = args->x.extent[1] * TAPS;
    const int64_t warps = bf16 ? UF_STRIDE2_K4_BF16_WARPS : UF_STRIDE2_K4_F32_WARPS;
    assert_int_equal(plan->warps, wgrad ? UF_STRIDE2_K4_WGRAD_WARPS : warps);
    const int32_t share =
        wgrad && !bf16 && args->math == UF_MATH_FP32 ? UF_STRIDE2_K4_WGRAD_SHARE : 1;
    assert_int_equal(plan->rings, plan->warps / share);
    assert_int_equal(plan->resident, wgrad ? UF_STRIDE2_K4_WGRAD_RESIDENT : UF_STRIDE2_K4_RESIDENT);
    /* Each block takes 1 KB more of the 228 KB that a multiprocessor has. */
    assert_true((size_t)plan->resident * (plan->shared + 1024) <= 228 * 1024);
    /* Barriers of pieces of stages and of what is kept, and a written channel's scale and shift
     * from each thread. */
    const int64_t barriers =
        dgrad ? UF_STRIDE2_K4_STAGES * UF_STRIDE2_K4_PIECES + 2 : UF_STRIDE2_K4_STAGES * 2;
    const int64_t scale_shift = dgrad ? UF_STRIDE2_K4_LARGE : fprop ? UF_STRIDE2_K4_SMALL : 0;
    assert_true(plan->warps * barriers + scale_shift <= UF_STRIDE2_K4_HEAD / 8);
    assert_true(scale_shift <= LANES * plan->warps);
    /* Exchanges of 16-byte pieces are the same in each box. */
    assert_int_equal(tile / UF_STRIDE2_K4_PIECES % UF_STRIDE2_K4_ALIGN, 0);
    memset(used, 0, sizeof used);
    claim(used, 0, UF_STRIDE2_K4_HEAD, plan);
    /* A barrier waits for as many bytes as boxes have. */
    assert_int_equal(plan->tile_bytes, fprop ? 0 : tile);
    assert_int_equal(plan->window_bytes, dgrad ? 0 : window);
    assert_true(plan->tile_bytes + plan->window_bytes <= plan->stage_bytes);
    assert_true(plan->tile_bytes + plan->window_bytes < BYTES_COME);
    assert_true(plan->stages >= 2 && plan->stages <= UF_STRIDE2_K4_STAGES);
    for (int64_t stage = 0; stage < (int64_t)plan->rings * plan->stages; ++stage) {
        const int64_t at = UF_STRIDE2_K4_HEAD + stage * plan->stage_bytes;
        claim(used, at, plan->stage_bytes, plan);
        assert_true(plan->tile_bytes == 0 || at % UF_STRIDE2_K4_ALIGN == 0);
        assert_true(plan->window_bytes == 0 || (at + plan->tile_bytes) % WINDOW_AT == 0);
    }
    /* Bytes that all warps keep, and before that all of w, until MMAs have it. */
    const int64_t kept = (int64_t)plan->warps * plan->kept_bytes;
    const int64_t scratch = wgrad ? 0 : UF_STRIDE2_K4_SCRATCH(args->x.extent[1], element);
    assert_true(wgrad || scratch > UF_STRIDE2_K4_SMALL * columns * element); /* rows apart */
    claim(used, plan->kept_at, kept > scratch ? kept : scratch, plan);
    assert_int_equal(plan->kept_at % UF_STRIDE2_K4_ALIGN, 0);
    if (wgrad) { /* sums of all rings take the place of the stages in the end */
        assert_true(columns * UF_STRIDE2_K4_SMALL * 4 <= (int64_t)plan->stages * plan->stage_bytes);
    } else if (fprop) { /* rows on their way out, with exchanges */
        assert_int_equal(plan->kept_bytes, (plan->kept_tiles > 1 ? 2 : 1) * tile);
        assert_int_equal(tile % UF_STRIDE2_K4_ALIGN, 0);
    } else { /* sums of the filter's last two rows, in f32 */
        assert_true(plan->kept_bytes >= columns / 2 * PIXELS * 4);
        assert_int_equal(plan->kept_bytes % PIECE, 0);
    }
    if (!wgrad && !bf16 && args->math == UF_MATH_FP32) { /* both halves of w */
        claim(used, plan->weight_at, columns * UF_STRIDE2_K4_SMALL * 2 * 4, plan);
    }
    assert_int_equal(used[plan->shared / PIECE - 1], 1); /* nothing is asked for in vain */
}

/* Constants among themselves, and with what tensor copies and lanes can do. */
static void test_constants(void **state) {
    (void)state;
    assert_true(UF_STRIDE2_K4_WINDOW <= 256 && UF_STRIDE2_K4_SMALL <= 256); /* of a box, at most */
    /* Windows of all strips begin and end at multiples of 16 bytes if the first one does. */
    assert_true(STRIDE * PIXELS * 2 % PIECE == 0 && UF_STRIDE2_K4_WINDOW * 2 % PIECE == 0);
    assert_int_equal(FILTER, 2 * STRIDE); /* a row meets the one before it, and no other */
    assert_int_equal(PIXELS, LANES);      /* rows of y: exchanges of 64 bytes, in f32 of 128 */
    assert_int_equal(UF_STRIDE2_K4_SMALL % 16, 0);
}

static void check_large(const plan_layer *layer, const void *plan, test_random *random) {
    check_units(layer->direction, &layer->args, plan, random);
}

static void check(const plan_layer *layer, const void *plan, test_random *random) {
    check_large(layer, plan, random);
    check_shared(layer->direction, &layer->args, plan);
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return planned(layer->direction, &layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_stride2_k4_plan *plan = of;
    const bool wgrad = layer->direction == UF_CONV_WGRAD;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .shared = (int64_t)plan->shared,
                        .most_shared = wgrad ? UF_STRIDE2_K4_WGRAD_SHARED : UF_STRIDE2_K4_SHARED,
                        .copies = wgrad ? plan->blocks : 1};
}

/* All rings of a block take turns; a block begins within an image. */
static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_stride2_k4_plan *plan = of;
    const uf_conv_kernel_args *args = &layer->args;
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    ++seen[layer->direction];
    ++seen[3 + (args->x.dtype == UF_BF16 ? UF_MATH_BF16 : args->math)];
    seen[6] += plan->strips > 1;
    seen[7] += plan->units > plan->blocks * plan->rings;
    seen[8] += dgrad && plan->blocks > 1 && plan->rows > 1;
    seen[9] += dgrad && plan->rows > args->y.extent[2];
    seen[10] += dgrad && plan->rows < args->y.extent[2];
    seen[11] += args->w.extent[2] != args->w.extent[3];
    seen[12] += plan->weight_vectors > 0;
}

static const plan_family family = {
    .name = "stride2_k4",
    .directions = PLAN_FPROP | PLAN_DGRAD | PLAN_WGRAD,
    .size = sizeof(uf_stride2_k4_plan),
    .draw = stride2_k4_draw,
    .cases = 3000,
    .plan = plan_of,
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"fprop", "dgrad", "wgrad", "fp32", "tf32", "bf16", "strips", "turns", "split images",
              "rows more than y's", "rows fewer than y's", "filters unequal", "vectors"},
    .count = count,
    .least_walked = 200};

/* Shared memory knows nothing of how large a layer is. */
static const plan_family large_family = {.name = "stride2_k4, large",
                                         .directions = PLAN_FPROP | PLAN_DGRAD | PLAN_WGRAD,
                                         .size = sizeof(uf_stride2_k4_plan),
                                         .draw = stride2_k4_draw_large,
                                         .cases = 2000,
                                         .plan = plan_of,
                                         .facts = facts_of,
                                         .walk = walk_blocks,
                                         .check = check_large,
                                         .least_walked = 20};

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        plan_unit_test(&family),
        plan_unit_test(&large_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
