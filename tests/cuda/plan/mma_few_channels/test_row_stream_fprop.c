/* test_row_stream_fprop.c - the plan of row_stream, fprop: blocks that go down their rows make
 * every product once, and stages hold what a tile of pixels meets. Needs no GPU. */
#include "cuda/plan/walk.h"

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/registry.h"

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 6,
                                   .padding = 4,
                                   .dilation = 3,
                                   .kernel = 5,
                                   .extent = {5, 64, 200, 600},
                                   .batch = 3,
                                   .large_batch = 20,
                                   .small_channels = 16,
                                   .channels = 80,
                                   .groups = true,
                                   .bf16 = true};

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_row_stream_fprop_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_row_stream_fprop_plan_of(&problem, plan);
}

/* A row of the channels of a chunk, as the copies leave it: in each byte of the stage, which
 * element of the image begins there (channel, column), or none. */
static void check_stage(const uf_conv_kernel_args *args, const uf_row_stream_fprop_plan *plan,
                        test_random *random) {
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    const uf_view *x = &args->x;
    const int64_t element = (int64_t)uf_dtype_size(x->dtype);
    const int64_t n = test_random_integer(random, 0, (int)x->extent[0] - 1);
    const int64_t first_channel =
        test_random_integer(random, 0, stream->chunks - 1) * stream->chunk +
        test_random_integer(random, 0, (int)args->groups - 1) * stream->conv.read_per_group;
    const int64_t h = test_random_integer(random, 0, (int)x->extent[2] - 1);
    const int64_t column = test_random_integer(random, 0, stream->tiles - 1) * stream->tile;
    const int64_t corner_w = column * args->stride[1] - args->padding[1];
    const int64_t begin = corner_w < 0 ? -corner_w : 0;
    const int64_t end =
        stream->reach < x->extent[3] - corner_w ? stream->reach : x->extent[3] - corner_w;
    const int64_t corner =
        (int64_t)(uintptr_t)x->data +
        (n * x->stride[0] + first_channel * x->stride[1] + h * x->stride[2] + corner_w) * element;
    const int64_t shift = modulo(corner, 16);
    int64_t last = 0;
    for (int64_t c = 0; c < stream->chunk && end > begin; ++c) {
        const int64_t from = corner + (c * x->stride[1] + begin) * element;
        const int64_t head = modulo(from, 16);
        const int64_t bytes = (head + (end - begin) * element + 15) / 16 * 16;
        const int64_t to = shift + c * stream->pitch + begin * element - head;
        assert_int_equal(to % 16, 0);
        assert_true(to >= last);
        last = to + bytes;
        /* Zeros in front and behind meet no other channel's copies. */
        assert_true(shift + c * stream->pitch + stream->reach * element <=
                    shift + (c + 1) * stream->pitch);
        assert_true(shift + c * stream->pitch + stream->reach * element <= stream->stage_bytes);
    }
    assert_true(last <= stream->stage_bytes);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(const plan_layer *layer, const uf_row_stream_fprop_plan *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, plan_tile());
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_fprop(&problem, &object));
    const uf_row_stream_fprop_plan *own = UF_CONV_CONST_PLAN_OF(uf_row_stream_fprop_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->stream.conv.read);
    assert_null(own->stream.conv.weight);
    assert_null(own->stream.conv.written);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_conv_kernel_args *args = &layer->args;
    const uf_row_stream_fprop_plan *plan = of;
    check_object(layer, plan);
    uf_conv_kernel_args other = *args;
    uf_row_stream_fprop_plan none;
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int32_t depth = args->x.dtype == UF_BF16 ? 16 : 8;
    assert_false(planned(UF_CONV_DGRAD, args, &none));
    other.mode = UF_ACCUMULATE;
    assert_false(planned(UF_CONV_FPROP, &other, &none));
    assert_true((int64_t)stream->tile * stream->tiles >= args->y.extent[3]);
    assert_true((int64_t)stream->band * stream->bands >= args->y.extent[2]);
    assert_true((int64_t)stream->band * (stream->bands - 1) < args->y.extent[2]);
    assert_true((int64_t)stream->slices * 8 * plan->n >= stream->conv.written_per_group);
    assert_int_equal(plan->blocks, args->x.extent[0] * args->groups * stream->slices *
                                       stream->tiles * stream->bands);
    assert_int_equal(stream->chunk * stream->chunks, stream->conv.read_per_group);
    assert_int_equal(stream->chunk % depth, 0);
    assert_true(stream->chunk <= 32); /* lanes of the warp that brings rows */
    assert_int_equal(stream->tile, stream->warps * 16 * plan->m);
    assert_int_equal(plan->threads, 32 * (stream->warps + 1));
    assert_true(stream->warps <= UF_ROW_STREAM_FPROP_WARPS);
    assert_true(stream->stages >= 2 && stream->stages <= UF_ROW_STREAM_FPROP_STAGES);
    assert_int_equal(modulo(stream->pitch - args->x.stride[1] * element, 16), 0);
    assert_int_equal(stream->stage_bytes % 16, 0);
    assert_int_equal(stream->weight_bytes % 16, 0);
    /* A lane has two words of a fragment, twice as many in FP32. */
    const int64_t parts = args->x.dtype != UF_BF16 && args->math == UF_MATH_FP32 ? 2 : 1;
    assert_int_equal(stream->stage_weight_bytes, args->w.extent[3] * (stream->chunk / depth) *
                                                     plan->lags * plan->n * 32 * 8 * parts);
    assert_int_equal((int64_t)stream->stage_weight_bytes * stream->classes * stream->chunks,
                     stream->weight_bytes);
    assert_int_equal(stream->row_bytes, (uint32_t)(args->x.stride[2] * element));
    assert_int_equal(stream->chunk_bytes, (uint32_t)(args->x.stride[1] * element * stream->chunk));
    assert_int_equal(stream->tap_bytes, args->dilation[1] * element);
    assert_true(2 * UF_ROW_STREAM_FPROP_STAGES * 8 <= UF_ROW_STREAM_FPROP_HEAD);
    assert_int_equal(plan->shared, UF_ROW_STREAM_FPROP_HEAD + stream->weight_bytes +
                                       stream->stages * stream->stage_bytes);
    /* Taps of a row that is read once meet rows of pixels that follow each other. */
    if (plan->lags > 1) {
        assert_int_equal(plan->lags, args->w.extent[2]);
        assert_int_equal(args->dilation[0], args->stride[0]);
        assert_int_equal(stream->classes, 1);
    } else {
        assert_int_equal(stream->classes, args->w.extent[2]);
    }
    for (int i = 0; i < 4; ++i) {
        check_stage(args, plan, random);
    }
}

/* ---- the walk ---- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows from `row` to before `end`, of each a tile of pixels from `column` on. */
typedef struct fprop_block {
    int64_t slice, column, row, end, group, n;
} fprop_block;

static fprop_block block_of(const plan_layer *layer, const uf_row_stream_fprop_conv *stream,
                            int64_t block) {
    fprop_block at;
    at.slice = block % stream->slices;
    block /= stream->slices;
    at.column = block % stream->tiles * stream->tile;
    block /= stream->tiles;
    at.row = block % stream->bands * stream->band;
    at.end = least(at.row + stream->band, layer->args.y.extent[2]);
    block /= stream->bands;
    at.group = block % layer->args.groups;
    at.n = block / layer->args.groups;
    return at;
}

/* One row of what is read, for one row of pixels: all pixels, taps across and chunks. */
static void walk_row(plan_walk *walk, const plan_layer *layer, const uf_row_stream_fprop_plan *plan,
                     const fprop_block *at, plan_term *term) {
    const uf_conv_kernel_args *args = &layer->args;
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    const int64_t pixels = least(stream->tile, args->y.extent[3] - at->column);
    for (int64_t i = 0; i < pixels * args->w.extent[3]; ++i) {
        const int64_t pixel = i / args->w.extent[3];
        term->tap[1] = i % args->w.extent[3];
        term->small[1] = at->column + pixel;
        const int64_t place = pixel * args->stride[1] + term->tap[1] * args->dilation[1];
        assert_true(place < stream->reach);
        term->large[1] = at->column * args->stride[1] - args->padding[1] + place;
        for (int64_t chunk = 0; chunk < stream->chunks; ++chunk) {
            term->c[0] = chunk * stream->chunk;
            term->c[1] = term->c[0] + stream->chunk;
            plan_make(walk, term);
        }
    }
}

static void walk_block(plan_walk *walk, const plan_layer *layer,
                       const uf_row_stream_fprop_plan *plan, const fprop_block *at) {
    const uf_conv_kernel_args *args = &layer->args;
    const int64_t lags = plan->lags, channels = INT64_C(8) * plan->n;
    plan_term term = {
        .n = at->n, .group = at->group, .k = {at->slice * channels, (at->slice + 1) * channels}};
    /* Sums are of as many rows of pixels as there are lags; the first of these is then done. */
    for (int64_t row = at->row; row < at->end + lags - 1; ++row) {
        for (int64_t i = 0; i < plan->stream.classes * lags; ++i) {
            const int64_t which = i / lags, lag = i % lags;
            term.small[0] = row - (lags - 1) + lag;
            term.tap[0] = lags == 1 ? which : lags - 1 - lag;
            term.large[0] = row * args->stride[0] - args->padding[0] + which * args->dilation[0];
            if (term.small[0] >= at->row && term.small[0] < at->end) {
                walk_row(walk, layer, plan, at, &term);
            }
        }
        term.small[0] = row - (lags - 1);
        for (int64_t w = at->column; term.small[0] >= at->row && w < at->column + plan->stream.tile;
             ++w) {
            term.small[1] = w;
            plan_store(walk, &term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_row_stream_fprop_plan *plan = of;
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    plan_claim(walk, 0, UF_ROW_STREAM_FPROP_HEAD, 128);
    plan_claim(walk, UF_ROW_STREAM_FPROP_HEAD, stream->weight_bytes, 16);
    for (int64_t i = 0; i < stream->stages; ++i) {
        plan_claim(walk, UF_ROW_STREAM_FPROP_HEAD + stream->weight_bytes + i * stream->stage_bytes,
                   stream->stage_bytes, 16);
    }
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const fprop_block at = block_of(layer, stream, block);
        walk_block(walk, layer, plan, &at);
    }
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, tile);
    return uf_row_stream_fprop_plan_of(&problem, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_row_stream_fprop_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .threads = plan->threads,
                        .shared = (int64_t)plan->shared,
                        .most_shared = UF_ROW_STREAM_FPROP_SHARED};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_row_stream_fprop_plan *plan = of;
    (void)layer;
    seen[0] += plan->lags > 1;
    seen[1] += plan->stream.chunks > 1;
    seen[2] += plan->stream.slices > 1;
    seen[3] += plan->stream.tiles > 1;
    seen[4] += !plan->stream.vector;
    seen[5] += plan->stream.bands > 1;
}

static const plan_family family = {
    .name = "row_stream fprop",
    .directions = PLAN_FPROP,
    .size = sizeof(uf_row_stream_fprop_plan),
    .limits = &limits,
    .cases = 3000,
    .tiled = plan_of,
    .tiles = UF_ROW_STREAM_FPROP_TILES,
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"rows shared", "in chunks", "in slices", "in tiles", "pixels one by one", "bands"},
    .count = count,
    .least_walked = 20};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
