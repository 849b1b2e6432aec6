/* test_steps.c - fifty training steps on a GPU give the same bits in every run: replayed as a CUDA
 * graph or step by step, with the memory nearly full, and inside a capture of the caller's. CPU and
 * GPU start from the same weights. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "support/compare.h"
#include "training/gan.h"

enum { STEPS = 50 };

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

static uf_context *gpu_context(cudaStream_t stream) {
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = stream;
    options.seed = 11;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

/* The weights after STEPS steps. */
static unsigned char *train(bool capture, size_t *size) {
    gan one = gan_open_on(gpu_context(NULL), UF_F32, UF_PLAN_REUSE, capture);
    for (int64_t step = 0; step < STEPS; ++step) {
        gan_step(&one, step);
    }
    unsigned char *bytes = gan_contents(&one, size);
    gan_close(&one);
    return bytes;
}

/* The same with the steps queued into a graph of the caller's, which is launched once per step. */
static unsigned char *train_in_capture(size_t *size) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_cuda(cudaStreamCreate(&stream));
    gan one = gan_open_on(gpu_context(stream), UF_F32, UF_PLAN_REUSE, true);
    gan_step(&one, 0); /* loads what is loaded at first use */
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(uf_program_run(one.program));
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    for (int64_t step = 1; step < STEPS; ++step) {
        gan_feed(&one, step);
        assert_cuda(cudaGraphLaunch(executable, stream));
        assert_cuda(cudaStreamSynchronize(stream));
    }
    unsigned char *bytes = gan_contents(&one, size);
    assert_cuda(cudaGraphExecDestroy(executable));
    assert_cuda(cudaGraphDestroy(graph));
    gan_close(&one);
    assert_cuda(cudaStreamDestroy(stream));
    return bytes;
}

static void test_same_bits(void **state) {
    (void)state;
    size_t size, other;
    unsigned char *expected = train(true, &size);
    unsigned char *again = train(true, &other);
    assert_same_bits("a second run", again, expected, (int64_t)size);
    unsigned char *plain = train(false, &other);
    assert_same_bits("without a recorded graph", plain, expected, (int64_t)size);
    unsigned char *captured = train_in_capture(&other);
    assert_same_bits("in the caller's capture", captured, expected, (int64_t)size);

    size_t free_bytes, total;
    void *hoard;
    assert_cuda(cudaMemGetInfo(&free_bytes, &total));
    const size_t left = (size_t)2 << 30;
    assert_true(free_bytes > 2 * left);
    assert_cuda(cudaMalloc(&hoard, free_bytes - left));
    unsigned char *crowded = train(true, &other);
    assert_cuda(cudaFree(hoard));
    assert_same_bits("with little free memory", crowded, expected, (int64_t)size);
    free(expected);
    free(again);
    free(plain);
    free(captured);
    free(crowded);
}

/* A changed learning rate must reach steps that are only replayed. */
static void test_learning_rate(void **state) {
    (void)state;
    size_t size, other;
    gan one = gan_open_on(gpu_context(NULL), UF_F32, UF_PLAN_REUSE, true);
    for (int64_t step = 0; step < 3; ++step) {
        gan_step(&one, step);
    }
    unsigned char *before = gan_contents(&one, &size);
    assert_ok(uf_optimizer_set_learning_rate(one.g_adam, 0.0));
    assert_ok(uf_optimizer_set_learning_rate(one.d_adam, 0.0));
    gan_step(&one, 3);
    unsigned char *frozen = gan_contents(&one, &other);
    assert_ok(uf_optimizer_set_learning_rate(one.g_adam, 0.01));
    gan_step(&one, 4);
    unsigned char *moved = gan_contents(&one, &other);
    assert_memory_not_equal(moved, frozen, size);
    /* Only running statistics may differ between `before` and `frozen`: parameters come first in a
     * store. */
    uf_tensor *weight;
    assert_ok(uf_store_tensor(one.g, "main.0.weight", &weight));
    assert_memory_equal(frozen, before, (size_t)uf_tensor_count(weight) * sizeof(float));
    free(before);
    free(frozen);
    free(moved);
    gan_close(&one);
}

/* One store per device from the same seed, every kind of draw: the same bytes. */
static void test_same_start(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 3, 65537, 3000001};
    static const uint64_t seeds[] = {0, 42, UINT64_C(0x123456789abcdef)};
    for (int64_t seed = 0; seed < COUNT_OF(seeds); ++seed) {
        for (int type = 0; type < 2; ++type) {
            for (int64_t c = 0; c < COUNT_OF(counts); ++c) {
                unsigned char *bytes[2] = {NULL, NULL};
                size_t size = 0;
                for (int device = 0; device < 2; ++device) {
                    uf_context_options options = uf_context_options_default();
                    uf_store_options store_options = uf_store_options_default();
                    uf_context *context;
                    uf_store *store;
                    options.device = device == 0 ? UF_DEVICE_CPU : UF_DEVICE_CUDA;
                    options.seed = seeds[seed];
                    store_options.dtype = type == 0 ? UF_F32 : UF_F64;
                    assert_ok(uf_context_create(&options, &context));
                    assert_ok(uf_store_create_with(context, "start", &store_options, &store));
                    static const char *const names[] = {"uniform", "normal", "kaiming_uniform",
                                                        "kaiming_normal"};
                    for (int i = 0; i < 4; ++i) {
                        assert_ok(uf_store_declare(store, names[i], UF_SHAPE(counts[c], 1),
                                                   UF_ROLE_PARAMETER));
                    }
                    assert_ok(uf_init_uniform(store, names[0], -0.3, 0.7));
                    assert_ok(uf_init_normal(store, names[1], 0.1, 0.02));
                    assert_ok(uf_init_kaiming_uniform(store, names[2], NULL));
                    assert_ok(uf_init_kaiming_normal(store, names[3], NULL));
                    const size_t each = (size_t)counts[c] * uf_dtype_size(store_options.dtype);
                    size = 4 * each;
                    bytes[device] = test_allocate(size);
                    for (int i = 0; i < 4; ++i) {
                        uf_tensor *tensor;
                        assert_ok(uf_store_tensor(store, names[i], &tensor));
                        assert_ok(uf_tensor_download(tensor, bytes[device] + (size_t)i * each));
                    }
                    uf_store_destroy(store);
                    uf_context_destroy(context);
                }
                assert_same_bits("first weights", bytes[1], bytes[0], (int64_t)size);
                free(bytes[0]);
                free(bytes[1]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_same_start),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
