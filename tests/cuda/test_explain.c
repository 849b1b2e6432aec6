/* test_explain.c - which sentence and which status a CUDA error becomes: needs no GPU. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/device/backend.h"

static const struct {
    const char *what;
    cudaError_t error;
    int driver, runtime;
    const char *word; /* in its sentence and in no other one */
} cases[] = {
    {"no driver", cudaErrorInsufficientDriver, 0, 13000, "no NVIDIA driver"},
    {"no driver, another error", cudaErrorNoDevice, 0, 12040, "no NVIDIA driver"},
    {"driver too old", cudaErrorInsufficientDriver, 11040, 12040, "too old"},
    {"driver too old, minor version", cudaErrorInsufficientDriver, 12020, 12040, "too old"},
    {"driver too old, noticed late", cudaErrorUnknown, 11080, 12000, "too old"},
    {"driver of another release", cudaErrorSystemDriverMismatch, 13000, 13000, "too old"},
    {"no visible GPU", cudaErrorNoDevice, 13000, 13000, "CUDA_VISIBLE_DEVICES"},
    {"no visible GPU, newer driver", cudaErrorNoDevice, 13010, 12040, "CUDA_VISIBLE_DEVICES"},
    {"no kernel image", cudaErrorNoKernelImageForDevice, 13000, 13000, "no kernels for this model"},
    {"no such kernel", cudaErrorInvalidDeviceFunction, 13000, 13000, "no kernels for this model"},
};

static void test_sentences(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        const char *sentence = uf_cuda_explain(cases[i].error, cases[i].driver, cases[i].runtime);
        assert_non_null(sentence);
        for (int64_t other = 0; other < COUNT_OF(cases); ++other) {
            const bool expected = strcmp(cases[other].word, cases[i].word) == 0;
            if ((strstr(sentence, cases[other].word) != NULL) != expected) {
                fail_msg("%s: \"%s\" %s \"%s\"", cases[i].what, sentence,
                         expected ? "lacks" : "has", cases[other].word);
            }
        }
    }
    /* What has no sentence of ours keeps CUDA's. */
    assert_string_equal(uf_cuda_explain(cudaErrorECCUncorrectable, 13000, 13000),
                        cudaGetErrorString(cudaErrorECCUncorrectable));
}

static uf_context fresh(void) {
    uf_context context;
    memset(&context, 0, sizeof context);
    return context;
}

static void test_success(void **state) {
    (void)state;
    uf_context context = fresh();
    assert_int_equal(uf_cuda_check(&context, cudaSuccess, "anything"), UF_OK);
    assert_int_equal(context.fault, UF_OK);
}

static void test_refusals_do_not_poison(void **state) {
    (void)state;
    static const struct {
        cudaError_t error;
        uf_status status;
        const char *word;
    } refusals[] = {
        {cudaErrorMemoryAllocation, UF_ERROR_OUT_OF_MEMORY, "out of GPU memory"},
        {cudaErrorNoKernelImageForDevice, UF_ERROR_UNSUPPORTED, "no kernels for this model"},
        {cudaErrorInvalidValue, UF_ERROR_INTERNAL, "cudaErrorInvalidValue"},
        {cudaErrorInvalidConfiguration, UF_ERROR_INTERNAL, "cudaErrorInvalidConfiguration"},
        {cudaErrorLaunchOutOfResources, UF_ERROR_INTERNAL, "cudaErrorLaunchOutOfResources"},
        {cudaErrorStreamCaptureUnsupported, UF_ERROR_INTERNAL, "cudaErrorStreamCaptureUnsupported"},
    };
    for (int64_t i = 0; i < COUNT_OF(refusals); ++i) {
        uf_context context = fresh();
        assert_error(uf_cuda_check(&context, refusals[i].error, "the call"), refusals[i].status,
                     refusals[i].word);
        assert_int_equal(context.fault, UF_OK);
        assert_int_equal(uf_context_check(&context), UF_OK);
    }
}

static void test_faults_poison(void **state) {
    (void)state;
    static const cudaError_t faults[] = {
        cudaErrorIllegalAddress,      cudaErrorLaunchFailure,      cudaErrorLaunchTimeout,
        cudaErrorHardwareStackError,  cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,          cudaErrorAssert,
        cudaErrorECCUncorrectable,    cudaErrorContextIsDestroyed, cudaErrorUnknown,
    };
    for (int64_t i = 0; i < COUNT_OF(faults); ++i) {
        uf_context context = fresh();
        char message[UF_MESSAGE_SIZE];
        assert_error(uf_cuda_check(&context, faults[i], "the launch"), UF_ERROR_DEVICE,
                     "the launch", cudaGetErrorName(faults[i]), "unusable");
        (void)snprintf(message, sizeof message, "%s", uf_last_error());
        /* The first fault stays: what follows is its consequence. */
        assert_error(uf_cuda_check(&context, cudaErrorECCUncorrectable, "later"), UF_ERROR_DEVICE,
                     message);
        assert_string_equal(uf_last_error(), message);
        assert_error(uf_context_check(&context), UF_ERROR_DEVICE, message);
        assert_error(uf_cuda_enter(&context), UF_ERROR_DEVICE, message);
    }
}

/* On this machine, whatever it is: a count without a reason, or one of the sentences above. */
static void test_this_machine(void **state) {
    (void)state;
    const char *reason = NULL;
    const int32_t count = uf_device_count(UF_DEVICE_CUDA, &reason);
    assert_non_null(reason);
    print_message("%d GPUs%s%s\n", (int)count, count == 0 ? ": " : "", reason);
    if (count > 0) {
        assert_string_equal(reason, "");
        return;
    }
    bool known = false;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        known = known || strstr(reason, cases[i].word) != NULL;
    }
    assert_true(known);
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    options.device = UF_DEVICE_CUDA;
    assert_error(uf_context_create(&options, &context), UF_ERROR_UNSUPPORTED, reason);
    assert_null(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_refusals_do_not_poison),
        cmocka_unit_test(test_faults_poison),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
