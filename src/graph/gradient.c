/* gradient.c - the gradient as values of a graph: reverse accumulation that appends layers.
 *
 * Each layer on a way from `input` to `output` has a rule (uf_layer.gradient), which appends the
 * layers that make the gradient of one of its inputs. Contributions to one gradient are added in
 * the reverse order of the nodes. */
#include <unfurl/gradient.h>
#include <unfurl/layers.h>

#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* The values from `input` to `output`: one made later has no part in it. */
typedef struct reverse {
    uf_graph *graph;
    int32_t input, output;
    bool *depends;       /* on the input; by the value's distance from it */
    uf_value *gradients; /* likewise; invalid: no way leads from here to the output */
} reverse;

static bool depends(const reverse *r, int32_t value) {
    return value >= r->input && r->depends[value - r->input];
}

/* The node that makes a value between the two; NULL for an input of the graph. */
static const uf_node *maker(const reverse *r, int32_t value) {
    const int32_t node = r->graph->values[value].node;
    return node >= 0 ? r->graph->nodes[node] : NULL;
}

static bool passes(const reverse *r, const uf_node *node, int32_t i) {
    return depends(r, node->inputs[i]) && uf_node_passes(node, i);
}

static void find_dependent(reverse *r) {
    r->depends[0] = true;
    for (int32_t v = r->input + 1; v <= r->output; ++v) {
        const uf_node *node = maker(r, v);
        for (int32_t i = 0; node != NULL && i < node->input_count; ++i) {
            r->depends[v - r->input] = r->depends[v - r->input] || passes(r, node, i);
        }
    }
}

/* Append the gradients of the inputs of the node that makes `value`. */
static uf_status pass_on(reverse *r, int32_t value) {
    const uf_node *node = maker(r, value);
    uf_scope scope = {.store = node->store};
    uf_value inputs[UF_MAX_INPUTS];
    memcpy(scope.path, node->path, sizeof scope.path);
    for (int32_t i = 0; i < node->input_count; ++i) {
        inputs[i] = uf_graph_value_of(r->graph, node->inputs[i]);
    }
    const uf_gradient_rule rule = {
        .graph = r->graph,
        .layer = node->layer,
        .attributes = node->attributes.bytes,
        .scope = node->store != NULL ? &scope : NULL,
        .inputs = inputs,
        .input_count = node->input_count,
        .output = uf_graph_value_of(r->graph, value),
        .grad_output = r->gradients[value - r->input],
    };
    if (node->layer->gradient == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "uf_gradient: %s%s%s is between output and input and has no gradient that is made "
                "of layers",
                node->path, node->path[0] != '\0' ? ": " : "",
                uf_layer_title(node->layer, node->attributes.bytes));
    }
    for (int32_t i = 0; i < node->input_count; ++i) {
        if (passes(r, node, i)) {
            uf_value *sum = &r->gradients[node->inputs[i] - r->input];
            const uf_value made = node->layer->gradient(&rule, i);
            *sum = sum->id > 0 ? uf_add(r->graph, *sum, made) : made;
        }
    }
    return uf_graph_status(r->graph);
}

static uf_status make_gradient(reverse *r, uf_value output) {
    const int32_t last = r->output - r->input;
    find_dependent(r);
    UF_CHECK_ARG(r->depends[last], "uf_gradient: the output does not depend on the input");
    r->gradients[last] = uf_full_like(r->graph, output, 1.0);
    for (int32_t v = r->output; v > r->input; --v) {
        if (depends(r, v) && r->gradients[v - r->input].id > 0) {
            UF_TRY(pass_on(r, v));
        }
    }
    return uf_graph_status(r->graph);
}

static uf_status check(const uf_graph *graph, uf_value output, uf_value input) {
    UF_TRY(uf_graph_check_value(graph, output, "uf_gradient: output"));
    UF_TRY(uf_graph_check_value(graph, input, "uf_gradient: input"));
    UF_TRY(uf_graph_check_real(graph, output.id, "uf_gradient: output"));
    UF_TRY(uf_graph_check_real(graph, input.id, "uf_gradient: input"));
    UF_CHECK_ARG(output.id >= input.id, "uf_gradient: the output does not depend on the input");
    return UF_OK;
}

uf_value uf_gradient(uf_graph *graph, uf_value output, uf_value input) {
    if (graph == NULL || graph->status != UF_OK) {
        return (uf_value){0};
    }
    uf_status status = check(graph, output, input);
    if (status != UF_OK) {
        return uf_graph_reject(graph, status);
    }
    const size_t count = (size_t)(uint32_t)(output.id - input.id) + 1;
    reverse r = {.graph = graph,
                 .input = input.id,
                 .output = output.id,
                 .depends = calloc(count, sizeof *r.depends),
                 .gradients = calloc(count, sizeof *r.gradients)};
    status = r.depends != NULL && r.gradients != NULL
                 ? make_gradient(&r, output)
                 : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a gradient");
    const uf_value made = status == UF_OK ? r.gradients[0] : uf_graph_reject(graph, status);
    free(r.depends);
    free(r.gradients);
    return made;
}
