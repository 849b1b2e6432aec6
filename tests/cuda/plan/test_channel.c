/* test_channel.c - how blocks share the channels of a tensor: every element has one thread, a
 * block's threads are all in use where there is enough to do, and sums stay short. */
#include "support/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/norm/channel_plan.h"
#include "support/random.h"

static const size_t elements[] = {2, 4, 8};

static void check_form(const int64_t e[4], size_t element, const uf_channel_plan *plan) {
    const int64_t pixels = e[2] * e[3];
    assert_int_equal(plan->lanes * plan->channels * plan->rows, UF_CHANNEL_BLOCK);
    assert_true(plan->width == 1 || plan->width * (int32_t)element == 16);
    assert_true(plan->width > 1 || pixels % (16 / (int64_t)element) != 0);
    /* Sums go over the lanes of a warp by shuffles: powers of two. */
    assert_int_equal(plan->lanes & (plan->lanes - 1), 0);
    assert_int_equal(plan->channels & (plan->channels - 1), 0);
    assert_in_range(plan->lanes, 1, 32);
    assert_in_range(plan->pieces, 1, UF_CHANNEL_PIECES);
    assert_int_equal(1 << plan->lane_bits, plan->lanes);
    assert_int_equal(1 << plan->unit_bits, plan->lanes * plan->channels);
    assert_in_range(plan->step_vectors, 0, plan->plane - 1);
    assert_int_equal(plan->step_images * plan->plane + plan->step_vectors, uf_channel_team(plan));
    assert_true(plan->groups * plan->channels >= e[1]);
    assert_true((plan->groups - 1) * plan->channels < e[1]);
    assert_true(plan->pieces * uf_channel_piece(plan) >= plan->vectors);
    assert_true((plan->pieces - 1) * uf_channel_piece(plan) < plan->vectors);
}

/* The thread's next vector, a team further, as each_vector of batch_norm.cuh finds it. */
static void next(const uf_channel_plan *plan, uf_channel_cursor *at) {
    at->i += uf_channel_team(plan);
    at->n += plan->step_images + (uf_channel_step(plan, &at->p) ? 1 : 0);
}

/* Walk as the kernels do. */
static void check_walk(const int64_t e[4], size_t element) {
    const uf_channel_plan plan = uf_channel_plan_of(e, element);
    const int64_t pixels = e[2] * e[3];
    const int64_t count = e[0] * e[1] * pixels;
    check_form(e, element, &plan);
    unsigned char *visited = test_allocate((size_t)count);
    memset(visited, 0, (size_t)count);
    for (int64_t block = 0; block < plan.groups * plan.pieces; ++block) {
        for (int32_t t = 0; t < UF_CHANNEL_BLOCK; ++t) {
            const int64_t c = block % plan.groups * plan.channels + t / plan.lanes % plan.channels;
            const int64_t member = t / plan.lanes / plan.channels * plan.lanes + t % plan.lanes;
            uf_channel_cursor at =
                uf_channel_at(&plan, block / plan.groups * uf_channel_piece(&plan) + member);
            for (int64_t step = 0; c < e[1] && step < plan.steps && at.i < plan.vectors; ++step) {
                assert_int_equal(at.n * plan.plane + at.p, at.i);
                assert_in_range(at.p, 0, plan.plane - 1);
                for (int32_t j = 0; j < plan.width; ++j) {
                    ++visited[(at.n * e[1] + c) * pixels + at.p * plan.width + j];
                }
                next(&plan, &at);
            }
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        if (visited[i] != 1) {
            fail_msg("(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                     ") of %zu bytes: element %" PRId64 " is visited %d times",
                     e[0], e[1], e[2], e[3], element, i, visited[i]);
        }
    }
    free(visited);
}

static void test_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1},    {2, 1, 1, 1},    {1, 3, 1, 2},     {300, 1, 1, 1},     {5, 700, 1, 1},
        {128, 40, 4, 4}, {128, 3, 8, 8},  {128, 3, 16, 16}, {128, 2, 32, 32},   {1, 64, 128, 128},
        {1, 512, 8, 8},  {16, 512, 2, 2}, {16, 33, 1, 1},   {1, 1, 1200, 1200}, {3, 5, 7, 9},
        {2, 3, 7, 7},    {70, 3, 3, 4},   {9000, 1, 1, 1},  {9000, 2, 1, 4},    {1, 2, 1, 40000},
    };
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        for (int64_t i = 0; i < COUNT_OF(elements); ++i) {
            check_walk(shapes[row], elements[i]);
        }
    }
}

static void test_random_shapes(void **state) {
    (void)state;
    for (int64_t i = 0; i < 400; ++i) {
        test_random random = test_random_for("channel plan", i);
        int64_t e[4];
        do {
            for (int axis = 0; axis < 4; ++axis) {
                e[axis] = test_random_log(&random, 1, 2000);
            }
        } while (e[0] * e[1] * e[2] * e[3] > 300000);
        check_walk(e, elements[i % COUNT_OF(elements)]);
    }
}

/* Shapes too large to walk. */
static void test_large_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1 << 20, 3, 1 << 10, 1 << 10},
                                        {2, INT64_C(1) << 31, 1, 1},
                                        {INT64_C(1) << 33, 1, 1, 1},
                                        {1, 1, INT64_C(1) << 20, INT64_C(1) << 20}};
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        for (int64_t i = 0; i < COUNT_OF(elements); ++i) {
            const uf_channel_plan plan = uf_channel_plan_of(shapes[row], elements[i]);
            check_form(shapes[row], elements[i], &plan);
            const uf_channel_cursor last = uf_channel_at(&plan, plan.vectors - 1);
            assert_true(last.n == shapes[row][0] - 1 && last.p == plan.plane - 1);
        }
    }
}

/* DCGAN's and U-Net's tensors: whole where a block can keep a channel, enough blocks, and runs of
 * 64 bytes or more. */
static void test_real_shapes(void **state) {
    (void)state;
    static const struct {
        int64_t extent[4], pieces, blocks;
    } rows[] = {
        {{128, 1024, 4, 4}, 1, 512},    {{128, 512, 8, 8}, 1, 512},  {{128, 256, 16, 16}, 4, 1024},
        {{128, 128, 32, 32}, 16, 2048}, {{1, 64, 128, 128}, 8, 512}, {{1, 512, 4, 4}, 1, 8},
        {{16, 64, 128, 128}, 32, 2048}, {{16, 512, 1, 1}, 1, 16},    {{1, 256, 32, 32}, 1, 256},
        {{128, 512, 4, 4}, 1, 256},     {{128, 256, 8, 8}, 1, 256},  {{128, 128, 16, 16}, 4, 512},
    };
    for (int64_t row = 0; row < COUNT_OF(rows); ++row) {
        const uf_channel_plan plan = uf_channel_plan_of(rows[row].extent, sizeof(float));
        assert_int_equal(plan.pieces, rows[row].pieces);
        assert_int_equal(plan.groups * plan.pieces, rows[row].blocks);
        const int64_t run = plan.lanes * (plan.channels < 32 ? plan.channels : 32) * plan.width;
        assert_true(run * (int64_t)sizeof(float) >= 64);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_real_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
