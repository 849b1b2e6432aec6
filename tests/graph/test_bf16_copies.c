/* test_bf16_copies.c - the bf16 copies of weights in programs that train: an optimizer writes them
 * with the weights, no run makes one by a step of its own, and whatever else changes a weight is
 * seen. Everything is held to a twin whose copies are made anew before each run. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/network.h"

enum { BATCH = 2, CHANNELS = 8, SIZE = 6, INPUTS = BATCH * CHANNELS * SIZE * SIZE, LOSSES = 2 };

static const uf_optimizer_rule rules[] = {
    {.kind = UF_OPTIMIZER_SGD},
    {.kind = UF_OPTIMIZER_SGD, .momentum = 0.9},
    {.kind = UF_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true},
    {.kind = UF_OPTIMIZER_ADAM},
    {.kind = UF_OPTIMIZER_ADAM, .decoupled = true},
    {.kind = UF_OPTIMIZER_RMSPROP},
    {.kind = UF_OPTIMIZER_RMSPROP, .momentum = 0.5}};

typedef struct setting {
    const uf_optimizer_rule *rule;
    double lr, clip_norm, clip_value;
    bool groups; /* a part at half of the rate, a part that is frozen */
    uf_plan plan;
    bool step_by_step; /* no recording on a GPU */
} setting;

static const setting plain = {.rule = &rules[3], .lr = 1e-3};

/* A training of two passes on one store: a network's step, then a step with the new weights. */
typedef struct rig {
    bool renews; /* the twin: says before each run that the store changed */
    uf_context *context;
    uf_store *store, *fixed;
    uf_graph *graph;
    uf_value losses[LOSSES];
    uf_optimizer *optimizer;
    uf_program *program;
    test_random random;
    int runs;
} rig;

/* Every kind of layer that reads a parameter in bf16, and norms, which read f32, around them. */
static uf_value network(uf_graph *graph, uf_store *store, uf_store *fixed, uf_value x) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 3;
    conv.padding[0] = conv.padding[1] = 1;
    x = uf_batch_norm2d(graph, x, uf_at(store, "first"), NULL);
    x = uf_conv2d(graph, x, uf_at(fixed, "trunk"), CHANNELS, &conv);
    x = uf_conv2d(graph, x, uf_at(store, "down"), 3 * CHANNELS, &conv);
    x = uf_leaky_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "norm"), NULL), 0.2);
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    up.kernel[0] = up.kernel[1] = 4;
    up.stride[0] = up.stride[1] = 2;
    up.padding[0] = up.padding[1] = 1;
    x = uf_conv_transpose2d(graph, x, uf_at(store, "up"), 3, &up);
    x = uf_prelu(graph, x, uf_at(store, "prelu"), 3);
    x = uf_reshape(graph, x, UF_SHAPE(BATCH, 3 * 4 * SIZE * SIZE));
    return uf_linear(graph, x, uf_at(store, "linear"), 7, true);
}

static uf_optimizer *make_optimizer(uf_store *store, const setting *of) {
    uf_optimizer *optimizer;
    if (of->rule->kind == UF_OPTIMIZER_ADAM) {
        uf_adam_options options = uf_adam_options_default();
        options.lr = of->lr;
        options.weight_decay = 0.01;
        options.decoupled = of->rule->decoupled;
        assert_ok(uf_optimizer_create_adam(store, &options, &optimizer));
    } else if (of->rule->kind == UF_OPTIMIZER_RMSPROP) {
        uf_rmsprop_options options = uf_rmsprop_options_default();
        options.lr = of->lr;
        options.momentum = of->rule->momentum;
        assert_ok(uf_optimizer_create_rmsprop(store, &options, &optimizer));
    } else {
        uf_sgd_options options = uf_sgd_options_default();
        options.lr = of->lr;
        options.momentum = of->rule->momentum;
        options.nesterov = of->rule->nesterov;
        assert_ok(uf_optimizer_create_sgd(store, &options, &optimizer));
    }
    if (of->groups) {
        uf_optimizer_group_options group = uf_optimizer_group_options_default();
        group.lr_factor = 0.5;
        assert_ok(uf_optimizer_group(optimizer, uf_at(store, "linear"), &group));
        group.lr_factor = 0.0;
        assert_ok(uf_optimizer_group(optimizer, uf_at(store, "up"), &group));
    }
    return optimizer;
}

static uf_program *compile(const rig *r, const setting *of, bool optimizes) {
    uf_pass passes[LOSSES] = {uf_pass_default(), uf_pass_default()};
    for (int p = 0; p < LOSSES; ++p) {
        passes[p].losses = &r->losses[p];
        passes[p].loss_count = passes[p].store_count = 1;
        passes[p].stores = &r->store;
        passes[p].optimizers = &r->optimizer;
        passes[p].optimizer_count = optimizes;
        passes[p].clip_norm = of->clip_norm;
        passes[p].clip_value = of->clip_value;
    }
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_BF16;
    options.mode = UF_TRAIN;
    options.plan = of->plan;
    options.capture = !of->step_by_step;
    options.passes = passes;
    options.pass_count = LOSSES;
    uf_program *program;
    assert_ok(uf_program_compile(r->graph, &options, &program));
    return program;
}

static rig open_rig(const setting *of, bool renews) {
    rig r = {.renews = renews, .context = test_context(2)};
    r.random = test_random_for("bf16 copies", 0);
    assert_ok(uf_store_create(r.context, "weights", &r.store));
    assert_ok(uf_store_create(r.context, "fixed", &r.fixed));
    assert_ok(uf_graph_create(r.context, &r.graph));
    const uf_value x = uf_input(r.graph, "x", UF_SHAPE(BATCH, CHANNELS, SIZE, SIZE));
    /* In front of all and behind all nothing is trained; a gap is between the two spans. */
    assert_ok(uf_store_declare(r.store, "before", UF_SHAPE(1000), UF_ROLE_PARAMETER));
    const uf_value y = network(r.graph, r.store, r.fixed, x);
    uf_output(r.graph, "aside", uf_linear(r.graph, x, uf_at(r.store, "aside"), 5, true));
    uf_conv2d_options late = uf_conv2d_options_default();
    const uf_value z =
        uf_batch_norm2d(r.graph, uf_conv2d(r.graph, x, uf_at(r.store, "late"), 2, &late),
                        uf_at(r.store, "last"), NULL);
    assert_ok(uf_store_declare(r.store, "behind", UF_SHAPE(1000), UF_ROLE_PARAMETER));
    const uf_value again = network(r.graph, r.store, r.fixed, x);
    r.losses[0] = uf_mse_loss(r.graph, y, uf_full_like(r.graph, y, 1.0));
    r.losses[1] = uf_add(r.graph, uf_mse_loss(r.graph, again, uf_full_like(r.graph, again, 0.0)),
                         uf_mse_loss(r.graph, z, uf_full_like(r.graph, z, 0.5)));
    assert_ok(uf_graph_status(r.graph));
    network_fill_store(r.store, &r.random);
    network_fill_store(r.fixed, &r.random);
    r.optimizer = make_optimizer(r.store, of);
    r.program = compile(&r, of, true);
    return r;
}

static void close_rig(rig *r) {
    uf_context_destroy(r->context);
}

/* One run of `program`; `losses` may be NULL. */
static void run_program(rig *r, uf_program *program, double *losses) {
    double values[INPUTS];
    int64_t step;
    bool finite;
    for (int i = 0; i < INPUTS; ++i) {
        values[i] = (double)((i * 37 + r->runs * 11) % 64 - 32) / 32.0;
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, values, INPUTS));
    if (r->renews) {
        uf_store_touch(r->store);
        uf_store_touch(r->fixed);
    }
    assert_ok(uf_program_run(program));
    assert_ok(uf_context_synchronize(r->context));
    r->runs += 1;
    if (losses != NULL) {
        assert_ok(uf_program_losses(program, losses, LOSSES, &step, &finite));
    }
}

static void run(rig *r, double *losses) {
    run_program(r, r->program, losses);
}

static unsigned char *downloaded(uf_context *context, const void *from, size_t size) {
    unsigned char *bytes = test_allocate(size);
    assert_ok(context->device->download(context, bytes, from, size));
    return bytes;
}

/* Each copy has the bits that the device's cast gives the weight as it now is. How many there are.
 */
static int64_t check_copies(const rig *r, const uf_program *program) {
    int64_t checked = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->kind != UF_STEP_CAST) {
            continue;
        }
        assert_true(step->kept);
        const uf_view copy = uf_program_view(program, step->output);
        const size_t size = (size_t)uf_view_count(&copy) * 2;
        uf_copy_kernel_args args = {.input = step->exec.inputs[0], .output = copy};
        assert_ok(uf_context_allocate(r->context, size, UF_MEMORY_DEVICE, &args.output.data));
        assert_ok(r->context->device->kernels->copy(r->context, &args));
        unsigned char *expected = downloaded(r->context, args.output.data, size);
        unsigned char *got = downloaded(r->context, copy.data, size);
        assert_same_bits(step->source.store->slots[step->source.slot].name, got, expected,
                         (int64_t)size);
        uf_context_release(r->context, args.output.data, size, UF_MEMORY_DEVICE);
        free(expected);
        free(got);
        checked += 1;
    }
    return checked;
}

/* Both have the same losses in another run, bit for bit, and then the same weights. */
static void run_both(rig *r, rig *twin, double losses[LOSSES]) {
    double expected[LOSSES];
    run(r, losses);
    run(twin, expected);
    assert_same_bits("losses", losses, expected, sizeof expected);
    const size_t size = r->store->arena_size[UF_ROLE_PARAMETER];
    unsigned char *a = downloaded(r->context, r->store->arena[UF_ROLE_PARAMETER], size);
    unsigned char *b = downloaded(twin->context, twin->store->arena[UF_ROLE_PARAMETER], size);
    assert_same_bits("weights", a, b, (int64_t)size);
    free(a);
    free(b);
    assert_true(check_copies(r, r->program) > 0);
}

/* ---- counting ---- */

static struct uf_kernels counting;
static int64_t casts;

static uf_status counted_copy(uf_context *context, const uf_copy_kernel_args *args) {
    casts += args->input.dtype == UF_F32 && args->output.dtype == UF_BF16;
    return context->device->kernels->copy(context, args);
}

/* No run casts; the first one, and the one after a change, make what is kept before their steps. */
static void test_no_cast_in_a_run(void **state) {
    (void)state;
    rig r = open_rig(&plain, false);
    counting = *r.context->device->kernels;
    counting.copy = counted_copy;
    r.context->kernels = &counting;
    const int64_t copies = 2 + 7 + 2 + 2; /* of fixed, of the network, of "late", of "aside" */
    for (int change = 0; change < 3; ++change) {
        casts = 0;
        run(&r, NULL);
        assert_int_equal(casts, copies);
        for (int more = 0; more < 4; ++more) {
            run(&r, NULL);
        }
        assert_int_equal(casts, copies);
        assert_int_equal(check_copies(&r, r.program), copies);
        if (change == 0) {
            uf_store_touch(r.store);
        } else {
            assert_ok(uf_init_uniform(r.fixed, "trunk.weight", -0.1, 0.1));
        }
    }
    uf_profile_row *rows;
    int64_t count;
    assert_ok(uf_program_profile(r.program, 1, &rows, &count));
    assert_true(count > 0);
    for (int64_t i = 0; i < count; ++i) {
        assert_string_not_equal(rows[i].step, "cast");
    }
    uf_profile_free(rows);
    close_rig(&r);
}

static bool is_recording(uf_context *context) {
    (void)context;
    return true;
}

/* Under a capture of the caller's each run has the casts in it, for nobody can tell his graph of a
 * change, and the run counts for nothing: the next one outside of it casts again. */
static void test_captured_by_the_caller(void **state) {
    (void)state;
    rig r = open_rig(&plain, false);
    const uf_device_ops *const own = r.context->device;
    uf_device_ops capturing = *own;
    counting = *own->kernels;
    counting.copy = counted_copy;
    capturing.is_recording = is_recording;
    for (int begun = 0; begun < 2; ++begun) {
        r.context->kernels = &counting;
        casts = 0;
        for (int n = 0; n < 2 * begun; ++n) {
            run(&r, NULL);
        }
        const int64_t copies = 2 + 7 + 2 + 2;
        assert_int_equal(casts, begun * copies);
        r.context->device = &capturing;
        run(&r, NULL);
        run(&r, NULL);
        assert_int_equal(casts, (begun + 2) * copies);
        r.context->device = own;
        run(&r, NULL);
        run(&r, NULL);
        assert_int_equal(casts, (begun + 3) * copies);
        assert_int_equal(check_copies(&r, r.program), copies);
        uf_store_touch(r.store);
    }
    close_rig(&r);
}

/* ---- optimizers ---- */

static void test_every_optimizer(void **state) {
    (void)state;
    static const uf_plan plans[] = {UF_PLAN_REUSE, UF_PLAN_NO_REUSE, UF_PLAN_POISON};
    for (int64_t c = 0; c < 4 * COUNT_OF(rules); ++c) {
        const setting of = {.rule = &rules[c / 4],
                            .lr = 1e-3,
                            .clip_norm = c % 4 == 2 ? 0.1 : 0.0,
                            .clip_value = c % 4 == 3 ? 1e-3 : 0.0,
                            .groups = c % 2 == 1,
                            .plan = plans[c % 3]};
        rig r = open_rig(&of, false), twin = open_rig(&of, true);
        double losses[5][LOSSES];
        for (int n = 0; n < 5; ++n) {
            run_both(&r, &twin, losses[n]);
        }
        assert_true(losses[0][0] != losses[4][0] && isfinite(losses[4][1]));
        close_rig(&r);
        close_rig(&twin);
    }
}

/* Weights beyond bf16's largest number, then not finite at all. */
static void test_not_finite(void **state) {
    (void)state;
    const setting of = {.rule = &rules[0], .lr = 1e30};
    rig r = open_rig(&of, false), twin = open_rig(&of, true);
    double losses[LOSSES] = {0.0};
    for (int n = 0; n < 4; ++n) {
        run(&r, losses);
        run(&twin, losses);
        assert_true(check_copies(&r, r.program) > 0);
    }
    assert_true(!isfinite(losses[0]));
    /* Good weights again. */
    network_fill_store(r.store, &r.random);
    network_fill_store(twin.store, &twin.random);
    assert_ok(uf_optimizer_set_learning_rate(r.optimizer, 1e-4));
    assert_ok(uf_optimizer_set_learning_rate(twin.optimizer, 1e-4));
    run_both(&r, &twin, losses);
    run_both(&r, &twin, losses);
    assert_true(isfinite(losses[0]));
    close_rig(&r);
    close_rig(&twin);
}

/* ---- other ways to change a weight ---- */

static void by_upload(rig *r) {
    network_upload_weight(r->store, "down.weight");
}

static void by_upload_as(rig *r) {
    uf_tensor *weight;
    assert_ok(uf_store_tensor(r->fixed, "trunk.bias", &weight));
    const double values[CHANNELS] = {0.5};
    assert_ok(uf_tensor_upload_as(weight, UF_F64, values, CHANNELS));
}

static void by_initialiser(rig *r) {
    assert_ok(uf_init_uniform(r->store, "up.weight", -0.2, 0.2));
}

static void by_default_initialiser(rig *r) {
    assert_ok(uf_init_default(r->graph, r->store));
}

static void by_touch(rig *r) {
    network_touch_weight(r->store, "linear.weight");
}

static void new_file(char *path) {
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
}

static void by_file(rig *r) {
    char path[] = "/tmp/unfurl-copies-XXXXXX";
    new_file(path);
    assert_ok(uf_weights_save(network_other_weights(r->store, &r->random), path, NULL));
    assert_ok(uf_weights_load(r->store, path, NULL));
    assert_int_equal(remove(path), 0);
}

static void by_checkpoint(rig *r) {
    char path[] = "/tmp/unfurl-copies-XXXXXX";
    new_file(path);
    uf_checkpoint_part part =
        uf_checkpoint_store("net", network_other_weights(r->store, &r->random));
    assert_ok(uf_checkpoint_save(path, &part, 1, NULL));
    part = uf_checkpoint_store("net", r->store);
    assert_ok(uf_checkpoint_load(path, &part, 1));
    assert_int_equal(remove(path), 0);
}

static void by_another_program(rig *r) {
    uf_program *other = compile(r, &plain, true);
    run_program(r, other, NULL);
    r->runs -= 1;
    uf_program_destroy(other);
}

static void by_a_step(rig *r) {
    assert_ok(uf_optimizer_step(r->optimizer));
}

static void by_average(rig *r) {
    network_average_weights(r->store, &r->random);
}

static void test_changes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*change)(rig *r);
    } ways[] = {{"upload", by_upload},
                {"upload_as", by_upload_as},
                {"initialiser", by_initialiser},
                {"default initialiser", by_default_initialiser},
                {"touch", by_touch},
                {"file", by_file},
                {"checkpoint", by_checkpoint},
                {"another program", by_another_program},
                {"a step of the caller's", by_a_step},
                {"average", by_average}};
    for (int64_t w = 0; w < COUNT_OF(ways); ++w) {
        rig r = open_rig(&plain, false), twin = open_rig(&plain, true);
        rig unchanged = open_rig(&plain, false);
        double losses[LOSSES], without[LOSSES];
        for (int n = 0; n < 3; ++n) { /* recorded by now */
            run_both(&r, &twin, losses);
            run(&unchanged, without);
        }
        print_message("%s\n", ways[w].name);
        ways[w].change(&r);
        ways[w].change(&twin);
        for (int n = 0; n < 2; ++n) {
            run_both(&r, &twin, losses);
            run(&unchanged, without);
            assert_memory_not_equal(losses, without, sizeof losses);
        }
        close_rig(&r);
        close_rig(&twin);
        close_rig(&unchanged);
    }
}

/* Two programs that train one store by turns. */
static void test_turns(void **state) {
    (void)state;
    static const bool second[] = {false, true, false, false, true, true, true, false};
    rig r = open_rig(&plain, false), twin = open_rig(&plain, true);
    uf_program *other = compile(&r, &plain, true), *its_twin = compile(&twin, &plain, true);
    double losses[LOSSES], expected[LOSSES];
    for (int64_t n = 0; n < COUNT_OF(second); ++n) {
        run_program(&r, second[n] ? other : r.program, losses);
        run_program(&twin, second[n] ? its_twin : twin.program, expected);
        assert_same_bits("turn", losses, expected, sizeof expected);
        assert_true(check_copies(&r, second[n] ? other : r.program) > 0);
    }
    close_rig(&r);
    close_rig(&twin);
}

/* Gradients alone from the program, and steps of the caller's. */
static void test_steps_by_hand(void **state) {
    (void)state;
    rig r = open_rig(&plain, false), twin = open_rig(&plain, true);
    r.program = compile(&r, &plain, false);
    twin.program = compile(&twin, &plain, false);
    double first[LOSSES], losses[LOSSES];
    run_both(&r, &twin, first);
    for (int n = 0; n < 3; ++n) {
        assert_ok(uf_optimizer_step(r.optimizer));
        assert_ok(uf_optimizer_step(twin.optimizer));
        run_both(&r, &twin, losses);
        assert_memory_not_equal(losses, first, sizeof losses);
    }
    close_rig(&r);
    close_rig(&twin);
}

/* Runs that are timed or searched are runs. */
static void test_watched(void **state) {
    (void)state;
    rig r = open_rig(&plain, false), twin = open_rig(&plain, true);
    double losses[LOSSES];
    run_both(&r, &twin, losses);
    uf_profile_row *rows;
    int64_t count;
    uf_nonfinite found;
    assert_ok(uf_program_profile(r.program, 2, &rows, &count));
    uf_profile_free(rows);
    assert_ok(uf_program_find_nonfinite(r.program, &found));
    assert_true(check_copies(&r, r.program) > 0);
    for (int n = 0; n < 3; ++n) {
        assert_ok(uf_program_run(twin.program));
    }
    run_both(&r, &twin, losses);
    close_rig(&r);
    close_rig(&twin);
}

/* A weight that f32 has and bf16 has not is found in its copy, before any layer read it. */
static void test_found_in_a_copy(void **state) {
    (void)state;
    rig r = open_rig(&plain, false);
    run(&r, NULL);
    uf_tensor *weight;
    assert_ok(uf_store_tensor(r.store, "up.bias", &weight));
    const float values[3] = {1.0f, -3.4e38f, 2.0f};
    assert_ok(uf_tensor_upload(weight, values));
    uf_nonfinite found;
    assert_ok(uf_program_find_nonfinite(r.program, &found));
    assert_true(found.found);
    assert_string_equal(found.name, "up.bias");
    assert_string_equal(found.layer, "cast");
    assert_int_equal(found.index, 1);
    assert_true(found.number == -(double)INFINITY);
    close_rig(&r);
}

/* ---- a run that fails ---- */

static bool failing;

static uf_status fail_behind_a_step(uf_context *context, const uf_optimizer_kernel_args *args) {
    uf_optimizer_kernel_args bare = *args;
    bare.copy = failing ? NULL : args->copy;
    UF_TRY(context->device->kernels->optimizer_step(context, &bare));
    return failing ? uf_fail(UF_ERROR_DEVICE, "the test fails here") : UF_OK;
}

/* The weights moved and the copies did not: the next run makes them again. */
static void test_failed_run(void **state) {
    (void)state;
    const setting of = {.rule = &rules[3], .lr = 1e-3, .step_by_step = true};
    rig r = open_rig(&of, false), twin = open_rig(&of, true);
    counting = *r.context->device->kernels;
    counting.optimizer_step = fail_behind_a_step;
    r.context->kernels = twin.context->kernels = &counting;
    double losses[LOSSES];
    run_both(&r, &twin, losses);
    failing = true;
    assert_error(uf_program_run(r.program), UF_ERROR_DEVICE, "fails here");
    assert_error(uf_program_run(twin.program), UF_ERROR_DEVICE, "fails here");
    failing = false;
    for (int n = 0; n < 3; ++n) {
        run_both(&r, &twin, losses);
    }
    close_rig(&r);
    close_rig(&twin);
}

/* ---- checkpoints, averages, memory ---- */

static void save_or_load(rig *r, const char *path, bool save) {
    const uf_checkpoint_part parts[] = {uf_checkpoint_store("net", r->store),
                                        uf_checkpoint_optimizer("net", r->optimizer)};
    assert_ok(save ? uf_checkpoint_save(path, parts, 2, NULL) : uf_checkpoint_load(path, parts, 2));
}

/* A training goes on from a checkpoint to the bit, in the same program and in another. */
static void test_resumed(void **state) {
    (void)state;
    char path[] = "/tmp/unfurl-copies-XXXXXX";
    new_file(path);
    rig r = open_rig(&plain, false), other = open_rig(&plain, false);
    double expected[2][LOSSES], losses[2][LOSSES];
    for (int n = 0; n < 3; ++n) {
        run(&r, NULL);
    }
    save_or_load(&r, path, true);
    run(&r, expected[0]);
    run(&r, expected[1]);
    rig *const both[] = {&r, &other};
    for (int i = 0; i < 2; ++i) {
        save_or_load(both[i], path, false);
        both[i]->runs = 3;
        run(both[i], losses[0]);
        run(both[i], losses[1]);
        assert_same_bits("resumed", losses, expected, sizeof expected);
        assert_true(check_copies(both[i], both[i]->program) > 0);
    }
    assert_int_equal(remove(path), 0);
    close_rig(&r);
    close_rig(&other);
}

/* The output of a program for "other". */
static void judge(uf_program *program, double judged[BATCH * 7]) {
    double values[INPUTS];
    for (int i = 0; i < INPUTS; ++i) {
        values[i] = (double)(i % 17 - 8) / 8.0;
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "other"), UF_F64, values, INPUTS));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "judged"), UF_F64, judged,
                                    (int64_t)BATCH * 7));
}

/* Copies of averages are made in the run, behind the step that moves them. */
static void test_averages(void **state) {
    (void)state;
    rig r = open_rig(&plain, false);
    uf_store *average;
    uf_ema *ema;
    assert_ok(uf_store_copy(r.store, r.context, UF_F32, &average));
    const uf_ema_options options = {.struct_size = sizeof options, .decay = 0.5};
    assert_ok(uf_ema_create(r.store, average, &options, &ema));
    const uf_value x = uf_input(r.graph, "other", UF_SHAPE(BATCH, CHANNELS, SIZE, SIZE));
    uf_output(r.graph, "judged", network(r.graph, average, r.fixed, x));
    uf_pass pass = uf_pass_default();
    pass.losses = r.losses;
    pass.stores = &r.store;
    pass.optimizers = &r.optimizer;
    pass.emas = &ema;
    pass.loss_count = pass.store_count = pass.optimizer_count = pass.ema_count = 1;
    uf_program_options training = uf_program_options_default();
    training.dtype = UF_BF16;
    training.fuse = false; /* so that both programs round at the same places */
    uf_program *program, *judging;
    assert_ok(uf_program_compile(r.graph, &training, &judging));
    training.passes = &pass;
    training.pass_count = 1;
    assert_ok(uf_program_compile(r.graph, &training, &program));
    int kept = 0, made = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->kind == UF_STEP_CAST) {
            assert_true(step->kept == (step->source.store != average));
            kept += step->kept;
            made += !step->kept;
        }
    }
    assert_int_equal(kept, 2 + 7 + 2); /* of fixed, of the network, of "aside" */
    assert_int_equal(made, 7);
    double judged[BATCH * 7], before[BATCH * 7] = {0.0}, expected[BATCH * 7];
    for (int n = 0; n < 3; ++n) {
        run_program(&r, program, NULL);
        judge(program, judged);
        judge(judging, expected);
        assert_same_bits("judged", judged, expected, sizeof expected);
        assert_memory_not_equal(judged, before, sizeof before);
        memcpy(before, judged, sizeof before);
    }
    uf_ema_destroy(ema);
    close_rig(&r);
}

/* The copies of a store lie as its parameters do, in half of their memory, once. */
static void test_memory(void **state) {
    (void)state;
    rig r = open_rig(&plain, false);
    const uf_program *program = r.program;
    int32_t storage = -1;
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->kind != UF_STEP_CAST) {
            continue;
        }
        const uf_program_value *value = &program->values[step->output];
        assert_true(program->storages[value->storage].persistent);
        if (step->source.store == r.store) {
            assert_true(storage < 0 || storage == value->storage);
            storage = value->storage;
        }
    }
    assert_true(storage >= 0);
    /* Nothing trains "before" and "behind"; "first" and "last" are trained and read in f32. */
    const size_t unread = 2 * uf_align_up(1000 * sizeof(float));
    assert_int_equal(program->storages[storage].size,
                     uf_align_up((r.store->arena_size[UF_ROLE_PARAMETER] - unread) / 2));
    const size_t memory = uf_program_memory(program);
    run(&r, NULL);
    run(&r, NULL);
    assert_int_equal(uf_program_memory(program), memory);
    close_rig(&r);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_cast_in_a_run), cmocka_unit_test(test_captured_by_the_caller),
        cmocka_unit_test(test_every_optimizer),  cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_changes),          cmocka_unit_test(test_turns),
        cmocka_unit_test(test_steps_by_hand),    cmocka_unit_test(test_watched),
        cmocka_unit_test(test_found_in_a_copy),  cmocka_unit_test(test_failed_run),
        cmocka_unit_test(test_resumed),          cmocka_unit_test(test_averages),
        cmocka_unit_test(test_memory),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
