/* test_later_call.c - a context keeps the plan of a convolution. A later call of the same geometry
 * brings other tensors, another bias, another slope: its result has the bits of a first call. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conv_variants.h"
#include "support/random.h"

enum { TENSORS = 4 /* input, weight, bias, output */, INPUT = 0, WEIGHT, BIAS, OUTPUT };

typedef struct shape {
    int64_t n, c_in, c_out, pixels, kernel, stride, padding;
} shape;

static const shape shapes[] = {
    {2, 64, 32, 16, 4, 4, 0}, {2, 64, 64, 12, 4, 2, 1}, {1, 16, 24, 20, 3, 1, 1},
    {2, 32, 32, 8, 2, 2, 0},  {2, 64, 32, 16, 1, 1, 0}, {4, 3, 16, 33, 5, 2, 2},
};

typedef struct call {
    uf_tensor *tensors[TENSORS], *workspace;
    uf_conv2d_args args;
} call;

/* A call with numbers of its own. False: the variant does not take it. */
static bool run(uf_context *context, const shape *of, bool transposed, const char *variant,
                int64_t seed, call *made) {
    int64_t out[2];
    const int64_t size[2] = {of->pixels, of->pixels}, kernel[2] = {of->kernel, of->kernel};
    memset(made, 0, sizeof *made);
    uf_conv2d_args *args = &made->args;
    *args = uf_conv2d_args_default();
    for (int axis = 0; axis < 2; ++axis) {
        args->params.stride[axis] = of->stride;
        args->params.padding[axis] = of->padding;
    }
    assert_ok(transposed ? uf_conv_transpose2d_output_size(&args->params, size, kernel, out)
                         : uf_conv2d_output_size(&args->params, size, kernel, out));
    const int64_t channels[2] = {transposed ? of->c_in : of->c_out,
                                 transposed ? of->c_out : of->c_in};
    const int64_t extents[TENSORS][4] = {{of->n, of->c_in, of->pixels, of->pixels},
                                         {channels[0], channels[1], of->kernel, of->kernel},
                                         {of->c_out},
                                         {of->n, of->c_out, out[0], out[1]}};
    uf_view *const views[TENSORS] = {&args->input, &args->weight, &args->bias, &args->output};
    test_random random = test_random_for("later call", seed);
    for (int t = 0; t < TENSORS; ++t) {
        const int64_t *e = extents[t];
        const int rank = t == BIAS ? 1 : 4;
        assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(e, rank), &made->tensors[t]));
        void *const data = uf_tensor_data(made->tensors[t]);
        *views[t] = rank == 1 ? uf_view_nchw(data, UF_F32, 1, e[0], 1, 1)
                              : uf_view_nchw(data, UF_F32, e[0], e[1], e[2], e[3]);
        const int64_t count = uf_tensor_count(made->tensors[t]);
        double *values = test_allocate((size_t)count * sizeof *values);
        test_random_fill(&random, values, count, 1.0);
        assert_ok(uf_tensor_upload_as(made->tensors[t], UF_F64, values, count));
        free(values);
    }
    args->activation.kind = UF_ACTIVATION_LEAKY_RELU;
    args->activation.parameter = 0.125 * (double)seed;
    args->variant = variant;
    const uf_status sized =
        transposed ? uf_conv_transpose2d_forward_workspace(context, args, &args->workspace_size)
                   : uf_conv2d_forward_workspace(context, args, &args->workspace_size);
    if (sized != UF_OK) {
        return false;
    }
    const int64_t words = (int64_t)(args->workspace_size / sizeof(float)) + 1;
    assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(&words, 1), &made->workspace));
    args->workspace = uf_tensor_data(made->workspace);
    return (transposed ? uf_conv_transpose2d_forward(context, args)
                       : uf_conv2d_forward(context, args)) == UF_OK;
}

static void release(call *made) {
    for (int t = 0; t < TENSORS; ++t) {
        uf_tensor_destroy(made->tensors[t]);
    }
    uf_tensor_destroy(made->workspace);
}

static bool check(const shape *of, bool transposed, const char *variant) {
    uf_context *const context = test_context(2), *const fresh = test_context(2);
    call first, later, alone;
    bool taken = run(context, of, transposed, variant, 1, &first);
    if (taken) {
        assert_true(run(context, of, transposed, variant, 2, &later));
        assert_true(run(fresh, of, transposed, variant, 2, &alone));
        const size_t bytes = (size_t)uf_tensor_count(later.tensors[OUTPUT]) * sizeof(float);
        float *const got = test_allocate(bytes), *const expected = test_allocate(bytes);
        assert_ok(uf_tensor_download(later.tensors[OUTPUT], got));
        assert_ok(uf_tensor_download(alone.tensors[OUTPUT], expected));
        if (memcmp(got, expected, bytes) != 0) {
            fail_msg("variant %s, %s of %lld channels, kernel %lld, stride %lld: a later call has "
                     "other bits than a first one",
                     variant != NULL ? variant : "(chosen)",
                     transposed ? "conv_transpose2d" : "conv2d", (long long)of->c_in,
                     (long long)of->kernel, (long long)of->stride);
        }
        free(got);
        free(expected);
        release(&later);
        release(&alone);
    }
    release(&first);
    uf_context_destroy(context);
    uf_context_destroy(fresh);
    return taken;
}

static void test_later_call(void **state) {
    static const char *const cpu[] = {NULL, "gemm", "gather", "direct"};
    const char *gpu[CONV_VARIANTS];
    const int64_t count =
        test_on_gpu() ? conv_variants(UF_CONV_CORRELATE, UF_CONV_F32, gpu) : (int64_t)COUNT_OF(cpu);
    (void)state;
    for (int64_t v = 0; v < count; ++v) {
        const char *const variant = test_on_gpu() ? gpu[v] : cpu[v];
        int64_t taken = 0;
        for (int64_t s = 0; s < COUNT_OF(shapes); ++s) {
            taken += check(&shapes[s], true, variant) ? 1 : 0;
            taken += check(&shapes[s], false, variant) ? 1 : 0;
        }
        print_message("%s: %lld of %lld\n", variant != NULL ? variant : "(chosen)",
                      (long long)taken, (long long)(2 * COUNT_OF(shapes)));
        assert_true(variant != NULL || taken == 2 * COUNT_OF(shapes));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_later_call)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
