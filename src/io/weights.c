/* weights.c - the public functions that open a file of weights and read what is in it. */
#include <unfurl/weights.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/weights_file.h"

const char *uf_weights_format_name(uf_weights_format format) {
    return format == UF_WEIGHTS_HDF5          ? "HDF5"
           : format == UF_WEIGHTS_SAFETENSORS ? "safetensors"
                                              : "any";
}

static bool is_one_text(const uf_file_attribute *one) {
    return one->texts != NULL && one->count == 1;
}

/* The attributes of the whole file that are one text each; the others go. */
static uf_status read_metadata(uf_weights_file *file) {
    uf_file_attributes *all = &file->metadata;
    UF_TRY(uf_tensor_file_begin(&file->file));
    UF_TRY(uf_tensor_file_end(&file->file, file->file.kind->attributes(&file->file, "/", all)));
    int64_t kept = 0;
    for (int64_t i = 0; i < all->count; ++i) {
        const uf_file_attribute one = all->each[i];
        if (is_one_text(&one)) {
            all->each[i] = all->each[kept];
            all->each[kept++] = one;
        }
    }
    /* Behind the kept ones are the others. */
    uf_file_attributes others = {.each = all->each + kept, .count = all->count - kept};
    uf_file_attributes_clear(&others);
    all->count = kept;
    return UF_OK;
}

uf_status uf_weights_open(const char *path, const uf_weights_open_options *given,
                          uf_weights_file **file) {
    UF_CHECK_ARG(file != NULL, "uf_weights_open: file is NULL");
    *file = NULL;
    UF_CHECK_ARG(path != NULL, "uf_weights_open: path is NULL");
    uf_weights_open_options options = uf_weights_open_options_default();
    UF_TRY(uf_read_struct("uf_weights_open_options", given, &options, sizeof options));
    uf_weights_file *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->path = strdup(path);
    }
    if (made == NULL || made->path == NULL) {
        free(made);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", path);
    }
    uf_status status = uf_tensor_file_open(made->path, UF_WEIGHTS_ANY, options.group,
                                           options.untrusted, &made->file);
    if (status == UF_OK) {
        status = read_metadata(made);
    }
    if (status != UF_OK) {
        uf_weights_close(made);
        return status;
    }
    *file = made;
    return UF_OK;
}

void uf_weights_close(uf_weights_file *file) {
    if (file != NULL) {
        uf_tensor_file_close(&file->file);
        uf_file_attributes_free(&file->metadata);
        free(file->path);
        free(file);
    }
}

int64_t uf_weights_count(const uf_weights_file *file) {
    return file != NULL ? file->file.listing.count : 0;
}

int64_t uf_weights_metadata_count(const uf_weights_file *file) {
    return file != NULL ? file->metadata.count : 0;
}

uf_weights_format uf_weights_format_of(const uf_weights_file *file) {
    return file != NULL ? file->file.kind->format : UF_WEIGHTS_ANY;
}

uf_status uf_weights_entry_at_sized(const uf_weights_file *file, int64_t index,
                                    uf_weights_entry *entry, size_t entry_size) {
    UF_CHECK_ARG(file != NULL && entry != NULL, "uf_weights_entry_at: file or entry is NULL");
    UF_CHECK_ARG(index >= 0 && index < file->file.listing.count,
                 "uf_weights_entry_at: index %" PRId64 ", %s has %" PRId64, index, file->path,
                 file->file.listing.count);
    uf_weights_entry found = file->file.listing.datasets[index].entry;
    found.has_checksum = file->file.listing.datasets[index].has_checksum;
    uf_give_struct(&found, sizeof found, entry, entry_size);
    return UF_OK;
}

uf_status uf_weights_metadata_at(const uf_weights_file *file, int64_t index, const char **name,
                                 const char **text) {
    UF_CHECK_ARG(name != NULL && text != NULL, "uf_weights_metadata_at: name or text is NULL");
    *name = *text = NULL;
    UF_CHECK_ARG(file != NULL, "uf_weights_metadata_at: file is NULL");
    UF_CHECK_ARG(index >= 0 && index < file->metadata.count,
                 "uf_weights_metadata_at: index %" PRId64 ", %s has %" PRId64, index, file->path,
                 file->metadata.count);
    *name = file->metadata.each[index].name;
    *text = file->metadata.each[index].texts[0];
    return UF_OK;
}

/* Refuse what cannot be read as `dtype`, or has no room. */
static uf_status check_read(const uf_weights_file *file, const uf_file_entry *entry, uf_dtype dtype,
                            int64_t capacity) {
    char text[128];
    const int64_t count = uf_shape_count(&entry->entry.shape);
    if (!entry->entry.is_tensor) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", entry->entry.name, file->path, entry->problem);
    }
    if (dtype == UF_I64 && entry->dtype != UF_I64) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s holds %s values, not integers", entry->entry.name,
                file->path, entry->entry.type);
    }
    if (count > capacity) {
        UF_FAIL(UF_ERROR_SHAPE, "%s in %s is %s, %" PRId64 " elements; there is room for %" PRId64,
                entry->entry.name, file->path,
                uf_shape_format(&entry->entry.shape, text, sizeof text), count, capacity);
    }
    return UF_OK;
}

/* Between begin and end. */
static uf_status read_as(uf_weights_file *file, const uf_file_entry *entry, uf_dtype dtype,
                         void *data) {
    const uf_file_kind *kind = file->file.kind;
    if (dtype == entry->dtype) {
        UF_TRY(kind->check(&file->file, entry));
        return kind->read(&file->file, entry, data);
    }
    void *staging;
    UF_TRY(uf_tensor_file_read(&file->file, entry, &staging));
    uf_convert(data, dtype, staging, entry->dtype, uf_shape_count(&entry->entry.shape));
    free(staging);
    return UF_OK;
}

uf_status uf_weights_read(uf_weights_file *file, int64_t index, uf_dtype dtype, void *data,
                          int64_t capacity) {
    UF_CHECK_ARG(file != NULL && data != NULL, "uf_weights_read: file or data is NULL");
    UF_CHECK_ARG(dtype == UF_F32 || dtype == UF_F64 || dtype == UF_I64,
                 "uf_weights_read converts to f32, f64 or i64, not to %s", uf_dtype_name(dtype));
    UF_CHECK_ARG(index >= 0 && index < file->file.listing.count,
                 "uf_weights_read: index %" PRId64 ", %s has %" PRId64, index, file->path,
                 file->file.listing.count);
    const uf_file_entry *entry = &file->file.listing.datasets[index];
    UF_TRY(check_read(file, entry, dtype, capacity));
    UF_TRY(uf_tensor_file_begin(&file->file));
    return uf_tensor_file_end(&file->file, read_as(file, entry, dtype, data));
}
