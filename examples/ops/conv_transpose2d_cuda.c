/* conv_transpose2d_cuda.c - the same transposed convolution on GPU memory and a stream of your
 * own. */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <unfurl/unfurl.h>

enum { N = 2, C_IN = 3, C_OUT = 4, H = 5, W = 7, KERNEL = 4 };
enum {
    INPUT = N * C_IN * H * W,
    WEIGHT = C_IN * C_OUT * KERNEL * KERNEL,
    OUTPUT = N * C_OUT * 4 * H * W
};

static float input[INPUT], weight[WEIGHT], bias[C_OUT], output[OUTPUT];

static uf_status grow(uf_context *context, cudaStream_t stream, float *device, void **workspace) {
    for (int i = 0; i < INPUT; ++i) input[i] = (float)(i % 11) - 5.0f;
    for (int i = 0; i < WEIGHT; ++i) weight[i] = (float)(i % 7) - 3.0f;
    for (int i = 0; i < C_OUT; ++i) bias[i] = (float)i;
    float *const at_weight = device + INPUT, *const at_bias = at_weight + WEIGHT;
    float *const at_output = at_bias + C_OUT;
    cudaMemcpyAsync(device, input, sizeof input, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(at_weight, weight, sizeof weight, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(at_bias, bias, sizeof bias, cudaMemcpyHostToDevice, stream);

    uf_conv2d_args args = uf_conv2d_args_default();
    args.params.stride[0] = args.params.stride[1] = 2; /* ConvTranspose2d(3, 4, 4, 2, 1) */
    args.params.padding[0] = args.params.padding[1] = 1;
    args.input = uf_view_nchw(device, UF_F32, N, C_IN, H, W);
    args.weight = uf_view_nchw(at_weight, UF_F32, C_IN, C_OUT, KERNEL, KERNEL);
    args.bias = uf_view_nchw(at_bias, UF_F32, 1, C_OUT, 1, 1);
    args.output = uf_view_nchw(at_output, UF_F32, N, C_OUT, 2 * H, 2 * W);
    UF_TRY(uf_conv_transpose2d_forward_workspace(context, &args, &args.workspace_size));
    if (args.workspace_size > 0) cudaMalloc(workspace, args.workspace_size);
    args.workspace = *workspace;
    UF_TRY(uf_conv_transpose2d_forward(context, &args)); /* queued on `stream` between the copies */

    cudaMemcpyAsync(output, at_output, sizeof output, cudaMemcpyDeviceToHost, stream);
    UF_TRY(uf_context_synchronize(context));
    printf("(%d, %d, %d, %d) -> (%d, %d, %d, %d)\n", N, C_IN, H, W, N, C_OUT, 2 * H, 2 * W);
    printf("first %g, last %g\n", (double)output[0], (double)output[OUTPUT - 1]);
    return UF_OK;
}

int main(void) {
    const char *reason;
    if (uf_device_count(UF_DEVICE_CUDA, &reason) < 1)
        return fprintf(stderr, "skipped: %s\n", reason), 77;
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    cudaStream_t stream;
    float *device;
    void *workspace = NULL;
    if (cudaStreamCreate(&stream) != cudaSuccess) return EXIT_FAILURE;
    const size_t size = (INPUT + WEIGHT + C_OUT + OUTPUT) * sizeof(float);
    if (cudaMalloc((void **)&device, size) != cudaSuccess) return EXIT_FAILURE;
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = stream; /* borrowed: it stays ours */
    uf_status status = uf_context_create(&options, &context);
    if (status == UF_OK) status = grow(context, stream, device, &workspace);
    if (status != UF_OK) fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    uf_context_destroy(context);
    cudaFree(workspace);
    cudaFree(device);
    cudaStreamDestroy(stream);
    return status == UF_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
