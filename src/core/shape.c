/* shape.c - shapes and element types. */
#include <unfurl/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    size_t size;
    const char *name;
} dtypes[] = {
    [UF_F32] = {4, "f32"}, [UF_F64] = {8, "f64"}, [UF_BF16] = {2, "bf16"},
    [UF_F16] = {2, "f16"}, [UF_I64] = {8, "i64"},
};

#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])

size_t uf_dtype_size(uf_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *uf_dtype_name(uf_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].name : "not a uf_dtype";
}

uf_shape uf_shape_from(const int64_t *extent, int32_t rank) {
    uf_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = -1;
    if (rank < 0 || rank > UF_MAX_RANK || (rank > 0 && extent == NULL)) {
        return shape;
    }
    shape.rank = rank;
    for (int32_t i = 0; i < rank; ++i) {
        shape.extent[i] = extent[i];
    }
    return shape;
}

/* A caller may write any rank into the struct; its extents end at UF_MAX_RANK. */
static bool is_shape(const uf_shape *shape) {
    return shape != NULL && shape->rank >= 0 && shape->rank <= UF_MAX_RANK;
}

bool uf_shape_equal(const uf_shape *a, const uf_shape *b) {
    if (!is_shape(a) || !is_shape(b) || a->rank != b->rank) {
        return false;
    }
    for (int32_t i = 0; i < a->rank; ++i) {
        if (a->extent[i] != b->extent[i]) {
            return false;
        }
    }
    return true;
}

int64_t uf_shape_count(const uf_shape *shape) {
    if (!is_shape(shape)) {
        return -1;
    }
    int64_t count = 1;
    bool empty = false;
    for (int32_t i = 0; i < shape->rank; ++i) {
        const int64_t extent = shape->extent[i];
        if (extent < 0) {
            return -1;
        }
        if (extent == 0) {
            empty = true;
        } else if (count > (INT64_C(1) << 62) / extent) {
            return -1;
        } else {
            count *= extent;
        }
    }
    return empty ? 0 : count;
}

char *uf_shape_format(const uf_shape *shape, char *text, size_t size) {
    if (size == 0 || text == NULL) {
        return text;
    }
    if (!is_shape(shape)) {
        snprintf(text, size, "(no shape)");
        return text;
    }
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = -1; i <= shape->rank && used < size; ++i) {
        int wrote;
        if (i < 0) {
            wrote = snprintf(text + used, size - used, "(");
        } else if (i == shape->rank) {
            /* Python's one-tuple keeps its comma. */
            wrote = snprintf(text + used, size - used, shape->rank == 1 ? ",)" : ")");
        } else {
            wrote = snprintf(text + used, size - used, "%s%" PRId64, i == 0 ? "" : ", ",
                             shape->extent[i]);
        }
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return text;
}
