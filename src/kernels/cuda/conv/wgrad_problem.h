/* wgrad_problem.h - a weight gradient as its kernels see it, and the lines in which taps share the
 * elements of x in shared memory. Needs no GPU and no toolkit.
 *
 * Lines. Along one axis a box of `extent` small elements and `kernel` taps touches extent * kernel
 * positions t*stride + r*dilation, many of them the same: taps r and r + step, step = stride /
 * gcd(stride, dilation), read the same residue class, `shift` = dilation / gcd apart. A class is
 * one run of consecutive elements in shared memory; classes lie one after another, and element t of
 * tap r is at wgrad_line_start(r) + t for any stride. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_PROBLEM_H
#define UF_KERNELS_CUDA_CONV_WGRAD_PROBLEM_H

#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* Tensors and geometry. Extents, strides and paddings of images are by axis: rows, columns.
 * `partial` has the sums of the splits, in an order of each kernel's own. */
#define WGRAD_PROBLEM_MEMBERS                                                                      \
    const void *x, *y;                                                                             \
    void *w;                                                                                       \
    float *partial;                                                                                \
    int64_t x_stride[4], y_stride[4], w_stride[4];                                                 \
    int32_t batch, groups, k_per_group, c_per_group;                                               \
    int32_t taps, taps_w;                                                                          \
    int32_t large[2], small[2], stride[2], padding[2], dilation[2]

typedef struct wgrad_problem {
    WGRAD_PROBLEM_MEMBERS;
} wgrad_problem;

/* Where a plan begins: these members are the plan's own, and in C `problem` is all of them. Kernels
 * have no union: behind one, every store might change the plan, which would be read again. */
#ifdef __cplusplus
#define WGRAD_PROBLEM WGRAD_PROBLEM_MEMBERS
#else
#define WGRAD_PROBLEM                                                                              \
    union {                                                                                        \
        wgrad_problem problem;                                                                     \
        struct {                                                                                   \
            WGRAD_PROBLEM_MEMBERS;                                                                 \
        };                                                                                         \
    }
#endif

wgrad_problem uf_wgrad_problem_of(const uf_conv_kernel_args *args);

/* The least of two values: a conditional between a member and a variable would select an address.
 */
static UF_HD_INLINE int32_t wgrad_least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

typedef struct wgrad_rows {
    int32_t stride, dilation, step, shift;
    int32_t length;  /* elements of a class with the most taps */
    int32_t longest; /* such classes: they go first; the others have one tap less */
    int32_t count;   /* elements of all classes */
} wgrad_rows;

/* Lines for `extent` elements. Where gaps between the taps would cost more than sharing saves,
 * every tap is a class of its own. 64-bit, because a dilation may be large; the caller bounds
 * kernel * extent. */
wgrad_rows uf_wgrad_rows_of(int64_t extent, int64_t kernel, int64_t stride, int64_t dilation);

static inline UF_HD int32_t wgrad_line_start(const wgrad_rows *lines, int32_t tap) {
    const int32_t t = tap / lines->step;
    const int32_t c = tap - t * lines->step;
    const int32_t shorter = c > lines->longest ? c - lines->longest : 0;
    return c * lines->length - shorter * lines->shift + t * lines->shift;
}

/* The element that element i of the lines is, counted from that of tap 0 of the box's first. */
static inline UF_HD int32_t wgrad_line_source(const wgrad_rows *lines, int32_t i) {
    int32_t length = lines->length;
    int32_t c = i / length;
    int32_t first = 0;
    if (c >= lines->longest) {
        first = lines->longest * length;
        length -= lines->shift;
        c = (i - first) / length;
        i -= first + c * length;
        c += lines->longest;
    } else {
        i -= c * length;
    }
    return i * lines->stride + c * lines->dilation;
}

UF_END_DECLS

#endif
