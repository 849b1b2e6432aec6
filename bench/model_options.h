/* model_options.h - the command line of bench_models. */
#ifndef BENCH_MODEL_OPTIONS_H
#define BENCH_MODEL_OPTIONS_H

#include "models/model.h"
#include "options.h"

UF_BEGIN_DECLS

typedef struct bench_model_options {
    const char *model; /* NULL: all */
    int math;          /* -1: all */
    uf_dtype dtype;
    int64_t batch; /* 0: those of each model */
    uf_device device;
    int32_t threads; /* 0: the context's default */
    bool json, list, quick, capture, kernels, help;
    double budget_ms;
} bench_model_options;

extern const char bench_models_usage[];

/* False, with a sentence in `error`, when the command line is not one of bench_models. */
bool bench_model_options_parse(int argc, char **argv, bench_model_options *options, char *error,
                               size_t error_size);

/* Was the row asked for: by its name, or by the words that its name begins with? */
bool bench_model_wanted(const bench_model_options *options, const bench_model_row *row);

/* The row's size number `index`; false: there are fewer. */
bool bench_model_size_of(const bench_model_options *options, const bench_model_row *row, int index,
                         bench_model_size *size);

UF_END_DECLS

#endif
