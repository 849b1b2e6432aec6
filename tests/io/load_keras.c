/* load_keras FILE [--prefix PREFIX] [--same]
 * [LAYER=PREFIX[:in=HxWxC|:out=HxWxC|:scale|:center]]...: "scale" and "center" are what a batch
 * norm lacks. Load a Keras file into the network of check_keras.py by this mapping, run it and
 * print what it computes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

enum { BATCH = 2, LATENT = 6, OUT = 7, MOST = 32, MOST_ELEMENTS = 1024 };

/* A layer of each kind that Keras files are read for. */
static uf_value network(uf_graph *graph, uf_store *store, uf_value z) {
    uf_batch_norm2d_options norm = uf_batch_norm2d_options_default();
    norm.eps = 1e-3; /* Keras's */
    uf_value x = uf_linear(graph, z, uf_at(store, "net.dense"), 24, true);
    x = uf_batch_norm1d(graph, x, uf_at(store, "net.norm0"), &norm);
    x = uf_reshape(graph, x, UF_SHAPE(BATCH, 4, 2, 3));
    x = uf_conv_transpose2d(graph, x, uf_at(store, "net.up"), 5,
                            UF_CONV_TRANSPOSE2D(3, 2, 0, true));
    x = uf_batch_norm2d(graph, x, uf_at(store, "net.norm1"), &norm);
    uf_conv2d_options depthwise = uf_conv2d_options_default();
    depthwise.kernel[0] = depthwise.kernel[1] = 3;
    depthwise.groups = 5;
    x = uf_conv2d(graph, x, uf_at(store, "net.depthwise"), 10, &depthwise);
    x = uf_prelu(graph, x, uf_at(store, "net.slope"), 10);
    x = uf_conv2d(graph, x, uf_at(store, "net.last"), 3, UF_CONV2D(2, 1, 0, false));
    x = uf_flatten(graph, x, 1, -1);
    return uf_linear(graph, x, uf_at(store, "net.head"), OUT, true);
}

static void read_image(const char *text, int64_t image[3]) {
    if (sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &image[0], &image[1], &image[2]) != 3) {
        fprintf(stderr, "%s is no HxWxC\n", text);
        exit(2);
    }
}

static uf_keras_layer read_row(char *text) {
    uf_keras_layer row;
    memset(&row, 0, sizeof row);
    row.layer = strtok(text, "=");
    row.prefix = strtok(NULL, ":");
    for (const char *image; (image = strtok(NULL, ":")) != NULL;) {
        row.no_scale = row.no_scale || strcmp(image, "scale") == 0;
        row.no_center = row.no_center || strcmp(image, "center") == 0;
        if (strchr(image, '=') != NULL) {
            read_image(strchr(image, '=') + 1, image[0] == 'i' ? row.in_image : row.out_image);
        }
    }
    return row;
}

/* Load, or leave the store as it was: one that has changed ends the program. */
static uf_status load(uf_context *context, uf_graph *graph, uf_store *store, const char *path,
                      const uf_hdf5_load_options *options) {
    uf_store *before;
    UF_TRY(uf_init_default(graph, store));
    UF_TRY(uf_store_copy(store, context, UF_F64, &before));
    const uf_status status = uf_store_load_hdf5(store, path, options);
    for (int64_t i = 0; status != UF_OK && i < uf_store_size(store); ++i) {
        static double values[MOST_ELEMENTS], others[MOST_ELEMENTS];
        uf_store_entry entry;
        uf_tensor *tensor, *other;
        UF_TRY(uf_store_entry_at(store, i, &entry));
        UF_TRY(uf_store_tensor(store, entry.name, &tensor));
        UF_TRY(uf_store_tensor(before, entry.name, &other));
        UF_TRY(uf_tensor_download(tensor, values));
        UF_TRY(uf_tensor_download(other, others));
        if (memcmp(values, others, sizeof values) != 0) {
            fprintf(stderr, "%s has changed, though the load has failed\n", entry.name);
            exit(3);
        }
    }
    return status;
}

static uf_status run(uf_context *context, const char *path, const uf_keras_mapping *mapping) {
    uf_store_options of_store = uf_store_options_default();
    uf_program_options of_program = uf_program_options_default();
    uf_hdf5_load_options of_load = uf_hdf5_load_options_default();
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    double z[BATCH * LATENT], image[BATCH * OUT];
    of_store.dtype = of_program.dtype = UF_F64;
    of_load.keras = mapping;
    UF_TRY(uf_store_create_with(context, "network", &of_store, &store));
    UF_TRY(uf_graph_create(context, &graph));
    uf_output(graph, "y", network(graph, store, uf_input(graph, "z", UF_SHAPE(BATCH, LATENT))));
    UF_TRY(uf_graph_status(graph));
    UF_TRY(load(context, graph, store, path, &of_load));
    UF_TRY(uf_program_compile(graph, &of_program, &program));
    for (int i = 0; i < BATCH * LATENT; ++i) {
        z[i] = sin(i + 1.0);
    }
    UF_TRY(uf_tensor_upload(uf_program_input(program, "z"), z));
    UF_TRY(uf_program_run(program));
    UF_TRY(uf_tensor_download(uf_program_output(program, "y"), image));
    for (int i = 0; i < BATCH * OUT; ++i) {
        printf("%.17g\n", image[i]);
    }
    return UF_OK;
}

int main(int argc, char **argv) {
    uf_keras_layer rows[MOST];
    uf_keras_mapping mapping = uf_keras_mapping_default();
    mapping.layers = rows;
    for (int i = 2; i < argc && mapping.layer_count < MOST; ++i) {
        if (strcmp(argv[i], "--prefix") == 0 && i + 1 < argc) {
            mapping.prefix = argv[++i];
        } else if (strcmp(argv[i], "--same") == 0) {
            mapping.same_padding = true;
        } else {
            rows[mapping.layer_count++] = read_row(argv[i]);
        }
    }
    uf_context *context = NULL;
    uf_context_options on_cpu = uf_context_options_default();
    on_cpu.device = UF_DEVICE_CPU;
    on_cpu.threads = 1;
    uf_status status = argc < 2 ? UF_ERROR_INVALID_ARGUMENT : uf_context_create(&on_cpu, &context);
    if (status == UF_OK) {
        status = run(context, argv[1], &mapping);
    }
    if (status != UF_OK) {
        fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    }
    uf_context_destroy(context);
    return status == UF_OK ? 0 : 1;
}
