/* load_read.c - the values of a load: from the file through host memory into a store, or straight
 * into one that nobody sees yet. */
#include <inttypes.h>
#include <stdlib.h>

#include "io/loader.h"

/* ---- a tensor ---- */

/* The type that an item's values come to. */
static uf_dtype dtype_wanted(const loader *load, const item *one) {
    return one->part ? UF_F64 : one->dataset->dtype == UF_I64 ? UF_I64 : load->store->dtype;
}

/* From the file's type to the store's, before the store is touched: an upload that converts could
 * run out of memory half way. */
static uf_status convert_item(const loader *load, item *one) {
    const uf_dtype from = one->dataset->dtype, to = dtype_wanted(load, one);
    const int64_t count = uf_shape_count(&one->dataset->entry.shape);
    if (from == to) {
        return UF_OK;
    }
    int64_t bytes;
    void *converted =
        uf_mul_overflows(count, (int64_t)uf_dtype_size(to), &bytes) ? NULL : malloc((size_t)bytes);
    if (converted == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY,
                "out of host memory for %s in %s: %" PRId64 " elements of %s",
                one->dataset->entry.name, load->path, count, uf_dtype_name(to));
    }
    uf_convert(converted, to, item_values(one), from, count);
    free(one->data);
    one->data = converted;
    return UF_OK;
}

/* Into the store's order of axes, in the file's type. */
static uf_status turn_item(const loader *load, item *one) {
    const size_t size = uf_dtype_size(one->dataset->dtype);
    if (one->turn.rank == 0 || uf_shape_count(&one->shape) == 0) {
        return UF_OK;
    }
    void *turned = malloc((size_t)uf_shape_count(&one->shape) * size);
    if (turned == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s in %s", one->dataset->entry.name,
                load->path);
    }
    uf_keras_apply_turn(&one->turn, size, item_values(one), turned);
    free(one->data);
    one->data = turned;
    return UF_OK;
}

bool uf_loader_is_read(const item *one) {
    return (one->slot >= 0 || one->part) && one->dataset->entry.is_tensor;
}

/* Many names for one dataset multiply what a small file can claim: all claims are added up before
 * the first is read. */
static uf_status check_sizes(const loader *load) {
    const uf_tensor_file *file = &load->file;
    int64_t total = 0;
    for (int64_t i = 0; i < load->count; ++i) {
        const uf_weights_entry *entry = &load->items[i].dataset->entry;
        if (uf_loader_is_read(&load->items[i])) {
            UF_TRY(uf_file_check_claim(load->path, file->size, entry->name, entry->bytes));
            if (__builtin_add_overflow(total, entry->bytes, &total)) {
                total = INT64_MAX;
            }
        }
    }
    return uf_file_check_claim(load->path, file->size, "everything", total);
}

static uf_status read_item(loader *load, item *one) {
    const uf_file_kind *kind = load->file.kind;
    UF_TRY(uf_loader_try_direct(load, one));
    if (one->direct) {
        return UF_OK;
    }
    one->mapped = kind->map != NULL ? kind->map(&load->file, one->dataset) : NULL;
    if (one->mapped == NULL) {
        UF_TRY(uf_tensor_file_read(&load->file, one->dataset, &one->data));
    }
    UF_TRY(turn_item(load, one));
    return convert_item(load, one);
}

static uf_status read_items(loader *load) {
    UF_TRY(check_sizes(load));
    for (int64_t i = 0; i < load->count; ++i) {
        if (uf_loader_is_read(&load->items[i])) {
            UF_TRY(read_item(load, &load->items[i]));
        }
    }
    return UF_OK;
}

uf_status uf_loader_read_all(loader *load) {
    UF_TRY(uf_tensor_file_begin(&load->file));
    return uf_tensor_file_end(&load->file, read_items(load));
}

static uf_status upload_item(loader *load, const item *one, uf_store *store) {
    const uf_file_kind *kind = load->file.kind;
    uf_tensor *tensor = &store->slots[one->slot].tensor;
    if (one->direct) {
        return uf_loader_read_direct(load, one, tensor);
    }
    UF_TRY(uf_tensor_upload(tensor, item_values(one)));
    if (one->mapped != NULL && kind->drop != NULL) {
        kind->drop(&load->file, one->dataset);
    }
    return UF_OK;
}

/* Does every tensor of the store get values? A strict load misses none, but for counters of Keras.
 * On the CPU nothing but a direct read can fail on the way, and then all of them are zero. */
static bool sets_all(const loader *load, const uf_store *store) {
    return load->options->strict && load->options->keras == NULL &&
           store->context->device->device == UF_DEVICE_CPU;
}

uf_status uf_loader_upload_all(loader *load, uf_store *store) {
    /* Zeros in front of the values would take a tenth of the load. */
    UF_TRY(sets_all(load, store) ? uf_store_close_unset(store) : uf_store_close(store));
    for (int64_t i = 0; i < load->count; ++i) {
        const item *one = &load->items[i];
        if (uf_loader_is_read(one) && !one->part) {
            const uf_status status = upload_item(load, one, store);
            if (status != UF_OK) {
                return one->direct || sets_all(load, store) ? uf_loader_forget(load, store, status)
                                                            : status;
            }
        }
    }
    for (int64_t i = 0; i < load->made_count; ++i) {
        const made_weight *made = &load->made[i];
        UF_TRY(uf_tensor_upload(&store->slots[made->slot].tensor, made->data));
    }
    uf_store_changed(store);
    return UF_OK;
}

/* ---- into an empty store ---- */

/* Straight into the tensor, where it is in this process's memory and the values stay as they are.
 */
static bool goes_straight(const loader *load, const item *one) {
    return one->turn.rank == 0 && dtype_wanted(load, one) == one->dataset->dtype &&
           load->store->context->device->device == UF_DEVICE_CPU;
}

/* Values that a file holds as `check` has said, into `made`. */
static uf_status fill_item(loader *load, item *one, uf_store *made) {
    uf_tensor_file *file = &load->file;
    uf_tensor *tensor = &made->slots[one->slot].tensor;
    if (one->direct) {
        return uf_loader_read_direct(load, one, tensor);
    }
    if (goes_straight(load, one)) {
        *tensor->is_given = true;
        return file->kind->read(file, one->dataset, tensor->data);
    }
    if (one->mapped == NULL) {
        UF_TRY(uf_tensor_file_read_checked(file, one->dataset, &one->data));
    }
    UF_TRY(turn_item(load, one));
    UF_TRY(convert_item(load, one));
    UF_TRY(upload_item(load, one, made));
    free(one->data);
    one->data = NULL;
    return UF_OK;
}

/* Nobody sees `made` before it is whole, so it is filled a tensor at a time: no second copy of all
 * of them is in memory. Its memory is allocated when the file is known to hold what it claims. */
static uf_status fill_items(loader *load, uf_store *made) {
    const uf_file_kind *kind = load->file.kind;
    UF_TRY(check_sizes(load));
    for (int64_t i = 0; i < load->count; ++i) {
        item *one = &load->items[i];
        if (uf_loader_is_read(one)) {
            /* Straight is as good, and compares a checksum on the way. */
            const bool is_straight = goes_straight(load, one);
            if (!is_straight) {
                UF_TRY(uf_loader_try_direct(load, one));
            }
            one->mapped = kind->map != NULL && !one->direct && !is_straight
                              ? kind->map(&load->file, one->dataset)
                              : NULL;
            if (one->mapped == NULL && !one->direct) {
                UF_TRY(uf_tensor_file_check(&load->file, one->dataset));
            }
        }
    }
    UF_TRY(uf_store_close_unset(made));
    for (int64_t i = 0; i < load->count; ++i) {
        if (uf_loader_is_read(&load->items[i])) {
            UF_TRY(fill_item(load, &load->items[i], made));
        }
    }
    uf_store_changed(made);
    return UF_OK;
}

uf_status uf_loader_fill(loader *load, uf_store *made) {
    UF_TRY(uf_tensor_file_begin(&load->file));
    return uf_tensor_file_end(&load->file, fill_items(load, made));
}
