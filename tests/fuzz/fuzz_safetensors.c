/* fuzz_safetensors.c - any bytes: tensors that lie within the file, or a sentence and a store as it
 * was. Files are not trusted: a file is read as it is, and never mapped. */
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

static uf_context *context;

static uf_store *new_store(void) {
    uf_store *store;
    if (context == NULL) {
        uf_context_options options = uf_context_options_default();
        options.device = UF_DEVICE_CPU;
        options.threads = 1;
        FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    }
    FUZZ_DEMAND(uf_store_create(context, "s", &store) == UF_OK);
    return store;
}

static void demand_sentence(uf_status status) {
    FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_SHAPE);
    FUZZ_DEMAND(uf_last_error()[0] != '\0');
}

static void check_load(const char *path) {
    uf_weights_load_options options = uf_weights_load_options_default();
    uf_store *store = new_store();
    options.untrusted = true;
    const uf_status status = uf_weights_load(store, path, &options);
    if (status != UF_OK) {
        demand_sentence(status);
        FUZZ_DEMAND(uf_store_size(store) == 0);
    }
    uf_store_destroy(store);
    /* Into a store that has some of it, and keeps it where anything fails. */
    store = new_store();
    float seven[6] = {7, 7, 7, 7, 7, 7}, values[6];
    uf_tensor *tensor;
    FUZZ_DEMAND(uf_store_declare(store, "a.weight", UF_SHAPE(2, 3), UF_ROLE_PARAMETER) == UF_OK);
    FUZZ_DEMAND(uf_store_tensor(store, "a.weight", &tensor) == UF_OK);
    FUZZ_DEMAND(uf_tensor_upload(tensor, seven) == UF_OK);
    options.strict = false;
    const uf_status again = uf_weights_load(store, path, &options);
    if (again != UF_OK) {
        demand_sentence(again);
        FUZZ_DEMAND(uf_tensor_download(tensor, values) == UF_OK);
        FUZZ_DEMAND(memcmp(values, seven, sizeof seven) == 0);
    }
    uf_store_destroy(store);
}

static void check_entries(uf_weights_file *file, size_t size) {
    const int64_t count = uf_weights_count(file);
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; ++i) {
        uf_weights_entry entry;
        FUZZ_DEMAND(uf_weights_entry_at(file, i, &entry) == UF_OK);
        FUZZ_DEMAND(memchr(entry.name, '\0', sizeof entry.name) != NULL);
        FUZZ_DEMAND(entry.bytes >= 0 && entry.bytes <= (int64_t)size);
        bytes += entry.bytes;
        if (!entry.is_tensor) {
            continue;
        }
        const int64_t elements = uf_shape_count(&entry.shape);
        FUZZ_DEMAND(elements > 0 && elements <= entry.bytes);
        double *values = malloc((size_t)elements * sizeof *values);
        FUZZ_DEMAND(values != NULL);
        const uf_status status = uf_weights_read(file, i, UF_F64, values, elements);
        if (status != UF_OK) {
            demand_sentence(status);
        }
        free(values);
    }
    FUZZ_DEMAND(bytes <= (int64_t)size);
    for (int64_t i = 0; i < uf_weights_metadata_count(file); ++i) {
        const char *name, *text;
        FUZZ_DEMAND(uf_weights_metadata_at(file, i, &name, &text) == UF_OK);
        FUZZ_DEMAND(strlen(name) + strlen(text) <= size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    uf_weights_open_options options = uf_weights_open_options_default();
    uf_weights_file *file;
    options.untrusted = true;
    /* The input may say that it is of another format, which has a target of its own. */
    if (size >= 4 && memcmp(data, "\x89HDF", 4) == 0) {
        return 0;
    }
    const uf_status status = uf_weights_open(path, &options, &file);
    if (status != UF_OK) {
        demand_sentence(status);
        FUZZ_DEMAND(file == NULL);
    } else {
        check_entries(file, size);
    }
    uf_weights_close(file);
    check_load(path);
    return 0;
}

/* Types, metadata and names of several sorts; six with more and more tensors, four with few. */
int fuzz_seed(int index, const char *path) {
    static const char *const metadata[] = {"format", "pt", "a \"b\"", "\\ \n \303\251"};
    if (index >= 10) {
        return 0;
    }
    uf_store_options in_f64 = uf_store_options_default();
    uf_weights_save_options options = uf_weights_save_options_default();
    uf_store *store = new_store();
    uf_store_destroy(store);
    in_f64.dtype = index % 2 != 0 ? UF_F64 : UF_F32;
    options.format = UF_WEIGHTS_SAFETENSORS;
    options.metadata = metadata;
    options.metadata_count = index % 3;
    int made = uf_store_create_with(context, "s", &in_f64, &store) == UF_OK &&
               uf_store_declare(store, "a.weight", UF_SHAPE(2, 3), UF_ROLE_PARAMETER) == UF_OK &&
               uf_store_declare(store, "n", UF_SCALAR, UF_ROLE_COUNTER) == UF_OK;
    const int count = index < 6 ? 12 * index : index - 5;
    for (int i = 0; i < count && made; ++i) {
        const uf_scope scope = uf_atf(store, "layer.%d.b\303\251 \"%d\"", i, i);
        made = uf_store_declare(store, scope.path, UF_SHAPE(1 + i % 3, 2), UF_ROLE_BUFFER) == UF_OK;
    }
    made = made && uf_weights_save(store, path, &options) == UF_OK;
    uf_store_destroy(store);
    return made;
}
