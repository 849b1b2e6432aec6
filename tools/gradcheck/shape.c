/* shape.c - arithmetic with broadcasting, reductions, and layers that rearrange elements. */
#include "gradcheck/cases.h"

typedef uf_value (*binary)(uf_graph *graph, uf_value a, uf_value b);

static const binary add = uf_add, sub = uf_sub, mul = uf_mul, div = uf_div;

static uf_value image(uf_graph *graph, const char *name) {
    return uf_input(graph, name, UF_SHAPE(2, 3, 4, 5));
}

/* A value between 1/2 and 3/2, to divide by. */
static uf_value positive(uf_graph *graph, uf_value value) {
    const uf_value between = uf_sigmoid(graph, value);
    return uf_add(graph, between, uf_full_like(graph, between, 0.5));
}

static void build_equal(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = image(graph, "a"), b = positive(graph, image(graph, "b"));
    const uf_value y = apply(graph, uf_tanh(graph, a), b);
    uf_output(graph, "output", apply(graph, uf_add(graph, y, a), b));
    uf_output(graph, "same", apply(graph, b, b));
}

/* Either operand repeats, along an axis of extent 1 or one that is not there. */
static void build_broadcast(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 1, 4, 5));
    const uf_value b = positive(graph, uf_input(graph, "b", UF_SHAPE(3, 1, 5)));
    const uf_value c = positive(graph, uf_input(graph, "c", UF_SCALAR));
    uf_output(graph, "output", apply(graph, uf_tanh(graph, a), b));
    uf_output(graph, "scalar", apply(graph, b, c));
    uf_output(graph, "turned", apply(graph, c, positive(graph, a)));
}

/* The operands and the results lie in concats, with gaps between the images. */
static void build_gaps(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = image(graph, "a"), b = image(graph, "b");
    const uf_value parts[] = {uf_tanh(graph, a), positive(graph, b)};
    const uf_value all = uf_concat(graph, parts, 2);
    const uf_value made[] = {apply(graph, parts[0], parts[1]),
                             apply(graph, parts[1], uf_mean(graph, parts[1], NULL, 0, false)), all};
    uf_output(graph, "output", uf_tanh(graph, uf_concat(graph, made, 3)));
}

struct reduce {
    uf_shape input;
    int32_t axes[4], count;
    bool mean, keepdim;
};

static const struct reduce reductions[] = {
    {{4, {2, 3, 4, 5}}, {1, 2}, 2, false, false},
    {{4, {2, 3, 4, 5}}, {-1, 0}, 2, true, true},
    {{3, {4, 3, 2}}, {0}, 0, true, false},
    {{5, {2, 3, 2, 2, 3}}, {1, -2}, 2, true, false},
    {{1, {7}}, {0}, 1, false, false},
    {{4, {5, 1, 1, 3}}, {3}, 1, false, false},
};

static void build_reduce(uf_graph *graph, uf_store *store, const void *data) {
    const struct reduce *r = data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", r->input));
    const uf_value y = r->mean ? uf_mean(graph, x, r->axes, r->count, r->keepdim)
                               : uf_sum(graph, x, r->axes, r->count, r->keepdim);
    uf_output(graph, "output", uf_tanh(graph, y));
}

/* The mean of the squared distance from the mean. */
static void build_variance(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value x = image(graph, "input");
    const uf_value d = uf_sub(graph, x, uf_global_avg_pool2d(graph, x));
    uf_output(graph, "output", uf_global_avg_pool2d(graph, uf_mul(graph, d, d)));
}

/* ---- rearranged elements ---- */

struct permutation {
    uf_shape input;
    int32_t axes[UF_MAX_RANK];
};

static const struct permutation permutations[] = {
    {{4, {2, 3, 4, 5}}, {0, 2, 3, 1}},
    {{4, {2, 3, 4, 5}}, {-1, 0, -2, 1}},
    {{6, {2, 1, 3, 2, 2, 2}}, {5, 3, 1, 0, 4, 2}},
};

/* Each value is read twice: of its two gradients one overwrites and one is added. */
static void build_permute(uf_graph *graph, uf_store *store, const void *data) {
    const struct permutation *p = data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", p->input));
    uf_output(graph, "output", uf_tanh(graph, uf_permute(graph, x, p->axes, p->input.rank)));
    uf_output(graph, "again", uf_permute(graph, x, p->axes, p->input.rank));
}

struct slice {
    uf_shape input;
    int32_t axis;
    int64_t start, stop;
};

static const struct slice slices[] = {
    {{4, {3, 2, 3, 4}}, 0, 1, INT64_MAX},
    {{4, {2, 3, 4, 5}}, -1, -3, -1},
    {{5, {2, 3, 3, 2, 2}}, 2, 0, 2},
    {{4, {2, 3, 4, 5}}, 2, 0, 4},
};

static void build_slice(uf_graph *graph, uf_store *store, const void *data) {
    const struct slice *s = data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", s->input));
    uf_output(graph, "output", uf_tanh(graph, uf_slice(graph, x, s->axis, s->start, s->stop)));
    uf_output(graph, "again", uf_slice(graph, x, s->axis, s->start, s->stop));
}

/* The value whose shape is taken has a gradient from elsewhere alone. */
static void build_crop_like(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", UF_SHAPE(2, 3, 7, 6)));
    const uf_value like = uf_tanh(graph, uf_input(graph, "like", UF_SHAPE(2, 2, 4, 4)));
    const uf_value skip[2] = {uf_crop_like(graph, x, like), like};
    uf_output(graph, "output", uf_tanh(graph, uf_concat(graph, skip, 2)));
    uf_output(graph, "again", uf_crop_like(graph, x, like));
}

static const int64_t one = 1, two = 2, three = 3;

static void build_pixel_shuffle(uf_graph *graph, uf_store *store, const void *data) {
    const int64_t r = *(const int64_t *)data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", UF_SHAPE(2, 2 * r * r, 2, 3)));
    uf_output(graph, "output", uf_tanh(graph, uf_pixel_shuffle(graph, x, r)));
    uf_output(graph, "again", uf_pixel_shuffle(graph, x, r));
}

static void build_pixel_unshuffle(uf_graph *graph, uf_store *store, const void *data) {
    const int64_t r = *(const int64_t *)data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", UF_SHAPE(2, 2, 2 * r, 3 * r)));
    uf_output(graph, "output", uf_tanh(graph, uf_pixel_unshuffle(graph, x, r)));
    uf_output(graph, "again", uf_pixel_unshuffle(graph, x, r));
}

struct joint {
    uf_shape a, b;
    int32_t axis;
};

static const struct joint joints[] = {
    {{4, {1, 2, 3, 4}}, {4, {2, 2, 3, 4}}, 0},
    {{4, {2, 2, 3, 4}}, {4, {2, 2, 1, 4}}, -2},
    {{2, {3, 4}}, {2, {2, 4}}, 0},
    {{5, {2, 2, 1, 2, 3}}, {5, {2, 2, 3, 2, 3}}, 2},
};

static void build_concat_axis(uf_graph *graph, uf_store *store, const void *data) {
    const struct joint *j = data;
    (void)store;
    const uf_value a = uf_tanh(graph, uf_input(graph, "a", j->a));
    const uf_value b = uf_tanh(graph, uf_input(graph, "b", j->b));
    const uf_value parts[] = {a, b, a};
    uf_output(graph, "output", uf_tanh(graph, uf_concat_axis(graph, parts, 3, j->axis)));
}

static void build_flatten(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value x = uf_tanh(graph, image(graph, "input"));
    uf_output(graph, "output", uf_tanh(graph, uf_flatten(graph, x, 1, -2)));
    uf_output(graph, "again", uf_flatten(graph, x, 0, -1));
}

/* Both ends of each layer lie in concats, with gaps between the images. */
static void build_in_concats(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    static const int32_t turned[4] = {0, 1, 3, 2};
    const uf_value x = uf_tanh(graph, uf_input(graph, "x", UF_SHAPE(3, 4, 4, 4)));
    const uf_value y = uf_tanh(graph, uf_input(graph, "y", UF_SHAPE(3, 1, 8, 8)));
    const uf_value sources[] = {x, uf_pixel_unshuffle(graph, y, 2),
                                uf_permute(graph, x, turned, 4)};
    uf_output(graph, "sources", uf_tanh(graph, uf_concat(graph, sources, 3)));
    const uf_value pair[] = {y, uf_pixel_shuffle(graph, x, 2)};
    uf_output(graph, "pair", uf_tanh(graph, uf_concat(graph, pair, 2)));
    const uf_value halves[] = {uf_slice(graph, x, 2, 1, 3), uf_slice(graph, sources[1], 2, 0, 2)};
    const uf_value cut = uf_concat(graph, halves, 2);
    const uf_value stack[] = {halves[0], uf_crop_like(graph, halves[1], halves[0])};
    uf_output(graph, "cut", uf_tanh(graph, cut));
    uf_output(graph, "stack", uf_tanh(graph, uf_concat_axis(graph, stack, 2, 0)));
}

#define BINARY(name)                                                                               \
    {#name, "equal shapes", true, UF_TRAIN, build_equal, &name},                                   \
        {#name, "broadcast", true, UF_TRAIN, build_broadcast, &name}, {                            \
#name, "with gaps", true, UF_TRAIN, build_gaps, &name                                      \
    }

const gradcheck_case gradcheck_shape[] = {
    BINARY(add),
    BINARY(sub),
    BINARY(mul),
    BINARY(div),
    {"reduce", "sum over axes 1, 2", true, UF_TRAIN, build_reduce, &reductions[0]},
    {"reduce", "mean over axes -1, 0, kept", true, UF_TRAIN, build_reduce, &reductions[1]},
    {"reduce", "mean of all", true, UF_TRAIN, build_reduce, &reductions[2]},
    {"reduce", "mean over axes 1, -2 of 5", true, UF_TRAIN, build_reduce, &reductions[3]},
    {"reduce", "sum of a row", true, UF_TRAIN, build_reduce, &reductions[4]},
    {"reduce", "sum over the last axis", true, UF_TRAIN, build_reduce, &reductions[5]},
    {"reduce", "variance", true, UF_TRAIN, build_variance, NULL},
    {"permute", "channels last", true, UF_TRAIN, build_permute, &permutations[0]},
    {"permute", "-1, 0, -2, 1", true, UF_TRAIN, build_permute, &permutations[1]},
    {"permute", "of 6", true, UF_TRAIN, build_permute, &permutations[2]},
    {"slice", "images", true, UF_TRAIN, build_slice, &slices[0]},
    {"slice", "from the end", true, UF_TRAIN, build_slice, &slices[1]},
    {"slice", "axis 2 of 5", true, UF_TRAIN, build_slice, &slices[2]},
    {"slice", "all of it", true, UF_TRAIN, build_slice, &slices[3]},
    {"crop_like", "a skip", true, UF_TRAIN, build_crop_like, NULL},
    {"pixel_shuffle", "1", true, UF_TRAIN, build_pixel_shuffle, &one},
    {"pixel_shuffle", "2", true, UF_TRAIN, build_pixel_shuffle, &two},
    {"pixel_shuffle", "3", true, UF_TRAIN, build_pixel_shuffle, &three},
    {"pixel_unshuffle", "1", true, UF_TRAIN, build_pixel_unshuffle, &one},
    {"pixel_unshuffle", "2", true, UF_TRAIN, build_pixel_unshuffle, &two},
    {"pixel_unshuffle", "3", true, UF_TRAIN, build_pixel_unshuffle, &three},
    {"concat_axis", "images", true, UF_TRAIN, build_concat_axis, &joints[0]},
    {"concat_axis", "heights", true, UF_TRAIN, build_concat_axis, &joints[1]},
    {"concat_axis", "rows", true, UF_TRAIN, build_concat_axis, &joints[2]},
    {"concat_axis", "axis 2 of 5", true, UF_TRAIN, build_concat_axis, &joints[3]},
    {"flatten", "1 to -2", true, UF_TRAIN, build_flatten, NULL},
    {"permute", "and others in concats", true, UF_TRAIN, build_in_concats, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
