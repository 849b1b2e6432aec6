/* test_depthwise_plan.c - threads of conv_depthwise against the definition: what an element of a
 * thread finds in its window is what its taps meet, every element has one thread, and vectors lie
 * where they may. Needs no GPU. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "cuda/plan_helpers.h"
#include "kernels/cuda/conv/depthwise/plan.h"
#include "support/random.h"

enum { CASES = 4000, THREADS = 40 };

static uf_conv_kernel_args draw(test_random *random) {
    static const int64_t filters[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uf_conv_kernel_args args;
    int64_t large[2], small[2];
    void *const nowhere = (void *)4096;
    memset(&args, 0, sizeof args);
    const int64_t kernel = filters[test_random_integer(random, 0, COUNT_OF(filters) - 1)];
    const int64_t stride = test_random_integer(random, 1, test_random_one_in(random, 8) ? 3 : 2);
    const bool same = test_random_one_in(random, 2); /* the usual padding */
    const int64_t most = test_random_one_in(random, 3) ? 300 : 20;
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = stride;
        args.padding[axis] = same ? (kernel - 1) / 2 : test_random_integer(random, 0, 9);
        args.dilation[axis] = test_random_one_in(random, 20) ? 2 : 1;
        do {
            small[axis] = test_random_integer(random, 1, most);
            if (test_random_one_in(random, 2)) {
                small[axis] = (small[axis] + 7) / 8 * 8;
            }
            large[axis] = (small[axis] - 1) * stride - 2 * args.padding[axis] +
                          (kernel - 1) * args.dilation[axis] + 1 +
                          test_random_integer(random, 0, stride - 1);
        } while (large[axis] < 1);
    }
    const uf_dtype dtype = test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t batch = test_random_integer(random, 1, 20);
    const int64_t c = test_random_one_in(random, 2) ? 1 : test_random_integer(random, 1, 5);
    const int64_t k = test_random_one_in(random, 2) ? 1 : test_random_integer(random, 1, 5);
    args.groups = test_random_integer(random, 1, 40);
    args.x = uf_view_nchw(nowhere, dtype, batch, c * args.groups, large[0], large[1]);
    args.w = uf_view_nchw(nowhere, dtype, k * args.groups, c, kernel, kernel);
    args.y = uf_view_nchw(nowhere, dtype, batch, k * args.groups, small[0], small[1]);
    if (test_random_one_in(random, 4)) { /* rows apart */
        args.x.stride[2] += test_random_integer(random, 1, 8);
    }
    if (test_random_one_in(random, 8)) {
        args.y.data = (char *)args.y.data + uf_dtype_size(dtype);
    }
    return args;
}

/* The element that tap `tap` meets at written element `at`; false: none. */
static bool meets(const uf_conv_kernel_args *args, bool dgrad, int axis, int64_t at, int64_t tap,
                  int64_t *read) {
    if (!dgrad) {
        *read = at * args->stride[axis] - args->padding[axis] + tap;
        return true;
    }
    const int64_t shifted = at + args->padding[axis] - tap;
    *read = shifted / args->stride[axis];
    return shifted % args->stride[axis] == 0;
}

/* Elements `first` to `first + count` of one axis of a thread: each tap at its place, as the kernel
 * counts them. */
static void check_axis(const uf_conv_kernel_args *args, bool dgrad, const uf_depthwise_plan *plan,
                       int axis, int32_t first, int32_t count) {
    const uf_depthwise_conv *depthwise = &plan->depthwise;
    const int32_t before = uf_depthwise_padding(plan->filter);
    const int32_t from = first * plan->in_step + depthwise->shift[axis];
    if (plan->out_step == 2) {
        assert_int_equal(from & 1, 0);
    }
    const int32_t base = plan->out_step == 2 ? from >> 1 : from;
    for (int32_t o = 0; o < count; ++o) {
        for (int32_t tap = 0; tap < plan->filter; ++tap) {
            int64_t read;
            const int32_t kept = depthwise->flip ? plan->filter - 1 - tap : tap;
            const bool met = meets(args, dgrad, axis, first + o, tap, &read);
            if (plan->out_step == 2) {
                assert_int_equal((o + before - kept) % 2 == 0, met);
                if (met) {
                    assert_int_equal(base + (o + before - kept) / 2, read);
                }
            } else {
                assert_true(met);
                assert_int_equal(base + o * plan->in_step + kept - before, read);
            }
        }
    }
}

static void check(const uf_conv_kernel_args *args, bool dgrad, const uf_depthwise_plan *plan,
                  test_random *random) {
    const uf_depthwise_conv *depthwise = &plan->depthwise;
    const uf_view *written = dgrad ? &args->x : &args->y;
    const uf_view *read = dgrad ? &args->y : &args->x;
    assert_true(args->dilation[0] == 1 && args->dilation[1] == 1);
    assert_int_equal(plan->blocks, (depthwise->threads + plan->threads - 1) / plan->threads);
    assert_true(plan->threads > 0 && plan->threads <= UF_DEPTHWISE_THREADS);
    /* Threads are a box of pieces, strips and planes. */
    const int64_t piece = depthwise->by_piece.divisor, strips = depthwise->by_strips.divisor;
    const int64_t pieces = depthwise->by_pieces.divisor;
    assert_int_equal(depthwise->threads,
                     piece * strips * pieces * written->extent[0] * written->extent[1]);
    assert_true(piece * pieces >= depthwise->runs);
    if (depthwise->whole) { /* a block's elements follow each other */
        assert_int_equal(plan->threads % piece, 0);
        assert_true(pieces == 1 && piece == depthwise->runs);
        int64_t step = written->extent[3];
        for (int axis = 2; axis >= 0; step *= written->extent[axis--]) {
            assert_true(written->extent[axis] == 1 || written->stride[axis] == step);
        }
    }
    assert_true((int64_t)depthwise->runs * plan->run + depthwise->origin[1] >= written->extent[3]);
    assert_true(strips * plan->rows + depthwise->origin[0] >= written->extent[2]);
    for (int i = 0; i < THREADS; ++i) {
        const int32_t thread = (int32_t)test_random_integer(random, 0, depthwise->threads - 1);
        const int64_t row = divide(&depthwise->by_piece, thread);
        const int64_t rest = divide(&depthwise->by_strips, row);
        const int64_t plane = divide(&depthwise->by_pieces, rest);
        const int64_t n = divide(&depthwise->by_channels, plane);
        assert_int_equal(row, thread / piece);
        assert_int_equal(rest, row / strips);
        assert_int_equal(plane, rest / pieces);
        assert_int_equal(n, plane / written->extent[1]);
        assert_int_equal(divide(&depthwise->by_written, plane % written->extent[1]),
                         plane % written->extent[1] / (written->extent[1] / args->groups));
        const int32_t run = (int32_t)(thread % piece + rest % pieces * piece);
        const int32_t h = (int32_t)(row % strips) * plan->rows + depthwise->origin[0];
        const int32_t w = run * plan->run + depthwise->origin[1];
        check_axis(args, dgrad, plan, 0, h, plan->rows);
        check_axis(args, dgrad, plan, 1, w, plan->run);
    }
    if (plan->vector) {
        const int32_t place = plan->run * plan->in_step / plan->out_step;
        assert_true(depthwise->origin[1] == 0 && depthwise->shift[1] == 0);
        assert_int_equal(read->extent[3] % place, 0);
        assert_int_equal(written->extent[3] % plan->run, 0);
        assert_int_equal(read->extent[2] > 1 ? read->stride[2] % place : 0, 0);
        assert_int_equal(written->extent[2] > 1 ? written->stride[2] % plan->run : 0, 0);
        assert_int_equal((uintptr_t)read->data % ((size_t)place * uf_dtype_size(read->dtype)), 0);
        assert_int_equal(
            (uintptr_t)written->data % ((size_t)plan->run * uf_dtype_size(written->dtype)), 0);
    }
}

static void test_plans(void **state) {
    (void)state;
    int64_t taken = 0, vectors = 0, outside = 0, flipped = 0, whole = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("depthwise_plan", i);
        const uf_conv_kernel_args args = draw(&random);
        for (int d = 0; d < 2; ++d) {
            uf_depthwise_plan plan;
            const uf_conv_problem problem =
                problem_of(d == 0 ? UF_CONV_FPROP : UF_CONV_DGRAD, &args);
            if (uf_depthwise_plan_of(&problem, &plan)) {
                check(&args, d == 1, &plan, &random);
                ++taken;
                vectors += plan.vector;
                outside += plan.depthwise.origin[0] < 0;
                flipped += plan.depthwise.flip;
                whole += plan.depthwise.whole;
            }
        }
    }
    print_message("%lld plans; vectors %lld, runs that begin outside %lld, flipped %lld, blocks of "
                  "whole strips %lld\n",
                  (long long)taken, (long long)vectors, (long long)outside, (long long)flipped,
                  (long long)whole);
    assert_true(vectors > 0 && outside > 0 && flipped > 0 && whole > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
