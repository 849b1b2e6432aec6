/* test_space_to_depth.c - the plan of space_to_depth: its kernels
 * (cuda/plan/space_to_depth/model.h) move every pixel, every cell and every weight once, and the
 * convolution in steps of one between them makes each product of the layer once.
 * cuda/plan/space_to_depth/test_space_to_depth_takes.c asks for the layers that have a plan. Needs
 * no GPU. */
#include "cuda/plan/walk.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/plan/space_to_depth/layers.h"
#include "cuda/plan/space_to_depth/model.h"
#include "cuda/plan/helpers.h"

enum {
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
static void check_scratch(const plan_layer *of, const uf_space_to_depth_plan *plan) {
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

/* The plan cache gives a plan to later calls: their epilogue counts, not that of the call that
 * planned. */
static void check_later_call(const plan_layer *of, const uf_space_to_depth_plan *plan) {
    uf_conv_kernel_args later = of->args;
    uf_view *const views[] = {&later.epilogue.scale, &later.epilogue.shift};
    char *const scratch = (char *)(uintptr_t)(1 << 20);
    for (int i = 0; i < 2; ++i) {
        if (views[i]->data != NULL) {
            views[i]->data = (void *)(uintptr_t)((i + 1) << 12 | 4);
        }
    }
    later.epilogue.activation.parameter += 0.25;
    later.workspace = scratch;
    later.workspace_size = plan->bytes + SPARE;
    const uf_conv_kernel_args inner = uf_space_to_depth_inner(plan, &later);
    assert_true(inner.epilogue.activation.kind == later.epilogue.activation.kind);
    assert_true(inner.epilogue.activation.parameter == later.epilogue.activation.parameter);
    const uf_view *const got[] = {&inner.epilogue.scale, &inner.epilogue.shift};
    for (int i = 0; i < 2; ++i) {
        if (plan->spread == 0 || views[i]->data == NULL) {
            assert_ptr_equal(got[i]->data, views[i]->data);
            assert_memory_equal(got[i]->stride, views[i]->stride, sizeof views[i]->stride);
        } else {
            assert_true((const char *)got[i]->data >= scratch &&
                        (const char *)got[i]->data < scratch + plan->bytes);
        }
    }
}

/* Where tensors begin, and what was in the plan before, changes nothing. */
static void check_pure(const plan_layer *of, const uf_space_to_depth_plan *plan) {
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

static void check_numbers(const plan_layer *of, const uf_space_to_depth_plan *plan) {
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
    /* Numbers and addresses of an epilogue are a launch's: check_later_call. */
    assert_true(inner->epilogue.activation.kind == out->activation.kind &&
                inner->epilogue.activation.parameter == 0.0);
    if (of->direction == UF_CONV_DGRAD) {
        assert_int_equal(plan->spread, spread ? inner->x.extent[1] : 0);
        assert_int_equal(inner->epilogue.scale.data != NULL, out->scale.data != NULL);
        assert_int_equal(inner->epilogue.shift.data != NULL, out->shift.data != NULL);
    } else {
        assert_int_equal(plan->spread, 0);
        assert_true((inner->epilogue.scale.data != NULL) == (out->scale.data != NULL) &&
                    (inner->epilogue.shift.data != NULL) == (out->shift.data != NULL));
        assert_memory_equal(inner->epilogue.scale.stride, out->scale.stride,
                            sizeof out->scale.stride);
        assert_memory_equal(inner->epilogue.shift.stride, out->shift.stride,
                            sizeof out->shift.stride);
    }
    assert_int_equal(plan->fixups,
                     of->direction == UF_CONV_FPROP &&
                         (zeros || (args->x.dtype == UF_F32 && args->math == UF_MATH_FP32)));
    /* Between what an H200's memory needs and a bit more, with launches of three kernels. */
    const double x = (double)uf_view_count(&args->x), y = (double)uf_view_count(&args->y);
    const double size = (double)uf_dtype_size(args->x.dtype), moved = plan->filter.moved;
    assert_true(plan->cost > size * (2 * x + moved) / 2800);
    assert_true(plan->cost < size * (2 * x + 5 * moved + y) / 900 + 30000);
    check_later_call(of, plan);
    check_scratch(of, plan);
    check_pure(of, plan);
}

/* ---- moves ---- */

/* The whole rows of cells, with what fills them up. */
static uf_view rows_of(const uf_view *cells) {
    uf_view rows = *cells;
    rows.extent[3] = rows.stride[2];
    return rows;
}

/* x to cells, or (dgrad) back. */
static void check_tensor(const plan_layer *of, const uf_space_to_depth_plan *plan,
                         test_random *random) {
    uf_space_to_depth_move moves = plan->tensor;
    const bool in = of->direction != UF_CONV_DGRAD;
    const uf_view rows = rows_of(&plan->inner.x);
    const tensor x = tensor_of(&of->args.x);
    tensor cells = tensor_of(&rows);
    moves.vector = moves.vector && !test_random_one_in(random, 4); /* x begins anywhere */
    if (in) {
        fill(&x, random);
        move(&moves, true, &x, &cells);
    } else {
        cells.view = plan->inner.x; /* nobody writes the rest */
        fill(&cells, random);
        move(&moves, false, &x, &cells);
        check_whole(&x);
    }
    check_cells(moves.phases, moves.origin, &x, &cells, !in);
    free(x.values);
    free(cells.values);
}

/* w to its inner one, or (wgrad) back. */
static void check_weights(const plan_layer *of, const uf_space_to_depth_plan *plan,
                          test_random *random) {
    static const int32_t nowhere[2] = {0, 0};
    const bool in = of->direction != UF_CONV_WGRAD;
    const tensor w = tensor_of(&of->args.w), moved = tensor_of(&plan->inner.w);
    fill(in ? &w : &moved, random);
    for (int32_t i = 0; in && i < plan->filter.moved; ++i) {
        filter_in(&plan->filter, i, &w, &moved);
    }
    for (int32_t i = 0; !in && i < plan->filter.count; ++i) {
        filter_out(&plan->filter, i, &moved, &w);
    }
    check_whole(in ? &moved : &w);
    check_cells(plan->filter.phases, nowhere, &w, &moved, !in);
    free(w.values);
    free(moved.values);
}

/* Each phase of a channel has its scale, and its shift. */
static void check_spread(const plan_layer *of, const uf_space_to_depth_plan *plan,
                         test_random *random) {
    const uf_view *const from[] = {&of->args.epilogue.scale, &of->args.epilogue.shift};
    const uf_view *const to[] = {&plan->inner.epilogue.scale, &plan->inner.epilogue.shift};
    const int64_t phases = of->args.stride[0] * of->args.stride[1];
    for (int i = 0; of->direction == UF_CONV_DGRAD && i < 2; ++i) {
        const tensor vector = tensor_of(from[i]);
        fill(&vector, random);
        const tensor spread = spread_of(&vector, to[i], plan);
        for (int64_t c = 0; spread.count > 0 && c < plan->inner.x.extent[1]; ++c) {
            assert_true(get(&spread, place_of(&spread, 0, c, 0, 0)) ==
                        get(&vector, place_of(&vector, 0, c / phases, 0, 0)));
        }
        free(vector.values);
        free(spread.values);
    }
}

static void check(const plan_layer *layer, const void *plan, test_random *random) {
    check_numbers(layer, plan);
    check_tensor(layer, plan, random);
    check_weights(layer, plan, random);
    check_spread(layer, plan, random);
}

/* ---- the walk: products of the convolution in steps of one, by what its elements were ---- */

static void walk_phase(plan_walk *walk, const plan_layer *layer, const uf_space_to_depth_plan *plan,
                       int64_t phase) {
    const uf_conv_kernel_args *inner = &plan->inner;
    const uf_space_to_depth_move *moved = &plan->tensor;
    const int64_t *y = inner->y.extent, *w = inner->w.extent;
    const int64_t a[2] = {phase / moved->phases[1], phase % moved->phases[1]};
    plan_term term = {.k = {0, w[0] / inner->groups}, .c = {0, layer->args.w.extent[1]}};
    for (int64_t i = 0; i < inner->groups * y[0] * y[2] * y[3] * w[2] * w[3]; ++i) {
        const int64_t tap[2] = {i / w[3] % w[2], i % w[3]}, pixel = i / w[3] / w[2];
        term.small[1] = pixel % y[3];
        term.small[0] = pixel / y[3] % y[2];
        term.n = pixel / y[3] / y[2] % y[0];
        term.group = pixel / y[3] / y[2] / y[0];
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t cell =
                term.small[axis] - inner->padding[axis] + tap[axis] * inner->dilation[axis];
            term.large[axis] = cell * moved->phases[axis] + a[axis] - moved->origin[axis];
            term.tap[axis] = tap[axis] * plan->filter.phases[axis] + a[axis];
            if (cell < 0 || cell >= inner->x.extent[2 + axis]) {
                term.tap[axis] = -1; /* no cell: zero */
            }
        }
        plan_make(walk, &term);
        if (layer->direction == UF_CONV_FPROP && phase == 0 && tap[0] + tap[1] == 0) {
            plan_store(walk, &term);
        }
    }
}

/* Cells that are moved back, and weights. */
static void store_moved(plan_walk *walk, const plan_layer *layer,
                        const uf_space_to_depth_plan *plan) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int32_t *phases = plan->tensor.phases;
    const uf_view *of = dgrad ? &plan->inner.x : &plan->inner.w;
    const int64_t images = dgrad ? layer->args.x.extent[0] : 1, groups = layer->args.groups;
    plan_term term = {.k = {0, plan->inner.w.extent[0] / groups},
                      .c = {0, plan->inner.x.extent[1]}};
    const int64_t high = of->extent[2] * phases[0], wide = of->extent[3] * phases[1];
    for (int64_t i = 0; i < groups * images * high * wide; ++i) {
        const int64_t h = i / wide % high, w = i % wide;
        term.n = i / wide / high % images;
        term.group = i / wide / high / images;
        term.tap[0] = h;
        term.tap[1] = w;
        term.large[0] = h - plan->tensor.origin[0];
        term.large[1] = w - plan->tensor.origin[1];
        plan_store(walk, &term);
    }
}

static void walk_inner(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_space_to_depth_plan *plan = of;
    for (int64_t i = 0; i < (int64_t)plan->tensor.phases[0] * plan->tensor.phases[1]; ++i) {
        walk_phase(walk, layer, plan, i);
    }
    if (layer->direction != UF_CONV_FPROP) {
        store_moved(walk, layer, plan);
    }
}

static void draw(test_random *random, plan_layer *layer) {
    layer->args = random_layer(random, layer->direction).args;
    assert_ok(uf_conv_check(layer->direction, &layer->args));
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return space_to_depth_plan_of(layer->direction, &layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_space_to_depth_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->tensor.blocks},
                        .threads = UF_SPACE_TO_DEPTH_THREADS,
                        .workspace = (int64_t)plan->bytes};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_space_to_depth_plan *plan = of;
    const uf_space_to_depth_move *p = &plan->tensor;
    const uf_conv_kernel_args *args = &layer->args;
    seen[0] += p->tiles[1] > 1;
    seen[1] += p->tiles[0] > 1;
    seen[2] += p->tiles[1] > 1 && p->tiles[0] > 1;
    seen[3] += p->together > 1 && p->units % p->together != 0;
    seen[4] += p->vector && p->origin[1] > 0;
    seen[5] += p->vector && p->wide;
    seen[6] += plan->spread > 0;
    seen[7] += (plan->inner.w.extent[2] - 1) * args->stride[0] >= args->w.extent[2];
    seen[8] += args->padding[0] > args->w.extent[2] && args->stride[0] > 1;
    seen[9] += plan->fixups;
    seen[10] += layer->direction == UF_CONV_FPROP && !plan->fixups;
}

static const plan_family family = {
    .name = "space_to_depth",
    .directions = PLAN_FPROP | PLAN_DGRAD | PLAN_WGRAD,
    .size = sizeof(uf_space_to_depth_plan),
    .draw = draw,
    .cases = 400,
    .plan = plan_of,
    .facts = facts_of,
    .walk = walk_inner,
    .check = check,
    .kinds = {"wide", "high", "both", "units together", "vectors behind padding", "long steps",
              "scales", "spare taps", "padded beyond the filter", "fixups", "fprop without"},
    .count = count,
    .least_walked = 200};

/* ---- large layers: of blocks some, and places without values ---- */

static void check_some_coords(const plan_layer *of, const uf_space_to_depth_plan *plan,
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

/* Layers without a plan are, as cells, at most so many times more. */
static void draw_large(test_random *random, plan_layer *layer) {
    uf_space_to_depth_plan plan;
    layer->args = random_large(random, layer->direction).args;
    assert_ok(uf_conv_check(layer->direction, &layer->args));
    const uf_conv_kernel_args *args = &layer->args;
    const double elements = (double)uf_view_count(&args->x) + (double)uf_view_count(&args->y) +
                            (double)uf_view_count(&args->w);
    plan_at(layer);
    assert_true(plan_of(layer, &plan) ||
                elements * (double)(args->stride[0] * args->stride[1]) > LIMIT / 64.0);
}

static void check_large(const plan_layer *layer, const void *plan, test_random *random) {
    check_numbers(layer, plan);
    check_some_coords(layer, plan, random);
}

static const plan_family large_family = {.name = "space_to_depth, large",
                                         .directions = PLAN_FPROP | PLAN_DGRAD | PLAN_WGRAD,
                                         .size = sizeof(uf_space_to_depth_plan),
                                         .draw = draw_large,
                                         .cases = 400,
                                         .plan = plan_of,
                                         .facts = facts_of,
                                         .walk = walk_inner,
                                         .check = check_large,
                                         .least_walked = 20};

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
        const plan_layer of = layer_of((uf_conv_direction)(i / 2 % 3), bf16 == 1 ? UF_BF16 : UF_F32,
                                       &args, &layers[which].of);
        plan_at(&of);
        assert_true(plan_of(&of, &plan));
        check_numbers(&of, &plan);
        const uf_space_to_depth_move *p = &plan.tensor;
        const int64_t inner[] = {plan.inner.x.extent[1], plan.inner.x.extent[2],
                                 plan.inner.x.extent[3], plan.inner.w.extent[2],
                                 plan.inner.w.extent[3]};
        const int32_t made[] = {p->tile[0], p->tiles[0] * p->tiles[1], p->together, p->blocks};
        assert_memory_equal(inner, layers[which].inner, sizeof inner);
        assert_memory_equal(made, layers[which].made[bf16], sizeof made);
        assert_int_equal(p->tile[1], layers[which].tile[bf16]);
        test_random random = test_random_for("space_to_depth_named", i);
        check_some_coords(&of, &plan, &random);
    }
    plan_at(NULL);
}

/* A plan that was made by asking for a packed form serves calls that keep none. */
static void test_packing(void **state) {
    (void)state;
    const sizes of = {1, 3, 64, {4, 4}, {32, 32}, {0, 0}};
    uf_conv_kernel_args args;
    uf_space_to_depth_plan plan;
    memset(&args, 0, sizeof args);
    args.stride[0] = args.stride[1] = 2;
    args.padding[0] = args.padding[1] = 3;
    args.groups = args.dilation[0] = args.dilation[1] = 1;
    plan_layer layer = layer_of(UF_CONV_DGRAD, UF_F32, &args, &of);
    layer.args.packing = UF_CONV_PACK_APART;
    layer.args.packed = layer.args.w.data;
    assert_true(plan_of(&layer, &plan));
    layer.args.packing = UF_CONV_PACK_IN_CALL;
    layer.args.packed = NULL;
    const uf_conv_kernel_args inner = uf_space_to_depth_inner(&plan, &layer.args);
    assert_int_equal(inner.packing, UF_CONV_PACK_IN_CALL);
    assert_null(inner.packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        plan_unit_test(&family),
        plan_unit_test(&large_family),
        cmocka_unit_test_teardown(test_named, plan_teardown),
        cmocka_unit_test(test_packing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
