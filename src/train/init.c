/* init.c - first values for parameters that each follow from a draw of its own. */
#include "train/init.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/random_math.h"

double uf_gain(uf_nonlinearity nonlinearity, double a) {
    switch (nonlinearity) {
    case UF_NONLINEARITY_RELU:
        return sqrt(2.0);
    case UF_NONLINEARITY_LEAKY_RELU:
        return sqrt(2.0 / (1.0 + a * a));
    case UF_NONLINEARITY_TANH:
        return 5.0 / 3.0;
    case UF_NONLINEARITY_SELU:
        return 3.0 / 4.0;
    case UF_NONLINEARITY_LINEAR:
        break;
    }
    return 1.0;
}

static uint64_t fnv1a(uint64_t hash, const char *text) {
    for (; *text != '\0'; ++text) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash;
}

/* FNV-1a over "store/tensor", xor the context's seed, mixed by
 * splitmix64's finaliser, so that names and seeds that differ little give streams that have nothing
 * in common. With the store's name in it a generator and a discriminator whose layers have the same
 * names start differently. */
uint64_t uf_init_stream(const uf_store *store, const char *name) {
    const uint64_t seed = store->context->seed;
    uint64_t hash = fnv1a(UINT64_C(14695981039346656037), store->name);
    hash = fnv1a(fnv1a(hash, "/"), name);
    hash ^= seed * UINT64_C(0x9e3779b97f4a7c15);
    return uf_random_mix(hash);
}

uf_status uf_init_find(const char *function, uf_store *store, const char *name,
                       uf_store_slot **slot) {
    *slot = NULL;
    UF_CHECK_ARG(store != NULL && name != NULL, "%s: store or name is NULL", function);
    const int64_t at = uf_store_find(store, name);
    if (at < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s: store \"%s\" has no tensor %s", function, store->name,
                name);
    }
    UF_TRY(uf_store_close(store));
    *slot = uf_store_canonical(store, at);
    return uf_context_check(store->context);
}

uf_status uf_init_check_real(const char *function, const uf_store_slot *slot) {
    UF_CHECK_ARG(slot->role != UF_ROLE_COUNTER, "%s: %s is a counter and takes no real numbers",
                 function, slot->name);
    return UF_OK;
}

uf_status uf_init_check_rank(const char *function, const uf_store_slot *slot, int32_t least,
                             const char *purpose) {
    char text[128];
    if (slot->shape.rank < least) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: %s is %s; %s needs rank %d or more", function, slot->name,
                uf_shape_format(&slot->shape, text, sizeof text), purpose, (int)least);
    }
    return UF_OK;
}

static uf_status draw(const char *function, uf_store *store, uf_store_slot *slot,
                      uf_random_kind kind, double a, double b) {
    UF_TRY(uf_init_check_real(function, slot));
    const uf_random_kernel_args args = {
        .kind = kind,
        .seed = uf_init_stream(store, slot->name),
        .a = a,
        .b = b,
        .output = uf_view_of(slot->tensor.data, slot->tensor.dtype, &slot->shape),
    };
    UF_TRY(uf_random_check(&args));
    UF_TRY(store->context->kernels->random_fill(store->context, &args));
    slot->is_given = true;
    uf_store_changed(store);
    return UF_OK;
}

static uf_status fill(uf_store *store, uf_store_slot *slot, double value) {
    const uf_fill_kernel_args args = {
        .output = uf_view_of(slot->tensor.data, slot->tensor.dtype, &slot->shape),
        .value = value,
    };
    UF_TRY(uf_fill_check(&args));
    UF_TRY(store->context->kernels->fill(store->context, &args));
    slot->is_given = true;
    uf_store_changed(store);
    return UF_OK;
}

static double fan_of(const uf_shape *shape, uf_fan fan) {
    double count = (double)shape->extent[fan == UF_FAN_IN ? 1 : 0];
    for (int32_t i = 2; i < shape->rank; ++i) {
        count *= (double)shape->extent[i];
    }
    return count;
}

uf_status uf_init_kaiming_std(const char *function, const uf_shape *shape,
                              const uf_kaiming_options *given, double *std) {
    uf_kaiming_options known = uf_kaiming_options_default();
    const uf_kaiming_options *options = &known;
    UF_TRY(uf_read_struct("uf_kaiming_options", given, &known, sizeof known));
    UF_CHECK_ARG((unsigned)options->fan <= UF_FAN_OUT, "%s: %d is no uf_fan", function,
                 (int)options->fan);
    UF_CHECK_ARG((unsigned)options->nonlinearity <= UF_NONLINEARITY_SELU,
                 "%s: %d is no uf_nonlinearity", function, (int)options->nonlinearity);
    UF_CHECK_ARG(isfinite(options->a), "%s: a is %g", function, options->a);
    const double fan = fan_of(shape, options->fan);
    *std = uf_gain(options->nonlinearity, options->a) / sqrt(fan > 0.0 ? fan : 1.0);
    return UF_OK;
}

/* Numbers of mean 0 and this standard deviation, of either distribution. */
static uf_status draw_centred(const char *function, uf_store *store, uf_store_slot *slot,
                              uf_random_kind kind, double std) {
    const double bound = sqrt(3.0) * std;
    return kind == UF_RANDOM_NORMAL ? draw(function, store, slot, kind, 0.0, std)
                                    : draw(function, store, slot, kind, -bound, bound);
}

static uf_status kaiming(const char *function, uf_store *store, const char *name,
                         const uf_kaiming_options *options, uf_random_kind kind) {
    uf_store_slot *slot = NULL;
    double std;
    UF_TRY(uf_init_find(function, store, name, &slot));
    UF_TRY(uf_init_check_rank(function, slot, 2, "a fan"));
    UF_TRY(uf_init_kaiming_std(function, &slot->shape, options, &std));
    return draw_centred(function, store, slot, kind, std);
}

uf_status uf_init_check_gain(const char *function, double gain) {
    UF_CHECK_ARG(isfinite(gain) && gain >= 0.0, "%s: gain is %g; it must be 0 or more", function,
                 gain);
    return UF_OK;
}

static uf_status xavier(const char *function, uf_store *store, const char *name, double gain,
                        uf_random_kind kind) {
    uf_store_slot *slot = NULL;
    UF_TRY(uf_init_check_gain(function, gain));
    UF_TRY(uf_init_find(function, store, name, &slot));
    UF_TRY(uf_init_check_rank(function, slot, 2, "a fan"));
    const double fans = fan_of(&slot->shape, UF_FAN_IN) + fan_of(&slot->shape, UF_FAN_OUT);
    return draw_centred(function, store, slot, kind, gain * sqrt(2.0 / (fans > 0.0 ? fans : 1.0)));
}

uf_status uf_init_xavier_uniform(uf_store *store, const char *name, double gain) {
    return xavier("uf_init_xavier_uniform", store, name, gain, UF_RANDOM_UNIFORM);
}

uf_status uf_init_xavier_normal(uf_store *store, const char *name, double gain) {
    return xavier("uf_init_xavier_normal", store, name, gain, UF_RANDOM_NORMAL);
}

uf_status uf_init_kaiming_uniform(uf_store *store, const char *name,
                                  const uf_kaiming_options *options) {
    return kaiming("uf_init_kaiming_uniform", store, name, options, UF_RANDOM_UNIFORM);
}

uf_status uf_init_kaiming_normal(uf_store *store, const char *name,
                                 const uf_kaiming_options *options) {
    return kaiming("uf_init_kaiming_normal", store, name, options, UF_RANDOM_NORMAL);
}

uf_status uf_init_uniform(uf_store *store, const char *name, double low, double high) {
    uf_store_slot *slot = NULL;
    UF_CHECK_ARG(isfinite(low) && isfinite(high) && low <= high,
                 "uf_init_uniform: low is %g, high is %g; low <= high is needed", low, high);
    UF_TRY(uf_init_find("uf_init_uniform", store, name, &slot));
    return draw("uf_init_uniform", store, slot, UF_RANDOM_UNIFORM, low, high);
}

uf_status uf_init_normal(uf_store *store, const char *name, double mean, double std) {
    uf_store_slot *slot = NULL;
    UF_CHECK_ARG(isfinite(mean) && isfinite(std) && std >= 0.0,
                 "uf_init_normal: mean is %g, std is %g; std must be 0 or more", mean, std);
    UF_TRY(uf_init_find("uf_init_normal", store, name, &slot));
    return draw("uf_init_normal", store, slot, UF_RANDOM_NORMAL, mean, std);
}

uf_status uf_init_constant(uf_store *store, const char *name, double value) {
    uf_store_slot *slot = NULL;
    UF_TRY(uf_init_find("uf_init_constant", store, name, &slot));
    return fill(store, slot, value);
}

/* The rule of parameter `i` of a layer. */
static uf_status init_default(uf_store *store, const uf_node *node, const uf_infer *infer,
                              int32_t i) {
    uf_store_slot *slot = uf_store_canonical(store, node->params[i].slot);
    switch (infer->params[i].init) {
    case UF_INIT_KAIMING: {
        uf_kaiming_options options = uf_kaiming_options_default();
        options.a = sqrt(5.0);
        return uf_init_kaiming_uniform(store, slot->name, &options);
    }
    case UF_INIT_BIAS: {
        const double fan_in =
            infer->fan_in > 0 ? (double)infer->fan_in : fan_of(&infer->params[0].shape, UF_FAN_IN);
        const double bound = 1.0 / sqrt(fan_in);
        return uf_init_uniform(store, slot->name, -bound, bound);
    }
    case UF_INIT_NORMAL:
        return uf_init_normal(store, slot->name, 0.0, 1.0);
    case UF_INIT_ONES:
        return fill(store, slot, 1.0);
    case UF_INIT_QUARTER:
        return fill(store, slot, 0.25);
    case UF_INIT_NORMS:
        return uf_init_norms(store, slot, uf_store_canonical(store, node->params[0].slot));
    case UF_INIT_UNIT:
        UF_TRY(uf_init_normal(store, slot->name, 0.0, 1.0));
        return uf_init_divide_by_norm(store, slot);
    case UF_INIT_ZEROS:
        break;
    }
    return fill(store, slot, 0.0);
}

/* The recipe goes by the layer's class and the parameter's name, as pytorch/examples does. */
static uf_status init_dcgan(uf_store *store, const uf_node *node, uf_store_slot *slot,
                            const uf_param_need *need) {
    if (node->layer == &uf_layer_spectral_norm && strcmp(need->name, "weight_orig") == 0) {
        return uf_init_normal(store, slot->name, 0.0, 0.02);
    }
    if (strcmp(need->name, "weight") != 0) {
        return UF_OK;
    }
    if (node->layer == &uf_layer_conv_transpose2d || node->layer == &uf_layer_conv2d) {
        return uf_init_normal(store, slot->name, 0.0, 0.02);
    }
    if (node->layer == &uf_layer_batch_norm2d) {
        return uf_init_normal(store, slot->name, 1.0, 0.02);
    }
    return UF_OK;
}

static uf_status init_graph(const char *function, uf_graph *graph, uf_store *store, bool dcgan) {
    UF_CHECK_ARG(graph != NULL && store != NULL, "%s: graph or store is NULL", function);
    UF_TRY(uf_graph_status(graph));
    UF_TRY(uf_store_close(store));
    UF_TRY(uf_context_check(store->context));
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_node *node = graph->nodes[n];
        uf_shape inputs[UF_MAX_INPUTS];
        uf_infer infer;
        if (node->store != store) {
            continue;
        }
        for (int32_t i = 0; i < node->input_count; ++i) {
            inputs[i] = graph->values[node->inputs[i]].shape;
        }
        UF_TRY(uf_node_infer(node, inputs, false, &infer));
        for (int32_t i = 0; i < node->param_count; ++i) {
            uf_store_slot *slot = uf_store_canonical(store, node->params[i].slot);
            UF_TRY(init_default(store, node, &infer, i));
            if (dcgan) {
                UF_TRY(init_dcgan(store, node, slot, &infer.params[i]));
            }
        }
    }
    return UF_OK;
}

uf_status uf_init_default(uf_graph *graph, uf_store *store) {
    return init_graph("uf_init_default", graph, store, false);
}

uf_status uf_init_dcgan(uf_graph *graph, uf_store *store) {
    return init_graph("uf_init_dcgan", graph, store, true);
}
