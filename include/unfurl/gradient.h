/* gradient.h - gradients as values of a graph, which are computed with like any others and
 * differentiated again: gradient penalties. */
#ifndef UNFURL_GRADIENT_H
#define UNFURL_GRADIENT_H

#include <unfurl/graph.h>

UF_BEGIN_DECLS

/* The gradient of the sum of `output` with respect to `input`, a value of input's shape, as
 * torch.autograd.grad(output.sum(), input, create_graph=True). It is made of layers, which share
 * the parameters of those between the two and run in the mode (TRAIN or EVAL) of their scopes. A
 * pass whose loss depends on it differentiates through it.
 *
 * The layers between the two are of these: convolutions, transposed or not, Linear, activations,
 * softmax, matmul, add, sub, mul, div, sum, mean, pad2d, concat, reshape, flatten, permute, slice,
 * crop_like, pixel_shuffle and pixel_unshuffle. detach and full_like let no gradient pass. Second
 * derivatives are PyTorch's; those of activations made of straight lines are 0 and cost nothing.
 * Third ones there are none of: another uf_gradient goes through this one where no activation in
 * between is curved.
 *
 * The value is invalid, and the graph's first error says why (uf_graph_status), for another layer
 * in between (UNSUPPORTED, with its name), for an output that does not depend on the input, and for
 * an input of indices (INVALID_ARGUMENT).
 * https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html */
UF_API uf_value uf_gradient(uf_graph *graph, uf_value output, uf_value input);

typedef enum uf_gradient_penalty_kind {
    UF_GRADIENT_PENALTY_WGAN_GP = 0, /* weight * mean (|g| - 1)^2 */
    UF_GRADIENT_PENALTY_R1           /* weight / 2 * mean |g|^2 */
} uf_gradient_penalty_kind;

typedef struct uf_gradient_penalty_options {
    size_t struct_size;
    uf_gradient_penalty_kind kind; /* WGAN_GP */
    double weight;                 /* 10: lambda of WGAN-GP, gamma of R1 */
    bool one_sided;                /* false; true: WGAN_GP punishes norms above 1 alone */
} uf_gradient_penalty_options;

static inline uf_gradient_penalty_options uf_gradient_penalty_options_default(void) {
    uf_gradient_penalty_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.weight = 10.0;
    return options;
}

/* A penalty on the gradient of a critic, a scalar to be added to its loss: the mean over the N
 * samples of `input` (N, ...), of a function of |g|, the 2-norm of one sample's part of
 * g = uf_gradient(critic_output, input). WGAN-GP's input lies at random between a real and a made
 * sample, R1's is real. Where g is 0 its norm's gradient is 0, as PyTorch's. `options` may be NULL.
 * In a bf16 program norms are rounded to bf16; the penalty is f32, as losses are.
 *
 * Errors: those of uf_gradient; INVALID_ARGUMENT for a scalar input, a weight that is negative or
 * not finite, and one_sided with R1. Gulrajani et al., https://arxiv.org/abs/1704.00028; Mescheder
 * et al., https://arxiv.org/abs/1801.04406 */
UF_API uf_value uf_gradient_penalty(uf_graph *graph, uf_value critic_output, uf_value input,
                                    const uf_gradient_penalty_options *options);

UF_END_DECLS

#endif
