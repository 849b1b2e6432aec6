/* tile.c - running a graph over an image in tiles. While the device computes a tile the next one is
 * read; a part is handed over when the next tile is on its way. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/tile.h"

typedef struct tile_program {
    uf_program *program; /* NULL: not compiled */
    int64_t width;       /* of its input */
} tile_program;

/* One pass over the tiles. */
typedef struct tile_run {
    uf_graph *graph;
    const uf_tiles_options *options;
    const uf_tile_plan *plan;
    const uf_tile_sums *sums;
    uf_tile_sum *sum; /* that the pass adds up; NULL: it makes the output */
    uf_dtype dtype;   /* on the host */
    void *in, *out;   /* owned: one tile of the input, one of the output */
    size_t out_room;
    tile_program programs[2]; /* of one height, the newest first */
    int64_t height;           /* of their inputs */
} tile_run;

/* A tile on its way. */
typedef struct tile {
    uf_program *program; /* NULL: none is */
    const uf_tile_piece *row, *column;
} tile;

static uf_shape area_shape(const uf_shape *whole, int64_t height, int64_t width) {
    uf_shape shape = *whole;
    shape.extent[shape.rank - 1] = width;
    if (shape.rank == 4) {
        shape.extent[2] = height;
    }
    return shape;
}

static void forget_programs(tile_run *run) {
    for (int i = 0; i < 2; ++i) {
        uf_program_destroy(run->programs[i].program);
        run->programs[i] = (tile_program){0};
    }
}

static uf_status compile(tile_run *run, const uf_shape *shape, uf_program **program) {
    uf_program_options options = uf_program_options_default();
    UF_TRY(uf_read_struct("uf_program_options", run->options->program, &options, sizeof options));
    const int32_t count = options.input_shape_count;
    UF_CHECK_ARG(count >= 0 && (count == 0 || options.input_shapes != NULL),
                 "uf_program_options: %" PRId32 " input_shapes at NULL", count);
    uf_input_shape *shapes = calloc((size_t)count + 1, sizeof *shapes);
    if (shapes == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a tile");
    }
    shapes[0] = (uf_input_shape){run->plan->input, *shape}; /* the first of a name counts */
    for (int32_t i = 0; i < count; ++i) {
        shapes[i + 1] = options.input_shapes[i];
    }
    options.input_shapes = shapes;
    options.input_shape_count = count + 1;
    uf_status status = uf_program_compile(run->graph, &options, program);
    free(shapes);
    if (status == UF_OK) {
        status = uf_tile_sums_upload(run->sums, *program);
    }
    if (status == UF_OK && run->options->prepare != NULL) {
        status = run->options->prepare(run->options->user, *program);
    }
    return status;
}

/* The program for one shape of tiles. Tiles of a row have one height and at most two widths. */
static uf_status program_for(tile_run *run, const uf_tile_piece *row, const uf_tile_piece *column,
                             uf_program **program) {
    const int64_t height = row->in_end - row->in_begin, width = column->in_end - column->in_begin;
    if (height != run->height) {
        forget_programs(run);
        run->height = height;
    }
    for (int i = 0; i < 2; ++i) {
        if (run->programs[i].program != NULL && run->programs[i].width == width) {
            *program = run->programs[i].program;
            return UF_OK;
        }
    }
    const int slot = run->programs[0].program == NULL ? 0 : 1;
    const uf_shape shape = area_shape(&run->plan->in, height, width);
    uf_program_destroy(run->programs[slot].program);
    run->programs[slot] = (tile_program){.width = width};
    UF_TRY(compile(run, &shape, &run->programs[slot].program));
    *program = run->programs[slot].program;
    return UF_OK;
}

static uf_status read_tile(const tile_run *run, const uf_tile_piece *row,
                           const uf_tile_piece *column) {
    const uf_tile_area area = {row->in_begin, column->in_begin, row->in_end - row->in_begin,
                               column->in_end - column->in_begin};
    return run->options->read(run->options->user, &area, run->in);
}

static uf_status start_tile(const tile_run *run, uf_program *program) {
    uf_tensor *input = uf_program_input(program, run->plan->input);
    UF_TRY(uf_tensor_upload_as(input, run->dtype, run->in, uf_tensor_count(input)));
    return uf_program_run(program);
}

/* Wait for the tile: its output goes to the host. */
static uf_status await_tile(tile_run *run, const tile *one) {
    const uf_tensor *output = uf_program_output(one->program, run->plan->output);
    const int64_t count = uf_tensor_count(output);
    const size_t size = (size_t)count * uf_dtype_size(run->dtype);
    if (size > run->out_room) {
        free(run->out);
        run->out_room = 0;
        run->out = malloc(size);
        if (run->out == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a tile of %zu bytes", size);
        }
        run->out_room = size;
    }
    return uf_tensor_download_as(output, run->dtype, run->out, count);
}

/* Add a part of the image, whose values are (N, C, height, width), to the sums of its planes. */
static void add_part(const tile_run *run, const uf_tile_area *area) {
    const int64_t count = area->height * area->width;
    for (int64_t plane = 0; plane < uf_shape_count(&run->sum->shape); ++plane) {
        double sum = 0.0;
        for (int64_t i = plane * count; i < (plane + 1) * count; ++i) {
            sum += run->dtype == UF_F64 ? ((const double *)run->out)[i]
                                        : (double)((const float *)run->out)[i];
        }
        run->sum->planes[plane] += sum;
    }
}

/* Hand over the part that the tile keeps. It moves to the front of the tile's own values. */
static uf_status store_tile(const tile_run *run, const tile *one, const uf_shape *made) {
    const uf_tile_piece *row = one->row, *column = one->column;
    const uf_tile_area area = {row->out_begin, column->out_begin, row->out_end - row->out_begin,
                               column->out_end - column->out_begin};
    const int64_t height = made->rank == 4 ? made->extent[2] : 1;
    const int64_t width = made->extent[made->rank - 1];
    const int64_t top = row->out_begin - row->first, left = column->out_begin - column->first;
    const size_t size = uf_dtype_size(run->dtype);
    UF_CHECK_ARG(top + area.height <= height && left + area.width <= width,
                 "uf_tiles: a tile gives %" PRId64 "x%" PRId64 " elements, of which rows %" PRId64
                 " to %" PRId64 " and columns %" PRId64 " to %" PRId64 " were to be kept",
                 height, width, top, top + area.height, left, left + area.width);
    char *to = run->out;
    for (int64_t plane = 0; plane < made->extent[0] * made->extent[1]; ++plane) {
        for (int64_t y = 0; y < area.height; ++y) {
            const int64_t from = (plane * height + top + y) * width + left;
            memmove(to, (const char *)run->out + (size_t)from * size, (size_t)area.width * size);
            to += (size_t)area.width * size;
        }
    }
    if (run->sum != NULL) {
        add_part(run, &area);
        return UF_OK;
    }
    return run->options->write(run->options->user, &area, run->out);
}

static uf_status finish_tile(tile_run *run, const tile *one, uf_program *next) {
    uf_shape made = {0};
    if (one->program != NULL) {
        UF_TRY(await_tile(run, one));
        made = uf_tensor_shape(uf_program_output(one->program, run->plan->output));
    }
    if (next != NULL) {
        UF_TRY(start_tile(run, next));
    }
    return one->program != NULL ? store_tile(run, one, &made) : UF_OK;
}

static uf_status run_tiles(tile_run *run) {
    const uf_tile_cut *rows = &run->plan->cuts[0], *columns = &run->plan->cuts[1];
    tile last = {0};
    for (int64_t i = 0; i < rows->count; ++i) {
        const uf_tile_piece *row = &rows->pieces[i];
        if (row->in_end - row->in_begin != run->height) { /* the programs of `last` go */
            UF_TRY(finish_tile(run, &last, NULL));
            last = (tile){0};
        }
        for (int64_t j = 0; j < columns->count; ++j) {
            tile next = {.row = row, .column = &columns->pieces[j]};
            UF_TRY(program_for(run, next.row, next.column, &next.program));
            UF_TRY(read_tile(run, next.row, next.column));
            UF_TRY(finish_tile(run, &last, next.program));
            last = next;
        }
    }
    return finish_tile(run, &last, NULL);
}

/* ---- all passes ---- */

typedef struct tile_pass {
    uf_graph *graph; /* a copy of what the pass needs; owned */
    uf_tile_plan plan;
} tile_pass;

typedef struct tile_passes {
    uf_tile_sums sums;
    tile_pass *list; /* owned; one for each sum, and the last, which makes the output */
    int32_t count;
} tile_passes;

static void free_passes(tile_passes *passes) {
    for (int32_t i = 0; i < passes->count; ++i) {
        uf_tile_plan_free(&passes->list[i].plan);
        uf_graph_destroy(passes->list[i].graph);
    }
    free(passes->list);
    uf_tile_sums_free(&passes->sums);
}

static bool is_one_tile(const uf_tiles_options *options, const uf_shape *in) {
    const int64_t *extent = &in->extent[in->rank - 2];
    return options->tile >= extent[1] && (in->rank == 3 || options->tile >= extent[0]);
}

/* A pass that makes the value `value` of the graph, or the output where there is none. */
static uf_status plan_pass(const tile_passes *passes, const uf_tiles_options *options,
                           const uf_tile_plan *whole, int32_t value, tile_pass *pass) {
    const uf_tile_sums *sums = &passes->sums;
    const uf_graph_ios *outputs = &sums->graph->outputs;
    const bool is_one = is_one_tile(options, &whole->in);
    uf_tiles_options own = *options;
    own.input = whole->input;
    own.output = whole->output;
    own.shape = whole->in;
    if (value != 0) {
        own.area = (uf_tile_area){0, 0, 0, 0};
    } else {
        value = outputs->list[uf_graph_io_find(outputs, whole->output)].value;
    }
    UF_TRY(uf_tile_sums_copy(sums, value, whole->output, !is_one, &pass->graph));
    return is_one ? uf_tile_plan_whole(pass->graph, &own, &pass->plan)
                  : uf_tile_plan_make(pass->graph, &own, &pass->plan);
}

static uf_status plan_passes(const uf_graph *graph, const uf_tiles_options *options,
                             tile_passes *passes) {
    uf_tile_plan whole;
    UF_TRY(uf_tile_plan_begin(graph, options, &whole));
    UF_TRY(uf_tile_sums_find(graph, &whole, &passes->sums));
    const int32_t sums = is_one_tile(options, &whole.in) ? 0 : passes->sums.count;
    passes->list = calloc((size_t)passes->sums.count + 1, sizeof *passes->list);
    if (passes->list == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of tiles");
    }
    for (int32_t i = 0; i <= sums; ++i) {
        const int32_t value = i < sums ? passes->sums.list[i].value : 0;
        passes->count = i + 1;
        UF_TRY(plan_pass(passes, options, &whole, value, &passes->list[i]));
    }
    return UF_OK;
}

static uf_status read_options(const uf_graph *graph, const uf_tiles_options *given,
                              uf_tiles_options *options) {
    *options = uf_tiles_options_default();
    UF_CHECK_ARG(graph != NULL && given != NULL, "uf_tiles: graph or options is NULL");
    return uf_read_struct("uf_tiles_options", given, options, sizeof *options);
}

uf_status uf_tiles_plan_sized(uf_graph *graph, const uf_tiles_options *given, uf_tiles_plan *result,
                              size_t room) {
    UF_CHECK_ARG(result != NULL, "uf_tiles_plan_of: plan is NULL");
    memset(result, 0, room);
    uf_tiles_options options;
    UF_TRY(read_options(graph, given, &options));
    tile_passes passes = {0};
    const uf_status status = plan_passes(graph, &options, &passes);
    if (status == UF_OK) {
        const uf_tile_plan *plan = &passes.list[passes.count - 1].plan;
        const uf_tile_cut *rows = &plan->cuts[0], *columns = &plan->cuts[1];
        uf_tiles_plan known = {
            .struct_size = sizeof known,
            .output = plan->out,
            .rows = rows->count,
            .columns = columns->count,
            .tile = area_shape(&plan->in, rows->longest, columns->longest),
            .overlap = {rows->before, rows->behind, columns->before, columns->behind},
        };
        for (int32_t i = 0; i < passes.count; ++i) {
            const uf_tile_cut *cuts = passes.list[i].plan.cuts;
            known.tiles += cuts[0].count * cuts[1].count;
        }
        uf_give_struct(&known, sizeof known, result, room);
    }
    free_passes(&passes);
    return status;
}

static uf_status run_pass(const uf_tiles_options *options, const tile_passes *passes, int32_t i) {
    const uf_tile_plan *plan = &passes->list[i].plan;
    uf_program_options program = uf_program_options_default();
    UF_TRY(uf_read_struct("uf_program_options", options->program, &program, sizeof program));
    tile_run run = {
        .graph = passes->list[i].graph,
        .options = options,
        .plan = plan,
        .sums = &passes->sums,
        .sum = i < passes->count - 1 ? &passes->sums.list[i] : NULL,
        .dtype = program.dtype == UF_F64 ? UF_F64 : UF_F32,
    };
    const uf_shape largest = area_shape(&plan->in, plan->cuts[0].longest, plan->cuts[1].longest);
    run.in = calloc((size_t)uf_shape_count(&largest), uf_dtype_size(run.dtype));
    if (run.in == NULL) {
        char text[128];
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a tile of %s",
                uf_shape_format(&largest, text, sizeof text));
    }
    const uf_status status = run_tiles(&run);
    forget_programs(&run);
    free(run.in);
    free(run.out);
    if (run.sum != NULL && run.sum->is_mean) {
        const uf_shape *image = &plan->out;
        const int64_t planes = uf_shape_count(&run.sum->shape);
        for (int64_t plane = 0; plane < planes; ++plane) {
            run.sum->planes[plane] /= (double)(uf_shape_count(image) / planes);
        }
    }
    return status;
}

uf_status uf_tiles_run(uf_graph *graph, const uf_tiles_options *given) {
    uf_tiles_options options;
    UF_TRY(read_options(graph, given, &options));
    UF_CHECK_ARG(options.read != NULL && options.write != NULL,
                 "uf_tiles_run: read or write is NULL");
    tile_passes passes = {0};
    uf_status status = plan_passes(graph, &options, &passes);
    for (int32_t i = 0; i < passes.count && status == UF_OK; ++i) {
        status = run_pass(&options, &passes, i);
    }
    free_passes(&passes);
    return status;
}
