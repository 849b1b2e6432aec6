/* pool.h - the maximum or the average of windows of an image. */
#ifndef UF_KERNELS_POOL_H
#define UF_KERNELS_POOL_H

#include <unfurl/ops.h>

#include "kernels/geometry.h"

UF_BEGIN_DECLS

typedef enum uf_pool_kind { UF_POOL_MAX = 0, UF_POOL_AVERAGE } uf_pool_kind;

/* One axis: the window of output o has the elements o * stride - padding + r * dilation of the
 * input, 0 <= r < kernel, as far as they are inside it. */
typedef struct uf_pool_axis {
    int64_t in, out, kernel, stride, padding, dilation;
} uf_pool_axis;

/* Views (N, C, H, W); extents 2 and 3 are those of the axes.
 *   pool_forward:   the maximum of each window, NaN where it has one; or its sum by its size
 *   pool_backward:  the maximum's gradient goes to the first element that has it, or to the last
 *                   NaN; the average's to all. A sum for each element of grad_input, rows and
 *                   columns of grad_output ascending. */
typedef struct uf_pool_kernel_args {
    uf_pool_kind kind;
    uf_pool_axis axis[2];   /* rows, columns */
    bool count_include_pad; /* of AVERAGE: the size counts the padding in the window, too */
    uf_view input, output;  /* forward; backward of MAX reads both */
    uf_view grad_output, grad_input;
    uf_write_mode mode; /* of grad_input */
} uf_pool_kernel_args;

/* Steps of the dilation that reach across `span` elements. */
static inline UF_HD int64_t uf_pool_steps(const uf_pool_axis *axis, int64_t span) {
    return axis->dilation == 1 ? span : uf_div_up(span, axis->dilation);
}

/* A window: its first element inside the input and how many there are. */
static inline UF_HD int64_t uf_pool_window(const uf_pool_axis *axis, int64_t o, int64_t *first) {
    const int64_t start = o * axis->stride - axis->padding;
    const int64_t before = start < 0 ? uf_pool_steps(axis, -start) : 0;
    const int64_t inside = start < axis->in ? uf_pool_steps(axis, axis->in - start) : 0;
    const int64_t end = inside < axis->kernel ? inside : axis->kernel;
    *first = start + before * axis->dilation;
    return end > before ? end - before : 0;
}

/* The extent of a window that an average divides by; without dilation. */
static inline UF_HD int64_t uf_pool_size(const uf_pool_axis *axis, bool count_include_pad,
                                         int64_t o) {
    int64_t first;
    const int64_t inside = uf_pool_window(axis, o, &first);
    const int64_t start = o * axis->stride - axis->padding;
    const int64_t left = axis->in + axis->padding - start;
    return !count_include_pad ? inside : left < axis->kernel ? left : axis->kernel;
}

/* The outputs whose windows reach across element i, from begin to end - 1; a dilated window may
 * step over it. */
static inline UF_HD void uf_pool_targets(const uf_pool_axis *axis, int64_t i, int64_t *begin,
                                         int64_t *end) {
    const int64_t last = i + axis->padding;
    const int64_t first = last - (axis->kernel - 1) * axis->dilation;
    const int64_t past = last / axis->stride + 1;
    *begin = first > 0 ? uf_div_up(first, axis->stride) : 0;
    *end = past < axis->out ? past : axis->out;
}

static inline UF_HD bool uf_pool_has(const uf_pool_axis *axis, int64_t o, int64_t i) {
    return axis->dilation == 1 || (i + axis->padding - o * axis->stride) % axis->dilation == 0;
}

/* UF_OK, or why the arguments are not legal. */
uf_status uf_pool_check(const uf_pool_kernel_args *args, bool backward);

UF_END_DECLS

#endif
