/* test_versions.c - a program whose structs are shorter (or longer) than the library's: what the
 * library writes stays within what the program reserved, and what the program did not know has its
 * default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <unfurl/unfurl.h>

/* A struct that the library fills, with memory behind it that is none of its business. */
#define GUARDED(type, name)                                                                        \
    struct {                                                                                       \
        type value;                                                                                \
        unsigned char guard[96];                                                                   \
    } name;                                                                                        \
    memset(&name, 0xa5, sizeof name)

#define assert_guarded(name)                                                                       \
    do {                                                                                           \
        for (size_t i = 0; i < sizeof(name).guard; ++i) {                                          \
            assert_int_equal((name).guard[i], 0xa5);                                               \
        }                                                                                          \
        assert_int_equal((name).value.struct_size, sizeof(name).value);                            \
    } while (0)

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != UF_OK) {                                                                     \
            fail_msg("%s: %s", #call, uf_last_error());                                            \
        }                                                                                          \
    } while (0)

typedef struct network {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x, y;
} network;

static network make_network(void) {
    network net;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    assert_ok(uf_context_create(&options, &net.context));
    uf_store_options of_store = uf_store_options_default();
    assert_ok(uf_store_create_with(net.context, "net", &of_store, &net.store));
    assert_ok(uf_graph_create(net.context, &net.graph));
    uf_conv_transpose2d_options transposed = uf_conv_transpose2d_options_default();
    transposed.bias = false;
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.padding[0] = conv.padding[1] = 1;
    uf_batch_norm2d_options norm = uf_batch_norm2d_options_default();
    net.x = uf_input(net.graph, "x", UF_SHAPE(2, 3, 4, 5));
    net.y = uf_conv_transpose2d(net.graph, net.x, uf_at(net.store, "a"), 4, &transposed);
    net.y = uf_batch_norm2d(net.graph, net.y, uf_at(net.store, "b"), &norm);
    net.y = uf_tanh(net.graph, uf_conv2d(net.graph, net.y, uf_at(net.store, "c"), 2, &conv));
    uf_output(net.graph, "y", net.y);
    assert_ok(uf_graph_status(net.graph));
    assert_ok(uf_init_default(net.graph, net.store));
    uf_kaiming_options kaiming = uf_kaiming_options_default();
    assert_ok(uf_init_kaiming_normal(net.store, "c.weight", &kaiming));
    return net;
}

static void test_options(void **state) {
    (void)state;
    network net = make_network();
    /* A bias by default, which the older program cannot have said. */
    assert_int_equal(uf_store_size(net.store), 1 + 5 + 2);
    const uf_conv_transpose1d_options up = uf_conv_transpose1d_options_with(4, 2, 1, false);
    const uf_conv1d_options down = uf_conv1d_options_with(5, 1, 1, true);
    uf_store *store;
    assert_ok(uf_store_create(net.context, "one axis", &store));
    uf_value z = uf_reshape(net.graph, net.x, UF_SHAPE(2, 3, 20));
    z = uf_conv_transpose1d(net.graph, z, uf_at(store, "d"), 4, &up);
    z = uf_conv1d(net.graph, z, uf_at(store, "e"), 2, &down);
    assert_int_equal(uf_store_size(store), 3);
    assert_int_equal(uf_value_shape(net.graph, z).extent[2], 38);
    uf_context_destroy(net.context);
}

static void test_norm_options(void **state) {
    (void)state;
    network net = make_network();
    uf_store *store;
    uf_graph *graph;
    assert_ok(uf_store_create(net.context, "norms", &store));
    assert_ok(uf_graph_create(net.context, &graph));
    uf_instance_norm_options instance = uf_instance_norm_options_default();
    instance.affine = instance.track_running_stats = true;
    uf_group_norm_options group = uf_group_norm_options_default();
    group.affine = false;
    uf_layer_norm_options layer = uf_layer_norm_options_default();
    layer.bias = false;
    uf_value y = uf_input(graph, "x", UF_SHAPE(2, 4, 4, 5));
    y = uf_instance_norm2d(graph, y, uf_at(store, "a"), &instance);
    y = uf_group_norm(graph, y, uf_at(store, "b"), 2, &group);
    uf_output(graph, "y", uf_layer_norm(graph, y, uf_at(store, "c"), 2, &layer));
    assert_ok(uf_graph_status(graph));
    assert_int_equal(uf_store_size(store), 5 + 0 + 1);
    uf_context_destroy(net.context);
}

static void test_training(void **state) {
    (void)state;
    network net = make_network();
    const uf_value losses[2] = {uf_mse_loss(net.graph, net.y, uf_full_like(net.graph, net.y, 0.5)),
                                uf_l1_loss(net.graph, net.y, uf_full_like(net.graph, net.y, 0.5))};
    uf_adam_options adam = uf_adam_options_default();
    uf_sgd_options sgd = uf_sgd_options_default();
    uf_optimizer *optimizers[2];
    assert_ok(uf_optimizer_create_adam(net.store, &adam, &optimizers[0]));
    assert_ok(uf_optimizer_create_sgd(net.store, &sgd, &optimizers[1]));
    /* The second pass lies where this program's struct ends, whatever the library's size. */
    uf_pass passes[2] = {uf_pass_default(), uf_pass_default()};
    for (int p = 0; p < 2; ++p) {
        passes[p].losses = &losses[p];
        passes[p].loss_count = 1;
        passes[p].inputs = &net.x;
        passes[p].input_count = 1;
    }
    uf_program_options options = uf_program_options_default();
    options.passes = passes;
    options.pass_count = 2;
    uf_program *program;
    assert_ok(uf_program_compile(net.graph, &options, &program));
    assert_ok(uf_program_run(program));
    double values[2];
    int64_t step;
    bool finite;
    assert_ok(uf_program_losses(program, values, 2, &step, &finite));
    assert_int_equal(step, 1);
    assert_true(finite && values[0] > 0.0 && values[1] > values[0]);
    uf_context_destroy(net.context);
}

static void test_filled(void **state) {
    (void)state;
    network net = make_network();
    GUARDED(uf_store_entry, entry);
    assert_ok(uf_store_entry_at(net.store, 0, &entry.value));
    assert_guarded(entry);
    assert_string_equal(entry.value.name, "a.weight");

    GUARDED(uf_gradcheck_result, result);
    uf_gradcheck_options options = uf_gradcheck_options_default();
    options.projections = 2;
    assert_ok(uf_gradcheck(net.graph, &options, &result.value));
    assert_guarded(result);
    assert_true(result.value.passed);

    uf_program *program;
    uf_profile_row *rows;
    int64_t count;
    GUARDED(uf_nonfinite, nonfinite);
    assert_ok(uf_program_compile(net.graph, NULL, &program));
    assert_ok(uf_program_find_nonfinite(program, &nonfinite.value));
    assert_guarded(nonfinite);
    assert_false(nonfinite.value.found);
    assert_ok(uf_program_profile(program, 1, &rows, &count));
    assert_true(count >= 2);
    for (int64_t i = 0; i < count; ++i) {
        assert_int_equal(rows[i].struct_size, sizeof rows[i]);
        assert_string_equal(rows[i].step, "forward");
    }
    uf_profile_free(rows);

    char path[64];
    snprintf(path, sizeof path, "/tmp/unfurl_versions.%ld", (long)getpid());
    uf_hdf5_load_options load = uf_hdf5_load_options_default();
    assert_ok(uf_store_save_hdf5(net.store, path));
    assert_ok(uf_store_load_hdf5(net.store, path, &load));
    uf_hdf5_entry *entries;
    assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
    assert_int_equal(count, 8);
    for (int64_t i = 0; i < count; ++i) {
        assert_int_equal(entries[i].struct_size, sizeof entries[i]);
        assert_true(entries[i].is_tensor);
    }
    assert_string_equal(entries[1].name, "b.bias");
    uf_hdf5_list_free(entries);

    GUARDED(uf_picture, picture);
    assert_ok(uf_picture_create(5, 4, 3, 8, &picture.value));
    assert_guarded(picture);
    assert_ok(uf_png_write(path, &picture.value));
    uf_picture_free(&picture.value);
    memset(&picture, 0xa5, sizeof picture);
    assert_ok(uf_png_read(path, &picture.value));
    assert_guarded(picture);
    uf_picture_free(&picture.value);
    for (size_t i = 0; i < sizeof picture.guard; ++i) {
        assert_int_equal(picture.guard[i], 0xa5);
    }
    remove(path);
    uf_context_destroy(net.context);
}

static void test_ops(void **state) {
    (void)state;
    network net = make_network();
    float x[12], w[8], y[12];
    for (int i = 0; i < 12; ++i) {
        x[i] = (float)i;
        w[i % 8] = 1.0f;
    }
    uf_conv2d_args conv = uf_conv2d_args_default();
    conv.input = uf_view_nchw(x, UF_F32, 1, 1, 3, 4);
    conv.weight = uf_view_nchw(w, UF_F32, 1, 1, 1, 1);
    conv.output = uf_view_nchw(y, UF_F32, 1, 1, 3, 4);
    size_t size;
    assert_ok(uf_conv2d_forward_workspace(net.context, &conv, &size));
    void *workspace = aligned_alloc(256, (size + 256) / 256 * 256);
    conv.workspace = workspace;
    conv.workspace_size = size;
    assert_ok(uf_conv2d_forward(net.context, &conv));
    assert_memory_equal(x, y, sizeof x);
    uf_activation_args activation = uf_activation_args_default();
    activation.input = activation.output = conv.output;
    assert_ok(uf_activation_forward(net.context, &activation));
    assert_memory_equal(x, y, sizeof x);
    free(workspace);
    uf_context_destroy(net.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),  cmocka_unit_test(test_norm_options),
        cmocka_unit_test(test_training), cmocka_unit_test(test_filled),
        cmocka_unit_test(test_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
