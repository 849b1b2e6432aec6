/* draw.h - random numbers inside a program: dropout and noise.
 *
 * A part of kernels.h. A number is a function of its layer's key, of the step that the program
 * counts in device memory and of its place, and of nothing else: no mask is stored, backward makes
 * it again, and a recorded graph draws anew in each run. */
#ifndef UF_KERNELS_DRAW_H
#define UF_KERNELS_DRAW_H

/* Word i is word i mod 4 of Philox4x32-10 at counter (i div 4, step), two words each, by `key`. */
typedef struct uf_draw {
    uint64_t key;
    const int64_t *step; /* device memory */
} uf_draw;

/* dropout: output = input / (1 - p) where it is kept, else 0. Elements k*plane to k*plane + plane -
 * 1 in C order go together: they are dropped where word k is below p * 2^32. Forward, and backward
 * on the gradients. Images (extent 0) may have gaps in between. output may be input's memory. */
typedef struct uf_dropout_kernel_args {
    uf_draw draw;
    double p;
    int64_t plane;
    uf_view input, output;
    uf_write_mode mode;
} uf_dropout_kernel_args;

/* noise: element i is random_fill's number for the uniform of word i. Images may have gaps in
 * between. */
typedef struct uf_noise_kernel_args {
    uf_draw draw;
    uf_random_kind kind;
    double a, b; /* low, high; or mean, std */
    uf_view output;
} uf_noise_kernel_args;

/* random_advance: step += 1. */
typedef struct uf_random_advance_kernel_args {
    int64_t *step; /* device memory */
} uf_random_advance_kernel_args;

uf_status uf_dropout_check(const uf_dropout_kernel_args *args);
uf_status uf_noise_check(const uf_noise_kernel_args *args);

#endif
