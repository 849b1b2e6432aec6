/* test_auto.c - UF_DEVICE_AUTO where there is a GPU that cannot be opened: the linker puts the
 * function below in the place of the CUDA backend's, so that neither a GPU nor a toolkit is needed.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "core/context.h"

const uf_device_ops *__wrap_uf_cuda_device(const char **reason);

static uf_status refusal;
static char logged[256];
static int lines;

static int32_t one_gpu(const char **reason) {
    *reason = "";
    return 1;
}

static uf_status refuse(uf_context *context, const uf_context_options *options) {
    (void)context;
    (void)options;
    UF_FAIL(refusal, "GPU 0: this build has no kernels for this model of GPU");
}

const uf_device_ops *__wrap_uf_cuda_device(const char **reason) {
    static const uf_device_ops gpu = {.device = UF_DEVICE_CUDA, .count = one_gpu, .open = refuse};
    *reason = "";
    return &gpu;
}

static void keep_line(void *user, uf_log_level level, const char *line) {
    assert_ptr_equal(user, &lines);
    assert_int_equal(level, UF_LOG_WARNING);
    (void)snprintf(logged, sizeof logged, "%s", line);
    ++lines;
}

static void test_falls_back(void **state) {
    static const uf_status refusals[] = {UF_ERROR_UNSUPPORTED, UF_ERROR_DEVICE,
                                         UF_ERROR_OUT_OF_MEMORY};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(refusals); ++i) {
        uf_context *context = NULL;
        uf_tensor *tensor = NULL;
        uf_context_options options = uf_context_options_default();
        options.log = keep_line;
        options.log_user = &lines;
        refusal = refusals[i];
        lines = 0;
        assert_ok(uf_context_create(&options, &context));
        assert_int_equal(uf_context_device(context), UF_DEVICE_CPU);
        assert_int_equal(lines, 1);
        assert_non_null(strstr(logged, "no kernels for this model of GPU"));
        assert_non_null(strstr(logged, "CPU"));
        /* The memory is the CPU's too. */
        assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(4), &tensor));
        uf_tensor_destroy(tensor);
        uf_context_destroy(context);
    }
    uf_context *context = NULL;
    assert_ok(uf_context_create(NULL, &context)); /* and without a log */
    uf_context_destroy(context);
}

/* The caller named a GPU, a GPU's number or a stream of one: the CPU is no answer. */
static void test_does_not(void **state) {
    int stream;
    (void)state;
    refusal = UF_ERROR_DEVICE;
    for (int i = 0; i < 3; ++i) {
        uf_context *context = (uf_context *)&stream;
        uf_context_options options = uf_context_options_default();
        options.device = i == 0 ? UF_DEVICE_CUDA : UF_DEVICE_AUTO;
        options.device_index = i == 1 ? 1 : 0;
        options.cuda_stream = i == 2 ? &stream : NULL;
        assert_error(uf_context_create(&options, &context), UF_ERROR_DEVICE,
                     "no kernels for this model");
        assert_null(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_falls_back),
        cmocka_unit_test(test_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
