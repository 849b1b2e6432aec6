/* layer_rows.c - the single layers that bench_layers times. x is (N, C, H, W) where a builder says
 * nothing else, and results are as large as x or smaller: 268 MB are the largest value of a row. */
#include "layer_rows.h"

bench_layer_size bench_layer_size_of(uf_dtype dtype, bool quick) {
    const int64_t wider = dtype == UF_BF16 ? 2 : 1;
    if (quick) {
        return (bench_layer_size){2 * wider, 8, 12, 16, 48, 32};
    }
    return (bench_layer_size){16 * wider, 64, 256, 256, 4096, 1024};
}

/* ---- inputs ---- */

static bench_layer_input *remember(bench_layer_graph *g, const char *name, uf_value value) {
    bench_layer_input *const input = &g->inputs[g->input_count++];
    *input = (bench_layer_input){.name = name, .value = value};
    return input;
}

static uf_value real_input(const bench_layer_row *row, bench_layer_graph *g, const char *name,
                           uf_shape shape, bool wanted) {
    const bool positive = (row->facts & BENCH_LAYER_POSITIVE) != 0;
    bench_layer_input *const input = remember(g, name, uf_input(g->graph, name, shape));
    input->low = positive ? 0.1 : -4.0;
    input->high = positive ? 0.9 : 4.0;
    input->wanted = wanted;
    return input->value;
}

static uf_value index_input(bench_layer_graph *g, uf_shape shape, int64_t count) {
    bench_layer_input *const input =
        remember(g, "indices", uf_input_i64(g->graph, "indices", shape));
    input->high = (double)count;
    input->indices = true;
    return input->value;
}

static uf_shape image_shape(const bench_layer_graph *g) {
    return UF_SHAPE(g->size.batch, g->size.channels, g->size.height, g->size.width);
}

static uf_shape rows_shape(const bench_layer_graph *g) {
    return UF_SHAPE(g->size.batch, g->size.tokens, g->size.features);
}

static uf_value image(const bench_layer_row *row, bench_layer_graph *g) {
    return real_input(row, g, "x", image_shape(g), true);
}

static uf_value rows_of_features(const bench_layer_row *row, bench_layer_graph *g) {
    return real_input(row, g, "x", rows_shape(g), true);
}

/* ---- norms ---- */

static uf_value build_batch_norm(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_batch_norm2d(g->graph, image(row, g), uf_at(g->store, "norm"), NULL);
}

static uf_value build_instance_norm(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_instance_norm2d(g->graph, image(row, g), uf_at(g->store, "norm"), NULL);
}

static uf_value build_instance_norm_affine(const bench_layer_row *row, bench_layer_graph *g) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.affine = true;
    return uf_instance_norm2d(g->graph, image(row, g), uf_at(g->store, "norm"), &options);
}

static uf_value build_group_norm(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_group_norm(g->graph, image(row, g), uf_at(g->store, "norm"), g->size.channels / 2,
                         NULL);
}

static uf_value build_layer_norm(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_layer_norm(g->graph, rows_of_features(row, g), uf_at(g->store, "norm"), 1, NULL);
}

static uf_value build_layer_norm2d(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_layer_norm2d(g->graph, image(row, g), uf_at(g->store, "norm"), NULL);
}

/* ---- elementwise ---- */

static uf_value build_unary(const bench_layer_row *row, bench_layer_graph *g) {
    return row->unary(g->graph, image(row, g));
}

static uf_value build_numbered(const bench_layer_row *row, bench_layer_graph *g) {
    return row->numbered(g->graph, image(row, g), row->number);
}

static uf_value build_bounded(const bench_layer_row *row, bench_layer_graph *g) {
    return row->bounded(g->graph, image(row, g), row->number, row->maximum);
}

/* One weight for each channel. */
static uf_value build_prelu(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_prelu(g->graph, image(row, g), uf_at(g->store, "prelu"), g->size.channels);
}

static uf_value build_prelu_one(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_prelu(g->graph, image(row, g), uf_at(g->store, "prelu"), 1);
}

static uf_value build_binary(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value a = image(row, g);
    return row->binary(g->graph, a, real_input(row, g, "b", image_shape(g), true));
}

/* b (1, C, 1, 1): a bias. */
static uf_value build_with_channels(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value a = image(row, g);
    const uf_shape shape = UF_SHAPE(1, g->size.channels, 1, 1);
    return row->binary(g->graph, a, real_input(row, g, "b", shape, true));
}

/* b (N, C, 1, 1): squeeze-and-excitation's gate. */
static uf_value build_with_planes(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value a = image(row, g);
    const uf_shape shape = UF_SHAPE(g->size.batch, g->size.channels, 1, 1);
    return row->binary(g->graph, a, real_input(row, g, "b", shape, true));
}

/* b (features). */
static uf_value build_with_features(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value a = rows_of_features(row, g);
    return row->binary(g->graph, a, real_input(row, g, "b", UF_SHAPE(g->size.features), true));
}

/* ---- softmax, sums ---- */

static uf_value build_softmax_rows(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_softmax(g->graph, rows_of_features(row, g), -1);
}

static uf_value build_softmax_channels(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_softmax(g->graph, image(row, g), 1);
}

static uf_value build_mean(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_mean(g->graph, image(row, g), row->axes, row->axis_count, true);
}

static uf_value build_sum(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_sum(g->graph, image(row, g), row->axes, row->axis_count, true);
}

static uf_value build_sum_rows(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_sum(g->graph, rows_of_features(row, g), row->axes, row->axis_count, true);
}

/* ---- moves ---- */

static uf_value build_permute(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_permute(g->graph, image(row, g), row->axes, row->axis_count);
}

/* Attention's heads: (N, tokens, 16, features / 16) to (N, 16, tokens, features / 16). */
static uf_value build_permute_heads(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_shape shape = UF_SHAPE(g->size.batch, g->size.tokens, 16, g->size.features / 16);
    return uf_permute(g->graph, real_input(row, g, "x", shape, true), row->axes, row->axis_count);
}

static uf_value build_slice_channels(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_slice(g->graph, image(row, g), 1, g->size.channels / 2, INT64_MAX);
}

/* The middle half of each row of pixels. */
static uf_value build_slice_columns(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_slice(g->graph, image(row, g), 3, g->size.width / 4, 3 * g->size.width / 4);
}

static uf_value build_crop_like(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value x = image(row, g);
    const uf_shape like = UF_SHAPE(g->size.batch, 1, g->size.height - 8, g->size.width - 8);
    return uf_crop_like(g->graph, x, real_input(row, g, "like", like, false));
}

/* Two values with half of x's channels each. */
static uf_value build_concat(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_shape half =
        UF_SHAPE(g->size.batch, g->size.channels / 2, g->size.height, g->size.width);
    const uf_value a = real_input(row, g, "x", half, true);
    const uf_value parts[] = {a, real_input(row, g, "b", half, true)};
    return uf_concat(g->graph, parts, 2);
}

/* Two values with half of each row of features. */
static uf_value build_concat_features(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_shape half = UF_SHAPE(g->size.batch, g->size.tokens, g->size.features / 2);
    const uf_value a = real_input(row, g, "x", half, true);
    const uf_value parts[] = {a, real_input(row, g, "b", half, true)};
    return uf_concat_axis(g->graph, parts, 2, -1);
}

static uf_value build_flatten(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_flatten(g->graph, image(row, g), 1, -1);
}

static uf_value build_pixel_shuffle(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_pixel_shuffle(g->graph, image(row, g), 2);
}

static uf_value build_pixel_unshuffle(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_pixel_unshuffle(g->graph, image(row, g), 2);
}

static uf_value build_pad(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_pad2d(g->graph, image(row, g), row->pad, 1, 1, 1, 1);
}

/* ---- resampling ---- */

/* x (N, C, H/2, W/2), which is doubled. */
static uf_value half_image(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_shape half =
        UF_SHAPE(g->size.batch, g->size.channels, g->size.height / 2, g->size.width / 2);
    return real_input(row, g, "x", half, true);
}

static uf_value build_upsample_nearest(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_upsample_nearest(g->graph, half_image(row, g), NULL);
}

static uf_value build_upsample_bilinear(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_upsample_bilinear(g->graph, half_image(row, g), NULL);
}

static uf_value build_upsample_aligned(const bench_layer_row *row, bench_layer_graph *g) {
    uf_upsample_options options = uf_upsample_options_default();
    options.align_corners = true;
    return uf_upsample_bilinear(g->graph, half_image(row, g), &options);
}

static uf_value build_max_pool(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_max_pool2d(g->graph, image(row, g), NULL);
}

/* Windows of 3x3 that overlap, as ResNet's first. */
static uf_value build_max_pool_3(const bench_layer_row *row, bench_layer_graph *g) {
    uf_max_pool2d_options options = uf_max_pool2d_options_default();
    options.kernel[0] = options.kernel[1] = 3;
    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = options.padding[1] = 1;
    return uf_max_pool2d(g->graph, image(row, g), &options);
}

static uf_value build_avg_pool(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_avg_pool2d(g->graph, image(row, g), NULL);
}

/* ---- random numbers, constants, tables ---- */

static uf_value build_full_like(const bench_layer_row *row, bench_layer_graph *g) {
    return uf_full_like(g->graph, real_input(row, g, "x", image_shape(g), false), 1.0);
}

/* Noise takes two numbers, as a clamp does, and lets no gradient pass. */
static uf_value build_noise(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value x = real_input(row, g, "x", image_shape(g), false);
    return row->bounded(g->graph, x, row->number, row->maximum);
}

/* Rows of a table that the second-level cache holds. */
static uf_value build_embedding(const bench_layer_row *row, bench_layer_graph *g) {
    enum { TABLE_ROWS = 1000 };
    const uf_value indices = index_input(g, UF_SHAPE(g->size.batch, g->size.tokens), TABLE_ROWS);
    (void)row;
    return uf_embedding(g->graph, indices, uf_at(g->store, "table"), TABLE_ROWS, g->size.features);
}

/* ---- losses ---- */

static uf_value build_loss(const bench_layer_row *row, bench_layer_graph *g) {
    uf_loss_options options = uf_loss_options_default();
    options.reduction = row->reduction;
    return uf_loss(g->graph, row->loss, image(row, g), (uf_value){0}, &options);
}

/* Gradients reach the target of KL_NORMAL alone. */
static uf_value build_loss_of_two(const bench_layer_row *row, bench_layer_graph *g) {
    uf_loss_options options = uf_loss_options_default();
    options.reduction = row->reduction;
    const uf_value x = image(row, g);
    const bool wanted = row->loss == UF_LOSS_KL_NORMAL;
    const uf_value target = real_input(row, g, "target", image_shape(g), wanted);
    return uf_loss(g->graph, row->loss, x, target, &options);
}

/* A class for each pixel. */
static uf_value build_cross_entropy(const bench_layer_row *row, bench_layer_graph *g) {
    const uf_value x = image(row, g);
    const uf_shape shape = UF_SHAPE(g->size.batch, g->size.height, g->size.width);
    return uf_cross_entropy_loss(g->graph, x, index_input(g, shape, g->size.channels), NULL);
}

/* A class for each row of (N tokens, features). */
static uf_value build_cross_entropy_rows(const bench_layer_row *row, bench_layer_graph *g) {
    const int64_t rows = g->size.batch * g->size.tokens;
    const uf_value x = real_input(row, g, "x", UF_SHAPE(rows, g->size.features), true);
    return uf_cross_entropy_loss(g->graph, x, index_input(g, UF_SHAPE(rows), g->size.features),
                                 NULL);
}

#define ACTIVATION(name_)                                                                          \
    { .name = #name_, .build = build_unary, .unary = uf_##name_ }
#define NUMBERED(name_, number_)                                                                   \
    { .name = #name_, .build = build_numbered, .numbered = uf_##name_, .number = (number_) }
#define LOSS(name_, builder_, kind_)                                                               \
    { .name = #name_ "_loss", .build = (builder_), .loss = UF_LOSS_##kind_ }
#define AXES(count_, ...) .axes = {__VA_ARGS__}, .axis_count = (count_)

const bench_layer_row bench_layer_rows[] = {
    {.name = "batch_norm2d", .build = build_batch_norm, .facts = BENCH_LAYER_SUMS_FIRST},
    {.name = "batch_norm2d_eval", .build = build_batch_norm, .facts = BENCH_LAYER_EVAL},
    {.name = "instance_norm2d", .build = build_instance_norm, .facts = BENCH_LAYER_SUMS_FIRST},
    {.name = "instance_norm2d_affine",
     .build = build_instance_norm_affine,
     .facts = BENCH_LAYER_SUMS_FIRST},
    {.name = "group_norm", .build = build_group_norm, .facts = BENCH_LAYER_SUMS_FIRST},
    {.name = "layer_norm", .build = build_layer_norm},
    {.name = "layer_norm2d", .build = build_layer_norm2d},
    ACTIVATION(relu),
    NUMBERED(leaky_relu, 0.2),
    ACTIVATION(tanh),
    ACTIVATION(sigmoid),
    NUMBERED(elu, 1.0),
    ACTIVATION(selu),
    ACTIVATION(gelu),
    ACTIVATION(gelu_tanh),
    ACTIVATION(silu),
    ACTIVATION(mish),
    NUMBERED(softplus, 1.0),
    ACTIVATION(softsign),
    ACTIVATION(log_sigmoid),
    ACTIVATION(relu6),
    ACTIVATION(hardsigmoid),
    ACTIVATION(hardswish),
    {.name = "hardtanh",
     .build = build_bounded,
     .bounded = uf_hardtanh,
     .number = -1.0,
     .maximum = 1.0},
    {.name = "clamp", .build = build_bounded, .bounded = uf_clamp, .number = -1.0, .maximum = 1.0},
    ACTIVATION(abs),
    NUMBERED(scale, 0.5),
    ACTIVATION(square),
    ACTIVATION(exp),
    {.name = "log", .build = build_unary, .unary = uf_log, .facts = BENCH_LAYER_POSITIVE},
    {.name = "sqrt", .build = build_unary, .unary = uf_sqrt, .facts = BENCH_LAYER_POSITIVE},
    {.name = "prelu", .build = build_prelu},
    {.name = "prelu_one", .build = build_prelu_one},
    {.name = "softmax_rows", .build = build_softmax_rows},
    {.name = "softmax_channels", .build = build_softmax_channels},
    {.name = "add", .build = build_binary, .binary = uf_add},
    {.name = "add_channels", .build = build_with_channels, .binary = uf_add},
    {.name = "add_features", .build = build_with_features, .binary = uf_add},
    {.name = "sub", .build = build_binary, .binary = uf_sub},
    {.name = "mul", .build = build_binary, .binary = uf_mul},
    {.name = "mul_channels", .build = build_with_channels, .binary = uf_mul},
    {.name = "mul_planes", .build = build_with_planes, .binary = uf_mul},
    {.name = "div", .build = build_binary, .binary = uf_div, .facts = BENCH_LAYER_POSITIVE},
    {.name = "mean_channels", .build = build_mean, AXES(1, 1)},
    {.name = "mean_all", .build = build_mean},
    {.name = "sum_images", .build = build_sum, AXES(1, 0)},
    {.name = "sum_to_channels", .build = build_sum, AXES(3, 0, 2, 3)},
    {.name = "sum_rows", .build = build_sum_rows, AXES(1, -1)},
    {.name = "global_avg_pool2d", .build = build_unary, .unary = uf_global_avg_pool2d},
    {.name = "permute_nhwc", .build = build_permute, AXES(4, 0, 2, 3, 1)},
    {.name = "permute_transpose", .build = build_permute, AXES(4, 0, 1, 3, 2)},
    {.name = "permute_heads", .build = build_permute_heads, AXES(4, 0, 2, 1, 3)},
    {.name = "slice_channels", .build = build_slice_channels, .facts = BENCH_LAYER_READS_PART},
    {.name = "slice_columns", .build = build_slice_columns, .facts = BENCH_LAYER_READS_PART},
    {.name = "crop_like", .build = build_crop_like, .facts = BENCH_LAYER_READS_PART},
    {.name = "concat", .build = build_concat},
    {.name = "concat_axis_features", .build = build_concat_features},
    {.name = "flatten", .build = build_flatten},
    {.name = "pixel_shuffle", .build = build_pixel_shuffle},
    {.name = "pixel_unshuffle", .build = build_pixel_unshuffle},
    {.name = "pad2d_zero", .build = build_pad, .pad = UF_PAD_ZERO},
    {.name = "pad2d_replicate", .build = build_pad, .pad = UF_PAD_REPLICATE},
    {.name = "pad2d_reflect", .build = build_pad, .pad = UF_PAD_REFLECT},
    {.name = "upsample_nearest", .build = build_upsample_nearest},
    {.name = "upsample_bilinear", .build = build_upsample_bilinear},
    {.name = "upsample_bilinear_aligned", .build = build_upsample_aligned},
    {.name = "max_pool2d", .build = build_max_pool},
    {.name = "max_pool2d_overlap", .build = build_max_pool_3},
    {.name = "avg_pool2d", .build = build_avg_pool},
    NUMBERED(dropout, 0.5),
    NUMBERED(dropout2d, 0.5),
    {.name = "noise_normal_like",
     .build = build_noise,
     .bounded = uf_noise_normal_like,
     .maximum = 1.0,
     .facts = BENCH_LAYER_READS_SHAPE},
    {.name = "noise_uniform_like",
     .build = build_noise,
     .bounded = uf_noise_uniform_like,
     .maximum = 1.0,
     .facts = BENCH_LAYER_READS_SHAPE},
    {.name = "full_like", .build = build_full_like, .facts = BENCH_LAYER_READS_SHAPE},
    {.name = "embedding", .build = build_embedding, .facts = BENCH_LAYER_LOOKS_UP},
    LOSS(bce_with_logits, build_loss_of_two, BCE_WITH_LOGITS),
    {.name = "bce_loss",
     .build = build_loss_of_two,
     .loss = UF_LOSS_BCE,
     .facts = BENCH_LAYER_POSITIVE},
    LOSS(mse, build_loss_of_two, MSE),
    {.name = "mse_loss_none",
     .build = build_loss_of_two,
     .loss = UF_LOSS_MSE,
     .reduction = UF_REDUCTION_NONE},
    LOSS(l1, build_loss_of_two, L1),
    LOSS(smooth_l1, build_loss_of_two, SMOOTH_L1),
    LOSS(hinge_real, build_loss, HINGE_REAL),
    LOSS(hinge_fake, build_loss, HINGE_FAKE),
    LOSS(hinge_generator, build_loss, HINGE_GENERATOR),
    LOSS(least_squares_real, build_loss, LEAST_SQUARES_REAL),
    LOSS(least_squares_fake, build_loss, LEAST_SQUARES_FAKE),
    LOSS(kl_normal, build_loss_of_two, KL_NORMAL),
    {.name = "cross_entropy_loss", .build = build_cross_entropy},
    {.name = "cross_entropy_loss_rows", .build = build_cross_entropy_rows},
};
const int32_t bench_layer_row_count = sizeof bench_layer_rows / sizeof bench_layer_rows[0];
