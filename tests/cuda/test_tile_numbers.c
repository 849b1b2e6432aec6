/* test_tile_numbers.c - tiles by their numbers, for every main loop of the registry: needs no GPU.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/plan/helpers.h"
#include "cuda/plan/layers.h"
#include "cuda/plan/random_conv.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/select/choose.h"

enum { RANDOM = 1500, MOST_TILES = 16, LOOPS = 4, PLANS = 2 };

/* By variant and main loop: plans of each tile, and the most that a problem may have. */
static int64_t made[UF_CUDA_CONV_VARIANTS][LOOPS][MOST_TILES];
static int most[UF_CUDA_CONV_VARIANTS][LOOPS];

static uf_conv_plan *new_plan(int filling) {
    uf_conv_plan *const plan = test_allocate(PLANS * sizeof *plan);
    memset(plan, filling, PLANS * sizeof *plan);
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    plan[1].loop = NULL;
    return plan;
}

static bool plan_of(const uf_conv_problem *of, int variant, int tile, int filling,
                    uf_conv_plan **made_plan) {
    uf_conv_problem problem = *of;
    *made_plan = new_plan(filling);
    problem.tile = tile;
    const bool taken = uf_conv_plan_variant(&problem, (uf_cuda_conv_variant)variant, *made_plan);
    if (taken) {
        assert_int_equal((*made_plan)->variant, variant);
        assert_true((*made_plan)->tiles >= 1 && (*made_plan)->tiles <= MOST_TILES);
        assert_in_range((*made_plan)->tile, 0, (*made_plan)->tiles - 1);
        assert_true(isfinite((*made_plan)->cost) && (*made_plan)->cost >= 0.0);
    }
    return taken;
}

/* Whatever was in memory, the plan is the same. */
static void check_again(const uf_conv_problem *problem, int variant, const uf_conv_plan *plan) {
    uf_conv_plan *other;
    assert_true(plan_of(problem, variant, plan->tile, 0xaa, &other));
    assert_true(other->workspace == plan->workspace && other->cost == plan->cost);
    free(other);
}

/* Workspace that was asked for, of a tile too, must be enough wherever tensors begin; else the
 * variant or the tile is refused there. */
static void check_workspace(const uf_conv_problem *of, int variant, const uf_conv_plan *plan,
                            int tile) {
    uf_conv_kernel_args args = *of->args;
    uf_conv_problem problem = *of;
    uf_view *const views[] = {&args.x, &args.w, &args.y};
    const int moved = 1 + (tile + 1) % 7; /* a bit for each tensor that begins elsewhere */
    uf_conv_plan *other;
    problem.args = &args;
    for (int i = 0; i < 3; ++i) {
        const size_t bytes = (moved >> i & 1) != 0 ? uf_dtype_size(args.x.dtype) : 0;
        views[i]->data = (char *)views[i]->data + bytes;
    }
    if (plan_of(&problem, variant, tile, 0x55, &other) && other->workspace > plan->workspace) {
        fail_msg("%s, %s: tile %d wants %zu bytes, and %zu where tensors begin elsewhere",
                 uf_conv_variants[variant].name, plan->loop->name, tile, plan->workspace,
                 other->workspace);
    }
    free(other);
}

/* Main loops that plan for other addresses too, and may refuse the tile that they choose for these.
 */
static bool plans_twice(const uf_conv_loop *loop) {
    return loop->plan == uf_conv_plan_mma_small || loop->plan == uf_conv_plan_simt_direct_wgrad ||
           loop->plan == uf_conv_plan_mma_im2col;
}

/* The main loop itself, without what uf_conv_plan_variant does about the tile that it chooses. */
static void check_loop(const uf_conv_problem *of, const uf_conv_plan *any) {
    uf_conv_plan *const plan = new_plan(0x33);
    uf_conv_problem problem = *of;
    problem.tile = any->tile;
    plan->tile = 0;
    plan->tiles = 1;
    plan->loop_name = any->loop->name;
    if (!any->loop->plan(&problem, plan)) {
        assert_true(plans_twice(any->loop));
        free(plan);
        return;
    }
    assert_int_equal(plan->tile, any->tile);
    assert_int_equal(plan->tiles, any->tiles);
    /* wgrad_rs chooses for the flattened layer, and its estimate is that before. */
    const int64_t *const w = of->args->w.extent;
    if (w[2] * w[3] > 1 && plan->cost > any->cost) {
        fail_msg("%s, %s: tile %d costs %g, and %g where it is chosen",
                 uf_conv_variants[any->variant].name, any->loop->name, any->tile, plan->cost,
                 any->cost);
    }
    free(plan);
}

/* False where the variant does not take the problem. */
static bool check_variant(const uf_conv_problem *problem, int variant) {
    uf_conv_plan *any, *plan, *other;
    if (!plan_of(problem, variant, UF_CONV_ANY_TILE, 0x55, &any)) {
        free(any);
        for (int tile = 0; tile < 2; ++tile) {
            assert_false(plan_of(problem, variant, tile, 0x55, &any));
            free(any);
        }
        return false;
    }
    const int64_t loop = any->loop - uf_conv_variants[variant].loops;
    assert_true(loop < LOOPS);
    most[variant][loop] = any->tiles > most[variant][loop] ? any->tiles : most[variant][loop];
    check_loop(problem, any);
    check_workspace(problem, variant, any, UF_CONV_ANY_TILE);
    for (int tile = 0; tile < any->tiles; ++tile) {
        const bool taken = plan_of(problem, variant, tile, 0x55, &plan);
        assert_true(taken || tile != any->tile);
        if (taken) {
            ++made[variant][loop][tile];
            assert_int_equal(plan->tile, tile);
            assert_int_equal(plan->tiles, any->tiles);
            assert_ptr_equal(plan->loop, any->loop);
            assert_int_equal(memcmp(plan->own, any->own, sizeof any->own) == 0, tile == any->tile);
            assert_true(tile != any->tile ||
                        (plan->cost == any->cost && plan->workspace == any->workspace &&
                         plan->microseconds == any->microseconds));
            check_again(problem, variant, plan);
            check_workspace(problem, variant, plan, tile);
        }
        free(plan);
    }
    const int none[] = {any->tiles, any->tiles + 1, 1000, INT_MAX, -2, INT_MIN};
    for (int64_t i = 0; i < COUNT_OF(none); ++i) {
        assert_false(plan_of(problem, variant, none[i], 0x55, &other));
        free(other);
    }
    free(any);
    return true;
}

static void check_problem(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_problem problem = problem_of(direction, args);
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        (void)check_variant(&problem, v);
    }
}

/* Layers by name, and random ones. */
static void test_every_tile(void **state) {
    static const conv_limits limits = {.stride = 3,
                                       .large_stride = 6,
                                       .padding = 3,
                                       .dilation = 2,
                                       .kernel = 5,
                                       .extent = {4, 20, 60, 200},
                                       .batch = 8,
                                       .large_batch = 64,
                                       .small_channels = 8,
                                       .channels = 300,
                                       .groups = true,
                                       .bf16 = true};
    test_random random = test_random_for("tiles", 0);
    (void)state;
    for (int64_t i = 0; i < plan_table_rows; ++i) {
        for (int math = UF_MATH_FP32; math <= UF_MATH_BF16 + 1; ++math) {
            const bool bf16 = math > UF_MATH_BF16;
            const uf_conv_kernel_args args = plan_args_of(
                &plan_table[i].sizes, bf16 ? UF_BF16 : UF_F32, bf16 ? UF_MATH_BF16 : (uf_math)math);
            for (int d = UF_CONV_FPROP; d <= UF_CONV_WGRAD; ++d) {
                check_problem((uf_conv_direction)d, &args);
            }
        }
    }
    for (int64_t i = 0; i < RANDOM; ++i) {
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        check_problem((uf_conv_direction)(i % 3), &args);
    }
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        for (int loop = 0; loop < LOOPS; ++loop) {
            int plans = 0;
            for (int tile = 0; tile < most[v][loop]; ++tile) {
                plans += made[v][loop][tile] > 0;
            }
            if (most[v][loop] > 0) {
                print_message("%s, %s: %d of %d tiles\n", uf_conv_variants[v].name,
                              uf_conv_variants[v].loops[loop].name, plans, most[v][loop]);
                assert_true(plans > (most[v][loop] > 1));
            }
        }
    }
}

/* "variant:tile", by whom it is forced. */
static void test_forced(void **state) {
    const plan_sizes *sizes = &plan_table[0].sizes;
    (void)state;
    for (int64_t i = 0; i < plan_table_rows; ++i) {
        if (strcmp(plan_table[i].name, "body") == 0) {
            sizes = &plan_table[i].sizes;
        }
    }
    uf_conv_kernel_args args = plan_args_of(sizes, UF_F32, UF_MATH_TF32);
    const uf_conv_problem problem = problem_of(UF_CONV_DGRAD, &args);
    uf_conv_plan *const plan = new_plan(0);
    for (int tile = 0; tile < 3; ++tile) {
        char name[64];
        (void)snprintf(name, sizeof name, "mma_implicit_gemm:%d", tile);
        args.variant = name;
        assert_ok(uf_conv_choose(&problem, plan));
        assert_int_equal(plan->variant, UF_CUDA_CONV_MMA_IMPLICIT_GEMM);
        assert_int_equal(plan->tile, tile);
    }
    args.variant = "mma_implicit_gemm:3";
    assert_error(uf_conv_choose(&problem, plan), UF_ERROR_UNSUPPORTED,
                 "asks conv_dgrad for tile 3, which the main loop implicit_gemm does not have");
    args.variant = "naive:1";
    assert_error(uf_conv_choose(&problem, plan), UF_ERROR_UNSUPPORTED, "it has some of 0 to 0");
    args.variant = "naive:0";
    assert_ok(uf_conv_choose(&problem, plan));
    static const char *const unknown[] = {"naive:",   "naive:-1",    "naive:x",   "naive:0x",
                                          "naive: 0", "naive:00000", ":0",        "nai:0",
                                          "naive::0", "naive0",      "naive:0:0", ":"};
    for (int64_t i = 0; i < COUNT_OF(unknown); ++i) {
        args.variant = unknown[i];
        assert_int_equal(uf_conv_forced_of(unknown[i]).variant, UF_CUDA_CONV_VARIANTS);
        assert_error(uf_conv_choose(&problem, plan), UF_ERROR_UNSUPPORTED, "these do");
    }
    free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_tile),
                                       cmocka_unit_test(test_forced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
