/* fold.c - see fold.h. */
#include "io/fold.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/error.h"

const uf_fold_form uf_fold_forms[UF_FOLD_FORMS] = {
    {{"weight_v", "weight_g", NULL}},
    {{"weight_orig", "weight_u", "weight_v"}},
    {{"parametrizations.weight.original1", "parametrizations.weight.original0", NULL}},
    {{"parametrizations.weight.original", "parametrizations.weight.0._u",
      "parametrizations.weight.0._v"}},
};

/* Where an element of v finds its norm: g has v's extent in some axes and 1 in the others, or is
 * one number. */
static int64_t norm_of(const uf_shape *v, const uf_shape *g, int64_t i) {
    int64_t place = 0;
    int64_t step = 1;
    for (int32_t axis = v->rank - 1; axis >= 0 && g->rank == v->rank; --axis) {
        place += g->extent[axis] > 1 ? i % v->extent[axis] * step : 0;
        step *= g->extent[axis];
        i /= v->extent[axis];
    }
    return place;
}

static uf_status allocate(int64_t count, const char *name, double **values) {
    *values = calloc((size_t)count + 1, sizeof **values);
    if (*values == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %" PRId64 " norms of %s", count,
                name);
    }
    return UF_OK;
}

static uf_status fold_weight_norm(const uf_fold *fold, const char *name, double *weight) {
    const uf_shape *v = fold->shapes[0], *g = fold->shapes[1];
    const int64_t count = uf_shape_count(v), norms = uf_shape_count(g);
    char text[128], other[128];
    bool fits = g->rank == v->rank || norms == 1;
    for (int32_t axis = 0; axis < v->rank && g->rank == v->rank; ++axis) {
        fits = fits && (g->extent[axis] == v->extent[axis] || g->extent[axis] == 1);
    }
    if (!fits) {
        UF_FAIL(UF_ERROR_FORMAT, "%s: weight norm has v of shape %s and g of shape %s", name,
                uf_shape_format(v, text, sizeof text), uf_shape_format(g, other, sizeof other));
    }
    double *squares;
    UF_TRY(allocate(norms, name, &squares));
    for (int64_t i = 0; i < count; ++i) {
        squares[norm_of(v, g, i)] += fold->values[0][i] * fold->values[0][i];
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = norm_of(v, g, i);
        weight[i] = fold->values[0][i] * (fold->values[1][at] / sqrt(squares[at]));
    }
    free(squares);
    return UF_OK;
}

/* sigma = u . W v for the matrix W whose rows are axis `axis`, and how far W v is from sigma u,
 * relative to W v. `sums` has room for the rows. */
static double sigma_of(const uf_fold *fold, int32_t axis, double *sums, double *off) {
    const uf_shape *shape = fold->shapes[0];
    const double *u = fold->values[1], *v = fold->values[2];
    const int64_t rows = shape->extent[axis];
    int64_t inner = 1;
    double sigma = 0.0, square = 0.0, distance = 0.0;
    for (int32_t i = axis + 1; i < shape->rank; ++i) {
        inner *= shape->extent[i];
    }
    for (int64_t r = 0; r < rows; ++r) {
        sums[r] = 0.0;
    }
    for (int64_t i = 0; i < uf_shape_count(shape); ++i) {
        sums[i / inner % rows] += fold->values[0][i] * v[i / inner / rows * inner + i % inner];
    }
    for (int64_t r = 0; r < rows; ++r) {
        sigma += u[r] * sums[r];
        square += sums[r] * sums[r];
    }
    for (int64_t r = 0; r < rows; ++r) {
        distance += (sums[r] - sigma * u[r]) * (sums[r] - sigma * u[r]);
    }
    *off = square > 0.0 ? sqrt(distance / square) : 1.0;
    return sigma;
}

/* PyTorch's rows are axis 0, or 1 in transposed convolutions. */
static uf_status fold_spectral_norm(const uf_fold *fold, const char *name, double *weight) {
    const uf_shape *shape = fold->shapes[0];
    const int64_t count = uf_shape_count(shape);
    const int64_t rows = uf_shape_count(fold->shapes[1]);
    const int64_t columns = uf_shape_count(fold->shapes[2]);
    char text[128];
    double sigma = 0.0, best = 0.0, second = 0.0;
    int found = 0;
    double *sums;
    UF_TRY(allocate(rows, name, &sums));
    for (int32_t axis = 0; axis < 2 && axis < shape->rank; ++axis) {
        if (shape->extent[axis] != rows || count != rows * columns) {
            continue;
        }
        double off;
        const double one = sigma_of(fold, axis, sums, &off);
        if (found == 0 || off < best) {
            second = best;
            best = off;
            sigma = one;
        } else {
            second = off;
        }
        ++found;
    }
    free(sums);
    if (found == 0) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s: spectral norm has a weight of shape %s, u of %" PRId64 " and v of %" PRId64
                " elements",
                name, uf_shape_format(shape, text, sizeof text), rows, columns);
    }
    if (found == 2 && !(best <= 0.5 * second)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s: spectral norm of a weight of shape %s may be along axis 0 or 1, and u and v "
                "do not tell: remove it before the export",
                name, uf_shape_format(shape, text, sizeof text));
    }
    for (int64_t i = 0; i < count; ++i) {
        weight[i] = fold->values[0][i] / sigma;
    }
    return UF_OK;
}

uf_status uf_fold_weight(const uf_fold *fold, const char *name, double *weight) {
    return fold->form->parts[2] == NULL ? fold_weight_norm(fold, name, weight)
                                        : fold_spectral_norm(fold, name, weight);
}
