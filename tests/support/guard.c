/* guard.c - canaries around and between a tensor's elements. */
#include "support/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/geometry.h"
#include "support/test.h"

enum { CANARY = 0xa5, MARGIN = 512, ALIGNMENT = 256 };

/* Images of GUARD_IMAGES begin at multiples of so many elements, so that vectors of them may be
 * moved. */
enum { IMAGE_ELEMENTS = 32 };

static int64_t element_size(const guarded *tensor) {
    return (int64_t)uf_dtype_size(tensor->view.dtype);
}

/* The byte in the block where logical element (n, c, h, w) begins. */
static int64_t place(const guarded *tensor, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t *stride = tensor->view.stride;
    return tensor->first +
           (n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3]) * element_size(tensor);
}

static void put(guarded *tensor, int64_t byte, double value) {
    uf_convert(tensor->block + byte, tensor->view.dtype, &value, UF_F64, 1);
}

static double get(const guarded *tensor, int64_t byte) {
    double value;
    uf_convert(&value, UF_F64, tensor->block + byte, tensor->view.dtype, 1);
    return value;
}

/* Strides that place the axes in `order`, innermost last, each padded by gap[axis] elements;
 * returns the number of elements from the first to past the last. */
static int64_t set_strides(uf_view *view, const int order[4], const int64_t gap[4]) {
    int64_t step = 1;
    for (int i = 3; i >= 0; --i) {
        const int axis = order[i];
        view->stride[axis] = step;
        step *= view->extent[axis] + gap[axis];
    }
    return step;
}

/* The tensor begins `shift` bytes after a multiple of ALIGNMENT. */
static void allocate_block(guarded *tensor, int64_t bytes, int64_t shift) {
    const int64_t rounded = (shift + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    tensor->block_bytes = MARGIN + rounded + MARGIN;
    tensor->block = test_shared_allocate((size_t)tensor->block_bytes);
    memset(tensor->block, CANARY, (size_t)tensor->block_bytes);
    tensor->first = MARGIN + shift;
    tensor->view.data = tensor->block + tensor->first;
}

guarded guard_create(uf_dtype dtype, const int64_t extent[4], guard_layout layout,
                     test_random *random) {
    static const int orders[GUARD_LAYOUTS][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 1, 3, 2},
                                                 {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    guarded tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.view.dtype = dtype;
    int64_t gap[4] = {0, 0, 0, 0};
    int64_t count = 1;
    for (int axis = 0; axis < 4; ++axis) {
        tensor.view.extent[axis] = extent[axis];
        count *= extent[axis];
        if (layout == GUARD_GAPS && random != NULL) {
            gap[axis] = test_random_integer(random, 0, 2);
        }
    }
    int64_t elements = set_strides(&tensor.view, orders[layout], gap);
    if (layout == GUARD_IMAGES) {
        tensor.view.stride[0] = uf_round_up(tensor.view.stride[0] + 1, IMAGE_ELEMENTS);
        elements = extent[0] * tensor.view.stride[0];
    }
    allocate_block(&tensor, elements * element_size(&tensor),
                   layout == GUARD_SHIFTED ? element_size(&tensor) : 0);
    double *poison = test_allocate((size_t)count * sizeof *poison);
    for (int64_t i = 0; i < count; ++i) {
        poison[i] = (double)NAN;
    }
    guard_store(&tensor, poison);
    free(poison);
    return tensor;
}

guarded guard_scratch(size_t size) {
    guarded scratch;
    memset(&scratch, 0, sizeof scratch);
    scratch.view.dtype = UF_F32;
    scratch.view.extent[0] = scratch.view.extent[1] = scratch.view.extent[2] = 1;
    scratch.view.extent[3] = (int64_t)((size + sizeof(float) - 1) / sizeof(float));
    scratch.view.stride[3] = 1;
    allocate_block(&scratch, (int64_t)size, 0);
    memset(scratch.block + scratch.first, 0xff, size); /* all ones is a NaN in every real type */
    return scratch;
}

void guard_destroy(guarded *tensor) {
    if (tensor->block != NULL) {
        test_shared_free(tensor->block, (size_t)tensor->block_bytes);
    }
    memset(tensor, 0, sizeof *tensor);
}

/* Visit the elements in logical C order; `byte` is where one begins in the block, `number` its
 * number. */
#define FOR_EACH_ELEMENT(tensor, byte, number)                                                     \
    for (int64_t number = 0, n_ = 0; n_ < (tensor)->view.extent[0]; ++n_)                          \
        for (int64_t c_ = 0; c_ < (tensor)->view.extent[1]; ++c_)                                  \
            for (int64_t h_ = 0; h_ < (tensor)->view.extent[2]; ++h_)                              \
                for (int64_t w_ = 0, byte = place((tensor), n_, c_, h_, 0);                        \
                     w_ < (tensor)->view.extent[3];                                                \
                     ++w_, ++number, byte = place((tensor), n_, c_, h_, w_))

void guard_store(guarded *tensor, const double *values) {
    FOR_EACH_ELEMENT(tensor, byte, i) {
        put(tensor, byte, values[i]);
    }
}

void guard_load(const guarded *tensor, double *values) {
    FOR_EACH_ELEMENT(tensor, byte, i) {
        values[i] = get(tensor, byte);
    }
}

void assert_guard_intact(const char *label, const guarded *tensor) {
    unsigned char *inside = calloc((size_t)tensor->block_bytes, 1);
    assert_non_null(inside);
    FOR_EACH_ELEMENT(tensor, byte, i) {
        memset(inside + byte, 1, (size_t)element_size(tensor));
    }
    for (int64_t byte = 0; byte < tensor->block_bytes; ++byte) {
        if (!inside[byte] && tensor->block[byte] != CANARY) {
            free(inside);
            fail_msg("%s: wrote outside of the tensor, at byte %lld (the tensor begins at %lld)",
                     label, (long long)byte, (long long)tensor->first);
        }
    }
    free(inside);
}
