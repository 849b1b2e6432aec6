/* run_check.c - `unfurl run --check`: a model's values beside those of a reference.
 *
 * The reference has datasets inputs/NAME, values/NAME and outputs/NAME, each of them optional.
 * Values are compared in the order of the graph, so that the first one that differs is the layer to
 * look at. They come from a second run, with each of them an output: in the first one, layers are
 * fused as in any run, and its outputs are those that are compared. */
#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json.h"

enum { DATASET_SIZE = 2 * UF_NAME_SIZE };

/* Has the reference this dataset? */
static bool has(const struct run_work *work, const char *folder, const char *name,
                char dataset[DATASET_SIZE]) {
    uf_shape shape;
    snprintf(dataset, DATASET_SIZE, "%s/%s", folder, name);
    return uf_hdf5_read(work->arguments->check, dataset, UF_F64, &shape, NULL, 0) == UF_OK;
}

static int read_reference(const struct run_work *work, const char *dataset, uf_dtype dtype,
                          struct values *values) {
    const char *path = work->arguments->check;
    uf_shape shape;
    TRY_LIBRARY(uf_hdf5_read(path, dataset, dtype, &shape, NULL, 0));
    TRY(values_create(dtype, shape, values));
    TRY_LIBRARY(uf_hdf5_read(path, dataset, dtype, &shape, values->data, uf_shape_count(&shape)));
    return EXIT_DONE;
}

int run_check_inputs(struct run_work *work) {
    char dataset[DATASET_SIZE];
    for (int32_t i = 0; i < work->input_count; i++) {
        if (work->inputs[i].data == NULL && has(work, "inputs", work->shapes[i].input, dataset)) {
            const uf_dtype dtype = uf_model_input_dtype(work->model, i) == UF_I64 ? UF_I64 : UF_F64;
            TRY(read_reference(work, dataset, dtype, &work->inputs[i]));
        }
    }
    return EXIT_DONE;
}

/* Make the values that the reference has outputs of the graph; how many are they? */
static int add_values(struct run_work *work, int64_t *count) {
    char dataset[DATASET_SIZE];
    *count = 0;
    for (int32_t i = 0; i < uf_model_value_count(work->model); i++) {
        const char *name = uf_model_value_name(work->model, i);
        uf_value value;
        if (has(work, "values", name, dataset) && strlen(dataset) < UF_NAME_SIZE) {
            TRY_LIBRARY(uf_model_value(work->model, name, &value));
            uf_output(uf_model_graph(work->model), dataset, value);
            *count += 1;
        }
    }
    TRY_LIBRARY(uf_graph_status(uf_model_graph(work->model)));
    return EXIT_DONE;
}

/* ---- comparing ---- */

struct check {
    double limit, worst; /* of the largest number */
    char worst_name[DATASET_SIZE];
    int64_t count, differing;
    char first[1024]; /* a sentence about the first that differs */
};

static void describe(struct check *check, const char *name, const struct values *wanted,
                     const struct values *got, int64_t at, double difference, double largest) {
    char shape[128], text[UF_MAX_RANK * 24] = "";
    int64_t rest = at;
    uf_shape place = wanted->shape;
    for (int32_t i = place.rank - 1; i >= 0; i--) {
        place.extent[i] = rest % wanted->shape.extent[i];
        rest /= wanted->shape.extent[i];
    }
    uf_shape_format(&place, text, sizeof text);
    snprintf(check->first, sizeof check->first,
             "%s %s is the first that differs: %.9g at %s, the reference has %.9g; %.3g of its "
             "largest number, %.6g, and the limit is %g",
             name, uf_shape_format(&wanted->shape, shape, sizeof shape),
             ((const double *)got->data)[at], text, ((const double *)wanted->data)[at],
             difference / largest, largest, check->limit);
}

static void compare(struct check *check, const char *name, const struct values *wanted,
                    const struct values *got) {
    const int64_t count = uf_shape_count(&wanted->shape);
    double largest = 0.0, worst = 0.0;
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = ((const double *)wanted->data)[i], b = ((const double *)got->data)[i];
        const double difference = isfinite(a) && isfinite(b) ? fabs(a - b) : HUGE_VAL;
        largest = isfinite(a) ? fmax(largest, fabs(a)) : largest;
        at = difference > worst ? i : at;
        worst = fmax(worst, difference);
    }
    largest = largest > 0.0 ? largest : 1.0;
    check->count++;
    if (worst / largest > check->worst || check->worst_name[0] == '\0') {
        check->worst = worst / largest;
        snprintf(check->worst_name, sizeof check->worst_name, "%s", name);
    }
    if (worst > check->limit * largest) {
        if (check->differing++ == 0) {
            describe(check, name, wanted, got, at, worst, largest);
        }
    }
}

/* An output of the program beside a dataset of the reference. */
static int compare_output(const struct run_work *work, struct check *check, const char *name,
                          const char *dataset) {
    struct values wanted = {0}, got = {0};
    char text[128], other[128];
    const uf_tensor *output = uf_program_output(work->program, name);
    if (output == NULL) {
        return fail_library();
    }
    int status = read_reference(work, dataset, UF_F64, &wanted);
    if (status == EXIT_DONE) {
        status = run_download(output, &got);
    }
    if (status == EXIT_DONE && !uf_shape_equal(&wanted.shape, &got.shape)) {
        status = fail("%s is %s; %s in %s is %s", name,
                      uf_shape_format(&got.shape, text, sizeof text), dataset,
                      work->arguments->check, uf_shape_format(&wanted.shape, other, sizeof other));
    }
    if (status == EXIT_DONE) {
        compare(check, dataset, &wanted, &got);
    }
    values_free(&wanted);
    values_free(&got);
    return status;
}

static bool is_value(const char *name) {
    return strncmp(name, "values/", 7) == 0;
}

/* The outputs of a run. */
static int compare_outputs(const struct run_work *work, struct check *check) {
    char dataset[DATASET_SIZE];
    for (int32_t i = 0; i < uf_program_output_count(work->program); i++) {
        const char *name = uf_program_output_name(work->program, i);
        if (has(work, "outputs", name, dataset)) {
            TRY(compare_output(work, check, name, dataset));
        }
    }
    return EXIT_DONE;
}

/* The values of a second run, in the graph's order. */
static int compare_values(struct run_work *work, struct check *check) {
    int64_t added;
    TRY(add_values(work, &added));
    if (added == 0) {
        return EXIT_DONE;
    }
    uf_program_destroy(work->program);
    work->program = NULL;
    TRY(run_compute(work));
    for (int32_t i = 0; i < uf_program_output_count(work->program); i++) {
        const char *name = uf_program_output_name(work->program, i);
        if (is_value(name)) {
            TRY(compare_output(work, check, name, name));
        }
    }
    return EXIT_DONE;
}

/* Appends the results of the outputs to those of the values. */
static void join(struct check *check, const struct check *outputs) {
    if (outputs->worst > check->worst || check->worst_name[0] == '\0') {
        check->worst = outputs->worst;
        memcpy(check->worst_name, outputs->worst_name, sizeof check->worst_name);
    }
    if (check->differing == 0) {
        memcpy(check->first, outputs->first, sizeof check->first);
    }
    check->count += outputs->count;
    check->differing += outputs->differing;
}

static int read_limit(const struct run_arguments *arguments, double *limit) {
    char *end = NULL;
    *limit = 1e-5;
    if (arguments->limit != NULL) {
        *limit = strtod(arguments->limit, &end);
        if (*end != '\0' || !(*limit >= 0.0) || !isfinite(*limit)) {
            return fail_usage("run: --limit is '%s'; it takes a number of 0 or more",
                              arguments->limit);
        }
    }
    return EXIT_DONE;
}

static void report(const struct run_work *work, const struct check *check) {
    const struct run_arguments *arguments = work->arguments;
    if (!arguments->run.json) {
        if (check->differing == 0) {
            say("%s: %" PRId64 " values agree; the largest difference is %.3g, of %s",
                arguments->path, check->count, check->worst, check->worst_name);
        }
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "model", arguments->path);
    json_text(&json, "reference", arguments->check);
    runtime_report(&json, work->context, runtime_dtype(&arguments->run));
    json_integer(&json, "compared", check->count);
    json_integer(&json, "differing", check->differing);
    json_number(&json, "limit", check->limit);
    json_number(&json, "worst", check->worst);
    json_text(&json, "worst_name", check->worst_name);
    json_text(&json, "first", check->first);
    json_close(&json, '}');
}

int run_check(struct run_work *work) {
    struct check check = {0}, outputs = {0};
    TRY(read_limit(work->arguments, &check.limit));
    outputs.limit = check.limit;
    TRY(compare_outputs(work, &outputs));
    TRY(compare_values(work, &check));
    join(&check, &outputs);
    if (check.count == 0) {
        return fail("%s has no values and no outputs of this model", work->arguments->check);
    }
    report(work, &check);
    return check.differing == 0 ? EXIT_DONE
                                : fail("%s; %" PRId64 " of %" PRId64 " values differ", check.first,
                                       check.differing, check.count);
}
