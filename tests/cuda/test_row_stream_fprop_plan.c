/* test_row_stream_fprop_plan.c - the plan of conv_row_stream_fprop against the definition: tiles
 * make every pixel once, and what a tap finds in a stage is the element that it meets. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "cuda/plan_helpers.h"
#include "cuda/random_conv.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/registry.h"

enum { CASES = 3000, PLACES = 20 };

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
    for (int i = 0; i < PLACES; ++i) {
        const int64_t left = args->y.extent[3] - column;
        const int64_t most = left < stream->tile ? left : stream->tile;
        const int64_t pixel = i == 0 ? most - 1 : test_random_integer(random, 0, (int)most - 1);
        const int64_t s = test_random_integer(random, 0, (int)args->w.extent[3] - 1);
        /* The place that is read, from the corner, and the column that this is. */
        const int64_t place = pixel * args->stride[1] + s * args->dilation[1];
        assert_true(place < stream->reach);
        assert_int_equal(corner_w + place, (column + pixel) * args->stride[1] - args->padding[1] +
                                               s * args->dilation[1]);
    }
}

static void check(const uf_conv_kernel_args *args, const uf_row_stream_fprop_plan *plan,
                  test_random *random) {
    const uf_row_stream_fprop_conv *stream = &plan->stream;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int32_t depth = args->x.dtype == UF_BF16 ? 16 : 8;
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
    /* Of a fragment two words for a lane, twice in FP32. */
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
    assert_true(plan->shared <= UF_ROW_STREAM_FPROP_SHARED);
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

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_row_stream_fprop_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_row_stream_fprop_plan_of(&problem, plan);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         const uf_row_stream_fprop_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_fprop(&problem, &object));
    const uf_row_stream_fprop_plan *own = UF_CONV_CONST_PLAN_OF(uf_row_stream_fprop_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->stream.conv.read);
    assert_null(own->stream.conv.weight);
    assert_null(own->stream.conv.written);
}

static void test_plans(void **state) {
    (void)state;
    int64_t taken = 0, lags = 0, chunks = 0, slices = 0, tiles = 0, scalar = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("stream_fprop_plan", i);
        uf_conv_kernel_args args = random_conv(&random, &limits);
        uf_row_stream_fprop_plan plan;
        if (planned(UF_CONV_FPROP, &args, &plan)) {
            check(&args, &plan, &random);
            check_object(UF_CONV_FPROP, &args, &plan);
            ++taken;
            lags += plan.lags > 1;
            chunks += plan.stream.chunks > 1;
            slices += plan.stream.slices > 1;
            tiles += plan.stream.tiles > 1;
            scalar += !plan.stream.vector;
        }
        assert_false(planned(UF_CONV_DGRAD, &args, &plan));
        args.mode = UF_ACCUMULATE;
        assert_false(planned(UF_CONV_FPROP, &args, &plan));
    }
    print_message("%lld plans; rows shared %lld, in chunks %lld, in slices %lld, in tiles %lld, "
                  "pixels one by one %lld\n",
                  (long long)taken, (long long)lags, (long long)chunks, (long long)slices,
                  (long long)tiles, (long long)scalar);
    assert_true(lags > 0 && chunks > 0 && slices > 0 && tiles > 0 && scalar > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
