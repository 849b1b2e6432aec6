/* init.h - first values for parameters.
 *
 * Every tensor's numbers are a function of the context's seed, the names of store and tensor, and
 * the element's
 * index: adding a layer changes no other layer's start, and CPU and GPU draw the same bits. They
 * are cuRAND's Philox4_32_10 uniforms in f32, with or without cuRAND; normals come from them by the
 * inverse of the normal distribution function. Each call overwrites, seals the store, and is
 * asynchronous on a GPU. */
#ifndef UNFURL_INIT_H
#define UNFURL_INIT_H

#include <unfurl/graph.h>

UF_BEGIN_DECLS

/* fan_in is extent[1] times the receptive field, fan_out extent[0] times it, for every weight of
 * rank 2 or more, as torch.nn.init computes them: for a ConvTranspose2d weight (C_in, C_out/groups,
 * kH, kW), fan_in is (C_out/groups)*kH*kW. */
typedef enum uf_fan { UF_FAN_IN = 0, UF_FAN_OUT } uf_fan;

typedef enum uf_nonlinearity {
    UF_NONLINEARITY_LINEAR = 0, /* gain 1; also for convolutions and sigmoid */
    UF_NONLINEARITY_RELU,       /* sqrt(2) */
    UF_NONLINEARITY_LEAKY_RELU, /* sqrt(2 / (1 + a^2)) */
    UF_NONLINEARITY_TANH,       /* 5/3 */
    UF_NONLINEARITY_SELU        /* 3/4 */
} uf_nonlinearity;

typedef struct uf_kaiming_options {
    size_t struct_size;
    double a;                     /* negative slope of LEAKY_RELU; 0 */
    uf_fan fan;                   /* FAN_IN */
    uf_nonlinearity nonlinearity; /* LEAKY_RELU */
} uf_kaiming_options;

static inline uf_kaiming_options uf_kaiming_options_default(void) {
    uf_kaiming_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.fan = UF_FAN_IN;
    options.nonlinearity = UF_NONLINEARITY_LEAKY_RELU;
    return options;
}

/* The gain above. */
UF_API double uf_gain(uf_nonlinearity nonlinearity, double a);

/* Uniform on (-bound, bound], bound = gain * sqrt(3 / fan);  normal with mean 0, std = gain /
 * sqrt(fan).
 * Errors: NOT_FOUND, SHAPE (rank below 2).
 * https://docs.pytorch.org/docs/stable/nn.init.html */
UF_API UF_NODISCARD uf_status uf_init_kaiming_uniform(uf_store *store, const char *name,
                                                      const uf_kaiming_options *options);
UF_API UF_NODISCARD uf_status uf_init_kaiming_normal(uf_store *store, const char *name,
                                                     const uf_kaiming_options *options);
UF_API UF_NODISCARD uf_status uf_init_uniform(uf_store *store, const char *name, double low,
                                              double high);
UF_API UF_NODISCARD uf_status uf_init_normal(uf_store *store, const char *name, double mean,
                                             double std);
/* Every element; counters too (rounded toward zero). */
UF_API UF_NODISCARD uf_status uf_init_constant(uf_store *store, const char *name, double value);

/* Every tensor of `store` that the graph's layers use gets its PyTorch default: Conv2d,
 * ConvTranspose2d and Linear weights Kaiming uniform with a = sqrt(5), biases uniform within
 * 1/sqrt(fan_in) of the weight; BatchNorm weight 1, bias 0, running_mean 0, running_var 1,
 * num_batches_tracked 0. */
UF_API UF_NODISCARD uf_status uf_init_default(uf_graph *graph, uf_store *store);

/* The recipe of pytorch/examples/dcgan on top of the defaults: convolution weights N(0, 0.02),
 * batch-norm weights N(1, 0.02) and biases 0. */
UF_API UF_NODISCARD uf_status uf_init_dcgan(uf_graph *graph, uf_store *store);

UF_END_DECLS

#endif
