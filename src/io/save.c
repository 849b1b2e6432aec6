/* save.c - a store's tensors to a file, by name. */
#include <stdlib.h>
#include <string.h>

#include <unfurl/hdf5.h>

#include "core/store.h"
#include "io/tensor_file.h"
#include "io/tensor_writer.h"

/* `host` has room for the largest tensor. */
static uf_status save_items(const uf_store *store, uf_tensor_writer *writer, void *host) {
    for (int64_t i = uf_tensor_writer_next(writer); i >= 0; i = uf_tensor_writer_next(writer)) {
        UF_TRY(uf_tensor_download(&store->slots[i].tensor, host));
        UF_TRY(uf_tensor_writer_write(writer, host));
    }
    return UF_OK;
}

/* The tensors to be written; *largest gets the bytes of the largest tensor. */
static uf_status describe(const uf_store *store, uf_written *entries, size_t *largest) {
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        const size_t bytes = (size_t)slot->tensor.count * uf_dtype_size(slot->tensor.dtype);
        UF_CHECK_ARG(strchr(slot->name, '/') == NULL && uf_file_is_name(slot->name),
                     "store \"%s\": %s cannot be the name of a dataset", store->name, slot->name);
        entries[i] = (uf_written){.name = slot->name,
                                  .type = uf_dtype_name(slot->tensor.dtype),
                                  .dtype = slot->tensor.dtype,
                                  .shape = slot->shape};
        *largest = bytes > *largest ? bytes : *largest;
    }
    return UF_OK;
}

static uf_status save_file(uf_store *store, const char *path, const uf_weights_save_options *given,
                           uf_written *entries) {
    size_t largest = 1;
    UF_TRY(describe(store, entries, &largest));
    void *host = malloc(largest);
    if (host == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory saving %s: %zu bytes", path, largest);
    }
    uf_tensor_writer writer = {.path = path,
                               .entries = entries,
                               .count = store->count,
                               .metadata = given->metadata,
                               .metadata_count = given->metadata_count};
    uf_status status = uf_tensor_writer_begin(&writer, given->format);
    if (status == UF_OK) {
        status = uf_tensor_writer_finish(&writer, save_items(store, &writer, host));
    }
    free(host);
    return status;
}

static uf_status save(uf_store *store, const char *path, const uf_weights_save_options *options) {
    UF_TRY(uf_store_close(store));
    uf_written *entries = calloc((size_t)store->count + 1, sizeof *entries);
    if (entries == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory saving %s", path);
    }
    const uf_status status = save_file(store, path, options, entries);
    free(entries);
    return status;
}

uf_status uf_weights_save(uf_store *store, const char *path, const uf_weights_save_options *given) {
    UF_CHECK_ARG(store != NULL && path != NULL, "uf_weights_save: store or path is NULL");
    uf_weights_save_options options = uf_weights_save_options_default();
    UF_TRY(uf_read_struct("uf_weights_save_options", given, &options, sizeof options));
    UF_CHECK_ARG((unsigned)options.format <= UF_WEIGHTS_SAFETENSORS,
                 "uf_weights_save_options.format is %d, no uf_weights_format", (int)options.format);
    return save(store, path, &options);
}

uf_status uf_store_save_hdf5(uf_store *store, const char *path) {
    UF_CHECK_ARG(store != NULL && path != NULL, "uf_store_save_hdf5: store or path is NULL");
    uf_weights_save_options options = uf_weights_save_options_default();
    options.format = UF_WEIGHTS_HDF5;
    return save(store, path, &options);
}
