/* hdf5_writer.c - HDF5 as a format that tensors are written in. */
#include <stdlib.h>
#include <string.h>

#include "io/hdf5_file.h"
#include "io/tensor_writer.h"

static uf_status begin(uf_tensor_writer *writer) {
    uf_hdf5_file *file = malloc(sizeof *file);
    if (file == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    }
    const uf_status status = uf_hdf5_create(writer->path, file);
    if (status != UF_OK) {
        free(file);
        return status;
    }
    writer->state = file;
    return UF_OK;
}

static uf_status write_entry(uf_tensor_writer *writer, const uf_written *entry, const void *data) {
    const uf_hdf5_storage storage = {.gzip_level = writer->gzip_level, .type = entry->type};
    return uf_hdf5_write_tensor(writer->state, entry->name, entry->dtype, &entry->shape, data,
                                storage);
}

/* Metadata are attributes of the root. */
static uf_status write_metadata(const uf_tensor_writer *writer) {
    for (int32_t i = 0; i < writer->metadata_count; ++i) {
        const char *name = writer->metadata[2 * i], *text = writer->metadata[2 * i + 1];
        if (strlen(text) >= UF_HDF5_MAX_TEXT) {
            UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                    "the text %s is too long for an attribute of %s: %zu bytes, %zu are the most",
                    name, writer->path, strlen(text), UF_HDF5_MAX_TEXT - 1);
        }
        UF_TRY(uf_hdf5_write_text(writer->state, "/", name, text));
    }
    return UF_OK;
}

static uf_status finish(uf_tensor_writer *writer, uf_status status) {
    uf_hdf5_file *file = writer->state;
    status = status == UF_OK ? write_metadata(writer) : status;
    status = uf_hdf5_finish(file, status);
    free(file);
    return status;
}

const uf_writer_kind uf_hdf5_writer = {.begin = begin, .write = write_entry, .finish = finish};
