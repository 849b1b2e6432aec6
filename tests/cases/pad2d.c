/* pad2d.c - cases of padding; results are exact. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

/* {n, c, h, w, left, right, top, bottom} */
static const int64_t table[][8] = {
    {1, 1, 1, 1, 0, 0, 0, 0}, {1, 1, 2, 2, 1, 1, 1, 1}, {2, 3, 5, 7, 4, 0, 0, 3},
    {1, 3, 8, 9, 7, 7, 7, 7}, {3, 2, 4, 6, 0, 5, 3, 0}, {1, 5, 3, 33, 32, 1, 2, 2},
    {1, 2, 1, 6, 3, 2, 0, 0},
};
/* Only for zeros and replication: more than the image holds. */
static const int64_t wide[][8] = {{1, 2, 1, 1, 3, 4, 5, 6}, {2, 1, 2, 3, 7, 7, 7, 7}};

enum {
    TABLE = (int)(sizeof(table) / sizeof(table[0])),
    WIDE = (int)(sizeof(wide) / sizeof(wide[0]))
};

static void make(int64_t row, test_random *random, layer_case *one) {
    static const char *const names[] = {"zero", "replicate", "reflect"};
    const ref_pad_mode mode =
        row < 3 * TABLE ? (ref_pad_mode)(row % 3) : (ref_pad_mode)((row - 3 * TABLE) % 2);
    const int64_t *r = row < 3 * TABLE ? table[row / 3] : wide[(row - 3 * TABLE) / 2];
    one->pad = (ref_pad){mode, r[0] * r[1], r[2], r[3], r[4], r[5], r[6], r[7]};
    one->reduction = 0; /* no arithmetic: the tolerance is 0 */
    one->input = case_tensor_nchw(r[0], r[1], r[2], r[3]);
    one->output = case_tensor_nchw(r[0], r[1], r[2] + r[6] + r[7], r[3] + r[4] + r[5]);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    ref_pad_forward(&one->pad, one->input.values, one->output.values);
    (void)snprintf(one->label, sizeof one->label,
                   "pad2d %s (%lld, %lld, %lld, %lld) by %lld, %lld, %lld, %lld", names[mode],
                   (long long)r[0], (long long)r[1], (long long)r[2], (long long)r[3],
                   (long long)r[4], (long long)r[5], (long long)r[6], (long long)r[7]);
}

static uf_pad_mode pad_mode(const layer_case *one) {
    switch (one->pad.mode) {
    case REF_PAD_ZERO:
        return UF_PAD_ZERO;
    case REF_PAD_REPLICATE:
        return UF_PAD_REPLICATE;
    case REF_PAD_REFLECT:
        break;
    }
    return UF_PAD_REFLECT;
}

static uf_status run(uf_context *context, const ops_call *call) {
    uf_pad2d_args args = uf_pad2d_args_default();
    args.pad_mode = pad_mode(call->one);
    args.left = call->one->pad.left;
    args.right = call->one->pad.right;
    args.top = call->one->pad.top;
    args.bottom = call->one->pad.bottom;
    args.input = call->input;
    args.output = call->output;
    return uf_pad2d_forward(context, &args);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return uf_pad2d(graph, input, pad_mode(one), one->pad.left, one->pad.right, one->pad.top,
                    one->pad.bottom);
}

const layer_family pad2d_family = {
    .name = "pad2d",
    .table_count = 3 * TABLE + 2 * WIDE,
    .table = make,
    .ops = run,
    .graph = build,
};
