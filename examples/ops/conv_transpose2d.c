/* conv_transpose2d.c - one transposed convolution on buffers of your own, through unfurl/ops.h. */
#include <stdio.h>
#include <stdlib.h>

#include <unfurl/unfurl.h>

enum { N = 2, C_IN = 3, C_OUT = 4, H = 5, W = 7, KERNEL = 4 };

static uf_status grow(uf_context *context) {
    static float input[N * C_IN * H * W], weight[C_IN * C_OUT * KERNEL * KERNEL], bias[C_OUT];
    for (int i = 0; i < N * C_IN * H * W; ++i) input[i] = (float)(i % 11) - 5.0f;
    for (int i = 0; i < C_IN * C_OUT * KERNEL * KERNEL; ++i) weight[i] = (float)(i % 7) - 3.0f;
    for (int i = 0; i < C_OUT; ++i) bias[i] = (float)i;

    uf_conv2d_args args = uf_conv2d_args_default();
    args.params.stride[0] = args.params.stride[1] = 2; /* ConvTranspose2d(3, 4, 4, 2, 1) */
    args.params.padding[0] = args.params.padding[1] = 1;
    const int64_t in[2] = {H, W}, kernel[2] = {KERNEL, KERNEL};
    int64_t out[2];
    UF_TRY(uf_conv_transpose2d_output_size(&args.params, in, kernel, out));

    static float output[N * C_OUT * 2 * H * 2 * W];
    args.input = uf_view_nchw(input, UF_F32, N, C_IN, H, W);
    args.weight = uf_view_nchw(weight, UF_F32, C_IN, C_OUT, KERNEL, KERNEL);
    args.bias = uf_view_nchw(bias, UF_F32, 1, C_OUT, 1, 1);
    args.output = uf_view_nchw(output, UF_F32, N, C_OUT, out[0], out[1]);
    UF_TRY(uf_conv_transpose2d_forward_workspace(context, &args, &args.workspace_size));
    args.workspace = aligned_alloc(256, (args.workspace_size + 256) / 256 * 256);
    uf_status status = uf_conv_transpose2d_forward(context, &args);
    free(args.workspace);
    UF_TRY(status);

    printf("(%d, %d, %d, %d) -> (%d, %d, %d, %d)\n", N, C_IN, H, W, N, C_OUT, (int)out[0],
           (int)out[1]);
    printf("first %g, last %g\n", (double)output[0], (double)output[N * C_OUT * 4 * H * W - 1]);
    return UF_OK;
}

int main(void) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU; /* the buffers above are host memory */
    uf_context *context;
    uf_status status = uf_context_create(&options, &context);
    if (status == UF_OK) status = grow(context);
    if (status != UF_OK) fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    uf_context_destroy(context);
    return status == UF_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
