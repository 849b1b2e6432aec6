/* penalty.c - gradient penalties, made of layers. */
#include <unfurl/gradient.h>
#include <unfurl/layers.h>

#include <math.h>

#include "layers/layer.h"

/* Added to the square of a norm: sqrt has no derivative at 0. With it a gradient of 0 has a finite
 * one, whose product with that 0 is 0. No sum of squares above 1e-20 is changed in f64, none above
 * 1e-29 in f32; it is no subnormal number in either. */
static const double tiny = 1e-37;

/* (N, ...) -> (N): the 2-norm of each sample. */
static uf_value norms(uf_graph *graph, uf_value value) {
    int32_t axes[UF_MAX_RANK];
    const int32_t rank = uf_value_shape(graph, value).rank;
    uf_value squares = uf_square(graph, value);
    for (int32_t axis = 1; axis < rank; ++axis) {
        axes[axis - 1] = axis;
    }
    if (rank > 1) { /* no axes would be all of them */
        squares = uf_sum(graph, squares, axes, rank - 1, false);
    }
    return uf_sqrt(graph, uf_add(graph, squares, uf_full_like(graph, squares, tiny)));
}

static uf_status check(const uf_graph *graph, uf_value input,
                       const uf_gradient_penalty_options *options) {
    UF_CHECK_ARG((unsigned)options->kind <= UF_GRADIENT_PENALTY_R1,
                 "uf_gradient_penalty: %d is no uf_gradient_penalty_kind", (int)options->kind);
    UF_CHECK_ARG(isfinite(options->weight) && options->weight >= 0.0,
                 "uf_gradient_penalty: weight is %g; it must be 0 or more", options->weight);
    UF_CHECK_ARG(!options->one_sided || options->kind == UF_GRADIENT_PENALTY_WGAN_GP,
                 "uf_gradient_penalty: one_sided is WGAN-GP's; R1 punishes every norm");
    UF_CHECK_ARG(uf_value_shape(graph, input).rank != 0,
                 "uf_gradient_penalty: the input is a scalar; (N, ...) is needed");
    return UF_OK;
}

uf_value uf_gradient_penalty(uf_graph *graph, uf_value critic_output, uf_value input,
                             const uf_gradient_penalty_options *given) {
    uf_gradient_penalty_options options = uf_gradient_penalty_options_default();
    if (!uf_graph_options(graph, "uf_gradient_penalty_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    const uf_status status = check(graph, input, &options);
    if (status != UF_OK) {
        return uf_graph_reject(graph, status);
    }
    uf_value norm = norms(graph, uf_gradient(graph, critic_output, input));
    double target = 0.0, factor = options.weight / 2.0;
    if (options.kind == UF_GRADIENT_PENALTY_WGAN_GP) {
        target = 1.0;
        factor = options.weight;
    }
    if (options.one_sided) { /* by how much a norm is above 1 */
        norm = uf_relu(graph, uf_sub(graph, norm, uf_full_like(graph, norm, 1.0)));
        target = 0.0;
    }
    const uf_value loss = uf_mse_loss(graph, norm, uf_full_like(graph, norm, target));
    return uf_scale(graph, loss, factor);
}
