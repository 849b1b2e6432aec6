/* test_packed_capture.c - packed weights on a stream of the caller's: a program that is replayed
 * sees each change of its weights that is announced, and a graph of the caller's that holds a run
 * sees every change, because each replay of it packs again. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/random.h"

enum { BATCH = 4, CHANNELS = 128, SIZE = 32, OUTPUT = BATCH * 2 * CHANNELS * SIZE * SIZE / 4 };

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

typedef struct fixture {
    cudaStream_t stream;
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_tensor *weight;
    test_random random;
} fixture;

/* Random numbers for a tensor, by a way that the library does not see. */
static void fill(fixture *f, uf_tensor *tensor) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    float *rounded = test_allocate((size_t)count * sizeof *rounded);
    test_random_fill(&f->random, values, count, 0.1);
    for (int64_t i = 0; i < count; ++i) {
        rounded[i] = (float)values[i];
    }
    assert_cuda(cudaMemcpyAsync(uf_tensor_data(tensor), rounded, (size_t)count * sizeof *rounded,
                                cudaMemcpyDefault, f->stream));
    assert_cuda(cudaStreamSynchronize(f->stream));
    free(values);
    free(rounded);
}

static fixture open_fixture(void) {
    fixture f;
    uf_context_options options = uf_context_options_default();
    f.random = test_random_for("packed capture", 0);
    assert_cuda(cudaStreamCreate(&f.stream));
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = f.stream;
    assert_ok(uf_context_create(&options, &f.context));
    assert_ok(uf_store_create(f.context, "weights", &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(BATCH, CHANNELS, SIZE, SIZE));
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 3;
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    conv.bias = false;
    uf_output(f.graph, "y", uf_conv2d(f.graph, x, uf_at(f.store, "conv"), 2 * CHANNELS, &conv));
    assert_ok(uf_init_default(f.graph, f.store));
    assert_ok(uf_store_tensor(f.store, "conv.weight", &f.weight));
    return f;
}

static void close_fixture(fixture *f) {
    uf_context_destroy(f->context);
    assert_cuda(cudaStreamDestroy(f->stream));
}

static uf_program *compile(fixture *f, uf_math math, bool keep) {
    uf_program_options options = uf_program_options_default();
    uf_program *program;
    options.math = math;
    options.keep_packed_weights = keep;
    assert_ok(uf_program_compile(f->graph, &options, &program));
    return program;
}

static void output_of(uf_program *program, float *to) {
    assert_ok(uf_tensor_download(uf_program_output(program, "y"), to));
}

static void check(uf_math math) {
    static float got[OUTPUT], expected[OUTPUT], before[OUTPUT];
    fixture f = open_fixture();
    uf_program *kept = compile(&f, math, true);
    uf_program *plain = compile(&f, math, false);
    fill(&f, uf_program_input(kept, "x"));
    assert_cuda(cudaMemcpy(uf_tensor_data(uf_program_input(plain, "x")),
                           uf_tensor_data(uf_program_input(kept, "x")),
                           sizeof(float) * BATCH * CHANNELS * SIZE * SIZE, cudaMemcpyDefault));
    for (int round = 0; round < 4; ++round) { /* the third replays */
        fill(&f, f.weight);
        uf_store_touch(f.store);
        assert_ok(uf_program_run(kept));
        assert_ok(uf_program_run(plain));
        output_of(kept, got);
        output_of(plain, expected);
        assert_same_bits("replayed", got, expected, sizeof got);
        assert_memory_not_equal(got, before, sizeof got);
        memcpy(before, got, sizeof got);
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_cuda(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(uf_program_run(kept));
    assert_cuda(cudaStreamEndCapture(f.stream, &graph));
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < 2; ++round) {
        fill(&f, f.weight); /* and says so to nobody */
        assert_cuda(cudaGraphLaunch(executable, f.stream));
        assert_cuda(cudaStreamSynchronize(f.stream));
        assert_ok(uf_program_run(plain)); /* packs in every run */
        output_of(kept, got);
        output_of(plain, expected);
        assert_same_bits("in the caller's graph", got, expected, sizeof got);
        assert_memory_not_equal(got, before, sizeof got);
        memcpy(before, got, sizeof got);
    }
    assert_cuda(cudaGraphExecDestroy(executable));
    assert_cuda(cudaGraphDestroy(graph));
    close_fixture(&f);
}

static void test_fp32(void **state) {
    (void)state;
    check(UF_MATH_FP32);
}

static void test_tf32(void **state) {
    (void)state;
    check(UF_MATH_TF32);
}

static void test_bf16(void **state) {
    (void)state;
    check(UF_MATH_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fp32), cmocka_unit_test(test_tf32),
                                       cmocka_unit_test(test_bf16)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
