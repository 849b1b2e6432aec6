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
 * add, sub, mul, div, reshape. detach and full_like let no gradient pass. Second derivatives are
 * PyTorch's; those of activations made of straight lines are 0 and cost nothing. Third ones there
 * are none of: another uf_gradient goes through this one where no activation in between is curved.
 *
 * The value is invalid, and the graph's first error says why (uf_graph_status), for another layer
 * in between (UNSUPPORTED, with its name), for an output that does not depend on the input, and for
 * an input of indices (INVALID_ARGUMENT).
 * https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html */
UF_API uf_value uf_gradient(uf_graph *graph, uf_value output, uf_value input);

UF_END_DECLS

#endif
