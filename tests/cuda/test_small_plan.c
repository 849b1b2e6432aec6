/* test_small_plan.c - boxes, windows, chunks and pitches of conv_small against the definition:
 * every position is in a box, every read channel in a chunk of a split; what a tap meets is in the
 * window; no two elements have one place in shared memory, and all places are in it. Needs no GPU.
 */
#include "support/test.h"

#include <string.h>

#include "cuda/random_conv.h"
#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/geometry.h"

enum { CASES = 3000 };

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 9,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 40, 90},
                                   .batch = 9,
                                   .large_batch = 200,
                                   .small_channels = 9,
                                   .channels = 300,
                                   .groups = true,
                                   .bf16 = true};

static void check_boxes(const int32_t box[3], const int32_t boxes[3], const int64_t positions[3],
                        int32_t most) {
    int64_t together = 1;
    for (int axis = 0; axis < 3; ++axis) {
        assert_true(box[axis] >= 1 && (int64_t)box[axis] * boxes[axis] >= positions[axis] &&
                    (int64_t)box[axis] * (boxes[axis] - 1) < positions[axis]);
        together *= box[axis];
    }
    assert_true(together <= most);
}

static void check_shares(int32_t all, int32_t per_split, int32_t splits) {
    assert_true((int64_t)per_split * splits >= all && (int64_t)per_split * (splits - 1) < all);
}

/* Taps of every phase at the first and the last position of a box. */
static void check_window(const uf_conv_kernel_args *args, bool dgrad, int axis,
                         const uf_small_plan *plan) {
    const int64_t kernel = args->w.extent[2 + axis], stride = args->stride[axis];
    const int64_t padding = args->padding[axis], dilation = args->dilation[axis];
    for (int64_t phase = 0; phase < (dgrad ? stride : 1); ++phase) {
        const uf_axis_walk walk =
            dgrad
                ? uf_axis_dgrad(args->x.extent[2 + axis], kernel, stride, padding, dilation, phase)
                : uf_axis_fprop(args->y.extent[2 + axis], kernel, stride, padding, dilation);
        for (int64_t tap = 0; tap < walk.taps; ++tap) {
            const int64_t first = walk.in_first + tap * walk.in_tap_step - plan->first[axis];
            const int64_t last = first + (plan->box[1 + axis] - 1) * walk.in_step;
            assert_true(first >= 0 && last < plan->window[axis]);
        }
    }
}

/* Steps that fill no whole product multiply a plane of zeros. */
static void check_padding(const uf_conv_kernel_args *args, bool dgrad, const uf_small_plan *plan) {
    for (int64_t phase = 0; phase < plan->phases; ++phase) {
        int64_t taps = 1;
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t of = axis == 0 ? phase / args->stride[1] : phase % args->stride[1];
            taps *= dgrad ? uf_axis_dgrad(args->x.extent[2 + axis], args->w.extent[2 + axis],
                                          args->stride[axis], args->padding[axis],
                                          args->dilation[axis], of)
                                .taps
                          : args->w.extent[2 + axis];
        }
        assert_true(plan->depth * taps % plan->step == 0 || plan->padded);
        assert_true(plan->depth * taps <= plan->most_steps);
    }
}

static void check_layout(const uf_conv_kernel_args *args, bool dgrad, const uf_small_plan *plan) {
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t unit = 16 / element;
    assert_true((int64_t)plan->box[0] * plan->window[0] * plan->window[1] <= plan->plane);
    assert_int_equal(plan->plane * element % 16, 0);
    assert_int_equal(plan->row_pitch % unit, 0);
    assert_int_equal(plan->stage % 16, 0);
    /* Rows of w do not meet, nor channels of a row. */
    const int64_t in_row = dgrad ? plan->tile_channels : plan->depth;
    const int64_t channel = dgrad ? plan->across : plan->deep;
    assert_true(channel >= taps && (in_row - 1) * channel + taps <= plan->row_pitch);
    assert_int_equal(dgrad ? plan->deep : plan->across, plan->row_pitch);
    assert_true(!plan->vector || channel == taps || (taps % unit == 0 && channel % unit == 0));
    const int64_t rows = dgrad ? plan->depth : plan->tile_channels;
    const int64_t planes = plan->depth + (plan->padded ? 1 : 0);
    assert_true((planes * plan->plane + rows * plan->row_pitch) * element <= plan->stage);
    assert_true(plan->stage < 1 << 16); /* the table of steps has 16 bits for places */
    assert_true((int64_t)plan->stages * plan->stage < plan->shared);
    assert_true((int64_t)4 * plan->depth_warps * plan->phases * plan->tile_channels *
                    plan->staging_pitch <
                plan->shared);
    assert_true(plan->shared <= UF_SMALL_SHARED);
}

static void covers(void **state) {
    (void)state;
    int64_t planned = 0;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("few_plan", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        const bool dgrad = test_random_one_in(&random, 2);
        const uf_view *written = dgrad ? &args.x : &args.y;
        const uf_view *read = dgrad ? &args.y : &args.x;
        uf_small_plan plan;
        if (!uf_small_plan_of(dgrad ? UF_CONV_DGRAD : UF_CONV_FPROP, &args, &plan)) {
            continue;
        }
        ++planned;
        int64_t positions[3] = {written->extent[0]};
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t step = dgrad ? args.stride[axis] : 1;
            positions[1 + axis] = (written->extent[2 + axis] + step - 1) / step;
            check_window(&args, dgrad, axis, &plan);
        }
        check_boxes(plan.box, plan.boxes, positions, plan.tile_pixels);
        check_shares(plan.chunks, plan.per_split, plan.splits);
        assert_true((int64_t)plan.depth * plan.chunks >= read->extent[1] / args.groups);
        assert_true((int64_t)plan.tile_channels * plan.channel_tiles >=
                    written->extent[1] / args.groups);
        assert_true(plan.warps ==
                        plan.phases * plan.pixel_warps * plan.channel_warps * plan.depth_warps &&
                    plan.warps <= UF_SMALL_WARPS);
        assert_int_equal(plan.depth_warps, 1 << plan.depth_log);
        assert_true(plan.micros > 0.0);
        check_padding(&args, dgrad, &plan);
        check_layout(&args, dgrad, &plan);
    }
    assert_true(planned > CASES / 2);
}

static void weight_gradient_covers(void **state) {
    (void)state;
    int64_t planned = 0;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("few_wgrad_plan", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        uf_small_wgrad_plan plan;
        if (!uf_small_wgrad_plan_of(&args, &plan)) {
            continue;
        }
        ++planned;
        const int64_t positions[3] = {args.y.extent[0], args.y.extent[2], args.y.extent[3]};
        const int64_t taps = args.w.extent[2] * args.w.extent[3];
        const int64_t element = (int64_t)uf_dtype_size(args.x.dtype);
        check_boxes(plan.box, plan.boxes, positions, plan.positions);
        check_shares(plan.all_boxes, plan.per_split, plan.splits);
        for (int axis = 0; axis < 2; ++axis) {
            assert_true((plan.box[1 + axis] - 1) * args.stride[axis] +
                            (args.w.extent[2 + axis] - 1) * args.dilation[axis] <
                        plan.window[axis]);
        }
        assert_true(plan.positions <= plan.row_pitch);
        assert_true((int64_t)plan.box[0] * plan.window[0] * plan.window[1] <= plan.plane);
        assert_true(plan.channels * taps <= plan.columns && plan.columns <= plan.staging_pitch);
        assert_true((int64_t)plan.rows * plan.row_tiles >= args.w.extent[0] / args.groups);
        assert_true((int64_t)plan.channels * plan.channel_tiles >= args.w.extent[1]);
        assert_true((int64_t)plan.rows * plan.row_pitch + (int64_t)plan.channels * plan.plane <=
                    plan.stage);
        assert_true(plan.stages * plan.stage * element < plan.shared &&
                    (int64_t)4 * plan.depth_warps * plan.rows * plan.staging_pitch < plan.shared &&
                    plan.shared <= UF_SMALL_SHARED);
        assert_true(plan.warps == plan.row_warps * plan.column_warps * plan.depth_warps &&
                    plan.warps <= UF_SMALL_WARPS);
        assert_true(plan.micros > 0.0);
    }
    assert_true(planned > CASES / 2);
}

static void divides(void **state) {
    (void)state;
    test_random random = test_random_for("few_divide", 0);
    for (int64_t i = 0; i < 200 * CASES; ++i) {
        const int64_t most = INT64_C(1) << test_random_integer(&random, 0, 31);
        const int32_t by = (int32_t)test_random_integer(&random, 1, most > 1 ? most - 1 : 1);
        int64_t number = test_random_integer(&random, 0, INT32_MAX);
        if (test_random_one_in(&random, 2)) { /* beside a multiple */
            number = number / by * by - test_random_integer(&random, 0, 1);
            number = number < 0 ? 0 : number;
        }
        assert_int_equal(uf_small_divide((int32_t)number, uf_small_divisor_of(by)), number / by);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers),
        cmocka_unit_test(weight_gradient_covers),
        cmocka_unit_test(divides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
