/* tensor_writer.c - writing a file of named tensors, whatever its format. */
#include "io/tensor_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/tensor_file.h"

static const uf_writer_kind *const kinds[] = {
    [UF_WEIGHTS_HDF5] = &uf_hdf5_writer,
    [UF_WEIGHTS_SAFETENSORS] = &uf_safetensors_writer,
};

uf_weights_format uf_weights_format_for(const char *path, uf_weights_format given) {
    static const char end[] = ".safetensors";
    const size_t length = strlen(path), tail = sizeof end - 1;
    if (given != UF_WEIGHTS_ANY) {
        return given;
    }
    return length >= tail && strcasecmp(path + length - tail, end) == 0 ? UF_WEIGHTS_SAFETENSORS
                                                                        : UF_WEIGHTS_HDF5;
}

/* HDF5 has groups where names have slashes: a tensor has no tensor inside. `sorted` by by_text. */
static uf_status check_groups(const char *path, const char *const *sorted, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const size_t length = strlen(sorted[i]);
        for (int64_t j = i + 1; j < count && strncmp(sorted[j], sorted[i], length) == 0; ++j) {
            if (sorted[j][length] == '/') {
                UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                        "%s cannot hold %s and %s: of HDF5's names one may not be the group of "
                        "another",
                        path, sorted[i], sorted[j]);
            }
        }
    }
    return UF_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort the names; each is there once. */
static uf_status check_once(const char *path, const char *what, const char **names, int64_t count) {
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int64_t i = 1; i < count; ++i) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            UF_FAIL(UF_ERROR_INVALID_ARGUMENT, "%s would have two %s of the name %s", path, what,
                    names[i]);
        }
    }
    return UF_OK;
}

static const char **new_names(const char *path, int64_t count) {
    const char **names = calloc((size_t)count + 1, sizeof *names);
    if (names == NULL) {
        uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    return names;
}

static uf_status check_names(const uf_tensor_writer *writer, uf_weights_format format) {
    const char **names = new_names(writer->path, writer->count);
    uf_status status = names != NULL ? UF_OK : UF_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < writer->count && status == UF_OK; ++i) {
        names[i] = writer->entries[i].name;
        if (!uf_file_is_name(names[i])) {
            status = uf_fail(UF_ERROR_INVALID_ARGUMENT, "%s cannot be the name of a tensor in %s",
                             names[i], writer->path);
        }
    }
    if (status == UF_OK) {
        status = check_once(writer->path, "tensors", names, writer->count);
    }
    if (status == UF_OK && format == UF_WEIGHTS_HDF5) {
        status = check_groups(writer->path, names, writer->count);
    }
    free(names);
    return status;
}

static uf_status check_metadata(const uf_tensor_writer *writer) {
    UF_CHECK_ARG(
        writer->metadata_count >= 0 && (writer->metadata_count == 0 || writer->metadata != NULL),
        "metadata are NULL or their count is negative (%" PRId32 ")", writer->metadata_count);
    for (int32_t i = 0; i < writer->metadata_count; ++i) {
        UF_CHECK_ARG(writer->metadata[2 * i] != NULL && writer->metadata[2 * i + 1] != NULL,
                     "metadata: name or text %" PRId32 " is NULL", i);
        UF_CHECK_ARG(writer->metadata[2 * i][0] != '\0',
                     "metadata of %s: name %" PRId32 " is empty", writer->path, i);
    }
    const char **names = new_names(writer->path, writer->metadata_count);
    if (names == NULL) {
        return UF_ERROR_OUT_OF_MEMORY;
    }
    for (int32_t i = 0; i < writer->metadata_count; ++i) {
        names[i] = writer->metadata[2 * i];
    }
    const uf_status status = check_once(writer->path, "metadata", names, writer->metadata_count);
    free(names);
    return status;
}

uf_status uf_tensor_writer_begin(uf_tensor_writer *writer, uf_weights_format format) {
    UF_TRY(check_metadata(writer));
    format = uf_weights_format_for(writer->path, format);
    UF_TRY(check_names(writer, format));
    writer->kind = kinds[format];
    writer->order = calloc((size_t)writer->count + 1, sizeof *writer->order);
    if (writer->order == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    }
    for (int64_t i = 0; i < writer->count; ++i) {
        writer->order[i] = i;
    }
    const uf_status status = writer->kind->begin(writer);
    if (status != UF_OK) {
        free(writer->order);
        writer->order = NULL;
    }
    return status;
}

int64_t uf_tensor_writer_next(const uf_tensor_writer *writer) {
    return writer->done < writer->count ? writer->order[writer->done] : -1;
}

uf_status uf_tensor_writer_write(uf_tensor_writer *writer, const void *data) {
    const uf_written *entry = &writer->entries[writer->order[writer->done++]];
    return writer->kind->write(writer, entry, data);
}

uf_status uf_tensor_writer_finish(uf_tensor_writer *writer, uf_status status) {
    status = writer->kind->finish(writer, status);
    free(writer->order);
    writer->order = NULL;
    return status;
}
