/* ncnn_weights.c - ncnn's .bin: tensors one behind the other, in the order of the text's layers. A
 * layer's weight has four bytes in front that say its type; its other tensors are f32. Nothing
 * outside of the text says how long a tensor is, so each is held against the bytes that are left
 * before anything is declared. */
#include "model/ncnn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/tensor_file.h"

#define TAG_F32 UINT32_C(0)
#define TAG_F32_SCALED UINT32_C(0x0002C056) /* f32 too, of networks that were quantised later */
#define TAG_F16 UINT32_C(0x01306B47)
#define TAG_INT8 UINT32_C(0x000D4B38)

/* ---- reading ---- */

uf_status uf_ncnn_open_weights(uf_ncnn *net) {
    struct stat info;
    /* That of a network without weights is empty. */
    if (stat(net->bin, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != 0) {
        UF_TRY(uf_file_check_readable(net->bin, "a .bin of ncnn", &net->bin_size));
    }
    net->descriptor = open(net->bin, O_RDONLY | O_CLOEXEC);
    if (net->descriptor < 0) {
        UF_FAIL(UF_ERROR_IO, "cannot open %s: %s", net->bin, strerror(errno));
    }
    return UF_OK;
}

uf_status uf_ncnn_read(int descriptor, const char *path, int64_t at, size_t size, void *bytes) {
    char *to = bytes;
    while (size > 0) {
        const ssize_t got = pread(descriptor, to, size, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
        }
        if (got == 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s ends at byte %" PRId64 ", where more should follow", path,
                    at);
        }
        to += got;
        at += got;
        size -= (size_t)got;
    }
    return UF_OK;
}

static uf_status read_bytes(const uf_ncnn *net, int64_t at, size_t size, void *bytes) {
    return uf_ncnn_read(net->descriptor, net->bin, at, size, bytes);
}

/* ---- taking ---- */

static uf_ncnn_weight *add_weight(uf_ncnn *net, const char *name) {
    const uf_scope scope = uf_in(uf_ncnn_scope(net), name);
    if (uf_store_find(net->model->store, scope.path) >= 0) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "a layer above has the name %s too", net->layer.name);
        return NULL;
    }
    const uf_status status = uf_grow((void **)&net->weights, net->weight_count,
                                     &net->weight_capacity, sizeof *net->weights);
    if (status != UF_OK) {
        uf_ncnn_refuse(net, status, "%s", uf_last_error());
        return NULL;
    }
    uf_ncnn_weight *weight = &net->weights[net->weight_count++];
    memset(weight, 0, sizeof *weight);
    memcpy(weight->name, scope.path, sizeof weight->name);
    return weight;
}

/* The tag's type; false: it is refused. */
static bool read_tag(uf_ncnn *net, const char *name, bool *half) {
    unsigned char bytes[4];
    uint32_t tag = 0;
    const uf_status status = read_bytes(net, net->bin_at, sizeof bytes, bytes);
    if (status != UF_OK) {
        uf_ncnn_refuse(net, status, "%s of %s: %s", name, net->layer.name, uf_last_error());
        return false;
    }
    for (int i = 3; i >= 0; --i) {
        tag = tag << 8 | bytes[i];
    }
    *half = tag == TAG_F16;
    net->bin_at += (int64_t)sizeof bytes;
    if (tag != TAG_F32 && tag != TAG_F32_SCALED && tag != TAG_F16) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "%s of %s is %s (0x%08" PRIx32 " at byte %" PRId64
                       " of %s); unfurl reads f32 and f16",
                       name, net->layer.name,
                       tag == TAG_INT8 ? "int8" : "neither f32 nor f16, but quantised or damaged",
                       tag, net->bin_at - (int64_t)sizeof bytes, net->bin);
        return false;
    }
    return true;
}

void uf_ncnn_take(uf_ncnn *net, const char *name, int64_t count, bool tagged, uf_ncnn_order order) {
    bool half = false;
    if (net->status != UF_OK || (tagged && !read_tag(net, name, &half))) {
        return;
    }
    const int64_t size = half ? 2 : 4, left = net->bin_size - net->bin_at;
    if (count < 1 || count > left / size) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "%s of %s needs %" PRId64 " elements of %" PRId64 " bytes; %s has %" PRId64
                       " bytes left at byte %" PRId64,
                       name, net->layer.name, count, size, net->bin, left, net->bin_at);
        return;
    }
    uf_ncnn_weight *weight = add_weight(net, name);
    if (weight != NULL) {
        weight->at = net->bin_at;
        weight->count = count;
        weight->half = half;
        weight->order = order;
        net->bin_at += (count * size + 3) / 4 * 4;
    }
}

uf_value uf_ncnn_take_parameter(uf_ncnn *net, const char *name, uf_shape shape) {
    uf_ncnn_take(net, name, uf_shape_count(&shape), false, (uf_ncnn_order){0});
    return net->status == UF_OK ? uf_parameter(net->graph, uf_ncnn_scope(net), name, shape)
                                : (uf_value){0};
}

void uf_ncnn_give(uf_ncnn *net, const char *name, int64_t count, double *contents) {
    if (contents == NULL) {
        uf_ncnn_refuse(net, UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s of %s", name,
                       net->layer.name);
    }
    uf_ncnn_weight *weight = net->status == UF_OK ? add_weight(net, name) : NULL;
    if (weight == NULL) {
        free(contents);
        return;
    }
    weight->count = count;
    weight->made = contents;
}

/* ---- loading ---- */

/* (groups, out, in, kernel) to (groups, in, out, kernel), of elements of `size` bytes. */
static void turn(const uf_ncnn_order *order, size_t size, const char *from, char *to) {
    const size_t row = (size_t)order->kernel * size;
    for (int64_t g = 0; g < order->groups; ++g) {
        for (int64_t in = 0; in < order->in; ++in) {
            for (int64_t out = 0; out < order->out; ++out, to += row) {
                memcpy(to, from + (size_t)((g * order->out + out) * order->in + in) * row, row);
            }
        }
    }
}

static uf_status load_weight(const uf_ncnn *net, const uf_ncnn_weight *weight, uf_tensor *tensor) {
    const size_t size = weight->half ? 2 : 4, bytes = (size_t)weight->count * size;
    char *read = malloc(bytes), *turned = weight->order.groups > 0 ? malloc(bytes) : NULL;
    uf_status status = UF_OK;
    if (read == NULL || (weight->order.groups > 0 && turned == NULL)) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s", weight->name);
    }
    if (status == UF_OK) {
        status = read_bytes(net, weight->at, bytes, read);
    }
    if (status == UF_OK && turned != NULL) {
        turn(&weight->order, size, read, turned);
    }
    if (status == UF_OK) {
        status = uf_tensor_upload_as(tensor, weight->half ? UF_F16 : UF_F32,
                                     turned != NULL ? turned : read, weight->count);
    }
    free(turned);
    free(read);
    return status;
}

uf_status uf_ncnn_load(uf_ncnn *net) {
    UF_TRY(uf_store_close(net->model->store)); /* counters of batch norms stay 0 */
    for (int32_t i = 0; i < net->weight_count; ++i) {
        const uf_ncnn_weight *weight = &net->weights[i];
        uf_tensor *tensor;
        UF_TRY(uf_store_tensor(net->model->store, weight->name, &tensor));
        UF_TRY(weight->made != NULL
                   ? uf_tensor_upload_as(tensor, UF_F64, weight->made, weight->count)
                   : load_weight(net, weight, tensor));
    }
    uf_store_changed(net->model->store);
    return UF_OK;
}
