/* options.h - the command line of bench_ops. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench.h"

UF_BEGIN_DECLS

enum { BENCH_MOST_LISTS = 8, BENCH_MATHS = 3 };

typedef struct bench_options {
    const char *shapes[BENCH_MOST_LISTS]; /* files */
    int lists;                            /* 0: the default list */
    const char *variant, *only;
    const char *matrix, *commit; /* of every_variant */
    uf_device device;
    int op;         /* -1: all */
    int math;       /* -1: all */
    int dtype;      /* -1: bf16 for math bf16 on a GPU, else f32; 0: f32; 1: f64 */
    int capability; /* 0: the GPU's; else of a GPU that need not be here: nothing is timed */
    bool json, rival, help, every_variant;
    double budget_ms;
} bench_options;

extern const char *const bench_math_names[BENCH_MATHS];
extern const char bench_usage[];

/* False, with a sentence in `error`, when the command line is not one of bench_ops. */
bool bench_options_parse(int argc, char **argv, bench_options *options, char *error,
                         size_t error_size);

/* The type of the tensors in a math; false where that combination is none. */
bool bench_dtype_of(const bench_options *options, int math, bool on_gpu, uf_dtype *dtype);

/* Is the cell one of those that were asked for? */
bool bench_wanted(const bench_options *options, const bench_shape *shape, int op);

/* Values of options that the other benchmarks have too. The index of `name` among `count` names; -1
 * for "all", -2 when it is none of them. The others are false for a value that is none. */
int bench_option_find(const char *name, const char *const *names, int count);
bool bench_option_device(const char *text, uf_device *device);
bool bench_option_budget(const char *text, double *budget);

/* A flag sets *flag to `value`. */
typedef struct bench_flag {
    const char *key;
    bool *flag, value;
} bench_flag;

/* Is `key` one of them? It is set then. */
bool bench_option_flag(const bench_flag *flags, size_t count, const char *key);

/* Does `text` name the row `name`: all of it, or the words before one of its underscores? */
bool bench_option_names(const char *text, const char *name);

/* Both work on the program's own `options`. A flag: is `key` one? An option with a value: 1, 0 when
 * the value is none of its, -1 when the key is none. */
typedef bool bench_take_flag(void *options, const char *key);
typedef int bench_take_value(void *options, const char *key, const char *value);

/* False, with a sentence in `error`, where an argument is neither. */
bool bench_options_walk(int argc, char **argv, bench_take_flag *take_flag, bench_take_value *take,
                        void *options, char *error, size_t error_size);

UF_END_DECLS

#endif
