/* replay.c - reading numbers of a case, running it as a graph, noting how far the results are. */
#include "parity/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The path of a dataset of the group; false when it is longer than any in a file can be. */
static bool join(const struct replay *replay, const char *name, char path[PARITY_PATH_SIZE]) {
    return snprintf(path, PARITY_PATH_SIZE, "%s/%s", replay->group, name) < PARITY_PATH_SIZE;
}

/* NULL: the group has no dataset of this name. */
static const uf_hdf5_entry *find_entry(const struct replay *replay, const char *name) {
    char path[PARITY_PATH_SIZE];
    if (!join(replay, name, path)) {
        return NULL;
    }
    for (int64_t i = 0; i < replay->entry_count; i++) {
        if (strcmp(replay->entries[i].name, path) == 0) {
            return &replay->entries[i];
        }
    }
    return NULL;
}

bool parity_has(const struct replay *replay, const char *name) {
    return find_entry(replay, name) != NULL;
}

/* Does the dataset hold integers? */
static bool has_integers(const struct replay *replay, const char *name) {
    const uf_hdf5_entry *entry = find_entry(replay, name);
    return entry != NULL && (entry->type[0] == 'i' || entry->type[0] == 'u');
}

int parity_read_array(const struct replay *replay, const char *name, struct array *array) {
    char path[PARITY_PATH_SIZE];
    memset(array, 0, sizeof *array);
    if (!join(replay, name, path)) {
        return fail("the name of %s is too long", replay->group);
    }
    TRY_LIBRARY(uf_hdf5_read(replay->file, path, UF_F64, &array->shape, NULL, 0));
    array->count = uf_shape_count(&array->shape);
    array->values = malloc(((size_t)array->count + 1) * sizeof *array->values);
    if (array->values == NULL) {
        return fail("out of memory for the %" PRId64 " values of %s", array->count, path);
    }
    if (uf_hdf5_read(replay->file, path, UF_F64, &array->shape, array->values, array->count) !=
        UF_OK) {
        free(array->values);
        array->values = NULL;
        return fail_library();
    }
    return EXIT_DONE;
}

/* Numbers of an attribute of the group; `count` of them must be there. Absent: the fallback
 * stays. */
int parity_read_attribute(const struct replay *replay, const char *name, double *values,
                          int32_t count) {
    double found[8];
    int32_t have = 0;
    const uf_status status =
        uf_hdf5_read_attribute(replay->file, replay->group, name, found, 8, &have);
    if (status == UF_ERROR_NOT_FOUND) {
        return EXIT_DONE;
    }
    if (status != UF_OK) {
        return fail_library();
    }
    if (have != count) {
        return fail("attribute %s of %s holds %d numbers, not %d", name, replay->group, (int)have,
                    (int)count);
    }
    memcpy(values, found, (size_t)count * sizeof *values);
    return EXIT_DONE;
}

int parity_read_integers(const struct replay *replay, const char *name, int64_t *values,
                         int32_t count) {
    double numbers[8];
    for (int32_t i = 0; i < count; i++) {
        numbers[i] = (double)values[i];
    }
    TRY(parity_read_attribute(replay, name, numbers, count));
    for (int32_t i = 0; i < count; i++) {
        /* Beyond 2^53 a double does not say which integer it is; NaN is no integer either. */
        if (!(fabs(numbers[i]) <= 0x1p53) || floor(numbers[i]) != numbers[i]) {
            return fail("attribute %s of %s is %g; it must be an integer", name, replay->group,
                        numbers[i]);
        }
        values[i] = (int64_t)numbers[i];
    }
    return EXIT_DONE;
}

/* Note how far `have` is from `want`. An expected value that is not finite is met by the same one
 * alone, an infinity by the same infinity and NaN by NaN; all else that is not finite is infinitely
 * far. Only finite values make the scale: beside an infinite one every difference would be none. It
 * begins as `scale`. */
static void note_on_scale(struct replay *replay, const double *have, const double *want,
                          int64_t count, double scale) {
    double difference = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const bool same = have[i] == want[i] || (isnan(have[i]) && isnan(want[i]));
        const double d = same ? 0.0 : fabs(have[i] - want[i]);
        difference = isfinite(d) ? fmax(difference, d) : (double)INFINITY;
        scale = isfinite(want[i]) ? fmax(scale, fabs(want[i])) : scale;
    }
    replay->error = fmax(replay->error, scale > 0.0 ? difference / scale : difference);
}

void parity_note(struct replay *replay, const double *have, const double *want, int64_t count) {
    note_on_scale(replay, have, want, count, 0.0);
}

/* The scale is `least` at least. */
static int compare_on_scale(struct replay *replay, uf_tensor *tensor, const char *name,
                            double least) {
    struct array want;
    TRY(parity_read_array(replay, name, &want));
    double *have = malloc(((size_t)want.count + 1) * sizeof *have);
    if (tensor == NULL || have == NULL || uf_tensor_count(tensor) != want.count) {
        free(have);
        free(want.values);
        return fail("%s/%s has another size than the result", replay->group, name);
    }
    const uf_status status = uf_tensor_download_as(tensor, UF_F64, have, want.count);
    if (status == UF_OK) {
        note_on_scale(replay, have, want.values, want.count, least);
    }
    free(have);
    free(want.values);
    return status == UF_OK ? EXIT_DONE : fail_library();
}

int parity_compare(struct replay *replay, uf_tensor *tensor, const char *name) {
    return compare_on_scale(replay, tensor, name, 0.0);
}

int parity_begin(const struct replay *replay, struct layer_run *run, ...) {
    uf_store_options options = uf_store_options_default();
    memset(run, 0, sizeof *run);
    options.dtype = replay->dtype;
    TRY_LIBRARY(uf_store_create_with(replay->context, replay->group, &options, &run->store));
    TRY_LIBRARY(uf_graph_create(replay->context, &run->graph));
    va_list names;
    va_start(names, run);
    int status = EXIT_DONE;
    for (const char *name = va_arg(names, const char *); name != NULL && status == EXIT_DONE;
         name = va_arg(names, const char *)) {
        struct array input;
        status = parity_read_array(replay, name, &input);
        if (status == EXIT_DONE) {
            run->names[run->input_count] = name;
            run->inputs[run->input_count++] = has_integers(replay, name)
                                                  ? uf_input_i64(run->graph, name, input.shape)
                                                  : uf_input(run->graph, name, input.shape);
            free(input.values);
        }
    }
    va_end(names);
    return status;
}

void parity_end(struct layer_run *run) {
    uf_program_destroy(run->program);
    uf_graph_destroy(run->graph);
    uf_store_destroy(run->store);
}

/* Fill a tensor from a dataset of the group. */
int parity_upload(const struct replay *replay, uf_tensor *tensor, const char *name) {
    struct array array;
    TRY(parity_read_array(replay, name, &array));
    const uf_status status = uf_tensor_upload_as(tensor, UF_F64, array.values, array.count);
    free(array.values);
    return status == UF_OK ? EXIT_DONE : fail_library();
}

/* Each tensor of the store from the dataset of its name, or NAME_before. */
static int load_parameters(const struct replay *replay, const struct layer_run *run) {
    TRY_LIBRARY(uf_store_seal(run->store));
    for (int64_t i = 0; i < uf_store_size(run->store); i++) {
        char before[PARITY_PATH_SIZE];
        uf_store_entry entry;
        uf_tensor *tensor;
        TRY_LIBRARY(uf_store_entry_at(run->store, i, &entry));
        TRY_LIBRARY(uf_store_tensor(run->store, entry.name, &tensor));
        snprintf(before, sizeof before, "%s_before", entry.name);
        if (parity_has(replay, entry.name) || parity_has(replay, before)) {
            TRY(parity_upload(replay, tensor, parity_has(replay, before) ? before : entry.name));
        }
    }
    return EXIT_DONE;
}

/* Parameters' gradients against grad_NAME, buffers against NAME_after. */
static int compare_parameters(struct replay *replay, const struct layer_run *run) {
    for (int64_t i = 0; i < uf_store_size(run->store); i++) {
        char name[PARITY_PATH_SIZE];
        uf_store_entry entry;
        uf_tensor *tensor;
        TRY_LIBRARY(uf_store_entry_at(run->store, i, &entry));
        snprintf(name, sizeof name, "grad_%s", entry.name);
        if (entry.role == UF_ROLE_PARAMETER && parity_has(replay, name)) {
            TRY_LIBRARY(uf_store_gradient(run->store, entry.name, &tensor));
            TRY(parity_compare(replay, tensor, name));
        }
        snprintf(name, sizeof name, "%s_after", entry.name);
        if (parity_has(replay, name)) {
            TRY_LIBRARY(uf_store_tensor(run->store, entry.name, &tensor));
            TRY(parity_compare(replay, tensor, name));
        }
    }
    return EXIT_DONE;
}

static bool has_gradient(const struct replay *replay, const char *input) {
    char name[PARITY_PATH_SIZE];
    snprintf(name, sizeof name, "grad_%s", input);
    return parity_has(replay, name);
}

int parity_run_layer(struct replay *replay, struct layer_run *run, const char *output) {
    uf_pass pass;
    uf_program_options options = uf_program_options_default();
    uf_value wanted[PARITY_INPUTS];
    int32_t wanted_count = 0;
    for (int32_t i = 0; i < run->input_count; i++) {
        if (has_gradient(replay, run->names[i])) {
            wanted[wanted_count++] = run->inputs[i];
        }
    }
    memset(&pass, 0, sizeof pass);
    pass.losses = &run->output;
    pass.loss_count = 1;
    pass.stores = &run->store;
    pass.store_count = uf_store_size(run->store) > 0 ? 1 : 0;
    pass.inputs = wanted;
    pass.input_count = wanted_count;
    pass.external_seeds = true;
    options.dtype = replay->dtype;
    options.mode = run->mode;
    options.passes = &pass;
    options.pass_count = 1;
    uf_output(run->graph, "output", run->output);
    TRY_LIBRARY(uf_graph_status(run->graph));
    TRY(load_parameters(replay, run));
    TRY_LIBRARY(uf_program_compile(run->graph, &options, &run->program));
    for (int32_t i = 0; i < run->input_count; i++) {
        TRY(parity_upload(replay, uf_program_input(run->program, run->names[i]), run->names[i]));
    }
    if (parity_has(replay, "grad_output")) {
        TRY(parity_upload(replay, uf_program_seed(run->program, 0, 0), "grad_output"));
    }
    TRY_LIBRARY(uf_program_run(run->program));
    TRY(parity_compare(replay, uf_program_output(run->program, "output"), output));
    for (int32_t i = 0; i < run->input_count; i++) {
        if (has_gradient(replay, run->names[i])) {
            char name[PARITY_PATH_SIZE];
            snprintf(name, sizeof name, "grad_%s", run->names[i]);
            uf_tensor *gradient = uf_program_gradient(run->program, 0, run->inputs[i]);
            TRY(compare_on_scale(replay, gradient, name, run->term_size));
        }
    }
    return compare_parameters(replay, run);
}
