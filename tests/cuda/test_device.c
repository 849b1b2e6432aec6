/* test_device.c - a GPU that is missing, full, or failing. `test_device sentences` runs what needs no GPU. */
#define _GNU_SOURCE /* the program runs itself again under another environment */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/backend.h"

void test_fault(void *stream);

static const char *self;

/* Each reason has a sentence of its own. */
static void test_sentences(void **state) {
    (void)state;
    const char *const sentences[] = {
        uf_cuda_explain(cudaErrorInsufficientDriver, 0, 13000),
        uf_cuda_explain(cudaErrorInsufficientDriver, 12040, 13000),
        uf_cuda_explain(cudaErrorNoDevice, 13000, 13000),
        uf_cuda_explain(cudaErrorNoKernelImageForDevice, 13000, 13000),
        uf_cuda_explain(cudaErrorMemoryAllocation, 13000, 13000),
    };
    const char *const words[] = {"no NVIDIA driver", "too old", "shows no GPU", "no kernels for this",
                                 "memory"};
    for (int64_t i = 0; i < COUNT_OF(sentences); ++i) {
        for (int64_t j = 0; j < COUNT_OF(words); ++j) {
            if ((strstr(sentences[i], words[j]) != NULL) != (i == j)) {
                fail_msg("sentence %lld is: %s", (long long)i, sentences[i]);
            }
        }
    }
}

static void test_images(void **state) {
    (void)state;
    assert_false(uf_cuda_has_image(50));
    assert_true(uf_cuda_has_image(999));
}

/* This program again with one argument and an environment; gives its exit status. */
static int run_again(const char *argument, const char *name, const char *value) {
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (name != NULL) {
            (void)setenv(name, value, 1);
        }
        (void)execl(self, self, argument, (char *)NULL);
        _exit(125);
    }
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_no_gpu(void) {
    const char *reason = "";
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CUDA;
    if (uf_device_count(UF_DEVICE_CUDA, &reason) != 0 || strstr(reason, "shows no GPU") == NULL ||
        uf_context_create(&options, &context) != UF_ERROR_UNSUPPORTED || context != NULL ||
        strstr(uf_last_error(), "shows no GPU") == NULL) {
        fprintf(stderr, "reason: %s; message: %s\n", reason, uf_last_error());
        return 1;
    }
    /* "auto" takes the CPU then. */
    options.device = UF_DEVICE_AUTO;
    if (uf_context_create(&options, &context) != UF_OK ||
        uf_context_device(context) != UF_DEVICE_CPU) {
        return 2;
    }
    uf_context_destroy(context);
    return 0;
}

static void test_no_visible_gpu(void **state) {
    (void)state;
    assert_int_equal(run_again("no-gpu", "CUDA_VISIBLE_DEVICES", ""), 0);
}

/* In a process of its own: a fault leaves the process's GPU context unusable for good. */
static int child_fault(void) {
    uf_context *context = NULL;
    uf_tensor *tensor = NULL;
    uf_context_options options = uf_context_options_default();
    float value = 1.0f;
    options.device = UF_DEVICE_CUDA;
    if (uf_context_create(&options, &context) != UF_OK ||
        uf_tensor_create(context, UF_F32, UF_SHAPE(1), &tensor) != UF_OK ||
        uf_tensor_upload(tensor, &value) != UF_OK) {
        return 1;
    }
    test_fault(context->stream);
    if (uf_context_synchronize(context) != UF_ERROR_DEVICE ||
        strstr(uf_last_error(), "the GPU failed") == NULL) {
        fprintf(stderr, "after the fault: %s\n", uf_last_error());
        return 2;
    }
    char message[1024];
    (void)snprintf(message, sizeof message, "%s", uf_last_error());
    uf_tensor *another = NULL;
    if (uf_tensor_download(tensor, &value) != UF_ERROR_DEVICE ||
        strcmp(message, uf_last_error()) != 0 || uf_context_synchronize(context) != UF_ERROR_DEVICE ||
        uf_tensor_create(context, UF_F32, UF_SHAPE(1), &another) != UF_ERROR_DEVICE ||
        strcmp(message, uf_last_error()) != 0) {
        fprintf(stderr, "later: %s\n", uf_last_error());
        return 3;
    }
    uf_tensor_destroy(tensor);
    uf_context_destroy(context);
    return 0;
}

static void test_fault_poisons(void **state) {
    (void)state;
    assert_int_equal(run_again("fault", NULL, NULL), 0);
}

/* More than there is: a sentence, and the context goes on. */
static void test_out_of_memory(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_tensor *tensor = NULL;
    assert_error(uf_tensor_create(context, UF_F32, UF_SHAPE(INT64_C(1) << 48), &tensor),
                 UF_ERROR_OUT_OF_MEMORY, "device memory", "MiB");
    assert_null(tensor);
    const float two[2] = {1.0f, 2.0f};
    float back[2] = {0.0f, 0.0f};
    assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(2), &tensor));
    assert_ok(uf_tensor_upload(tensor, two));
    assert_ok(uf_tensor_download(tensor, back));
    assert_memory_equal(two, back, sizeof two);
    uf_tensor_destroy(tensor);
    assert_ok(uf_context_synchronize(context));
    uf_context_destroy(context);
}

static void test_device_index(void **state) {
    (void)state;
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CUDA;
    options.device_index = 4096;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT, "device_index",
                 "4096");
    assert_null(context);
}

/* `upload` may be followed at once by a change of its source, also when that is pinned. */
static void test_upload_has_read(void **state) {
    (void)state;
    enum { COUNT = 1 << 22 };
    uf_context *context = test_context(1);
    uf_tensor *tensor = NULL;
    float *host = test_shared_allocate(COUNT * sizeof *host);
    float *back = test_allocate(COUNT * sizeof *back);
    assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(COUNT), &tensor));
    for (int64_t i = 0; i < COUNT; ++i) {
        host[i] = (float)i;
    }
    assert_ok(uf_tensor_upload(tensor, host));
    memset(host, 0xff, COUNT * sizeof *host);
    assert_ok(uf_tensor_download(tensor, back));
    for (int64_t i = 0; i < COUNT; ++i) {
        assert_true(back[i] == (float)i);
    }
    free(back);
    test_shared_free(host, COUNT * sizeof *host);
    uf_tensor_destroy(tensor);
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "no-gpu") == 0) {
        return child_no_gpu();
    }
    if (argc == 2 && strcmp(argv[1], "fault") == 0) {
        return child_fault();
    }
    const struct CMUnitTest sentences[] = {cmocka_unit_test(test_sentences), cmocka_unit_test(test_images)};
    if (argc == 2 && strcmp(argv[1], "sentences") == 0) {
        return cmocka_run_group_tests(sentences, NULL, NULL);
    }
    /* Before this process touches the GPU. */
    const struct CMUnitTest apart[] = {cmocka_unit_test(test_no_visible_gpu)};
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_poisons), cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_device_index),  cmocka_unit_test(test_upload_has_read),
    };
    const int failed = cmocka_run_group_tests(apart, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL) + failed;
}
