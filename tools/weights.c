#include "weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "text.h"

static int compare_names(const void *a, const void *b) {
    return text_compare(((const struct weights_row *)a)->entry.name,
                        ((const struct weights_row *)b)->entry.name);
}

/* The library calls a tensor of no elements none, since no store can hold it. */
static bool is_empty_tensor(const uf_weights_entry *entry) {
    static const char *const types[] = {"f64", "f32", "f16", "bf16", "i64", "i32",
                                        "i16", "i8",  "u64", "u32",  "u16", "u8"};
    bool is_number = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        is_number = is_number || strcmp(entry->type, types[i]) == 0;
    }
    return is_number && entry->shape.rank > 0 && uf_shape_count(&entry->shape) == 0;
}

int weights_open(const char *path, bool trust, struct weights *weights) {
    uf_weights_open_options options = uf_weights_open_options_default();
    memset(weights, 0, sizeof *weights);
    weights->path = path;
    options.untrusted = !trust;
    TRY_LIBRARY(uf_weights_open(path, &options, &weights->file));
    weights->count = uf_weights_count(weights->file);
    weights->rows = calloc((size_t)weights->count + 1, sizeof *weights->rows);
    if (weights->rows == NULL) {
        return fail("out of memory");
    }
    for (int64_t i = 0; i < weights->count; i++) {
        weights->rows[i].index = i;
        uf_weights_entry *entry = &weights->rows[i].entry;
        TRY_LIBRARY(uf_weights_entry_at(weights->file, i, entry));
        entry->is_tensor = entry->is_tensor || is_empty_tensor(entry);
    }
    qsort(weights->rows, (size_t)weights->count, sizeof *weights->rows, compare_names);
    return EXIT_DONE;
}

void weights_close(struct weights *weights) {
    free(weights->rows);
    uf_weights_close(weights->file);
    memset(weights, 0, sizeof *weights);
}

bool weights_is_integer(const uf_weights_entry *entry) {
    return entry->type[0] == 'i' || entry->type[0] == 'u'; /* i64, u8 … */
}

void *weights_room(const struct weights_row *row) {
    const int64_t count = uf_shape_count(&row->entry.shape);
    return count < INT64_C(1) << 59 ? malloc((size_t)count * 8 + 1) : NULL;
}

uf_status weights_fill(const struct weights *weights, const struct weights_row *row, uf_dtype dtype,
                       void *values) {
    const int64_t count = uf_shape_count(&row->entry.shape);
    return count > 0 ? uf_weights_read(weights->file, row->index, dtype, values, count) : UF_OK;
}

int weights_read(const struct weights *weights, const struct weights_row *row, uf_dtype dtype,
                 void **values) {
    *values = weights_room(row);
    if (*values == NULL) {
        return fail("out of memory for the %" PRId64 " values of %s in %s",
                    uf_shape_count(&row->entry.shape), row->entry.name, weights->path);
    }
    if (weights_fill(weights, row, dtype, *values) != UF_OK) {
        free(*values);
        *values = NULL;
        return fail_library();
    }
    return EXIT_DONE;
}
