/* fuzz_hdf5.c - any bytes, without libhdf5: tensors, or a sentence and a store that is as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

static void demand_refusal(uf_status status) {
    FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_SHAPE ||
                status == UF_ERROR_OUT_OF_MEMORY || status == UF_ERROR_NOT_FOUND);
    FUZZ_DEMAND(uf_last_error()[0] != '\0');
}

static void load_into_empty(uf_context *context, const char *path) {
    uf_store *store;
    FUZZ_DEMAND(uf_store_create(context, "empty", &store) == UF_OK);
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.untrusted = true;
    const uf_status status = uf_store_load_hdf5(store, path, &options);
    if (status != UF_OK) {
        demand_refusal(status);
        FUZZ_DEMAND(uf_store_size(store) == 0);
        FUZZ_DEMAND(uf_store_declare(store, "still open", UF_SCALAR, UF_ROLE_PARAMETER) == UF_OK);
    } else {
        FUZZ_DEMAND(uf_store_size(store) > 0);
    }
    uf_store_destroy(store);
}

static void load_into_declared(uf_context *context, const char *path) {
    uf_store *store;
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strict = false;
    options.untrusted = true;
    FUZZ_DEMAND(uf_store_create(context, "declared", &store) == UF_OK);
    FUZZ_DEMAND(uf_store_declare(store, "main.0.weight", UF_SHAPE(3, 5), UF_ROLE_PARAMETER) ==
                UF_OK);
    FUZZ_DEMAND(uf_store_declare(store, "main.1.n", UF_SCALAR, UF_ROLE_COUNTER) == UF_OK);
    const uf_status status = uf_store_load_hdf5(store, path, &options);
    if (status != UF_OK) {
        demand_refusal(status);
    }
    FUZZ_DEMAND(uf_store_size(store) == 2);
    uf_store_destroy(store);
}

/* The layers that the files of Keras among the seeds have; returns whether they were loaded. */
static int load_keras(uf_context *context, const char *path) {
    static const char *const names[] = {"conv.bias", "norm.weight", "norm.bias"};
    uf_store *store;
    uf_keras_mapping mapping = uf_keras_mapping_default();
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    mapping.prefix = "";
    options.keras = &mapping;
    options.untrusted = true;
    FUZZ_DEMAND(uf_store_create(context, "keras", &store) == UF_OK);
    FUZZ_DEMAND(uf_store_declare(store, "conv.weight", UF_SHAPE(4, 3, 2, 2), UF_ROLE_PARAMETER) ==
                UF_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        FUZZ_DEMAND(uf_store_declare(store, names[i], UF_SHAPE(4), UF_ROLE_PARAMETER) == UF_OK);
    }
    const uf_status status = uf_store_load_hdf5(store, path, &options);
    if (status != UF_OK && status != UF_ERROR_UNSUPPORTED) { /* padding="same" */
        demand_refusal(status);
    }
    uf_store_destroy(store);
    return status == UF_OK;
}

static void read_attribute(const char *path) {
    double values[4];
    int32_t count;
    const uf_status status = uf_hdf5_read_attribute(path, "/", "number 1", values, 4, &count);
    if (status != UF_OK) {
        demand_refusal(status);
        FUZZ_DEMAND(count == 0);
    }
}

static void list_and_read(const char *path) {
    uf_hdf5_entry *entries;
    int64_t count;
    const uf_status status = uf_hdf5_list(path, NULL, &entries, &count);
    if (status != UF_OK) {
        demand_refusal(status);
        return;
    }
    /* A few of them: each reading opens the file anew. */
    for (int64_t i = 0; i < count; i += 1 + count / 8) {
        uf_shape shape;
        double values[256];
        const uf_status read = uf_hdf5_read(path, entries[i].name, UF_F64, &shape, values, 256);
        if (read != UF_OK) {
            demand_refusal(read);
        } else {
            FUZZ_DEMAND(entries[i].is_tensor && uf_shape_equal(&shape, &entries[i].shape));
            FUZZ_DEMAND(uf_shape_count(&shape) >= 1 && uf_shape_count(&shape) <= 256);
        }
    }
    uf_hdf5_list_free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_context *context;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    const char *path = fuzz_file(data, size);
    load_into_empty(context, path);
    load_into_declared(context, path);
    list_and_read(path);
    read_attribute(path);
    (void)load_keras(context, path);
    uf_context_destroy(context);
    return 0;
}
