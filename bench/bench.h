/* bench.h - what the benchmark programs share. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* One transposed convolution, as shapes.json has it: [0] is height, [1] is width. */
typedef struct bench_shape {
    char name[64], list[32]; /* list: the file's name without its folder and suffix */
    int64_t n, c_in, c_out, h, w;
    int64_t kernel[2], stride[2], padding[2], output_padding[2], dilation[2], groups;
    int64_t out[2]; /* computed */
} bench_shape;

/* Read a list of shapes; NULL with a sentence in `error` on failure. The caller frees the
 * result. */
bench_shape *bench_read_shapes(const char *path, int64_t *count, char *error, size_t error_size);

typedef enum bench_op {
    BENCH_FORWARD = 0,
    BENCH_GRAD_INPUT,
    BENCH_GRAD_WEIGHT,
    BENCH_OPS
} bench_op;

extern const char *const bench_op_names[BENCH_OPS];

/* The three tensors, seen as a convolution sees them: x (N, C_out, OH, OW) is the output of the
 * transposed convolution, y (N, C_in, H, W) its input, w (C_in, C_out/groups, R, S). forward writes
 * x, grad_input writes y, grad_weight writes w. */
typedef enum bench_tensor { BENCH_X = 0, BENCH_W, BENCH_Y, BENCH_TENSORS } bench_tensor;

bench_tensor bench_written(bench_op op);
void bench_extent(const bench_shape *shape, bench_tensor tensor, int64_t extent[4]);
int64_t bench_count(const bench_shape *shape, bench_tensor tensor);

/* Products of one operation that meet no zero inserted or padded, and bytes that it must move at
 * least. */
double bench_products(const bench_shape *shape);
double bench_bytes(const bench_shape *shape, size_t element);

/* Tensors hold what random_fill(uniform, -1, 1) makes of this seed: any element can be computed
 * again. */
uint64_t bench_seed(bench_tensor tensor);

/* Some elements of the written tensor in f64, from the definition; `dtype` is that of the
 * inputs. */
enum { BENCH_SAMPLES = 64 };
typedef struct bench_samples {
    int count;
    int64_t at[BENCH_SAMPLES][4];                          /* coordinates */
    double value[BENCH_SAMPLES], magnitude[BENCH_SAMPLES]; /* sum a*b, sum |a*b| */
    double rounding; /* of a result, relative to it; 0 where the tolerance has room for it: all but
                        bf16 */
} bench_samples;
void bench_sample(const bench_shape *shape, bench_op op, uf_dtype dtype, bench_samples *samples);

/* The largest |got - value| / magnitude, less the rounding of the result; infinity when something
 * is not finite. */
double bench_error(const bench_samples *samples, const double *got);
double bench_tolerance(uf_dtype dtype, uf_math math);

/* One call of what is timed, on buffer set `set`. */
typedef struct bench_work {
    uf_status (*run)(void *user, int set);
    void *user;
    int sets;
} bench_work;

typedef struct bench_timing {
    double ms;     /* of a call: the median */
    double spread; /* distance of the quartiles, over the median */
    int runs;
    bool replayed; /* as a CUDA graph */
} bench_timing;

/* After warm-up, within about `budget_ms`: three runs or more, but fewer where these would take ten
 * times that. False, with uf_last_error, when a call fails. */
bool bench_time(uf_context *context, const bench_work *work, double budget_ms,
                bench_timing *timing);

/* How many kernels the device runs for one call; -1 where that is not known. */
int64_t bench_kernels(uf_context *context, const bench_work *work);

/* Bytes of second-level cache; bytes per second of a large copy; multiplications plus additions per
 * second. 0 where it is not known. */
size_t bench_cache(uf_context *context);
double bench_copy_rate(uf_context *context);
double bench_peak(uf_context *context, uf_dtype dtype, uf_math math);

/* The time of cuDNN for the same operation, over all its algorithms. Milliseconds below 0: it has
 * none. */
typedef struct bench_rival {
    double ms;
    char algorithm[48];
    double error; /* as bench_error */
} bench_rival;
typedef struct bench_cudnn bench_cudnn;
bench_cudnn *bench_cudnn_create(uf_context *context); /* NULL: not built in, or not there */
void bench_cudnn_destroy(bench_cudnn *cudnn);
const char *bench_cudnn_version(void);
bench_rival bench_cudnn_time(bench_cudnn *cudnn, const bench_shape *shape, bench_op op,
                             uf_dtype dtype, uf_math math, bool channels_last,
                             const bench_samples *samples, double budget_ms);

/* On a GPU only; 0 or a cudaError_t. convert.cu: f32 or f64 in NCHW into any strides, of bf16 when
 * `narrow`. copy.cu: a whole number of 16 bytes. */
int bench_convert(void *stream, void *to, const void *from, uf_dtype dtype, bool narrow,
                  const int64_t extent[4], const int64_t stride[4]);
int bench_copy(void *stream, void *to, const void *from, size_t bytes);

/* The arguments that the choice of a kernel gets: tensors that point nowhere. */
void bench_kernel_args(const bench_shape *shape, uf_dtype dtype, uf_math math,
                       uf_conv_kernel_args *args);

UF_END_DECLS

#endif
