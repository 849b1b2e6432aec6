/* clip.h - what the kernels of gradient clipping take. kernels.h includes it. */
#ifndef UF_KERNELS_CLIP_H
#define UF_KERNELS_CLIP_H

#define UF_CLIP_PARTIALS 512

/* `count` consecutive elements of one type, f32 or f64.
 * gradient_squares: the elements are cut into UF_CLIP_PARTIALS parts by their number alone;
 *   partials[j] = (or +=) the sum of squares of part j, in f64 and in a fixed order.
 * gradient_clip: norm = sqrt of the sum of the partials; if `norm` is above 0, each element is
 *   multiplied by norm / (norm of the gradients + 1e-6) where that is below 1; if `value` is above
 *   0, it is then cut to [-value, value]. A NaN stays one. */
typedef struct uf_clip_kernel_args {
    uf_dtype dtype;
    int64_t count;
    void *gradient;     /* gradient_squares reads it, gradient_clip overwrites it */
    double *partials;   /* device memory, UF_CLIP_PARTIALS; NULL without `norm` */
    uf_write_mode mode; /* of the partials */
    double norm, value; /* 0: no limit */
} uf_clip_kernel_args;

#endif
