/* init_matrix.c - first values that are made for a whole tensor at once: orthogonal matrices,
 * bilinear kernels, ICNR.
 *
 * All are computed on the host in f64, one thread, and rounded once into the store's type: CPU and
 * GPU get the same bits. */
#include "train/init.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/tensor.h"
#include "kernels/random_math.h"

/* Draw i of the tensor's stream as a standard normal, the number that uf_init_normal makes of it.
 */
static void draw_normals(uint64_t seed, int64_t count, double *values) {
    for (int64_t block = 0; 4 * block < count; ++block) {
        const uf_uniform4 drawn = uf_uniform_block(seed, (uint64_t)block);
        for (int64_t i = 0; i < 4 && 4 * block + i < count; ++i) {
            values[4 * block + i] = uf_normal_of(drawn.u[i]);
        }
    }
}

/* Zeroed room for the whole tensor on the host. */
static uf_status host_values(const char *function, const uf_store_slot *slot, double **values) {
    const int64_t count = uf_shape_count(&slot->shape);
    *values = calloc((size_t)count + 1, sizeof **values);
    if (*values == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "%s: out of host memory for %" PRId64 " elements of %s",
                function, count, slot->name);
    }
    return UF_OK;
}

static uf_status give(uf_store *store, uf_store_slot *slot, const double *values) {
    UF_TRY(uf_tensor_upload_as(&slot->tensor, UF_F64, values, uf_shape_count(&slot->shape)));
    uf_store_changed(store);
    return UF_OK;
}

/* Eight partial sums in a fixed order, which a compiler can keep in one register. */
static double dot(const double *a, const double *b, int64_t count) {
    double part[8] = {0.0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int lane = 0; lane < 8; ++lane) {
            part[lane] += a[i + lane] * b[i + lane];
        }
    }
    for (int lane = 0; i < count; ++i, ++lane) {
        part[lane] += a[i] * b[i];
    }
    return ((part[0] + part[4]) + (part[1] + part[5])) +
           ((part[2] + part[6]) + (part[3] + part[7]));
}

/* column -= scale * (v . column) * v */
static void reflect(const double *v, double scale, double *column, int64_t count) {
    const double factor = scale * dot(v, column, count);
    for (int64_t i = 0; i < count; ++i) {
        column[i] -= factor * v[i];
    }
}

/* `a` has `n` columns of m >= n elements, one behind the other: Householder vectors replace what is
 * on and below the diagonal. scale[k] is 2 / (v . v), sign[k] the sign of R's diagonal element. */
static void decompose(double *a, int64_t m, int64_t n, double *scale, double *sign) {
    for (int64_t k = 0; k < n; ++k) {
        double *v = a + k * m + k;
        const double norm = sqrt(dot(v, v, m - k));
        /* The diagonal element becomes -norm or norm, whichever is the farther from v[0]. */
        sign[k] = v[0] > 0.0 ? -1.0 : 1.0;
        v[0] -= sign[k] * norm;
        const double square = dot(v, v, m - k);
        scale[k] = square > 0.0 ? 2.0 / square : 0.0;
        for (int64_t j = k + 1; j < n; ++j) {
            reflect(v, scale[k], a + j * m + k, m - k);
        }
    }
}

/* q = the first n columns of H_0 * H_1 * ... * H_(n-1), each times its sign. */
static void multiply_out(const double *a, int64_t m, int64_t n, const double *scale,
                         const double *sign, double *q) {
    memset(q, 0, (size_t)(m * n) * sizeof *q);
    for (int64_t j = 0; j < n; ++j) {
        q[j * m + j] = sign[j];
    }
    for (int64_t k = n - 1; k >= 0; --k) {
        for (int64_t j = k; j < n; ++j) {
            reflect(a + k * m + k, scale[k], q + j * m + k, m - k);
        }
    }
}

static void transpose(const double *from, int64_t rows, int64_t columns, double *to) {
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            to[c * rows + r] = from[r * columns + c];
        }
    }
}

/* The draws are a matrix of (rows, columns) in C order, that is the columns of its transpose. A
 * wide matrix is transposed for the decomposition, which is none of memory; a tall one is moved. */
static void orthogonalise(double *values, double *other, double *facts, int64_t rows,
                          int64_t columns) {
    const int64_t m = rows > columns ? rows : columns;
    const int64_t n = rows > columns ? columns : rows;
    if (rows >= columns) {
        transpose(values, rows, columns, other);
        decompose(other, m, n, facts, facts + n);
        multiply_out(other, m, n, facts, facts + n, values);
        transpose(values, columns, rows, other);
        memcpy(values, other, (size_t)(m * n) * sizeof *values);
    } else {
        decompose(values, m, n, facts, facts + n);
        multiply_out(values, m, n, facts, facts + n, other);
        memcpy(values, other, (size_t)(m * n) * sizeof *values);
    }
}

uf_status uf_init_orthogonal(uf_store *store, const char *name, double gain) {
    static const char function[] = "uf_init_orthogonal";
    uf_store_slot *slot = NULL;
    UF_TRY(uf_init_check_gain(function, gain));
    UF_TRY(uf_init_find(function, store, name, &slot));
    UF_TRY(uf_init_check_real(function, slot));
    UF_TRY(uf_init_check_rank(function, slot, 2, "an orthogonal matrix"));
    const int64_t count = uf_shape_count(&slot->shape);
    if (count == 0) {
        return UF_OK;
    }
    const int64_t rows = slot->shape.extent[0];
    double *values = NULL, *other = NULL;
    double *facts = calloc(2 * (size_t)rows, sizeof *facts);
    if (facts == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "%s: out of host memory for %s", function, name);
    }
    uf_status status;
    UF_TRY_GOTO(host_values(function, slot, &values), done);
    UF_TRY_GOTO(host_values(function, slot, &other), done);
    draw_normals(uf_init_stream(store, slot->name), count, values);
    orthogonalise(values, other, facts, rows, count / rows);
    for (int64_t i = 0; i < count; ++i) {
        values[i] *= gain;
    }
    status = give(store, slot, values);
done:
    free(facts);
    free(values);
    free(other);
    return status;
}

/* The weight of one offset of a kernel of `size` along one axis. */
static double linear_weight(int64_t size, int64_t offset) {
    const double factor = (double)((size + 1) / 2);
    const double centre = 0.5 * (double)(size - 1);
    return 1.0 - fabs((double)offset - centre) / factor;
}

uf_status uf_init_bilinear(uf_store *store, const char *name) {
    static const char function[] = "uf_init_bilinear";
    char text[128];
    uf_store_slot *slot = NULL;
    UF_TRY(uf_init_find(function, store, name, &slot));
    UF_TRY(uf_init_check_real(function, slot));
    UF_TRY(uf_init_check_rank(function, slot, 3, "interpolation"));
    const uf_shape *shape = &slot->shape;
    if (uf_shape_count(shape) == 0) {
        return UF_OK;
    }
    if (shape->extent[0] % shape->extent[1] != 0) {
        UF_FAIL(
            UF_ERROR_SHAPE,
            "%s: %s is %s; as many channels come out of a group as go in, so extent 0 must be a "
            "multiple of extent 1",
            function, name, uf_shape_format(shape, text, sizeof text));
    }
    double *values;
    UF_TRY(host_values(function, slot, &values));
    const int64_t pairs = shape->extent[0] * shape->extent[1];
    const int64_t kernel = uf_shape_count(shape) / pairs;
    for (int64_t i = 0; i < shape->extent[0]; ++i) {
        double *weight = values + (i * shape->extent[1] + i % shape->extent[1]) * kernel;
        for (int64_t k = 0; k < kernel; ++k) {
            int64_t rest = k;
            weight[k] = 1.0;
            for (int32_t axis = shape->rank - 1; axis >= 2; --axis) {
                weight[k] *= linear_weight(shape->extent[axis], rest % shape->extent[axis]);
                rest /= shape->extent[axis];
            }
        }
    }
    const uf_status status = give(store, slot, values);
    free(values);
    return status;
}

uf_status uf_init_icnr(uf_store *store, const char *name, int64_t upscale_factor,
                       const uf_kaiming_options *options) {
    static const char function[] = "uf_init_icnr";
    char text[128];
    uf_store_slot *slot = NULL;
    UF_CHECK_ARG(upscale_factor >= 1 && upscale_factor <= INT32_MAX,
                 "%s: upscale_factor is %" PRId64 "; it must be 1 or more", function,
                 upscale_factor);
    UF_TRY(uf_init_find(function, store, name, &slot));
    UF_TRY(uf_init_check_real(function, slot));
    UF_TRY(uf_init_check_rank(function, slot, 2, "a fan"));
    const int64_t copies = upscale_factor * upscale_factor;
    uf_shape smaller = slot->shape;
    if (smaller.extent[0] % copies != 0) {
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: %s is %s; extent 0 must be a multiple of upscale_factor squared, %" PRId64,
                function, name, uf_shape_format(&slot->shape, text, sizeof text), copies);
    }
    smaller.extent[0] /= copies;
    double std;
    UF_TRY(uf_init_kaiming_std(function, &smaller, options, &std));
    double *values;
    UF_TRY(host_values(function, slot, &values));
    const int64_t count = uf_shape_count(&smaller);
    const int64_t row = count / (smaller.extent[0] > 0 ? smaller.extent[0] : 1);
    draw_normals(uf_init_stream(store, slot->name), count, values);
    for (int64_t i = 0; i < count; ++i) {
        values[i] *= std;
    }
    /* From the end: what is read lies at or before what is written. */
    for (int64_t c = slot->shape.extent[0] - 1; c >= 0; --c) {
        memmove(values + c * row, values + c / copies * row, (size_t)row * sizeof *values);
    }
    const uf_status status = give(store, slot, values);
    free(values);
    return status;
}
