/* accuracy.h - one convolution run in f32 on the device under test, and the products that each of
 * its results is a sum of.
 *
 * The library's tests compare whole tensors with loops in double. Here single results are taken
 * apart, so that an error can be stated in units of the sum of |products| and held to that of the
 * plainest f32 arithmetic. */
#ifndef TEST_OPS_ACCURACY_H
#define TEST_OPS_ACCURACY_H

#include "support/conv_variants.h"
#include "support/random.h"
#include "support/test.h"

typedef enum direction { FPROP = 0, DGRAD, WGRAD, DIRECTIONS } direction;

/* x is (N, C, H, W), w (K, C/groups, R, R), y (N, K, P, Q); h = p*stride - padding + r*dilation.
 * FPROP makes y of x and w, DGRAD x of y and w, WGRAD w of x and y. */
typedef enum tensor { X = 0, W, Y, TENSORS } tensor;

typedef struct shape {
    const char *label;
    int64_t n, c, k, groups, kernel, stride, padding, dilation;
    int64_t p, q;
    int64_t extra; /* rows and columns of x beyond the last that y's first tap needs: the
                      output_padding */
} shape;

/* One after another, C order, as the host sees them. */
typedef struct tensors {
    const shape *of;
    int64_t extent[TENSORS][4], count[TENSORS];
    float *host[TENSORS];
    uf_tensor *device[TENSORS];
    /* Scratch of `products`: as many as the longest sum has. */
    float *a, *b;
} tensors;

extern const char *const direction_names[DIRECTIONS];

/* The kernels of the device under test that can be forced for f32 tensors, after NULL, the
 * library's choice. */
int64_t variants_there_are(const char *names[CONV_VARIANTS]);
const char *variant_label(const char *variant); /* "chosen" for NULL */

/* What a direction writes, and what it reads: the pixels first, then the weights (WGRAD: y). */
tensor written_by(direction which);
void read_by(direction which, tensor *first, tensor *second);

tensors tensors_create(uf_context *context, const shape *of);
void tensors_destroy(tensors *all);
void tensors_upload(tensors *all); /* from host to device */

/* Run a direction from what was uploaded. The result begins as NaN, and scratch is `poison` in
 * every byte. False when the variant does not take these arguments; NULL is the library's choice.
 */
bool run_direction(uf_context *context, const tensors *all, direction which, uf_math math,
                   const char *variant, int poison, float *result);

/* The factors of element `index` of what the direction writes, into all->a and all->b: channels
 * fastest, then taps (WGRAD: pixels in C order). Products with padding are not there. Returns how
 * many. */
int64_t products(const tensors *all, direction which, int64_t index);

/* Of products: in f64; as a chain of fmaf in f32, in order and in the reverse order; and of their
 * sizes. */
double sum_exact(const tensors *all, int64_t count);
float sum_chain(const tensors *all, int64_t count);
float sum_chain_reversed(const tensors *all, int64_t count);
double sum_sizes(const tensors *all, int64_t count);

#endif
