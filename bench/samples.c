/* samples.c - what a benchmarked operation must compute, for some elements, from the definition in
 * f64. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "kernels/random_math.h"

const char *const bench_op_names[BENCH_OPS] = {"forward", "grad_input", "grad_weight"};

bench_tensor bench_written(bench_op op) {
    return op == BENCH_FORWARD ? BENCH_X : op == BENCH_GRAD_INPUT ? BENCH_Y : BENCH_W;
}

void bench_extent(const bench_shape *shape, bench_tensor tensor, int64_t extent[4]) {
    switch (tensor) {
    case BENCH_X:
        extent[0] = shape->n;
        extent[1] = shape->c_out;
        extent[2] = shape->out[0];
        extent[3] = shape->out[1];
        break;
    case BENCH_Y:
        extent[0] = shape->n;
        extent[1] = shape->c_in;
        extent[2] = shape->h;
        extent[3] = shape->w;
        break;
    default:
        extent[0] = shape->c_in;
        extent[1] = shape->c_out / shape->groups;
        extent[2] = shape->kernel[0];
        extent[3] = shape->kernel[1];
        break;
    }
}

int64_t bench_count(const bench_shape *shape, bench_tensor tensor) {
    int64_t e[4];
    bench_extent(shape, tensor, e);
    return e[0] * e[1] * e[2] * e[3];
}

double bench_products(const bench_shape *shape) {
    double taps = 1;
    const int64_t in[2] = {shape->h, shape->w};
    for (int axis = 0; axis < 2; ++axis) {
        int64_t live = 0;
        for (int64_t r = 0; r < shape->kernel[axis]; ++r) {
            for (int64_t i = 0; i < in[axis]; ++i) {
                const int64_t o =
                    i * shape->stride[axis] - shape->padding[axis] + r * shape->dilation[axis];
                live += o >= 0 && o < shape->out[axis];
            }
        }
        taps *= (double)live;
    }
    return taps * (double)shape->n * (double)shape->c_in * (double)(shape->c_out / shape->groups);
}

double bench_bytes(const bench_shape *shape, size_t element) {
    double sum = 0;
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        sum += (double)bench_count(shape, (bench_tensor)t);
    }
    return sum * (double)element;
}

uint64_t bench_seed(bench_tensor tensor) {
    return 1000 + (uint64_t)tensor;
}

/* A run along a row asks for neighbours: the last block of four is kept. */
typedef struct source {
    bench_tensor tensor;
    uf_dtype dtype; /* f64 keeps what f32 and bf16 round */
    int64_t extent[4];
    int64_t block;
    uf_uniform4 drawn;
} source;

static source source_of(const bench_shape *shape, bench_tensor tensor, uf_dtype dtype) {
    source made;
    made.tensor = tensor;
    made.dtype = dtype;
    made.block = -1;
    bench_extent(shape, tensor, made.extent);
    return made;
}

/* To nearest even, as uf_convert does for any number; these are finite and far from overflow, and
 * very many. */
static float round_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double value_at(source *from, int64_t index) {
    if (from->block != index / 4) {
        from->block = index / 4;
        from->drawn = uf_uniform_block(bench_seed(from->tensor), (uint64_t)from->block);
    }
    const double value = fma(2.0, (double)from->drawn.u[index % 4], -1.0);
    return from->dtype == UF_F64    ? value
           : from->dtype == UF_BF16 ? (double)round_to_bf16((float)value)
                                    : (double)(float)value;
}

static int64_t index_of(const source *from, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ((a * from->extent[1] + b) * from->extent[2] + c) * from->extent[3] + d;
}

static void add(double a, double b, double *value, double *magnitude) {
    *value += a * b;
    *magnitude += fabs(a * b);
}

/* x[n, co, oh, ow] = sum over ci, r, s with oh = ih*stride - padding + r*dilation */
static void sample_x(const bench_shape *shape, source *w, source *y, const int64_t at[4],
                     double *value, double *magnitude) {
    const int64_t out_group = shape->c_out / shape->groups;
    const int64_t in_group = shape->c_in / shape->groups;
    const int64_t group = at[1] / out_group;
    for (int64_t i = 0; i < in_group; ++i) {
        const int64_t ci = group * in_group + i;
        for (int64_t r = 0; r < shape->kernel[0]; ++r) {
            const int64_t h = at[2] + shape->padding[0] - r * shape->dilation[0];
            if (h < 0 || h % shape->stride[0] != 0 || h / shape->stride[0] >= shape->h) {
                continue;
            }
            for (int64_t s = 0; s < shape->kernel[1]; ++s) {
                const int64_t v = at[3] + shape->padding[1] - s * shape->dilation[1];
                if (v < 0 || v % shape->stride[1] != 0 || v / shape->stride[1] >= shape->w) {
                    continue;
                }
                add(value_at(y, index_of(y, at[0], ci, h / shape->stride[0], v / shape->stride[1])),
                    value_at(w, index_of(w, ci, at[1] % out_group, r, s)), value, magnitude);
            }
        }
    }
}

static void sample_y(const bench_shape *shape, source *x, source *w, const int64_t at[4],
                     double *value, double *magnitude) {
    const int64_t out_group = shape->c_out / shape->groups;
    const int64_t group = at[1] / (shape->c_in / shape->groups);
    for (int64_t o = 0; o < out_group; ++o) {
        for (int64_t r = 0; r < shape->kernel[0]; ++r) {
            const int64_t h = at[2] * shape->stride[0] - shape->padding[0] + r * shape->dilation[0];
            for (int64_t s = 0; s < shape->kernel[1] && h >= 0 && h < shape->out[0]; ++s) {
                const int64_t v =
                    at[3] * shape->stride[1] - shape->padding[1] + s * shape->dilation[1];
                if (v >= 0 && v < shape->out[1]) {
                    add(value_at(x, index_of(x, at[0], group * out_group + o, h, v)),
                        value_at(w, index_of(w, at[1], o, r, s)), value, magnitude);
                }
            }
        }
    }
}

static void sample_w(const bench_shape *shape, source *x, source *y, const int64_t at[4],
                     double *value, double *magnitude) {
    const int64_t group = at[0] / (shape->c_in / shape->groups);
    const int64_t co = group * (shape->c_out / shape->groups) + at[1];
    for (int64_t n = 0; n < shape->n; ++n) {
        for (int64_t i = 0; i < shape->h; ++i) {
            const int64_t h = i * shape->stride[0] - shape->padding[0] + at[2] * shape->dilation[0];
            for (int64_t j = 0; j < shape->w && h >= 0 && h < shape->out[0]; ++j) {
                const int64_t v =
                    j * shape->stride[1] - shape->padding[1] + at[3] * shape->dilation[1];
                if (v >= 0 && v < shape->out[1]) {
                    add(value_at(x, index_of(x, n, co, h, v)),
                        value_at(y, index_of(y, n, at[0], i, j)), value, magnitude);
                }
            }
        }
    }
}

void bench_sample(const bench_shape *shape, bench_op op, uf_dtype dtype, bench_samples *samples) {
    source x = source_of(shape, BENCH_X, dtype);
    source w = source_of(shape, BENCH_W, dtype);
    source y = source_of(shape, BENCH_Y, dtype);
    const bench_tensor written = bench_written(op);
    int64_t extent[4];
    bench_extent(shape, written, extent);
    const double each = bench_products(shape) / (double)bench_count(shape, written);
    const double affordable = 4e7 / (each < 1 ? 1 : each);
    samples->rounding = dtype == UF_BF16 ? 0x1p-8 : 0;
    samples->count = affordable >= BENCH_SAMPLES ? BENCH_SAMPLES
                     : affordable < 4            ? 4
                                                 : (int)affordable;
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < samples->count; ++i) {
        for (int axis = 0; axis < 4; ++axis) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            /* The first two are the corners. */
            samples->at[i][axis] = i == 0   ? 0
                                   : i == 1 ? extent[axis] - 1
                                            : (int64_t)((state >> 33) % (uint64_t)extent[axis]);
        }
        double value = 0;
        double magnitude = 0;
        if (op == BENCH_FORWARD) {
            sample_x(shape, &w, &y, samples->at[i], &value, &magnitude);
        } else if (op == BENCH_GRAD_INPUT) {
            sample_y(shape, &x, &w, samples->at[i], &value, &magnitude);
        } else {
            sample_w(shape, &x, &y, samples->at[i], &value, &magnitude);
        }
        samples->value[i] = value;
        samples->magnitude[i] = magnitude;
    }
}

double bench_error(const bench_samples *samples, const double *got) {
    double worst = 0;
    for (int i = 0; i < samples->count; ++i) {
        /* Products of long sums cancel: a bf16 result may be off by its own last bit, not by
         * theirs. */
        const double difference = fabs(got[i] - samples->value[i]);
        const double allowed = samples->rounding * fabs(samples->value[i]);
        const double error = difference <= allowed ? 0 : difference - allowed; /* NaN stays NaN */
        /* Elements that no tap reaches must be exactly 0. */
        const double relative = samples->magnitude[i] > 0 ? error / samples->magnitude[i]
                                : error == 0              ? 0
                                                          : (double)INFINITY;
        if (!(relative <= worst)) {
            worst = isfinite(relative) ? relative : (double)INFINITY;
        }
    }
    return worst;
}

double bench_tolerance(uf_dtype dtype, uf_math math) {
    if (dtype == UF_F64) {
        return 1e-14;
    }
    if (dtype == UF_BF16) {
        return 1e-4; /* exact products; tensor cores truncate what they add to */
    }
    /* Rounding of both factors and of the sum, relative to the sum of magnitudes. */
    return math == UF_MATH_FP32 ? 2e-6 : math == UF_MATH_TF32 ? 1.1e-3 : 9e-3;
}
