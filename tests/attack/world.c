/* world.c - see world.h. */
#include "attack/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(uf_status status, const char *call) {
    if (status != UF_OK) {
        fprintf(stderr, "the world cannot be made: %s: %s: %s\n", call, uf_status_name(status),
                uf_last_error());
        exit(2);
    }
}

#define MUST(call) must((call), #call)

/* An absurd size is refused as on a machine that is full, whatever the real one would give. */
static void *allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                      void *stream) {
    world *one = user;
    (void)kind;
    (void)stream;
    if (size > WORLD_LIMIT - one->used) {
        return NULL;
    }
    void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    one->used += memory != NULL ? size : 0;
    return memory;
}

static void release(void *user, void *pointer, size_t size, uf_memory_kind kind, void *stream) {
    world *one = user;
    (void)kind;
    (void)stream;
    one->used -= size;
    free(pointer);
}

static uf_context *make_context(world *one) {
    uf_context *context;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    options.allocator = (uf_allocator){allocate, release, one};
    MUST(uf_context_create(&options, &context));
    return context;
}

uf_context *world_spare_context(world *one) {
    return make_context(one);
}

static uf_store *make_store(uf_context *context, const char *name) {
    uf_store *store;
    MUST(uf_store_create(context, name, &store));
    return store;
}

static uf_graph *make_graph(uf_context *context) {
    uf_graph *graph;
    MUST(uf_graph_create(context, &graph));
    return graph;
}

static void make_program(world *one) {
    const uf_value losses[] = {one->loss};
    const uf_value inputs[] = {one->image};
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.stores = &one->store;
    pass.optimizers = &one->optimizer;
    pass.inputs = inputs;
    pass.loss_count = pass.store_count = pass.optimizer_count = pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.mode = UF_TRAIN;
    options.passes = &pass;
    options.pass_count = 1;
    MUST(uf_optimizer_create_sgd(one->store, NULL, &one->optimizer));
    MUST(uf_program_compile(one->graph, &options, &one->program));
}

void world_create(world *one) {
    memset(one, 0, sizeof *one);
    one->context = make_context(one);
    one->other_context = make_context(one);
    one->store = make_store(one->context, "store");
    one->open = make_store(one->context, "open");
    one->foreign = make_store(one->other_context, "foreign");
    MUST(uf_store_declare(one->open, "w", UF_SHAPE(2, 3), UF_ROLE_PARAMETER));
    MUST(uf_store_declare(one->open, "n", UF_SCALAR, UF_ROLE_COUNTER));
    MUST(uf_store_declare(one->foreign, "w", UF_SHAPE(2, 3), UF_ROLE_PARAMETER));
    one->graph = make_graph(one->context);
    one->other_graph = make_graph(one->context);
    one->foreign_graph = make_graph(one->other_context);
    one->broken = make_graph(one->context);
    (void)uf_input(one->broken, "", UF_SCALAR);
    one->other_value = uf_input(one->other_graph, "x", UF_SHAPE(2, 4, 3, 3));
    (void)uf_input(one->foreign_graph, "x", UF_SHAPE(2, 4, 3, 3));

    uf_graph *graph = one->graph;
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.padding[0] = conv.padding[1] = 1;
    one->image = uf_input(graph, "x", UF_SHAPE(2, 4, 3, 3));
    one->sequence = uf_input(graph, "s", UF_SHAPE(2, 4, 5));
    one->flat = uf_input(graph, "f", UF_SHAPE(2, 6));
    one->labels = uf_input_i64(graph, "labels", UF_SHAPE(2, 3, 3));
    one->filters = uf_input(graph, "w", UF_SHAPE(4, 2, 3, 3));
    one->matrix = uf_input(graph, "m", UF_SHAPE(2, 6));
    one->biases = uf_input(graph, "b", UF_SHAPE(2));
    uf_value y = uf_conv2d(graph, one->image, uf_at(one->store, "conv"), 4, &conv);
    y = uf_tanh(graph, uf_batch_norm2d(graph, y, uf_at(one->store, "norm"), NULL));
    uf_output(graph, "y", y);
    one->loss = uf_mse_loss(graph, y, one->image);
    MUST(uf_init_default(graph, one->store));
    make_program(one);
    MUST(uf_store_copy(one->store, one->context, UF_F32, &one->average));
    MUST(uf_ema_create(one->store, one->average, NULL, &one->ema));
    MUST(uf_model_parse(one->context, "text", WORLD_MODEL_TEXT, strlen(WORLD_MODEL_TEXT), NULL,
                        &one->model));
    MUST(uf_store_seal(uf_model_store(one->model)));
    MUST(uf_tensor_create(one->context, UF_F32, UF_SHAPE(2, 3), &one->tensor));
    const float numbers[6] = {0.0F};
    MUST(uf_tensor_upload(one->tensor, numbers));
}

void world_forget(world *one) {
    world_made *made = &one->made;
    uf_picture_free(&made->picture);
    uf_png_writer_destroy(made->writer);
    uf_picture_writer_destroy(made->picture_writer);
    uf_hdf5_list_free(made->entries);
    uf_weights_close(made->weights);
    uf_profile_free(made->profile);
    uf_tensor_destroy(made->tensor);
    uf_program_destroy(made->program);
    uf_model_destroy(made->model);
    uf_ema_destroy(made->ema);
    uf_optimizer_destroy(made->optimizer);
    uf_graph_destroy(made->graph);
    uf_store_destroy(made->store);
    uf_context_destroy(made->context);
    memset(made, 0, sizeof *made);
}

static void destroy_objects(world *one, bool from_the_end) {
    if (from_the_end) {
        uf_tensor_destroy(one->tensor);
        uf_program_destroy(one->program);
        uf_model_destroy(one->model);
        uf_ema_destroy(one->ema);
        uf_optimizer_destroy(one->optimizer);
    }
    uf_graph_destroy(one->broken);
    uf_graph_destroy(one->foreign_graph);
    uf_graph_destroy(one->other_graph);
    uf_graph_destroy(one->graph);
    uf_store_destroy(one->foreign);
    uf_store_destroy(one->open);
    uf_store_destroy(one->average);
    uf_store_destroy(one->store);
    if (!from_the_end) {
        uf_optimizer_destroy(one->optimizer);
        uf_ema_destroy(one->ema);
        uf_program_destroy(one->program);
        uf_model_destroy(one->model);
        uf_tensor_destroy(one->tensor);
    }
}

void world_destroy(world *one, int order) {
    world_forget(one);
    if (order < 2) {
        destroy_objects(one, order == 0);
    }
    uf_context_destroy(one->other_context);
    uf_context_destroy(one->context);
    if (one->used != 0) {
        fprintf(stderr, "%zu bytes of the contexts' memory were not given back\n", one->used);
        exit(2);
    }
}

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(2);
    }
}

/* The layers of the world's store as Keras numbers their variables: layers/conv/vars/0. */
static void write_keras(uf_context *context) {
    static const char *const names[] = {"layers.conv.vars.1", "layers.norm.vars.0",
                                        "layers.norm.vars.1", "layers.norm.vars.2",
                                        "layers.norm.vars.3"};
    uf_weights_convert_options options = uf_weights_convert_options_default();
    uf_store *store = make_store(context, "keras");
    MUST(uf_store_declare(store, "layers.conv.vars.0", UF_SHAPE(3, 3, 4, 4), UF_ROLE_PARAMETER));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        MUST(uf_store_declare(store, names[i], UF_SHAPE(4), UF_ROLE_PARAMETER));
    }
    options.format = UF_WEIGHTS_HDF5;
    options.names = UF_WEIGHTS_NAMES_NESTED;
    MUST(uf_weights_save(store, WORLD_KERAS, NULL));
    MUST(uf_weights_convert(WORLD_KERAS, WORLD_KERAS, &options));
    uf_store_destroy(store);
}

void world_write_files(void) {
    static world one;
    uf_picture picture;
    world_create(&one);
    MUST(uf_store_save_hdf5(one.store, WORLD_WEIGHTS));
    write_keras(one.context);
    static const char *const metadata[] = {"made by", "the world"};
    uf_weights_save_options options = uf_weights_save_options_default();
    options.metadata = metadata;
    options.metadata_count = 1;
    MUST(uf_weights_save(one.store, WORLD_TENSORS, &options));
    const uf_checkpoint_part parts[] = {
        uf_checkpoint_store("net", one.store), uf_checkpoint_optimizer("net", one.optimizer),
        uf_checkpoint_program("net", one.program), uf_checkpoint_ema("net", one.ema)};
    MUST(uf_checkpoint_save(WORLD_CHECKPOINT, parts, 4, NULL));
    MUST(uf_picture_create(3, 2, 3, 8, &picture));
    memset(picture.samples, 7, 3 * 2 * 3);
    MUST(uf_png_write(WORLD_PICTURE, &picture));
    uf_picture_free(&picture);
    MUST(uf_model_save(one.model, WORLD_MODEL));
    static const char param[] = "7767517\n2 2\nInput x 0 1 x 0=3 1=3 2=2\nPReLU p 1 1 x y 0=2\n";
    write_file(WORLD_NCNN_PARAM, param, sizeof param - 1);
    write_file(WORLD_NCNN_BIN, (const float[]){0.25f, 0.5f}, 2 * sizeof(float));
    world_destroy(&one, 0);
}
