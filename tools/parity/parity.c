/* parity.c - `unfurl parity`: replay operator cases that PyTorch wrote into a file, values and
 * gradients. */
#include "parity/parity.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"
#include "text.h"

struct parity_arguments {
    const char *path;
    struct run_options run;
};

/* The results of one kind: conv2d of conv2d/003, activation/tanh of itself. */
struct tally {
    char name[UF_NAME_SIZE * 2];
    bool known;
    int64_t cases;
    double error;
    char worst[UF_NAME_SIZE * 2];
};

/* One for each kind, in the order of the file. */
struct tallies {
    struct tally *rows;
    size_t count, capacity;
};

/* A case's number says nothing of its kind; a name does. */
static void kind_name(const char *group, char name[UF_NAME_SIZE * 2]) {
    snprintf(name, UF_NAME_SIZE * 2, "%s", group);
    char *slash = strchr(name, '/');
    if (slash != NULL &&
        (strspn(slash + 1, "0123456789") == strlen(slash + 1) || strlen(slash + 1) == 1)) {
        *slash = '\0';
    }
}

/* The row of the group's kind, made if it is not there; NULL without memory. */
static struct tally *find_tally(struct tallies *tallies, const char *group, bool known) {
    struct tally fresh = {.known = known};
    kind_name(group, fresh.name);
    for (size_t i = tallies->count; i-- > 0;) { /* the last one is the most likely */
        if (strcmp(tallies->rows[i].name, fresh.name) == 0) {
            return &tallies->rows[i];
        }
    }
    if (tallies->count == tallies->capacity) {
        const size_t capacity = 2 * tallies->capacity + 16;
        struct tally *rows = realloc(tallies->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            return NULL;
        }
        tallies->rows = rows;
        tallies->capacity = capacity;
    }
    tallies->rows[tallies->count] = fresh;
    return &tallies->rows[tallies->count++];
}

/* The first two parts of a dataset's path; false for a dataset that lies less deep. */
static bool group_of(const char *dataset, char *group, size_t size) {
    const char *slash = strchr(dataset, '/');
    const char *second = slash != NULL ? strchr(slash + 1, '/') : NULL;
    if (second == NULL || (size_t)(second - dataset) >= size) {
        return false;
    }
    memcpy(group, dataset, (size_t)(second - dataset));
    group[second - dataset] = '\0';
    return true;
}

/* How many of the entries from the first one on lie in `group`; a group's datasets are listed
 * together. */
static int64_t count_members(const uf_hdf5_entry *entries, int64_t count, const char *group) {
    const size_t length = strlen(group);
    int64_t members = 0;
    while (members < count && strncmp(entries[members].name, group, length) == 0 &&
           entries[members].name[length] == '/') {
        members++;
    }
    return members;
}

static int replay_group(struct replay *replay, struct tallies *tallies) {
    const struct kind *kind = parity_kind_of(replay->group);
    struct tally *tally = find_tally(tallies, replay->group, kind != NULL);
    if (tally == NULL) {
        return fail("out of memory for kind %zu", tallies->count + 1);
    }
    tally->cases++;
    if (kind == NULL) {
        return EXIT_DONE;
    }
    replay->error = 0.0;
    TRY(kind->run(replay));
    if (replay->error >= tally->error) {
        tally->error = replay->error;
        snprintf(tally->worst, sizeof tally->worst, "%s", replay->group);
    }
    return EXIT_DONE;
}

static int replay_all(struct replay *replay, const uf_hdf5_entry *entries, int64_t count,
                      struct tallies *tallies) {
    for (int64_t i = 0; i < count; i += replay->entry_count) {
        char group[UF_NAME_SIZE * 2];
        replay->entry_count = 1;
        if (group_of(entries[i].name, group, sizeof group)) {
            replay->group = group;
            replay->entries = &entries[i];
            replay->entry_count = count_members(&entries[i], count - i, group);
            TRY(replay_group(replay, tallies));
        }
    }
    return EXIT_DONE;
}

struct totals {
    int64_t cases, unknown; /* of known kinds, of others */
    int64_t kinds, beyond;  /* known ones, those beyond the tolerance */
};

static bool is_right(const struct tally *tally, double limit) {
    return tally->error <= limit; /* false for NaN */
}

static struct totals add_up(const struct tallies *tallies, double limit) {
    struct totals totals = {0};
    for (size_t i = 0; i < tallies->count; i++) {
        const struct tally *tally = &tallies->rows[i];
        *(tally->known ? &totals.cases : &totals.unknown) += tally->cases;
        totals.kinds += tally->known ? 1 : 0;
        totals.beyond += tally->known && !is_right(tally, limit) ? 1 : 0;
    }
    return totals;
}

static void print_json(const struct replay *replay, const struct tallies *tallies, double limit,
                       const struct totals *totals) {
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    runtime_report(&json, replay->context, replay->dtype);
    json_number(&json, "limit", limit);
    json_open(&json, "kinds", '[');
    for (size_t i = 0; i < tallies->count; i++) {
        const struct tally *tally = &tallies->rows[i];
        json_open(&json, NULL, '{');
        json_text(&json, "kind", tally->name);
        json_integer(&json, "cases", tally->cases);
        json_bool(&json, "known", tally->known);
        if (tally->known) {
            json_number(&json, "error", tally->error);
            json_text(&json, "worst", tally->worst);
            json_bool(&json, "passed", is_right(tally, limit));
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_bool(&json, "passed", totals->beyond == 0);
    json_close(&json, '}');
}

static void print_table(const struct replay *replay, const struct tallies *tallies, double limit,
                        const struct totals *totals) {
    int width = 28;
    for (size_t i = 0; i < tallies->count; i++) {
        const int columns = text_columns(tallies->rows[i].name);
        width = columns > width ? columns : width;
    }
    say("%-*s %5s  %12s  %s", width, "kind", "cases", "worst error", "where");
    for (size_t i = 0; i < tallies->count; i++) {
        const struct tally *tally = &tallies->rows[i];
        const int padding = text_padding(tally->name, width);
        if (tally->known) {
            say("%s%*s %5" PRId64 "  %12.3e  %s%s", tally->name, padding, "", tally->cases,
                tally->error, tally->worst, is_right(tally, limit) ? "" : "  BEYOND THE TOLERANCE");
        } else {
            say("%s%*s %5" PRId64 "  %12s", tally->name, padding, "", tally->cases, "not known");
        }
    }
    say("%s, %s: %" PRId64 " cases replayed, %" PRId64
        " of kinds that are not known; max|a-b|/max|b| must be at most %.0e: %s",
        uf_context_description(replay->context), uf_dtype_name(replay->dtype), totals->cases,
        totals->unknown, limit, totals->beyond == 0 ? "ok" : "FAILED");
}

static int report(const struct parity_arguments *arguments, const struct replay *replay,
                  const struct tallies *tallies) {
    const double limit = replay->dtype == UF_F64 ? 1e-11 : 2e-5;
    const struct totals totals = add_up(tallies, limit);
    if (tallies->count == 0) {
        return fail("%s holds no cases: none of its datasets lies in a group KIND/NAME",
                    replay->file);
    }
    if (totals.cases == 0) {
        return fail("%s holds no case of a known kind; it has %" PRId64 " of others, such as %s",
                    replay->file, totals.unknown, tallies->rows[0].name);
    }
    if (arguments->run.json) {
        print_json(replay, tallies, limit, &totals);
    } else {
        print_table(replay, tallies, limit, &totals);
    }
    return totals.beyond == 0
               ? EXIT_DONE
               : fail("%s: %" PRId64 " of %" PRId64 " kinds of cases beyond the tolerance %.0e",
                      replay->file, totals.beyond, totals.kinds, limit);
}

static int parity_run(const void *parsed) {
    const struct parity_arguments *arguments = parsed;
    struct replay replay = {.file = arguments->path, .dtype = runtime_dtype(&arguments->run)};
    struct tallies tallies = {0};
    uf_hdf5_entry *entries = NULL;
    int64_t count = 0;
    TRY_LIBRARY(uf_hdf5_list(arguments->path, NULL, &entries, &count));
    int status = runtime_open(&arguments->run, 0, &replay.context);
    if (status == EXIT_DONE) {
        status = replay_all(&replay, entries, count, &tallies);
    }
    if (status == EXIT_DONE) {
        status = report(arguments, &replay, &tallies);
    }
    uf_context_destroy(replay.context);
    free(tallies.rows);
    uf_hdf5_list_free(entries);
    return status;
}

static const struct option parity_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "CASES.h5",
     .help = "the cases: one group each, kind/name, with inputs, results and gradients",
     .offset = offsetof(struct parity_arguments, path)},
    RUN_OPTION_ROWS(struct parity_arguments),
};

const struct command command_parity = {
    .name = "parity",
    .summary = "Replay PyTorch's operator cases from an HDF5 file and compare.",
    .details =
        "Every group KIND/NAME of the file is run forward and backward and compared with the\n"
        "results in it. Prints the worst error per kind, max|a-b|/max|b|, and exits with 1 when\n"
        "one is beyond 1e-11 (f64) or 2e-5 (f32). An expected infinity or NaN must be met by the\n"
        "same. Kinds that are not known are counted and named; a file of none else fails.",
    .example = "unfurl parity cases.h5 --dtype f64",
    .options = parity_options,
    .option_count = sizeof parity_options / sizeof parity_options[0],
    .arguments_size = sizeof(struct parity_arguments),
    .run = parity_run,
};
