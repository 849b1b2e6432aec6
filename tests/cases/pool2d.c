/* pool2d.c - cases of pooling: windows that overlap, leave gaps, lie half in the padding, are
 * dilated, and end behind the image; and equal elements. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases/layer_case.h"
#include "support/test.h"

enum { MAX, AVERAGE, AVERAGE_INSIDE };

static const struct {
    int kind;
    int64_t input[4], kernel[2], stride[2], padding[2], dilation[2], output[2];
    bool ceil_mode;
} table[] = {
    {MAX, {1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, 1}, false},
    {MAX, {2, 3, 6, 8}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {3, 4}, false},
    {MAX, {2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {4, 5}, false},
    {MAX, {1, 2, 7, 9}, {2, 3}, {1, 2}, {1, 0}, {1, 1}, {8, 4}, false},
    {MAX, {1, 2, 9, 11}, {3, 2}, {2, 3}, {2, 1}, {2, 3}, {5, 4}, false},
    {MAX, {1, 2, 7, 10}, {3, 4}, {2, 3}, {1, 0}, {1, 1}, {4, 3}, true},
    {MAX, {1, 1, 5, 5}, {2, 2}, {4, 3}, {0, 0}, {1, 1}, {1, 2}, false},
    {MAX, {1, 1, 5, 5}, {2, 2}, {4, 3}, {0, 0}, {1, 1}, {2, 2}, true},
    {MAX, {1, 2, 13, 14}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {13, 14}, false},
    {MAX, {1, 1, 40, 700}, {3, 2}, {2, 1}, {1, 1}, {1, 1}, {20, 701}, false},
    {AVERAGE, {1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, 1}, false},
    {AVERAGE, {2, 3, 6, 8}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {3, 4}, false},
    {AVERAGE, {2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {4, 5}, false},
    {AVERAGE, {1, 2, 7, 10}, {3, 4}, {2, 3}, {1, 1}, {1, 1}, {4, 4}, true},
    {AVERAGE, {1, 2, 16, 700}, {3, 2}, {2, 1}, {1, 1}, {1, 1}, {8, 701}, false},
    {AVERAGE_INSIDE, {2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {4, 5}, false},
    {AVERAGE_INSIDE, {1, 2, 7, 10}, {3, 4}, {2, 3}, {1, 1}, {1, 1}, {4, 4}, true},
    {AVERAGE_INSIDE, {1, 4, 9, 5}, {4, 2}, {3, 1}, {2, 1}, {1, 1}, {4, 6}, false},
};

static int64_t stride_of(int64_t row, int axis) {
    return table[row].stride[axis] != 0 ? table[row].stride[axis] : table[row].kernel[axis];
}

/* One output, from the definition: every tap, inside the image or not. */
static double pooled(int64_t row, const double *image, int64_t o, int64_t p) {
    const int64_t *in = table[row].input;
    double most = (double)-INFINITY, sum = 0.0;
    int64_t inside = 0, padded = 0;
    for (int64_t r = 0; r < table[row].kernel[0]; ++r) {
        for (int64_t s = 0; s < table[row].kernel[1]; ++s) {
            const int64_t h =
                o * stride_of(row, 0) - table[row].padding[0] + r * table[row].dilation[0];
            const int64_t w =
                p * stride_of(row, 1) - table[row].padding[1] + s * table[row].dilation[1];
            padded += h < in[2] + table[row].padding[0] && w < in[3] + table[row].padding[1];
            if (h >= 0 && h < in[2] && w >= 0 && w < in[3]) {
                ++inside;
                sum += image[h * in[3] + w];
                most = fmax(most, image[h * in[3] + w]);
            }
        }
    }
    return table[row].kind == MAX       ? most
           : table[row].kind == AVERAGE ? sum / (double)padded
                                        : sum / (double)inside;
}

static void make(int64_t row, test_random *random, layer_case *one) {
    static const char *const names[] = {"max", "avg", "avg without the padding"};
    const int64_t *in = table[row].input, *out = table[row].output;
    one->input = case_tensor_of("", 4, in);
    one->output = case_tensor_nchw(in[0], in[1], out[0], out[1]);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count && table[row].kind == MAX; ++i) {
        one->input.values[i] = rint(4.0 * one->input.values[i]) / 4.0; /* many are equal */
    }
    for (int64_t i = 0; i < one->output.count; ++i) {
        const double *image = one->input.values + i / (out[0] * out[1]) * in[2] * in[3];
        one->output.values[i] = pooled(row, image, i / out[1] % out[0], i % out[1]);
    }
    one->row = row;
    one->reduction =
        table[row].kind == MAX ? 0 : table[row].kernel[0] * table[row].kernel[1]; /* 0: exact */
    (void)snprintf(one->label, sizeof one->label, "%s pool2d row %d", names[table[row].kind],
                   (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_max_pool2d_options most = uf_max_pool2d_options_default();
    uf_avg_pool2d_options average = uf_avg_pool2d_options_default();
    const int64_t row = one->row;
    (void)scope;
    memcpy(most.kernel, table[row].kernel, sizeof most.kernel);
    memcpy(most.stride, table[row].stride, sizeof most.stride);
    memcpy(most.padding, table[row].padding, sizeof most.padding);
    memcpy(most.dilation, table[row].dilation, sizeof most.dilation);
    memcpy(average.kernel, table[row].kernel, sizeof average.kernel);
    memcpy(average.stride, table[row].stride, sizeof average.stride);
    memcpy(average.padding, table[row].padding, sizeof average.padding);
    most.ceil_mode = average.ceil_mode = table[row].ceil_mode;
    average.count_include_pad = table[row].kind == AVERAGE;
    return table[row].kind == MAX ? uf_max_pool2d(graph, input, &most)
                                  : uf_avg_pool2d(graph, input, &average);
}

const layer_family pool2d_family = {
    .name = "pool2d",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
