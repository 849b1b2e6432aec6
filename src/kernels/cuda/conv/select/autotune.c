/* autotune.c - the table of tuned convolutions. */
#include "kernels/cuda/conv/select/autotune.h"

#include <stdlib.h>
#include <string.h>

void uf_conv_tuning_release(uf_conv_tuning *tuning) {
    free(tuning->rows);
    memset(tuning, 0, sizeof *tuning);
}

uf_conv_key uf_conv_key_of(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_conv_key key;
    memset(&key, 0, sizeof key);
    key.direction = direction;
    key.dtype = args->x.dtype;
    /* f64 is f64 in every mode. */
    key.math = args->x.dtype == UF_F64 ? UF_MATH_FP32 : args->math;
    key.n = args->x.extent[0];
    key.c = args->x.extent[1];
    key.h = args->x.extent[2];
    key.w = args->x.extent[3];
    key.k = args->y.extent[1];
    key.p = args->y.extent[2];
    key.q = args->y.extent[3];
    key.r = args->w.extent[2];
    key.s = args->w.extent[3];
    memcpy(key.stride, args->stride, sizeof key.stride);
    memcpy(key.padding, args->padding, sizeof key.padding);
    memcpy(key.dilation, args->dilation, sizeof key.dilation);
    key.groups = args->groups;
    return key;
}

static int compare(const uf_conv_key *a, const uf_conv_key *b) {
    const int64_t *left = &a->direction, *right = &b->direction;
    for (size_t i = 0; i < sizeof *a / sizeof *left; ++i) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

/* The first row whose key is not before this one. */
static int64_t coord_of(const uf_conv_tuning *tuning, const uf_conv_key *key) {
    int64_t low = 0, high = tuning->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (compare(&tuning->rows[middle].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const uf_conv_tuning *tuning, int64_t coord, const uf_conv_key *key) {
    return coord < tuning->count && compare(&tuning->rows[coord].key, key) == 0;
}

const uf_conv_tuned *uf_conv_tuning_find(const uf_conv_tuning *tuning, const uf_conv_key *key) {
    const int64_t coord = coord_of(tuning, key);
    return is_at(tuning, coord, key) ? &tuning->rows[coord] : NULL;
}

uf_status uf_conv_tuning_set(uf_conv_tuning *tuning, const uf_conv_tuned *row) {
    const int64_t coord = coord_of(tuning, &row->key);
    if (is_at(tuning, coord, &row->key)) {
        tuning->rows[coord] = *row;
        return UF_OK;
    }
    if (tuning->count == tuning->room) {
        const int64_t room = tuning->room < 16 ? 16 : tuning->room * 2;
        uf_conv_tuned *rows = realloc(tuning->rows, (size_t)room * sizeof *rows);
        if (rows == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a table of tuned convolutions");
        }
        tuning->rows = rows;
        tuning->room = room;
    }
    memmove(&tuning->rows[coord + 1], &tuning->rows[coord],
            (size_t)(tuning->count - coord) * sizeof *tuning->rows);
    tuning->rows[coord] = *row;
    ++tuning->count;
    return UF_OK;
}

uf_status uf_conv_tuning_check_unused(const uf_conv_tuning *tuning) {
    if (tuning->used) {
        UF_FAIL(UF_ERROR_STATE,
                "this context has chosen convolution kernels already: tune, or load tuned choices, "
                "before its first convolution is sized, run or compiled");
    }
    return UF_OK;
}
