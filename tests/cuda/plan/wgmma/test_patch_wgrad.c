/* test_patch_wgrad.c - the plan of patch_wgrad, which rearranges nothing: every product once,
 * shares that a tensor core may be left alone with, and nothing taken that TMA loads or its pairs
 * of taps cannot do. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"

enum { LONGEST = 16384, SHARED = 232448 };

/* Layers that the kernel is for, in two types. */
static void draw(test_random *random, plan_layer *layer) {
    uf_conv_kernel_args args = {.groups = test_random_one_in(random, 4) ? 3 : 1,
                                .dilation = {test_random_integer(random, 1, 2), 1}};
    const uf_dtype dtype = test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t unit = dtype == UF_BF16 ? 8 : 4;
    const int64_t n = test_random_integer(random, 1, test_random_one_in(random, 4) ? 40 : 4);
    const int64_t c = test_random_integer(random, 20, test_random_one_in(random, 2) ? 64 : 500);
    const int64_t k = test_random_integer(random, 20, test_random_one_in(random, 2) ? 64 : 500);
    const int64_t p = test_random_integer(random, 1, 90), q = test_random_integer(random, 1, 200);
    int64_t r = test_random_integer(random, 1, 3);
    int64_t x[2];
    args.math = dtype == UF_BF16                ? UF_MATH_BF16
                : test_random_one_in(random, 2) ? UF_MATH_TF32
                                                : UF_MATH_FP32;
    const bool pointwise = test_random_one_in(random, 3);
    r = pointwise ? 1 : r;
    args.stride[0] = pointwise ? 1 : test_random_integer(random, r, 4);
    args.stride[1] = pointwise ? 1 : test_random_integer(random, 1, 2);
    for (int axis = 0; axis < 2; ++axis) {
        args.padding[axis] = !pointwise && test_random_one_in(random, 3)
                                 ? test_random_integer(random, 1, 3) * (axis == 0 ? 1 : unit)
                                 : 0;
    }
    x[0] = (p - 1) * args.stride[0] - 2 * args.padding[0] + (r - 1) * args.dilation[0] + 1;
    x[1] = q * args.stride[1] - 2 * args.padding[1];
    for (int axis = 0; axis < 2; ++axis) {
        x[axis] += test_random_integer(random, 0, args.stride[axis] - 1);
        x[axis] = x[axis] < 1 ? 1 : x[axis];
    }
    /* Dense, or rows of whole 16 bytes. */
    const int64_t row = test_random_one_in(random, 3) ? 1 : unit;
    args.x = view_of(dtype, n, c * args.groups, x[0], x[1], round_up(x[1], row));
    args.y = view_of(dtype, n, k * args.groups, p, q, round_up(q, row));
    args.w = uf_view_nchw((void *)4096, dtype, k * args.groups, c, r, args.stride[1]);
    layer->args = args;
}

static void check_plan(const uf_conv_kernel_args *given, const uf_patch_wgrad_plan *plan) {
    const uf_conv_kernel_args flat = uf_conv_flat(given), *args = &flat;
    const int64_t size = args->x.dtype == UF_BF16 ? 2 : 4;
    assert_int_equal(plan->pixels * size, plan->y_row);
    assert_true(plan->y_row == 64 || plan->y_row == 128);
    assert_int_equal(plan->wide, args->w.extent[3]);
    assert_int_equal(plan->channels * plan->wide, UF_PATCH_WGRAD_COLUMNS);
    /* Pixels: runs cover rows, shares cover runs. */
    assert_int_equal(plan->rows, args->y.extent[2]);
    assert_true(plan->across * plan->pixels >= args->y.extent[3]);
    assert_true((plan->across - 1) * plan->pixels < args->y.extent[3]);
    assert_int_equal(plan->runs, args->y.extent[0] * plan->rows * plan->across);
    int64_t before = 0;
    for (int64_t s = 0; s < plan->splits; ++s) {
        const int64_t end = (s + 1) * plan->runs / plan->splits;
        assert_true((end - before) * plan->pixels <= LONGEST);
        before = end;
    }
    /* Channels and taps. */
    assert_true(plan->width == 64 || plan->width == 128);
    assert_int_equal(plan->k_per_group * args->groups, args->w.extent[0]);
    assert_true(plan->k_blocks * plan->width >= plan->k_per_group);
    assert_true((plan->k_blocks - 1) * plan->width < plan->k_per_group);
    assert_true(plan->chunks * plan->channels >= args->w.extent[1]);
    assert_int_equal(plan->all_units, plan->chunks * args->w.extent[2]);
    assert_true(plan->unit_blocks * UF_PATCH_WGRAD_UNITS >= plan->all_units);
    assert_true((plan->unit_blocks - 1) * UF_PATCH_WGRAD_UNITS < plan->all_units);
    assert_int_equal(plan->blocks,
                     (int64_t)plan->splits * plan->groups * plan->k_blocks * plan->unit_blocks);
    /* Blocks of a pair, neighbours, differ in channels of y alone. */
    assert_true(!plan->pair || (plan->k_blocks % 2 == 0 && args->math == UF_MATH_TF32));
    assert_int_equal(plan->stage_bytes % 1024, 0);
    const int64_t halves = args->math == UF_MATH_FP32 ? 2 : 1;
    assert_int_equal(plan->stage_bytes,
                     (halves * plan->width + UF_PATCH_WGRAD_UNITS * UF_PATCH_WGRAD_COLUMNS) *
                         plan->y_row);
    const int64_t stages = UF_PATCH_WGRAD_STAGES * 64 / plan->y_row;
    assert_true(stages * plan->stage_bytes + 192 + 1023 <= plan->shared);
    /* Sums, 4 words of room after each 128, take the place of the stages. */
    assert_true(UF_PATCH_WGRAD_UNITS * plan->width * (UF_PATCH_WGRAD_COLUMNS + 4) * 4 <=
                stages * plan->stage_bytes);
}

/* Each of these changes makes it something else's. */
static void check_refusals(const uf_conv_kernel_args *args) {
    uf_patch_wgrad_plan plan;
    uf_conv_kernel_args other = *args;
    other.math = args->x.dtype == UF_BF16 ? UF_MATH_FP32 : UF_MATH_BF16;
    assert_false(uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.dilation[1] = 2;
    assert_false(args->stride[1] == 2 && uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.stride[1] = 3;
    assert_false(uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.stride[0] = args->w.extent[2] - 1;
    assert_false(other.stride[0] > 0 && uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.x.stride[1] = other.x.stride[1] * 8 + 1;
    assert_false(uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.padding[1] = 1; /* copies would begin inside 16 bytes */
    assert_false(uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    other.y.stride[3] = 2;
    assert_false(uf_patch_wgrad_plan_of(&other, &plan));
    other = *args;
    uf_patch_wgrad_conv_plan whole;
    assert_true(uf_patch_wgrad_conv_plan_of(&other, &whole) && !whole.copied);
    assert_true(uf_patch_wgrad_ready(&other, &whole));
    other.y.data = (char *)other.y.data + 8;
    assert_false(uf_patch_wgrad_ready(&other, &whole));
}

/* A plan that says so is that of any other strides of w, as of an f32 gradient that is a view. */
static void check_strides_of_w(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args other = *args;
    uf_patch_wgrad_conv_plan plan, again;
    assert_true(uf_patch_wgrad_conv_plan_of(args, &plan));
    for (int axis = 0; axis < 4; ++axis) {
        other.w.stride[axis] = args->w.stride[axis] * 2 + 3;
    }
    const bool holds =
        uf_patch_wgrad_conv_plan_of(&other, &again) && memcmp(&plan, &again, sizeof plan) == 0;
    assert_true(holds || !uf_patch_wgrad_any_strides(&plan));
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    (void)random;
    check_plan(&layer->args, of);
    check_refusals(&layer->args);
    check_strides_of_w(&layer->args);
}

/* ---- the walk ---- */

/* A unit, a row of the filter, at the pixels of a run. Images that are rows count as such. */
static void walk_run(plan_walk *walk, const plan_layer *layer, const uf_patch_wgrad_plan *plan,
                     int64_t run, plan_term *term) {
    const uf_conv_kernel_args flat = uf_conv_flat(&layer->args);
    const bool images = memcmp(flat.y.extent, layer->args.y.extent, sizeof flat.y.extent) != 0;
    const int64_t line = run / plan->across, row = line % plan->rows, r = term->tap[0];
    const int64_t wide = layer->args.y.extent[3];
    for (int64_t i = 0; i < plan->pixels * plan->wide; ++i) {
        const int64_t pixel = run % plan->across * plan->pixels + i / plan->wide;
        const int64_t s = i % plan->wide;
        const int64_t x[2] = {row * plan->stride_h + r * plan->dilation_h - plan->padding[0],
                              pixel * plan->wide - plan->padding[1] + s};
        if (pixel >= flat.y.extent[3]) {
            continue; /* TMA loads bring zeros */
        }
        term->n = images ? row : line / plan->rows;
        term->small[0] = images ? pixel / wide : row;
        term->small[1] = images ? pixel % wide : pixel;
        term->large[0] = images ? x[1] / wide : x[0];
        term->large[1] = images ? x[1] % wide : x[1];
        term->tap[1] = s;
        plan_make(walk, term);
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_patch_wgrad_plan *plan = of;
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t k = block % plan->k_blocks * plan->width, next = block / plan->k_blocks;
        const int64_t first = next % plan->unit_blocks * UF_PATCH_WGRAD_UNITS;
        const int64_t rest = next / plan->unit_blocks, split = rest / plan->groups;
        const int64_t begin = split * plan->runs / plan->splits;
        const int64_t end = (split + 1) * plan->runs / plan->splits;
        plan_term term = {.group = rest % plan->groups, .k = {k, k + plan->width}};
        if (k == 0 && first == 0 && term.group == 0) {
            plan_share(walk, begin, end, plan->runs);
        }
        for (int64_t unit = first; unit < first + UF_PATCH_WGRAD_UNITS; ++unit) {
            if (unit >= plan->all_units) {
                continue; /* nobody keeps it */
            }
            term.c[0] = unit / plan->kernel_h * plan->channels;
            term.c[1] = term.c[0] + plan->channels;
            term.tap[0] = unit % plan->kernel_h;
            for (term.tap[1] = 0; term.tap[1] < plan->wide; ++term.tap[1]) {
                plan_store(walk, &term);
            }
            for (int64_t run = begin; run < end; ++run) {
                walk_run(walk, layer, plan, run, &term);
            }
        }
    }
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return uf_patch_wgrad_plan_of(&layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_patch_wgrad_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .shared = plan->shared,
                        .most_shared = SHARED,
                        .copies = plan->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_patch_wgrad_plan *plan = of;
    seen[0] += plan->y_row == 128;
    seen[1] += plan->width == 64;
    seen[2] += plan->wide == 1;
    seen[3] += plan->rows != layer->args.y.extent[2];
    seen[4] += plan->splits > 1;
}

static const plan_family family = {
    .name = "patch_wgrad",
    .directions = PLAN_WGRAD,
    .size = sizeof(uf_patch_wgrad_plan),
    .draw = draw,
    .cases = 4000,
    .plan = plan_of,
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"long runs", "64 channels of y", "one tap", "images as rows", "splits"},
    .count = count,
    .least_walked = 50};

/* U-Net's layers: one block per multiprocessor, or nearly. */
static void test_unet(void **state) {
    (void)state;
    for (int64_t i = 0; i < 4; ++i) {
        const int64_t c = INT64_C(512) >> i, p = INT64_C(32) << i;
        for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
            const uf_dtype dtype = math == UF_MATH_BF16 ? UF_BF16 : UF_F32;
            const uf_conv_kernel_args args = {
                .x = uf_view_nchw((void *)4096, dtype, 4, c, 2 * p, 2 * p),
                .w = uf_view_nchw((void *)4096, dtype, 2 * c, c, 2, 2),
                .y = uf_view_nchw((void *)4096, dtype, 4, 2 * c, p, p),
                .stride = {2, 2},
                .dilation = {1, 1},
                .groups = 1,
                .math = (uf_math)math};
            uf_patch_wgrad_plan plan;
            assert_true(uf_patch_wgrad_plan_of(&args, &plan));
            check_plan(&args, &plan);
            /* The last is bound by memory, and half as many sums cost nothing. */
            assert_int_equal(plan.width, math == UF_MATH_FP32 || i == 3 ? 64 : 128);
            assert_true(plan.blocks >= 128 && plan.blocks <= 132);
            assert_false(plan.pair);
        }
    }
}

/* Pairs: many blocks of the same x, in a cache that keeps both tensors. */
static void test_pairs(void **state) {
    (void)state;
    static const struct {
        int64_t k, c, side, above; /* above: rows of padding, where copies come from outside */
        uf_math math;
        bool pair;
    } cases[] = {
        {2048, 256, 14, 0, UF_MATH_TF32, true},  {2048, 256, 14, 0, UF_MATH_FP32, false},
        {320, 256, 14, 0, UF_MATH_TF32, false},  /* three or five blocks */
        {128, 128, 28, 0, UF_MATH_TF32, false},  /* one or two */
        {2048, 256, 28, 0, UF_MATH_TF32, false}, /* 116 MB */
        {1024, 256, 16, 0, UF_MATH_TF32, true},  {1024, 256, 16, 1, UF_MATH_TF32, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const int64_t side = cases[i].side, above = cases[i].above;
        const uf_conv_kernel_args args = {
            .x = uf_view_nchw((void *)4096, UF_F32, 16, cases[i].c, side, side),
            .w = uf_view_nchw((void *)4096, UF_F32, cases[i].k, cases[i].c, 1, 1),
            .y = uf_view_nchw((void *)4096, UF_F32, 16, cases[i].k, side + 2 * above, side),
            .stride = {1, 1},
            .padding = {above, 0},
            .dilation = {1, 1},
            .groups = 1,
            .math = cases[i].math};
        uf_patch_wgrad_plan plan;
        assert_true(uf_patch_wgrad_plan_of(&args, &plan));
        check_plan(&args, &plan);
        assert_int_equal(plan.pair, cases[i].pair);
    }
}

/* Copies: of wide filters x, and y where its planes are no multiple of 16 bytes. */
static void test_copies(void **state) {
    (void)state;
    static const struct {
        int64_t n, k, c, side, taps;
        uf_dtype dtype;
        bool taken, y;
    } cases[] = {
        {16, 2048, 256, 14, 1, UF_BF16, false, false}, /* more than it saves */
        {32, 768, 3, 14, 16, UF_F32, true, false},
        {32, 768, 3, 14, 16, UF_BF16, true, true},
        {8, 64, 16, 32, 8, UF_BF16, true, false},
        {4, 128, 64, 56, 3, UF_F32, false, false}, /* taps share what they read */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const int64_t side = cases[i].side, taps = cases[i].taps, n = cases[i].n;
        const uf_dtype dtype = cases[i].dtype;
        uf_conv_kernel_args args = {
            .x = uf_view_nchw((void *)4096, dtype, n, cases[i].c, side * taps, side * taps),
            .w = uf_view_nchw((void *)4096, dtype, cases[i].k, cases[i].c, taps, taps),
            .y = uf_view_nchw((void *)4096, dtype, n, cases[i].k, side, side),
            .stride = {taps, taps},
            .dilation = {1, 1},
            .groups = 1,
            .math = dtype == UF_BF16 ? UF_MATH_BF16 : UF_MATH_TF32};
        uf_patch_wgrad_conv_plan plan;
        assert_int_equal(uf_patch_wgrad_conv_plan_of(&args, &plan), cases[i].taken);
        if (!cases[i].taken) {
            continue;
        }
        assert_true(plan.copied);
        assert_int_equal(plan.copies.y, cases[i].y);
        check_strides_of_w(&args);
        uf_conv_kernel_args made = uf_patch_wgrad_copied(&args, &plan.copies);
        check_plan(&made, &plan.tiles);
        assert_int_equal(made.x.extent[1], cases[i].c * taps * taps);
        assert_int_equal(made.x.extent[3], side * side);
        assert_int_equal(uf_view_count(&made.y), uf_view_count(&args.y));
        assert_true(plan.copies.x_bytes >=
                    (size_t)uf_view_count(&args.x) * (dtype == UF_BF16 ? 2 : 4));
        const size_t workspace = uf_patch_wgrad_workspace(&plan);
        assert_true(workspace > plan.copies.x_bytes + plan.copies.y_bytes);
        /* A view that begins inside 16 bytes is copied too; there is room for it. */
        args.y.data = (char *)args.y.data + 8;
        assert_true(uf_patch_wgrad_conv_plan_of(&args, &plan) && plan.copies.y);
        assert_true(uf_patch_wgrad_ready(&args, &plan));
        assert_int_equal(uf_patch_wgrad_workspace(&plan), workspace);
        made = uf_patch_wgrad_copied(&args, &plan.copies);
        check_plan(&made, &plan.tiles);
        args.w.stride[1] += 1;
        assert_false(uf_patch_wgrad_conv_plan_of(&args, &plan));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        plan_unit_test(&family),
        cmocka_unit_test(test_unet),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
