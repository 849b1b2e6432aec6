/* test_zero_bias.c - the gradient of a bias in front of a norm by the batch's own statistics. It is
 * 0 whatever comes from behind, so that a program writes zeros and does not sum. Everywhere else it
 * is the sum of the output's gradient over all axes but the channels, which the tests do again. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/compare.h"
#include "support/network.h"

enum { IMAGES = 3, CHANNELS = 4, MOST_USES = 2 };

/* ---- networks ---- */

/* A network around the layer "layer", whose bias is looked at. */
typedef struct network {
    uf_value losses[2]; /* seeded at random */
    int32_t loss_count;
    uf_value uses[MOST_USES]; /* outputs of "layer" */
    int32_t use_count;
} network;

/* One use of the layer, and one loss. */
static network single(uf_value use, uf_value loss) {
    return (network){.losses = {loss}, .loss_count = 1, .uses = {use}, .use_count = 1};
}

static uf_value image(uf_graph *graph) {
    return uf_input(graph, "x", UF_SHAPE(IMAGES, 2, 5, 6));
}

static uf_value conv(uf_graph *graph, uf_store *store, uf_value x) {
    return uf_conv2d(graph, x, uf_at(store, "layer"), CHANNELS, UF_CONV2D(3, 1, 1, true));
}

static uf_value norm(uf_graph *graph, uf_store *store, uf_value x, const char *name) {
    return uf_batch_norm2d(graph, x, uf_at(store, name), NULL);
}

static network batch_norm(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, norm(graph, store, use, "norm"));
}

static network activated(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, uf_leaky_relu(graph, norm(graph, store, use, "norm"), 0.1));
}

static network without_affine(uf_graph *graph, uf_store *store) {
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    options.affine = false;
    const uf_value use = conv(graph, store, image(graph));
    return single(use, uf_tanh(graph, uf_batch_norm2d(graph, use, uf_at(store, "norm"), &options)));
}

static network transposed(uf_graph *graph, uf_store *store) {
    const uf_value use = uf_conv_transpose2d(graph, image(graph), uf_at(store, "layer"), CHANNELS,
                                             UF_CONV_TRANSPOSE2D(4, 2, 1, true));
    return single(use, uf_relu(graph, norm(graph, store, use, "norm")));
}

static uf_value line(uf_graph *graph) {
    return uf_input(graph, "x", UF_SHAPE(IMAGES, 2, 9));
}

static network one_axis(uf_graph *graph, uf_store *store) {
    const uf_value use =
        uf_conv1d(graph, line(graph), uf_at(store, "layer"), CHANNELS, UF_CONV1D(3, 2, 1, true));
    return single(use, uf_silu(graph, uf_batch_norm1d(graph, use, uf_at(store, "norm"), NULL)));
}

static network one_axis_transposed(uf_graph *graph, uf_store *store) {
    const uf_value use = uf_conv_transpose1d(graph, line(graph), uf_at(store, "layer"), CHANNELS,
                                             UF_CONV_TRANSPOSE1D(4, 2, 1, true));
    return single(use, uf_batch_norm1d(graph, use, uf_at(store, "norm"), NULL));
}

static network linear(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(7, 5));
    const uf_value use = uf_linear(graph, x, uf_at(store, "layer"), CHANNELS, true);
    return single(use, uf_relu(graph, uf_batch_norm1d(graph, use, uf_at(store, "norm"), NULL)));
}

/* The norm's channels are axis 1, those of the bias axis 2, and both have the same extent. */
static network linear_of_rows(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(IMAGES, CHANNELS, 5));
    const uf_value use = uf_linear(graph, x, uf_at(store, "layer"), CHANNELS, true);
    return single(use, uf_batch_norm1d(graph, use, uf_at(store, "norm"), NULL));
}

static network instance_norm_with(uf_graph *graph, uf_store *store, bool affine, bool tracks) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.affine = affine;
    options.track_running_stats = tracks;
    const uf_value use = conv(graph, store, image(graph));
    return single(use,
                  uf_relu(graph, uf_instance_norm2d(graph, use, uf_at(store, "norm"), &options)));
}

static network instance_norm(uf_graph *graph, uf_store *store) {
    return instance_norm_with(graph, store, false, false);
}

static network affine_instance_norm(uf_graph *graph, uf_store *store) {
    return instance_norm_with(graph, store, true, false);
}

static network tracking_instance_norm(uf_graph *graph, uf_store *store) {
    return instance_norm_with(graph, store, true, true);
}

static network group_norm_of(uf_graph *graph, uf_store *store, int64_t groups) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, uf_group_norm(graph, use, uf_at(store, "norm"), groups, NULL));
}

static network groups_of_one(uf_graph *graph, uf_store *store) {
    return group_norm_of(graph, store, CHANNELS);
}

static network groups_of_two(uf_graph *graph, uf_store *store) {
    return group_norm_of(graph, store, CHANNELS / 2);
}

static network layer_norm_of(uf_graph *graph, uf_store *store, int32_t axes) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, uf_layer_norm(graph, use, uf_at(store, "norm"), axes, NULL));
}

static network layer_norm_of_planes(uf_graph *graph, uf_store *store) {
    return layer_norm_of(graph, store, 2);
}

static network layer_norm_of_rows(uf_graph *graph, uf_store *store) {
    return layer_norm_of(graph, store, 1);
}

static network layer_norm_of_images(uf_graph *graph, uf_store *store) {
    return layer_norm_of(graph, store, 3);
}

static network layer_norm_of_pixels(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, uf_layer_norm2d(graph, use, uf_at(store, "norm"), NULL));
}

static network two_norms(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    const uf_value other = uf_tanh(graph, norm(graph, store, use, "other"));
    return single(use, uf_mul(graph, norm(graph, store, use, "norm"), other));
}

static network is_output(uf_graph *graph, uf_store *store) {
    const network made = activated(graph, store);
    uf_output(graph, "use", made.uses[0]);
    return made;
}

static network detached_reader(uf_graph *graph, uf_store *store) {
    network made = activated(graph, store);
    const uf_value other = uf_detach(graph, uf_square(graph, made.uses[0]));
    made.losses[0] = uf_mul(graph, made.losses[0], other);
    return made;
}

static network other_reader(uf_graph *graph, uf_store *store) {
    network made = activated(graph, store);
    made.losses[0] = uf_add(graph, made.losses[0], uf_square(graph, made.uses[0]));
    return made;
}

/* The other reader's gradient comes before the norm's, backward. */
static network later_reader(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    const uf_value other = uf_square(graph, use);
    return single(use, uf_add(graph, norm(graph, store, use, "norm"), other));
}

static network seeded(uf_graph *graph, uf_store *store) {
    network made = activated(graph, store);
    made.losses[made.loss_count++] = made.uses[0];
    return made;
}

static network activation_between(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    return single(use, norm(graph, store, uf_tanh(graph, use), "norm"));
}

/* The layer twice, each time in front of a norm or not. */
static network shared(uf_graph *graph, uf_store *store, bool first, bool second) {
    const uf_value x = image(graph);
    network made = {.loss_count = 2, .use_count = 2};
    for (int i = 0; i < 2; ++i) {
        const bool normed = i == 0 ? first : second;
        made.uses[i] = conv(graph, store, i == 0 ? x : uf_square(graph, x));
        made.losses[i] = normed ? norm(graph, store, made.uses[i], i == 0 ? "norm" : "other")
                                : uf_tanh(graph, made.uses[i]);
    }
    return made;
}

static network shared_by_norms(uf_graph *graph, uf_store *store) {
    return shared(graph, store, true, true);
}

static network first_has_norm(uf_graph *graph, uf_store *store) {
    return shared(graph, store, true, false);
}

static network second_has_norm(uf_graph *graph, uf_store *store) {
    return shared(graph, store, false, true);
}

/* Bias gradients that are summed; with `evaluated`, where "norm" has its running statistics. */
typedef struct test_case {
    const char *name;
    network (*build)(uf_graph *graph, uf_store *store);
    int sums, evaluated;
    bool of_last_axis;
} test_case;

static const test_case cases[] = {
    {"batch_norm2d", batch_norm, 0, 1, false},
    {"batch_norm2d and leaky_relu", activated, 0, 1, false},
    {"batch_norm2d without affine", without_affine, 0, 1, false},
    {"conv_transpose2d", transposed, 0, 1, false},
    {"conv1d", one_axis, 0, 1, false},
    {"conv_transpose1d", one_axis_transposed, 0, 1, false},
    {"linear", linear, 0, 1, false},
    {"linear of rows", linear_of_rows, 1, 1, true},
    {"instance_norm2d", instance_norm, 0, 0, false},
    {"instance_norm2d with affine", affine_instance_norm, 0, 0, false},
    {"instance_norm2d with running statistics", tracking_instance_norm, 0, 1, false},
    {"group_norm, a channel each", groups_of_one, 0, 0, false},
    {"group_norm", groups_of_two, 1, 1, false},
    {"layer_norm of planes", layer_norm_of_planes, 0, 0, false},
    {"layer_norm of rows", layer_norm_of_rows, 0, 0, false},
    {"layer_norm of images", layer_norm_of_images, 1, 1, false},
    {"layer_norm2d", layer_norm_of_pixels, 1, 1, false},
    {"two norms", two_norms, 0, 1, false},
    {"an output", is_output, 0, 1, false},
    {"another reader without gradient", detached_reader, 0, 1, false},
    {"another reader", other_reader, 1, 1, false},
    {"a later reader", later_reader, 1, 1, false},
    {"a loss", seeded, 1, 1, false},
    {"an activation between", activation_between, 1, 1, false},
    {"shared by two norms", shared_by_norms, 0, 1, false},
    {"shared, first in front of a norm", first_has_norm, 1, 2, false},
    {"shared, second in front of a norm", second_has_norm, 1, 1, false},
};

/* ---- counting ---- */

static struct uf_kernels counting;
static int sums_made, sums_sized;

static uf_status counted_sum(uf_context *context, const uf_channel_sum_kernel_args *args) {
    sums_made += 1;
    return context->device->kernels->channel_sum(context, args);
}

static size_t counted_workspace(uf_context *context, const uf_channel_sum_kernel_args *args) {
    sums_sized += 1;
    return context->device->kernels->channel_sum_workspace(context, args);
}

static void begin_counting(uf_context *context) {
    counting = *context->device->kernels;
    counting.channel_sum = counted_sum;
    counting.channel_sum_workspace = counted_workspace;
    context->kernels = &counting;
    sums_made = sums_sized = 0;
}

/* ---- programs ---- */

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    network network;
    test_random random;
} fixture;

static fixture open_fixture(const test_case *of, uf_dtype dtype) {
    fixture f = {.random = test_random_for(of->name, 0)};
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "net", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.network = of->build(f.graph, f.store);
    assert_ok(uf_graph_status(f.graph));
    network_fill_store(f.store, &f.random);
    return f;
}

static void close_fixture(fixture *f) {
    uf_context_destroy(f->context);
}

/* The pass over the network's losses and the store; with `asked` it has the gradients of the uses
 * too. */
static uf_pass pass_of(fixture *f, bool asked) {
    uf_pass pass = uf_pass_default();
    pass.losses = f->network.losses;
    pass.loss_count = f->network.loss_count;
    pass.stores = &f->store;
    pass.store_count = 1;
    pass.inputs = asked ? f->network.uses : NULL;
    pass.input_count = asked ? f->network.use_count : 0;
    pass.external_seeds = true;
    return pass;
}

static uf_program_options options_of(uf_dtype dtype, const uf_pass *passes, int32_t count) {
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.passes = passes;
    options.pass_count = count;
    return options;
}

static void fill(uf_tensor *tensor, const char *name) {
    test_random random = test_random_for(name, 0);
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random_fill(&random, values, count, 1.0);
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    free(values);
}

static void fill_program(uf_program *program, const uf_pass *passes, int32_t count) {
    static const char *const names[] = {"seed 0", "seed 1", "seed 2", "seed 3"};
    int next = 0;
    fill(uf_program_input(program, "x"), "x");
    for (int32_t p = 0; p < count; ++p) {
        for (int32_t i = 0; i < passes[p].loss_count; ++i) {
            fill(uf_program_seed(program, p, i), names[next++]);
        }
    }
}

static double *download(uf_tensor *tensor) {
    double *values = test_allocate((size_t)uf_tensor_count(tensor) * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, uf_tensor_count(tensor)));
    return values;
}

/* Make each element of the bias's gradient `value`. */
static void put_gradient(const fixture *f, double value) {
    uf_tensor *tensor;
    const double values[CHANNELS] = {value, value, value, value};
    assert_ok(uf_store_gradient(f->store, "layer.bias", &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, CHANNELS));
}

static void get_gradient(const fixture *f, double *values) {
    uf_tensor *tensor;
    assert_ok(uf_store_gradient(f->store, "layer.bias", &tensor));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, CHANNELS));
}

static void run_program(fixture *f, const uf_program_options *options) {
    uf_program *program;
    assert_ok(uf_program_compile(f->graph, options, &program));
    fill_program(program, options->passes, options->pass_count);
    assert_ok(uf_program_run(program));
    uf_program_destroy(program);
}

/* Add the sums of a gradient over all axes but the channels. */
static void add_sums(uf_tensor *gradient, bool of_last_axis, double *sums) {
    const uf_shape shape = uf_tensor_shape(gradient);
    double *values = download(gradient);
    int64_t inner = 1;
    for (int32_t i = of_last_axis ? shape.rank : 2; i < shape.rank; ++i) {
        inner *= shape.extent[i];
    }
    for (int64_t i = 0; i < uf_tensor_count(gradient); ++i) {
        sums[i / inner % CHANNELS] += values[i];
    }
    free(values);
}

/* The gradient of the bias by the gradients of the uses. */
static void reference(fixture *f, const test_case *of, uf_program_options options, double *sums) {
    uf_pass pass = pass_of(f, true);
    uf_program *program;
    options.passes = &pass;
    memset(sums, 0, CHANNELS * sizeof *sums);
    assert_ok(uf_program_compile(f->graph, &options, &program));
    fill_program(program, &pass, 1);
    assert_ok(uf_program_run(program));
    for (int32_t i = 0; i < f->network.use_count; ++i) {
        add_sums(uf_program_gradient(program, 0, f->network.uses[i]), of->of_last_axis, sums);
    }
    uf_program_destroy(program);
}

static void assert_all(const char *name, const double *values, double expected) {
    for (int i = 0; i < CHANNELS; ++i) {
        if (!(values[i] == expected)) {
            fail_msg("%s: element %d of the bias's gradient is %g, not %g", name, i, values[i],
                     expected);
        }
    }
}

/* A case in f64, of every way to plan and to fuse. */
static void check_case(const test_case *of, bool evaluated) {
    fixture f = open_fixture(of, UF_F64);
    const uf_scope_mode mode = {.scope = uf_at(f.store, "norm"), .mode = UF_EVAL};
    const int sums = evaluated ? of->evaluated : of->sums;
    double expected[CHANNELS], got[CHANNELS], size = 0.0;
    for (int way = 0; way < 8; ++way) {
        const uf_pass pass = pass_of(&f, way % 2 == 1);
        uf_program_options options = options_of(UF_F64, &pass, 1);
        options.fuse = way / 2 % 2 == 0;
        options.plan = way / 4 == 0 ? UF_PLAN_REUSE : UF_PLAN_POISON;
        options.scope_modes = &mode;
        options.scope_mode_count = evaluated;
        reference(&f, of, options, expected);
        put_gradient(&f, (double)NAN);
        begin_counting(f.context);
        run_program(&f, &options);
        f.context->kernels = f.context->device->kernels;
        get_gradient(&f, got);
        if (sums_made != sums || sums_sized != sums) {
            fail_msg("%s: %d sums and %d workspaces, not %d", of->name, sums_made, sums_sized,
                     sums);
        }
        if (sums == 0) {
            assert_all(of->name, got, 0.0);
        }
        for (int i = 0; i < CHANNELS; ++i) {
            size = fmax(size, fabs(expected[i]));
        }
        if (sums == 0 ? size > 1e-12 : size < 1e-3) {
            fail_msg("%s: the sums of the gradient are as large as %g", of->name, size);
        }
        assert_close(of->name, compare_absolute(got, expected, CHANNELS), 1e-12 * fmax(size, 1.0));
    }
    close_fixture(&f);
}

static void test_cases(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        check_case(&cases[i], false);
        check_case(&cases[i], true);
    }
}

/* Zeros are exact in every type; where there is a sum, it is of the type's accuracy. */
static void test_types(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F32, UF_BF16};
    for (int64_t i = 0; i < COUNT_OF(cases) * COUNT_OF(dtypes); ++i) {
        const test_case *of = &cases[i / COUNT_OF(dtypes)];
        const uf_dtype dtype = dtypes[i % COUNT_OF(dtypes)];
        fixture f = open_fixture(of, dtype);
        const uf_pass pass = pass_of(&f, false);
        const uf_program_options options = options_of(dtype, &pass, 1);
        double expected[CHANNELS], got[CHANNELS];
        reference(&f, of, options, expected);
        put_gradient(&f, (double)NAN);
        begin_counting(f.context);
        run_program(&f, &options);
        get_gradient(&f, got);
        assert_int_equal(sums_made, of->sums);
        if (of->sums == 0) {
            assert_all(of->name, got, 0.0);
        } else if (f.network.use_count == 1) { /* a use in front of a norm has noise to its sum */
            assert_close(of->name, compare_values(got, expected, CHANNELS, 1.0), 1e-5);
        }
        close_fixture(&f);
    }
}

/* A pass that accumulates leaves what is there. */
static void test_accumulation(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        fixture f = open_fixture(&cases[i], UF_F64);
        uf_pass pass = pass_of(&f, false);
        pass.accumulate = true;
        const uf_program_options options = options_of(UF_F64, &pass, 1);
        double expected[CHANNELS], got[CHANNELS];
        reference(&f, &cases[i], options, expected);
        put_gradient(&f, 3.0);
        begin_counting(f.context);
        run_program(&f, &options);
        get_gradient(&f, got);
        assert_int_equal(sums_made, cases[i].sums);
        if (cases[i].sums == 0) {
            assert_all(cases[i].name, got, 3.0);
        }
        for (int c = 0; c < CHANNELS; ++c) {
            expected[c] += 3.0;
        }
        assert_close(cases[i].name, compare_values(got, expected, CHANNELS, 1.0), 1e-12);
        close_fixture(&f);
    }
}

/* A layer in front of a norm in one pass and not in the other, whose gradients are added. */
static void test_passes(void **state) {
    (void)state;
    static const test_case of = {"passes", first_has_norm, 1, 1, false};
    for (int order = 0; order < 4; ++order) {
        const bool swapped = order % 2 == 1, accumulates = order / 2 == 1;
        fixture f = open_fixture(&of, UF_F64);
        uf_pass passes[2] = {pass_of(&f, true), pass_of(&f, true)};
        for (int p = 0; p < 2; ++p) { /* use 0 is in front of the norm */
            passes[p].losses = &f.network.losses[swapped ? 1 - p : p];
            passes[p].inputs = &f.network.uses[swapped ? 1 - p : p];
            passes[p].loss_count = passes[p].input_count = 1;
        }
        passes[1].accumulate = accumulates;
        const uf_program_options options = options_of(UF_F64, passes, 2);
        uf_program *program;
        double expected[CHANNELS] = {0}, got[CHANNELS];
        put_gradient(&f, (double)NAN);
        begin_counting(f.context);
        assert_ok(uf_program_compile(f.graph, &options, &program));
        fill_program(program, passes, 2);
        assert_ok(uf_program_run(program));
        get_gradient(&f, got);
        const int plain = swapped ? 0 : 1; /* the pass that sums */
        assert_int_equal(sums_made, 1);
        if (plain == 1 || accumulates) {
            add_sums(uf_program_gradient(program, plain, f.network.uses[1]), false, expected);
            assert_close("passes", compare_values(got, expected, CHANNELS, 0.0), 1e-12);
        } else {
            assert_all("the norm's pass comes last", got, 0.0);
        }
        close_fixture(&f);
    }
}

/* One pass knows nothing of another: in the second the layer's output is the loss. */
static void test_later_loss(void **state) {
    (void)state;
    static const test_case of = {"later loss", activated, 0, 1, false};
    fixture f = open_fixture(&of, UF_F64);
    uf_pass passes[2] = {pass_of(&f, true), pass_of(&f, true)};
    passes[1].losses = f.network.uses;
    const uf_program_options options = options_of(UF_F64, passes, 2);
    uf_program *program;
    double expected[CHANNELS] = {0}, got[CHANNELS];
    put_gradient(&f, (double)NAN);
    assert_ok(uf_program_compile(f.graph, &options, &program));
    fill_program(program, passes, 2);
    assert_ok(uf_program_run(program));
    get_gradient(&f, got);
    add_sums(uf_program_gradient(program, 1, f.network.uses[0]), false, expected);
    assert_close("later loss", compare_values(got, expected, CHANNELS, 0.0), 1e-12);
    close_fixture(&f);
}

/* Two layers at a distance in the store, whose zeros are written together, and none beside them. */
static network two_layers(uf_graph *graph, uf_store *store) {
    const uf_value use = conv(graph, store, image(graph));
    uf_value x = uf_leaky_relu(graph, norm(graph, store, use, "norm"), 0.1);
    x = uf_conv2d(graph, x, uf_at(store, "second"), 70, UF_CONV2D(3, 1, 1, true));
    x = uf_leaky_relu(graph, norm(graph, store, x, "second_norm"), 0.1);
    x = uf_conv2d(graph, x, uf_at(store, "last"), 2, UF_CONV2D(3, 1, 1, true));
    return single(use, x);
}

/* More biases than one launch takes. */
static network many_layers(uf_graph *graph, uf_store *store) {
    uf_value x = uf_input(graph, "x", UF_SHAPE(5, CHANNELS));
    uf_value use = {0};
    for (int i = 0; i < UF_ZERO_SPANS + 6; ++i) {
        const uf_scope scope = i == 0 ? uf_at(store, "layer") : uf_atf(store, "layer_%d", i);
        const uf_value y = uf_linear(graph, x, scope, CHANNELS, true);
        x = uf_leaky_relu(graph, uf_batch_norm1d(graph, y, uf_atf(store, "norm_%d", i), NULL), 0.5);
        use = i == 0 ? y : use;
    }
    return single(use, x);
}

/* The gradient of tensor `index`; NULL: it has none. */
static uf_tensor *gradient_at(const fixture *f, int64_t index) {
    uf_store_entry entry;
    uf_tensor *tensor = NULL;
    assert_ok(uf_store_entry_at(f->store, index, &entry));
    if (entry.role == UF_ROLE_PARAMETER) {
        assert_ok(uf_store_gradient(f->store, entry.name, &tensor));
    }
    return tensor;
}

static void test_many(void **state) {
    (void)state;
    static const test_case of = {"many", many_layers, 0, 1, false};
    fixture f = open_fixture(&of, UF_F32);
    const uf_pass pass = pass_of(&f, false);
    const uf_program_options options = options_of(UF_F32, &pass, 1);
    double values[CHANNELS * CHANNELS];
    int zeros = 0;
    for (int64_t t = 0; t < uf_store_size(f.store); ++t) {
        uf_tensor *tensor = gradient_at(&f, t);
        for (int64_t k = 0; k < COUNT_OF(values); ++k) {
            values[k] = (double)NAN;
        }
        if (tensor != NULL) {
            assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, uf_tensor_count(tensor)));
        }
    }
    run_program(&f, &options);
    for (int64_t t = 0; t < uf_store_size(f.store); ++t) {
        uf_tensor *tensor = gradient_at(&f, t);
        const int64_t count = tensor != NULL ? uf_tensor_count(tensor) : 0;
        bool zero = count > 0;
        if (count > 0) {
            assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
        }
        for (int64_t k = 0; k < count; ++k) {
            assert_true(isfinite(values[k]));
            zero = zero && values[k] == 0.0;
        }
        zeros += zero;
    }
    assert_int_equal(zeros, UF_ZERO_SPANS + 6);
    close_fixture(&f);
}

/* Clipping and optimizers see zeros: without decay the biases stay, and nothing else does. */
static void check_training(uf_dtype dtype) {
    static const test_case of = {"training", two_layers, 1, 2, false};
    enum { MOST = 32, RUNS = 4 };
    fixture f = open_fixture(&of, dtype);
    uf_optimizer *adam;
    uf_adam_options adam_options = uf_adam_options_default();
    adam_options.lr = 0.01;
    assert_ok(uf_optimizer_create_adam(f.store, &adam_options, &adam));
    uf_pass pass = pass_of(&f, false);
    pass.optimizers = &adam;
    pass.optimizer_count = 1;
    pass.clip_norm = 0.5;
    const uf_program_options options = options_of(dtype, &pass, 1);
    uf_program *program;
    double *before[MOST];
    uf_tensor *tensors[MOST];
    uf_store_entry entries[MOST];
    const int64_t size = uf_store_size(f.store);
    assert_true(size <= MOST);
    for (int64_t t = 0; t < size; ++t) {
        assert_ok(uf_store_entry_at(f.store, t, &entries[t]));
        assert_ok(uf_store_tensor(f.store, entries[t].name, &tensors[t]));
        before[t] = entries[t].role == UF_ROLE_PARAMETER ? download(tensors[t]) : NULL;
    }
    put_gradient(&f, (double)NAN); /* the norm of the gradients is finite all the same */
    begin_counting(f.context);
    assert_ok(uf_program_compile(f.graph, &options, &program));
    fill_program(program, &pass, 1);
    for (int run = 0; run < RUNS; ++run) { /* on a GPU the last are replays, which call nothing */
        assert_ok(uf_program_run(program));
    }
    assert_int_equal(sums_made, test_on_gpu() ? 2 : RUNS);
    for (int64_t t = 0; t < size; ++t) {
        const char *name = entries[t].name;
        const bool stays = strcmp(name, "layer.bias") == 0 || strcmp(name, "second.bias") == 0;
        double *after = download(tensors[t]);
        for (int64_t k = 0; before[t] != NULL && k < uf_tensor_count(tensors[t]); ++k) {
            if (!isfinite(after[k]) || (after[k] == before[t][k]) != stays) {
                fail_msg("%s: element %d went from %g to %g", name, (int)k, before[t][k], after[k]);
            }
        }
        free(after);
        free(before[t]);
    }
    close_fixture(&f);
}

static void test_training(void **state) {
    (void)state;
    check_training(UF_F32);
    check_training(UF_F64);
    check_training(UF_BF16);
}

/* A bias that is a value of the graph has its sum. */
static void test_by_value(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    uf_graph *graph;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = image(graph);
    const uf_value weight = uf_input(graph, "weight", UF_SHAPE(CHANNELS, 2, 3, 3));
    const uf_value bias = uf_input(graph, "bias", UF_SHAPE(CHANNELS));
    const uf_value use = uf_conv2d_with(graph, x, weight, bias, UF_CONV2D(3, 1, 1, true));
    const uf_value y = uf_instance_norm2d(graph, use, (uf_scope){0}, NULL);
    uf_pass pass = uf_pass_default();
    pass.losses = &y;
    pass.inputs = &bias;
    pass.loss_count = pass.input_count = 1;
    pass.external_seeds = true;
    const uf_program_options options = options_of(UF_F64, &pass, 1);
    uf_program *program;
    begin_counting(context);
    assert_ok(uf_program_compile(graph, &options, &program));
    fill_program(program, &pass, 1);
    fill(uf_program_input(program, "weight"), "weight");
    fill(uf_program_input(program, "bias"), "bias");
    assert_ok(uf_program_run(program));
    assert_int_equal(sums_made, 1);
    double *got = download(uf_program_gradient(program, 0, bias));
    for (int i = 0; i < CHANNELS; ++i) {
        assert_true(fabs(got[i]) < 1e-12);
    }
    free(got);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),        cmocka_unit_test(test_types),
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_passes),
        cmocka_unit_test(test_later_loss),   cmocka_unit_test(test_training),
        cmocka_unit_test(test_many),         cmocka_unit_test(test_by_value),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("zero_bias", tests, NULL, NULL);
}
