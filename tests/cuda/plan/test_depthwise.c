/* test_depthwise.c - the plan of depthwise: threads make every element once, from every tap at its
 * place in their windows, and vectors lie where they may. Needs no GPU. */
#include "cuda/plan/walk.h"

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/depthwise/plan.h"

enum { THREADS = 40 /* looked at in a plan of any size */ };

static void draw(test_random *random, plan_layer *layer) {
    uf_conv_kernel_args args = {.math = UF_MATH_TF32};
    int64_t large[2], small[2];
    void *const nowhere = (void *)4096;
    const int64_t kernel = test_random_integer(random, 1, 8);
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
    layer->args = args;
}

/* A thread's first element, and whose. */
typedef struct depthwise_thread {
    int64_t n, channel, first[2];
} depthwise_thread;

static depthwise_thread thread_of(const plan_layer *layer, const uf_depthwise_plan *plan,
                                  int32_t thread) {
    const uf_depthwise_conv *of = &plan->depthwise;
    const int64_t piece = of->by_piece.divisor, strips = of->by_strips.divisor;
    const int64_t pieces = of->by_pieces.divisor, channels = plan_written(layer)->extent[1];
    const int64_t row = divide(&of->by_piece, thread), rest = divide(&of->by_strips, row);
    const int64_t plane = divide(&of->by_pieces, rest), n = divide(&of->by_channels, plane);
    const int64_t run = thread % piece + rest % pieces * piece;
    assert_true(row == thread / piece && rest == row / strips && plane == rest / pieces);
    assert_int_equal(n, plane / channels);
    assert_int_equal(divide(&of->by_written, plane % channels),
                     plane % channels / (channels / layer->args.groups));
    return (depthwise_thread){
        n,
        plane % channels,
        {row % strips * plan->rows + of->origin[0], run * plan->run + of->origin[1]}};
}

/* The read element that element `o` of a thread meets with the tap that lies at `kept` of the
 * filter's registers; false: none. */
static bool meets(const uf_depthwise_plan *plan, int axis, int64_t first, int32_t o, int32_t kept,
                  int64_t *read) {
    const int32_t before = uf_depthwise_padding(plan->filter);
    const int64_t from = first * plan->in_step + plan->depthwise.shift[axis];
    if (plan->out_step == 2) {
        assert_int_equal(from & 1, 0);
        *read = (from >> 1) + (o + before - kept) / 2;
        return (o + before - kept) % 2 == 0;
    }
    *read = from + (int64_t)o * plan->in_step + kept - before;
    return true;
}

static void walk_element(plan_walk *walk, const plan_layer *layer, const uf_depthwise_plan *plan,
                         const depthwise_thread *of, int32_t row, int32_t column) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int64_t k = layer->args.w.extent[0] / layer->args.groups, c = layer->args.w.extent[1];
    const int64_t each = dgrad ? c : k, in_group = of->channel % each;
    const int32_t filter = plan->filter;
    plan_term term = {.n = of->n, .group = of->channel / each, .k = {0, k}, .c = {0, c}};
    int64_t *const one = dgrad ? term.c : term.k;
    int64_t *const written = dgrad ? term.large : term.small;
    int64_t *const read = dgrad ? term.small : term.large;
    one[0] = in_group;
    one[1] = in_group + 1;
    written[0] = of->first[0] + row;
    written[1] = of->first[1] + column;
    plan_store(walk, &term);
    for (int32_t tap = 0; tap < filter * filter; ++tap) {
        term.tap[0] = tap / filter;
        term.tap[1] = tap % filter;
        const int32_t r = plan->depthwise.flip ? filter - 1 - tap / filter : tap / filter;
        const int32_t s = plan->depthwise.flip ? filter - 1 - tap % filter : tap % filter;
        if (meets(plan, 0, of->first[0], row, r, &read[0]) &&
            meets(plan, 1, of->first[1], column, s, &read[1])) {
            plan_make(walk, &term);
        }
    }
}

static void walk_threads(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_depthwise_plan *plan = of;
    for (int32_t thread = 0; thread < plan->depthwise.threads; ++thread) {
        const depthwise_thread at = thread_of(layer, plan, thread);
        for (int32_t i = 0; i < plan->rows * plan->run; ++i) {
            walk_element(walk, layer, plan, &at, i / plan->run, i % plan->run);
        }
    }
}

/* A block's elements follow each other in memory. */
static void check_whole(const uf_view *written, const uf_depthwise_plan *plan) {
    const int64_t piece = plan->depthwise.by_piece.divisor;
    int64_t step = written->extent[3];
    assert_int_equal(plan->threads % piece, 0);
    assert_true(plan->depthwise.by_pieces.divisor == 1 && piece == plan->depthwise.runs);
    for (int axis = 2; axis >= 0; step *= written->extent[axis--]) {
        assert_true(written->extent[axis] == 1 || written->stride[axis] == step);
    }
}

static void check_vectors(const plan_layer *layer, const uf_depthwise_plan *plan) {
    const uf_view *read = plan_read(layer), *written = plan_written(layer);
    const int32_t together = plan->run * plan->in_step / plan->out_step;
    assert_true(plan->depthwise.origin[1] == 0 && plan->depthwise.shift[1] == 0);
    assert_int_equal(read->extent[3] % together, 0);
    assert_int_equal(written->extent[3] % plan->run, 0);
    assert_int_equal(read->extent[2] > 1 ? read->stride[2] % together : 0, 0);
    assert_int_equal(written->extent[2] > 1 ? written->stride[2] % plan->run : 0, 0);
    assert_int_equal((uintptr_t)read->data % ((size_t)together * uf_dtype_size(read->dtype)), 0);
    assert_int_equal((uintptr_t)written->data % ((size_t)plan->run * uf_dtype_size(written->dtype)),
                     0);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_depthwise_plan *plan = of;
    const uf_depthwise_conv *depthwise = &plan->depthwise;
    const uf_view *written = plan_written(layer);
    assert_true(layer->args.dilation[0] == 1 && layer->args.dilation[1] == 1);
    assert_int_equal(plan->blocks, (depthwise->threads + plan->threads - 1) / plan->threads);
    assert_true(plan->threads > 0 && plan->threads <= UF_DEPTHWISE_THREADS);
    /* Threads are a box of pieces, strips and planes. */
    const int64_t piece = depthwise->by_piece.divisor, strips = depthwise->by_strips.divisor;
    const int64_t pieces = depthwise->by_pieces.divisor;
    assert_int_equal(depthwise->threads,
                     piece * strips * pieces * written->extent[0] * written->extent[1]);
    assert_true(piece * pieces >= depthwise->runs);
    assert_true((int64_t)depthwise->runs * plan->run + depthwise->origin[1] >= written->extent[3]);
    assert_true(strips * plan->rows + depthwise->origin[0] >= written->extent[2]);
    for (int i = 0; i < THREADS; ++i) {
        (void)thread_of(layer, plan,
                        (int32_t)test_random_integer(random, 0, depthwise->threads - 1));
    }
    if (depthwise->whole) {
        check_whole(written, plan);
    }
    if (plan->vector) {
        check_vectors(layer, plan);
    }
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, tile);
    return uf_depthwise_plan_of(&problem, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_depthwise_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = 1, .grid = {plan->blocks}, .threads = plan->threads};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_depthwise_plan *plan = of;
    (void)layer;
    seen[0] += plan->vector;
    seen[1] += plan->depthwise.origin[0] < 0;
    seen[2] += plan->depthwise.flip;
    seen[3] += plan->depthwise.whole;
}

static const plan_family family = {
    .name = "depthwise",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_depthwise_plan),
    .draw = draw,
    .cases = 3000,
    .tiled = plan_of,
    .tiles = 5,
    .facts = facts_of,
    .walk = walk_threads,
    .check = check,
    .kinds = {"vectors", "runs that begin outside", "flipped", "blocks of whole strips"},
    .count = count,
    .least_walked = 300};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
