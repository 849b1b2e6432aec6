/* test_space_to_depth_plan.c - the plan of conv_space_to_depth against its kernels and the
 * definition: what they do with it (cuda/space_to_depth_model.h) moves every pixel, every cell and
 * every weight once, and the convolution in steps of one between them gives what the layer itself
 * does. Which layers have a plan is asked by cuda/test_space_to_depth_takes.c. Needs no GPU. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "cuda/plan_helpers.h"
#include "cuda/space_to_depth_layers.h"
#include "cuda/space_to_depth_model.h"

enum {
    CASES = 600,
    LARGE_CASES = 400,
    LIMIT = 1 << 28, /* of extents, channels, blocks and elements of w */
    FAR = 1 << 30,   /* of offsets */
    BLOCKS = 264,    /* two of an H200's multiprocessor: as many as there should be */
    BYTES = 16,      /* rows of cells begin at such */
    SECTOR = 16,     /* cells: parts of rows begin at such */
    SPARE = 1000     /* bytes of scratch that are left to the inner convolution */
};

/* ---- numbers of the plan ---- */

static bool are_enough(int64_t tiles, int64_t each, int64_t count) {
    return each > 0 && tiles * each >= count && (tiles - 1) * each < count;
}

/* Tiles are as large as shared memory lets them be, if that leaves enough of them. */
static void check_move(const uf_space_to_depth_move *p, const uf_view *x, const uf_view *cells) {
    const int32_t size = (int32_t)uf_dtype_size(x->dtype), piece = BYTES / size;
    const int32_t room = UF_SPACE_TO_DEPTH_TILE / size,
                  widest = room / p->spacing / SECTOR * SECTOR;
    const int32_t parts = (p->pitch + widest - 1) / widest;
    const int32_t row = p->tile[1] * p->spacing, unit = row * p->tile[0];
    const int64_t padded[2] = {p->cells[0], p->pitch};
    bool vector = x->extent[3] > 1 && x->stride[3] == 1;
    assert_int_equal(p->pitch, round_up(p->cells[1], piece));
    assert_true(cells->stride[3] == 1 && cells->stride[2] == p->pitch);
    assert_true(cells->stride[1] == p->plane && p->plane == (int64_t)p->pitch * p->cells[0]);
    assert_true(cells->extent[0] * cells->stride[0] < FAR && p->blocks < LIMIT);
    assert_int_equal(p->channels, x->extent[1]);
    assert_int_equal(p->units, x->extent[0] * x->extent[1] * p->phases[0]);
    assert_int_equal(cells->extent[1], x->extent[1] * p->phases[0] * p->phases[1]);
    for (int axis = 0; axis < 4; ++axis) {
        const bool one = x->extent[axis] == 1;
        assert_int_equal(p->stride[axis], one ? 0 : x->stride[axis]);
        vector = vector && (axis == 3 || one || x->stride[axis] % piece == 0);
    }
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(p->extent[axis], x->extent[2 + axis]);
        assert_int_equal(p->cells[axis], cells->extent[2 + axis]);
        assert_true(are_enough(p->tiles[axis], p->tile[axis], padded[axis]));
        assert_true((int64_t)p->cells[axis] * p->phases[axis] >=
                    (int64_t)p->origin[axis] + p->extent[axis]);
    }
    assert_true(p->spacing % 2 == 1 && (p->spacing - p->phases[1]) / 2 == 0);
    /* Rows in one part, or else in parts of about the same size. */
    assert_true(parts == 1 ? p->tile[1] == p->pitch
                           : p->tile[1] % SECTOR == 0 && p->tile[1] <= widest &&
                                 p->tile[1] * p->tiles[1] < p->pitch + SECTOR * parts);
    assert_true(p->tile[0] == p->cells[0] || unit + row > room);
    const int32_t several = room / unit, share = (p->units + BLOCKS - 1) / BLOCKS;
    assert_true(several >= 1);
    assert_int_equal(p->together, p->tiles[0] * p->tiles[1] > 1 ? 1
                                  : several < share             ? several
                                                                : share);
    assert_int_equal(p->blocks, (p->units + p->together - 1) / p->together * (int64_t)p->tiles[0] *
                                    p->tiles[1]);
    /* Lanes of a segment, and of a run, have all pixels and cells, and not many more. */
    for (int i = 0; i < 2; ++i) {
        const int64_t count = i == 0 ? 1 : piece, lanes = 32 * UF_SPACE_TO_DEPTH_TOGETHER * count;
        const int64_t wide = (int64_t)p->tile[1] * p->phases[1];
        const int64_t pixels = wide < p->extent[1] ? wide : p->extent[1];
        assert_true(p->segments[i] * lanes >= pixels + count - 1);
        assert_true((p->segments[i] - 1) * lanes < pixels + 2 * count);
    }
    assert_true(are_enough(p->fours, 4, p->phases[1]));
    assert_true(are_enough(p->runs, 8, p->tile[0] * p->tile[1] / piece));
    assert_true(p->vector == vector && p->wide == (p->phases[1] >= piece - 1));
}

static void check_filter(const uf_space_to_depth_filter *p, const uf_view *w,
                         const uf_view *inner) {
    assert_memory_equal(p->stride, w->stride, sizeof p->stride);
    assert_true(p->channels == w->extent[1] && p->count == uf_view_count(w));
    assert_true(p->moved == uf_view_count(inner) && p->moved < LIMIT && p->count <= p->moved);
    assert_int_equal(inner->extent[0], w->extent[0]);
    assert_int_equal(inner->extent[1], w->extent[1] * p->phases[0] * p->phases[1]);
    for (int axis = 0; axis < 2; ++axis) {
        assert_true(p->kernel[axis] == w->extent[2 + axis]);
        assert_true(p->taps[axis] == inner->extent[2 + axis]);
    }
    assert_true(uf_view_is_contiguous(inner));
}

/* Axes with steps have as many taps as the filter and the pixels need; others are as they were. */
static void check_axis(const uf_conv_kernel_args *args, const uf_space_to_depth_plan *plan,
                       int axis) {
    const uf_conv_kernel_args *inner = &plan->inner;
    const int64_t step = args->stride[axis], kernel = args->w.extent[2 + axis];
    const int64_t taps = inner->w.extent[2 + axis], cells = inner->x.extent[2 + axis];
    const int64_t origin = step == 1 ? 0 : args->padding[axis];
    assert_true(plan->tensor.phases[axis] == step && plan->filter.phases[axis] == step);
    assert_int_equal(plan->tensor.origin[axis], origin);
    assert_int_equal(inner->stride[axis], 1);
    assert_int_equal(inner->padding[axis], args->padding[axis] - origin);
    assert_int_equal(inner->dilation[axis], step == 1 ? args->dilation[axis] : 1);
    if (step == 1) {
        assert_true(taps == kernel && cells == args->x.extent[2 + axis]);
    } else {
        assert_int_equal(cells, args->y.extent[2 + axis] + taps - 1);
        assert_true((taps - 1) * step < kernel ||
                    (cells - 1) * step < origin + args->x.extent[2 + axis]);
    }
}

/* Where things are in scratch: none meets another, and the inner convolution has the rest. */
static void check_scratch(const space_to_depth_layer *of, const uf_space_to_depth_plan *plan) {
    uf_conv_kernel_args args = of->args;
    char *const scratch = (char *)(uintptr_t)(1 << 20);
    args.workspace = scratch;
    args.workspace_size = plan->bytes + SPARE;
    const uf_conv_kernel_args inner = uf_space_to_depth_inner(plan, &args);
    const uf_view *const views[] = {&inner.x, &inner.w, &inner.epilogue.scale,
                                    &inner.epilogue.shift};
    uintptr_t at[4], end[4];
    for (int i = 0; i < (of->direction == UF_CONV_DGRAD ? 4 : 2); ++i) {
        at[i] = (uintptr_t)views[i]->data;
        end[i] = at[i] + (uintptr_t)(views[i]->extent[0] * views[i]->stride[0]) *
                             uf_dtype_size(args.x.dtype);
        if (at[i] == 0) {
            continue; /* no scale, no shift */
        }
        assert_true(at[i] >= (uintptr_t)scratch && end[i] <= (uintptr_t)scratch + plan->bytes);
        assert_int_equal(at[i] % UF_ALIGNMENT, 0);
        for (int j = 0; j < i; ++j) {
            assert_true(end[j] <= at[i] || end[i] <= at[j]);
        }
    }
    assert_ptr_equal(inner.workspace, scratch + plan->bytes);
    assert_true(inner.workspace_size == SPARE && plan->bytes % UF_ALIGNMENT == 0);
    assert_true(inner.y.data == args.y.data && inner.variant == NULL);
}

/* Where tensors begin, and what was in the plan before, changes nothing. */
static void check_pure(const space_to_depth_layer *of, const uf_space_to_depth_plan *plan) {
    uf_conv_kernel_args moved = of->args;
    uf_space_to_depth_plan made;
    moved.variant = "space_to_depth";
    moved.workspace = moved.x.data = moved.w.data = moved.y.data = (void *)4098;
    moved.workspace_size = 1;
    memset(&made, 0xff, sizeof made);
    assert_true(space_to_depth_plan_of(of->direction, &moved, &made));
    assert_memory_equal(&made.tensor, &plan->tensor, sizeof made.tensor);
    assert_memory_equal(&made.filter, &plan->filter, sizeof made.filter);
    const void *const some[] = {made.inner.x.data, made.inner.w.data, made.inner.y.data};
    for (int i = 0; i < 3; ++i) {
        assert_true(some[i] != NULL && some[i] == plan->inner.x.data);
    }
    assert_int_equal((uintptr_t)plan->inner.x.data % UF_ALIGNMENT, 0);
    assert_true(made.bytes == plan->bytes && made.cost == plan->cost);
    assert_true(made.inner.variant == NULL && made.inner.workspace == NULL &&
                made.inner.workspace_size == 0);
    assert_false(space_to_depth_plan_of(of->direction, &plan->inner, &made));
}

static void check_numbers(const space_to_depth_layer *of, const uf_space_to_depth_plan *plan) {
    const uf_conv_kernel_args *args = &of->args, *inner = &plan->inner;
    const uf_epilogue *out = &args->epilogue;
    const bool zeros = uf_view_count(&inner->w) != uf_view_count(&args->w);
    const bool spread = out->scale.data != NULL || out->shift.data != NULL;
    assert_ok(uf_conv_check(of->direction, inner));
    assert_true(inner->mode == UF_OVERWRITE && inner->math == args->math);
    assert_true(inner->groups == args->groups && inner->x.extent[0] == args->x.extent[0]);
    assert_memory_equal(inner->y.extent, args->y.extent, sizeof args->y.extent);
    assert_memory_equal(inner->y.stride, args->y.stride, sizeof args->y.stride);
    check_axis(args, plan, 0);
    check_axis(args, plan, 1);
    check_move(&plan->tensor, &args->x, &inner->x);
    check_filter(&plan->filter, &args->w, &inner->w);
    assert_memory_equal(&inner->epilogue.activation, &out->activation, sizeof out->activation);
    if (of->direction == UF_CONV_DGRAD) {
        assert_int_equal(plan->spread, spread ? inner->x.extent[1] : 0);
        assert_int_equal(inner->epilogue.scale.data != NULL, out->scale.data != NULL);
        assert_int_equal(inner->epilogue.shift.data != NULL, out->shift.data != NULL);
    } else {
        assert_int_equal(plan->spread, 0);
        assert_memory_equal(&inner->epilogue, out, sizeof *out);
    }
    assert_int_equal(plan->fixups,
                     of->direction == UF_CONV_FPROP &&
                         (zeros || (args->x.dtype == UF_F32 && args->math == UF_MATH_FP32)));
    /* Between what an H200's memory needs and a bit more, with launches of three kernels. */
    const double x = (double)uf_view_count(&args->x), y = (double)uf_view_count(&args->y);
    const double size = (double)uf_dtype_size(args->x.dtype), moved = plan->filter.moved;
    assert_true(plan->cost > size * (2 * x + moved) / 2800);
    assert_true(plan->cost < size * (2 * x + 5 * moved + y) / 900 + 30000);
    check_scratch(of, plan);
    check_pure(of, plan);
}

/* ---- moves and the convolution between them ---- */

/* The whole rows of cells, with what fills them up. */
static uf_view rows_of(const uf_view *cells) {
    uf_view rows = *cells;
    rows.extent[3] = rows.stride[2];
    return rows;
}

/* What the layer does is what comes of moving in, the inner convolution, and moving out. */
static void check_results(space_to_depth_layer *of, const uf_space_to_depth_plan *plan,
                          test_random *random) {
    static const int32_t nowhere[2] = {0, 0};
    const uf_conv_kernel_args *args = &of->args, *made = &plan->inner;
    const uf_conv_direction direction = of->direction;
    const uf_view rows = rows_of(&made->x);
    uf_space_to_depth_move moves = plan->tensor;
    space_to_depth_layer inner = {.direction = direction, .args = *made};
    tensor *const own[] = {&of->x, &of->w, &of->y, &of->scale, &of->shift};
    const uf_view *const views[] = {&args->x, &args->w, &args->y, &args->epilogue.scale,
                                    &args->epilogue.shift};
    for (int i = 0; i < 5; ++i) {
        *own[i] = tensor_of(views[i]);
        fill(own[i], random);
    }
    const tensor result = tensor_of(&written_of(of)->view);
    moves.vector = moves.vector && !test_random_one_in(random, 4); /* x begins anywhere */
    inner.x = tensor_of(&rows);
    inner.w = tensor_of(&made->w);
    inner.y = direction == UF_CONV_FPROP ? result : of->y;
    if (direction == UF_CONV_DGRAD) {
        inner.x.view = made->x; /* nobody writes the rest */
        inner.scale = spread_of(&of->scale, &made->epilogue.scale, plan);
        inner.shift = spread_of(&of->shift, &made->epilogue.shift, plan);
    } else {
        move(&moves, true, &of->x, &inner.x);
        check_cells(moves.phases, moves.origin, &of->x, &inner.x);
    }
    for (int32_t i = 0; direction != UF_CONV_WGRAD && i < plan->filter.moved; ++i) {
        filter_in(&plan->filter, i, &of->w, &inner.w);
    }
    if (direction != UF_CONV_WGRAD) {
        check_cells(plan->filter.phases, nowhere, &of->w, &inner.w);
    }
    convolve(&inner);
    if (direction == UF_CONV_DGRAD) {
        move(&moves, false, &result, &inner.x);
    }
    for (int32_t i = 0; direction == UF_CONV_WGRAD && i < plan->filter.count; ++i) {
        filter_out(&plan->filter, i, &inner.w, &result);
    }
    convolve(of);
    for (int64_t i = 0; i < result.count; ++i) { /* in gaps: still nothing */
        const double expected = written_of(of)->values[i];
        assert_true(result.values[i] == expected || (isnan(result.values[i]) && isnan(expected)));
    }
    double *const mine[] = {of->x.values,       of->w.values,   of->y.values,   of->scale.values,
                            of->shift.values,   inner.x.values, inner.w.values, inner.scale.values,
                            inner.shift.values, result.values};
    for (int i = 0; i < COUNT_OF(mine); ++i) {
        free(mine[i]);
    }
}

static void test_layers(void **state) {
    (void)state;
    enum { WIDE, HIGH, BOTH, TOGETHER, VECTOR, LONG, SPREAD, SPARES, PADDED, MENDS, NOT, KINDS };
    int64_t seen[KINDS] = {0};
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("shuffle_plan", i);
        space_to_depth_layer of = random_layer(&random, (uf_conv_direction)(i % 3));
        const uf_conv_kernel_args *args = &of.args;
        uf_space_to_depth_plan plan;
        assert_ok(uf_conv_check(of.direction, args));
        assert_true(space_to_depth_plan_of(of.direction, args, &plan));
        check_numbers(&of, &plan);
        check_results(&of, &plan, &random);
        const uf_space_to_depth_move *p = &plan.tensor;
        seen[WIDE] += p->tiles[1] > 1;
        seen[HIGH] += p->tiles[0] > 1;
        seen[BOTH] += p->tiles[1] > 1 && p->tiles[0] > 1;
        seen[TOGETHER] += p->together > 1 && p->units % p->together != 0;
        seen[VECTOR] += p->vector && p->origin[1] > 0;
        seen[LONG] += p->vector && p->wide;
        seen[SPREAD] += plan.spread > 0;
        seen[SPARES] += (plan.inner.w.extent[2] - 1) * args->stride[0] >= args->w.extent[2];
        seen[PADDED] += args->padding[0] > args->w.extent[2] && args->stride[0] > 1;
        seen[MENDS] += plan.fixups;
        seen[NOT] += i % 3 == UF_CONV_FPROP && !plan.fixups;
    }
    for (int i = 0; i < KINDS; ++i) {
        assert_true(seen[i] > 2);
    }
}

/* ---- large layers: of blocks some, and places without values ---- */

static void check_some_coords(const space_to_depth_layer *of, const uf_space_to_depth_plan *plan,
                              test_random *random) {
    const uf_view rows = rows_of(&plan->inner.x);
    const tensor x = coords_of(&of->args.x), cells = coords_of(&rows);
    const tensor w = coords_of(&of->args.w), moved = coords_of(&plan->inner.w);
    const int32_t last = plan->tensor.blocks - 1;
    move_block(&plan->tensor, last, test_random_one_in(random, 2), &x, &cells);
    move_block(&plan->tensor, (int32_t)test_random_integer(random, 0, last), true, &x, &cells);
    for (int32_t i = 0; i < 64; ++i) {
        const int32_t in = (int32_t)test_random_integer(random, 0, plan->filter.moved - 1);
        const int32_t out = (int32_t)test_random_integer(random, 0, plan->filter.count - 1);
        filter_in(&plan->filter, i == 0 ? plan->filter.moved - 1 : in, &w, &moved);
        filter_out(&plan->filter, i == 0 ? plan->filter.count - 1 : out, &moved, &w);
    }
}

static void test_large(void **state) {
    (void)state;
    int64_t taken = 0;
    for (int64_t i = 0; i < LARGE_CASES; ++i) {
        test_random random = test_random_for("shuffle_plan_large", i);
        const space_to_depth_layer of = random_large(&random, (uf_conv_direction)(i % 3));
        const uf_conv_kernel_args *args = &of.args;
        const double elements = (double)uf_view_count(&args->x) + (double)uf_view_count(&args->y) +
                                (double)uf_view_count(&args->w);
        uf_space_to_depth_plan plan;
        assert_ok(uf_conv_check(of.direction, args));
        if (space_to_depth_plan_of(of.direction, args, &plan)) {
            ++taken;
            check_numbers(&of, &plan);
            check_some_coords(&of, &plan, &random);
        } else { /* as cells it is at most so many times more */
            assert_true(elements * (double)(args->stride[0] * args->stride[1]) > LIMIT / 64.0);
        }
    }
    assert_true(taken > LARGE_CASES / 3 && taken < LARGE_CASES);
}

/* By hand: FCN's ways up, one of WaveGAN's, and the longest steps. */
static void test_named(void **state) {
    (void)state;
    static const struct {
        sizes of;
        int64_t stride[2], padding[2], inner[5]; /* channels, cells and taps */
        int32_t tile[2], made[2][4];             /* f32, bf16: height, tiles, together, blocks */
    } layers[] = {
        {{1, 21, 21, {32, 32}, {30, 30}, {0, 0}},
         {16, 16},
         {8, 8},
         {5376, 31, 31, 2, 2},
         {32, 32},
         {{7, 5, 1, 1680}, {15, 3, 1, 1008}}},
        {{1, 21, 21, {64, 64}, {16, 16}, {0, 0}},
         {32, 32},
         {16, 16},
         {21504, 17, 17, 2, 2},
         {20, 24},
         {{6, 3, 1, 2016}, {10, 2, 1, 1344}}},
        {{16, 64, 64, {1, 25}, {1, 4096}, {0, 1}},
         {1, 4},
         {0, 11},
         {256, 1, 4102, 1, 7},
         {688, 1376},
         {{1, 6, 1, 6144}, {1, 3, 1, 3072}}},
        {{2, 3, 5, {128, 64}, {4, 4}, {0, 63}},
         {64, 64},
         {32, 0},
         {12288, 5, 5, 2, 2},
         {8, 8},
         {{5, 1, 1, 384}, {5, 1, 2, 192}}},
    };
    for (int64_t i = 0; i < 6 * COUNT_OF(layers); ++i) {
        const int64_t which = i / 6, bf16 = i % 2;
        uf_conv_kernel_args args;
        uf_space_to_depth_plan plan;
        memset(&args, 0, sizeof args);
        memcpy(args.stride, layers[which].stride, sizeof args.stride);
        memcpy(args.padding, layers[which].padding, sizeof args.padding);
        args.groups = args.dilation[0] = args.dilation[1] = 1;
        const space_to_depth_layer of = layer_of(
            (uf_conv_direction)(i / 2 % 3), bf16 == 1 ? UF_BF16 : UF_F32, &args, &layers[which].of);
        assert_true(space_to_depth_plan_of(of.direction, &of.args, &plan));
        check_numbers(&of, &plan);
        const uf_space_to_depth_move *p = &plan.tensor;
        const int64_t inner[] = {plan.inner.x.extent[1], plan.inner.x.extent[2],
                                 plan.inner.x.extent[3], plan.inner.w.extent[2],
                                 plan.inner.w.extent[3]};
        const int32_t made[] = {p->tile[0], p->tiles[0] * p->tiles[1], p->together, p->blocks};
        assert_memory_equal(inner, layers[which].inner, sizeof inner);
        assert_memory_equal(made, layers[which].made[bf16], sizeof made);
        assert_int_equal(p->tile[1], layers[which].tile[bf16]);
        test_random random = test_random_for("shuffle_plan_named", i);
        check_some_coords(&of, &plan, &random);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
