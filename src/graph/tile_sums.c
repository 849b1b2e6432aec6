/* tile_sums.c - sums and means over the whole image, of a graph in tiles.
 *
 * A tile has another mean than the image. So before the pass that makes the output there is one for
 * each such layer, in the graph's order: over all tiles of the image that the layer reads, which
 * adds up each plane. In the passes behind, the layer reads one pixel a plane in place of the
 * image: the sum, or the mean. That gives what the whole image would have given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/tile.h"

/* ---- which layers sum over the image ---- */

/* A value of the graph. */
typedef struct mark {
    uf_shape shape; /* of the whole image's run */
    bool wanted;    /* the output depends on it */
    bool tiled;     /* it is cut as the input is */
} mark;

/* The values that `value` depends on; a layer that sums reads none where the graph is cut. */
static void mark_wanted(const uf_tile_sums *sums, int32_t value, bool cut, mark *marks) {
    const uf_graph *graph = sums->graph;
    int32_t k = sums->count - 1;
    marks[value].wanted = true;
    for (int32_t n = graph->node_count - 1; n >= 0; --n) {
        const uf_node *node = graph->nodes[n];
        while (k >= 0 && sums->list[k].node > n) {
            --k;
        }
        const bool stops = cut && k >= 0 && sums->list[k].node == n;
        for (int32_t i = 0; i < node->input_count && marks[node->output].wanted && !stops; ++i) {
            marks[node->inputs[i]].wanted = true;
        }
    }
}

static uf_status add_sum(uf_tile_sums *sums, int32_t n, const uf_shape *image, bool is_mean) {
    uf_tile_sum *sum = &sums->list[sums->count];
    *sum = (uf_tile_sum){
        .node = n, .value = sums->graph->nodes[n]->inputs[0], .is_mean = is_mean, .shape = *image};
    for (int32_t axis = 2; axis < image->rank; ++axis) {
        sum->shape.extent[axis] = 1;
    }
    snprintf(sum->name, sizeof sum->name, "uf_tiles sum %d", (int)sums->count);
    sum->planes = calloc((size_t)uf_shape_count(&sum->shape), sizeof *sum->planes);
    if (sum->planes == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the sums of an image");
    }
    ++sums->count;
    return UF_OK;
}

static uf_status visit(uf_tile_sums *sums, int32_t n, mark *marks) {
    const uf_node *node = sums->graph->nodes[n];
    const mark *image = node->input_count > 0 ? &marks[node->inputs[0]] : NULL;
    uf_shape shapes[UF_MAX_INPUTS] = {{0}};
    uf_infer infer;
    bool is_mean, tiled = false;
    for (int32_t i = 0; i < node->input_count; ++i) {
        shapes[i] = marks[node->inputs[i]].shape;
        tiled = tiled || marks[node->inputs[i]].tiled;
    }
    UF_TRY(uf_node_infer(node, shapes, false, &infer));
    marks[node->output].shape = infer.output;
    marks[node->output].tiled = tiled;
    if (tiled && node->layer->sums_image != NULL && image->shape.rank == sums->in.rank &&
        node->layer->sums_image(node->attributes.bytes, &image->shape, image->shape.rank - 2,
                                &is_mean)) {
        marks[node->output].tiled = false;
        UF_TRY(add_sum(sums, n, &image->shape, is_mean));
    }
    return UF_OK;
}

static uf_status find(uf_tile_sums *sums, int32_t output, mark *marks) {
    const uf_graph *graph = sums->graph;
    mark_wanted(sums, output, false, marks);
    for (int32_t v = 1; v < graph->value_count; ++v) {
        marks[v].shape = graph->values[v].shape;
    }
    mark *image = &marks[graph->inputs.list[uf_graph_io_find(&graph->inputs, sums->input)].value];
    image->shape = sums->in;
    image->tiled = true;
    for (int32_t n = 0; n < graph->node_count; ++n) {
        if (marks[graph->nodes[n]->output].wanted) {
            UF_TRY(visit(sums, n, marks));
        }
    }
    return UF_OK;
}

uf_status uf_tile_sums_find(const uf_graph *graph, const uf_tile_plan *plan, uf_tile_sums *sums) {
    const int32_t output = uf_graph_io_find(&graph->outputs, plan->output);
    *sums = (uf_tile_sums){.graph = graph, .in = plan->in, .input = plan->input};
    mark *marks = calloc((size_t)graph->value_count, sizeof *marks);
    sums->list = calloc((size_t)graph->node_count + 1, sizeof *sums->list);
    uf_status status = UF_OK;
    if (marks == NULL || sums->list == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the sums of an image");
    } else {
        status = find(sums, graph->outputs.list[output].value, marks);
    }
    free(marks);
    return status;
}

void uf_tile_sums_free(uf_tile_sums *sums) {
    for (int32_t i = 0; i < sums->count; ++i) {
        free(sums->list[i].planes);
    }
    free(sums->list);
    *sums = (uf_tile_sums){0};
}

/* ---- a graph without them ---- */

/* Append a node to the copy, whose values are `values` by their number in the graph. */
static uf_value append(uf_graph *copy, const uf_node *node, const uf_tile_sum *sum,
                       const uf_value *values) {
    uf_value inputs[UF_MAX_INPUTS];
    uf_scope scope = {.store = node->store};
    memcpy(scope.path, node->path, sizeof scope.path);
    for (int32_t i = 0; i < node->input_count; ++i) {
        inputs[i] = values[node->inputs[i]];
    }
    if (sum != NULL) {
        inputs[0] = uf_input(copy, sum->name, sum->shape);
    }
    const uf_value made =
        uf_graph_append(copy, node->layer, node->attributes.bytes, sizeof node->attributes.bytes,
                        inputs, node->input_count, &scope);
    if (copy->status == UF_OK) { /* the numbers of the layer itself, if it draws */
        copy->nodes[copy->node_count - 1]->draw = node->draw;
    }
    return made;
}

/* Inputs all come along, for the user fills them. */
static void fill(const uf_tile_sums *sums, const mark *marks, bool cut, uf_value *values,
                 uf_graph *copy) {
    const uf_graph *graph = sums->graph;
    int32_t input = 0, k = 0;
    for (int32_t v = 1; v < graph->value_count; ++v) {
        const uf_graph_value *value = &graph->values[v];
        if (value->node < 0) {
            const char *name = graph->inputs.list[input++].name;
            values[v] = value->i64
                            ? uf_input_i64(copy, name, value->shape)
                            : uf_input(copy, name,
                                       strcmp(name, sums->input) == 0 ? sums->in : value->shape);
        } else if (marks[v].wanted) {
            while (k < sums->count && sums->list[k].node < value->node) {
                ++k;
            }
            const bool is_sum = cut && k < sums->count && sums->list[k].node == value->node;
            values[v] =
                append(copy, graph->nodes[value->node], is_sum ? &sums->list[k] : NULL, values);
        }
    }
}

uf_status uf_tile_sums_copy(const uf_tile_sums *sums, int32_t value, const char *name, bool cut,
                            uf_graph **graph) {
    const size_t count = (size_t)sums->graph->value_count;
    mark *marks = calloc(count, sizeof *marks);
    uf_value *values = calloc(count, sizeof *values);
    uf_status status = UF_OK;
    if (marks == NULL || values == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a part of a graph");
    } else {
        status = uf_graph_create(sums->graph->context, graph);
    }
    if (status == UF_OK) {
        mark_wanted(sums, value, cut, marks);
        fill(sums, marks, cut, values, *graph);
        uf_output(*graph, name, values[value]);
        status = uf_graph_status(*graph);
    }
    free(marks);
    free(values);
    return status;
}

uf_status uf_tile_sums_upload(const uf_tile_sums *sums, uf_program *program) {
    for (int32_t i = 0; i < sums->count; ++i) {
        const uf_tile_sum *sum = &sums->list[i];
        for (int32_t k = 0; k < uf_program_input_count(program); ++k) {
            if (strcmp(uf_program_input_name(program, k), sum->name) == 0) {
                UF_TRY(uf_tensor_upload_as(uf_program_input(program, sum->name), UF_F64,
                                           sum->planes, uf_shape_count(&sum->shape)));
            }
        }
    }
    return UF_OK;
}
