/* main.c - runs a model of the zoo and compares its outputs.
 *
 *   zoo list
 *   zoo MODEL WEIGHTS.h5 DATA.h5 [--size test|real] [--mode eval|train] [--dtype f32|f64]
 *                                [--device auto|cpu|cuda] [--threads N] [--limit X] [--runs N]
 *
 * WEIGHTS.h5 is a state_dict as `f[k] = v.cpu().numpy()` writes it. DATA.h5 has a dataset
 * inputs/NAME for each input and outputs/NAME for each output. Exit status 1: an output differs
 * from the file's by more than --limit (1e-5) times the file's largest number. With --runs it runs
 * as often again and prints the times of the fastest run and of the median in milliseconds. */
#include "zoo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct settings {
    const char *model, *weights, *data, *size, *mode, *dtype, *device, *threads, *limit, *runs;
} settings;

static void must(uf_status status) {
    if (status != UF_OK) {
        fprintf(stderr, "zoo: %s\n", uf_last_error());
        exit(2);
    }
}

static void fail(const char *what, const char *name) {
    fprintf(stderr, "zoo: %s '%s'; main.c has the usage\n", what, name);
    exit(2);
}

static void *numbers(int64_t count) {
    void *memory = malloc((size_t)count * sizeof(double));
    if (memory == NULL) {
        fail("out of memory for", "an input or output");
    }
    return memory;
}

static int list(void) {
    for (int i = 0; i < zoo_model_count; ++i) {
        const zoo_model *model = &zoo_models[i];
        const zoo_size *const sizes[] = {&model->test, &model->real};
        for (int real = 0; real < 2; ++real) {
            const zoo_size *s = sizes[real];
            printf("%s %s batch=%lld side=%lld channels=%lld features=%lld blocks=%lld "
                   "latent=%lld\n",
                   model->name, real == 0 ? "test" : "real", (long long)s->batch,
                   (long long)s->side, (long long)s->channels, (long long)s->features,
                   (long long)s->blocks, (long long)s->latent);
        }
    }
    return 0;
}

static settings parse(int argc, char **argv) {
    settings s = {.size = "test",
                  .mode = "eval",
                  .dtype = "f32",
                  .device = "auto",
                  .threads = "0",
                  .limit = "1e-5",
                  .runs = "0"};
    const struct {
        const char *name, **place;
    } options[] = {{"--size", &s.size},     {"--mode", &s.mode},       {"--dtype", &s.dtype},
                   {"--device", &s.device}, {"--threads", &s.threads}, {"--limit", &s.limit},
                   {"--runs", &s.runs}};
    const char **const words[] = {&s.model, &s.weights, &s.data};
    int word = 0;
    for (int i = 1; i < argc; ++i) {
        const char **place = word < 3 ? words[word] : NULL;
        if (argv[i][0] == '-') {
            place = NULL;
            for (size_t n = 0; n < sizeof options / sizeof options[0]; ++n) {
                place = strcmp(argv[i], options[n].name) == 0 ? options[n].place : place;
            }
            if (place == NULL || ++i == argc) {
                fail("no option, or one without its value:", argv[i < argc ? i : argc - 1]);
            }
        } else {
            ++word;
        }
        if (place == NULL) {
            fail("one word too many:", argv[i]);
        }
        *place = argv[i];
    }
    if (s.data == NULL) {
        fail("a model, its weights and its data are wanted, not", s.model == NULL ? "" : s.model);
    }
    return s;
}

/* The place of `word` among `choices`, which NULL ends. */
static int choice(const char *word, const char *const *choices) {
    for (int i = 0; choices[i] != NULL; ++i) {
        if (strcmp(word, choices[i]) == 0) {
            return i;
        }
    }
    fail("no such choice:", word);
    return 0;
}

static const zoo_model *find(const char *name) {
    for (int i = 0; i < zoo_model_count; ++i) {
        if (strcmp(zoo_models[i].name, name) == 0) {
            return &zoo_models[i];
        }
    }
    fail("no such model:", name);
    return NULL;
}

/* Read the dataset folder/name, which has the tensor's shape; the caller frees it. */
static void *read(const char *path, const char *folder, const char *name, const uf_tensor *tensor) {
    const uf_dtype dtype = uf_tensor_dtype(tensor) == UF_I64 ? UF_I64 : UF_F64;
    const uf_shape wanted = uf_tensor_shape(tensor);
    void *data = numbers(uf_tensor_count(tensor));
    char dataset[256];
    uf_shape shape;
    (void)snprintf(dataset, sizeof dataset, "%s/%s", folder, name);
    must(uf_hdf5_read(path, dataset, dtype, &shape, data, uf_tensor_count(tensor)));
    if (!uf_shape_equal(&shape, &wanted)) {
        fail("another shape than the model's has", dataset);
    }
    return data;
}

static void set_inputs(uf_program *program, const char *path) {
    for (int32_t i = 0; i < uf_program_input_count(program); ++i) {
        const char *name = uf_program_input_name(program, i);
        uf_tensor *input = uf_program_input(program, name);
        void *data = read(path, "inputs", name, input);
        const uf_dtype dtype = uf_tensor_dtype(input) == UF_I64 ? UF_I64 : UF_F64;
        must(uf_tensor_upload_as(input, dtype, data, uf_tensor_count(input)));
        free(data);
    }
}

/* Compare each output with the file's; false where one differs by more than `limit`, or is not a
 * finite number. */
static bool compare(uf_program *program, const settings *s) {
    const double limit = strtod(s->limit, NULL);
    bool all = true;
    for (int32_t i = 0; i < uf_program_output_count(program); ++i) {
        const char *name = uf_program_output_name(program, i);
        uf_tensor *output = uf_program_output(program, name);
        const int64_t count = uf_tensor_count(output);
        double *wanted = read(s->data, "outputs", name, output), *got = numbers(count);
        double largest = 0.0, difference = 0.0;
        bool finite = true;
        must(uf_tensor_download_as(output, UF_F64, got, count));
        for (int64_t k = 0; k < count; ++k) {
            largest = fmax(largest, fabs(wanted[k]));
            difference = fmax(difference, fabs(got[k] - wanted[k]));
            finite = finite && isfinite(got[k]) && isfinite(wanted[k]);
        }
        const bool fits = finite && difference <= limit * largest;
        char shape[128];
        const uf_shape extents = uf_tensor_shape(output);
        printf("%s %s %s: %s %s, largest %.3g, largest difference %.3g%s\n", s->model, s->mode,
               s->dtype, name, uf_shape_format(&extents, shape, sizeof shape), largest, difference,
               fits     ? ""
               : finite ? ": TOO LARGE"
                        : ": NOT FINITE");
        all = all && fits;
        free(got);
        free(wanted);
    }
    return all;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void measure(uf_context *context, uf_program *program, const char *name, int runs) {
    double *times = numbers(runs);
    for (int i = 0; i < runs; ++i) {
        const double start = milliseconds();
        must(uf_program_run(program));
        must(uf_context_synchronize(context));
        times[i] = milliseconds() - start;
    }
    qsort(times, (size_t)runs, sizeof times[0], by_size);
    printf("%s: fastest %.3f ms, median %.3f ms\n", name, times[0], times[runs / 2]);
    free(times);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        return list();
    }
    const settings s = parse(argc, argv);
    const zoo_model *model = find(s.model);
    const int device = choice(s.device, (const char *const[]){"auto", "cpu", "cuda", NULL});
    const bool real = choice(s.size, (const char *const[]){"test", "real", NULL}) == 1;
    const bool train = choice(s.mode, (const char *const[]){"eval", "train", NULL}) == 1;
    const bool f64 = choice(s.dtype, (const char *const[]){"f32", "f64", NULL}) == 1;

    uf_context_options options = uf_context_options_default();
    options.device = (const uf_device[]){UF_DEVICE_AUTO, UF_DEVICE_CPU, UF_DEVICE_CUDA}[device];
    options.threads = atoi(s.threads) > 0 ? atoi(s.threads) : options.threads;
    uf_store_options store_options = uf_store_options_default();
    uf_program_options program_options = uf_program_options_default();
    store_options.dtype = program_options.dtype = f64 ? UF_F64 : UF_F32;
    program_options.mode = train ? UF_TRAIN : UF_EVAL;

    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    must(uf_context_create(&options, &context));
    must(uf_store_create_with(context, model->name, &store_options, &store));
    must(uf_graph_create(context, &graph));
    model->build(graph, store, real ? &model->real : &model->test);
    must(uf_graph_status(graph));
    must(uf_store_load_hdf5(store, s.weights, NULL));
    must(uf_program_compile(graph, &program_options, &program));
    set_inputs(program, s.data);
    must(uf_program_run(program));
    const bool fits = compare(program, &s);
    if (atoi(s.runs) > 0) {
        measure(context, program, model->name, atoi(s.runs));
    }
    uf_context_destroy(context);
    return fits ? 0 : 1;
}
