/* test_tuning_door.c - tuning.h on a device that does not tune, and the calls that one which tunes
 * gets. */
#include <stdio.h>
#include <string.h>

#include <unfurl/tuning.h>

#include "core/context.h"
#include "kernels/kernels.h"
#include "support/test.h"

static const char *const path = "tuning.txt"; /* nobody opens it */
static const char *const sentence = "the choice of kernels is not tuned on CPU";

enum { LINE_SIZE = 1024 };

static void keep_line(void *user, uf_log_level level, const char *line) {
    assert_int_equal(level, UF_LOG_INFO);
    (void)snprintf(user, LINE_SIZE, "%s", line);
}

static uf_context *cpu_context(char *log) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.log = keep_line;
    options.log_user = log;
    assert_ok(uf_context_create(&options, &context));
    log[0] = '\0';
    return context;
}

/* (2, 8, 5, 5) by (8, 4, 4, 4), stride 2, padding 1 to (2, 4, 10, 10). */
static uf_conv2d_args transposed(void) {
    uf_conv2d_args args = uf_conv2d_args_default();
    args.params.stride[0] = args.params.stride[1] = 2;
    args.params.padding[0] = args.params.padding[1] = 1;
    args.input = uf_view_nchw(NULL, UF_F32, 2, 8, 5, 5);
    args.weight = uf_view_nchw(NULL, UF_F32, 8, 4, 4, 4);
    args.output = uf_view_nchw(NULL, UF_F32, 2, 4, 10, 10);
    return args;
}

static void test_cpu(void **state) {
    char log[LINE_SIZE];
    uf_context *context = cpu_context(log);
    uf_conv2d_args args = transposed();
    uf_tuning_result result;
    (void)state;
    assert_null(context->device->tuning);
    assert_error(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, &result),
                 UF_ERROR_UNSUPPORTED, sentence);
    assert_null(result.variant);
    assert_error(uf_tuning_save(context, path), UF_ERROR_UNSUPPORTED, sentence);
    assert_string_equal(log, "");
    assert_ok(uf_tuning_load(context, path));
    assert_non_null(strstr(log, path));
    assert_non_null(strstr(log, sentence));
    assert_int_equal(uf_tuning_count(context), 0);
    uf_context_destroy(context);
}

static void test_mistakes(void **state) {
    char log[LINE_SIZE];
    uf_context *context = cpu_context(log);
    uf_conv2d_args args = transposed();
    (void)state;
    assert_int_equal(uf_tuning_count(NULL), 0);
    assert_error(uf_tuning_load(NULL, path), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_tuning_load(context, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_tuning_save(NULL, path), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_tuning_conv2d(NULL, UF_OPERATION_CONV2D_FORWARD, &args, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_tuning_conv2d(context, UF_OPERATION_COUNT, &args, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "operation");
    assert_error(uf_tuning_conv2d(context, (uf_conv2d_operation)-1, &args, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "operation");
    args.output.extent[3] += 1;
    assert_error(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, NULL),
                 UF_ERROR_SHAPE, "output");
    uf_context_destroy(context);
}

/* ---- a device that tunes ---- */

static uf_status tune(uf_context *context, int direction, const uf_conv_kernel_args *args,
                      uf_tuning_result *result) {
    (void)context;
    /* Forward of a transposed convolution is the data gradient of a convolution. */
    assert_int_equal(direction, UF_CONV_DGRAD);
    assert_int_equal(args->stride[0], 2);
    result->variant = "quick";
    result->candidates = 7;
    return UF_OK;
}

static int64_t count(const uf_context *context) {
    return context != NULL ? 5 : -1;
}

static uf_status save(const uf_context *context, const char *name) {
    (void)context;
    return uf_fail(UF_ERROR_IO, "saved to %s", name);
}

static uf_status load(uf_context *context, const char *name) {
    (void)context;
    return uf_fail(UF_ERROR_FORMAT, "loaded from %s", name);
}

static void test_device_that_tunes(void **state) {
    static const uf_tuning_interface tuning = {
        .conv = tune, .count = count, .save = save, .load = load};
    char log[LINE_SIZE];
    uf_context *context = cpu_context(log);
    const uf_device_ops *cpu = context->device;
    uf_device_ops device = *cpu;
    uf_conv2d_args args = transposed();
    uf_tuning_result result;
    (void)state;
    device.tuning = &tuning;
    context->device = &device;
    assert_ok(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, &result));
    assert_string_equal(result.variant, "quick");
    assert_int_equal(result.candidates, 7);
    assert_ok(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, NULL));
    args.variant = "direct";
    assert_error(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, &result),
                 UF_ERROR_INVALID_ARGUMENT, "forced");
    assert_int_equal(uf_tuning_count(context), 5);
    assert_error(uf_tuning_save(context, path), UF_ERROR_IO, "saved to", path);
    assert_error(uf_tuning_load(context, path), UF_ERROR_FORMAT, "loaded from", path);
    assert_string_equal(log, "");
    context->device = cpu;
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_device_that_tunes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
