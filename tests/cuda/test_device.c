/* test_device.c - a context on a real GPU: what it cannot have, what breaks it, and what is not its
 * own. Faults end the GPU's work for a whole process, and the environment is read once per process:
 * those tests are programs of their own, this one again with the name of the test as argument. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "core/context.h"
#include "fault.h"
#include "support/compare.h"
#include "training/gan.h"

#define assert_cuda(call)                                                                          \
    do {                                                                                           \
        const cudaError_t assert_cuda_error = (call);                                              \
        if (assert_cuda_error != cudaSuccess) {                                                    \
            fail_msg("%s: %s", #call, cudaGetErrorString(assert_cuda_error));                      \
        }                                                                                          \
    } while (0)

static uf_context_options cuda_options(void) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CUDA;
    return options;
}

/* ---- memory ---- */

/* Is the context as good as new? */
static void assert_works(uf_context *context) {
    const float sent[3] = {1.0f, -2.0f, 3.5f};
    float got[3] = {0};
    uf_tensor *tensor;
    assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(3), &tensor));
    assert_ok(uf_tensor_upload(tensor, sent));
    assert_ok(uf_tensor_download(tensor, got));
    assert_memory_equal(got, sent, sizeof sent);
    assert_ok(uf_context_synchronize(context));
    uf_tensor_destroy(tensor);
}

static void test_out_of_gpu_memory(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_tensor *tensor;
    assert_error(
        uf_tensor_create(context, UF_F32, UF_SHAPE(INT64_C(1) << 20, INT64_C(1) << 20), &tensor),
        UF_ERROR_OUT_OF_MEMORY, "out of device memory", "4398046511104 bytes");
    assert_null(tensor);
    uf_store *store;
    assert_ok(uf_store_create(context, "huge", &store));
    assert_ok(uf_store_declare(store, "weight", UF_SHAPE(INT64_C(1) << 20, INT64_C(1) << 20),
                               UF_ROLE_PARAMETER));
    assert_error(uf_store_seal(store), UF_ERROR_OUT_OF_MEMORY, "out of device memory");
    uf_store_destroy(store);
    assert_works(context);
    uf_context_destroy(context);
}

static void *give_nothing(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                          void *stream) {
    (void)size;
    (void)alignment;
    (void)stream;
    if (kind == UF_MEMORY_DEVICE) {
        ++*(int *)user;
    }
    return NULL;
}

static void take_nothing(void *user, void *pointer, size_t size, uf_memory_kind kind,
                         void *stream) {
    (void)user;
    (void)size;
    (void)kind;
    (void)stream;
    assert_null(pointer);
}

static void test_allocator_gives_nothing(void **state) {
    (void)state;
    uf_context_options options = cuda_options();
    uf_context *context;
    uf_tensor *tensor;
    int asked = 0;
    options.allocator =
        (uf_allocator){.allocate = give_nothing, .release = take_nothing, .user = &asked};
    assert_ok(uf_context_create(&options, &context));
    assert_error(uf_tensor_create(context, UF_F64, UF_SHAPE(5), &tensor), UF_ERROR_OUT_OF_MEMORY,
                 "out of device memory", "40 bytes");
    assert_null(tensor);
    assert_int_equal(asked, 1);
    assert_ok(uf_context_synchronize(context));
    uf_context_destroy(context);
}

/* ---- which GPU, which stream ---- */

static void test_device_index(void **state) {
    (void)state;
    const int32_t count = uf_device_count(UF_DEVICE_CUDA, NULL);
    uf_context_options options = cuda_options();
    uf_context *context;
    char word[64];
    options.device_index = count;
    (void)snprintf(word, sizeof word, "device_index is %d", (int)count);
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT, word,
                 "numbered from 0");
    assert_null(context);
    options.device_index = INT32_MAX;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT, "2147483647");
    options.device_index = count - 1;
    assert_ok(uf_context_create(&options, &context));
    assert_int_equal(uf_context_device(context), UF_DEVICE_CUDA);
    assert_non_null(strstr(uf_context_description(context), "(CUDA)"));
    assert_works(context);
    uf_context_destroy(context);
    options = uf_context_options_default(); /* auto finds it */
    assert_ok(uf_context_create(&options, &context));
    assert_int_equal(uf_context_device(context), UF_DEVICE_CUDA);
    uf_context_destroy(context);
}

static void test_borrowed_stream(void **state) {
    (void)state;
    uf_context_options options = cuda_options();
    cudaStream_t stream;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    options.cuda_stream = stream;
    for (int round = 0; round < 2; ++round) {
        /* The caller's copies and the library's are queued one after the other on it. */
        const float sent[2] = {7.0f, -8.0f}, other[2] = {0.5f, 0.25f};
        float got[2] = {0};
        uf_context *context;
        uf_tensor *tensor;
        assert_ok(uf_context_create(&options, &context));
        assert_ptr_equal(context->stream, stream);
        assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(2), &tensor));
        assert_ok(uf_tensor_upload(tensor, other));
        assert_cuda(cudaMemcpyAsync(uf_tensor_data(tensor), sent, sizeof sent,
                                    cudaMemcpyHostToDevice, stream));
        assert_ok(uf_tensor_download(tensor, got));
        assert_memory_equal(got, sent, sizeof sent);
        uf_tensor_destroy(tensor);
        uf_context_destroy(context);
        /* Still the caller's. */
        assert_cuda(cudaStreamQuery(stream));
    }
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaStreamDestroy(stream));
}

/* ---- two contexts in two threads ---- */

enum { STEPS = 12 };

typedef struct worker {
    gan one;
    unsigned char *bytes;
    size_t size;
} worker;

/* Compiles, trains (recording its graph while the other one allocates) and takes all down again. */
static void *train(void *user) {
    worker *mine = user;
    mine->one = gan_open(1, UF_F32, UF_PLAN_REUSE);
    for (int64_t step = 0; step < STEPS; ++step) {
        gan_step(&mine->one, step);
    }
    mine->bytes = gan_contents(&mine->one, &mine->size);
    gan_close(&mine->one);
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    worker alone, both[2];
    (void)train(&alone);
    for (int round = 0; round < 3; ++round) {
        pthread_t threads[2];
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(pthread_create(&threads[i], NULL, train, &both[i]), 0);
        }
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(both[i].size, alone.size);
            assert_same_bits("a thread beside another", both[i].bytes, alone.bytes,
                             (int64_t)alone.size);
            free(both[i].bytes);
        }
    }
    free(alone.bytes);
}

/* ---- in a process of its own ---- */

/* Once the context is poisoned every call says so, in the same words. */
static void assert_poisoned(const gan *one, uf_tensor *tensor, const char *message) {
    float data[16] = {0};
    double losses[3];
    int64_t step;
    bool finite;
    uf_tensor *made;
    uf_store *store;
    uf_program *program;
    assert_error(uf_context_synchronize(one->context), UF_ERROR_DEVICE, message);
    assert_error(uf_tensor_create(one->context, UF_F32, UF_SHAPE(2), &made), UF_ERROR_DEVICE,
                 message);
    assert_null(made);
    assert_error(uf_tensor_upload(tensor, data), UF_ERROR_DEVICE, message);
    assert_error(uf_tensor_download(tensor, data), UF_ERROR_DEVICE, message);
    assert_error(uf_tensor_upload_as(tensor, UF_F32, data, 2), UF_ERROR_DEVICE, message);
    assert_error(uf_program_run(one->program), UF_ERROR_DEVICE, message);
    assert_error(uf_program_losses(one->program, losses, 3, &step, &finite), UF_ERROR_DEVICE,
                 message);
    assert_error(uf_program_compile(one->graph, NULL, &program), UF_ERROR_DEVICE, message);
    assert_error(uf_optimizer_set_learning_rate(one->g_adam, 0.5), UF_ERROR_DEVICE, message);
    assert_error(uf_optimizer_step(one->g_adam), UF_ERROR_DEVICE, message);
    assert_error(uf_init_dcgan(one->graph, one->g), UF_ERROR_DEVICE, message);
    assert_ok(uf_store_create(one->context, "late", &store)); /* host memory alone */
    assert_ok(uf_store_declare(store, "weight", UF_SHAPE(3), UF_ROLE_PARAMETER));
    assert_error(uf_store_seal(store), UF_ERROR_DEVICE, message);
    uf_store_destroy(store);
    uf_activation_args args = uf_activation_args_default();
    args.input = args.output = uf_view_nchw(uf_tensor_data(tensor), UF_F32, 1, 1, 1, 2);
    assert_error(uf_activation_forward(one->context, &args), UF_ERROR_DEVICE, message);
    assert_error(uf_context_synchronize(one->context), UF_ERROR_DEVICE, message);
}

/* A fault of somebody's kernel on the context's stream, in the middle of training. */
static void poison(cudaError_t (*fault)(cudaStream_t stream), bool borrowed, const char *word) {
    uf_context_options options = cuda_options();
    uf_context *context;
    uf_tensor *tensor;
    cudaStream_t stream = NULL;
    char message[UF_MESSAGE_SIZE];
    if (borrowed) {
        assert_cuda(cudaStreamCreate(&stream));
        options.cuda_stream = stream;
    }
    assert_ok(uf_context_create(&options, &context));
    gan one = gan_open_on(context, UF_F32, UF_PLAN_REUSE, true);
    assert_ok(uf_tensor_create(context, UF_F32, UF_SHAPE(2), &tensor));
    for (int64_t step = 0; step < 4; ++step) {
        gan_step(&one, step);
    }
    assert_ok(uf_context_synchronize(context));
    assert_cuda(fault(context->stream));
    assert_error(uf_context_synchronize(context), UF_ERROR_DEVICE, "the GPU failed", word,
                 "unusable");
    (void)snprintf(message, sizeof message, "%s", uf_last_error());
    assert_poisoned(&one, tensor, message);
    uf_tensor_destroy(tensor);
    gan_close(&one);
    /* A borrowed stream is the caller's to destroy, even now. */
    if (borrowed) {
        (void)cudaStreamDestroy(stream);
    }
}

static void child_bad_address(void **state) {
    (void)state;
    poison(fault_bad_address, false, "cudaErrorIllegalAddress");
}

static void child_trap(void **state) {
    (void)state;
    poison(fault_trap, true, "cudaError");
}

/* Nobody synchronises: a later call notices. */
static void child_unnoticed(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    /* Not as a recorded graph: driver 580.159.04 dies of a segmentation fault inside cuGraphLaunch
     * when a fault reaches the GPU while launches are being queued, before any call has reported
     * it. */
    gan one = gan_open_on(context, UF_F32, UF_PLAN_REUSE, false);
    uf_status status = UF_OK;
    for (int64_t step = 0; step < 3; ++step) {
        gan_step(&one, step);
    }
    assert_cuda(fault_bad_address(context->stream));
    for (int i = 0; i < 1000000 && status == UF_OK; ++i) {
        status = uf_program_run(one.program);
    }
    assert_int_equal(status, UF_ERROR_DEVICE);
    assert_non_null(strstr(uf_last_error(), "the GPU failed"));
    assert_error(uf_context_synchronize(context), UF_ERROR_DEVICE, "the GPU failed");
    gan_close(&one);
}

/* With CUDA_VISIBLE_DEVICES empty. */
static void child_no_visible_gpu(void **state) {
    (void)state;
    const char *reason = NULL;
    uf_context_options options = cuda_options();
    uf_context *context;
    assert_int_equal(uf_device_count(UF_DEVICE_CUDA, &reason), 0);
    assert_non_null(strstr(reason, "shows no GPU"));
    assert_error(uf_context_create(&options, &context), UF_ERROR_UNSUPPORTED, reason,
                 "CUDA_VISIBLE_DEVICES");
    assert_null(context);
    options.device = UF_DEVICE_AUTO;
    assert_ok(uf_context_create(&options, &context));
    assert_int_equal(uf_context_device(context), UF_DEVICE_CPU);
    assert_works(context);
    uf_context_destroy(context);
}

static const struct {
    const char *name;
    void (*test)(void **state);
} children[] = {
    {"bad_address", child_bad_address},
    {"trap", child_trap},
    {"unnoticed", child_unnoticed},
    {"no_visible_gpu", child_no_visible_gpu},
};

static int run_named(const char *name) {
    for (int64_t i = 0; i < COUNT_OF(children); ++i) {
        if (strcmp(children[i].name, name) == 0) {
            const struct CMUnitTest tests[] = {{name, children[i].test, NULL, NULL, NULL}};
            return cmocka_run_group_tests(tests, NULL, NULL);
        }
    }
    fprintf(stderr, "no test is called %s\n", name);
    return 2;
}

/* This program again; only exec makes a process whose CUDA is new. */
static void run_child(const char *name, bool hide_gpus) {
    char self[] = "/proc/self/exe";
    char *argument = strdup(name);
    char *const arguments[] = {self, argument, NULL};
    int status = -1;
    assert_non_null(argument);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (hide_gpus) {
            (void)setenv("CUDA_VISIBLE_DEVICES", "", 1);
        }
        (void)execv(self, arguments);
        _exit(127);
    }
    free(argument);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the process of %s %s %d", name, WIFEXITED(status) ? "returned" : "died of signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

static void test_bad_address(void **state) {
    (void)state;
    run_child("bad_address", false);
}

static void test_trap(void **state) {
    (void)state;
    run_child("trap", false);
}

static void test_unnoticed_fault(void **state) {
    (void)state;
    run_child("unnoticed", false);
}

static void test_no_visible_gpu(void **state) {
    (void)state;
    run_child("no_visible_gpu", true);
}

int main(int argc, char **argv) {
    if (argc == 2) {
        return run_named(argv[1]);
    }
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_gpu_memory), cmocka_unit_test(test_allocator_gives_nothing),
        cmocka_unit_test(test_device_index),      cmocka_unit_test(test_borrowed_stream),
        cmocka_unit_test(test_two_threads),       cmocka_unit_test(test_no_visible_gpu),
        cmocka_unit_test(test_bad_address),       cmocka_unit_test(test_trap),
        cmocka_unit_test(test_unnoticed_fault),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
