/* dcgan_trace.c - replay a DCGAN training trace and compare with what PyTorch wrote down.
 *
 *   dcgan_trace FILE.h5 [--device cpu|cuda] [--dtype f32|f64|bf16] [--threads N]
 *
 * The file holds `before/` and `after/` state dicts of generator and discriminator, `z` and `real`
 * per step, `losses` (D on real, D on fake, G) per step, and as attributes of the root lr, beta1,
 * beta2, batch, nz, features, channels. Exit status 0: within tolerance, 1: not, 2: wrong usage. */
#include <unfurl/unfurl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(uf_status status) {
    if (status != UF_OK) {
        fprintf(stderr, "dcgan_trace: %s\n", uf_last_error());
        exit(1);
    }
}

static double attribute(const char *path, const char *name) {
    double value = 0.0;
    int32_t count = 0;
    must(uf_hdf5_read_attribute(path, "/", name, &value, 1, &count));
    return value;
}

static double *dataset(const char *path, const char *name, uf_shape *shape) {
    must(uf_hdf5_read(path, name, UF_F64, shape, NULL, 0));
    double *values = malloc(sizeof *values * (size_t)(uf_shape_count(shape) + 1));
    if (values == NULL) {
        fprintf(stderr, "dcgan_trace: out of memory\n");
        exit(1);
    }
    must(uf_hdf5_read(path, name, UF_F64, shape, values, uf_shape_count(shape)));
    return values;
}

static uf_scope layer(uf_store *store, int number) {
    char name[32];
    snprintf(name, sizeof name, "main.%d", number);
    return uf_at(store, name);
}

/* The DCGAN of pytorch/examples for 64x64 images, its discriminator without the sigmoid. */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value x, int64_t features,
                          int64_t channels) {
    uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.bias = false;
    for (int stage = 0; stage < 4; ++stage) {
        x = uf_conv_transpose2d(graph, x, layer(store, 3 * stage), features * (8 >> stage), &conv);
        x = uf_relu(graph, uf_batch_norm2d(graph, x, layer(store, 3 * stage + 1), NULL));
        conv.stride[0] = conv.stride[1] = 2;
        conv.padding[0] = conv.padding[1] = 1;
    }
    return uf_tanh(graph, uf_conv_transpose2d(graph, x, layer(store, 12), channels, &conv));
}

static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value x, int64_t features) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    conv.bias = false;
    x = uf_leaky_relu(graph, uf_conv2d(graph, x, layer(store, 0), features, &conv), 0.2);
    for (int stage = 1; stage < 4; ++stage) {
        x = uf_conv2d(graph, x, layer(store, 3 * stage - 1), features << stage, &conv);
        x = uf_batch_norm2d(graph, x, layer(store, 3 * stage), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
    }
    conv.stride[0] = conv.stride[1] = 1;
    conv.padding[0] = conv.padding[1] = 0;
    return uf_conv2d(graph, x, layer(store, 11), 1, &conv);
}

static uf_store *load(uf_context *context, uf_dtype dtype, const char *path, const char *group) {
    uf_store_options store_options = uf_store_options_default();
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    uf_store *store;
    store_options.dtype = dtype;
    options.group = group;
    must(uf_store_create_with(context, group, &store_options, &store));
    must(uf_store_load_hdf5(store, path, &options));
    return store;
}

/* max |a - b|; infinite as soon as one of them is not finite. */
static double worst(double so_far, double a, double b) {
    const double error = isfinite(a) && isfinite(b) ? fabs(a - b) : (double)INFINITY;
    return error > so_far ? error : so_far;
}

/* The largest difference between the two stores, tensor by tensor. */
static double compare(uf_store *have, uf_store *want) {
    double error = 0.0;
    for (int64_t i = 0; i < uf_store_size(want); ++i) {
        uf_store_entry entry;
        uf_tensor *a, *b;
        must(uf_store_entry_at(want, i, &entry));
        must(uf_store_tensor(have, entry.name, &a));
        must(uf_store_tensor(want, entry.name, &b));
        const int64_t count = uf_tensor_count(b);
        double *values = malloc(2 * sizeof *values * (size_t)(count + 1));
        if (values == NULL) {
            fprintf(stderr, "dcgan_trace: out of memory\n");
            exit(1);
        }
        must(uf_tensor_download_as(a, UF_F64, values, count));
        must(uf_tensor_download_as(b, UF_F64, values + count, count));
        for (int64_t k = 0; k < count; ++k) {
            error = worst(error, values[k], values[count + k]);
        }
        free(values);
    }
    return error;
}

/* How far a program of each type may be from the trace, whose numbers are f64. In bf16 losses agree
 * to 2 %; weights that move by at most about lr a step, and statistics, to the second decimal. */
static const struct {
    const char *name;
    uf_dtype dtype, stores;
    double loss_limit, tensor_limit;
    bool relative; /* the limit of losses */
} types[] = {{"f64", UF_F64, UF_F64, 1e-10, 1e-10, false},
             {"f32", UF_F32, UF_F32, 1e-5, 1e-4, false},
             {"bf16", UF_BF16, UF_F32, 0.02, 0.02, true}};

/* The row of `types`, or -1. */
static int find_type(const char *name) {
    for (int i = 0; i < (int)(sizeof types / sizeof types[0]); ++i) {
        if (strcmp(types[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int main(int argc, char **argv) {
    uf_context_options options = uf_context_options_default();
    int type = 0;
    const char *path = argc > 1 ? argv[1] : NULL;
    options.device = UF_DEVICE_CPU;
    for (int i = 2; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--device") == 0 &&
            (strcmp(value, "cpu") == 0 || strcmp(value, "cuda") == 0)) {
            options.device = value[1] == 'p' ? UF_DEVICE_CPU : UF_DEVICE_CUDA;
        } else if (strcmp(argv[i], "--dtype") == 0 && find_type(value) >= 0) {
            type = find_type(value);
        } else if (strcmp(argv[i], "--threads") == 0 && atoi(value) > 0) {
            options.threads = atoi(value);
        } else {
            path = NULL;
        }
    }
    if (path == NULL) {
        fprintf(stderr, "usage: dcgan_trace FILE.h5 [--device cpu|cuda] [--dtype f32|f64|bf16] "
                        "[--threads N]\n");
        return 2;
    }
    const int64_t batch = (int64_t)attribute(path, "batch"), nz = (int64_t)attribute(path, "nz");
    const int64_t features = (int64_t)attribute(path, "features");
    const int64_t channels = (int64_t)attribute(path, "channels");
    const uf_dtype stores = types[type].stores;
    uf_shape losses_shape, z_shape, real_shape;
    double *losses = dataset(path, "losses", &losses_shape);
    double *z = dataset(path, "z", &z_shape);
    double *real = dataset(path, "real", &real_shape);
    const int64_t steps = losses_shape.rank == 2 ? losses_shape.extent[0] : 0;
    const int64_t z_count = batch * nz, real_count = batch * channels * 64 * 64;
    if (steps < 1 || losses_shape.extent[1] != 3 || uf_shape_count(&z_shape) != steps * z_count ||
        uf_shape_count(&real_shape) != steps * real_count) {
        fprintf(stderr, "dcgan_trace: losses, z and real of %s do not fit its attributes\n", path);
        return 1;
    }

    uf_context *context;
    uf_graph *graph;
    must(uf_context_create(&options, &context));
    uf_store *g = load(context, stores, path, "before/generator");
    uf_store *d = load(context, stores, path, "before/discriminator");
    must(uf_graph_create(context, &graph));
    const uf_value z_in = uf_input(graph, "z", UF_SHAPE(batch, nz, 1, 1));
    const uf_value real_in = uf_input(graph, "real", UF_SHAPE(batch, channels, 64, 64));
    const uf_value fake = generator(graph, g, z_in, features, channels);
    const uf_value on_real = discriminator(graph, d, real_in, features);
    const uf_value on_fake = discriminator(graph, d, uf_detach(graph, fake), features);
    const uf_value judged = discriminator(graph, d, fake, features);
    const uf_value one = uf_full_like(graph, on_real, 1.0),
                   zero = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, one),
                                 uf_bce_with_logits_loss(graph, on_fake, zero)};
    const uf_value g_losses[] = {uf_bce_with_logits_loss(graph, judged, one)};

    uf_adam_options adam = uf_adam_options_default();
    adam.lr = attribute(path, "lr");
    adam.beta1 = attribute(path, "beta1");
    adam.beta2 = attribute(path, "beta2");
    uf_optimizer *g_adam, *d_adam;
    must(uf_optimizer_create_adam(g, &adam, &g_adam));
    must(uf_optimizer_create_adam(d, &adam, &d_adam));
    uf_pass passes[2];
    memset(passes, 0, sizeof passes);
    passes[0].losses = d_losses;
    passes[0].loss_count = 2;
    passes[0].stores = &d;
    passes[0].optimizers = &d_adam;
    passes[1].losses = g_losses;
    passes[1].loss_count = 1;
    passes[1].stores = &g;
    passes[1].optimizers = &g_adam;
    for (int p = 0; p < 2; ++p) {
        passes[p].store_count = passes[p].optimizer_count = 1;
    }
    uf_program_options training = uf_program_options_default();
    training.dtype = types[type].dtype;
    training.mode = UF_TRAIN;
    training.passes = passes;
    training.pass_count = 2;
    uf_program *program;
    must(uf_program_compile(graph, &training, &program));

    double loss_error = 0.0;
    for (int64_t step = 0; step < steps; ++step) {
        must(uf_tensor_upload_as(uf_program_input(program, "z"), UF_F64, z + step * z_count,
                                 z_count));
        must(uf_tensor_upload_as(uf_program_input(program, "real"), UF_F64,
                                 real + step * real_count, real_count));
        must(uf_program_run(program));
        must(uf_context_synchronize(context));
        double have[3] = {0};
        int64_t finished;
        bool finite;
        must(uf_program_losses(program, have, 3, &finished, &finite));
        for (int k = 0; k < 3; ++k) {
            const bool recorded = finished == step + 1 && finite;
            const double want = losses[step * 3 + k];
            const double unit = types[type].relative ? fabs(want) : 1.0;
            loss_error = worst(loss_error, recorded ? have[k] / unit : (double)NAN, want / unit);
        }
    }
    uf_store *g_after = load(context, stores, path, "after/generator");
    uf_store *d_after = load(context, stores, path, "after/discriminator");
    const double tensor_error = fmax(compare(g, g_after), compare(d, d_after));
    const double loss_limit = types[type].loss_limit, tensor_limit = types[type].tensor_limit;
    const bool passed = loss_error <= loss_limit && tensor_error <= tensor_limit;
    printf("%s, %s: %lld steps, losses differ by at most %.3g (limit %.0e), tensors by %.3g (limit "
           "%.0e): %s\n",
           uf_context_description(context), types[type].name, (long long)steps, loss_error,
           loss_limit, tensor_error, tensor_limit, passed ? "ok" : "FAILED");

    uf_program_destroy(program);
    uf_optimizer_destroy(g_adam);
    uf_optimizer_destroy(d_adam);
    uf_graph_destroy(graph);
    uf_store_destroy(g_after);
    uf_store_destroy(d_after);
    uf_store_destroy(g);
    uf_store_destroy(d);
    uf_context_destroy(context);
    free(losses);
    free(z);
    free(real);
    return passed ? 0 : 1;
}
