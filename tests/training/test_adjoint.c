/* test_adjoint.c - a transposed convolution is the adjoint of a convolution: <convT(x), y> = <x,
 * conv(y)>, over random geometries in f64, and so for every pair of calls that are each other's
 * adjoint.
 *
 *   test_adjoint <number of geometries> */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/random.h"

static const double limit = 1e-12;

typedef struct geometry {
    int64_t n, small_channels, large_channels; /* of convT's input and output */
    int64_t small[2], large[2], kernel[2];
    uf_conv2d_params params;
} geometry;

static geometry draw(test_random *random) {
    for (;;) {
        geometry g;
        g.params = uf_conv2d_params_default();
        g.params.groups = test_random_one_in(random, 3) ? test_random_integer(random, 2, 3) : 1;
        g.n = test_random_integer(random, 1, 3);
        g.small_channels = g.params.groups * test_random_integer(random, 1, 5);
        g.large_channels = g.params.groups * test_random_integer(random, 1, 5);
        for (int i = 0; i < 2; ++i) {
            g.small[i] = test_random_log(random, 1, 12);
            g.kernel[i] = test_random_integer(random, 1, 5);
            g.params.stride[i] = test_random_integer(random, 1, 5);
            g.params.dilation[i] = test_random_integer(random, 1, 3);
            g.params.padding[i] = test_random_integer(random, 0, 4);
            const int64_t most = g.params.stride[i] > g.params.dilation[i] ? g.params.stride[i]
                                                                           : g.params.dilation[i];
            g.params.output_padding[i] = test_random_integer(random, 0, most - 1);
        }
        if (uf_conv_transpose2d_output_size(&g.params, g.small, g.kernel, g.large) == UF_OK) {
            return g;
        }
    }
}

typedef struct array {
    uf_view view;
    int64_t count;
} array;

static array make(int64_t n, int64_t c, int64_t h, int64_t w) {
    array a;
    a.count = n * c * h * w;
    double *values = test_shared_allocate((size_t)a.count * sizeof *values);
    for (int64_t i = 0; i < a.count; ++i) {
        values[i] = (double)NAN; /* what stays unwritten shows */
    }
    a.view = uf_view_nchw(values, UF_F64, n, c, h, w);
    return a;
}

static void discard(array *a) {
    test_shared_free(a->view.data, (size_t)a->count * sizeof(double));
}

static array make_random(test_random *random, int64_t n, int64_t c, int64_t h, int64_t w) {
    array a = make(n, c, h, w);
    for (int64_t i = 0; i < a.count; ++i) {
        ((double *)a.view.data)[i] = test_random_real(random, -1.0, 1.0); /* all 53 bits */
    }
    return a;
}

static long double dot(const array *a, const array *b) {
    long double sum = 0.0L;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; ++i) {
        sum += (long double)((const double *)a->view.data)[i] *
               (long double)((const double *)b->view.data)[i];
    }
    return sum;
}

typedef uf_status (*call)(uf_context *context, const uf_conv2d_args *args);
typedef uf_status (*query)(uf_context *context, const uf_conv2d_args *args, size_t *size);

static void run(uf_context *context, uf_conv2d_args args, query workspace, call function) {
    assert_ok(workspace(context, &args, &args.workspace_size));
    args.workspace = test_shared_allocate(args.workspace_size);
    assert_ok(function(context, &args));
    assert_ok(uf_context_synchronize(context));
    test_shared_free(args.workspace, args.workspace_size);
}

/* |a - b| over |u||v|, the size of the products that both sums are made of. */
static double distance(long double a, long double b, const array *u, const array *v) {
    const long double scale = sqrtl(dot(u, u) * dot(v, v));
    return scale > 0.0L ? (double)(fabsl(a - b) / scale) /* 0: the padding has cut everything off */
           : a == b     ? 0.0
                        : (double)INFINITY;
}

static double worst;

static void hold(const char *pair, int64_t number, const geometry *g, double error) {
    if (!(error <= limit)) {
        fail_msg(
            "%s: %.3g in geometry %lld: n %lld, channels %lld -> %lld, groups %lld, image "
            "%lldx%lld -> "
            "%lldx%lld, kernel %lldx%lld, stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld",
            pair, error, (long long)number, (long long)g->n, (long long)g->small_channels,
            (long long)g->large_channels, (long long)g->params.groups, (long long)g->small[0],
            (long long)g->small[1], (long long)g->large[0], (long long)g->large[1],
            (long long)g->kernel[0], (long long)g->kernel[1], (long long)g->params.stride[0],
            (long long)g->params.stride[1], (long long)g->params.padding[0],
            (long long)g->params.padding[1], (long long)g->params.dilation[0],
            (long long)g->params.dilation[1]);
    }
    worst = error > worst ? error : worst;
}

/* Returns true when plain conv2d has the geometry too. */
static bool check(uf_context *context, int64_t number) {
    test_random random = test_random_for("adjoint", number);
    const geometry g = draw(&random);
    array x = make_random(&random, g.n, g.small_channels, g.small[0], g.small[1]);
    array y = make_random(&random, g.n, g.large_channels, g.large[0], g.large[1]);
    array w = make_random(&random, g.small_channels, g.large_channels / g.params.groups,
                          g.kernel[0], g.kernel[1]);
    array up = make(g.n, g.large_channels, g.large[0], g.large[1]);
    array down = make(g.n, g.small_channels, g.small[0], g.small[1]);
    array weight =
        make(g.small_channels, g.large_channels / g.params.groups, g.kernel[0], g.kernel[1]);

    uf_conv2d_args args = uf_conv2d_args_default();
    args.params = g.params;
    args.weight = w.view;
    args.input = x.view;
    args.output = up.view;
    run(context, args, uf_conv_transpose2d_forward_workspace, uf_conv_transpose2d_forward);
    const long double forward = dot(&up, &y);

    args.grad_output = y.view;
    args.grad_input = down.view;
    run(context, args, uf_conv_transpose2d_backward_input_workspace,
        uf_conv_transpose2d_backward_input);
    hold("convT, its backward_input", number, &g, distance(forward, dot(&x, &down), &up, &y));

    args.grad_weight = weight.view;
    run(context, args, uf_conv_transpose2d_backward_weight_workspace,
        uf_conv_transpose2d_backward_weight);
    hold("convT, its backward_weight", number, &g, distance(forward, dot(&w, &weight), &up, &y));

    /* conv2d gives back the small extent when what was cut off at the end is less than a stride. */
    uf_conv2d_params plain = g.params;
    plain.output_padding[0] = plain.output_padding[1] = 0;
    int64_t extent[2];
    const bool both = uf_conv2d_output_size(&plain, g.large, g.kernel, extent) == UF_OK &&
                      extent[0] == g.small[0] && extent[1] == g.small[1];
    if (both) {
        array result = make(g.n, g.small_channels, g.small[0], g.small[1]);
        uf_conv2d_args conv = uf_conv2d_args_default();
        conv.params = plain;
        conv.weight = w.view;
        conv.input = y.view;
        conv.output = result.view;
        run(context, conv, uf_conv2d_forward_workspace, uf_conv2d_forward);
        hold("convT, conv2d", number, &g, distance(forward, dot(&x, &result), &up, &y));

        array back = make(g.n, g.large_channels, g.large[0], g.large[1]);
        conv.grad_output = x.view;
        conv.grad_input = back.view;
        run(context, conv, uf_conv2d_backward_input_workspace, uf_conv2d_backward_input);
        hold("conv2d, its backward_input", number, &g,
             distance(dot(&back, &y), dot(&x, &result), &back, &y));

        array conv_weight =
            make(g.small_channels, g.large_channels / g.params.groups, g.kernel[0], g.kernel[1]);
        conv.grad_weight = conv_weight.view;
        run(context, conv, uf_conv2d_backward_weight_workspace, uf_conv2d_backward_weight);
        hold("conv2d, its backward_weight", number, &g,
             distance(dot(&w, &conv_weight), dot(&x, &result), &back, &y));
        discard(&result);
        discard(&back);
        discard(&conv_weight);
    }
    discard(&x);
    discard(&y);
    discard(&w);
    discard(&up);
    discard(&down);
    discard(&weight);
    return both;
}

static int64_t geometries = 2000;

static void test_adjoint(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    const int64_t only = test_environment("UNFURL_TEST_CASE", -1);
    int64_t with_conv = 0;
    /* As many as asked for have a plain convolution too. */
    for (int64_t number = only >= 0 ? only : 0; with_conv < geometries; ++number) {
        with_conv += check(context, number) ? 1 : 0;
        if (number == only) {
            break;
        }
        assert_true(number < 20 * geometries);
    }
    print_message("%lld geometries, worst %.3g\n", (long long)with_conv, worst);
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    geometries = argc > 1 ? strtoll(argv[1], NULL, 10) : geometries;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_adjoint)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
