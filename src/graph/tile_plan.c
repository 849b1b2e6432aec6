/* tile_plan.c - which part of the input each part of the output depends on, and the cuts that
 * follow from it.
 *
 * Along one axis, element o of a value belongs to element o * down / up of the input: a piece that
 * begins at a multiple of what all these divide into has whole elements of every value. From an
 * interval of the output the walk goes back through the layers' fields; at an edge of the image an
 * interval ends there, for the padding is the same in the piece as in the whole. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "graph/tile.h"
#include "layers/field.h"

#define LARGEST_RATE (INT64_C(1) << 20)
#define FAR (INT64_C(1) << 60)
#define MOST_PIECES (INT64_C(1) << 20) /* of an axis */

/* A value on the way from the input to the output. */
typedef struct part {
    uf_shape shape; /* of the whole image's run */
    uf_shape piece; /* of one piece's run */
    bool wanted;    /* the output depends on it */
    bool tiled;     /* it depends on the input that is cut */
    int64_t up[UF_TILE_AXES], down[UF_TILE_AXES];
    int64_t begin, end; /* the interval that is needed, on the axis at hand */
} part;

typedef struct walk {
    const uf_graph *graph;
    part *parts; /* by value */
    int32_t input, output;
    int32_t axes;                /* of the image: 1 or 2 */
    int64_t align[UF_TILE_AXES]; /* pieces of the input begin at multiples */
} walk;

static int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}

static int64_t round_up(int64_t a, int64_t unit) {
    return (a + unit - 1) / unit * unit;
}

/* The axis counted from the last one: axis 1 is the last. */
static int32_t back_of(int32_t axis) {
    return UF_TILE_AXES - axis;
}

static int64_t extent_of(const part *value, int32_t axis) {
    return value->shape.extent[value->shape.rank - back_of(axis)];
}

static bool is_axis(const walk *w, int32_t axis) {
    return back_of(axis) <= w->axes;
}

static uf_field_query query_of(const walk *w, const uf_node *node, uf_shape *shapes, int32_t axis) {
    uf_field_query query = {.attributes = node->attributes.bytes,
                            .inputs = shapes,
                            .input_count = node->input_count,
                            .back = back_of(axis)};
    for (int32_t i = 0; i < node->input_count; ++i) {
        shapes[i] = w->parts[node->inputs[i]].shape;
        query.tiled |= (w->parts[node->inputs[i]].tiled ? 1u : 0u) << i;
    }
    return query;
}

static uf_status refuse(const uf_node *node, const char *reason) {
    UF_FAIL(UF_ERROR_UNSUPPORTED, "%s%s%s cannot be tiled: %s", node->path,
            node->path[0] != '\0' ? ": " : "", uf_layer_title(node->layer, node->attributes.bytes),
            reason);
}

/* ---- from the input to the output: shapes and rates ---- */

static uf_status make_rate(walk *w, const uf_node *node, int32_t axis) {
    static const char depends[] = "its results depend on more of the image than what is near";
    uf_shape shapes[UF_MAX_INPUTS];
    uf_field field;
    const uf_field_query query = query_of(w, node, shapes, axis);
    part *output = &w->parts[node->output];
    const part *first = NULL;
    if (node->layer->field == NULL || !node->layer->field(&query, &field)) {
        return refuse(node, depends);
    }
    for (int32_t i = 0; i < node->input_count; ++i) {
        const part *input = &w->parts[node->inputs[i]];
        if (!input->tiled) {
            continue;
        }
        first = first != NULL ? first : input;
        if (input->shape.rank != 2 + w->axes || input->up[axis] != first->up[axis] ||
            input->down[axis] != first->down[axis] ||
            extent_of(input, axis) != extent_of(first, axis)) {
            return refuse(node, "its inputs are not one image at one scale");
        }
    }
    if (output->shape.rank != 2 + w->axes) {
        return refuse(node, depends);
    }
    const int64_t up = first->up[axis] * field.up, down = first->down[axis] * field.down;
    const int64_t common = gcd(up, down);
    output->up[axis] = up / common;
    output->down[axis] = down / common;
    if (output->up[axis] > LARGEST_RATE || output->down[axis] > LARGEST_RATE) {
        return refuse(node, "its scale beside the input's is too large");
    }
    w->align[axis] *= output->down[axis] / gcd(w->align[axis], output->down[axis]);
    return w->align[axis] <= LARGEST_RATE ? UF_OK : refuse(node, "its scale fits no other value's");
}

static uf_status visit(walk *w, const uf_node *node) {
    uf_shape shapes[UF_MAX_INPUTS];
    uf_infer infer;
    part *output = &w->parts[node->output];
    for (int32_t i = 0; i < node->input_count; ++i) {
        shapes[i] = w->parts[node->inputs[i]].shape;
        output->tiled = output->tiled || w->parts[node->inputs[i]].tiled;
    }
    UF_TRY(uf_node_infer(node, shapes, false, &infer));
    output->shape = infer.output;
    if (node->layer->draws && node->layer->fusion != UF_FUSION_IDENTITY) {
        return refuse(node, "each tile would get random numbers of its own");
    }
    for (int32_t axis = 0; axis < UF_TILE_AXES && output->tiled; ++axis) {
        if (is_axis(w, axis)) {
            UF_TRY(make_rate(w, node, axis));
        }
    }
    return UF_OK;
}

static void mark_wanted(walk *w) {
    const uf_graph *graph = w->graph;
    w->parts[w->output].wanted = true;
    for (int32_t n = graph->node_count - 1; n >= 0; --n) {
        const uf_node *node = graph->nodes[n];
        for (int32_t i = 0; i < node->input_count && w->parts[node->output].wanted; ++i) {
            w->parts[node->inputs[i]].wanted = true;
        }
    }
}

static uf_status walk_forward(walk *w, const uf_shape *shape) {
    const uf_graph *graph = w->graph;
    for (int32_t v = 1; v < graph->value_count; ++v) {
        w->parts[v].shape = graph->values[v].shape;
    }
    part *input = &w->parts[w->input];
    input->shape = *shape;
    input->tiled = true;
    w->axes = shape->rank - 2;
    for (int32_t axis = 0; axis < UF_TILE_AXES; ++axis) {
        input->up[axis] = input->down[axis] = w->align[axis] = 1;
    }
    mark_wanted(w);
    for (int32_t n = 0; n < graph->node_count; ++n) {
        if (w->parts[graph->nodes[n]->output].wanted) {
            UF_TRY(visit(w, graph->nodes[n]));
        }
    }
    UF_CHECK_ARG(
        w->parts[w->output].tiled,
        "uf_tiles: the output does not depend on the input that is cut, or on sums over all "
        "of it alone");
    return UF_OK;
}

/* ---- from the output back to the input: intervals ---- */

/* The interval of the input that elements begin … end of the output need. Without `cut` the image
 * has no edges.
 */
static void need(const walk *w, int32_t axis, bool cut, int64_t *begin, int64_t *end) {
    const uf_graph *graph = w->graph;
    for (int32_t v = 0; v < graph->value_count; ++v) {
        w->parts[v].begin = FAR;
        w->parts[v].end = -FAR;
    }
    w->parts[w->output].begin = *begin;
    w->parts[w->output].end = *end;
    for (int32_t n = graph->node_count - 1; n >= 0; --n) {
        const uf_node *node = graph->nodes[n];
        const part *output = &w->parts[node->output];
        uf_shape shapes[UF_MAX_INPUTS];
        uf_field field;
        if (!output->wanted || !output->tiled || output->begin >= output->end) {
            continue;
        }
        const uf_field_query query = query_of(w, node, shapes, axis);
        (void)node->layer->field(&query, &field);
        for (int32_t i = 0; i < node->input_count; ++i) {
            part *input = &w->parts[node->inputs[i]];
            if (!input->tiled) {
                continue;
            }
            /* A piece of the output begins where one of the input does: not behind that. */
            const int64_t low = field.low < 0 ? field.low : 0;
            int64_t from = floor_div(output->begin * field.down + low, field.up);
            int64_t to = floor_div((output->end - 1) * field.down + field.high, field.up);
            if (cut) {
                const int64_t last = extent_of(input, axis) - 1;
                from = from < 0 ? 0 : from > last ? last : from;
                to = to < 0 ? 0 : to > last ? last : to;
            }
            input->begin = from < input->begin ? from : input->begin;
            input->end = to + 1 > input->end ? to + 1 : input->end;
        }
    }
    *begin = w->parts[w->input].begin;
    *end = w->parts[w->input].end;
}

static uf_status add_piece(uf_tile_cut *cut, uf_tile_piece piece) {
    UF_CHECK_ARG(cut->count < MOST_PIECES,
                 "uf_tiles: an axis in more than %" PRId64 " tiles; choose larger ones",
                 MOST_PIECES);
    if (cut->count == cut->capacity) {
        const int64_t room = cut->capacity == 0 ? 16 : 2 * cut->capacity;
        uf_tile_piece *grown = realloc(cut->pieces, (size_t)room * sizeof *grown);
        if (grown == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %" PRId64 " tiles", room);
        }
        cut->pieces = grown;
        cut->capacity = room;
    }
    cut->pieces[cut->count++] = piece;
    const int64_t length = piece.in_end - piece.in_begin;
    cut->longest = length > cut->longest ? length : cut->longest;
    return UF_OK;
}

/* Do all layers take a piece of this length? One that unshuffles pixels asks for a multiple. */
static bool fits(const walk *w, int32_t axis, int64_t length) {
    const uf_graph *graph = w->graph;
    for (int32_t v = 1; v < graph->value_count; ++v) {
        w->parts[v].piece = w->parts[v].shape;
    }
    uf_shape *input = &w->parts[w->input].piece;
    input->extent[input->rank - back_of(axis)] = length;
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_node *node = graph->nodes[n];
        uf_shape shapes[UF_MAX_INPUTS];
        uf_infer infer;
        if (!w->parts[node->output].wanted) {
            continue;
        }
        for (int32_t i = 0; i < node->input_count; ++i) {
            shapes[i] = w->parts[node->inputs[i]].piece;
        }
        if (uf_node_infer(node, shapes, false, &infer) != UF_OK) {
            return false;
        }
        w->parts[node->output].piece = infer.output;
    }
    return true;
}

/* The length of a piece within the image: `wanted`, or up to `align` more. */
static uf_status choose_length(const walk *w, int32_t axis, int64_t wanted, int64_t *length) {
    const int64_t extent = extent_of(&w->parts[w->input], axis);
    for (int64_t more = 0; more < w->align[axis]; ++more) {
        *length = wanted + more;
        if (*length >= extent || fits(w, axis, *length)) {
            return UF_OK;
        }
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED,
            "uf_tiles: some layer takes no tile of %" PRId64 " to %" PRId64 " elements", wanted,
            *length);
}

/* One axis to be cut. */
typedef struct span {
    int32_t axis;
    int64_t begin, end; /* of the output that is wanted */
    int64_t limit;      /* uf_tiles_options.overlap */
} span;

/* The interval of the input that elements begin … end of the output need, within the limit. */
static void need_within(const walk *w, const span *s, bool cut, int64_t *begin, int64_t *end) {
    const part *output = &w->parts[w->output];
    const int64_t up = output->up[s->axis], down = output->down[s->axis];
    const int64_t low = floor_div(*begin * down, up) - s->limit;
    const int64_t high = -floor_div(-*end * down, up) + s->limit;
    need(w, s->axis, cut, begin, end);
    if (s->limit >= 0) {
        *begin = *begin < low ? low : *begin;
        *end = *end > high ? high : *end;
    }
}

/* The last element of the output, and one, that a piece of the input that ends at `in_end` gives
 * from `begin` on. */
static int64_t reach(const walk *w, const span *s, int64_t begin, int64_t in_end) {
    int64_t low = begin, high = s->end;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        int64_t first = begin, last = middle;
        need_within(w, s, true, &first, &last);
        if (last <= in_end) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Pieces of `tile` elements besides their overlap; no more than `most` and one. */
static uf_status cut_pieces(const walk *w, const span *s, int64_t tile, int64_t most,
                            uf_tile_cut *cut) {
    const part *output = &w->parts[w->output];
    const int64_t extent = extent_of(&w->parts[w->input], s->axis), align = w->align[s->axis];
    const int64_t up = output->up[s->axis], down = output->down[s->axis];
    const int64_t wanted =
        round_up(tile, align) + round_up(cut->before, align) + round_up(cut->behind, align);
    int64_t length = wanted;
    UF_TRY(choose_length(w, s->axis, wanted, &length));
    cut->count = cut->longest = 0;
    for (int64_t done = s->begin; done < s->end && cut->count <= most;) {
        int64_t from = done, to = done + 1;
        need_within(w, s, true, &from, &to);
        uf_tile_piece piece = {.in_begin = from / align * align, .out_begin = done};
        piece.in_end = piece.in_begin + length;
        if (piece.in_end >= extent) { /* the last: as long as the others */
            piece.in_end = extent;
            piece.in_begin = extent > length ? (extent - length) / align * align : 0;
        }
        piece.first = piece.in_begin / down * up;
        piece.out_end = piece.in_end == extent ? s->end : reach(w, s, done, piece.in_end);
        if (piece.out_end == done || piece.first > done) {
            UF_FAIL(UF_ERROR_UNSUPPORTED,
                    "uf_tiles: a tile of %" PRId64
                    " elements gives nothing of the output at %" PRId64,
                    length, done);
        }
        UF_TRY(add_piece(cut, piece));
        done = piece.out_end;
    }
    return UF_OK;
}

/* As many pieces of equal size. The last one of pieces of `tile` elements may be thin, which costs
 * as much as the others. */
static uf_status even_out(const walk *w, const span *s, int64_t tile, uf_tile_cut *cut) {
    enum { TRIES = 8 };
    const int64_t count = cut->count, align = w->align[s->axis];
    int64_t begin = s->begin, end = s->end;
    need_within(w, s, true, &begin, &end);
    const int64_t rest = end - begin - cut->before - cut->behind;
    const int64_t least = round_up(rest > count ? (rest + count - 1) / count : 1, align);
    for (int64_t i = 0; i < TRIES && least + i * align < tile; ++i) {
        if (cut_pieces(w, s, least + i * align, count, cut) == UF_OK && cut->count <= count) {
            return UF_OK;
        }
    }
    return cut_pieces(w, s, tile, count, cut);
}

static uf_status cut_axis(const walk *w, const span *s, int64_t tile, uf_tile_cut *cut) {
    const part *output = &w->parts[w->output];
    const int64_t extent = extent_of(&w->parts[w->input], s->axis), align = w->align[s->axis];
    /* The overlap, far from any edge: of the elements that belong to one unit of the input. */
    const int64_t unit = (INT64_C(1) << 20) * align;
    int64_t begin = unit / output->down[s->axis] * output->up[s->axis];
    int64_t end = begin + align / output->down[s->axis] * output->up[s->axis];
    need_within(w, s, false, &begin, &end);
    cut->before = unit > begin ? unit - begin : 0;
    cut->behind = end > unit + align ? end - unit - align : 0;
    if (tile == 0) {
        const int64_t half = (cut->before + cut->behind) / 2;
        tile = half > 128 ? half : 128;
    }
    tile = tile > extent ? extent : tile;
    UF_TRY(cut_pieces(w, s, tile, MOST_PIECES, cut));
    return cut->count > 1 ? even_out(w, s, tile, cut) : UF_OK;
}

/* ---- all of it ---- */

static uf_status find(const uf_graph_ios *ios, const char *name, const char *what,
                      const uf_graph_io **found) {
    const int32_t i = name != NULL ? uf_graph_io_find(ios, name) : ios->count > 0 ? 0 : -1;
    if (i < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "uf_tiles: the graph has no %s%s%s", what,
                name != NULL ? " named " : "", name != NULL ? name : "");
    }
    *found = &ios->list[i];
    return UF_OK;
}

static uf_status check_program(const uf_program_options *given) {
    uf_program_options program = uf_program_options_default();
    UF_TRY(uf_read_struct("uf_program_options", given, &program, sizeof program));
    bool evaluates = program.mode == UF_EVAL && program.pass_count == 0;
    for (int32_t i = 0; i < program.scope_mode_count && program.scope_modes != NULL; ++i) {
        evaluates = evaluates && program.scope_modes[i].mode == UF_EVAL;
    }
    UF_CHECK_ARG(evaluates, "uf_tiles: a program in tiles is one in EVAL, without passes");
    return UF_OK;
}

/* The part of the output that is wanted, along one axis. */
static uf_status span_of(const uf_tiles_options *options, const uf_tile_plan *plan, int32_t axis,
                         span *s) {
    const uf_tile_area *area = &options->area;
    const int64_t extent = plan->out.extent[plan->out.rank - back_of(axis)];
    *s = (span){.axis = axis, .end = extent, .limit = options->overlap};
    if (area->height != 0) {
        const int64_t length = axis == 0 ? area->height : area->width;
        s->begin = axis == 0 ? area->top : area->left;
        UF_CHECK_ARG(s->begin >= 0 && length > 0 && s->begin <= extent - length,
                     "uf_tiles_options.area is %" PRId64 "x%" PRId64 " at (%" PRId64 ", %" PRId64
                     "), which is no part of the output's axis of %" PRId64 " elements",
                     area->height, area->width, area->top, area->left, extent);
        s->end = s->begin + length;
    }
    return UF_OK;
}

static uf_status make_cuts(walk *w, const uf_tiles_options *options, uf_tile_plan *plan) {
    UF_TRY(walk_forward(w, &plan->in));
    plan->out = w->parts[w->output].shape;
    for (int32_t axis = 0; axis < UF_TILE_AXES; ++axis) {
        const uf_tile_piece whole = {0, 1, 0, 1, 0};
        span s;
        if (is_axis(w, axis)) {
            UF_TRY(span_of(options, plan, axis, &s));
            UF_TRY(cut_axis(w, &s, options->tile, &plan->cuts[axis]));
        } else {
            UF_TRY(add_piece(&plan->cuts[axis], whole));
        }
    }
    return UF_OK;
}

uf_status uf_tile_plan_begin(const uf_graph *graph, const uf_tiles_options *options,
                             uf_tile_plan *plan) {
    char text[128];
    const uf_graph_io *input = NULL, *output = NULL;
    memset(plan, 0, sizeof *plan);
    UF_TRY(uf_graph_status(graph));
    UF_TRY(check_program(options->program));
    UF_CHECK_ARG(options->tile >= 0 && options->tile <= INT32_MAX,
                 "uf_tiles_options.tile is %" PRId64 "; it must be 0 to 2^31 - 1", options->tile);
    UF_CHECK_ARG(options->overlap >= -1 && options->overlap <= INT32_MAX,
                 "uf_tiles_options.overlap is %" PRId64 "; it must be -1 to 2^31 - 1",
                 options->overlap);
    UF_TRY(find(&graph->inputs, options->input, "input", &input));
    UF_TRY(find(&graph->outputs, options->output, "output", &output));
    plan->input = input->name;
    plan->output = output->name;
    const uf_graph_value *value = &graph->values[input->value];
    plan->in = options->shape.rank == 0 ? value->shape : options->shape;
    UF_CHECK_ARG(
        (plan->in.rank == 3 || plan->in.rank == 4) && uf_shape_count(&plan->in) > 0 &&
            plan->in.rank == value->shape.rank && !value->i64,
        "uf_tiles: the input %s is %s; an image of real values, (N, C, H, W) or (N, C, W), "
        "is needed",
        plan->input, uf_shape_format(&plan->in, text, sizeof text));
    for (int32_t axis = 2; axis < plan->in.rank; ++axis) {
        UF_CHECK_ARG(plan->in.extent[axis] <= INT32_MAX, "uf_tiles: the input is %s, too large",
                     uf_shape_format(&plan->in, text, sizeof text));
    }
    return UF_OK;
}

uf_status uf_tile_plan_make(const uf_graph *graph, const uf_tiles_options *options,
                            uf_tile_plan *plan) {
    UF_TRY(uf_tile_plan_begin(graph, options, plan));
    walk w = {.graph = graph,
              .input = graph->inputs.list[uf_graph_io_find(&graph->inputs, plan->input)].value,
              .output = graph->outputs.list[uf_graph_io_find(&graph->outputs, plan->output)].value,
              .parts = calloc((size_t)graph->value_count, sizeof *w.parts)};
    if (w.parts == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of tiles");
    }
    const uf_status status = make_cuts(&w, options, plan);
    free(w.parts);
    return status;
}

uf_status uf_tile_plan_whole(const uf_graph *graph, const uf_tiles_options *options,
                             uf_tile_plan *plan) {
    char text[128];
    UF_TRY(uf_tile_plan_begin(graph, options, plan));
    const int32_t output = uf_graph_io_find(&graph->outputs, plan->output);
    plan->out = graph->values[graph->outputs.list[output].value].shape;
    UF_CHECK_ARG(plan->out.rank == plan->in.rank, "uf_tiles: the output %s is %s, no image",
                 plan->output, uf_shape_format(&plan->out, text, sizeof text));
    for (int32_t axis = 0; axis < UF_TILE_AXES; ++axis) {
        uf_tile_piece piece = {0, 1, 0, 1, 0};
        span s;
        if (back_of(axis) <= plan->in.rank - 2) {
            UF_TRY(span_of(options, plan, axis, &s));
            piece.in_end = plan->in.extent[plan->in.rank - back_of(axis)];
            piece.out_begin = s.begin;
            piece.out_end = s.end;
        }
        UF_TRY(add_piece(&plan->cuts[axis], piece));
    }
    return UF_OK;
}

void uf_tile_plan_free(uf_tile_plan *plan) {
    for (int32_t axis = 0; axis < UF_TILE_AXES; ++axis) {
        free(plan->cuts[axis].pieces);
    }
    memset(plan, 0, sizeof *plan);
}
