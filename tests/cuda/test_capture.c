/* test_capture.c - calls on a stream that the caller captures become part of his graph, and
 * replaying it gives the bits of the calls themselves. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "support/random.h"

enum { N = 3, C_IN = 5, C_OUT = 4, H = 9, W = 7, OH = 18, OW = 14 };
enum { INPUT = N * C_IN * H * W, WEIGHT = C_IN * C_OUT * 16, OUTPUT = N * C_OUT * OH * OW };

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

typedef struct layer {
    uf_context *context;
    float *input, *weight, *output, *grad_weight; /* cudaMalloc of the caller's own */
    void *workspace;
    size_t workspace_size, wgrad_size;
} layer;

static uf_conv2d_args arguments(const layer *one) {
    uf_conv2d_args args = uf_conv2d_args_default();
    for (int axis = 0; axis < 2; ++axis) {
        args.params.stride[axis] = 2;
        args.params.padding[axis] = 1;
    }
    args.input = uf_view_nchw(one->input, UF_F32, N, C_IN, H, W);
    args.weight = uf_view_nchw(one->weight, UF_F32, C_IN, C_OUT, 4, 4);
    args.output = uf_view_nchw(one->output, UF_F32, N, C_OUT, OH, OW);
    args.grad_output = args.output;
    args.grad_weight = uf_view_nchw(one->grad_weight, UF_F32, C_IN, C_OUT, 4, 4);
    args.workspace = one->workspace;
    args.workspace_size = one->workspace_size;
    return args;
}

static void run(const layer *one) {
    const uf_conv2d_args args = arguments(one);
    assert_ok(uf_conv_transpose2d_forward(one->context, &args));
    assert_ok(uf_conv_transpose2d_backward_weight(one->context, &args));
}

static void fill(test_random *random, float *device, int64_t count, cudaStream_t stream) {
    float *host = test_allocate((size_t)count * sizeof *host);
    for (int64_t i = 0; i < count; ++i) {
        host[i] = (float)test_random_real(random, -1.0, 1.0);
    }
    assert_cuda(cudaMemcpyAsync(device, host, (size_t)count * sizeof *host, cudaMemcpyHostToDevice,
                                stream));
    assert_cuda(cudaStreamSynchronize(stream));
    free(host);
}

static void test_replay(void **state) {
    (void)state;
    test_random random = test_random_for("capture", 0);
    cudaStream_t stream;
    layer one;
    memset(&one, 0, sizeof one);
    assert_cuda(cudaStreamCreate(&stream));
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = stream;
    assert_ok(uf_context_create(&options, &one.context));
    assert_cuda(cudaMalloc((void **)&one.input, INPUT * sizeof(float)));
    assert_cuda(cudaMalloc((void **)&one.weight, WEIGHT * sizeof(float)));
    assert_cuda(cudaMalloc((void **)&one.output, OUTPUT * sizeof(float)));
    assert_cuda(cudaMalloc((void **)&one.grad_weight, WEIGHT * sizeof(float)));
    uf_conv2d_args args = arguments(&one);
    size_t forward = 0;
    size_t backward = 0;
    assert_ok(uf_conv_transpose2d_forward_workspace(one.context, &args, &forward));
    assert_ok(uf_conv_transpose2d_backward_weight_workspace(one.context, &args, &backward));
    one.workspace_size = forward > backward ? forward : backward;
    if (one.workspace_size > 0) {
        assert_cuda(cudaMalloc(&one.workspace, one.workspace_size));
    }
    fill(&random, one.input, INPUT, stream);
    fill(&random, one.weight, WEIGHT, stream);
    run(&one); /* whatever loads at first use is loaded outside of the capture */

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    run(&one);
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));

    static float direct[OUTPUT + WEIGHT], replayed[OUTPUT + WEIGHT];
    for (int round = 0; round < 3; ++round) {
        fill(&random, one.input, INPUT, stream); /* the graph reads what is there when it runs */
        run(&one);
        assert_cuda(
            cudaMemcpyAsync(direct, one.output, OUTPUT * sizeof(float), cudaMemcpyDefault, stream));
        assert_cuda(cudaMemcpyAsync(direct + OUTPUT, one.grad_weight, WEIGHT * sizeof(float),
                                    cudaMemcpyDefault, stream));
        assert_cuda(cudaMemsetAsync(one.output, 0xff, OUTPUT * sizeof(float), stream));
        assert_cuda(cudaMemsetAsync(one.grad_weight, 0xff, WEIGHT * sizeof(float), stream));
        assert_cuda(cudaGraphLaunch(executable, stream));
        assert_cuda(cudaMemcpyAsync(replayed, one.output, OUTPUT * sizeof(float), cudaMemcpyDefault,
                                    stream));
        assert_cuda(cudaMemcpyAsync(replayed + OUTPUT, one.grad_weight, WEIGHT * sizeof(float),
                                    cudaMemcpyDefault, stream));
        assert_cuda(cudaStreamSynchronize(stream));
        assert_memory_equal(direct, replayed, sizeof direct);
    }
    assert_cuda(cudaGraphExecDestroy(executable));
    assert_cuda(cudaGraphDestroy(graph));
    uf_context_destroy(one.context);
    /* The stream is the caller's: it must still work. */
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaFree(one.input));
    assert_cuda(cudaFree(one.weight));
    assert_cuda(cudaFree(one.output));
    assert_cuda(cudaFree(one.grad_weight));
    assert_cuda(cudaFree(one.workspace));
    assert_cuda(cudaStreamDestroy(stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replay)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
