/* layer_options.h - the command line of bench_layers. */
#ifndef BENCH_LAYER_OPTIONS_H
#define BENCH_LAYER_OPTIONS_H

#include "layer_rows.h"
#include "options.h"

UF_BEGIN_DECLS

typedef struct bench_layer_options {
    const char *layer; /* NULL: all */
    uf_dtype dtype;
    uf_device device;
    bool json, list, quick, help;
    double budget_ms;
} bench_layer_options;

extern const char bench_layers_usage[];

/* False, with a sentence in `error`, when the command line is not one of bench_layers. */
bool bench_layer_options_parse(int argc, char **argv, bench_layer_options *options, char *error,
                               size_t error_size);

/* Was the row asked for: by its name, or by the words that its name begins with? */
bool bench_layer_wanted(const bench_layer_options *options, const bench_layer_row *row);

UF_END_DECLS

#endif
