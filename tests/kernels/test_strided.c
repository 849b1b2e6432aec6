/* test_strided.c - index spaces, and the kernels that walk them, against the plain definition: the
 * offsets of every index, one term after the other. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/random.h"

enum { RANDOM_SPACES = 400 };

/* ---- the definition ---- */

static int64_t offset_of(const uf_strided *space, int32_t operand, int64_t number) {
    int64_t offset = 0;
    for (int32_t axis = space->rank - 1; axis >= 0; --axis) {
        offset += number % space->extent[axis] * space->stride[operand][axis];
        number /= space->extent[axis];
    }
    return offset;
}

static int64_t size_of(const uf_strided *space, int32_t operand) {
    int64_t last = 0;
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        last += (space->extent[axis] - 1) * space->stride[operand][axis];
    }
    return last + 1;
}

static double term_of(uf_term term, double a, double b, double c) {
    return term == UF_TERM_FIRST          ? a
           : term == UF_TERM_ADD          ? a + b
           : term == UF_TERM_SUBTRACT     ? a - b
           : term == UF_TERM_MULTIPLY     ? a * b
           : term == UF_TERM_DIVIDE       ? a / b
           : term == UF_TERM_PRELU        ? fmax(a, 0.0) + b * fmin(a, 0.0)
           : term == UF_TERM_PRELU_INPUT  ? a * (b > 0.0 ? 1.0 : c)
           : term == UF_TERM_PRELU_WEIGHT ? a * fmin(b, 0.0)
                                          : a * b / (c * c);
}

static int32_t operands_of(uf_term term) {
    return term == UF_TERM_FIRST                                         ? 2
           : term == UF_TERM_DIVIDE_TWICE || term == UF_TERM_PRELU_INPUT ? 4
                                                                         : 3;
}

/* ---- spaces ---- */

/* Give an operand the strides of a tensor whose axes lie in memory in a random order, with gaps
 * here and there; where `repeats` says so an axis repeats. */
static void lay_out(test_random *random, uf_strided *space, int32_t operand, const bool *repeats) {
    int32_t order[UF_MAX_RANK];
    int64_t next = 1;
    for (int32_t i = 0; i < space->rank; ++i) {
        order[i] = space->rank - 1 - i;
    }
    for (int32_t i = 0; i + 1 < space->rank && test_random_one_in(random, 3); ++i) {
        const int64_t j = test_random_integer(random, i, space->rank - 1);
        const int32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int32_t i = 0; i < space->rank; ++i) {
        const int32_t axis = order[i];
        space->stride[operand][axis] = repeats[axis] ? 0 : next;
        if (!repeats[axis]) {
            next *= space->extent[axis];
            next += test_random_one_in(random, 8) ? test_random_integer(random, 1, 3) : 0;
        }
    }
}

static uf_strided random_space(test_random *random, uf_term term, bool reduce) {
    uf_strided space;
    memset(&space, 0, sizeof space);
    space.rank = (int32_t)test_random_integer(random, 0, 6);
    space.operands = operands_of(term);
    for (int32_t axis = 0; axis < space.rank; ++axis) {
        const int64_t most = axis >= space.rank - 2 ? 40 : 4;
        space.extent[axis] = test_random_one_in(random, 4) ? 1 : test_random_log(random, 1, most);
    }
    for (int32_t k = 0; k < space.operands; ++k) {
        bool repeats[UF_MAX_RANK] = {false};
        for (int32_t axis = 0; axis < space.rank; ++axis) {
            repeats[axis] = k > 0 ? test_random_one_in(random, 5) != 0
                                  : reduce && test_random_one_in(random, 2) != 0;
        }
        lay_out(random, &space, k, repeats);
    }
    return space;
}

/* Simplifying keeps every offset, in order, and leaves nothing to simplify. */
static void test_simplify(void **state) {
    (void)state;
    int64_t shorter = 0;
    for (int64_t i = 0; i < RANDOM_SPACES; ++i) {
        test_random random = test_random_for("simplify", i);
        const uf_strided space = random_space(&random, UF_TERM_MULTIPLY, i % 2 == 1);
        uf_strided simple = space;
        uf_strided_simplify(&simple);
        const int64_t count = uf_strided_count(&space);
        assert_int_equal(uf_strided_count(&simple), count);
        assert_in_range(simple.rank, 1, space.rank > 1 ? space.rank : 1);
        for (int64_t number = 0; number < count; ++number) {
            for (int32_t k = 0; k < space.operands; ++k) {
                assert_int_equal(offset_of(&simple, k, number), offset_of(&space, k, number));
            }
        }
        for (int32_t axis = 0; axis < simple.rank; ++axis) {
            bool one = axis + 1 < simple.rank;
            for (int32_t k = 0; one && k < simple.operands; ++k) {
                one =
                    simple.stride[k][axis] == simple.extent[axis + 1] * simple.stride[k][axis + 1];
            }
            assert_false(one);
            assert_true(simple.rank == 1 || simple.extent[axis] > 1);
        }
        assert_int_equal(uf_strided_repeats(&simple), uf_strided_repeats(&space));
        shorter += simple.rank < space.rank ? 1 : 0;
    }
    assert_true(shorter > RANDOM_SPACES / 4);
}

/* Sorting leaves every element of the output made of what it was, and walks its memory upwards. */
static void test_sort(void **state) {
    (void)state;
    int64_t turned = 0;
    for (int64_t i = 0; i < RANDOM_SPACES; ++i) {
        test_random random = test_random_for("sort", i);
        const uf_strided space = random_space(&random, UF_TERM_ADD, false);
        uf_strided sorted = space;
        uf_strided_sort(&sorted);
        const int64_t count = uf_strided_count(&space), size = size_of(&space, 0);
        int64_t(*made_of)[2] = test_allocate((size_t)size * sizeof *made_of);
        int64_t before = -1;
        bool same = true;
        assert_int_equal(uf_strided_count(&sorted), count);
        for (int64_t number = 0; number < count; ++number) {
            int64_t *to = made_of[offset_of(&space, 0, number)];
            to[0] = offset_of(&space, 1, number);
            to[1] = offset_of(&space, 2, number);
        }
        for (int64_t number = 0; number < count; ++number) {
            const int64_t at = offset_of(&sorted, 0, number);
            assert_true(at > before);
            before = at;
            same = same && at == offset_of(&space, 0, number);
            assert_int_equal(offset_of(&sorted, 1, number), made_of[at][0]);
            assert_int_equal(offset_of(&sorted, 2, number), made_of[at][1]);
        }
        turned += same ? 0 : 1;
        free(made_of);
    }
    assert_true(turned > RANDOM_SPACES / 20);
}

static void test_walk(void **state) {
    (void)state;
    for (int64_t i = 0; i < 100; ++i) {
        test_random random = test_random_for("walk", i);
        uf_strided space = random_space(&random, UF_TERM_ADD, false);
        uf_strided_simplify(&space);
        const int64_t row = space.extent[space.rank - 1];
        const int64_t rows = uf_strided_count(&space) / row;
        const int64_t first = test_random_integer(&random, 0, rows - 1);
        uf_strided_walk walk = uf_strided_walk_from(&space, 1, first);
        for (int64_t r = first; r < rows; ++r) {
            for (int32_t k = 0; k < space.operands; ++k) {
                assert_int_equal(walk.offset[k], offset_of(&space, k, r * row));
            }
            uf_strided_next(&space, &walk);
        }
    }
}

/* Axes are matched from the last one on. */
static void test_broadcast_strides(void **state) {
    (void)state;
    const uf_shape whole = UF_SHAPE(2, 3, 4, 5), part = UF_SHAPE(3, 1, 5);
    const int64_t expected[4] = {0, 5, 0, 1};
    int64_t own[UF_MAX_RANK], stride[UF_MAX_RANK];
    uf_strided_contiguous(&part, own);
    uf_strided_broadcast(&whole, &part, own, stride);
    assert_memory_equal(stride, expected, sizeof expected);
    const uf_strided space = uf_strided_of(&whole);
    assert_int_equal(uf_strided_count(&space), 120);
    assert_int_equal(space.stride[0][0], 60);
}

/* ---- kernels ---- */

typedef struct kernel_case {
    char label[256];
    uf_strided_kernel_args args;
    size_t bytes[UF_STRIDED_OPERANDS];
    double *values[UF_STRIDED_OPERANDS]; /* the same numbers; [0]: what must come out */
    double size;                         /* of the largest sum of absolute terms */
} kernel_case;

/* Numbers of few bits between 1/2 and 2, so that bf16 has them and none is near 0. */
static double number_of(test_random *random) {
    const double value = (double)test_random_integer(random, 16, 64) / 32.0;
    return test_random_one_in(random, 2) ? -value : value;
}

static void compute(kernel_case *one) {
    const uf_strided *space = &one->args.space;
    const int64_t count = uf_strided_count(space);
    const int64_t size = size_of(space, 0);
    double *sum = test_allocate((size_t)size * sizeof *sum);
    double *absolute = test_allocate((size_t)size * sizeof *absolute);
    bool *is_written = test_allocate((size_t)size);
    for (int64_t i = 0; i < size; ++i) {
        sum[i] = absolute[i] = 0.0;
        is_written[i] = false;
    }
    for (int64_t i = 0; i < count; ++i) {
        double x[UF_STRIDED_OPERANDS] = {0.0};
        for (int32_t k = 1; k < space->operands; ++k) {
            x[k] = one->values[k][offset_of(space, k, i)];
        }
        const double term = term_of(one->args.term, x[1], x[2], x[3]);
        const int64_t to = offset_of(space, 0, i);
        sum[to] += one->args.factor * term;
        absolute[to] += fabs(one->args.factor * term);
        is_written[to] = true;
    }
    for (int64_t i = 0; i < size; ++i) {
        const double before = one->values[0][i];
        if (is_written[i]) {
            one->values[0][i] = sum[i] + (one->args.mode == UF_ACCUMULATE ? before : 0.0);
            one->size = fmax(one->size, absolute[i] + fabs(before));
        }
    }
    free(sum);
    free(absolute);
    free(is_written);
}

static uf_dtype output_type(const uf_strided_kernel_args *args) {
    return args->makes_f32 ? UF_F32 : args->dtype;
}

static kernel_case make_case(const uf_strided *space, uf_term term, uf_dtype dtype, double factor,
                             uf_write_mode mode, test_random *random) {
    kernel_case one;
    memset(&one, 0, sizeof one);
    one.args.term = term;
    one.args.dtype = dtype;
    one.args.space = *space;
    one.args.factor = factor;
    one.args.mode = mode;
    one.args.makes_f32 =
        dtype == UF_BF16 && uf_strided_repeats(space) && test_random_one_in(random, 2);
    for (int32_t k = 0; k < space->operands; ++k) {
        const int64_t size = size_of(space, k);
        const uf_dtype type = k == 0 ? output_type(&one.args) : dtype;
        one.bytes[k] = (size_t)size * uf_dtype_size(type);
        one.values[k] = test_allocate((size_t)size * sizeof(double));
        for (int64_t i = 0; i < size; ++i) {
            one.values[k][i] = number_of(random);
        }
        one.args.data[k] = test_shared_allocate(one.bytes[k]);
        uf_convert(one.args.data[k], type, one.values[k], UF_F64, size);
    }
    char text[128];
    const uf_shape shape = uf_shape_from(space->extent, space->rank);
    (void)snprintf(one.label, sizeof one.label, "term %d over %s, %s, factor %g, %s", (int)term,
                   uf_shape_format(&shape, text, sizeof text), uf_dtype_name(dtype), factor,
                   mode == UF_ACCUMULATE ? "accumulate" : "overwrite");
    compute(&one);
    return one;
}

static void free_case(kernel_case *one) {
    for (int32_t k = 0; k < one->args.space.operands; ++k) {
        test_shared_free(one->args.data[k], one->bytes[k]);
        free(one->values[k]);
    }
}

static void run(uf_context *context, uf_strided_kernel_args args, bool reduce) {
    if (!reduce) {
        assert_ok(context->kernels->broadcast(context, &args));
        assert_ok(uf_context_synchronize(context));
        return;
    }
    args.workspace_size = context->kernels->reduce_workspace(context, &args);
    const size_t room = args.workspace_size > 0 ? args.workspace_size : 1;
    args.workspace = test_shared_allocate(room);
    memset(args.workspace, 0xff, room);
    assert_ok(context->kernels->reduce(context, &args));
    assert_ok(uf_context_synchronize(context));
    test_shared_free(args.workspace, room);
}

/* Every element of the output's memory: results, and what lies between them untouched. */
static void check(kernel_case *one, uf_context *context, bool reduce) {
    const double precision[] = {[UF_F32] = 0x1p-22, [UF_F64] = 0x1p-48, [UF_BF16] = 0x1p-7};
    const uf_dtype type = output_type(&one->args);
    const int64_t size = size_of(&one->args.space, 0);
    double *got = test_allocate((size_t)size * sizeof *got);
    run(context, one->args, reduce);
    uf_convert(got, UF_F64, one->args.data[0], type, size);
    for (int64_t i = 0; i < size; ++i) {
        const double allowed = precision[type] * one->size;
        if (!(fabs(got[i] - one->values[0][i]) <= allowed)) {
            fail_msg("%s: element %lld is %.17g, expected %.17g", one->label, (long long)i, got[i],
                     one->values[0][i]);
        }
    }
    free(got);
}

static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};

static void check_space(uf_context *context, const uf_strided *space, uf_term term, bool reduce,
                        test_random *random) {
    for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
        for (int mode = UF_OVERWRITE; mode <= UF_ACCUMULATE; ++mode) {
            const double factor = test_random_one_in(random, 2) ? 1.0 : -0.5;
            kernel_case one =
                make_case(space, term, dtypes[t], factor, (uf_write_mode)mode, random);
            check(&one, context, reduce);
            free_case(&one);
        }
    }
}

static void check_random(bool reduce) {
    uf_context *context = test_context(3);
    for (int64_t i = 0; i < RANDOM_SPACES; ++i) {
        test_random random = test_random_for(reduce ? "reduce" : "broadcast", i);
        const uf_term term = (uf_term)(i % UF_TERM_COUNT);
        const uf_strided space = random_space(&random, term, reduce);
        check_space(context, &space, term, reduce, &random);
    }
    uf_context_destroy(context);
}

static void test_broadcast(void **state) {
    (void)state;
    check_random(false);
}

static void test_reduce(void **state) {
    (void)state;
    check_random(true);
}

/* Extents that reach the pieces of long rows, the packs of aligned ones and the parts of long
 * sums: extents, and which axes the output and the second operand repeat along. */
static const struct {
    int64_t extent[3];
    const char *output, *second;
} large[] = {
    {{1, 1, 100000}, "001", "000"}, {{1, 1, 99999}, "001", "001"},  {{3, 5, 7001}, "011", "100"},
    {{2, 64, 256}, "001", "101"},   {{2, 64, 256}, "110", "110"},   {{40, 7, 1200}, "100", "001"},
    {{20000, 3, 2}, "100", "011"},  {{300, 41, 3}, "010", "000"},   {{4000, 2, 5}, "001", "110"},
    {{70, 9, 1024}, "101", "010"},  {{1, 20000, 12}, "001", "000"}, {{1, 2000, 600}, "001", "010"},
};

static uf_strided large_space(int64_t row, bool reduce) {
    const uf_shape shape = uf_shape_from(large[row].extent, 3);
    uf_strided space = uf_strided_of(&shape);
    space.operands = 3;
    memcpy(space.stride[1], space.stride[0], sizeof space.stride[1]);
    const char *const repeats[] = {reduce ? large[row].output : "000", "000", large[row].second};
    for (int32_t k = 0; k < 3; ++k) {
        int64_t next = 1;
        for (int32_t axis = 2; axis >= 0; --axis) {
            space.stride[k][axis] = repeats[k][axis] == '1' ? 0 : next;
            next *= repeats[k][axis] == '1' ? 1 : shape.extent[axis];
        }
    }
    return space;
}

static void test_large(void **state) {
    (void)state;
    uf_context *context = test_context(3);
    for (int64_t row = 0; row < COUNT_OF(large); ++row) {
        test_random random = test_random_for("large", row);
        for (int reduce = 0; reduce < 2; ++reduce) {
            const uf_strided space = large_space(row, reduce == 1);
            check_space(context, &space, UF_TERM_MULTIPLY, reduce == 1, &random);
        }
    }
    uf_context_destroy(context);
}

/* The same bits from any number of threads, and again. */
static void test_threads(void **state) {
    (void)state;
    uf_context *contexts[] = {test_context(1), test_context(4)};
    for (int64_t row = 0; row < COUNT_OF(large); ++row) {
        test_random random = test_random_for("threads", row);
        const uf_strided space = large_space(row, true);
        kernel_case one = make_case(&space, UF_TERM_DIVIDE, UF_F64, 0.1, UF_OVERWRITE, &random);
        void *first = test_allocate(one.bytes[0]);
        for (int turn = 0; turn < 4; ++turn) {
            run(contexts[turn % 2], one.args, true);
            if (turn == 0) {
                memcpy(first, one.args.data[0], one.bytes[0]);
            }
            assert_memory_equal(one.args.data[0], first, one.bytes[0]);
        }
        free(first);
        free_case(&one);
    }
    uf_context_destroy(contexts[0]);
    uf_context_destroy(contexts[1]);
}

/* The output may be the memory of an operand. */
static void test_in_place(void **state) {
    (void)state;
    uf_context *context = test_context(3);
    for (int64_t row = 0; row < COUNT_OF(large); ++row) {
        test_random random = test_random_for("in place", row);
        const uf_strided space = large_space(row, false);
        kernel_case one = make_case(&space, UF_TERM_SUBTRACT, UF_F32, -1.0, UF_OVERWRITE, &random);
        kernel_case in_place = one;
        in_place.args.data[0] = one.args.data[1];
        check(&in_place, context, false);
        free_case(&one);
    }
    uf_context_destroy(context);
}

static void test_errors(void **state) {
    (void)state;
    test_random random = test_random_for("errors", 0);
    const uf_strided space = large_space(2, false);
    kernel_case one = make_case(&space, UF_TERM_ADD, UF_F32, 1.0, UF_OVERWRITE, &random);
    assert_ok(uf_broadcast_check(&one.args));
    uf_strided_kernel_args bad = one.args;
    bad.space.stride[0][1] = 0;
    assert_error(uf_broadcast_check(&bad), UF_ERROR_INVALID_ARGUMENT, "broadcast", "repeats");
    assert_ok(uf_reduce_check(&bad));
    bad = one.args;
    bad.space.stride[1][2] = -1;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "reduce",
                 "stride 2 of operand 1 is -1");
    bad = one.args;
    bad.makes_f32 = true;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "not of f32");
    bad.dtype = UF_BF16;
    assert_ok(uf_reduce_check(&bad));
    assert_error(uf_broadcast_check(&bad), UF_ERROR_INVALID_ARGUMENT, "type of the operands");
    bad = one.args;
    bad.space.extent[0] = 0;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "extent 0 is 0");
    bad = one.args;
    bad.space.stride[2][0] = INT64_C(1) << 60;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "operand 2 reaches further");
    bad = one.args;
    bad.space.extent[0] = bad.space.extent[1] = INT64_C(1) << 31;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "extent 1");
    bad = one.args;
    bad.term = UF_TERM_FIRST;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "2 operands", "takes 1");
    bad.term = UF_TERM_COUNT;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "no uf_term");
    bad = one.args;
    bad.space.rank = 9;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "9 axes");
    bad = one.args;
    bad.data[2] = NULL;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "operand 2 is absent");
    bad = one.args;
    bad.dtype = UF_I64;
    assert_error(uf_reduce_check(&bad), UF_ERROR_UNSUPPORTED, "i64");
    bad = one.args;
    bad.mode = (uf_write_mode)7;
    assert_error(uf_reduce_check(&bad), UF_ERROR_INVALID_ARGUMENT, "uf_write_mode");
    free_case(&one);
}

int main(void) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simplify),  cmocka_unit_test(test_sort),
        cmocka_unit_test(test_walk),      cmocka_unit_test(test_broadcast_strides),
        cmocka_unit_test(test_broadcast), cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_large),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_in_place),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
