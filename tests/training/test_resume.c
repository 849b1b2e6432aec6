/* test_resume.c - twenty steps of training, and ten of them, a checkpoint, a new process and ten
 * more, give the same bits.
 *
 * The network has a part for each optimizer with a state (Adam, SGD with momentum, RMSprop with
 * momentum), batch norm, dropout, spectral norm, a schedule of learning rates and a moving average.
 * The inputs of a step are made from its number. `test_resume steps FROM TO CHECKPOINT` is the
 * child: it loads unless FROM is 0, and saves. */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/random.h"
#include "support/test.h"

enum { STEPS = 20, BATCH = 4, PARTS = 3, MOST_PARTS = 16 };

typedef struct training {
    uf_context *context;
    uf_store *stores[PARTS], *average;
    uf_ema *ema;
    uf_optimizer *optimizers[PARTS];
    uf_graph *graph;
    uf_program *program;
    int64_t step;
    uf_checkpoint_part parts[MOST_PARTS];
    int32_t part_count;
} training;

static const char *const names[PARTS] = {"body", "middle", "head"};

/* (4, 8, 1, 1) -> (4, 1, 8, 8) */
static uf_value build(training *one) {
    uf_graph *graph = one->graph;
    uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.bias = false;
    uf_value x = uf_input(graph, "z", UF_SHAPE(BATCH, 8, 1, 1));
    x = uf_conv_transpose2d(graph, x, uf_at(one->stores[0], "0"), 6, &conv);
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(one->stores[0], "1"), NULL));
    x = uf_dropout(graph, x, 0.25);
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    x = uf_conv_transpose2d(graph, x, uf_at(one->stores[1], "0"), 5, &conv);
    x = uf_leaky_relu(graph, uf_batch_norm2d(graph, x, uf_at(one->stores[1], "1"), NULL), 0.2);
    conv.stride[0] = conv.stride[1] = 1;
    conv.padding[0] = conv.padding[1] = 1;
    conv.kernel[0] = conv.kernel[1] = 3;
    conv.bias = true;
    conv.weight = UF_WEIGHT_SPECTRAL_NORM;
    return uf_tanh(graph, uf_conv_transpose2d(graph, x, uf_at(one->stores[2], "0"), 1, &conv));
}

static void make_optimizers(training *one) {
    uf_sgd_options sgd = uf_sgd_options_default();
    uf_rmsprop_options rmsprop = uf_rmsprop_options_default();
    sgd.momentum = 0.9;
    rmsprop.momentum = 0.5;
    assert_ok(uf_optimizer_create_adam(one->stores[0], NULL, &one->optimizers[0]));
    assert_ok(uf_optimizer_create_sgd(one->stores[1], &sgd, &one->optimizers[1]));
    assert_ok(uf_optimizer_create_rmsprop(one->stores[2], &rmsprop, &one->optimizers[2]));
}

static void open_training(training *one) {
    memset(one, 0, sizeof *one);
    one->context = test_context(2);
    for (int i = 0; i < PARTS; ++i) {
        assert_ok(uf_store_create(one->context, names[i], &one->stores[i]));
    }
    assert_ok(uf_graph_create(one->context, &one->graph));
    const uf_value out = build(one);
    const uf_value target = uf_input(one->graph, "target", UF_SHAPE(BATCH, 1, 8, 8));
    const uf_value losses[] = {uf_mse_loss(one->graph, out, target)};
    uf_output(one->graph, "out", out);
    for (int i = 0; i < PARTS; ++i) {
        assert_ok(uf_init_dcgan(one->graph, one->stores[i]));
    }
    make_optimizers(one);
    uf_ema_options averaging = uf_ema_options_default();
    averaging.decay = 0.9;
    assert_ok(uf_store_copy(one->stores[2], one->context, UF_F32, &one->average));
    assert_ok(uf_ema_create(one->stores[2], one->average, &averaging, &one->ema));
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = 1;
    pass.stores = one->stores;
    pass.store_count = PARTS;
    pass.optimizers = one->optimizers;
    pass.optimizer_count = PARTS;
    pass.emas = &one->ema;
    pass.ema_count = 1;
    uf_program_options options = uf_program_options_default();
    options.mode = UF_TRAIN;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(one->graph, &options, &one->program));
    for (int i = 0; i < PARTS; ++i) {
        one->parts[one->part_count++] = uf_checkpoint_store(names[i], one->stores[i]);
        one->parts[one->part_count++] = uf_checkpoint_optimizer(names[i], one->optimizers[i]);
    }
    one->parts[one->part_count++] = uf_checkpoint_store("average", one->average);
    one->parts[one->part_count++] = uf_checkpoint_ema("average", one->ema);
    one->parts[one->part_count++] = uf_checkpoint_program("train", one->program);
    one->parts[one->part_count++] = uf_checkpoint_i64("step", &one->step, 1);
}

static void train_step(training *one) {
    static const char *const inputs[] = {"z", "target"};
    double values[BATCH * 64];
    test_random random = test_random_for("resume", one->step);
    for (int i = 0; i < 2; ++i) {
        uf_tensor *input = uf_program_input(one->program, inputs[i]);
        assert_non_null(input);
        test_random_fill(&random, values, uf_tensor_count(input), 1.0);
        assert_ok(uf_tensor_upload_as(input, UF_F64, values, uf_tensor_count(input)));
    }
    /* The rate moves with the step in the first optimizer alone: the others keep their own. */
    uf_schedule schedule = uf_schedule_default();
    double rate;
    schedule.kind = UF_SCHEDULE_EXPONENTIAL;
    schedule.factor = 0.9;
    assert_ok(uf_schedule_rate(&schedule, one->step, &rate));
    assert_ok(uf_optimizer_set_learning_rate(one->optimizers[0], rate));
    if (one->step == 5) {
        assert_ok(uf_optimizer_set_learning_rate(one->optimizers[1], 0.03));
        assert_ok(uf_ema_set_decay(one->ema, 0.7));
    }
    assert_ok(uf_program_run(one->program));
    one->step += 1;
}

/* The child: cmocka runs it as a test, so that assertions are failures of it. */
static int64_t from, to;
static const char *checkpoint;

static void some_steps(void **state) {
    (void)state;
    training one;
    open_training(&one);
    if (from > 0) {
        assert_ok(uf_checkpoint_load(checkpoint, one.parts, one.part_count));
        assert_int_equal(one.step, from);
    }
    while (one.step < to) {
        train_step(&one);
    }
    assert_ok(uf_checkpoint_save(checkpoint, one.parts, one.part_count, NULL));
    uf_context_destroy(one.context);
}

/* ---- the parent ---- */

static const char *self;
static char folder[] = "/tmp/unfurl-resume-XXXXXX";

static void run_child(int64_t first, int64_t last, const char *path) {
    char numbers[2][24];
    int status;
    (void)snprintf(numbers[0], sizeof numbers[0], "%d", (int)first);
    (void)snprintf(numbers[1], sizeof numbers[1], "%d", (int)last);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(self, self, "steps", numbers[0], numbers[1], path, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *bytes = test_allocate(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    assert_true(*size > 0 && *size < 1 << 20);
    fclose(file);
    return bytes;
}

/* The last checkpoints hold everything that a step changes, and the same state gives the same
 * bytes: so the files are compared. */
static void resuming_changes_no_bit(void **state) {
    (void)state;
    char whole[64], parted[64];
    size_t size, other;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(whole, sizeof whole, "%s/whole.h5", folder);
    (void)snprintf(parted, sizeof parted, "%s/parted.h5", folder);
    run_child(0, STEPS, whole);
    unsigned char *expected = read_file(whole, &size);
    static const int64_t stops[] = {10, 3, 13};
    for (int64_t i = 0; i < COUNT_OF(stops); ++i) {
        run_child(0, stops[i], parted);
        unsigned char *got = read_file(parted, &other);
        assert_true(other != size || memcmp(got, expected, size) != 0);
        free(got);
        run_child(stops[i], STEPS, parted);
        got = read_file(parted, &other);
        assert_int_equal(other, size);
        assert_memory_equal(got, expected, size);
        free(got);
    }
    free(expected);
    assert_int_equal(remove(whole) + remove(parted) + rmdir(folder), 0);
}

/* Each part of the state counts: without it the bits are others. */
static void every_part_counts(void **state) {
    (void)state;
    training whole, resumed;
    char path[80], last[80];
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/unfurl-resume-XXXXXX")));
    (void)snprintf(path, sizeof path, "%s/state.h5", folder);
    (void)snprintf(last, sizeof last, "%s/last.h5", folder);
    open_training(&whole);
    while (whole.step < 10) {
        train_step(&whole);
    }
    assert_ok(uf_checkpoint_save(path, whole.parts, whole.part_count, NULL));
    while (whole.step < 13) {
        train_step(&whole);
    }
    assert_ok(uf_checkpoint_save(last, whole.parts, whole.part_count, NULL));
    size_t size, other;
    unsigned char *expected = read_file(last, &size);
    for (int32_t left_out = -1; left_out < whole.part_count; ++left_out) {
        uf_checkpoint_part parts[MOST_PARTS];
        int32_t count = 0;
        open_training(&resumed);
        for (int32_t i = 0; i < resumed.part_count; ++i) {
            if (i != left_out) {
                parts[count++] = resumed.parts[i];
            }
        }
        assert_ok(uf_checkpoint_load(path, parts, count));
        for (int i = 0; i < 3; ++i) {
            train_step(&resumed);
        }
        assert_ok(uf_checkpoint_save(last, resumed.parts, resumed.part_count, NULL));
        unsigned char *got = read_file(last, &other);
        const bool same = other == size && memcmp(got, expected, size) == 0;
        assert_true(same == (left_out == -1));
        free(got);
        uf_context_destroy(resumed.context);
    }
    free(expected);
    uf_context_destroy(whole.context);
    assert_int_equal(remove(path) + remove(last) + rmdir(folder), 0);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    self = "/proc/self/exe";
    if (argc == 5 && strcmp(argv[1], "steps") == 0) {
        const struct CMUnitTest child[] = {cmocka_unit_test(some_steps)};
        from = strtoll(argv[2], NULL, 10);
        to = strtoll(argv[3], NULL, 10);
        checkpoint = argv[4];
        return cmocka_run_group_tests(child, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resuming_changes_no_bit),
        cmocka_unit_test(every_part_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
