/* adjoint.c - cases of the gradients of linear layers as values: of half the square of what the
 * layer makes, which is the layer's adjoint of its own output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases/layer_case.h"
#include "support/test.h"

/* Padding: {n, c, h, w, left, right, top, bottom}, in each mode. */
static const int64_t pads[][8] = {
    {2, 3, 5, 7, 4, 0, 0, 3}, {1, 3, 8, 9, 7, 7, 7, 7}, {1, 5, 3, 33, 32, 1, 2, 2}};

/* Sums: an extent that is summed over, between two that are not. */
static const int64_t sums[][3] = {{1, 1, 1}, {2, 12, 7}, {1, 5, 600}, {300, 70, 1}};

enum {
    PADS = 3 * (int)(sizeof(pads) / sizeof(pads[0])),
    SUMS = (int)(sizeof(sums) / sizeof(sums[0]))
};

static void make_pad(int64_t row, test_random *random, layer_case *one) {
    static const char *const names[] = {"zero", "replicate", "reflect"};
    const int64_t *r = pads[row / 3];
    one->pad = (ref_pad){(ref_pad_mode)(row % 3), r[0] * r[1], r[2], r[3], r[4], r[5], r[6], r[7]};
    one->input = case_tensor_nchw(r[0], r[1], r[2], r[3]);
    one->output = case_tensor_nchw(r[0], r[1], r[2], r[3]);
    case_tensor padded = case_tensor_nchw(r[0], r[1], r[2] + r[6] + r[7], r[3] + r[4] + r[5]);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    ref_pad_forward(&one->pad, one->input.values, padded.values);
    ref_pad_backward(&one->pad, padded.values, one->output.values);
    free(padded.values);
    one->reduction = 16;
    one->size = 0.0; /* each case is held to its own largest value */
    (void)snprintf(one->label, sizeof one->label, "adjoint of pad2d %s, row %d", names[row % 3],
                   (int)row);
}

static void make_sum(int64_t row, test_random *random, layer_case *one) {
    const int64_t *r = sums[row];
    one->input = case_tensor_of("", 3, r);
    one->output = case_tensor_of("", 3, r);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        const int64_t first = i / (r[1] * r[2]) * r[1] * r[2] + i % r[2];
        one->output.values[i] = 0.0;
        for (int64_t k = 0; k < r[1]; ++k) {
            one->output.values[i] += one->input.values[first + k * r[2]];
        }
    }
    one->reduction = r[1];
    one->size = sqrt((double)r[1]);
    (void)snprintf(one->label, sizeof one->label, "adjoint of sum, row %d", (int)row);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    one->row = row;
    if (row < PADS) {
        make_pad(row, random, one);
    } else {
        make_sum(row - PADS, random, one);
    }
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    static const uf_pad_mode modes[] = {UF_PAD_ZERO, UF_PAD_REPLICATE, UF_PAD_REFLECT};
    static const int32_t axis = 1;
    const ref_pad *pad = &one->pad;
    (void)scope;
    const uf_value y = one->row < PADS ? uf_pad2d(graph, input, modes[pad->mode], pad->left,
                                                  pad->right, pad->top, pad->bottom)
                                       : uf_sum(graph, input, &axis, 1, false);
    return uf_gradient(graph, uf_scale(graph, uf_square(graph, y), 0.5), input);
}

const layer_family adjoint_family = {
    .name = "adjoint",
    .table_count = PADS + SUMS,
    .table = make,
    .graph = build,
};
