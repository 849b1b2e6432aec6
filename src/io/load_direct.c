/* load_direct.c - values that go from a file into their tensor without a second copy of them.
 *
 * Everything that a file can be refused for has been checked by then. The medium may fail all the
 * same, and the file may be cut by somebody else: then the tensors of the load are as if they had
 * only been declared, since their old values are gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/loader.h"

/* Read at a time where types differ: a piece is still in a cache when it is converted. */
#define PIECE_BYTES ((int64_t)1 << 20)

static bool is_direct(loader *load, const item *one) {
    const uf_file_kind *kind = load->file.kind;
    return load->store->context->device->device == UF_DEVICE_CPU && one->turn.rank == 0 &&
           !one->part && kind->is_flat != NULL && kind->is_flat(&load->file, one->dataset);
}

uf_status uf_loader_try_direct(loader *load, item *one) {
    const uf_file_kind *kind = load->file.kind;
    one->direct = is_direct(load, one);
    if (!one->direct) {
        return UF_OK;
    }
    load->piece = load->piece == NULL ? malloc((size_t)PIECE_BYTES) : load->piece;
    if (load->piece == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    UF_TRY(uf_tensor_file_check(&load->file, one->dataset));
    const uf_status status = kind->verify != NULL ? kind->verify(&load->file, one->dataset) : UF_OK;
    one->direct = status == UF_OK;
    return status == UF_ERROR_UNSUPPORTED ? UF_OK : status; /* reading asks others, or says so */
}

uf_status uf_loader_read_direct(loader *load, const item *one, uf_tensor *tensor) {
    uf_tensor_file *file = &load->file;
    const uf_dtype from = one->dataset->dtype;
    const int64_t size = (int64_t)uf_dtype_size(from), room = PIECE_BYTES / size;
    const int64_t own_size = (int64_t)uf_dtype_size(tensor->dtype);
    if (from == tensor->dtype) {
        UF_TRY(file->kind->read_flat(file, one->dataset, 0, tensor->count * size, tensor->data));
    } else {
        for (int64_t done = 0; done < tensor->count;) {
            const int64_t left = tensor->count - done, now = left < room ? left : room;
            UF_TRY(file->kind->read_flat(file, one->dataset, done * size, now * size, load->piece));
            uf_convert((char *)tensor->data + done * own_size, tensor->dtype, load->piece, from,
                       now);
            done += now;
        }
    }
    *tensor->is_given = true;
    return UF_OK;
}

static void forget_tensor(uf_tensor *tensor) {
    memset(tensor->data, 0, (size_t)tensor->count * uf_dtype_size(tensor->dtype));
    *tensor->is_given = false;
}

uf_status uf_loader_forget(const loader *load, uf_store *store, uf_status status) {
    char sentence[UF_MESSAGE_SIZE];
    for (int64_t i = 0; i < load->count; ++i) {
        const item *one = &load->items[i];
        if (uf_loader_is_read(one) && !one->part) {
            forget_tensor(&store->slots[one->slot].tensor);
        }
    }
    for (int64_t i = 0; i < load->made_count; ++i) {
        forget_tensor(&store->slots[load->made[i].slot].tensor);
    }
    store->is_vouched = false; /* for other contents */
    store->lost_loads += 1;
    uf_store_changed(store);
    snprintf(sentence, sizeof sentence, "%s", uf_last_error());
    UF_FAIL(status, "%s; store \"%s\" has lost what it was to load: it counts as not loaded",
            sentence, store->name);
}
