/* test_filter_stationary.c - the plan of filter_stationary: blocks bring every part of the weights
 * to every tile once, weights are where they look for them, and copies and stores that cannot be
 * are refused, each for its own reason. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <math.h>
#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"

enum {
    CASES = 5000,
    LARGE_CASES = 2000,
    LIMIT = 1 << 28, /* of pixels of a plane, and of tiles */
    PIXELS = UF_FILTER_STATIONARY_PIXELS,
    ROWS = UF_FILTER_STATIONARY_ROWS,
    MOST_CHANNELS = UF_FILTER_STATIONARY_CHUNKS * UF_FILTER_STATIONARY_CHANNELS,
    MOST_ROWS = UF_FILTER_STATIONARY_MULTIPROCESSORS * ROWS,
    PIECE = 8 /* elements that copies and stores take at once: 16 bytes */
};

#define FAR (INT64_C(1) << 40)
#define FURTHEST ((INT64_C(1) << 32) - PIECE)

static uf_view *read_of(plan_layer *layer) {
    return layer->direction == UF_CONV_DGRAD ? &layer->args.y : &layer->args.x;
}

static uf_view *written_of(plan_layer *layer) {
    return layer->direction == UF_CONV_DGRAD ? &layer->args.x : &layer->args.y;
}

/* x and y dense, `p` x `q` the plane of y, and as many elements between channels of w as copies
 * want: a layer that the plan takes unless sizes or the filter forbid it. */
static plan_layer layer_of(uf_conv_direction direction, int64_t n, int64_t read, int64_t written,
                           int64_t p, int64_t q, int64_t high, int64_t wide) {
    void *const nowhere = (void *)4096;
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t k = dgrad ? read : written, c = dgrad ? written : read;
    plan_layer layer = {
        direction, {.stride = {high, wide}, .dilation = {1, 1}, .groups = 1, .math = UF_MATH_TF32}};
    layer.args.x = uf_view_nchw(nowhere, UF_BF16, n, c, p * high, q * wide);
    layer.args.w = uf_view_nchw(nowhere, UF_BF16, k, c, high, wide);
    layer.args.y = uf_view_nchw(nowhere, UF_BF16, n, k, p, q);
    layer.args.w.stride[0] = round_up(layer.args.w.stride[0], PIECE);
    return layer;
}

/* Gaps of whole pieces behind elements of the first `axes` axes, and strides that nothing uses. */
static void space(test_random *random, uf_view *view, int axes) {
    int64_t least = view->stride[axes] * view->extent[axes];
    for (int axis = axes - 1; axis >= 0; --axis) {
        view->stride[axis] = round_up(least, PIECE) + PIECE * test_random_integer(random, 0, 3);
        least = view->stride[axis] * view->extent[axis];
    }
    for (int axis = 0; axis < 4; ++axis) {
        if (view->extent[axis] == 1 && test_random_one_in(random, 2)) {
            view->stride[axis] = axis < 3 ? -3 : 5;
        }
    }
}

/* All of these are taken if channels and rows are few enough. */
static void draw(test_random *random, plan_layer *made) {
    const bool fprop = made->direction == UF_CONV_FPROP,
               up = !fprop && test_random_one_in(random, 2);
    const int64_t wide = up ? 2 : 1, high = up ? test_random_log(random, 1, 7) : 1;
    const int64_t edge = MOST_ROWS / (high * wide) + test_random_integer(random, -20, 20);
    const int64_t read = test_random_log(random, 1, 700), some = test_random_log(random, 1, 700);
    const int64_t written = test_random_one_in(random, 10) ? edge : some;
    const int64_t unit = INT64_C(1) << test_random_integer(random, up ? 2 : 0, 3); /* of a row */
    const int64_t p = test_random_log(random, 1, 60 * unit / PIECE + 1) * (PIECE / unit);
    const int64_t n = test_random_log(random, 1, 20), q = test_random_log(random, 1, 80 / unit);
    plan_layer layer =
        layer_of(fprop ? UF_CONV_FPROP : UF_CONV_DGRAD, n, read, written, p, q * unit, high, wide);
    uf_conv_kernel_args *const args = &layer.args;
    space(random, read_of(&layer), 2);
    space(random, written_of(&layer), up ? 3 : 2);
    space(random, &args->w, 1);
    args->math = (uf_math)test_random_integer(random, UF_MATH_FP32, UF_MATH_BF16);
    args->dilation[0] += high == 1 ? test_random_integer(random, 0, 2) : 0;
    args->dilation[1] += wide == 1 ? test_random_integer(random, 0, 2) : 0;
    args->epilogue.activation.kind = (uf_activation_kind)test_random_integer(random, 0, 2);
    args->epilogue.scale.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
    args->epilogue.shift.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
    *made = layer;
}

/* Numbers follow from the shape: where tensors lie, how far apart their elements are, and what was
 * in the plan before, changes nothing. Tensors and the epilogue are told as they are. */
static void check_pure(plan_layer *layer, const uf_filter_stationary_plan *plan) {
    const uf_conv_kernel_args *args = &layer->args;
    const uf_epilogue *out = &args->epilogue;
    const int64_t *y = args->y.extent, *w = args->w.extent;
    plan_layer dense = layer_of(layer->direction, y[0], read_of(layer)->extent[1],
                                written_of(layer)->extent[1], y[2], y[3], w[2], w[3]);
    dense.args.epilogue = *out;
    dense.args.x.data = dense.args.y.data = dense.args.w.data = (void *)4097;
    uf_filter_stationary_plan expected = *plan, made;
    memset(&expected.conv, 0, sizeof expected.conv);
    uf_direct_describe(&expected.conv, args, layer->direction == UF_CONV_DGRAD);
    memset(&made, 0xff, sizeof made);
    assert_true(uf_filter_stationary_plan_of(layer->direction, args, &made));
    assert_memory_equal(&made, &expected, sizeof made);
    assert_true(uf_filter_stationary_plan_of(layer->direction, &dense.args, &made));
    made.conv = expected.conv;
    assert_memory_equal(&made, &expected, sizeof made);
    assert_int_equal(plan->across, layer->direction == UF_CONV_FPROP);
    assert_int_equal(plan->plain, out->scale.data == NULL && out->shift.data == NULL &&
                                      out->activation.kind == UF_ACTIVATION_IDENTITY);
    /* A pair is one tile of pixels by two parts; a warpgroup alone has all rows. */
    assert_true(!plan->pair || (plan->parts % 2 == 0 && plan->blocks % 2 == 0));
    assert_int_equal(plan->by_turns,
                     plan->rows <= UF_FILTER_STATIONARY_ROWS / UF_FILTER_STATIONARY_GROUPS);
}

/* `tiles` of `each` hold `count`, and none is in vain. */
static bool are_enough(int64_t tiles, int64_t each, int64_t count) {
    return tiles * each >= count && (tiles - 1) * each < count;
}

static void check_numbers(plan_layer *layer, const uf_filter_stationary_plan *plan) {
    const uf_view *read = read_of(layer), *written = written_of(layer), *w = &layer->args.w;
    assert_true(plan->high == w->extent[2] && plan->wide == w->extent[3]);
    /* By the chunks that have a channel. */
    static const int32_t enough[] = {0, 1, 2, 4, 4, 5, 8, 8, 8};
    assert_int_equal(plan->chunks,
                     enough[uf_div_up(read->extent[1], UF_FILTER_STATIONARY_CHANNELS)]);
    assert_int_equal(plan->rows, written->extent[1] * w->extent[2] * w->extent[3]);
    assert_true(are_enough(plan->parts, ROWS, plan->rows));
    assert_int_equal(plan->row, read->extent[3]);
    assert_int_equal(plan->plane, read->extent[2] * read->extent[3]);
    assert_true(are_enough(plan->image_tiles, PIXELS, plan->plane));
    assert_int_equal(plan->tiles, read->extent[0] * plan->image_tiles);
    /* As many blocks as have a tile, if there are multiprocessors for so many. */
    assert_int_equal(plan->blocks, (int64_t)plan->cta_group * plan->parts);
    assert_true(plan->cta_group >= 1 && plan->blocks <= UF_FILTER_STATIONARY_MULTIPROCESSORS);
    assert_true(plan->cta_group == plan->tiles ||
                (plan->cta_group < plan->tiles &&
                 plan->blocks + plan->parts > UF_FILTER_STATIONARY_MULTIPROCESSORS));
}

/* Between what an H200's memory and tensor cores need, and a bit more than these one after
 * another; more images take no less. */
static void check_cost(const plan_layer *layer, const uf_filter_stationary_plan *plan) {
    const uf_conv_kernel_args *args = &layer->args;
    const double memory = 2.0 * (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) /
                          (20.2 * UF_FILTER_STATIONARY_MULTIPROCESSORS);
    const double rounds = ceil((double)plan->tiles / plan->cta_group);
    const double products =
        rounds * plan->chunks * ROWS * PIXELS * UF_FILTER_STATIONARY_CHANNELS / 2048;
    assert_true(plan->cost > memory && plan->cost > products);
    assert_true(plan->cost < 1.2 * (memory + products + 200 * rounds) + 10000);
    uf_conv_kernel_args twice = *args;
    uf_filter_stationary_plan made;
    twice.x.extent[0] = twice.y.extent[0] = 2 * args->y.extent[0];
    if (uf_filter_stationary_plan_of(layer->direction, &twice,
                                     &made)) { /* else a stride matters now */
        assert_true(made.cost >= plan->cost && made.cost <= 2 * plan->cost);
    }
}

/* A row of weights is some channel of what is written, or that and a tap: its element of a read
 * channel is where w has it, and pieces of w begin at multiples of 16 bytes. */
static void check_row(const plan_layer *layer, const uf_filter_stationary_plan *plan, int32_t row) {
    const uf_direct_conv *conv = &plan->conv;
    const int64_t pair = row / plan->wide, s = row % plan->wide;
    const int64_t k = divide(&plan->by_high, pair), r = pair - k * plan->high;
    assert_true(k == pair / plan->high && k < conv->written_per_group);
    const int64_t at = k * conv->w_written + r * conv->w_row + s * conv->w_column;
    assert_false(plan->gathered);
    const bool one = conv->read_per_group == 1; /* whose step is nobody's */
    if (plan->across) {
        assert_true(plan->rows == conv->written_per_group && (one || conv->w_read == 1));
        assert_true(at % PIECE == 0 && at == row * (row > 0 ? layer->args.w.stride[0] : 0));
    } else {
        assert_true(at == row && (one || conv->w_read % PIECE == 0));
        assert_int_equal(conv->w_read, layer->args.w.stride[0]);
    }
}

/* The tile's pixels, in pieces of what is written. */
static void check_tile(plan_layer *layer, const uf_filter_stationary_plan *plan, int32_t tile) {
    const uf_view *read = read_of(layer);
    const int64_t n = divide(&plan->by_image, tile), each = PIECE / plan->wide;
    const int64_t first = (tile - n * plan->image_tiles) * PIXELS;
    assert_true(n == tile / plan->image_tiles && n < read->extent[0]);
    for (int64_t pixel = first; pixel < first + PIXELS; pixel += each) {
        const int64_t h = divide(&plan->by_row, pixel), w = pixel - h * plan->row;
        assert_int_equal(h, pixel / plan->row); /* of what lies behind the plane too */
        if (pixel < plan->plane) { /* Whole pieces, of one row where rows of x are apart. */
            assert_true(pixel + each <= plan->plane && h < read->extent[2]);
            assert_true(plan->wide == 1 || (w + each <= plan->row && w % each == 0));
        }
    }
}

/* All rows of weights of a part and all channels, at one pixel. */
static void walk_pixel(plan_walk *walk, const plan_layer *layer,
                       const uf_filter_stationary_plan *plan, int64_t part, plan_term *term) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int64_t taps = (int64_t)plan->high * plan->wide;
    int64_t *const written = dgrad ? term->c : term->k, *const read = dgrad ? term->k : term->c;
    for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t first = part * ROWS - tap, end = first + ROWS;
        written[0] = first > 0 ? (first + taps - 1) / taps : 0;
        written[1] = end > 0 ? (end + taps - 1) / taps : 0;
        term->tap[0] = tap / plan->wide;
        term->tap[1] = tap % plan->wide;
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t step = axis == 0 ? plan->high : plan->wide;
            term->large[axis] =
                dgrad ? term->small[axis] * step + term->tap[axis] : term->small[axis];
        }
        plan_store(walk, term);
        for (int64_t chunk = 0; chunk < plan->chunks; ++chunk) {
            read[0] = chunk * UF_FILTER_STATIONARY_CHANNELS;
            read[1] = read[0] + UF_FILTER_STATIONARY_CHANNELS;
            plan_make(walk, term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_filter_stationary_plan *plan = of;
    for (int32_t block = 0; block < plan->blocks; ++block) {
        const int32_t part = block % plan->parts, member = block / plan->parts;
        for (int32_t tile = member; tile < plan->tiles; tile += plan->cta_group) {
            plan_term term = {.n = divide(&plan->by_image, tile)};
            const int64_t first = (tile - term.n * plan->image_tiles) * PIXELS;
            for (int64_t pixel = first; pixel < first + PIXELS && pixel < plan->plane; ++pixel) {
                term.small[0] = divide(&plan->by_row, pixel);
                term.small[1] = pixel - term.small[0] * plan->row;
                walk_pixel(walk, layer, plan, part, &term);
            }
        }
    }
}

/* Numbers, and some places, around the begins of images among them. */
static void check(const plan_layer *given, const void *of, test_random *random) {
    const uf_filter_stationary_plan *plan = of;
    plan_layer copy = *given, *const layer = &copy;
    check_pure(layer, plan);
    check_numbers(layer, plan);
    check_cost(layer, plan);
    check_tile(layer, plan, plan->tiles - 1);
    check_row(layer, plan, plan->rows - 1);
    for (int at = 0; at < 16; ++at) {
        const int32_t tile = (int32_t)test_random_integer(random, 0, plan->tiles - 1);
        check_tile(layer, plan, tile);
        check_tile(layer, plan, tile / plan->image_tiles * plan->image_tiles);
        check_row(layer, plan, (int32_t)test_random_integer(random, 0, plan->rows - 1));
    }
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return uf_filter_stationary_plan_of(layer->direction, &layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_filter_stationary_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .shared = UF_FILTER_STATIONARY_SHARED,
                        .most_shared = 227 * 1024};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_filter_stationary_plan *plan = of;
    (void)layer;
    ++seen[plan->across ? 0 : plan->wide == 1 ? 1 : 2];
    seen[3] += plan->parts > 1;
    seen[4] += plan->by_turns;
}

static const plan_family family = {.name = "filter_stationary",
                                   .directions = PLAN_FPROP | PLAN_DGRAD,
                                   .size = sizeof(uf_filter_stationary_plan),
                                   .draw = draw,
                                   .cases = 3000,
                                   .plan = plan_of,
                                   .facts = facts_of,
                                   .walk = walk_blocks,
                                   .check = check,
                                   .kinds = {"fprop", "dgrad", "dgrad up", "parts", "by turns"},
                                   .count = count,
                                   .least_walked = 100};

/* Random layers that have a plan, and others; constants among themselves. */
static void test_taken(void **state) {
    (void)state;
    int64_t refused = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("filter_stationary_taken", i);
        plan_layer layer = {.direction = (uf_conv_direction)(i % 2)};
        uf_filter_stationary_plan plan;
        draw(&random, &layer);
        const int64_t taps = layer.args.stride[0] * layer.args.stride[1];
        const bool taken = plan_of(&layer, &plan);
        assert_int_equal(taken, read_of(&layer)->extent[1] <= MOST_CHANNELS &&
                                    written_of(&layer)->extent[1] * taps <= MOST_ROWS);
        refused += !taken;
    }
    assert_true(refused > CASES / 50);
    /* Swizzled copies go to multiples of 1024 bytes; shared memory is what a block may have. */
    assert_true(UF_FILTER_STATIONARY_STAGE == PIXELS * UF_FILTER_STATIONARY_CHANNELS * 2 &&
                UF_FILTER_STATIONARY_STAGE % 1024 == 0);
    assert_true(UF_FILTER_STATIONARY_SHARED <= 227 * 1024 &&
                UF_FILTER_STATIONARY_STAGES >= UF_FILTER_STATIONARY_CHUNKS);
    assert_true(2 * UF_FILTER_STATIONARY_STAGES * 8 <=
                UF_FILTER_STATIONARY_BARRIERS); /* full and empty ones */
    assert_true(MOST_CHANNELS == 512 && ROWS == 64 * UF_FILTER_STATIONARY_GROUPS);
}

/* Pixels of a plane, and tiles, are what 28 bits hold. */
static void test_large(void **state) {
    (void)state;
    int64_t taken = 0;
    for (int i = 0; i < LARGE_CASES; ++i) {
        test_random random = test_random_for("filter_stationary_large", i);
        const int64_t p = test_random_log(&random, 1, 1 << 20);
        const int64_t q = test_random_log(&random, 1, 1 << 20) * PIECE;
        const int64_t image_tiles = (p * q + PIXELS - 1) / PIXELS;
        /* Just few enough images, or just too many. */
        const int64_t n = p * q < LIMIT ? (LIMIT - 1) / image_tiles + i % 2 : 1;
        const int64_t wide = 1 + i / 2 % 2, high = wide == 2 ? 1 + i / 4 % 4 : 1;
        const bool fprop = wide == 1 && i % 8 < 4;
        plan_layer layer =
            layer_of(fprop ? UF_CONV_FPROP : UF_CONV_DGRAD, n, 1, 1, p, q, high, wide);
        uf_filter_stationary_plan plan;
        const bool made = uf_filter_stationary_plan_of(layer.direction, &layer.args, &plan);
        assert_int_equal(made, n > 0 && p * q < LIMIT && n * image_tiles < LIMIT);
        if (made) {
            plan_at(&layer);
            check(&layer, &plan, &random);
            ++taken;
        }
    }
    assert_true(taken > LARGE_CASES / 4);
}

/* By hand: U-Net's ways up, pointwise layers, and the ends of what there is. */
static void test_named(void **state) {
    (void)state;
    static const struct {
        uf_conv_direction direction;
        int64_t n, read, written, p, q, high, wide;
        int32_t made[7]; /* chunks, rows, parts, image_tiles, tiles, CTA group, blocks */
    } layers[] = {
        {UF_CONV_DGRAD, 8, 128, 64, 128, 128, 2, 2, {2, 256, 2, 128, 1024, 66, 132}},
        {UF_CONV_DGRAD, 4, 512, 256, 32, 32, 2, 2, {8, 1024, 8, 8, 32, 16, 128}},
        {UF_CONV_DGRAD, 3, 65, 43, 10, 20, 3, 2, {2, 258, 3, 2, 6, 6, 18}},
        {UF_CONV_FPROP, 32, 64, 256, 56, 56, 1, 1, {1, 256, 2, 25, 800, 66, 132}},
        {UF_CONV_DGRAD, 32, 256, 64, 56, 56, 1, 1, {4, 64, 1, 25, 800, 132, 132}},
        {UF_CONV_FPROP, 1, 1, 1, 8, 1, 1, 1, {1, 1, 1, 1, 1, 1, 1}},
        {UF_CONV_FPROP, 2, 512, MOST_ROWS, 3, 344, 1, 1, {8, MOST_ROWS, 132, 9, 18, 1, 132}},
        {UF_CONV_DGRAD, 1, 1, 1, 2, 4, MOST_ROWS / 2, 2, {1, MOST_ROWS, 132, 1, 1, 1, 132}},
        {UF_CONV_DGRAD, 1, 1, 1, 1, LIMIT - 8, 1, 2, {1, 2, 1, 1 << 21, 1 << 21, 132, 132}},
        {UF_CONV_FPROP, 1, 1, 1, LIMIT - 8, 1, 1, 1, {1, 1, 1, 1 << 21, 1 << 21, 132, 132}},
    };
    for (int64_t i = 0; i < COUNT_OF(layers); ++i) {
        plan_layer layer =
            layer_of(layers[i].direction, layers[i].n, layers[i].read, layers[i].written,
                     layers[i].p, layers[i].q, layers[i].high, layers[i].wide);
        uf_filter_stationary_plan plan;
        test_random random = test_random_for("filter_stationary_named", i);
        plan_examine(&family, &layer, &plan, &random);
        const int32_t made[] = {plan.chunks, plan.rows,      plan.parts, plan.image_tiles,
                                plan.tiles,  plan.cta_group, plan.blocks};
        assert_memory_equal(made, layers[i].made, sizeof made);
    }
}

/* A layer with more between rows, channels and images than they need, so that an extent more is no
 * other stride. */
static plan_layer base_of(uf_conv_direction direction, int64_t p, int64_t q, int64_t high,
                          int64_t wide) {
    plan_layer base = layer_of(direction, 3, 50, 20, p, q, high, wide);
    uf_view *const views[] = {read_of(&base), written_of(&base)};
    for (int i = 0; i < 2; ++i) {
        views[i]->stride[0] = 1 << 24;
        views[i]->stride[1] = 1 << 16;
    }
    views[1]->stride[2] = wide == 2 ? 4096 : views[1]->stride[2];
    return base;
}

/* Is `base` taken with this change to `layer`, and w then brought one by one? */
#define TAKEN_WITH(change, taken) PLANNED_WITH(change, taken, false)
#define PLANNED_WITH(change, taken, one_by_one)                                                    \
    do {                                                                                           \
        plan_layer layer = *base;                                                                  \
        uf_conv_kernel_args *const args = &layer.args;                                             \
        uf_view *const read = read_of(&layer), *const written = written_of(&layer);                \
        uf_filter_stationary_plan plan;                                                            \
        (void)args, (void)read, (void)written;                                                     \
        change;                                                                                    \
        assert_int_equal(uf_filter_stationary_plan_of(layer.direction, args, &plan), taken);       \
        assert_int_equal(plan.gathered, one_by_one);                                               \
    } while (0)

/* Each of these changes has one reason to be refused, or none. */
static void check_geometry(const plan_layer *base) {
    const int64_t high = base->args.w.extent[2], wide = base->args.w.extent[3];
    const int64_t most = MOST_ROWS / (high * wide);
    const int from = base->direction == UF_CONV_DGRAD ? 0 : 1; /* axis of w: read channels */
    TAKEN_WITH((void)0, true);
    TAKEN_WITH(layer.direction = UF_CONV_WGRAD, false);
    TAKEN_WITH(layer.direction = UF_CONV_FPROP, wide == 1);
    TAKEN_WITH(args->groups = 2, false);
    TAKEN_WITH(args->mode = UF_ACCUMULATE, false);
    TAKEN_WITH(args->x.dtype = args->w.dtype = args->y.dtype = UF_F32, false);
    TAKEN_WITH(args->x.dtype = args->w.dtype = args->y.dtype = UF_F16, false);
    for (int axis = 0; axis < 2; ++axis) {
        for (int by = -1; by <= 1; by += 2) {
            const int64_t more = axis == 0 ? by : by * PIECE; /* output_padding */
            TAKEN_WITH(args->stride[axis] += by, false);
            TAKEN_WITH(args->padding[axis] += by, false);
            TAKEN_WITH(args->dilation[axis] += by, args->w.extent[2 + axis] == 1);
            TAKEN_WITH(args->x.extent[2 + axis] += more;
                       args->x.stride[2] += axis == 1 && wide == 1 ? more : 0, false);
        }
    }
    for (int64_t i = 0; i < 16; ++i) {
        const int64_t r = 1 + i / 4, s = 1 + i % 4;
        TAKEN_WITH(layer = base_of(layer.direction, 12, 16, r, s),
                   r * s == 1 || (layer.direction == UF_CONV_DGRAD && s == 2));
    }
    for (int64_t i = 0; i < INT64_C(5) * MOST_CHANNELS; ++i) { /* some of them beyond 32 bits */
        const int64_t c = i < INT64_C(2) * MOST_CHANNELS ? i : i << 32, k = most - 10 + c;
        TAKEN_WITH(read->extent[1] = args->w.extent[from] = c, c > 0 && c <= MOST_CHANNELS);
        TAKEN_WITH(written->extent[1] = args->w.extent[1 - from] = k, k <= most);
    }
    for (int axis = 0; axis < 4; ++axis) { /* nothing, and more than 32 bits count */
        TAKEN_WITH(args->x.extent[axis] = 0, false);
        TAKEN_WITH(args->y.extent[axis] = 0, false);
        TAKEN_WITH(args->x.extent[axis] = args->y.extent[axis] = FAR, false);
    }
    TAKEN_WITH(layer = layer_of(layer.direction, 1, 1, 1, LIMIT / 16, 16, high, wide), false);
    TAKEN_WITH(args->w.extent[2] = args->stride[0] = FAR; args->y.extent[2] = LIMIT, false);
    TAKEN_WITH(args->w.extent[2] = args->stride[0] = LIMIT; args->y.extent[2] = FAR, false);
}

static void check_views(const plan_layer *base) {
    const int64_t high = base->args.w.extent[2];
    const bool up = base->args.w.extent[3] == 2;
    for (int64_t i = 0; i < 400; ++i) {
        const int64_t p = 1 + i % 20, q = 1 + i / 20;
        TAKEN_WITH(layer = base_of(layer.direction, p, q, high, up ? 2 : 1),
                   p * q % PIECE == 0 && (!up || q % 4 == 0));
    }
    /* Planes that are rows, one after another; a way up writes rows of its own. */
    TAKEN_WITH(read->stride[2] += PIECE, false);
    TAKEN_WITH(written->stride[2] += PIECE, up);
    TAKEN_WITH(layer = base_of(layer.direction, 1, 16, high, up ? 2 : 1);
               read->stride[2] = 3, true);
    static const int64_t strides[] = {4096 + 8, FURTHEST, FURTHEST + 8, 4096 + 4, 3, 0, -8};
    for (int axis = 0; axis < 4; ++axis) {
        for (int64_t i = 0; i < COUNT_OF(strides); ++i) {
            const bool taken = i < 2; /* some multiple, the largest, and what is none */
            TAKEN_WITH(read->stride[axis] = strides[i], taken && axis < 2);
            TAKEN_WITH(written->stride[axis] = strides[i], taken && axis < (up ? 3 : 2));
            PLANNED_WITH(args->w.stride[axis] = strides[i], true,
                         axis == 0 ? !taken : base->args.w.extent[axis] > 1);
        }
        for (int64_t e = 1; axis < 2 && e <= 2; ++e) { /* beside an extent of 1 they are free */
            TAKEN_WITH(read->extent[axis] = e; read->stride[axis] = -1, e == 1);
            TAKEN_WITH(written->extent[axis] = e; written->stride[axis] = -1, e == 1);
            PLANNED_WITH(args->w.extent[axis] = e; args->w.stride[axis] = -1, true, e > 1);
        }
    }
    /* Where tensors begin is asked apart. */
    for (int64_t i = 0; i < 3 * 40; ++i) {
        plan_layer moved = *base;
        uf_view *const views[] = {&moved.args.y, &moved.args.x, &moved.args.w};
        views[i % 3]->data = (char *)views[i % 3]->data + i / 3;
        assert_int_equal(uf_filter_stationary_is_aligned(&moved.args), i / 3 % (2 * PIECE) == 0);
        TAKEN_WITH(layer = moved, true);
    }
}

static void test_refuses(void **state) {
    (void)state;
    const plan_layer bases[] = {
        base_of(UF_CONV_FPROP, 12, 16, 1, 1), base_of(UF_CONV_DGRAD, 12, 16, 1, 1),
        base_of(UF_CONV_DGRAD, 12, 16, 1, 2), base_of(UF_CONV_DGRAD, 12, 16, 2, 2),
        base_of(UF_CONV_DGRAD, 12, 16, 3, 2)};
    for (int64_t i = 0; i < COUNT_OF(bases); ++i) {
        check_geometry(&bases[i]);
        check_views(&bases[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        plan_unit_test(&family),      cmocka_unit_test(test_taken),   cmocka_unit_test(test_large),
        cmocka_unit_test(test_named), cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
