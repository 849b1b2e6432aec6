/* resample.h - images of another size, by the nearest element or between four. */
#ifndef UF_KERNELS_RESAMPLE_H
#define UF_KERNELS_RESAMPLE_H

#include <unfurl/ops.h>

#include "kernels/geometry.h"

UF_BEGIN_DECLS

/* One axis. Element o of the output lies at (o + shift) * numerator / denominator - shift of the
 * input, kept inside 0 .. in - 1. */
typedef struct uf_resample_axis {
    int64_t in, out;
    double numerator, denominator;
    double inverse, step; /* 1 / denominator; denominator / numerator */
    double shift;
} uf_resample_axis;

/* Views (N, C, H, W); extents 2 and 3 are those of the axes.
 *   resample_forward:   blend: output = (1 - u)(1 - v) x[h,w] + (1 - u) v x[h,w+1] + u (1 - v)
 *                       x[h+1,w] + u v x[h+1,w+1], with h + u and w + v where the element lies;
 *                       else output = x[h,w]
 *   resample_backward:  grad_input = the sum of grad_output times these weights, rows and columns
 *                       ascending */
typedef struct uf_resample_kernel_args {
    bool blend;
    uf_resample_axis axis[2];        /* rows, columns */
    uf_view input, output;           /* forward */
    uf_view grad_output, grad_input; /* backward */
    uf_write_mode mode;              /* of grad_input */
} uf_resample_kernel_args;

static inline uf_resample_axis uf_resample_axis_of(int64_t in, int64_t out, double numerator,
                                                   double denominator, double shift) {
    uf_resample_axis axis;
    axis.in = in;
    axis.out = out;
    axis.numerator = numerator;
    axis.denominator = denominator;
    axis.inverse = 1.0 / denominator;
    axis.step = denominator / numerator;
    axis.shift = shift;
    return axis;
}

/* Where element o lies, times the denominator: exact where numerator and denominator are integers,
 * as in all but an odd scale. */
static inline UF_HD double uf_resample_product(const uf_resample_axis *axis, int64_t o) {
    const double product =
        ((double)o + axis->shift) * axis->numerator - axis->shift * axis->denominator;
    const double last = (double)(axis->in - 1) * axis->denominator;
    return product < 0.0 ? 0.0 : product > last ? last : product;
}

/* The element at or before that place; it grows with o. Products decide what the rounded inverse
 * leaves open. */
static inline UF_HD int64_t uf_resample_source(const uf_resample_axis *axis, int64_t o) {
    const double product = uf_resample_product(axis, o);
    int64_t i = (int64_t)(product * axis->inverse);
    i += (double)(i + 1) * axis->denominator <= product ? 1 : 0;
    i -= (double)i * axis->denominator > product ? 1 : 0;
    return i < axis->in - 1 ? i : axis->in - 1;
}

/* How far behind element i of the input element o lies. */
static inline UF_HD double uf_resample_distance(const uf_resample_axis *axis, int64_t i,
                                                int64_t o) {
    return (uf_resample_product(axis, o) - (double)i * axis->denominator) * axis->inverse;
}

/* The first element of the output whose source is element i of the input or a later one; `out`:
 * none. */
static inline UF_HD int64_t uf_resample_first(const uf_resample_axis *axis, int64_t i) {
    if (i <= 0 || i >= axis->in) {
        return i <= 0 ? 0 : axis->out;
    }
    const double guess = ((double)i + axis->shift) * axis->step - axis->shift;
    int64_t o = guess < (double)axis->out ? (int64_t)guess : axis->out;
    while (o > 0 && uf_resample_source(axis, o - 1) >= i) {
        --o;
    }
    while (o < axis->out && uf_resample_source(axis, o) < i) {
        ++o;
    }
    return o;
}

/* The elements of the output that element i has a part in, from begin to end - 1. */
static inline UF_HD void uf_resample_targets(const uf_resample_axis *axis, bool blend, int64_t i,
                                             int64_t *begin, int64_t *end) {
    *begin = uf_resample_first(axis, blend ? i - 1 : i);
    *end = uf_resample_first(axis, i + 1);
}

/* The weight of element i in one of these. */
static inline UF_HD double uf_resample_weight(const uf_resample_axis *axis, bool blend, int64_t i,
                                              int64_t o) {
    if (!blend) {
        return 1.0;
    }
    const double distance = uf_resample_distance(axis, i, o);
    return distance < 0.0 ? 1.0 + distance : 1.0 - distance;
}

/* UF_OK, or why the arguments are not legal. */
uf_status uf_resample_check(const uf_resample_kernel_args *args, bool backward);

UF_END_DECLS

#endif
