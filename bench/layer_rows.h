/* layer_rows.h - the single layers that bench_layers times, built through the public headers. */
#ifndef BENCH_LAYER_ROWS_H
#define BENCH_LAYER_ROWS_H

#include <unfurl/unfurl.h>

UF_BEGIN_DECLS

/* Extents of the values: pictures (batch, channels, height, width), and as many elements as rows of
 * features (batch, tokens, features). */
typedef struct bench_layer_size {
    int64_t batch, channels, height, width, tokens, features;
} bench_layer_size;

/* 268 MB a value: of two bytes an element the batch is twice as large. `quick`: a test's. */
bench_layer_size bench_layer_size_of(uf_dtype dtype, bool quick);

enum { BENCH_LAYER_INPUTS = 2 };

/* An input, and the numbers that it is filled with. */
typedef struct bench_layer_input {
    const char *name;
    uf_value value;
    double low, high; /* real: uniform between these; indices: 0 to high - 1 */
    bool indices;
    bool wanted; /* its gradient */
} bench_layer_input;

/* A graph with one layer. */
typedef struct bench_layer_graph {
    uf_graph *graph;
    uf_store *store;
    bench_layer_size size;
    bench_layer_input inputs[BENCH_LAYER_INPUTS];
    int32_t input_count;
} bench_layer_graph;

/* Facts that the graph does not tell. */
enum {
    BENCH_LAYER_EVAL = 1,        /* compiled for EVAL; TRAIN otherwise */
    BENCH_LAYER_POSITIVE = 2,    /* real inputs are between 0.1 and 0.9 */
    BENCH_LAYER_READS_PART = 4,  /* forward reads no more of its first input than it writes, and
                                    nothing of another */
    BENCH_LAYER_READS_SHAPE = 8, /* forward reads no element */
    BENCH_LAYER_LOOKS_UP = 16,   /* backward does not read the parameters */
    /* Sums over more than a CTA holds come before the first result: a kernel that goes through the
     * memory reads x, and backward the output's gradient too, a second time. */
    BENCH_LAYER_SUMS_FIRST = 32
};

typedef struct bench_layer_row bench_layer_row;

/* Builds the row's inputs and its layer; errors are the graph's. */
typedef uf_value bench_layer_build(const bench_layer_row *row, bench_layer_graph *g);

struct bench_layer_row {
    const char *name; /* of the function in layers.h without its prefix, and a word for the case */
    bench_layer_build *build;
    uint32_t facts; /* BENCH_LAYER_... */
    /* of the builders that rows share */
    uf_value (*unary)(uf_graph *graph, uf_value input);
    uf_value (*numbered)(uf_graph *graph, uf_value input, double number);
    uf_value (*bounded)(uf_graph *graph, uf_value input, double low, double high);
    uf_value (*binary)(uf_graph *graph, uf_value a, uf_value b);
    double number, maximum;
    uf_loss_kind loss;
    uf_reduction reduction;
    uf_pad_mode pad;
    int32_t axes[4], axis_count; /* -1 from the last; permute, sum and mean, softmax */
};

extern const bench_layer_row bench_layer_rows[];
extern const int32_t bench_layer_row_count;

UF_END_DECLS

#endif
