/* string.c - a dataset of one string of fixed length, stored as one block: the text of a model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

/* Refuse what is no such string, and one that the file cannot hold. */
static uf_status check_string(uf_h5_file *file, const uf_h5_header *header, uf_h5_object *now,
                              int64_t most, uf_h5_layout *layout) {
    uf_h5_cursor cursor;
    uf_h5_space space;
    UF_TRY(uf_h5_header_need(file, header, UF_H5_MESSAGE_DATASPACE, "its extents", &cursor));
    UF_TRY(uf_h5_parse_space(file, header->address, &cursor, &space));
    if (!now->type.is_text || now->type.is_varying || space.rank != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is not one string of fixed length", now->name,
                file->path);
    }
    now->bytes = now->type.size;
    if (now->bytes < 1 || now->bytes > most) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is a string of %" PRId64 " bytes; there may be 1 to %" PRId64, now->name,
                file->path, now->bytes, most);
    }
    UF_TRY(uf_file_check_claim(file->path, (int64_t)file->size, now->name, now->bytes));
    UF_TRY(uf_h5_layout_read(file, header, &space, now, layout));
    if (layout->storage == UF_H5_CHUNKED ||
        (layout->storage == UF_H5_CONTIGUOUS && layout->address == UF_H5_NOWHERE)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is not stored as one block", now->name, file->path);
    }
    return UF_OK;
}

static uf_status read_string(uf_h5_file *file, const uf_h5_header *header,
                             const uf_h5_object *object, int64_t most, char **text, size_t *size) {
    uf_h5_object now;
    uf_h5_layout layout;
    memset(&now, 0, sizeof now);
    memcpy(now.name, object->name, sizeof now.name);
    UF_TRY(uf_h5_describe(file, header, &now));
    if (strstr(now.problem, "other files") != NULL) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", now.name, file->path, now.problem);
    }
    UF_TRY(check_string(file, header, &now, most, &layout));
    char *made = calloc((size_t)now.bytes + 1, 1);
    if (made == NULL) {
        return uf_h5_no_memory(file, (uint64_t)now.bytes + 1);
    }
    uf_status status = UF_OK;
    if (layout.storage == UF_H5_COMPACT) {
        memcpy(made, layout.compact, (size_t)now.bytes);
    } else {
        status = uf_h5_read_data(file, layout.address, (uint64_t)now.bytes, made);
    }
    if (status != UF_OK) {
        free(made);
        return status;
    }
    *text = made;
    *size = (size_t)now.bytes;
    while (*size > 0 && made[*size - 1] == '\0') { /* zeros fill a string up */
        *size -= 1;
    }
    return UF_OK;
}

uf_status uf_h5_read_string(uf_h5_file *file, const uf_h5_object *object, int64_t most, char **text,
                            size_t *size) {
    uf_h5_header header;
    *text = NULL;
    if (object->kind != UF_H5_DATASET) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is no dataset", object->name, file->path);
    }
    file->subject = object->name;
    uf_status status = uf_h5_header_read(file, object->address, &header);
    if (status == UF_OK) {
        status = read_string(file, &header, object, most, text, size);
        uf_h5_header_free(&header);
    }
    file->subject = "";
    return status;
}
