/* test_packed.c - packed weights that a program keeps: the same bits with and without, made once
 * for each change of the weights by whatever way, shared by layers that read the same weight, and
 * counted in the program's memory. On a GPU the runs are replays of a recorded graph. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/network.h"

/* Large enough on a GPU for the kernels that pack. */
enum { GPU_CHANNELS = 128, GPU_SIZE = 32, BATCH = 4 };

static int64_t channels(void) {
    return test_on_gpu() ? GPU_CHANNELS : 24;
}

static int64_t size_of_image(void) {
    return test_on_gpu() ? GPU_SIZE : 10;
}

/* Gradients grow with the network. */
static double rate(void) {
    return test_on_gpu() ? 1e-7 : 1e-4;
}

static uf_shape input_shape(void) {
    return UF_SHAPE(BATCH, channels(), size_of_image(), size_of_image());
}

static int64_t input_count(void) {
    const uf_shape shape = input_shape();
    return BATCH * shape.extent[1] * shape.extent[2] * shape.extent[3];
}

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    test_random random;
} fixture;

/* Convolutions of both kinds, of few channels and of more, a batch norm that is folded, and a
 * linear layer. */
static uf_value network(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 3;
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    x = uf_conv2d(graph, x, uf_at(store, "down"), 2 * channels(), &conv);
    x = uf_leaky_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "norm"), NULL), 0.2);
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    up.kernel[0] = up.kernel[1] = 4;
    up.stride[0] = up.stride[1] = 2;
    up.padding[0] = up.padding[1] = 1;
    x = uf_relu(graph, uf_conv_transpose2d(graph, x, uf_at(store, "up"), channels(), &up));
    up.kernel[0] = up.kernel[1] = 2;
    up.padding[0] = up.padding[1] = 0;
    x = uf_conv_transpose2d(graph, x, uf_at(store, "patches"), 1, &up);
    x = uf_reshape(graph, x, UF_SHAPE(BATCH, 4 * size_of_image() * size_of_image()));
    return uf_linear(graph, x, uf_at(store, "linear"), 33, NULL);
}

static fixture open_fixture(uf_dtype dtype) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    f.context = test_context(2);
    f.random = test_random_for("packed", 0);
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    const uf_value x = uf_input(f.graph, "x", input_shape());
    uf_output(f.graph, "y", network(f.graph, f.store, x));
    assert_ok(uf_graph_status(f.graph));
    network_fill_store(f.store, &f.random);
    return f;
}

static void close_fixture(fixture *f) {
    uf_context_destroy(f->context);
}

static uf_program *compile(const fixture *f, uf_dtype dtype, uf_math math, bool keep) {
    uf_program_options options = uf_program_options_default();
    uf_program *program;
    options.dtype = dtype;
    options.math = math;
    options.keep_packed_weights = keep;
    assert_ok(uf_program_compile(f->graph, &options, &program));
    return program;
}

/* Upload input number `number`, run, and download the output; the caller frees it. */
static double *run(uf_program *program, int number, int64_t *bytes) {
    double *values = test_allocate((size_t)input_count() * sizeof *values);
    for (int64_t i = 0; i < input_count(); ++i) {
        values[i] = (double)((i * 37 + number * 11) % 64 - 32) / 32.0;
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, values, input_count()));
    free(values);
    assert_ok(uf_program_run(program));
    uf_tensor *output = uf_program_output(program, "y");
    *bytes = uf_tensor_count(output) * (int64_t)sizeof(double);
    double *result = test_allocate((size_t)*bytes);
    assert_ok(uf_tensor_download_as(output, UF_F64, result, uf_tensor_count(output)));
    return result;
}

/* Do two programs give the same bits for input `number`? */
static bool agree(uf_program *a, uf_program *b, int number) {
    int64_t size, other;
    double *of_a = run(a, number, &size);
    double *of_b = run(b, number, &other);
    const bool same = size == other && memcmp(of_a, of_b, (size_t)size) == 0;
    free(of_a);
    free(of_b);
    return same;
}

/* ---- counting ---- */

static struct uf_kernels counting;
static int64_t made, run_packed; /* calls that made a packed form alone, and that used one */

static void count(const uf_conv_kernel_args *args) {
    made += args->packing == UF_CONV_PACK_ONLY || args->packing == UF_CONV_PACK_APART;
    run_packed += args->packing == UF_CONV_PACKED;
}

static uf_status counted_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    count(args);
    return context->device->kernels->conv_fprop(context, args);
}

static uf_status counted_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    count(args);
    return context->device->kernels->conv_dgrad(context, args);
}

static void begin_counting(uf_context *context) {
    counting = *context->device->kernels;
    counting.conv_fprop = counted_fprop;
    counting.conv_dgrad = counted_dgrad;
    context->kernels = &counting;
    made = run_packed = 0;
}

/* ---- programs that only run ---- */

static void test_same_bits(void **state) {
    (void)state;
    static const struct {
        uf_dtype dtype;
        uf_math math;
    } kinds[] = {{UF_F32, UF_MATH_FP32},
                 {UF_F32, UF_MATH_TF32},
                 {UF_F32, UF_MATH_BF16},
                 {UF_F64, UF_MATH_FP32},
                 {UF_BF16, UF_MATH_FP32}};
    for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
        fixture f = open_fixture(kinds[k].dtype);
        uf_program *kept = compile(&f, kinds[k].dtype, kinds[k].math, true);
        uf_program *plain = compile(&f, kinds[k].dtype, kinds[k].math, false);
        for (int number = 0; number < 4; ++number) {
            assert_true(agree(kept, plain, number));
        }
        assert_int_equal(plain->packed_size, 0);
        assert_int_equal(uf_program_memory(plain), plain->arena_size + plain->workspace_size);
        assert_int_equal(uf_program_memory(kept),
                         kept->arena_size + kept->workspace_size + kept->packed_size);
        assert_true(kept->workspace_size <= plain->workspace_size);
        if (kinds[k].dtype != UF_F64 || !test_on_gpu()) {
            assert_true(kept->packed_size > 0);
        }
        close_fixture(&f);
    }
}

/* Each form is made once for a version of the store, whatever the number of runs. */
static void test_made_once(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    uf_program *program = compile(&f, UF_F32, UF_MATH_TF32, true);
    int64_t bytes;
    begin_counting(f.context);
    for (int number = 0; number < 5; ++number) {
        free(run(program, number, &bytes));
    }
    assert_true(program->pack_count > 0);
    assert_int_equal(made, program->pack_count);
    assert_true(run_packed >= program->pack_count);
    uf_store_touch(f.store);
    free(run(program, 0, &bytes));
    free(run(program, 1, &bytes));
    assert_int_equal(made, 2 * program->pack_count);
    close_fixture(&f);
}

/* Two layers of one weight and one shape read one form. */
static void test_shared_form(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    uf_program *once = compile(&f, UF_F32, UF_MATH_TF32, true);
    uf_graph *twice;
    assert_ok(uf_graph_create(f.context, &twice));
    const uf_shape shape = input_shape();
    const uf_value x = uf_input(twice, "x", shape);
    const uf_value other = uf_input(twice, "other", shape);
    uf_output(twice, "y", network(twice, f.store, x));
    uf_output(twice, "z", network(twice, f.store, other));
    uf_program_options options = uf_program_options_default();
    options.math = UF_MATH_TF32;
    uf_program *program;
    assert_ok(uf_program_compile(twice, &options, &program));
    assert_int_equal(program->pack_count, once->pack_count);
    for (int32_t i = 0; i < program->pack_count; ++i) {
        assert_int_equal(program->packs[i].readers, 2);
    }
    assert_int_equal(program->packed_size, once->packed_size);
    for (int number = 0; number < 3; ++number) {
        assert_true(agree(program, once, number));
    }
    close_fixture(&f);
}

/* ---- ways to change a weight ---- */

static void by_upload(fixture *f) {
    network_upload_weight(f->store, "down.weight");
}

static void by_upload_as(fixture *f) {
    uf_tensor *weight;
    assert_ok(uf_store_tensor(f->store, "up.weight", &weight));
    const int64_t elements = uf_tensor_count(weight);
    double *values = test_allocate((size_t)elements * sizeof *values);
    assert_ok(uf_tensor_download_as(weight, UF_F64, values, elements));
    values[0] -= 0.5;
    assert_ok(uf_tensor_upload_as(weight, UF_F64, values, elements));
    free(values);
}

static void by_initialiser(fixture *f) {
    assert_ok(uf_init_uniform(f->store, "patches.weight", -0.2, 0.2));
}

static void by_default_initialiser(fixture *f) {
    assert_ok(uf_init_default(f->graph, f->store));
}

static void by_touch(fixture *f) {
    network_touch_weight(f->store, "linear.weight");
}

static void by_file(fixture *f) {
    char path[] = "/tmp/unfurl-packed-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
    assert_ok(uf_weights_save(f->store, path, NULL));
    network_fill_store(f->store, &f->random); /* so that the file brings a change */
    uf_program *between = compile(f, UF_F32, UF_MATH_FP32, true);
    int64_t bytes;
    free(run(between, 0, &bytes));
    uf_program *plain = compile(f, UF_F32, UF_MATH_FP32, false);
    assert_true(agree(between, plain, 0));
    assert_ok(uf_weights_load(f->store, path, NULL));
    assert_true(agree(between, plain, 0));
    by_upload(f);
    assert_int_equal(remove(path), 0);
}

static void by_training(fixture *f) {
    uf_graph *graph;
    assert_ok(uf_graph_create(f->context, &graph));
    const uf_value x = uf_input(graph, "x", input_shape());
    const uf_value y = network(graph, f->store, x);
    const uf_value loss = uf_mse_loss(graph, y, uf_full_like(graph, y, 1.0));
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.lr = rate();
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(f->store, &sgd, &optimizer));
    const uf_pass pass = {.losses = &loss,
                          .loss_count = 1,
                          .stores = &f->store,
                          .store_count = 1,
                          .optimizers = &optimizer,
                          .optimizer_count = 1};
    uf_program_options options = uf_program_options_default();
    options.passes = &pass;
    options.pass_count = 1;
    options.pass_size = sizeof pass;
    uf_program *training;
    assert_ok(uf_program_compile(graph, &options, &training));
    assert_ok(uf_program_run(training));
    uf_optimizer_destroy(optimizer);
}

static void by_average(fixture *f) {
    network_average_weights(f->store, &f->random);
}

static void test_changes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*change)(fixture *f);
    } ways[] = {{"upload", by_upload},
                {"upload_as", by_upload_as},
                {"initialiser", by_initialiser},
                {"default initialiser", by_default_initialiser},
                {"touch", by_touch},
                {"file", by_file},
                {"training", by_training},
                {"average", by_average}};
    fixture f = open_fixture(UF_F32);
    uf_program *kept = compile(&f, UF_F32, UF_MATH_FP32, true);
    uf_program *bf16 = compile(&f, UF_BF16, UF_MATH_FP32, true);
    for (int64_t w = 0; w < COUNT_OF(ways); ++w) {
        int64_t bytes;
        for (int number = 0; number < 3; ++number) { /* recorded by now */
            free(run(kept, number, &bytes));
            free(run(bf16, number, &bytes));
        }
        double *before = run(kept, 7, &bytes);
        ways[w].change(&f);
        double *after = run(kept, 7, &bytes);
        uf_program *fresh = compile(&f, UF_F32, UF_MATH_FP32, false);
        double *expected = run(fresh, 7, &bytes);
        assert_same_bits(ways[w].name, after, expected, bytes);
        assert_memory_not_equal(after, before, (size_t)bytes);
        uf_program *fresh_bf16 = compile(&f, UF_BF16, UF_MATH_FP32, false);
        assert_true(agree(bf16, fresh_bf16, 7));
        uf_program_destroy(fresh);
        uf_program_destroy(fresh_bf16);
        free(before);
        free(after);
        free(expected);
    }
    close_fixture(&f);
}

/* Without uf_store_touch a write behind the library's back is not seen: what a program keeps is not
 * made in every run. */
static void test_unannounced(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    uf_program *kept = compile(&f, UF_F32, UF_MATH_TF32, true);
    assert_true(kept->pack_count > 0);
    const uf_pack *pack = &kept->packs[0];
    int64_t bytes;
    double *before = run(kept, 0, &bytes);
    const uint64_t version = uf_store_version(f.store);
    const int64_t elements = uf_tensor_count(&pack->weight->tensor);
    float *zeros = test_allocate((size_t)elements * sizeof *zeros);
    memset(zeros, 0, (size_t)elements * sizeof *zeros);
    assert_ok(f.context->device->upload(f.context, pack->weight->tensor.data, zeros,
                                        (size_t)elements * sizeof *zeros));
    assert_int_equal(uf_store_version(f.store), version);
    double *stale = run(kept, 0, &bytes);
    assert_same_bits("unannounced", stale, before, bytes);
    uf_store_touch(f.store);
    double *after = run(kept, 0, &bytes);
    assert_memory_not_equal(after, before, (size_t)bytes);
    free(zeros);
    free(before);
    free(stale);
    free(after);
    close_fixture(&f);
}

/* A load into an empty store puts other tensors in its place: uploads into those count as well. */
static void test_version_of_uploads(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    char path[] = "/tmp/unfurl-packed-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
    assert_ok(uf_weights_save(f.store, path, NULL));
    uf_store *empty;
    uf_tensor *weight, *gradient;
    assert_ok(uf_store_create(f.context, "empty", &empty));
    assert_ok(uf_weights_load(empty, path, NULL));
    assert_int_equal(remove(path), 0);
    const uint64_t version = uf_store_version(empty);
    assert_ok(uf_store_tensor(empty, "down.bias", &weight));
    float values[2 * GPU_CHANNELS] = {0};
    assert_ok(uf_tensor_upload(weight, values));
    assert_true(uf_store_version(empty) > version);
    const uint64_t uploaded = uf_store_version(empty);
    assert_ok(uf_store_gradient(empty, "down.bias", &gradient));
    assert_ok(uf_tensor_upload(gradient, values)); /* no content of the store */
    assert_int_equal(uf_store_version(empty), uploaded);
    close_fixture(&f);
}

/* ---- programs that train ---- */

/* A judge of two inputs, then again of one of them after its weights have changed. Losses and
 * weights after `steps` steps; the caller frees the weights. */
static unsigned char *train(bool keep, uf_math math, uf_plan plan, int steps, double losses[3],
                            size_t *size, int32_t *shared) {
    fixture f = open_fixture(UF_F32);
    uf_graph *graph;
    assert_ok(uf_graph_create(f.context, &graph));
    const uf_shape shape = input_shape();
    const uf_value x = uf_input(graph, "x", shape);
    const uf_value other = uf_input(graph, "other", shape);
    const uf_value y = network(graph, f.store, x);
    const uf_value z = network(graph, f.store, other);
    const uf_value again = network(graph, f.store, x);
    const uf_value ones = uf_full_like(graph, y, 1.0), zeros = uf_full_like(graph, y, 0.0);
    const uf_value first[] = {uf_mse_loss(graph, y, ones), uf_mse_loss(graph, z, zeros)};
    const uf_value second[] = {uf_mse_loss(graph, again, zeros)};
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.lr = rate();
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_sgd(f.store, &sgd, &optimizer));
    uf_pass passes[2] = {uf_pass_default(), uf_pass_default()};
    for (int p = 0; p < 2; ++p) {
        passes[p].losses = p == 0 ? first : second;
        passes[p].loss_count = p == 0 ? 2 : 1;
        passes[p].stores = &f.store;
        passes[p].store_count = 1;
        passes[p].optimizers = &optimizer;
        passes[p].optimizer_count = 1;
    }
    uf_program_options options = uf_program_options_default();
    options.passes = passes;
    options.pass_count = 2;
    options.math = math;
    options.mode = UF_TRAIN;
    options.plan = plan;
    options.keep_packed_weights = keep;
    uf_program *program;
    assert_ok(uf_program_compile(graph, &options, &program));
    assert_true(keep || program->packed_size == 0);
    *shared = 0;
    for (int32_t i = 0; i < program->pack_count; ++i) {
        *shared += program->packs[i].readers > 1;
    }
    double *values = test_allocate((size_t)input_count() * sizeof *values);
    test_random inputs = test_random_for("packed", 1);
    int64_t step = 0;
    bool finite = false;
    for (int s = 0; s < steps; ++s) {
        test_random_fill(&inputs, values, input_count(), 1.0);
        assert_ok(
            uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, values, input_count()));
        test_random_fill(&inputs, values, input_count(), 1.0);
        assert_ok(
            uf_tensor_upload_as(uf_program_input(program, "other"), UF_F64, values, input_count()));
        assert_ok(uf_program_run(program));
    }
    assert_ok(uf_context_synchronize(f.context));
    assert_ok(uf_program_losses(program, losses, 3, &step, &finite));
    assert_true(finite && step == steps);
    free(values);
    uf_tensor *weight;
    assert_ok(uf_store_tensor(f.store, "down.weight", &weight));
    *size = (size_t)uf_tensor_count(weight) * sizeof(float);
    unsigned char *bytes = test_allocate(*size);
    assert_ok(uf_tensor_download(weight, bytes));
    close_fixture(&f);
    return bytes;
}

static void test_training(void **state) {
    (void)state;
    static const uf_math maths[] = {UF_MATH_FP32, UF_MATH_TF32, UF_MATH_BF16};
    static const uf_plan plans[] = {UF_PLAN_REUSE, UF_PLAN_NO_REUSE, UF_PLAN_POISON};
    for (int64_t m = 0; m < COUNT_OF(maths); ++m) {
        double expected_losses[3], losses[3];
        size_t size, other;
        int32_t shared;
        unsigned char *expected =
            train(false, maths[m], UF_PLAN_REUSE, 4, expected_losses, &size, &shared);
        assert_int_equal(shared, 0);
        for (int64_t p = 0; p < COUNT_OF(plans); ++p) {
            unsigned char *got = train(true, maths[m], plans[p], 4, losses, &other, &shared);
            /* Split parts of FP32 on a GPU are made by calls of their own: nothing to share. */
            assert_true(shared > 0 || (test_on_gpu() && maths[m] == UF_MATH_FP32));
            assert_same_bits("weights", got, expected, (int64_t)size);
            assert_same_bits("losses", losses, expected_losses, sizeof losses);
            free(got);
        }
        free(expected);
    }
}

static size_t not_apart(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return args->packing == UF_CONV_PACK_APART ? 0 : 4096;
}

/* Forms that no call makes on its way, as those of split parts on a GPU, are kept and not shared.
 */
static void test_made_apart(void **state) {
    (void)state;
    for (int trains = 0; trains < 2; ++trains) {
        fixture f = open_fixture(UF_F32);
        struct uf_kernels kernels = *f.context->kernels;
        const struct uf_kernels *const own = f.context->kernels;
        kernels.conv_fprop_packed_bytes = kernels.conv_dgrad_packed_bytes = not_apart;
        f.context->kernels = &kernels;
        uf_graph *graph;
        uf_optimizer *optimizer;
        assert_ok(uf_graph_create(f.context, &graph));
        const uf_value x = uf_input(graph, "x", input_shape());
        const uf_value y = network(graph, f.store, x), z = network(graph, f.store, x);
        const uf_value loss = uf_mse_loss(graph, y, z);
        uf_output(graph, "loss", loss);
        uf_sgd_options sgd = uf_sgd_options_default();
        assert_ok(uf_optimizer_create_sgd(f.store, &sgd, &optimizer));
        uf_pass pass = uf_pass_default();
        pass.losses = &loss;
        pass.loss_count = 1;
        pass.stores = &f.store;
        pass.store_count = 1;
        pass.optimizers = &optimizer;
        pass.optimizer_count = 1;
        uf_program_options options = uf_program_options_default();
        options.passes = trains ? &pass : NULL;
        options.pass_count = trains;
        options.mode = trains ? UF_TRAIN : UF_EVAL;
        uf_program *program;
        assert_ok(uf_program_compile(graph, &options, &program));
        assert_int_equal(program->packed_size == 0, trains);
        uf_program_destroy(program);
        uf_optimizer_destroy(optimizer);
        uf_graph_destroy(graph);
        f.context->kernels = own;
        close_fixture(&f);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),   cmocka_unit_test(test_made_once),
        cmocka_unit_test(test_shared_form), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_unannounced), cmocka_unit_test(test_version_of_uploads),
        cmocka_unit_test(test_training),    cmocka_unit_test(test_made_apart),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
