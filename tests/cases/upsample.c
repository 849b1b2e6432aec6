/* upsample.c - cases of upsampling: larger, smaller and equal images, by size and by scale. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

enum { NEAREST, BILINEAR, ALIGNED };

/* By size where it is not 0. */
static const struct {
    int kind;
    int64_t input[4], size[2];
    double scale[2];
} table[] = {
    {NEAREST, {1, 1, 1, 1}, {0, 0}, {2, 2}},          {NEAREST, {2, 3, 4, 5}, {0, 0}, {2, 2}},
    {NEAREST, {1, 2, 3, 7}, {0, 0}, {1, 3}},          {NEAREST, {1, 3, 5, 4}, {0, 0}, {1.5, 2.75}},
    {NEAREST, {1, 2, 49, 3}, {0, 0}, {49, 1}},        {NEAREST, {2, 2, 7, 9}, {12, 5}, {0, 0}},
    {NEAREST, {1, 1, 10, 6}, {7, 600}, {0, 0}},       {NEAREST, {2, 5, 6, 8}, {0, 0}, {0.5, 0.3}},
    {BILINEAR, {1, 1, 1, 1}, {3, 2}, {0, 0}},         {BILINEAR, {2, 3, 4, 5}, {0, 0}, {2, 2}},
    {BILINEAR, {1, 2, 3, 7}, {2, 3}, {0, 0}},         {BILINEAR, {1, 2, 6, 4}, {9, 10}, {0, 0}},
    {BILINEAR, {1, 3, 5, 4}, {0, 0}, {1.5, 0.75}},    {BILINEAR, {1, 1, 2, 40}, {5, 700}, {0, 0}},
    {BILINEAR, {3, 4, 8, 8}, {0, 0}, {4, 4}},         {BILINEAR, {1, 2, 9, 33}, {4, 3}, {0, 0}},
    {ALIGNED, {1, 1, 1, 1}, {3, 2}, {0, 0}},          {ALIGNED, {2, 3, 4, 5}, {0, 0}, {2, 2}},
    {ALIGNED, {1, 6, 2, 8}, {10, 11}, {0, 0}},        {ALIGNED, {1, 2, 5, 7}, {1, 4}, {0, 0}},
    {ALIGNED, {1, 2, 600, 3}, {1200, 9}, {0, 0}},     {ALIGNED, {1, 2, 6, 4}, {0, 0}, {1, 0.5}},
    {BILINEAR, {1, 1, 130, 130}, {260, 260}, {0, 0}},
};

/* The place of element o, from the definition; with more bits than the library, since a place far
 * from 0 has few left behind its point. */
static long double place_of(int64_t row, int axis, int64_t in, int64_t out, int64_t o) {
    const bool has_size = table[row].size[0] != 0;
    const long double scale =
        has_size ? (long double)out / (long double)in : (long double)table[row].scale[axis];
    const long double last = (long double)(in - 1);
    if (table[row].kind == ALIGNED) {
        return out == 1 ? 0.0L : (long double)(o * (in - 1)) / (long double)(out - 1);
    }
    if (table[row].kind == BILINEAR) {
        return fminl(fmaxl(((long double)o + 0.5L) / scale - 0.5L, 0.0L), last);
    }
    return fminl(has_size ? (long double)(o * in / out) : floorl((long double)o / scale), last);
}

static void compute(int64_t row, layer_case *one) {
    const int64_t *in = one->input.extent, *out = one->output.extent;
    for (int64_t i = 0; i < one->output.count; ++i) {
        const int64_t o[2] = {i / out[3] % out[2], i % out[3]};
        const double *image = one->input.values + i / (out[2] * out[3]) * in[2] * in[3];
        double sum = 0.0;
        long double place[2];
        for (int axis = 0; axis < 2; ++axis) {
            place[axis] = place_of(row, axis, in[2 + axis], out[2 + axis], o[axis]);
        }
        for (int64_t h = 0; h < in[2]; ++h) {
            for (int64_t w = 0; w < in[3]; ++w) {
                const double down = (double)fabsl(place[0] - (long double)h);
                const double right = (double)fabsl(place[1] - (long double)w);
                if (down < 1.0 && right < 1.0) {
                    sum += (1.0 - down) * (1.0 - right) * image[h * in[3] + w];
                }
            }
        }
        one->output.values[i] = sum;
    }
}

static int64_t output_extent(int64_t row, int axis) {
    return table[row].size[0] != 0
               ? table[row].size[axis]
               : (int64_t)floor((double)table[row].input[2 + axis] * table[row].scale[axis]);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    static const char *const names[] = {"nearest", "bilinear", "bilinear, corners aligned"};
    const int64_t *in = table[row].input;
    one->input = case_tensor_of("", 4, in);
    one->output = case_tensor_nchw(in[0], in[1], output_extent(row, 0), output_extent(row, 1));
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    compute(row, one);
    one->row = row;
    one->reduction = table[row].kind == NEAREST ? 0 : 4; /* the nearest is a copy */
    (void)snprintf(one->label, sizeof one->label,
                   "upsample %s (%lld, %lld, %lld, %lld) to %lld, %lld", names[table[row].kind],
                   (long long)in[0], (long long)in[1], (long long)in[2], (long long)in[3],
                   (long long)one->output.extent[2], (long long)one->output.extent[3]);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_upsample_options options = uf_upsample_options_default();
    (void)scope;
    for (int axis = 0; axis < 2; ++axis) {
        options.size[axis] = table[one->row].size[axis];
        options.scale[axis] = table[one->row].scale[axis];
    }
    options.align_corners = table[one->row].kind == ALIGNED;
    return table[one->row].kind == NEAREST ? uf_upsample_nearest(graph, input, &options)
                                           : uf_upsample_bilinear(graph, input, &options);
}

const layer_family upsample_family = {
    .name = "upsample",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
