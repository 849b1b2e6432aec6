/* layers.c - convolutions, batch norm, elementwise layers, structure, losses, a network. */
#include "gradcheck/cases.h"

#include <string.h>

/* ---- convolutions: n, c_in, h, w, c_out, kernel, stride, padding, output_padding, dilation,
 * groups ---- */

struct conv {
    int64_t n, in, h, w, out;
    int64_t kernel[2], stride[2], padding[2], output_padding[2], dilation[2];
    int64_t groups;
    bool bias;
};

static const struct conv convs[] = {
    {2, 3, 3, 4, 2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, true},
    {2, 2, 4, 3, 3, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true},
    {2, 2, 3, 4, 2, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, false},
    {2, 4, 3, 2, 4, {3, 2}, {2, 3}, {1, 0}, {1, 2}, {1, 1}, 2, true},
    {2, 2, 2, 3, 2, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, true},
    {2, 2, 2, 2, 2, {2, 3}, {5, 4}, {0, 1}, {2, 3}, {1, 2}, 1, true},
    {2, 3, 4, 5, 3, {3, 3}, {2, 1}, {2, 3}, {1, 0}, {2, 3}, 3, true},
    {3, 4, 1, 1, 3, {4, 4}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, false},
    {2, 2, 5, 3, 4, {3, 5}, {2, 3}, {1, 2}, {0, 0}, {2, 1}, 2, true},
    {2, 12, 3, 3, 10, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true},
};

static void build_conv_transpose2d(uf_graph *graph, uf_store *store, const void *data) {
    const struct conv *c = data;
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    memcpy(options.kernel, c->kernel, sizeof options.kernel);
    memcpy(options.stride, c->stride, sizeof options.stride);
    memcpy(options.padding, c->padding, sizeof options.padding);
    memcpy(options.output_padding, c->output_padding, sizeof options.output_padding);
    memcpy(options.dilation, c->dilation, sizeof options.dilation);
    options.groups = c->groups;
    options.bias = c->bias;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(c->n, c->in, c->h, c->w));
    uf_output(graph, "output",
              uf_conv_transpose2d(graph, x, uf_at(store, "layer"), c->out, &options));
}

/* The convolution that the transposed one transposes: its input is large enough for any of the
 * kernels. */
static void build_conv2d(uf_graph *graph, uf_store *store, const void *data) {
    const struct conv *c = data;
    uf_conv2d_options options = uf_conv2d_options_default();
    memcpy(options.kernel, c->kernel, sizeof options.kernel);
    memcpy(options.stride, c->stride, sizeof options.stride);
    memcpy(options.padding, c->padding, sizeof options.padding);
    memcpy(options.dilation, c->dilation, sizeof options.dilation);
    options.groups = c->groups;
    options.bias = c->bias;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(c->n, c->in, c->h + 4, c->w + 3));
    uf_output(graph, "output", uf_conv2d(graph, x, uf_at(store, "layer"), c->out, &options));
}

static void build_conv_transpose1d(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    uf_conv_transpose1d_options options = uf_conv_transpose1d_options_with(4, 3, 1, true);
    options.output_padding = 2;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 5));
    uf_output(graph, "output", uf_conv_transpose1d(graph, x, uf_at(store, "layer"), 2, &options));
}

static void build_conv1d(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 7));
    uf_output(graph, "output",
              uf_conv1d(graph, x, uf_at(store, "layer"), 4, UF_CONV1D(3, 2, 1, true)));
}

static void build_linear(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = uf_input(graph, "input", UF_SHAPE(3, 7));
    uf_output(graph, "output", uf_linear(graph, x, uf_at(store, "layer"), 5, *(const bool *)data));
}

static void build_linear_of(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = uf_input(graph, "input", *(const uf_shape *)data);
    const uf_value y = uf_linear(graph, x, uf_at(store, "a"), 4, true);
    /* The same weights again add to their gradients. */
    uf_output(graph, "output", uf_tanh(graph, uf_linear(graph, y, uf_at(store, "b"), 4, true)));
    uf_output(graph, "again", uf_linear(graph, uf_sigmoid(graph, y), uf_at(store, "b"), 4, true));
}

/* ---- batch norm ---- */

static void build_batch_norm(uf_graph *graph, uf_store *store, const void *data) {
    const uf_shape *shape = data;
    const uf_value x = uf_input(graph, "input", *shape);
    uf_output(graph, "output", uf_batch_norm2d(graph, x, uf_at(store, "layer"), NULL));
}

static void build_plain_batch_norm(uf_graph *graph, uf_store *store, const void *data) {
    const uf_shape *shape = data;
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    options.affine = false;
    const uf_value x = uf_input(graph, "input", *shape);
    uf_output(graph, "output", uf_batch_norm2d(graph, x, uf_at(store, "layer"), &options));
}

/* ---- elementwise and structure ---- */

static uf_value image(uf_graph *graph, const char *name) {
    return uf_input(graph, name, UF_SHAPE(2, 3, 4, 5));
}

static void build_relu(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    uf_output(graph, "output", uf_relu(graph, image(graph, "input")));
}

static void build_leaky_relu(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    uf_output(graph, "output", uf_leaky_relu(graph, image(graph, "input"), *(const double *)data));
}

static void build_tanh(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    uf_output(graph, "output", uf_tanh(graph, image(graph, "input")));
}

static void build_sigmoid(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    uf_output(graph, "output", uf_sigmoid(graph, image(graph, "input")));
}

static void build_pad(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    uf_output(graph, "output",
              uf_pad2d(graph, image(graph, "input"), *(const uf_pad_mode *)data, 1, 3, 2, 0));
}

static void build_add(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value a = image(graph, "a"), b = image(graph, "b");
    uf_output(graph, "output", uf_add(graph, uf_add(graph, a, b), uf_tanh(graph, a)));
    uf_output(graph, "twice", uf_add(graph, b, b));
}

static void build_concat(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value a = image(graph, "a");
    const uf_value parts[] = {a, uf_input(graph, "b", UF_SHAPE(2, 1, 4, 5)), uf_tanh(graph, a)};
    uf_output(graph, "output", uf_concat(graph, parts, 3));
}

static void build_reshape(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    const uf_value flat = uf_reshape(graph, image(graph, "input"), UF_SHAPE(-1, 60));
    uf_output(graph, "output", uf_linear(graph, flat, uf_at(store, "layer"), 3, true));
    uf_output(graph, "flat", flat);
}

/* Half of the input goes through; the gradient of the other half must stay away. */
static void build_detach(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value a = image(graph, "a"), b = image(graph, "b");
    const uf_value held = uf_detach(graph, uf_tanh(graph, b));
    uf_output(graph, "output", uf_add(graph, uf_sigmoid(graph, a), held));
}

static void build_full_like(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value a = image(graph, "input");
    uf_output(graph, "output", uf_add(graph, uf_tanh(graph, a), uf_full_like(graph, a, 0.75)));
}

/* ---- losses: the target is made of the network so that it lies where each loss is defined ---- */

typedef uf_value (*loss)(uf_graph *graph, uf_value input, uf_value target);

struct loss_data {
    loss apply;
    bool probability; /* the input must lie in (0, 1) */
};

static const struct loss_data losses[] = {
    {uf_bce_with_logits_loss, false},
    {uf_bce_loss, true},
    {uf_mse_loss, false},
    {uf_l1_loss, false},
};

static void build_loss(uf_graph *graph, uf_store *store, const void *data) {
    const struct loss_data *l = data;
    (void)store;
    const uf_value x = image(graph, "input");
    const uf_value target = uf_full_like(graph, x, 0.3);
    const uf_value input = l->probability ? uf_sigmoid(graph, x) : uf_tanh(graph, x);
    uf_output(graph, "loss", l->apply(graph, input, target));
}

/* ---- a whole network: fan-out, tied weights, a skip, both modes of batch norm ---- */

static void build_network(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    uf_conv2d_options down = uf_conv2d_options_default();
    down.stride[0] = down.stride[1] = 2;
    down.padding[0] = down.padding[1] = 1;
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    up.kernel[0] = up.kernel[1] = 4;
    up.stride[0] = up.stride[1] = 2;
    up.padding[0] = up.padding[1] = 1;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 2, 6, 4));
    uf_value y = uf_conv2d(graph, x, uf_at(store, "down"), 3, &down);
    y = uf_tanh(graph, uf_batch_norm2d(graph, y, uf_at(store, "norm"), NULL));
    y = uf_conv_transpose2d(graph, y, uf_at(store, "up"), 2, &up);
    const uf_value parts[] = {x, y};
    const uf_value z = uf_concat(graph, parts, 2);
    uf_conv2d_options mix = uf_conv2d_options_default();
    mix.padding[0] = mix.padding[1] = 1;
    const uf_value once = uf_sigmoid(graph, uf_conv2d(graph, z, uf_at(store, "mix"), 4, &mix));
    const uf_value twice = uf_conv2d(graph, once, uf_at(store, "mix"), 4, &mix);
    uf_output(graph, "loss", uf_mse_loss(graph, twice, uf_full_like(graph, twice, 0.5)));
    uf_output(graph, "middle", y);
}

/* ---- the table ---- */

static const uf_shape norm_shapes[] = {{4, {4, 3, 5, 3}}, {4, {2, 5, 1, 1}}, {4, {1, 2, 3, 7}}};
static const uf_shape linear_shapes[] = {
    {1, {6}}, {3, {2, 3, 5}}, {4, {2, 1, 3, 4}}, {5, {2, 1, 2, 2, 3}}};
static const bool yes = true, no = false;
static const double slope = 0.2, negative_slope = -0.5;
static const uf_pad_mode pad_modes[] = {UF_PAD_ZERO, UF_PAD_REPLICATE, UF_PAD_REFLECT};

#define CONV(i, text)                                                                              \
    {"conv_transpose2d", text, true, UF_TRAIN, build_conv_transpose2d, &convs[i]}, {               \
        "conv2d", text, true, UF_TRAIN, build_conv2d, &convs[i]                                    \
    }

const gradcheck_case gradcheck_layers[] = {
    CONV(0, "1x1"),
    CONV(1, "k3 p1"),
    CONV(2, "k4 s2 p1, no bias"),
    CONV(3, "k3x2 s2x3, output_padding, groups 2"),
    CONV(4, "k2 s2: stride at the kernel"),
    CONV(5, "k2x3 s5x4: stride above the kernel, dilation 1x2"),
    CONV(6, "depthwise, dilation 2x3, padding above the kernel"),
    CONV(7, "1x1 image, k4"),
    CONV(8, "k3x5 s2x3 p1x2, dilation 2x1, groups 2"),
    CONV(9, "12 to 10 channels"),
    {"conv_transpose2d", "1-D: k4 s3 p1, output_padding 2", true, UF_TRAIN, build_conv_transpose1d,
     NULL},
    {"conv2d", "1-D: k3 s2 p1", true, UF_TRAIN, build_conv1d, NULL},
    {"linear", "7 to 5", true, UF_TRAIN, build_linear, &yes},
    {"linear", "7 to 5, no bias", true, UF_TRAIN, build_linear, &no},
    {"linear", "rank 1", true, UF_TRAIN, build_linear_of, &linear_shapes[0]},
    {"linear", "rank 3", true, UF_TRAIN, build_linear_of, &linear_shapes[1]},
    {"linear", "rank 4", true, UF_TRAIN, build_linear_of, &linear_shapes[2]},
    {"linear", "rank 5", true, UF_TRAIN, build_linear_of, &linear_shapes[3]},
    {"batch_norm2d", "training (4, 3, 5, 3)", true, UF_TRAIN, build_batch_norm, &norm_shapes[0]},
    {"batch_norm2d", "training (2, 5, 1, 1)", true, UF_TRAIN, build_batch_norm, &norm_shapes[1]},
    {"batch_norm2d", "training (1, 2, 3, 7), not affine", true, UF_TRAIN, build_plain_batch_norm,
     &norm_shapes[2]},
    {"batch_norm2d", "evaluation (4, 3, 5, 3)", true, UF_EVAL, build_batch_norm, &norm_shapes[0]},
    {"activation", "relu", false, UF_TRAIN, build_relu, NULL},
    {"activation", "leaky_relu 0.2", false, UF_TRAIN, build_leaky_relu, &slope},
    {"activation", "leaky_relu -0.5", false, UF_TRAIN, build_leaky_relu, &negative_slope},
    {"activation", "tanh", true, UF_TRAIN, build_tanh, NULL},
    {"activation", "sigmoid", true, UF_TRAIN, build_sigmoid, NULL},
    {"pad2d", "zero", true, UF_TRAIN, build_pad, &pad_modes[0]},
    {"pad2d", "replicate", true, UF_TRAIN, build_pad, &pad_modes[1]},
    {"pad2d", "reflect", true, UF_TRAIN, build_pad, &pad_modes[2]},
    {"add", "with fan-out", true, UF_TRAIN, build_add, NULL},
    {"concat", "3 parts, one twice", true, UF_TRAIN, build_concat, NULL},
    {"reshape", "to rows, with fan-out", true, UF_TRAIN, build_reshape, NULL},
    {"detach", "half of a sum", true, UF_TRAIN, build_detach, NULL},
    {"full_like", "as a summand", true, UF_TRAIN, build_full_like, NULL},
    {"loss", "bce_with_logits", true, UF_TRAIN, build_loss, &losses[0]},
    {"loss", "bce", true, UF_TRAIN, build_loss, &losses[1]},
    {"loss", "mse", true, UF_TRAIN, build_loss, &losses[2]},
    {"loss", "l1", false, UF_TRAIN, build_loss, &losses[3]},
    {"network", "skip, fan-out, a layer applied twice", true, UF_TRAIN, build_network, NULL},
    {"network", "the same in evaluation", true, UF_EVAL, build_network, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
