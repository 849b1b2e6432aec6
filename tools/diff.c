/* diff.c - `unfurl diff`: by how much the tensors of two files differ. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "model_text.h"
#include "text.h"
#include "weights.h"

struct diff_arguments {
    const char *path[2];
    const char *tolerance;
    bool trust, json;
};

/* The outcome of one name. */
enum verdict { SAME, DIFFERENT, OTHER_SHAPE, NO_NUMBERS, ONLY_FIRST, ONLY_SECOND };
static const char *const verdicts[] = {"same",         "different",         "of another shape",
                                       "not compared", "only in the first", "only in the second"};

struct pair {
    const struct weights_row *row[2]; /* NULL where a file lacks it */
    enum verdict verdict;
    bool is_text;              /* the graph of two model files: there are no differences to print */
    double absolute, relative; /* the largest; infinite where only one is a number */
};

struct comparison {
    struct weights weights[2];
    struct pair *pairs;
    int64_t count, different, not_compared;
    double tolerance;
    bool trust;
};

/* Dots and slashes separate parts alike. */
static int compare_names(const char *a, const char *b) {
    for (;; a++, b++) {
        const char left = *a == '/' ? '.' : *a, right = *b == '/' ? '.' : *b;
        if (left != right || left == '\0') {
            return (unsigned char)left - (unsigned char)right;
        }
    }
}

/* a.b and a/b, of one file, are in the same order in every file. */
static int compare_rows(const void *a, const void *b) {
    const char *one = ((const struct weights_row *)a)->entry.name;
    const char *other = ((const struct weights_row *)b)->entry.name;
    const int order = compare_names(one, other);
    return order != 0 ? order : strcmp(one, other);
}

static int compare_pairs(const void *a, const void *b) {
    const struct pair *one = a, *other = b;
    const struct weights_row *left = one->row[one->row[0] == NULL];
    const struct weights_row *right = other->row[other->row[0] == NULL];
    return text_compare(left->entry.name, right->entry.name);
}

/* Two finite numbers differ by distance / scale, and the larger of them is largest / scale. */
static void add_difference(struct pair *pair, double distance, double largest, double scale,
                           double tolerance) {
    pair->absolute = fmax(pair->absolute, distance / scale);
    pair->relative = fmax(pair->relative, distance / largest);
    if (distance > tolerance * fmax(scale, largest)) {
        pair->verdict = DIFFERENT;
    }
}

/* Equal infinities and two NaN are the same. Nothing else is near what is not finite. */
static void compare_reals(struct pair *pair, double a, double b, double tolerance) {
    if (a == b || (isnan(a) && isnan(b))) {
        return;
    }
    if (!isfinite(a) || !isfinite(b)) {
        pair->absolute = pair->relative = (double)INFINITY;
        pair->verdict = DIFFERENT;
        return;
    }
    const double scale = isfinite(a - b) ? 1.0 : 0.5; /* the distance may be beyond all doubles */
    add_difference(pair, fabs(a * scale - b * scale), fmax(fabs(a), fabs(b)) * scale, scale,
                   tolerance);
}

/* A double does not tell all integers apart, and their difference may need 65 bits. */
static void compare_integers(struct pair *pair, int64_t a, int64_t b, double tolerance) {
    if (a != b) {
        const uint64_t distance = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
        add_difference(pair, (double)distance, fmax(fabs((double)a), fabs((double)b)), 1.0,
                       tolerance);
    }
}

static int compare_values(const struct comparison *all, struct pair *pair) {
    void *values[2] = {NULL, NULL};
    const bool integers =
        weights_is_integer(&pair->row[0]->entry) && weights_is_integer(&pair->row[1]->entry);
    const uf_dtype dtype = integers ? UF_I64 : UF_F64;
    int status = weights_read(&all->weights[0], pair->row[0], dtype, &values[0]);
    if (status == EXIT_DONE) {
        status = weights_read(&all->weights[1], pair->row[1], dtype, &values[1]);
    }
    const int64_t count = uf_shape_count(&pair->row[0]->entry.shape);
    for (int64_t i = 0; i < count && status == EXIT_DONE; i++) {
        if (integers) {
            compare_integers(pair, ((const int64_t *)values[0])[i], ((const int64_t *)values[1])[i],
                             all->tolerance);
        } else {
            compare_reals(pair, ((const double *)values[0])[i], ((const double *)values[1])[i],
                          all->tolerance);
        }
    }
    free(values[0]);
    free(values[1]);
    return status;
}

/* The graphs of two model files, as the library writes them. */
static void compare_models(const struct comparison *all, struct pair *pair) {
    char *one = model_text(all->weights[0].path, all->trust);
    char *other = one != NULL ? model_text(all->weights[1].path, all->trust) : NULL;
    if (other != NULL) {
        pair->is_text = true;
        pair->verdict = strcmp(one, other) == 0 ? SAME : DIFFERENT;
    }
    free(one);
    free(other);
}

static int compare_pair(const struct comparison *all, struct pair *pair) {
    if (pair->row[0] == NULL || pair->row[1] == NULL) {
        pair->verdict = pair->row[0] == NULL ? ONLY_SECOND : ONLY_FIRST;
        return EXIT_DONE;
    }
    const uf_weights_entry *one = &pair->row[0]->entry, *other = &pair->row[1]->entry;
    if (one->is_tensor && other->is_tensor && uf_shape_equal(&one->shape, &other->shape)) {
        return compare_values(all, pair);
    }
    pair->verdict = one->is_tensor && other->is_tensor ? OTHER_SHAPE : NO_NUMBERS;
    if (strcmp(one->name, "model") == 0 && strcmp(one->type, "string") == 0 &&
        strcmp(other->type, "string") == 0) {
        compare_models(all, pair);
    }
    return EXIT_DONE;
}

/* Pair the names of both files, as a merge of two sorted lists does. */
static int make_pairs(struct comparison *all) {
    const struct weights *one = &all->weights[0], *other = &all->weights[1];
    all->pairs = calloc((size_t)(one->count + other->count) + 1, sizeof *all->pairs);
    if (all->pairs == NULL) {
        return fail("out of memory");
    }
    qsort(one->rows, (size_t)one->count, sizeof *one->rows, compare_rows);
    qsort(other->rows, (size_t)other->count, sizeof *other->rows, compare_rows);
    for (int64_t i = 0, j = 0; i < one->count || j < other->count;) {
        const int order = i == one->count ? 1
                          : j == other->count
                              ? -1
                              : compare_names(one->rows[i].entry.name, other->rows[j].entry.name);
        struct pair *pair = &all->pairs[all->count++];
        pair->row[0] = order <= 0 ? &one->rows[i++] : NULL;
        pair->row[1] = order >= 0 ? &other->rows[j++] : NULL;
    }
    qsort(all->pairs, (size_t)all->count, sizeof *all->pairs, compare_pairs);
    return EXIT_DONE;
}

static const char *name_of(const struct pair *pair) {
    return pair->row[pair->row[0] == NULL]->entry.name;
}

static void print_json(const struct comparison *all) {
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "first", all->weights[0].path);
    json_text(&json, "second", all->weights[1].path);
    json_number(&json, "tolerance", all->tolerance);
    json_open(&json, "tensors", '[');
    for (int64_t i = 0; i < all->count; i++) {
        const struct pair *pair = &all->pairs[i];
        json_open(&json, NULL, '{');
        json_text(&json, "name", name_of(pair));
        json_text(&json, "verdict", verdicts[pair->verdict]);
        if (pair->verdict <= DIFFERENT && !pair->is_text) {
            json_number(&json, "absolute", pair->absolute);
            json_number(&json, "relative", pair->relative);
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_integer(&json, "different", all->different);
    json_integer(&json, "not_compared", all->not_compared);
    json_close(&json, '}');
}

static void print_row(const struct pair *pair, int width) {
    char shapes[2][128];
    const char *name = name_of(pair);
    const int padding = text_padding(name, width);
    if (pair->is_text) {
        say("%s%*s  %-9s  the network", name, padding, "", verdicts[pair->verdict]);
    } else if (pair->verdict <= DIFFERENT) {
        say("%s%*s  %-9s  absolute %-10.4g relative %.4g", name, padding, "",
            verdicts[pair->verdict], pair->absolute, pair->relative);
    } else if (pair->verdict == OTHER_SHAPE) {
        for (int i = 0; i < 2; i++) {
            uf_shape_format(&pair->row[i]->entry.shape, shapes[i], sizeof shapes[i]);
        }
        say("%s%*s  %s: %s and %s", name, padding, "", verdicts[pair->verdict], shapes[0],
            shapes[1]);
    } else if (pair->verdict == NO_NUMBERS) {
        say("%s%*s  %s: %s and %s", name, padding, "", verdicts[pair->verdict],
            pair->row[0]->entry.type, pair->row[1]->entry.type);
    } else {
        say("%s%*s  %s", name, padding, "", verdicts[pair->verdict]);
    }
}

static void print_table(const struct comparison *all) {
    int width = 4;
    for (int64_t i = 0; i < all->count; i++) {
        const int columns = text_columns(name_of(&all->pairs[i]));
        width = columns > width ? columns : width;
    }
    for (int64_t i = 0; i < all->count; i++) {
        print_row(&all->pairs[i], width);
    }
    say("%" PRId64 " of %" PRId64 " differ", all->different, all->count);
}

static int compare_files(struct comparison *all, const struct diff_arguments *arguments) {
    all->trust = arguments->trust;
    for (int i = 0; i < 2; i++) {
        TRY(weights_open(arguments->path[i], arguments->trust, &all->weights[i]));
    }
    TRY(make_pairs(all));
    for (int64_t i = 0; i < all->count; i++) {
        TRY(compare_pair(all, &all->pairs[i]));
        all->not_compared += all->pairs[i].verdict == NO_NUMBERS;
        all->different += all->pairs[i].verdict != SAME && all->pairs[i].verdict != NO_NUMBERS;
    }
    if (arguments->json) {
        print_json(all);
    } else {
        print_table(all);
    }
    if (all->different > 0) {
        return fail(
            "%s and %s: %" PRId64 " of %" PRId64 " tensors differ beyond the tolerance %.3g",
            arguments->path[0], arguments->path[1], all->different, all->count, all->tolerance);
    }
    return all->not_compared == 0
               ? EXIT_DONE
               : fail("%s and %s: %" PRId64 " of %" PRId64 " are not compared, for they are no "
                      "numbers that are read",
                      arguments->path[0], arguments->path[1], all->not_compared, all->count);
}

/* A number of the C locale's, 0 or more. */
static int parse_tolerance(const char *text, double *tolerance) {
    char *end = NULL;
    *tolerance = 0.0;
    if (text == NULL) {
        return EXIT_DONE;
    }
    errno = 0;
    *tolerance = strtod(text, &end);
    if (strchr(".0123456789", text[0]) == NULL || *end != '\0' || !isfinite(*tolerance)) {
        return fail_usage("diff: --tolerance is '%s'; it takes a number from 0 on", text);
    }
    return EXIT_DONE;
}

static int diff_run(const void *parsed) {
    const struct diff_arguments *arguments = parsed;
    struct comparison all = {0};
    TRY(parse_tolerance(arguments->tolerance, &all.tolerance));
    const int status = compare_files(&all, arguments);
    free(all.pairs);
    weights_close(&all.weights[0]);
    weights_close(&all.weights[1]);
    return status;
}

static const struct option diff_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "A",
     .help = "a file of weights",
     .offset = offsetof(struct diff_arguments, path[0])},
    {.kind = OPTION_OPERAND,
     .name = "B",
     .help = "another one, of any format",
     .offset = offsetof(struct diff_arguments, path[1])},
    {.kind = OPTION_TEXT,
     .name = "tolerance",
     .value = "N",
     .help = "a and b differ when |a - b| > N max(1, |a|, |b|); 0 unless given",
     .offset = offsetof(struct diff_arguments, tolerance)},
    WEIGHTS_TRUST_ROW(struct diff_arguments),
    WEIGHTS_JSON_ROW(struct diff_arguments),
};

const struct command command_diff = {
    .name = "diff",
    .summary = "Compare the tensors of two files: the largest difference of each.",
    .details =
        "Names with dots and with slashes are the same, types may differ, and NaN equals NaN.\n"
        "Exits with 1 when a tensor differs, has another shape or is in one file alone, and\n"
        "when one is of a type that is not read: truth values, strings, complex numbers.",
    .example = "unfurl diff generator.h5 generator.safetensors --tolerance 1e-6",
    .options = diff_options,
    .option_count = sizeof diff_options / sizeof diff_options[0],
    .arguments_size = sizeof(struct diff_arguments),
    .run = diff_run,
};
