/* geometry.h - the index arithmetic of convolution, once, for host code, reference loops and
 * kernels.
 *
 * One axis of a convolution relates a small side (o, extent out) to a large side (i, extent in):
 *     i = o*stride - padding + r*dilation,   0 <= r < kernel.
 * Walking from the small side (fprop, wgrad) is direct. Walking from the large side (dgrad, the
 * forward of a transposed convolution) is dense within each phase, phase = (i + padding) mod
 * stride: with g = gcd(stride, dilation), s' = stride/g, d' = dilation/g, a phase has taps only if
 * g divides it, and these are r = first_tap + t*s' with o = j + offset - t*d' for the j-th element
 * of the phase. No product with an inserted zero is ever formed. */
#ifndef UF_KERNELS_GEOMETRY_H
#define UF_KERNELS_GEOMETRY_H

#include <stdint.h>

#ifdef __CUDACC__
#define UF_HD __host__ __device__
#define UF_HD_INLINE __host__ __device__ __forceinline__
#else
#define UF_HD
#define UF_HD_INLINE inline
#endif

/* One axis seen as a dense correlation: output element j (at out_first + j*out_step of the written
 * side) sums taps t = 0..taps-1, filter index tap_first + t*tap_step, source element
 * j*in_step + in_first + t*in_tap_step of the read side where that lies inside it. */
typedef struct uf_axis_walk {
    int64_t out_first, out_step, out_count;
    int64_t in_first, in_step, in_tap_step;
    int64_t tap_first, tap_step, taps;
} uf_axis_walk;

static inline UF_HD int64_t uf_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline UF_HD int64_t uf_round_up(int64_t value, int64_t unit) {
    return uf_div_up(value, unit) * unit;
}

static inline UF_HD int64_t uf_gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* The walk of fprop and wgrad: `out` elements of the small side, reading the large side. */
static inline UF_HD uf_axis_walk uf_axis_fprop(int64_t out, int64_t kernel, int64_t stride,
                                               int64_t padding, int64_t dilation) {
    uf_axis_walk walk;
    walk.out_first = 0;
    walk.out_step = 1;
    walk.out_count = out;
    walk.in_first = -padding;
    walk.in_step = stride;
    walk.in_tap_step = dilation;
    walk.tap_first = 0;
    walk.tap_step = 1;
    walk.taps = kernel;
    return walk;
}

/* The walk of dgrad for one phase, 0 <= phase < stride: elements of the large side (extent `in`)
 * with (i + padding) mod stride == phase, reading the small side. taps may be 0 (the phase gets
 * only the epilogue) and out_count may be 0. */
static inline UF_HD uf_axis_walk uf_axis_dgrad(int64_t in, int64_t kernel, int64_t stride,
                                               int64_t padding, int64_t dilation, int64_t phase) {
    uf_axis_walk walk;
    const int64_t g = uf_gcd(stride, dilation);
    const int64_t s = stride / g;
    const int64_t d = dilation / g;
    int64_t first = (phase - padding) % stride;
    if (first < 0) {
        first += stride;
    }
    walk.out_first = first;
    walk.out_step = stride;
    walk.out_count = first < in ? (in - first + stride - 1) / stride : 0;
    walk.in_first = 0;
    walk.in_step = 1;
    walk.in_tap_step = -d;
    walk.tap_first = 0;
    walk.tap_step = s;
    walk.taps = 0;
    if (phase % g != 0) {
        return walk;
    }
    /* The smallest r with r*dilation = phase (mod stride): r = (phase/g) * d^-1 mod s. A search of
     * at most min(s, kernel) steps costs less than code for the inverse; where that is 1 there is
     * nothing to search. */
    const int64_t target = (phase / g) % s;
    int64_t r = d % s == 1 ? target : 0;
    for (int64_t at = r; r < s && r < kernel && at != target; ++r) {
        at += d % s - (at >= s - d % s ? s : 0);
    }
    if (r >= kernel || r >= s) {
        return walk;
    }
    walk.tap_first = r;
    walk.taps = (kernel - r + s - 1) / s;
    walk.in_first = (first + padding - r * dilation) / stride; /* exact */
    return walk;
}

#endif
