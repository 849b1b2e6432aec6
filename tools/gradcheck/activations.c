/* activations.c - elementwise functions, each on numbers where it is defined. */
#include "gradcheck/cases.h"

/* No input of a smooth function may lie at a kink; `offset` moves them to where the
 * function is defined, and `spread` makes them reach every branch. */
struct activation {
    uf_value (*plain)(uf_graph *graph, uf_value input);
    uf_value (*with)(uf_graph *graph, uf_value input, double parameter);
    uf_value (*between)(uf_graph *graph, uf_value input, double minimum, double maximum);
    double a, b;
    double spread, offset;
};

static void build(uf_graph *graph, uf_store *store, const void *data) {
    const struct activation *one = data;
    (void)store;
    uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5));
    x = uf_scale(graph, x, one->spread);
    if (one->offset != 0.0) {
        x = uf_add(graph, uf_tanh(graph, x), uf_full_like(graph, x, one->offset));
    }
    uf_output(graph, "output",
              one->plain != NULL  ? one->plain(graph, x)
              : one->with != NULL ? one->with(graph, x, one->a)
                                  : one->between(graph, x, one->a, one->b));
}

static const struct activation elu = {.with = uf_elu, .a = 0.7, .spread = 1.0};
static const struct activation smooth_elu = {.with = uf_elu, .a = 1.0, .spread = 1.0};
static const struct activation selu = {.plain = uf_selu, .spread = 1.0};
static const struct activation gelu = {.plain = uf_gelu, .spread = 1.0};
static const struct activation gelu_tanh = {.plain = uf_gelu_tanh, .spread = 1.0};
static const struct activation silu = {.plain = uf_silu, .spread = 1.0};
static const struct activation mish = {.plain = uf_mish, .spread = 1.0};
static const struct activation softplus = {.with = uf_softplus, .a = 1.5, .spread = 1.0};
static const struct activation softsign = {.plain = uf_softsign, .spread = 1.0};
static const struct activation log_sigmoid = {.plain = uf_log_sigmoid, .spread = 1.0};
static const struct activation relu6 = {.plain = uf_relu6, .spread = 6.0};
static const struct activation hardsigmoid = {.plain = uf_hardsigmoid, .spread = 3.0};
static const struct activation hardswish = {.plain = uf_hardswish, .spread = 3.0};
static const struct activation hardtanh = {
    .between = uf_hardtanh, .a = -0.5, .b = 0.75, .spread = 1.0};
static const struct activation clamp = {.between = uf_clamp, .a = -0.25, .b = 0.5, .spread = 1.0};
static const struct activation absolute = {.plain = uf_abs, .spread = 1.0};
static const struct activation negative = {.plain = uf_neg, .spread = 1.0};
static const struct activation scale = {.with = uf_scale, .a = -1.75, .spread = 1.0};
static const struct activation square = {.plain = uf_square, .spread = 1.0};
static const struct activation exponential = {.plain = uf_exp, .spread = 1.0};
static const struct activation logarithm = {.plain = uf_log, .spread = 1.0, .offset = 1.5};
static const struct activation root = {.plain = uf_sqrt, .spread = 1.0, .offset = 1.5};

/* ---- PReLU ---- */

struct prelu {
    uf_shape input;
    int64_t num_parameters;
};

/* The same weights on the input and behind a tanh: each gradient is added to once. */
static void build_prelu(uf_graph *graph, uf_store *store, const void *data) {
    const struct prelu *prelu = data;
    const uf_scope scope = uf_at(store, "layer");
    const uf_value x = uf_input(graph, "input", prelu->input);
    uf_output(graph, "output", uf_prelu(graph, x, scope, prelu->num_parameters));
    uf_output(graph, "again", uf_prelu(graph, uf_tanh(graph, x), scope, prelu->num_parameters));
}

static const struct prelu per_channel = {{4, {2, 3, 4, 5}}, 3};
static const struct prelu for_all = {{4, {2, 3, 4, 5}}, 1};
static const struct prelu of_features = {{2, {3, 7}}, 7};
static const struct prelu of_five_axes = {{5, {2, 3, 2, 2, 3}}, 3};

/* ---- softmax ---- */

struct softmax {
    uf_shape input;
    int32_t axis;
};

static void build_softmax(uf_graph *graph, uf_store *store, const void *data) {
    const struct softmax *softmax = data;
    (void)store;
    const uf_value x = uf_input(graph, "input", softmax->input);
    uf_output(graph, "output", uf_softmax(graph, x, softmax->axis));
    uf_output(graph, "again", uf_softmax(graph, uf_scale(graph, x, 2.0), softmax->axis));
}

static const struct softmax softmaxes[] = {
    {{4, {2, 3, 4, 5}}, 1}, {{4, {2, 3, 4, 5}}, -1},   {{4, {2, 3, 4, 5}}, 0},
    {{1, {7}}, 0},          {{5, {2, 3, 2, 2, 3}}, 2}, {{2, {3, 1}}, 1},
};

#define SOFTMAX(i, text)                                                                           \
    { "softmax", text, true, UF_TRAIN, build_softmax, &softmaxes[i] }

const gradcheck_case gradcheck_activations[] = {
    SOFTMAX(0, "channels"),
    SOFTMAX(1, "the last axis"),
    SOFTMAX(2, "the first axis"),
    SOFTMAX(3, "rank 1"),
    SOFTMAX(4, "rank 5"),
    SOFTMAX(5, "one element"),
    {"prelu", "a weight for each channel", false, UF_TRAIN, build_prelu, &per_channel},
    {"prelu", "one weight", false, UF_TRAIN, build_prelu, &for_all},
    {"prelu", "rank 2", false, UF_TRAIN, build_prelu, &of_features},
    {"prelu", "rank 5", false, UF_TRAIN, build_prelu, &of_five_axes},
    {"activation", "elu 0.7", false, UF_TRAIN, build, &elu},
    {"activation", "elu 1", false, UF_TRAIN, build, &smooth_elu},
    {"activation", "selu", false, UF_TRAIN, build, &selu},
    {"activation", "gelu", true, UF_TRAIN, build, &gelu},
    {"activation", "gelu_tanh", true, UF_TRAIN, build, &gelu_tanh},
    {"activation", "silu", true, UF_TRAIN, build, &silu},
    {"activation", "mish", true, UF_TRAIN, build, &mish},
    {"activation", "softplus 1.5", true, UF_TRAIN, build, &softplus},
    {"activation", "softsign", false, UF_TRAIN, build, &softsign},
    {"activation", "log_sigmoid", true, UF_TRAIN, build, &log_sigmoid},
    {"activation", "relu6", false, UF_TRAIN, build, &relu6},
    {"activation", "hardsigmoid", false, UF_TRAIN, build, &hardsigmoid},
    {"activation", "hardswish", false, UF_TRAIN, build, &hardswish},
    {"activation", "hardtanh -0.5, 0.75", false, UF_TRAIN, build, &hardtanh},
    {"activation", "clamp -0.25, 0.5", false, UF_TRAIN, build, &clamp},
    {"activation", "abs", false, UF_TRAIN, build, &absolute},
    {"activation", "neg", true, UF_TRAIN, build, &negative},
    {"activation", "scale -1.75", true, UF_TRAIN, build, &scale},
    {"activation", "square", true, UF_TRAIN, build, &square},
    {"activation", "exp", true, UF_TRAIN, build, &exponential},
    {"activation", "log", true, UF_TRAIN, build, &logarithm},
    {"activation", "sqrt", true, UF_TRAIN, build, &root},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
