/* load.c - loads weights while an allocation fails, and looks at what the failure left.
 *
 *   attack_load make FOLDER                 writes the files: a.h5, packed.h5, keras.h5,
 *                                           a.safetensors
 *   attack_load load FILE HOW STORE OUT     HOW is trusted, untrusted or keras; STORE is declared,
 *                                           with contents, or empty
 *
 * A load is tried twice, so that what a first one keeps for good counts as no leak. After a failure
 * the store must hold what it held, and the process as much memory as before. The values of a
 * load that succeeds go to OUT. Wants GLIBC_TUNABLES=glibc.malloc.tcache_count=0. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

enum { TENSORS = 6, MOST = 4 * 4 * 3 * 3 };

/* Named as in the store, and as Keras 3 names and shapes the same. */
static const struct {
    const char *name, *keras;
    uf_shape shape, keras_shape;
    uf_role role;
} tensors[TENSORS] = {
    {"conv.weight", "layers.conv.vars.0", {4, {4, 4, 3, 3}}, {4, {3, 3, 4, 4}}, UF_ROLE_PARAMETER},
    {"conv.bias", "layers.conv.vars.1", {1, {4}}, {1, {4}}, UF_ROLE_PARAMETER},
    {"norm.weight", "layers.norm.vars.0", {1, {4}}, {1, {4}}, UF_ROLE_PARAMETER},
    {"norm.bias", "layers.norm.vars.1", {1, {4}}, {1, {4}}, UF_ROLE_PARAMETER},
    {"norm.running_mean", "layers.norm.vars.2", {1, {4}}, {1, {4}}, UF_ROLE_BUFFER},
    {"norm.running_var", "layers.norm.vars.3", {1, {4}}, {1, {4}}, UF_ROLE_BUFFER},
};

static uf_context *context;

static uf_status tell(const char *what) {
    fprintf(stderr, "attack_load: %s (%s)\n", what, uf_last_error());
    exit(3);
}

/* A store that declares the tensors, all of one value; `keras`: as the file has them. */
static uf_status make_store(bool keras, uf_dtype dtype, float value, uf_store **made) {
    float values[MOST];
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    UF_TRY(uf_store_create_with(context, "store", &options, made));
    uf_status status = UF_OK;
    for (int i = 0; i < TENSORS && status == UF_OK; ++i) {
        status =
            uf_store_declare(*made, keras ? tensors[i].keras : tensors[i].name,
                             keras ? tensors[i].keras_shape : tensors[i].shape, tensors[i].role);
    }
    for (int i = 0; i < TENSORS && status == UF_OK; ++i) {
        uf_tensor *tensor;
        status = uf_store_tensor(*made, keras ? tensors[i].keras : tensors[i].name, &tensor);
        for (int j = 0; j < MOST; ++j) {
            values[j] = value + (float)(value == 0.0F) * (float)(i + j);
        }
        if (status == UF_OK) {
            status = uf_tensor_upload_as(tensor, UF_F32, values, uf_tensor_count(tensor));
        }
    }
    if (status != UF_OK) {
        uf_store_destroy(*made);
    }
    return status;
}

/* ---- the files ---- */

static uf_status write_files(const char *folder) {
    char path[4][512];
    static const char *const names[] = {"a.h5", "packed.h5", "keras.h5", "a.safetensors"};
    uf_weights_convert_options options = uf_weights_convert_options_default();
    uf_store *store, *keras;
    for (int i = 0; i < 4; ++i) {
        (void)snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    }
    /* f64 in the files, f32 in the stores: types differ. */
    UF_TRY(make_store(false, UF_F64, 0.0F, &store));
    UF_TRY(make_store(true, UF_F32, 0.0F, &keras));
    UF_TRY(uf_weights_save(store, path[0], NULL));
    UF_TRY(uf_weights_save(store, path[3], NULL));
    UF_TRY(uf_weights_save(keras, path[2], NULL));
    options.names = UF_WEIGHTS_NAMES_NESTED;
    options.format = UF_WEIGHTS_HDF5;
    UF_TRY(uf_weights_convert(path[2], path[2], &options));
    options.gzip_level = 6;
    UF_TRY(uf_weights_convert(path[0], path[1], &options));
    uf_store_destroy(keras);
    uf_store_destroy(store);
    return UF_OK;
}

/* ---- a load ---- */

static size_t memory_in_use(void) {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static void demand_unchanged(uf_store *store, bool is_empty) {
    if (is_empty) {
        if (uf_store_size(store) != 0) {
            (void)tell("the store is not empty any more");
        }
        return;
    }
    for (int i = 0; i < TENSORS; ++i) {
        uf_tensor *tensor;
        float values[MOST];
        if (uf_store_tensor(store, tensors[i].name, &tensor) != UF_OK ||
            uf_tensor_download(tensor, values) != UF_OK) {
            (void)tell("the store cannot be read any more");
        }
        for (int64_t j = 0; j < uf_tensor_count(tensor); ++j) {
            if (values[j] != 7.0F) {
                (void)tell("the store has changed");
            }
        }
    }
}

static uf_status load(uf_store *store, const char *path, const char *how, bool is_empty) {
    uf_weights_load_options options = uf_weights_load_options_default();
    uf_keras_mapping mapping = uf_keras_mapping_default();
    mapping.prefix = "";
    options.keras = strcmp(how, "keras") == 0 ? &mapping : NULL;
    options.untrusted = strcmp(how, "trusted") != 0;
    const size_t before = memory_in_use();
    const uf_status status = uf_weights_load(store, path, &options);
    if (status != UF_OK) {
        if (memory_in_use() != before) {
            (void)tell("memory leaks");
        }
        demand_unchanged(store, is_empty);
    }
    return status;
}

static uf_status write_values(uf_store *store, FILE *out) {
    for (int i = 0; i < TENSORS; ++i) {
        uf_tensor *tensor;
        float values[MOST];
        UF_TRY(uf_store_tensor(store, tensors[i].name, &tensor));
        UF_TRY(uf_tensor_download(tensor, values));
        for (int64_t j = 0; j < uf_tensor_count(tensor); ++j) {
            fprintf(out, "%s[%" PRId64 "] = %g\n", tensors[i].name, j, (double)values[j]);
        }
    }
    return UF_OK;
}

static uf_status load_once(char **words, FILE *out) {
    const bool is_empty = strcmp(words[4], "empty") == 0;
    uf_store *store;
    if (is_empty) {
        UF_TRY(uf_store_create(context, "store", &store));
    } else {
        UF_TRY(make_store(false, UF_F32, 7.0F, &store));
    }
    uf_status status = load(store, words[2], words[3], is_empty);
    if (status == UF_OK && out != NULL) {
        status = write_values(store, out);
    }
    uf_store_destroy(store);
    return status;
}

static uf_status load_twice(char **words) {
    UF_TRY(load_once(words, NULL));
    FILE *out = fopen(words[5], "w");
    if (out == NULL) {
        fprintf(stderr, "UF_ERROR_OUT_OF_MEMORY: the output cannot be opened\n");
        exit(1);
    }
    setvbuf(out, NULL, _IONBF, 0);
    const uf_status status = load_once(words, out);
    if (fclose(out) != 0 || status != UF_OK) {
        (void)remove(words[5]);
    }
    return status;
}

int main(int count, char **words) {
    const bool makes = count == 3 && strcmp(words[1], "make") == 0;
    if (!makes && (count != 6 || strcmp(words[1], "load") != 0)) {
        fprintf(stderr, "attack_load: its first lines say how it is called\n");
        return 2;
    }
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    uf_status status = uf_context_create(&options, &context);
    if (status == UF_OK) {
        status = makes ? write_files(words[2]) : load_twice(words);
    }
    if (status != UF_OK) {
        fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    }
    uf_context_destroy(context);
    return status == UF_OK ? 0 : 1;
}
