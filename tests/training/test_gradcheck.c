/* test_gradcheck.c - the gradient check passes what is right, and fails every kernel with a defect
 * in it. */
#include "support/test.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/store.h"
#include "gradcheck/cases.h"
#include "sabotage.h"

static uf_gradcheck_options default_options(void) {
    return uf_gradcheck_options_default();
}

/* ---- what is right passes ---- */

static void check_table(int32_t projections) {
    uf_context *context = test_context(2);
    int64_t checked = 0;
    const gradcheck_case *one;
    int count = 0;
    for (; (one = gradcheck_case_at(count)) != NULL; ++count) {
        uf_gradcheck_options options = default_options();
        uf_gradcheck_result result;
        options.projections = projections;
        assert_ok(gradcheck_case_run(one, context, &options, &result));
        if (!result.passed || result.failed != 0 || result.checked < 1 ||
            !(result.worst_ratio <= 1.0) || (one->smooth && result.skipped != 0)) {
            fail_msg("%s, %s: %lld checked, %lld skipped, %lld failed; worst %s[%lld]: %.12g, "
                     "numeric %.12g",
                     one->layer, one->what, (long long)result.checked, (long long)result.skipped,
                     (long long)result.failed, result.worst_tensor, (long long)result.worst_index,
                     result.worst_analytic, result.worst_numeric);
        }
        checked += result.checked;
    }
    print_message("%d cases, %lld comparisons\n", count, (long long)checked);
    uf_context_destroy(context);
}

static void test_table(void **state) {
    (void)state;
    check_table(0);
}

static void test_table_fast(void **state) {
    (void)state;
    check_table(4);
}

/* A layer that nobody checks is a defect, and so is a case of a layer that does not exist. */
static void test_every_layer_has_a_case(void **state) {
    (void)state;
    static const char *const layers[] = {
#define UF_LAYER(name) #name,
#include "layers/layers.def"
#undef UF_LAYER
    };
    for (int64_t l = 0; l < COUNT_OF(layers); ++l) {
        int cases = 0;
        const gradcheck_case *one;
        for (int i = 0; (one = gradcheck_case_at(i)) != NULL; ++i) {
            cases += strcmp(one->layer, layers[l]) == 0 ? 1 : 0;
        }
        if (cases == 0) {
            fail_msg("layer %s of layers.def has no case in tools/gradcheck/", layers[l]);
        }
    }
    const gradcheck_case *one;
    for (int i = 0; (one = gradcheck_case_at(i)) != NULL; ++i) {
        bool known = strcmp(one->layer, "network") == 0;
        for (int64_t l = 0; l < COUNT_OF(layers); ++l) {
            known = known || strcmp(one->layer, layers[l]) == 0;
        }
        assert_true(known);
    }
}

/* ---- what is wrong fails ---- */

static uf_conv2d_options small_conv(int64_t groups) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = options.padding[1] = 1;
    options.groups = groups;
    return options;
}

static uf_value conv(uf_graph *graph, uf_store *store, uf_value x, int64_t groups) {
    const uf_conv2d_options options = small_conv(groups);
    return uf_conv2d(graph, x, uf_at(store, "layer"), uf_value_shape(graph, x).extent[1], &options);
}

static uf_value conv_transpose(uf_graph *graph, uf_store *store, uf_value x, int64_t groups) {
    const uf_conv2d_options shared = small_conv(groups);
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    memcpy(options.stride, shared.stride, sizeof options.stride);
    memcpy(options.padding, shared.padding, sizeof options.padding);
    options.groups = groups;
    return uf_conv_transpose2d(graph, x, uf_at(store, "layer"), uf_value_shape(graph, x).extent[1],
                               &options);
}

static void build(uf_graph *graph, uf_store *store, sabotage_graph kind) {
    const uf_scope norm = uf_at(store, "layer");
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    uf_value y = x, second = {0};
    const uf_value twice[2] = {x, x};
    uf_value target = {0};
    if (kind >= GRAPH_BCE_WITH_LOGITS) {
        target = uf_input(graph, "target", UF_SHAPE(2, 4, 5, 4));
    }
    switch (kind) {
    case GRAPH_CONV_TRANSPOSE_TWICE:
        second = conv_transpose(graph, store, x, 1);
        y = conv_transpose(graph, store, x, 1);
        break;
    case GRAPH_CONV_TRANSPOSE:
        y = conv_transpose(graph, store, x, 1);
        break;
    case GRAPH_CONV_TRANSPOSE_GROUPS:
        y = conv_transpose(graph, store, x, 2);
        break;
    case GRAPH_CONV_TWICE:
        second = conv(graph, store, x, 1);
        y = conv(graph, store, x, 1);
        break;
    case GRAPH_CONV:
        y = conv(graph, store, x, 1);
        break;
    case GRAPH_CONV_GROUPS:
        y = conv(graph, store, x, 2);
        break;
    case GRAPH_LEAKY_RELU:
        y = uf_leaky_relu(graph, x, 0.2);
        break;
    case GRAPH_TANH:
        y = uf_tanh(graph, x);
        break;
    case GRAPH_SIGMOID_TWICE:
        second = uf_sigmoid(graph, x);
        y = uf_sigmoid(graph, x);
        break;
    case GRAPH_BATCH_NORM_TWICE:
        second = uf_batch_norm2d(graph, x, norm, NULL);
        y = uf_batch_norm2d(graph, x, norm, NULL);
        break;
    case GRAPH_BATCH_NORM:
    case GRAPH_BATCH_NORM_EVAL:
        y = uf_batch_norm2d(graph, x, norm, NULL);
        break;
    case GRAPH_PAD_ZERO:
        y = uf_pad2d(graph, x, UF_PAD_ZERO, 1, 2, 1, 2);
        break;
    case GRAPH_PAD_REPLICATE:
        y = uf_pad2d(graph, x, UF_PAD_REPLICATE, 1, 2, 1, 2);
        break;
    case GRAPH_PAD_REFLECT:
        y = uf_pad2d(graph, x, UF_PAD_REFLECT, 1, 2, 1, 2);
        break;
    case GRAPH_PAD_TWICE:
        second = uf_pad2d(graph, x, UF_PAD_REFLECT, 1, 2, 1, 2);
        y = uf_pad2d(graph, x, UF_PAD_REPLICATE, 1, 2, 1, 2);
        break;
    case GRAPH_CONCAT: {
        const uf_value parts[2] = {x, uf_input(graph, "other", UF_SHAPE(2, 3, 5, 4))};
        y = uf_concat(graph, parts, 2);
        break;
    }
    case GRAPH_CONCAT_SAME:
        y = uf_concat(graph, twice, 2);
        break;
    case GRAPH_RESHAPE_TWICE:
        second = uf_reshape(graph, x, UF_SHAPE(4, 40));
        y = uf_reshape(graph, x, UF_SHAPE(2, 80));
        break;
    case GRAPH_RESHAPE:
        y = uf_reshape(graph, x, UF_SHAPE(2, 80));
        break;
    case GRAPH_FUSED:
        y = uf_leaky_relu(graph, conv_transpose(graph, store, x, 1), 0.2);
        y = uf_tanh(graph, uf_batch_norm2d(graph, y, uf_at(store, "norm"), NULL));
        break;
    case GRAPH_BCE_WITH_LOGITS:
        y = uf_bce_with_logits_loss(graph, x, target);
        break;
    case GRAPH_BCE:
        y = uf_bce_loss(graph, uf_sigmoid(graph, x), target);
        break;
    case GRAPH_MSE_TWICE:
        second = uf_mse_loss(graph, x, target);
        y = uf_mse_loss(graph, x, uf_full_like(graph, x, 0.5));
        break;
    case GRAPH_MSE:
        y = uf_mse_loss(graph, x, target);
        break;
    case GRAPH_L1:
        y = uf_l1_loss(graph, x, target);
        break;
    }
    uf_output(graph, "y", y);
    if (second.id != 0) {
        uf_output(graph, "second", second);
    }
}

/* Weights and statistics that hide nothing: none is 0 or 1. */
static void fill(uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        assert_ok(uf_store_entry_at(store, i, &entry));
        if (entry.role != UF_ROLE_COUNTER) {
            assert_ok(uf_init_uniform(store, entry.name, 0.3, entry.shape.rank == 1 ? 1.7 : 0.9));
        }
    }
}

static uf_gradcheck_result check(const sabotage *one, sabotage_graph kind, int32_t projections) {
    uf_context *context = test_context(2);
    uf_store *store;
    uf_graph *graph;
    uf_gradcheck_result result;
    uf_gradcheck_options options = default_options();
    options.projections = projections;
    options.mode = kind == GRAPH_BATCH_NORM_EVAL ? UF_EVAL : UF_TRAIN;
    assert_ok(uf_store_create(context, "store", &store));
    assert_ok(uf_graph_create(context, &graph));
    if (one != NULL && one->build != NULL) {
        one->build(graph, store);
    } else {
        build(graph, store, kind);
    }
    fill(store);
    sabotage_apply(context, one);
    assert_ok(uf_gradcheck(graph, &options, &result));
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    uf_context_destroy(context);
    return result;
}

static void test_controls(void **state) {
    (void)state;
    for (int kind = 0; kind <= GRAPH_MSE_TWICE; ++kind) {
        for (int32_t projections = 0; projections <= 8; projections += 8) {
            const uf_gradcheck_result result = check(NULL, (sabotage_graph)kind, projections);
            if (!result.passed || result.failed != 0 || result.skipped != 0 || result.checked < 1) {
                fail_msg("graph %d is right, yet %s[%lld]: %.12g, numeric %.12g", kind,
                         result.worst_tensor, (long long)result.worst_index, result.worst_analytic,
                         result.worst_numeric);
            }
        }
    }
    const uf_gradcheck_result result = check(&sabotage_control, sabotage_control.graph, 0);
    assert_true(result.passed);
    assert_int_equal(sabotage_hits(), 1);
}

/* The element-wise mode sees every defect; so does the fast one, but for a single slightly wrong
 * element. */
static void test_sabotage(void **state) {
    (void)state;
    int missed = 0, count = 0;
    const sabotage *one;
    for (; (one = sabotage_at(count)) != NULL; ++count) {
        for (int32_t projections = 0; projections <= 8; projections += 8) {
            if (projections > 0 && strstr(one->name, "1%") != NULL) {
                continue;
            }
            const uf_gradcheck_result result = check(one, one->graph, projections);
            if (result.failed < 1 || result.passed || sabotage_hits() < 1) {
                print_error("not caught (%d projections, spoiled %lld times): %s\n",
                            (int)projections, (long long)sabotage_hits(), one->name);
                ++missed;
            } else {
                assert_true(result.worst_ratio > 1.0 && result.worst_tensor[0] != '\0');
            }
        }
    }
    print_message("%d defects\n", count);
    assert_int_equal(missed, 0);
}

/* The graphs that bring their own: right while their kernels are. */
static void test_own_graphs(void **state) {
    (void)state;
    const sabotage *one;
    for (int i = 0; (one = sabotage_at(i)) != NULL; ++i) {
        if (one->build != NULL) {
            const sabotage right = {.name = one->name, .build = one->build, .graph = one->graph};
            const uf_gradcheck_result result = check(&right, right.graph, 0);
            if (!result.passed || result.failed != 0 || result.checked < 1) {
                fail_msg("%s: the graph is right, yet %s[%lld]: %.12g, numeric %.12g", one->name,
                         result.worst_tensor, (long long)result.worst_index, result.worst_analytic,
                         result.worst_numeric);
            }
        }
    }
}

/* Each kernel that backward can call, except those of no gradient, has a defect in the table. */
static void test_every_backward_kernel_is_sabotaged(void **state) {
    (void)state;
    /* A kernel that is new in kernels.def is expected to run backward, unless it stands here. */
    static const char *const elsewhere[] = {
        "activation_forward",
        "batch_norm_forward",
        "batch_norm_fold",
        "pad_forward",
        "fill",
        "loss_forward",
        "gradient_squares",
        "gradient_clip",
        "optimizer_advance",
        "optimizer_step",
        "random_fill",
        "broadcast",
        "reduce",
        "softmax_forward",
        "record_losses",
        "norm_forward",
        "cross_entropy_forward",
        "noise",
        "random_advance",
        "embedding_forward",
        "resample_forward",
        "pool_forward",
        "weight_norm_forward",
        "spectral_norm_forward",
    };
    static const struct {
        const char *name;
        size_t slot;
    } kernels[] = {
#define UF_KERNEL(name, args, cuda) {#name, offsetof(struct uf_kernels, name)},
#include "kernels/kernels.def"
#undef UF_KERNEL
    };
    for (int64_t k = 0; k < COUNT_OF(kernels); ++k) {
        int defects = 0;
        const sabotage *one;
        for (int i = 0; (one = sabotage_at(i)) != NULL; ++i) {
            defects += sabotage_slot(one) == kernels[k].slot ? 1 : 0;
        }
        bool wanted = true;
        for (int64_t i = 0; i < COUNT_OF(elsewhere); ++i) {
            wanted = wanted && strcmp(kernels[k].name, elsewhere[i]) != 0;
        }
        if (wanted && defects < 4) {
            fail_msg("kernel %s has %d defects: does backward call it? Then it needs 4 or more",
                     kernels[k].name, defects);
        }
    }
}

/* ---- kinks, results, options, errors ---- */

typedef struct bench {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} bench;

static bench open_bench(void) {
    bench b;
    b.context = test_context(1);
    assert_ok(uf_store_create(b.context, "store", &b.store));
    assert_ok(uf_graph_create(b.context, &b.graph));
    return b;
}

static void close_bench(const bench *b) {
    uf_graph_destroy(b->graph);
    uf_store_destroy(b->store);
    uf_context_destroy(b->context);
}

static void test_kinks(void **state) {
    (void)state;
    const double values[6] = {-1.0, 0.0, 0.5, 1e-9, 2.0, -1e-3};
    for (int spoil = 0; spoil < 2; ++spoil) {
        bench b = open_bench();
        uf_output(b.graph, "y", uf_relu(b.graph, uf_input(b.graph, "x", UF_SHAPE(1, 6))));
        const uf_gradcheck_input input = {"x", values};
        uf_gradcheck_options options = default_options();
        uf_gradcheck_result result;
        options.inputs = &input;
        options.input_count = 1;
        const sabotage *one;
        for (int i = 0; spoil == 1 && (one = sabotage_at(i)) != NULL; ++i) {
            if (one->activation != NULL && strstr(one->name, "wrong sign") != NULL) {
                sabotage_apply(b.context, one);
            }
        }
        assert_ok(uf_gradcheck(b.graph, &options, &result));
        assert_int_equal(result.skipped, 2); /* 0 and 1e-9: within eps of the kink */
        assert_int_equal(result.checked, 4);
        assert_int_equal(result.failed, spoil == 1 ? 2 : 0); /* 0.5 and 2; the rest have slope 0 */
        assert_int_equal(result.passed, spoil == 0);
        close_bench(&b);
    }
}

/* Where everything is a kink nothing has been shown. */
static void test_only_kinks(void **state) {
    (void)state;
    const double values[3] = {0.0, 0.0, 0.0};
    bench b = open_bench();
    uf_output(b.graph, "y", uf_relu(b.graph, uf_input(b.graph, "x", UF_SHAPE(1, 3))));
    const uf_gradcheck_input input = {"x", values};
    uf_gradcheck_options options = default_options();
    uf_gradcheck_result result;
    options.inputs = &input;
    options.input_count = 1;
    assert_ok(uf_gradcheck(b.graph, &options, &result));
    assert_int_equal(result.skipped, 3);
    assert_int_equal(result.checked, 0);
    assert_false(result.passed);
    close_bench(&b);
}

/* Every element of every input and parameter, once: tied weights count once, buffers and detached
 * inputs not. */
static void test_what_is_checked(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(2, 3, 4, 4));
    const uf_value held = uf_input(b.graph, "held", UF_SHAPE(2, 2, 4, 4));
    uf_conv2d_options same = uf_conv2d_options_default();
    same.padding[0] = same.padding[1] = 1;
    uf_value y = uf_conv2d(b.graph, x, uf_at(b.store, "conv"), 2, &same);
    y = uf_batch_norm2d(b.graph, y, uf_at(b.store, "norm"), NULL);
    uf_output(b.graph, "y", uf_add(b.graph, y, uf_detach(b.graph, held)));
    uf_output(b.graph, "again", uf_conv2d(b.graph, x, uf_at(b.store, "conv"), 2, &same));
    assert_ok(uf_init_default(b.graph, b.store));
    uf_tensor *weight, *counter;
    float before[54], after[54];
    assert_ok(uf_store_tensor(b.store, "conv.weight", &weight));
    assert_ok(uf_tensor_download(weight, before));
    const uint64_t version = uf_store_version(b.store);
    uf_gradcheck_result result;
    assert_ok(uf_gradcheck(b.graph, NULL, &result));
    assert_true(result.passed);
    assert_int_equal(result.checked, 2 * 3 * 4 * 4 + 2 * 3 * 9 + 2 + 2 + 2);
    assert_int_equal(result.skipped, 0);
    /* Neither the graph's store nor its gradients were touched. */
    assert_ok(uf_tensor_download(weight, after));
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(uf_store_version(b.store), version);
    assert_null(b.store->gradient_arena);
    assert_ok(uf_store_tensor(b.store, "norm.num_batches_tracked", &counter));
    int64_t batches = -1;
    assert_ok(uf_tensor_download(counter, &batches));
    assert_int_equal(batches, 0);
    close_bench(&b);
}

/* One of a batch norm's parameters is tied, so it is added to where the other is overwritten. */
static uf_value batch_norm(uf_graph *graph, uf_value x, uf_scope scope) {
    return uf_batch_norm2d(graph, x, scope, NULL);
}

static uf_value tracking_norm(uf_graph *graph, uf_value x, uf_scope scope) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.affine = options.track_running_stats = true;
    return uf_instance_norm2d(graph, x, scope, &options);
}

static void test_tied_norms(void **state) {
    (void)state;
    static const char *const names[2][2] = {{"a.weight", "b.weight"}, {"a.bias", "b.bias"}};
    static const struct {
        uf_value (*norm)(uf_graph *graph, uf_value x, uf_scope scope);
        uf_mode mode;
    } norms[] = {{batch_norm, UF_TRAIN}, {tracking_norm, UF_TRAIN}, {tracking_norm, UF_EVAL}};
    for (int i = 0; i < 2 * COUNT_OF(norms); ++i) {
        uf_value (*const norm)(uf_graph *, uf_value, uf_scope) = norms[i / 2].norm;
        const char *const *const tied = names[i % 2];
        bench b = open_bench();
        uf_value y = uf_input(b.graph, "x", UF_SHAPE(2, 3, 4, 4));
        y = uf_tanh(b.graph, norm(b.graph, y, uf_at(b.store, "a")));
        assert_ok(uf_store_alias(b.store, tied[1], tied[0]));
        y = norm(b.graph, y, uf_at(b.store, "b"));
        uf_output(b.graph, "y", uf_tanh(b.graph, y));
        assert_ok(uf_init_default(b.graph, b.store));
        uf_gradcheck_options check = uf_gradcheck_options_default();
        uf_gradcheck_result result;
        check.mode = norms[i / 2].mode;
        assert_ok(uf_gradcheck(b.graph, &check, &result));
        assert_true(result.passed);
        assert_int_equal(result.checked, 2 * 3 * 4 * 4 + 3 * 3);
        /* No gradient is left over from the run before. */
        const uf_value loss = uf_mse_loss(b.graph, y, uf_full_like(b.graph, y, 0.25));
        uf_pass pass = uf_pass_default();
        pass.losses = &loss;
        pass.loss_count = 1;
        pass.stores = &b.store;
        pass.store_count = 1;
        uf_program_options options = uf_program_options_default();
        options.mode = norms[i / 2].mode;
        options.passes = &pass;
        options.pass_count = 1;
        uf_program *program;
        uf_tensor *gradient;
        float bias[2][3];
        assert_ok(uf_program_compile(b.graph, &options, &program));
        assert_ok(uf_store_gradient(b.store, "a.bias", &gradient));
        for (int run = 0; run < 2; ++run) {
            assert_ok(uf_program_run(program));
            assert_ok(uf_tensor_download(gradient, bias[run]));
        }
        assert_memory_equal(bias[0], bias[1], sizeof bias[0]);
        uf_program_destroy(program);
        close_bench(&b);
    }
}

static void test_scope_modes(void **state) {
    (void)state;
    bench b = open_bench();
    const uf_value x =
        uf_input(b.graph, "x", UF_SHAPE(1, 2, 1, 1)); /* too little to train a batch norm on */
    uf_output(b.graph, "y", uf_batch_norm2d(b.graph, x, uf_at(b.store, "norm"), NULL));
    assert_ok(uf_init_default(b.graph, b.store));
    uf_gradcheck_result result;
    uf_gradcheck_options options = default_options();
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT,
                 "more than 1 value");
    const uf_scope_mode frozen = {uf_at(b.store, "norm"), UF_EVAL};
    options.scope_modes = &frozen;
    options.scope_mode_count = 1;
    assert_ok(uf_gradcheck(b.graph, &options, &result));
    assert_true(result.passed);
    close_bench(&b);
}

static void test_errors(void **state) {
    (void)state;
    bench b = open_bench();
    uf_gradcheck_result result;
    uf_gradcheck_options options = default_options();
    const uf_value x = uf_input(b.graph, "x", UF_SHAPE(2, 3));
    uf_output(b.graph, "y", uf_detach(b.graph, x));
    assert_error(uf_gradcheck(b.graph, NULL, &result), UF_ERROR_INVALID_ARGUMENT, "no output",
                 "depends");
    uf_output(b.graph, "z", uf_tanh(b.graph, x));
    assert_ok(uf_gradcheck(b.graph, NULL, &result));
    assert_int_equal(result.checked, 6);
    options.eps = 0.0;
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT, "eps 0");
    options = default_options();
    options.projections = -1;
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT,
                 "projections");
    options = default_options();
    options.struct_size = 3;
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT,
                 "uf_gradcheck_options");
    const double values[6] = {0};
    const uf_gradcheck_input unknown = {"q", values}, empty = {"x", NULL};
    options = default_options();
    options.inputs = &unknown;
    options.input_count = 1;
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT, "inputs[0]");
    options.inputs = &empty;
    assert_error(uf_gradcheck(b.graph, &options, &result), UF_ERROR_INVALID_ARGUMENT, "inputs[0]");
    assert_error(uf_gradcheck(NULL, NULL, &result), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_gradcheck(b.graph, NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    (void)uf_reshape(b.graph, x, UF_SHAPE(4));
    assert_error(uf_gradcheck(b.graph, NULL, &result), UF_ERROR_SHAPE, "reshape");
    close_bench(&b);
}

/* A gradient or a value that is not finite is wrong, not uncomparable. */
static void test_not_finite(void **state) {
    (void)state;
    const double values[2] = {(double)NAN, 1.0};
    bench b = open_bench();
    uf_output(b.graph, "y", uf_tanh(b.graph, uf_input(b.graph, "x", UF_SHAPE(1, 2))));
    const uf_gradcheck_input input = {"x", values};
    uf_gradcheck_options options = default_options();
    uf_gradcheck_result result;
    options.inputs = &input;
    options.input_count = 1;
    assert_ok(uf_gradcheck(b.graph, &options, &result));
    assert_false(result.passed);
    assert_true(result.failed > 0);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_fast),
        cmocka_unit_test(test_every_layer_has_a_case),
        cmocka_unit_test(test_controls),
        cmocka_unit_test(test_sabotage),
        cmocka_unit_test(test_own_graphs),
        cmocka_unit_test(test_every_backward_kernel_is_sabotaged),
        cmocka_unit_test(test_kinks),
        cmocka_unit_test(test_only_kinks),
        cmocka_unit_test(test_what_is_checked),
        cmocka_unit_test(test_tied_norms),
        cmocka_unit_test(test_scope_modes),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
