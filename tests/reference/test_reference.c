/* test_reference.c - the plain loops themselves, values and gradients, against PyTorch. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "support/compare.h"
#include "support/h5.h"

static const double tolerance = 1e-12;

typedef struct reference_case {
    char path[256];
    h5_file file;
} reference_case;

/* Run `check` on every member of a group of the reference file. */
static void for_each_case(const char *group, void (*check)(const reference_case *)) {
    reference_case one;
    one.file = h5_open(test_data_path("ops_open.h5"));
    const int64_t count = h5_count(one.file, group);
    assert_true(count > 0);
    for (int64_t i = 0; i < count; ++i) {
        h5_child(one.file, group, i, one.path, (int64_t)sizeof one.path);
        check(&one);
    }
    h5_close(one.file);
}

static void check_result(const reference_case *one, const char *name, const double *got) {
    h5_array expected = h5_read(one->file, one->path, name);
    char label[512];
    (void)snprintf(label, sizeof label, "%s %s", one->path, name);
    assert_close(label, compare_values(got, expected.values, expected.count, 0.0), tolerance);
    h5_free(&expected);
}

static double *results(const h5_array *like) {
    double *values = test_allocate((size_t)like->count * sizeof *values);
    memset(values, 0xff, (size_t)like->count * sizeof *values);
    return values;
}

static void check_convolution(const reference_case *one, bool transposed) {
    h5_array input = h5_read(one->file, one->path, "input");
    h5_array weight = h5_read(one->file, one->path, "weight");
    h5_array bias = h5_read_optional(one->file, one->path, "bias");
    h5_array output = h5_read(one->file, one->path, "output");
    h5_array grad = h5_read(one->file, one->path, "grad_output");
    ref_conv conv;
    memset(&conv, 0, sizeof conv);
    h5_attribute_integers(one->file, one->path, "stride", conv.stride, 2);
    h5_attribute_integers(one->file, one->path, "padding", conv.padding, 2);
    h5_attribute_integers(one->file, one->path, "dilation", conv.dilation, 2);
    h5_attribute_integers(one->file, one->path, "output_padding", conv.output_padding, 2);
    h5_attribute_integers(one->file, one->path, "groups", &conv.groups, 1);
    conv.batch = input.extent[0];
    conv.in_channels = input.extent[1];
    conv.out_channels = output.extent[1];
    conv.height = input.extent[2];
    conv.width = input.extent[3];
    conv.kernel[0] = weight.extent[2];
    conv.kernel[1] = weight.extent[3];
    (transposed ? ref_conv_transpose2d_extents : ref_conv2d_extents)(&conv);
    assert_int_equal(conv.out_height, output.extent[2]);
    assert_int_equal(conv.out_width, output.extent[3]);

    double *y = results(&output);
    double *dx = results(&input);
    double *dw = results(&weight);
    double *db = test_allocate((size_t)conv.out_channels * sizeof *db);
    (transposed ? ref_conv_transpose2d_forward : ref_conv2d_forward)(&conv, input.values,
                                                                     weight.values, bias.values, y);
    (transposed ? ref_conv_transpose2d_backward_input
                : ref_conv2d_backward_input)(&conv, weight.values, grad.values, dx);
    (transposed ? ref_conv_transpose2d_backward_weight
                : ref_conv2d_backward_weight)(&conv, input.values, grad.values, dw);
    ref_conv_backward_bias(&conv, grad.values, db);
    check_result(one, "output", y);
    check_result(one, "grad_input", dx);
    check_result(one, "grad_weight", dw);
    if (bias.values != NULL) {
        check_result(one, "grad_bias", db);
    }
    free(y);
    free(dx);
    free(dw);
    free(db);
    h5_free(&input);
    h5_free(&weight);
    h5_free(&bias);
    h5_free(&output);
    h5_free(&grad);
}

static void check_conv_transpose2d(const reference_case *one) {
    check_convolution(one, true);
}

static void check_conv2d(const reference_case *one) {
    check_convolution(one, false);
}

static void check_activation(const reference_case *one) {
    static const struct {
        const char *path;
        ref_activation kind;
        double slope;
    } known[] = {{"activation/relu", REF_RELU, 0.0},
                 {"activation/leaky_relu_0p2", REF_LEAKY_RELU, 0.2},
                 {"activation/tanh", REF_TANH, 0.0},
                 {"activation/sigmoid", REF_SIGMOID, 0.0},
                 {"activation/elu", REF_ELU, 1.0},
                 {"activation/gelu", REF_GELU, 0.0},
                 {"activation/gelu_tanh", REF_GELU_TANH, 0.0},
                 {"activation/mish", REF_MISH, 0.0},
                 {"activation/silu", REF_SILU, 0.0},
                 {"activation/softplus", REF_SOFTPLUS, 1.0}};
    for (int64_t i = 0; i < COUNT_OF(known); ++i) {
        if (strcmp(known[i].path, one->path) != 0) {
            continue;
        }
        h5_array input = h5_read(one->file, one->path, "input");
        h5_array grad = h5_read(one->file, one->path, "grad_output");
        double *y = results(&input);
        ref_activation_forward(known[i].kind, known[i].slope, input.count, input.values, y);
        check_result(one, "output", y);
        ref_activation_backward(known[i].kind, known[i].slope, input.count, input.values,
                                grad.values, y);
        check_result(one, "grad_input", y);
        free(y);
        h5_free(&input);
        h5_free(&grad);
    }
}

static void check_batch_norm(const reference_case *one) {
    const bool training = strstr(one->path, "train") != NULL;
    h5_array input = h5_read(one->file, one->path, "input");
    h5_array grad = h5_read(one->file, one->path, "grad_output");
    h5_array weight = h5_read(one->file, one->path, "weight");
    h5_array bias = h5_read(one->file, one->path, "bias");
    h5_array mean = h5_read(one->file, one->path, "running_mean_before");
    h5_array var = h5_read(one->file, one->path, "running_var_before");
    const ref_batch_norm norm = {input.extent[0], input.extent[1],
                                 input.extent[2] * input.extent[3],
                                 h5_attribute_real(one->file, one->path, "eps"),
                                 h5_attribute_real(one->file, one->path, "momentum")};
    double *y = results(&input);
    double *dw = results(&weight);
    double *db = results(&weight);
    if (training) {
        ref_batch_norm_train_forward(&norm, input.values, weight.values, bias.values, mean.values,
                                     var.values, y);
    } else {
        ref_batch_norm_eval_forward(&norm, input.values, weight.values, bias.values, mean.values,
                                    var.values, y);
    }
    check_result(one, "output", y);
    check_result(one, "running_mean_after", mean.values);
    check_result(one, "running_var_after", var.values);
    if (training) {
        ref_batch_norm_train_backward(&norm, input.values, weight.values, grad.values, y, dw, db);
    } else {
        ref_batch_norm_eval_backward(&norm, input.values, weight.values, mean.values, var.values,
                                     grad.values, y, dw, db);
    }
    check_result(one, "grad_input", y);
    check_result(one, "grad_weight", dw);
    check_result(one, "grad_bias", db);
    free(y);
    free(dw);
    free(db);
    h5_free(&input);
    h5_free(&grad);
    h5_free(&weight);
    h5_free(&bias);
    h5_free(&mean);
    h5_free(&var);
}

static void test_conv_transpose2d(void **state) {
    (void)state;
    for_each_case("conv_transpose2d", check_conv_transpose2d);
}

static void test_conv2d(void **state) {
    (void)state;
    for_each_case("conv2d", check_conv2d);
}

static void test_activation(void **state) {
    (void)state;
    for_each_case("activation", check_activation);
}

static void test_batch_norm(void **state) {
    (void)state;
    for_each_case("batch_norm2d_eval", check_batch_norm);
    for_each_case("batch_norm2d_train", check_batch_norm);
}

/* torch.nn.functional.pad of [[1, 2, 3], [4, 5, 6]] by (left 2, right 1, top 1, bottom 1). */
static void test_pad(void **state) {
    (void)state;
    static const double input[6] = {1, 2, 3, 4, 5, 6};
    static const double expected[3][24] = {
        {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0},
        {1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6, 4, 4, 4, 5, 6, 6},
        {6, 5, 4, 5, 6, 5, 3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5, 3, 2, 1, 2, 3, 2}};
    static const ref_pad_mode modes[3] = {REF_PAD_ZERO, REF_PAD_REPLICATE, REF_PAD_REFLECT};
    for (int i = 0; i < 3; ++i) {
        const ref_pad pad = {modes[i], 1, 2, 3, 2, 1, 1, 1};
        double output[24];
        ref_pad_forward(&pad, input, output);
        assert_close("pad", compare_values(output, expected[i], 24, 0.0), 0.0);
        /* The adjoint identity <pad(x), g> = <x, pad_backward(g)>, with integers: exact. */
        double grad[24];
        double grad_input[6];
        double left = 0.0;
        double right = 0.0;
        for (int k = 0; k < 24; ++k) {
            grad[k] = (double)((k * 7) % 11 - 5);
            left += grad[k] * output[k];
        }
        ref_pad_backward(&pad, grad, grad_input);
        for (int k = 0; k < 6; ++k) {
            right += grad_input[k] * input[k];
        }
        assert_true(left == right);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_transpose2d),
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_pad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
