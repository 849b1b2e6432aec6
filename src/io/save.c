/* save.c - a store's tensors to an HDF5 file, by name. */
#include <stdlib.h>
#include <string.h>

#include "core/store.h"
#include "io/hdf5_file.h"

/* `host` has room for the largest tensor. */
static uf_status save_items(const uf_store *store, uf_hdf5_file *file, void *host) {
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        UF_TRY(uf_tensor_download(&slot->tensor, host));
        UF_TRY(uf_hdf5_write_tensor(file, slot->name, slot->tensor.dtype, &slot->shape, host,
                                    (uf_hdf5_storage){0}));
    }
    return UF_OK;
}

uf_status uf_store_save_hdf5(uf_store *store, const char *path) {
    UF_CHECK_ARG(store != NULL && path != NULL, "uf_store_save_hdf5: store or path is NULL");
    UF_TRY(uf_store_close(store));
    size_t largest = 1;
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_tensor *tensor = &store->slots[i].tensor;
        const size_t bytes = (size_t)tensor->count * uf_dtype_size(tensor->dtype);
        UF_CHECK_ARG(
            strchr(store->slots[i].name, '/') == NULL && uf_hdf5_is_name(store->slots[i].name),
            "store \"%s\": %s cannot be the name of a dataset", store->name, store->slots[i].name);
        largest = bytes > largest ? bytes : largest;
    }
    void *host = malloc(largest);
    if (host == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory saving %s: %zu bytes", path, largest);
    }
    uf_hdf5_file file;
    uf_status status = uf_hdf5_create(path, &file);
    if (status == UF_OK) {
        status = uf_hdf5_finish(&file, save_items(store, &file, host));
    }
    free(host);
    return status;
}
