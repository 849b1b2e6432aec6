/* init_norm.c - first values that are made of norms: weight_g of weight norm, u and v of spectral
 * norm. On the host in f64, one thread, and rounded once: CPU and GPU get the same bits. */
#include "train/init.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/tensor.h"

/* The tensor's elements. The caller frees them. */
static uf_status download(const uf_store_slot *slot, double **values) {
    const int64_t count = uf_shape_count(&slot->shape);
    *values = malloc(((size_t)count + 1) * sizeof **values);
    if (*values == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %" PRId64 " elements of %s", count,
                slot->name);
    }
    const uf_status status = uf_tensor_download_as(&slot->tensor, UF_F64, *values, count);
    if (status != UF_OK) {
        free(*values);
        *values = NULL;
    }
    return status;
}

static uf_status give(uf_store *store, uf_store_slot *slot, const double *values) {
    UF_TRY(uf_tensor_upload_as(&slot->tensor, UF_F64, values, uf_shape_count(&slot->shape)));
    slot->is_given = true;
    uf_store_changed(store);
    return UF_OK;
}

/* Where element `i` of a shape goes in another, of the same rank and extents that are equal or 1.
 */
static int64_t place_of(const uf_shape *shape, const uf_shape *narrow, int64_t i) {
    int64_t place = 0;
    int64_t step = 1;
    for (int32_t axis = shape->rank - 1; axis >= 0; --axis) {
        place += narrow->extent[axis] > 1 ? i % shape->extent[axis] * step : 0;
        step *= narrow->extent[axis];
        i /= shape->extent[axis];
    }
    return place;
}

uf_status uf_init_norms(uf_store *store, uf_store_slot *slot, const uf_store_slot *of) {
    const int64_t count = uf_shape_count(&slot->shape);
    double *values;
    UF_TRY(download(of, &values));
    double *norms = calloc((size_t)count + 1, sizeof *norms);
    if (norms == NULL) {
        free(values);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %" PRId64 " elements of %s", count,
                slot->name);
    }
    for (int64_t i = 0; i < uf_shape_count(&of->shape); ++i) {
        norms[place_of(&of->shape, &slot->shape, i)] += values[i] * values[i];
    }
    for (int64_t i = 0; i < count; ++i) {
        norms[i] = sqrt(norms[i]);
    }
    const uf_status status = give(store, slot, norms);
    free(values);
    free(norms);
    return status;
}

uf_status uf_init_divide_by_norm(uf_store *store, uf_store_slot *slot) {
    const int64_t count = uf_shape_count(&slot->shape);
    double *values;
    UF_TRY(download(slot, &values));
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i] * values[i];
    }
    for (int64_t i = 0; i < count && sum > 0.0; ++i) {
        values[i] /= sqrt(sum);
    }
    const uf_status status = give(store, slot, values);
    free(values);
    return status;
}
