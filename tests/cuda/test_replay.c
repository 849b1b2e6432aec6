/* test_replay.c - a recorded training step: is there a recording, and does it do what the steps
 * themselves do? In f64, in every mode of a capture of the caller's, with weights set anew, with
 * its losses read on the way. The argument: all, or few, which is three steps for
 * compute-sanitizer. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "graph/program.h"
#include "kernels/kernels.h"
#include "support/compare.h"
#include "training/gan.h"

enum { STEPS = 50 };

#define assert_cuda(call)                                                                          \
    do {                                                                                           \
        const cudaError_t assert_cuda_error = (call);                                              \
        if (assert_cuda_error != cudaSuccess) {                                                    \
            fail_msg("%s: %s", #call, cudaGetErrorString(assert_cuda_error));                      \
        }                                                                                          \
    } while (0)

typedef struct bits {
    unsigned char *bytes;
    size_t size;
} bits;

static bits take(const gan *one) {
    bits taken;
    taken.bytes = gan_contents(one, &taken.size);
    return taken;
}

/* Closes the GAN and fails the test unless its stores hold exactly `expected`. */
static void finish(const char *label, gan *one, const bits *expected) {
    const bits got = take(one);
    gan_close(one);
    assert_int_equal(got.size, expected->size);
    assert_same_bits(label, got.bytes, expected->bytes, (int64_t)expected->size);
    free(got.bytes);
}

static gan open(uf_dtype dtype, bool capture) {
    return gan_open_on(test_context(1), dtype, UF_PLAN_REUSE, capture);
}

static void run(gan *one, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
        gan_step(one, step);
    }
}

/* What `steps` steps give, each queued kernel by kernel. */
static bits expected_after(uf_dtype dtype, int64_t steps) {
    gan one = open(dtype, false);
    run(&one, 0, steps);
    assert_null(one.program->recording);
    const bits taken = take(&one);
    gan_close(&one);
    return taken;
}

static void check_rerun_and_capture(uf_dtype dtype, int64_t steps) {
    bits expected = expected_after(dtype, steps);
    gan one = open(dtype, false);
    run(&one, 0, steps);
    finish("a second run", &one, &expected);
    for (int round = 0; round < 2; ++round) {
        one = open(dtype, true);
        run(&one, 0, 1);
        assert_null(one.program->recording);
        run(&one, 1, steps);
        assert_non_null(one.program->recording); /* it was replayed, then, in all later steps */
        finish("recorded", &one, &expected);
    }
    /* The comparison can fail: a step less gives other bits. */
    bits fewer = expected_after(dtype, steps - 1);
    assert_int_equal(fewer.size, expected.size);
    assert_memory_not_equal(fewer.bytes, expected.bytes, expected.size);
    free(fewer.bytes);
    free(expected.bytes);
}

static void test_small(void **state) {
    (void)state;
    check_rerun_and_capture(UF_F32, 3);
}

static void test_f64(void **state) {
    (void)state;
    check_rerun_and_capture(UF_F64, STEPS);
}

/* ---- inside the caller's capture ---- */

static gan open_borrowing(cudaStream_t stream, bool capture) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = stream;
    assert_ok(uf_context_create(&options, &context));
    return gan_open_on(context, UF_F32, UF_PLAN_REUSE, capture);
}

/* `warm` steps of the library's own, then a graph of the caller's with one run in it for the
 * others. */
static void check_users_capture(enum cudaStreamCaptureMode mode, bool capture, int64_t warm,
                                int64_t steps, const bits *expected) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    size_t nodes = 0;
    int64_t step;
    bool finite;
    double losses[3];
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    gan one = open_borrowing(stream, capture);
    run(&one, 0, warm);
    void *const recording = one.program->recording;
    assert_int_equal(recording != NULL, capture && warm > 1);
    assert_cuda(cudaStreamBeginCapture(stream, mode));
    assert_ok(uf_program_run(one.program));
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_ptr_equal(one.program->recording,
                     recording); /* it recorded nothing of its own in there */
    assert_cuda(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_true(nodes > 20);
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    for (int64_t i = warm; i < steps; ++i) {
        gan_feed(&one, i);
        assert_cuda(cudaGraphLaunch(executable, stream));
    }
    assert_ok(uf_context_synchronize(one.context));
    assert_ok(uf_program_losses(one.program, losses, 3, &step, &finite));
    assert_int_equal(step, steps); /* the capture itself ran nothing */
    assert_true(finite);
    /* And the library's own way again, after it. */
    run(&one, steps, steps + 2);
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaGraphExecDestroy(executable));
    assert_cuda(cudaGraphDestroy(graph));
    finish("in the caller's graph", &one, expected);
    assert_cuda(cudaStreamDestroy(stream));
}

static void test_users_capture(void **state) {
    (void)state;
    const int64_t steps = 8;
    bits expected = expected_after(UF_F32, steps + 2);
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    for (int64_t m = 0; m < COUNT_OF(modes); ++m) {
        check_users_capture(modes[m], true, 1, steps, &expected);
        check_users_capture(modes[m], true, 3, steps, &expected);
        check_users_capture(modes[m], false, 1, steps, &expected);
    }
    free(expected.bytes);
}

/* ---- what may change between replays ---- */

/* Stores whose addresses stay while their contents are set anew: a replay reads what is there now.
 */
static void test_weights_change(void **state) {
    (void)state;
    bits results[2];
    for (int capture = 0; capture < 2; ++capture) {
        gan one = open(UF_F32, capture != 0);
        run(&one, 0, 4);
        assert_ok(uf_init_dcgan(one.graph, one.g));
        run(&one, 4, 6);
        results[capture] = take(&one);
        gan_close(&one);
    }
    bits expected = expected_after(UF_F32, 6);
    assert_same_bits("new weights", results[1].bytes, results[0].bytes, (int64_t)results[0].size);
    assert_memory_not_equal(results[1].bytes, expected.bytes, expected.size);
    free(results[0].bytes);
    free(results[1].bytes);
    free(expected.bytes);
}

/* ---- losses ---- */

enum { LONG = UF_LOSS_RING + 10 };

static void test_losses(void **state) {
    (void)state;
    double seen[2][LONG][3];
    for (int capture = 0; capture < 2; ++capture) {
        gan one = open(UF_F32, capture != 0);
        int64_t step = -1;
        bool finite = true;
        double losses[3] = {-1.0, -1.0, -1.0};
        assert_ok(uf_program_losses(one.program, losses, 3, &step, &finite));
        assert_int_equal(step, 0);
        assert_true(losses[0] < 0.0 && losses[2] < 0.0); /* nothing there, nothing written */
        for (int64_t i = 0; i < LONG; ++i) {
            gan_step(&one, i);
            assert_ok(uf_context_synchronize(one.context));
            assert_ok(uf_program_losses(one.program, seen[capture][i], 3, &step, &finite));
            assert_int_equal(step, i + 1);
            assert_true(finite);
            assert_true(isfinite(seen[capture][i][0]) && seen[capture][i][0] > 0.0);
        }
        assert_memory_not_equal(seen[capture][LONG - 1], seen[capture][LONG - 2],
                                sizeof seen[0][0]);
        gan_close(&one);
    }
    assert_same_bits("losses, recorded and not", seen[1], seen[0], (int64_t)sizeof seen[0]);
    /* Reading while steps are under way: never one that is not queued yet, never backwards, never
     * half of one. */
    gan one = open(UF_F32, true);
    int64_t newest = 0;
    for (int64_t i = 0; i < LONG; ++i) {
        int64_t step = -1;
        bool finite = false;
        double losses[3] = {0};
        gan_step(&one, i);
        assert_ok(uf_program_losses(one.program, losses, 3, &step, &finite));
        assert_true(step >= newest && step <= i + 1);
        newest = step;
        if (step > 0) {
            assert_true(finite);
            assert_same_bits("a loss on the way", losses, seen[0][step - 1], sizeof losses);
        }
    }
    gan_close(&one);
}

static void test_not_finite(void **state) {
    (void)state;
    gan one = open(UF_F32, true);
    run(&one, 0, 4);
    uf_tensor *input = uf_program_input(one.program, "real");
    double values[GAN_BATCH * GAN_SIZE * GAN_SIZE] = {0};
    double losses[3];
    int64_t step;
    bool finite = true;
    values[17] = (double)NAN;
    assert_ok(uf_tensor_upload_as(input, UF_F64, values, uf_tensor_count(input)));
    assert_ok(uf_program_run(one.program));
    assert_ok(uf_context_synchronize(one.context));
    assert_ok(uf_program_losses(one.program, losses, 3, &step, &finite));
    assert_int_equal(step, 5);
    assert_false(finite);
    assert_true(isnan(losses[0]));
    gan_close(&one);
}

int main(int argc, char **argv) {
    const bool few = argc == 2 && strcmp(argv[1], "few") == 0;
    if (!few && !(argc == 2 && strcmp(argv[1], "all") == 0)) {
        fprintf(stderr, "usage: test_replay all|few\n");
        return 2;
    }
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    const struct CMUnitTest small_tests[] = {cmocka_unit_test(test_small)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_users_capture),
        cmocka_unit_test(test_weights_change),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_not_finite),
    };
    return few ? cmocka_run_group_tests(small_tests, NULL, NULL)
               : cmocka_run_group_tests(tests, NULL, NULL);
}
