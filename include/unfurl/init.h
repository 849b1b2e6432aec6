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

/* Xavier (Glorot): the same with std = gain * sqrt(2 / (fan_in + fan_out)). Errors: NOT_FOUND,
 * SHAPE (rank below 2), INVALID_ARGUMENT (a gain that is not finite or negative).
 * https://docs.pytorch.org/docs/stable/nn.init.html */
UF_API UF_NODISCARD uf_status uf_init_xavier_uniform(uf_store *store, const char *name,
                                                     double gain);
UF_API UF_NODISCARD uf_status uf_init_xavier_normal(uf_store *store, const char *name, double gain);

/* The tensor as a matrix (extent[0], the rest) is gain times one with orthonormal rows, or columns
 * if it has fewer of these: Q of the QR decomposition, whose R has a positive diagonal, of normal
 * numbers. Householder reflections in f64 on the host, rounded once; up to 4 * rows * columns *
 * min(rows, columns) operations of one thread, synchronous. Errors: as Xavier's, OUT_OF_MEMORY.
 * Saxe, McClelland, Ganguli: "Exact solutions to the nonlinear dynamics of learning in deep linear
 * neural networks", 2013 */
UF_API UF_NODISCARD uf_status uf_init_orthogonal(uf_store *store, const char *name, double gain);

/* Bilinear interpolation by a ConvTranspose2d: weight[i, i mod (C_out/groups)] is the product over
 * the spatial axes of 1 - |o - centre| / factor, factor = floor((k + 1) / 2), centre = (k - 1) / 2;
 * other weights are 0. Kernel 2*s - s mod 2 with stride s and padding ceil((s - 1) / 2) enlarges s
 * times. One spatial axis is linear interpolation. Synchronous. Errors: NOT_FOUND, SHAPE (rank
 * below 3, or extent[0] no multiple of extent[1]), INVALID_ARGUMENT (a counter), OUT_OF_MEMORY.
 * Long, Shelhamer, Darrell: "Fully Convolutional Networks for Semantic Segmentation", 2015 */
UF_API UF_NODISCARD uf_status uf_init_bilinear(uf_store *store, const char *name);

/* ICNR, for a convolution in front of a pixel shuffle of factor r, weight (C*r*r, C_in, kH, kW):
 * Kaiming-normal weights of (C, C_in, kH, kW), each output channel repeated r*r times in sequence,
 * so that the shuffle starts as nearest-neighbour enlargement. `options` may be NULL. Synchronous.
 * Errors: as Kaiming's, SHAPE too when extent[0] is no multiple of r*r.
 * Aitken et al.: "Checkerboard artifact free sub-pixel convolution", 2017 */
UF_API UF_NODISCARD uf_status uf_init_icnr(uf_store *store, const char *name,
                                           int64_t upscale_factor,
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
 * num_batches_tracked 0. Weight norm: weight_v like a weight, weight_g its norms. Spectral norm:
 * weight_orig like a weight, weight_u and weight_v normal, divided by their norms. uf_parameter
 * 0. */
UF_API UF_NODISCARD uf_status uf_init_default(uf_graph *graph, uf_store *store);

/* The recipe of pytorch/examples/dcgan on top of the defaults: convolution weights, also those that
 * spectral norm wraps, N(0, 0.02), batch-norm weights N(1, 0.02) and biases 0. */
UF_API UF_NODISCARD uf_status uf_init_dcgan(uf_graph *graph, uf_store *store);

UF_END_DECLS

#endif
