/* network.c - a DCGAN generator and random graphs. */
#include "support/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/store.h"
#include "core/tensor.h"
#include "support/test.h"

void network_generator(uf_graph *graph, uf_store *store, int64_t batch) {
    static const int64_t channels[] = {256, 128, 64, 32, 1};
    uf_value x = uf_input(graph, "z", UF_SHAPE(batch, 64, 1, 1));
    for (int i = 0; i < 5; ++i) {
        char scope[32];
        uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
        conv.kernel[0] = conv.kernel[1] = 4;
        conv.stride[0] = conv.stride[1] = i == 0 ? 1 : 2;
        conv.padding[0] = conv.padding[1] = i == 0 ? 0 : 1;
        conv.bias = false;
        (void)snprintf(scope, sizeof scope, "main.%d", 3 * i);
        x = uf_conv_transpose2d(graph, x, uf_at(store, scope), channels[i], &conv);
        if (i < 4) {
            (void)snprintf(scope, sizeof scope, "main.%d", 3 * i + 1);
            x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, scope), NULL));
        }
    }
    uf_output(graph, "image", uf_tanh(graph, x));
}

void network_fill_store(uf_store *store, test_random *random) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        uf_tensor *tensor = NULL;
        assert_ok(uf_store_entry_at(store, i, &entry));
        if (entry.role == UF_ROLE_COUNTER) {
            continue;
        }
        const int64_t count = uf_shape_count(&entry.shape);
        double *values = test_allocate((size_t)count * sizeof *values);
        test_random_fill(random, values, count, entry.shape.rank > 1 ? 0.3 : 0.5);
        for (int64_t k = 0; strstr(entry.name, "running_var") != NULL && k < count; ++k) {
            values[k] = test_random_real(random, 0.25, 2.0);
        }
        assert_ok(uf_store_tensor(store, entry.name, &tensor));
        assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
        free(values);
    }
    uf_store_touch(store);
}

static uf_value random_conv(uf_graph *graph, uf_scope scope, uf_value x, test_random *random) {
    const uf_shape shape = uf_value_shape(graph, x);
    const int64_t out = test_random_integer(random, 1, 9);
    if (test_random_one_in(random, 2) || shape.extent[2] > 24 || shape.extent[3] > 24) {
        uf_conv2d_options options = uf_conv2d_options_default();
        options.stride[0] = options.stride[1] = test_random_integer(random, 1, 2);
        options.padding[0] = options.padding[1] = 1;
        options.bias = test_random_one_in(random, 2);
        return uf_conv2d(graph, x, scope, out, &options);
    }
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.kernel[0] = options.kernel[1] = 4;
    options.stride[0] = options.stride[1] = test_random_integer(random, 1, 2);
    options.padding[0] = options.padding[1] = 1;
    options.bias = test_random_one_in(random, 2);
    return uf_conv_transpose2d(graph, x, scope, out, &options);
}

static uf_value random_layer(uf_graph *graph, uf_scope scope, uf_value x, test_random *random) {
    switch (test_random_integer(random, 0, 7)) {
    case 0:
        return uf_relu(graph, x);
    case 1:
        return uf_leaky_relu(graph, x, 0.2);
    case 2:
        return uf_tanh(graph, x);
    case 3:
        return uf_batch_norm2d(graph, x, scope, NULL);
    case 4:
        return uf_pad2d(graph, x, test_random_one_in(random, 2) ? UF_PAD_ZERO : UF_PAD_REPLICATE,
                        test_random_integer(random, 0, 2), test_random_integer(random, 0, 2),
                        test_random_integer(random, 0, 2), test_random_integer(random, 0, 2));
    default:
        return random_conv(graph, scope, x, random);
    }
}

network_random_io network_random(uf_graph *graph, uf_store *store, test_random *random) {
    enum { MOST = 24 };
    uf_value values[MOST];
    bool read[MOST] = {false};
    network_random_io io = {0, 0};
    const int count = (int)test_random_integer(random, 3, MOST);
    for (int i = 0; i < count; ++i) {
        char name[32];
        if (i == 0 || (i < 3 && test_random_one_in(random, 3))) {
            (void)snprintf(name, sizeof name, "x%d", io.inputs++);
            values[i] = uf_input(
                graph, name,
                UF_SHAPE(test_random_integer(random, 1, 3), test_random_integer(random, 1, 6),
                         test_random_integer(random, 2, 12), test_random_integer(random, 2, 12)));
            continue;
        }
        /* Mostly a chain; now and then a branch from anywhere before. */
        const int from =
            test_random_one_in(random, 3) ? (int)test_random_integer(random, 0, i - 1) : i - 1;
        (void)snprintf(name, sizeof name, "layer%d", i);
        values[i] = random_layer(graph, uf_at(store, name), values[from], random);
        read[from] = true;
    }
    for (int i = 0; i < count; ++i) {
        if (!read[i] || test_random_one_in(random, 8)) {
            char name[32];
            (void)snprintf(name, sizeof name, "y%d", io.outputs++);
            uf_output(graph, name, values[i]);
        }
    }
    assert_ok(uf_graph_status(graph));
    return io;
}

uf_store *network_other_weights(uf_store *store, test_random *random) {
    uf_store *other;
    assert_ok(uf_store_copy(store, store->context, UF_F32, &other));
    network_fill_store(other, random);
    return other;
}

void network_average_weights(uf_store *store, test_random *random) {
    uf_ema *ema;
    uf_ema_options options = uf_ema_options_default();
    options.decay = 0.5;
    assert_ok(uf_ema_create(network_other_weights(store, random), store, &options, &ema));
    assert_ok(uf_ema_update(ema));
    uf_ema_destroy(ema);
}

void network_upload_weight(uf_store *store, const char *name) {
    uf_tensor *weight;
    assert_ok(uf_store_tensor(store, name, &weight));
    const int64_t elements = uf_tensor_count(weight);
    float *values = test_allocate((size_t)elements * sizeof *values);
    assert_ok(uf_tensor_download(weight, values));
    values[elements / 2] += 1.0f;
    assert_ok(uf_tensor_upload(weight, values));
    free(values);
}

void network_touch_weight(uf_store *store, const char *name) {
    uf_tensor *weight;
    assert_ok(uf_store_tensor(store, name, &weight));
    uf_context *context = weight->context;
    const float value = 3.0f;
    assert_ok(context->device->upload(context, uf_tensor_data(weight), &value, sizeof value));
    uf_store_touch(store);
}
