/* test_ops_errors.c - what ops.h says about every mistake: the status, and a message with the
 * numbers. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "support/random.h"

/* Memory that every view here points to; calls that fail must not touch it. */
static double memory[4096];
static const double untouched = 12345.0;

static int set_up(void **state) {
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; ++i) {
        memory[i] = untouched;
    }
    *state = test_context(1);
    return 0;
}

static int tear_down(void **state) {
    bool same = true;
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; ++i) {
        same = same && memory[i] == untouched;
    }
    uf_context_destroy(*state);
    return same ? 0 : -1;
}

static uf_view view(int64_t n, int64_t c, int64_t h, int64_t w) {
    return uf_view_nchw(memory, UF_F64, n, c, h, w);
}

/* A legal conv_transpose2d: (2, 6, 4, 5) by (6, 4, 3, 3), stride 2, padding 1 to (2, 4, 7, 9). */
static uf_conv2d_args transposed(void) {
    uf_conv2d_args args = uf_conv2d_args_default();
    args.params.stride[0] = args.params.stride[1] = 2;
    args.params.padding[0] = args.params.padding[1] = 1;
    args.input = view(2, 6, 4, 5);
    args.weight = view(6, 4, 3, 3);
    args.output = view(2, 4, 7, 9);
    return args;
}

/* A legal conv2d: (2, 6, 8, 9) by (4, 6, 3, 3), stride 2, padding 1 to (2, 4, 4, 5). */
static uf_conv2d_args direct(void) {
    uf_conv2d_args args = transposed();
    args.input = view(2, 6, 8, 9);
    args.weight = view(4, 6, 3, 3);
    args.output = view(2, 4, 4, 5);
    return args;
}

/* Both the call and its workspace query refuse, with the same words. */
#define assert_transposed_error(context, args, status, ...)                                        \
    do {                                                                                           \
        size_t size_ = 77;                                                                         \
        assert_error(uf_conv_transpose2d_forward_workspace(context, args, &size_), status,         \
                     __VA_ARGS__);                                                                 \
        assert_int_equal(size_, 0);                                                                \
        assert_error(uf_conv_transpose2d_forward(context, args), status, __VA_ARGS__);             \
    } while (0)

#define assert_direct_error(context, args, status, ...)                                            \
    do {                                                                                           \
        size_t size_ = 77;                                                                         \
        assert_error(uf_conv2d_forward_workspace(context, args, &size_), status, __VA_ARGS__);     \
        assert_int_equal(size_, 0);                                                                \
        assert_error(uf_conv2d_forward(context, args), status, __VA_ARGS__);                       \
    } while (0)

/* The fixtures are legal: else the tests below would pass for the wrong reason. */
static void test_fixtures(void **state) {
    size_t size = 0;
    uf_conv2d_args args = transposed();
    assert_ok(uf_conv_transpose2d_forward_workspace(*state, &args, &size));
    args = direct();
    assert_ok(uf_conv2d_forward_workspace(*state, &args, &size));
}

static void test_parameters(void **state) {
    for (int axis = 0; axis < 2; ++axis) {
        uf_conv2d_args args = transposed();
        args.weight.extent[2 + axis] = 0;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "kernel", "0",
                                "1 or more");
        args = direct();
        args.weight.extent[2 + axis] = 0;
        assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "kernel", "0", "1 or more");
        args = transposed();
        args.params.stride[axis] = 0;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride", "0",
                                "1 or more");
        args = direct();
        args.params.stride[axis] = -3;
        assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride", "-3", "1 or more");
        args = transposed();
        args.params.padding[axis] = -1;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "padding", "-1",
                                "0 or more");
        args = transposed();
        args.params.dilation[axis] = 0;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "dilation", "0",
                                "1 or more");
        args = transposed();
        args.params.output_padding[axis] = -1;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "output_padding", "-1",
                                "0 or more");
        args = direct();
        args.params.output_padding[axis] = 1;
        assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "output_padding", "1",
                            "only conv_transpose2d");
        /* The limit is max(stride, dilation): 2 is too much, with dilation 3 it is not. */
        args = transposed();
        args.params.output_padding[axis] = 2;
        assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "output_padding", "2",
                                "stride", "dilation");
        args.params.dilation[axis] = 3;
        args.output.extent[2 + axis] += 2 + 2 * 2;
        size_t size = 0;
        assert_ok(uf_conv_transpose2d_forward_workspace(
            *state,
            &(uf_conv2d_args){.struct_size = args.struct_size,
                              .params = args.params,
                              .input = args.input,
                              .weight = args.weight,
                              .output = uf_view_nchw(memory, UF_F64, 2, 4, args.output.extent[2],
                                                     args.output.extent[3])},
            &size));
    }
    uf_conv2d_args args = transposed();
    args.params.groups = 0;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "groups", "0", "1 or more");
}

static void test_channels(void **state) {
    uf_conv2d_args args = transposed();
    args.params.groups = 4;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "6 channels", "divisible",
                            "groups 4");
    args = direct();
    args.params.groups = 4;
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "6 channels", "divisible",
                        "groups 4");
    args = direct();
    args.params.groups = 3;
    args.weight = view(4, 2, 3, 3);
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "4 output channels", "divisible",
                        "groups 3");
    args = transposed();
    args.weight = view(5, 4, 3, 3);
    assert_transposed_error(*state, &args, UF_ERROR_SHAPE, "weight is (5, 4, 3, 3)", "6 channels");
    args = direct();
    args.weight = view(4, 5, 3, 3);
    assert_direct_error(*state, &args, UF_ERROR_SHAPE, "weight is (4, 5, 3, 3)", "6 channels");
}

static void test_output_shape(void **state) {
    uf_conv2d_args args = transposed();
    args.output = view(2, 4, 7, 8);
    assert_transposed_error(*state, &args, UF_ERROR_SHAPE, "output is (2, 4, 7, 8)",
                            "(2, 4, 7, 9)");
    args = transposed();
    args.output = view(1, 4, 7, 9);
    assert_transposed_error(*state, &args, UF_ERROR_SHAPE, "output is (1, 4, 7, 9)",
                            "(2, 4, 7, 9)");
    args = direct();
    args.output = view(2, 5, 4, 5);
    assert_direct_error(*state, &args, UF_ERROR_SHAPE, "output is (2, 5, 4, 5)", "(2, 4, 4, 5)");
    args = transposed();
    args.params.padding[0] = 5; /* (4 - 1)*2 - 10 + 2 + 1 = -1 */
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "(4, 5)", "(-1, 9)",
                            "too small");
    args = direct();
    args.weight = view(4, 6, 11, 3);
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "(11, 3)", "(10, 11)",
                        "can't be greater");
}

static void test_overflow(void **state) {
    const int64_t huge = INT64_C(1) << 62;
    uf_conv2d_args args = transposed();
    args.params.stride[0] = huge;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride", "overflow");
    args = transposed();
    args.params.padding[1] = huge;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "padding", "overflow");
    args = transposed();
    args.params.dilation[0] = INT64_MAX;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "dilation", "overflow");
    args = transposed();
    args.params.dilation[0] = INT64_C(1) << 57;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "dilation", "overflow");
    args = transposed();
    args.params.stride[0] = INT64_C(1) << 57;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "overflow");
    args = transposed();
    args.params.groups = INT64_MAX;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "divisible");
    /* The product of extents that are legal one by one. */
    args = direct();
    args.params = uf_conv2d_params_default();
    args.input = view(INT64_C(1) << 31, 6, INT64_C(1) << 20, INT64_C(1) << 20);
    args.weight = view(4, 6, 1, 1);
    args.output = view(INT64_C(1) << 31, 4, INT64_C(1) << 20, INT64_C(1) << 20);
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "can be addressed");
    args = transposed();
    args.input.stride[0] = INT64_MAX;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "can be addressed");
    args = transposed();
    args.bias = view(1, 4, 1, 1);
    args.bias.stride[1] = huge;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride 1",
                            "can be addressed");
    args = transposed();
    args.grad_weight = view(6, 4, 3, 3);
    args.grad_output = view(2, 4, 7, 9);
    args.grad_bias = view(1, 4, 1, 1);
    args.grad_bias.stride[1] = huge;
    assert_error(uf_conv_transpose2d_backward_weight(*state, &args), UF_ERROR_INVALID_ARGUMENT,
                 "stride", "can be addressed");
    /* Groups by which the channels can be divided, but not the product of both. */
    args = direct();
    args.params.groups = huge;
    args.input.extent[1] = args.weight.extent[0] = huge;
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "groups", "overflow");
}

static void test_views(void **state) {
    uf_conv2d_args args = transposed();
    args.input.data = NULL;
    assert_error(uf_conv_transpose2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT,
                 "conv_transpose2d", "input is missing");
    args = transposed();
    args.weight.data = NULL;
    assert_error(uf_conv_transpose2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT,
                 "weight is missing");
    args = direct();
    args.output.data = NULL;
    assert_error(uf_conv2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT, "conv2d",
                 "output is missing");
    args = transposed();
    args.weight.dtype = UF_F32;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "f32", "f64");
    args = transposed();
    args.input.dtype = args.weight.dtype = args.output.dtype = UF_I64;
    assert_transposed_error(*state, &args, UF_ERROR_UNSUPPORTED, "i64", "f32, f64 or bf16");
    args = transposed();
    args.output.stride[3] = 0;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride 3", "0");
    args = transposed();
    args.input.stride[2] = -5;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "stride 2", "-5");
    args = transposed();
    args.input = view(2, 6, 0, 5);
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "(0, 5)", "1 or more");
    args = transposed();
    args.bias = view(1, 5, 1, 1);
    assert_transposed_error(*state, &args, UF_ERROR_SHAPE, "bias is (1, 5, 1, 1)", "4 channels");
    args = transposed();
    args.bias = uf_view_nchw(memory, UF_F32, 1, 4, 1, 1);
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "bias", "f32", "f64");
}

static void test_modes(void **state) {
    uf_conv2d_args args = transposed();
    args.mode = UF_ACCUMULATE;
    args.activation.kind = UF_ACTIVATION_RELU;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "ACCUMULATE", "activation");
    args = direct();
    args.mode = UF_ACCUMULATE;
    args.bias = view(1, 4, 1, 1);
    assert_direct_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "ACCUMULATE", "bias");
    args = transposed();
    args.mode = (uf_write_mode)9;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "9", "uf_write_mode");
    args = transposed();
    args.math = (uf_math)(UF_MATH_BF16 + 1); /* a GPU's kernels have a fourth way, for themselves */
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "3", "uf_math");
    args = transposed();
    args.activation.kind = (uf_activation_kind)99;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "99", "uf_activation_kind");
    args.activation.kind = UF_ACTIVATION_HARDTANH;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "HARDTANH", "maximum");
}

static void test_workspace(void **state) {
    uf_conv2d_args args = transposed();
    size_t size = 0;
    assert_ok(uf_conv_transpose2d_forward_workspace(*state, &args, &size));
    if (size == 0) {
        skip();
    }
    assert_error(uf_conv_transpose2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT, "workspace",
                 "0 bytes", "uf_conv_transpose2d_forward_workspace");
    char *block = aligned_alloc(256, (size + 511) / 256 * 256);
    assert_non_null(block);
    args.workspace = block;
    args.workspace_size = size - 1;
    assert_error(uf_conv_transpose2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT,
                 "workspace");
    args.workspace = block + 8;
    args.workspace_size = size;
    assert_error(uf_conv_transpose2d_forward(*state, &args), UF_ERROR_INVALID_ARGUMENT, "workspace",
                 "256-byte aligned");
    free(block);
    assert_error(uf_conv_transpose2d_forward_workspace(*state, &args, NULL),
                 UF_ERROR_INVALID_ARGUMENT, "size is NULL");
}

/* A variant that does not exist, or not for this direction. */
static void test_forced_variants(void **state) {
    static const char *const names[] = {"nonsense", "gather"};
    for (int i = 0; i < 2; ++i) {
        uf_conv2d_args args = direct();
        args.variant = names[i];
        size_t size = 0;
        uf_status status = uf_conv2d_forward_workspace(*state, &args, &size);
        void *workspace = aligned_alloc(256, (size + 511) / 256 * 256);
        assert_non_null(workspace);
        if (status == UF_OK) {
            args.workspace = workspace;
            args.workspace_size = size;
            status = uf_conv2d_forward(*state, &args);
        }
        free(workspace);
        test_expect_error("a forced variant", status, UF_ERROR_UNSUPPORTED,
                          (const char *const[]){names[i], test_on_gpu() ? "naive" : "gemm", NULL});
    }
}

/* The structs of another version of the header. */
static void test_struct_sizes(void **state) {
    uf_conv2d_args args = transposed();
    args.struct_size = 0;
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "uf_conv2d_args",
                            "struct_size", "_default()");
    args = transposed();
    args.struct_size = sizeof args - 7; /* no size that a struct can have */
    assert_transposed_error(*state, &args, UF_ERROR_INVALID_ARGUMENT, "uf_conv2d_args",
                            "struct_size");
    struct {
        uf_conv2d_args known;
        int64_t tail[2];
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.known = transposed();
    newer.known.struct_size = sizeof newer;
    size_t size = 0;
    assert_ok(uf_conv_transpose2d_forward_workspace(*state, &newer.known, &size));
    newer.tail[1] = 1;
    assert_error(uf_conv_transpose2d_forward_workspace(*state, &newer.known, &size),
                 UF_ERROR_INVALID_ARGUMENT, "uf_conv2d_args", "does not know");
    uf_activation_args activation = uf_activation_args_default();
    activation.struct_size = 3;
    assert_error(uf_activation_forward(*state, &activation), UF_ERROR_INVALID_ARGUMENT,
                 "uf_activation_args.struct_size is 3");
    uf_batch_norm2d_args norm = uf_batch_norm2d_args_default();
    norm.struct_size = 3;
    assert_error(uf_batch_norm2d_forward(*state, &norm), UF_ERROR_INVALID_ARGUMENT,
                 "uf_batch_norm2d_args.struct_size is 3");
    uf_pad2d_args pad = uf_pad2d_args_default();
    pad.struct_size = 3;
    assert_error(uf_pad2d_forward(*state, &pad), UF_ERROR_INVALID_ARGUMENT,
                 "uf_pad2d_args.struct_size is 3");
}

static void test_null(void **state) {
    uf_conv2d_args args = transposed();
    assert_error(uf_conv_transpose2d_forward(NULL, &args), UF_ERROR_INVALID_ARGUMENT, "context",
                 "NULL");
    assert_error(uf_conv_transpose2d_forward(*state, NULL), UF_ERROR_INVALID_ARGUMENT, "arguments",
                 "NULL");
    assert_error(uf_conv2d_forward(NULL, &args), UF_ERROR_INVALID_ARGUMENT, "context", "NULL");
    assert_error(uf_conv2d_forward(*state, NULL), UF_ERROR_INVALID_ARGUMENT, "arguments", "NULL");
    assert_error(uf_activation_forward(*state, NULL), UF_ERROR_INVALID_ARGUMENT, "arguments",
                 "NULL");
    assert_error(uf_batch_norm2d_forward(*state, NULL), UF_ERROR_INVALID_ARGUMENT, "arguments",
                 "NULL");
    assert_error(uf_pad2d_forward(*state, NULL), UF_ERROR_INVALID_ARGUMENT, "arguments", "NULL");
    const int64_t pair[2] = {1, 1};
    assert_error(uf_conv_transpose2d_output_size(NULL, pair, pair, (int64_t[2]){0, 0}),
                 UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_conv2d_output_size(NULL, pair, pair, (int64_t[2]){0, 0}),
                 UF_ERROR_INVALID_ARGUMENT, "NULL");
}

static void test_other_ops(void **state) {
    uf_activation_args activation = uf_activation_args_default();
    activation.input = view(1, 2, 3, 4);
    activation.output = view(1, 2, 3, 5);
    activation.activation.kind = UF_ACTIVATION_TANH;
    assert_error(uf_activation_forward(*state, &activation), UF_ERROR_SHAPE, "(1, 2, 3, 5)",
                 "(1, 2, 3, 4)");
    activation.output = view(1, 2, 3, 4);
    activation.activation.kind = (uf_activation_kind)-1;
    assert_error(uf_activation_forward(*state, &activation), UF_ERROR_INVALID_ARGUMENT, "-1",
                 "uf_activation_kind");
    activation.activation.kind = UF_ACTIVATION_CLAMP;
    activation.activation.parameter = 1.5;
    activation.maximum = 1.25;
    assert_error(uf_activation_forward(*state, &activation), UF_ERROR_INVALID_ARGUMENT, "1.5",
                 "1.25");

    uf_batch_norm2d_args norm = uf_batch_norm2d_args_default();
    norm.input = norm.output = view(2, 3, 4, 5);
    assert_error(uf_batch_norm2d_forward(*state, &norm), UF_ERROR_INVALID_ARGUMENT, "running_mean",
                 "not training");
    norm.running_mean = norm.running_var = view(1, 3, 1, 1);
    norm.weight = view(1, 4, 1, 1);
    assert_error(uf_batch_norm2d_forward(*state, &norm), UF_ERROR_SHAPE, "weight", "(1, 4, 1, 1)",
                 "3");
    norm.weight.data = NULL;
    norm.eps = -1.0;
    assert_error(uf_batch_norm2d_forward(*state, &norm), UF_ERROR_INVALID_ARGUMENT, "eps", "-1");
    norm.eps = 1e-5;
    norm.output = view(2, 3, 5, 4);
    assert_error(uf_batch_norm2d_forward(*state, &norm), UF_ERROR_SHAPE, "(2, 3, 5, 4)",
                 "(2, 3, 4, 5)");

    uf_pad2d_args pad = uf_pad2d_args_default();
    pad.input = view(1, 2, 3, 4);
    pad.output = view(1, 2, 3, 5);
    pad.left = 2;
    assert_error(uf_pad2d_forward(*state, &pad), UF_ERROR_SHAPE, "(1, 2, 3, 5)", "(1, 2, 3, 6)");
    pad.left = -1;
    assert_error(uf_pad2d_forward(*state, &pad), UF_ERROR_INVALID_ARGUMENT, "-1", "0 or more");
    pad.pad_mode = UF_PAD_REFLECT;
    pad.left = 4;
    pad.output = view(1, 2, 3, 8);
    assert_error(uf_pad2d_forward(*state, &pad), UF_ERROR_INVALID_ARGUMENT, "reflection", "4");
    pad.pad_mode = (uf_pad_mode)5;
    assert_error(uf_pad2d_forward(*state, &pad), UF_ERROR_INVALID_ARGUMENT, "5", "uf_pad_mode");
}

/* PyTorch's output_size: from the minimum to minimum + stride - 1. */
static void test_output_size(void **state) {
    (void)state;
    uf_conv2d_params params = uf_conv2d_params_default();
    params.stride[0] = 3;
    params.stride[1] = 2;
    const int64_t input[2] = {4, 5};
    const int64_t kernel[2] = {3, 3};
    int64_t output[2] = {0, 0};
    int64_t padding[2] = {-1, -1};
    assert_ok(uf_conv_transpose2d_output_size(&params, input, kernel, output));
    assert_int_equal(output[0], 12);
    assert_int_equal(output[1], 11);
    for (int64_t extra = 0; extra < 3; ++extra) {
        const int64_t wanted[2] = {12 + extra, 11 + extra % 2};
        assert_ok(uf_conv_transpose2d_output_padding(&params, input, kernel, wanted, padding));
        assert_int_equal(padding[0], extra);
        assert_int_equal(padding[1], extra % 2);
    }
    const int64_t wrong[3][2] = {{11, 11}, {15, 11}, {12, 13}};
    for (int i = 0; i < 3; ++i) {
        assert_error(uf_conv_transpose2d_output_padding(&params, input, kernel, wrong[i], padding),
                     UF_ERROR_INVALID_ARGUMENT, "valid sizes range from (12, 11) to (14, 12)");
    }
    /* conv2d of a random geometry undoes conv_transpose2d's extents. */
    for (int64_t i = 0; i < 1000; ++i) {
        test_random random = test_random_for("extents", i);
        int64_t in[2];
        int64_t k[2];
        int64_t back[2];
        for (int axis = 0; axis < 2; ++axis) {
            in[axis] = test_random_integer(&random, 1, 20);
            k[axis] = test_random_integer(&random, 1, 7);
            params.stride[axis] = test_random_integer(&random, 1, 5);
            params.dilation[axis] = test_random_integer(&random, 1, 3);
            params.padding[axis] =
                test_random_integer(&random, 0, params.dilation[axis] * (k[axis] - 1) / 2);
            params.output_padding[axis] = test_random_integer(&random, 0, params.stride[axis] - 1);
        }
        assert_ok(uf_conv_transpose2d_output_size(&params, in, k, output));
        params.output_padding[0] = params.output_padding[1] = 0;
        assert_ok(uf_conv2d_output_size(&params, output, k, back));
        assert_int_equal(back[0], in[0]);
        assert_int_equal(back[1], in[1]);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_fixtures),    TEST(test_parameters),   TEST(test_channels),
        TEST(test_overflow),    TEST(test_output_shape), TEST(test_views),
        TEST(test_modes),       TEST(test_workspace),    TEST(test_forced_variants),
        TEST(test_null),        TEST(test_struct_sizes), TEST(test_other_ops),
        TEST(test_output_size),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
