/* test_small_kernels.c - copy, fill, zero, channel_sum and record_losses against plain loops, in
 * every layout. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/compare.h"
#include "support/guard.h"

/* The last has rows and channels of more than one unit of work. */
static const int64_t shapes[][4] = {{2, 3, 4, 5}, {1, 1, 1, 1},  {3, 1, 7, 1},
                                    {0, 2, 3, 4}, {2, 70, 1, 3}, {2, 3, 130, 131}};

/* The types of a kernel's input and output. */
static const struct {
    uf_dtype from, to;
} types[] = {
    {UF_F32, UF_F32}, {UF_F64, UF_F64}, {UF_BF16, UF_BF16}, {UF_BF16, UF_F32}, {UF_F32, UF_BF16}};

enum { ONE_TYPE = 3, SUMMED = 4 }; /* so many of the first are one type, are a sum's */

/* A number as an element of this type. */
static double as_stored(uf_dtype dtype, double value) {
    double bits = 0.0;
    uf_convert(&bits, dtype, &value, UF_F64, 1);
    uf_convert(&value, UF_F64, &bits, dtype, 1);
    return value;
}

static int64_t count_of(const int64_t *extent) {
    return extent[0] * extent[1] * extent[2] * extent[3];
}

static void check_copy(uf_context *context, const int64_t *extent, uf_dtype from_type,
                       uf_dtype to_type, guard_layout from, guard_layout to, uf_write_mode mode) {
    const int64_t count = count_of(extent);
    test_random random = test_random_for("copy", (int64_t)from * 10 + (int64_t)to);
    double *x = test_allocate((size_t)count * sizeof *x);
    double *y = test_allocate((size_t)count * sizeof *y);
    double *got = test_allocate((size_t)count * sizeof *got);
    guarded input = guard_create(from_type, extent, from, &random);
    guarded output = guard_create(to_type, extent, to, &random);
    test_random_fill(&random, x, count, 1.0);
    test_random_fill(&random, y, count, 1.0);
    guard_store(&input, x);
    if (mode == UF_ACCUMULATE) {
        guard_store(&output, y);
    }
    const uf_copy_kernel_args args = {.input = input.view, .output = output.view, .mode = mode};
    assert_ok(uf_copy_check(&args));
    assert_ok(context->kernels->copy(context, &args));
    assert_ok(uf_context_synchronize(context));
    guard_load(&output, got);
    for (int64_t i = 0; i < count; ++i) {
        const double a = as_stored(from_type, x[i]), b = as_stored(to_type, y[i]);
        const double sum = mode != UF_ACCUMULATE ? a
                           : to_type == UF_F64   ? a + b
                                                 : (double)((float)a + (float)b);
        assert_true(got[i] == as_stored(to_type, sum));
    }
    assert_guard_intact("input", &input);
    assert_guard_intact("output", &output);
    guard_destroy(&input);
    guard_destroy(&output);
    free(x);
    free(y);
    free(got);
}

static void test_copy(void **state) {
    for (int64_t s = 0; s < COUNT_OF(shapes); ++s) {
        for (int64_t type = 0; type < COUNT_OF(types); ++type) {
            for (int from = 0; from < GUARD_LAYOUTS; ++from) {
                for (int to = 0; to < GUARD_LAYOUTS; ++to) {
                    check_copy(*state, shapes[s], types[type].from, types[type].to,
                               (guard_layout)from, (guard_layout)to, UF_OVERWRITE);
                    check_copy(*state, shapes[s], types[type].from, types[type].to,
                               (guard_layout)from, (guard_layout)to, UF_ACCUMULATE);
                }
            }
        }
    }
}

/* Spans of many sizes with bytes between them, which stay. */
static void test_zero(void **state) {
    uf_context *context = *state;
    enum { UNIT = UF_ALIGNMENT, UNITS = 2 * UF_ZERO_SPANS + 1000 };
    for (int32_t count = 0; count <= UF_ZERO_SPANS; count += 32) {
        unsigned char *bytes = test_shared_allocate((size_t)UNIT * UNITS);
        uf_zero_kernel_args args = {.memory = bytes, .count = count};
        bool zero[UNITS] = {false};
        int64_t unit = 1;
        for (int32_t i = 0; i < count; ++i) {
            const int64_t units = i == 3 ? 900 : i % 3; /* some are empty */
            args.spans[i] = (uf_zero_span){unit * UNIT, units * UNIT};
            for (int64_t u = 0; u < units; ++u) {
                zero[unit + u] = true;
            }
            unit += units + 1;
        }
        assert_true(unit <= UNITS);
        memset(bytes, 0xff, (size_t)UNIT * UNITS);
        assert_ok(uf_zero_check(&args));
        assert_ok(context->kernels->zero(context, &args));
        assert_ok(uf_context_synchronize(context));
        for (int64_t i = 0; i < (int64_t)UNIT * UNITS; ++i) {
            assert_int_equal(bytes[i], zero[i / UNIT] ? 0 : 0xff);
        }
        test_shared_free(bytes, (size_t)UNIT * UNITS);
    }
    uf_zero_kernel_args args = {.memory = NULL};
    assert_error(uf_zero_check(&args), UF_ERROR_INVALID_ARGUMENT, "zero", "NULL");
    args.memory = (void *)(uintptr_t)UF_ALIGNMENT;
    args.count = UF_ZERO_SPANS + 1;
    assert_error(uf_zero_check(&args), UF_ERROR_INVALID_ARGUMENT, "zero", "65 spans");
    args.count = 2;
    args.spans[1].size = 8;
    assert_error(uf_zero_check(&args), UF_ERROR_INVALID_ARGUMENT, "zero", "span 1", "size 8");
    args.spans[1] = (uf_zero_span){-UNIT, UNIT};
    assert_error(uf_zero_check(&args), UF_ERROR_INVALID_ARGUMENT, "zero", "offset -256");
}

static void test_fill(void **state) {
    uf_context *context = *state;
    test_random random = test_random_for("fill", 0);
    for (int64_t s = 0; s < COUNT_OF(shapes); ++s) {
        const int64_t count = count_of(shapes[s]);
        double *got = test_allocate((size_t)count * sizeof *got);
        for (int type = 0; type < ONE_TYPE; ++type) {
            for (int layout = 0; layout < GUARD_LAYOUTS; ++layout) {
                guarded output =
                    guard_create(types[type].to, shapes[s], (guard_layout)layout, &random);
                const uf_fill_kernel_args args = {.output = output.view, .value = -1.5};
                assert_ok(uf_fill_check(&args));
                assert_ok(context->kernels->fill(context, &args));
                assert_ok(uf_context_synchronize(context));
                guard_load(&output, got);
                for (int64_t i = 0; i < count; ++i) {
                    assert_true(got[i] == -1.5);
                }
                assert_guard_intact("output", &output);
                guard_destroy(&output);
            }
        }
        free(got);
    }
    int64_t *counters = test_shared_allocate(4 * sizeof *counters);
    counters[0] = counters[1] = counters[2] = counters[3] = 9;
    const uf_fill_kernel_args args = {.output = uf_view_nchw(&counters[1], UF_I64, 1, 2, 1, 1),
                                      .value = 7.9};
    assert_ok(uf_fill_check(&args));
    assert_ok(context->kernels->fill(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_true(counters[0] == 9 && counters[1] == 7 && counters[2] == 7 && counters[3] == 9);
    test_shared_free(counters, 4 * sizeof *counters);
}

static void channel_sum(uf_context *context, guarded *input, guarded *output, uf_write_mode mode) {
    uf_channel_sum_kernel_args args = {.input = input->view, .output = output->view, .mode = mode};
    guarded scratch = guard_scratch(context->kernels->channel_sum_workspace(context, &args));
    args.workspace = scratch.view.data;
    args.workspace_size = (size_t)scratch.view.extent[3] * sizeof(float);
    assert_ok(uf_channel_sum_check(&args));
    assert_ok(context->kernels->channel_sum(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_guard_intact("input", input);
    assert_guard_intact("output", output);
    assert_guard_intact("workspace", &scratch);
    guard_destroy(&scratch);
}

static void check_channel_sum(const int64_t *extent, uf_dtype from, uf_dtype to,
                              guard_layout layout, uf_write_mode mode) {
    const int64_t count = count_of(extent);
    const int64_t channels = extent[1];
    const int64_t out[4] = {1, channels, 1, 1};
    test_random random = test_random_for("channel_sum", (int64_t)layout);
    double *x = test_allocate((size_t)count * sizeof *x);
    double *before = test_allocate((size_t)channels * sizeof *before);
    double *expected = test_allocate((size_t)channels * sizeof *expected);
    double *got = test_allocate((size_t)channels * sizeof *got);
    double *first = test_allocate((size_t)channels * sizeof *first);
    test_random_fill(&random, x, count, 1.0);
    test_random_fill(&random, before, channels, 1.0);
    for (int64_t i = 0; i < count; ++i) {
        x[i] = as_stored(from, x[i]);
    }
    for (int64_t c = 0; c < channels; ++c) {
        before[c] = as_stored(to, before[c]);
    }
    guarded input = guard_create(from, extent, layout, &random);
    guard_store(&input, x);
    for (int64_t c = 0; c < channels; ++c) {
        expected[c] = mode == UF_ACCUMULATE ? before[c] : 0.0;
        for (int64_t n = 0; n < extent[0]; ++n) {
            for (int64_t i = 0; i < extent[2] * extent[3]; ++i) {
                expected[c] += x[(n * channels + c) * extent[2] * extent[3] + i];
            }
        }
    }
    for (int32_t threads = 1; threads <= 3; ++threads) {
        uf_context *context = test_context(threads);
        guarded output = guard_create(to, out, GUARD_GAPS, &random);
        if (mode == UF_ACCUMULATE) {
            guard_store(&output, before);
        }
        channel_sum(context, &input, &output, mode);
        guard_load(&output, got);
        assert_close("channel_sum", compare_values(got, expected, channels, 1.0),
                     to == UF_F64    ? 1e-13
                     : to == UF_BF16 ? 0x1p-8 + 1e-6
                                     : 1e-6);
        if (threads == 1) {
            memcpy(first, got, (size_t)channels * sizeof *got);
        }
        assert_same_bits("threads", got, first, channels * (int64_t)sizeof *got);
        guard_destroy(&output);
        uf_context_destroy(context);
    }
    guard_destroy(&input);
    free(x);
    free(before);
    free(expected);
    free(got);
    free(first);
}

static void test_channel_sum(void **state) {
    (void)state;
    /* More channels than sums are kept at a time, too. */
    static const int64_t more[][4] = {{2, 300, 2, 2}, {5, 3, 160, 171}};
    for (int type = 0; type < SUMMED; ++type) {
        const uf_dtype from = types[type].from, to = types[type].to;
        for (int layout = 0; layout < GUARD_LAYOUTS; ++layout) {
            for (int mode = 0; mode < 2; ++mode) {
                for (int64_t s = 0; s < COUNT_OF(shapes); ++s) {
                    check_channel_sum(shapes[s], from, to, (guard_layout)layout,
                                      (uf_write_mode)mode);
                }
                for (int64_t s = 0; s < COUNT_OF(more); ++s) {
                    check_channel_sum(more[s], from, to, (guard_layout)layout, (uf_write_mode)mode);
                }
            }
        }
    }
}

/* A NaN stays in its own channel and is not lost there. */
static void test_channel_sum_nan(void **state) {
    static const int64_t extent[4] = {2, 3, 1, 9}, out[4] = {1, 3, 1, 1};
    double x[54], got[3];
    for (int i = 0; i < 54; ++i) {
        x[i] = 1.0;
    }
    x[9 + 8] = (double)NAN; /* of channel 1 */
    guarded input = guard_create(UF_F32, extent, GUARD_NCHW, NULL);
    guarded output = guard_create(UF_F32, out, GUARD_NCHW, NULL);
    guard_store(&input, x);
    channel_sum(*state, &input, &output, UF_OVERWRITE);
    guard_load(&output, got);
    assert_true(got[0] == 18.0 && isnan(got[1]) && got[2] == 18.0);
    guard_destroy(&input);
    guard_destroy(&output);
}

static void test_record(void **state) {
    uf_context *context = *state;
    struct {
        uf_loss_entry ring[UF_LOSS_RING];
        double wide;
        int64_t step;
        float narrow;
        uint16_t half;
    } *shared = test_shared_allocate(sizeof *shared);
    memset(shared, 0, sizeof *shared);
    shared->narrow = 0.5f;
    shared->half = 0xbfc0; /* -1.5 */
    const uf_loss_entry *ring = shared->ring;
    const uf_record_kernel_args args = {
        .losses = {uf_view_nchw(&shared->narrow, UF_F32, 1, 1, 1, 1),
                   uf_view_nchw(&shared->wide, UF_F64, 1, 1, 1, 1),
                   uf_view_nchw(&shared->half, UF_BF16, 1, 1, 1, 1)},
        .count = 3,
        .ring = shared->ring,
        .step = &shared->step,
    };
    assert_ok(uf_record_check(&args));
    for (int64_t run = 0; run < UF_LOSS_RING + 2; ++run) {
        const double wide = run == UF_LOSS_RING + 1 ? (double)INFINITY : (double)run;
        shared->wide = wide;
        assert_ok(context->kernels->record_losses(context, &args));
        assert_ok(uf_context_synchronize(context));
        assert_int_equal(shared->step, run + 1);
        const uf_loss_entry *entry = &ring[run % UF_LOSS_RING];
        assert_int_equal(entry->step, run + 1);
        assert_true(entry->losses[0] == 0.5 && entry->losses[1] == wide);
        assert_true(entry->losses[2] == -1.5);
        assert_true(entry->finite == (isfinite(wide) ? 1.0 : 0.0));
    }
    assert_int_equal(ring[2].step, 3); /* not yet overwritten */
    test_shared_free(shared, sizeof *shared);
}

static void test_refusals(void **state) {
    (void)state;
    double x[6] = {0}, y[6] = {0};
    uf_copy_kernel_args copy = {.input = uf_view_nchw(x, UF_F64, 1, 2, 1, 3),
                                .output = uf_view_nchw(y, UF_F64, 1, 3, 1, 2)};
    assert_error(uf_copy_check(&copy), UF_ERROR_SHAPE, "copy", "(1, 3, 1, 2)", "(1, 2, 1, 3)");
    copy.output = uf_view_nchw(y, UF_F32, 1, 2, 1, 3);
    assert_error(uf_copy_check(&copy), UF_ERROR_INVALID_ARGUMENT, "output is f32", "input is f64");
    copy.output = uf_view_nchw(y, UF_F64, 1, 2, 1, 3);
    copy.output.stride[3] = 0;
    assert_error(uf_copy_check(&copy), UF_ERROR_INVALID_ARGUMENT, "stride 3 of output");
    const uf_channel_sum_kernel_args sum = {.input = uf_view_nchw(x, UF_F64, 1, 2, 1, 3),
                                            .output = uf_view_nchw(y, UF_F64, 1, 3, 1, 1)};
    assert_error(uf_channel_sum_check(&sum), UF_ERROR_SHAPE, "(1, 3, 1, 1)", "(1, 2, 1, 1)");
    copy.input = uf_view_nchw(x, UF_BF16, 1, 2, 1, 3);
    copy.output.stride[3] = 1;
    assert_error(uf_copy_check(&copy), UF_ERROR_INVALID_ARGUMENT, "output is f64", "input is bf16");
    const uf_channel_sum_kernel_args narrow = {.input = uf_view_nchw(x, UF_F32, 1, 3, 1, 1),
                                               .output = uf_view_nchw(y, UF_BF16, 1, 3, 1, 1)};
    assert_error(uf_channel_sum_check(&narrow), UF_ERROR_INVALID_ARGUMENT, "output is bf16",
                 "input is f32");
    const uf_fill_kernel_args fill = {.output = uf_view_nchw(x, UF_F16, 1, 1, 1, 1)};
    assert_error(uf_fill_check(&fill), UF_ERROR_UNSUPPORTED, "fill", "f16");
    uf_random_kernel_args random = {.output = uf_view_nchw(x, UF_F64, 1, 2, 1, 2)};
    random.output.stride[1] = 3;
    assert_error(uf_random_check(&random), UF_ERROR_INVALID_ARGUMENT, "contiguous");
    const uf_record_kernel_args record = {.count = UF_LOSS_MAX + 1};
    assert_error(uf_record_check(&record), UF_ERROR_INVALID_ARGUMENT, "15 losses");
}

static int make_context(void **state) {
    *state = test_context(2);
    return 0;
}

static int destroy_context(void **state) {
    uf_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_channel_sum),
        cmocka_unit_test(test_channel_sum_nan),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0
               ? skipped
               : cmocka_run_group_tests_name("small kernels", tests, make_context, destroy_context);
}
