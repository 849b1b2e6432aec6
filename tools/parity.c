/* parity.c - `unfurl parity`: replay operator cases that PyTorch wrote into a file, values and gradients. */
#include "parity.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { KIND_LIMIT = 64 };

struct parity_arguments {
    const char *path;
    struct run_options run;
};

/* What is said per kind: conv2d of conv2d/003, activation/tanh of itself. */
struct tally {
    char name[UF_NAME_SIZE * 2];
    bool known;
    int64_t cases;
    double error;
    char worst[UF_NAME_SIZE * 2];
};

static int find_tally(struct tally *tallies, int *count, const char *group, bool known) {
    char name[UF_NAME_SIZE * 2];
    snprintf(name, sizeof name, "%s", group);
    char *slash = strchr(name, '/');
    /* A case's number says nothing of its kind; a name does. */
    if (slash != NULL && (strspn(slash + 1, "0123456789") == strlen(slash + 1) ||
                          strlen(slash + 1) == 1)) {
        *slash = '\0';
    }
    for (int i = 0; i < *count; i++) {
        if (strcmp(tallies[i].name, name) == 0) {
            return i;
        }
    }
    if (*count == KIND_LIMIT) {
        return KIND_LIMIT - 1;
    }
    memset(&tallies[*count], 0, sizeof tallies[0]);
    memcpy(tallies[*count].name, name, sizeof name);
    tallies[*count].known = known;
    return (*count)++;
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

static int replay_all(struct replay *replay, struct tally *tallies, int *count) {
    char last[UF_NAME_SIZE * 2] = "";
    for (int64_t i = 0; i < replay->entry_count; i++) {
        char group[UF_NAME_SIZE * 2];
        if (!group_of(replay->entries[i].name, group, sizeof group) || strcmp(group, last) == 0) {
            continue;
        }
        memcpy(last, group, sizeof last);
        const struct kind *kind = parity_kind_of(group);
        struct tally *tally = &tallies[find_tally(tallies, count, group, kind != NULL)];
        tally->cases++;
        if (kind == NULL) {
            continue;
        }
        replay->group = group;
        replay->error = 0.0;
        TRY(kind->run(replay));
        if (replay->error >= tally->error) {
            tally->error = replay->error;
            memcpy(tally->worst, group, sizeof group);
        }
    }
    return EXIT_DONE;
}

static int report(const struct parity_arguments *arguments, const struct replay *replay,
                  const struct tally *tallies, int count) {
    const double limit = replay->dtype == UF_F64 ? 1e-11 : 2e-5;
    struct json json = json_begin(stdout);
    int64_t cases = 0, unknown = 0, beyond = 0;
    if (arguments->run.json) {
        json_open(&json, NULL, '{');
        runtime_report(&json, replay->context, replay->dtype);
        json_number(&json, "limit", limit);
        json_open(&json, "kinds", '[');
    } else {
        printf("%-28s %5s  %12s  %s\n", "kind", "cases", "worst error", "where");
    }
    for (int i = 0; i < count; i++) {
        const struct tally *tally = &tallies[i];
        const bool right = tally->error <= limit; /* false for NaN */
        *(tally->known ? &cases : &unknown) += tally->cases;
        beyond += tally->known && !right ? 1 : 0;
        if (arguments->run.json) {
            json_open(&json, NULL, '{');
            json_text(&json, "kind", tally->name);
            json_integer(&json, "cases", tally->cases);
            json_bool(&json, "known", tally->known);
            if (tally->known) {
                json_number(&json, "error", tally->error);
                json_text(&json, "worst", tally->worst);
                json_bool(&json, "passed", right);
            }
            json_close(&json, '}');
        } else if (tally->known) {
            printf("%-28s %5" PRId64 "  %12.3e  %s%s\n", tally->name, tally->cases, tally->error,
                   tally->worst, right ? "" : "  BEYOND THE TOLERANCE");
        } else {
            printf("%-28s %5" PRId64 "  %12s\n", tally->name, tally->cases, "not known");
        }
    }
    if (arguments->run.json) {
        json_close(&json, ']');
        json_bool(&json, "passed", beyond == 0);
        json_close(&json, '}');
    } else {
        printf("%s, %s: %" PRId64 " cases replayed, %" PRId64 " of kinds that are not known; max|a-b|/max|b| "
               "must be at most %.0e: %s\n",
               uf_context_description(replay->context), uf_dtype_name(replay->dtype), cases, unknown, limit,
               beyond == 0 ? "ok" : "FAILED");
    }
    if (cases == 0) {
        return fail("%s holds no case of a known kind", replay->file);
    }
    return beyond == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int parity_run(const void *parsed) {
    const struct parity_arguments *arguments = parsed;
    struct replay replay = {.file = arguments->path, .dtype = runtime_dtype(&arguments->run)};
    uf_hdf5_entry *entries = NULL;
    static struct tally tallies[KIND_LIMIT];
    int count = 0;
    TRY_LIBRARY(uf_hdf5_list(arguments->path, NULL, &entries, &replay.entry_count));
    replay.entries = entries;
    int status = runtime_open(&arguments->run, 0, &replay.context);
    if (status == EXIT_DONE) {
        status = replay_all(&replay, tallies, &count);
    }
    if (status == EXIT_DONE) {
        status = report(arguments, &replay, tallies, count);
    }
    uf_context_destroy(replay.context);
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
    .details = "Every group KIND/NAME of the file is run forward and backward and compared with the results\n"
               "in it. Prints the worst error per kind, max|a-b|/max|b|, and exits with 1 when one is beyond\n"
               "1e-11 (f64) or 2e-5 (f32). Kinds that are not known are counted and named.",
    .options = parity_options,
    .option_count = sizeof parity_options / sizeof parity_options[0],
    .arguments_size = sizeof(struct parity_arguments),
    .run = parity_run,
};
