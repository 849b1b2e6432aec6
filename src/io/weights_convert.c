/* weights_convert.c - one file of weights made of another, a tensor at a time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/tensor_writer.h"
#include "io/weights_file.h"

typedef struct conversion {
    uf_weights_file *from;
    const uf_weights_convert_options *options;
    uf_written *entries;
    char (*names)[UF_NAME_SIZE * 2]; /* of the entries */
    const char **metadata;           /* as uf_weights_save_options has it */
    uf_tensor_writer writer;
} conversion;

/* The characters of a name that name the group it was looked for in. */
static size_t group_length(const char *group) {
    const char *begin = group == NULL ? "" : group + strspn(group, "/");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == '/') {
        --length;
    }
    return length > 0 ? length + 1 : 0;
}

static void rename_entry(const conversion *all, const char *name, char to[UF_NAME_SIZE * 2]) {
    const uf_weights_names style = all->options->names;
    memcpy(to, name, strlen(name) + 1);
    for (char *at = to; *at != '\0' && style != UF_WEIGHTS_NAMES_KEPT; ++at) {
        if (*at == '.' || *at == '/') {
            *at = style == UF_WEIGHTS_NAMES_DOTTED ? '.' : '/';
        }
    }
}

/* A tensor of no elements is no tensor to a store, and has a type and a shape to go along. */
static bool is_empty(const uf_file_entry *entry) {
    return entry->is_numeric && entry->entry.shape.rank > 0 &&
           uf_shape_count(&entry->entry.shape) == 0;
}

static uf_status describe(conversion *all) {
    const uf_file_listing *listing = &all->from->file.listing;
    const size_t skip = group_length(all->options->group);
    for (int64_t i = 0; i < listing->count; ++i) {
        const uf_file_entry *entry = &listing->datasets[i];
        if (!entry->entry.is_tensor && !is_empty(entry)) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", entry->entry.name, all->from->path,
                    entry->problem);
        }
        rename_entry(all, entry->entry.name + skip, all->names[i]);
        const bool kept = all->options->keep_types || entry->dtype == UF_I64;
        const uf_dtype dtype = kept ? entry->dtype : all->options->dtype;
        all->entries[i] = (uf_written){.name = all->names[i],
                                       .type = kept ? entry->entry.type : uf_dtype_name(dtype),
                                       .dtype = dtype,
                                       .shape = entry->entry.shape};
    }
    for (int64_t i = 0; i < all->from->metadata.count; ++i) {
        all->metadata[2 * i] = all->from->metadata.each[i].name;
        all->metadata[2 * i + 1] = all->from->metadata.each[i].texts[0];
    }
    return UF_OK;
}

/* Give back what was read, where it was. */
static void drop(const conversion *all, const uf_file_entry *entry, const void *mapped,
                 void *read) {
    const uf_file_kind *kind = all->from->file.kind;
    if (mapped != NULL && kind->drop != NULL) {
        kind->drop(&all->from->file, entry);
    }
    free(read);
}

static uf_status copy_entry(conversion *all, int64_t number) {
    uf_tensor_file *file = &all->from->file;
    const uf_file_entry *entry = &file->listing.datasets[number];
    const uf_dtype dtype = all->entries[number].dtype;
    const int64_t count = uf_shape_count(&entry->entry.shape);
    if (count == 0) {
        return uf_tensor_writer_write(&all->writer, "");
    }
    const void *mapped = file->kind->map != NULL ? file->kind->map(file, entry) : NULL;
    void *read = NULL;
    if (mapped == NULL) {
        UF_TRY(uf_tensor_file_read(file, entry, &read));
    }
    const void *values = mapped != NULL ? mapped : read;
    uf_status status = UF_OK;
    void *converted = NULL;
    if (dtype != entry->dtype) {
        int64_t bytes;
        converted = uf_mul_overflows(count, (int64_t)uf_dtype_size(dtype), &bytes)
                        ? NULL
                        : malloc((size_t)bytes);
        if (converted == NULL) {
            status = uf_fail(UF_ERROR_OUT_OF_MEMORY,
                             "out of host memory for %s in %s: %" PRId64 " elements of %s",
                             entry->entry.name, file->path, count, uf_dtype_name(dtype));
        } else {
            uf_convert(converted, dtype, values, entry->dtype, count);
            values = converted;
        }
    }
    if (status == UF_OK) {
        status = uf_tensor_writer_write(&all->writer, values);
    }
    free(converted);
    drop(all, entry, mapped, read);
    return status;
}

static uf_status copy_all(conversion *all) {
    for (int64_t i = uf_tensor_writer_next(&all->writer); i >= 0;
         i = uf_tensor_writer_next(&all->writer)) {
        UF_TRY(copy_entry(all, i));
    }
    return UF_OK;
}

static uf_status convert(conversion *all, const char *to) {
    UF_TRY(describe(all));
    all->writer = (uf_tensor_writer){.path = to,
                                     .entries = all->entries,
                                     .count = all->from->file.listing.count,
                                     .metadata = all->metadata,
                                     .metadata_count = (int32_t)all->from->metadata.count,
                                     .gzip_level = all->options->gzip_level};
    UF_TRY(uf_tensor_writer_begin(&all->writer, all->options->format));
    uf_status status = uf_tensor_file_begin(&all->from->file);
    if (status == UF_OK) {
        status = uf_tensor_file_end(&all->from->file, copy_all(all));
    }
    return uf_tensor_writer_finish(&all->writer, status);
}

static uf_status check_options(const uf_weights_convert_options *options) {
    UF_CHECK_ARG((unsigned)options->format <= UF_WEIGHTS_SAFETENSORS,
                 "uf_weights_convert_options.format is %d, no uf_weights_format",
                 (int)options->format);
    UF_CHECK_ARG((unsigned)options->names <= UF_WEIGHTS_NAMES_NESTED,
                 "uf_weights_convert_options.names is %d, no uf_weights_names",
                 (int)options->names);
    UF_CHECK_ARG(options->keep_types ||
                     (uf_dtype_size(options->dtype) != 0 && options->dtype != UF_I64),
                 "uf_weights_convert_options.dtype is %s; it is f16, bf16, f32 or f64",
                 uf_dtype_name(options->dtype));
    UF_CHECK_ARG(options->gzip_level >= 0 && options->gzip_level <= 9,
                 "uf_weights_convert_options.gzip_level is %" PRId32 "; it is 0 to 9",
                 options->gzip_level);
    return UF_OK;
}

uf_status uf_weights_convert(const char *from, const char *to,
                             const uf_weights_convert_options *given) {
    UF_CHECK_ARG(from != NULL && to != NULL, "uf_weights_convert: from or to is NULL");
    uf_weights_convert_options options = uf_weights_convert_options_default();
    UF_TRY(uf_read_struct("uf_weights_convert_options", given, &options, sizeof options));
    UF_TRY(check_options(&options));
    UF_CHECK_ARG(options.gzip_level == 0 ||
                     uf_weights_format_for(to, options.format) == UF_WEIGHTS_HDF5,
                 "%s cannot be deflated: only HDF5 can", to);
    uf_weights_open_options open = uf_weights_open_options_default();
    open.group = options.group;
    open.untrusted = options.untrusted;
    conversion all = {.options = &options};
    UF_TRY(uf_weights_open(from, &open, &all.from));
    const size_t count = (size_t)all.from->file.listing.count;
    all.entries = calloc(count + 1, sizeof *all.entries);
    all.names = calloc(count + 1, sizeof *all.names);
    all.metadata = calloc(2 * (size_t)all.from->metadata.count + 1, sizeof *all.metadata);
    uf_status status = UF_OK;
    if (all.entries == NULL || all.names == NULL || all.metadata == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory converting %s", from);
    }
    if (status == UF_OK) {
        status = convert(&all, to);
    }
    free(all.metadata);
    free(all.names);
    free(all.entries);
    uf_weights_close(all.from);
    return status;
}
