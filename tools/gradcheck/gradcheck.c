/* gradcheck.c - `unfurl gradcheck`: prove every gradient of the library on this machine. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "gradcheck/cases.h"
#include "runtime.h"

struct gradcheck_arguments {
    int32_t device;
    int64_t threads, seed;
    const char *only;
    bool fast, json;
};

/* Right, and no smooth function skipped anywhere. */
static bool case_passed(const gradcheck_case *one, const uf_gradcheck_result *result) {
    return result->passed && (!one->smooth || result->skipped == 0);
}

static void print_row(const gradcheck_case *one, const uf_gradcheck_result *result) {
    const bool passed = case_passed(one, result);
    say("%-16s %-52s %6" PRId64 " %4" PRId64 "  %8.1e  %s[%" PRId64 "] %s", one->layer, one->what,
        result->checked, result->skipped, result->worst_ratio, result->worst_tensor,
        result->worst_index, passed ? "ok" : "FAILED");
    if (!passed) {
        say("    analytic %.12g, numeric %.12g, %" PRId64 " elements wrong", result->worst_analytic,
            result->worst_numeric, result->failed);
    }
}

static void report_row(struct json *json, const gradcheck_case *one,
                       const uf_gradcheck_result *result) {
    json_open(json, NULL, '{');
    json_text(json, "layer", one->layer);
    json_text(json, "case", one->what);
    json_integer(json, "checked", result->checked);
    json_integer(json, "skipped", result->skipped);
    json_integer(json, "failed", result->failed);
    json_text(json, "worst_tensor", result->worst_tensor);
    json_integer(json, "worst_index", result->worst_index);
    json_number(json, "worst_analytic", result->worst_analytic);
    json_number(json, "worst_numeric", result->worst_numeric);
    json_number(json, "worst_ratio", result->worst_ratio);
    json_bool(json, "passed", case_passed(one, result));
    json_close(json, '}');
}

static int run_cases(const struct gradcheck_arguments *arguments, uf_context *context,
                     struct json *json) {
    uf_gradcheck_options options = uf_gradcheck_options_default();
    options.seed = (uint64_t)arguments->seed;
    options.projections = arguments->fast ? 4 : 0;
    int64_t cases = 0, failed = 0, checked = 0, skipped = 0;
    const gradcheck_case *one;
    for (int i = 0; (one = gradcheck_case_at(i)) != NULL; i++) {
        uf_gradcheck_result result;
        if (arguments->only != NULL && strcmp(arguments->only, one->layer) != 0) {
            continue;
        }
        TRY_LIBRARY(gradcheck_case_run(one, context, &options, &result));
        cases++;
        failed += case_passed(one, &result) ? 0 : 1;
        checked += result.checked;
        skipped += result.skipped;
        if (arguments->json) {
            report_row(json, one, &result);
        } else {
            print_row(one, &result);
        }
    }
    if (!arguments->json) {
        say("%s: %" PRId64 " cases, %" PRId64 " failed; %" PRId64 " elements checked, %" PRId64
            " skipped at kinks",
            uf_context_description(context), cases, failed, checked, skipped);
    }
    return failed == 0 ? EXIT_DONE
                       : fail("gradcheck: %" PRId64 " of %" PRId64 " cases have wrong gradients",
                              failed, cases);
}

/* Is case `i` the first of its layer? The layers of the table, each once. */
static bool is_first_of_layer(int i) {
    for (int before = 0; before < i; before++) {
        if (strcmp(gradcheck_case_at(before)->layer, gradcheck_case_at(i)->layer) == 0) {
            return false;
        }
    }
    return true;
}

static int check_layer(const char *name) {
    char names[1024] = "";
    size_t used = 0;
    const gradcheck_case *one;
    for (int i = 0; (one = gradcheck_case_at(i)) != NULL; i++) {
        const char *layer = one->layer;
        if (name == NULL || strcmp(name, layer) == 0) {
            return EXIT_DONE;
        }
        if (is_first_of_layer(i) && used < sizeof names) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used == 0 ? "" : ", ", layer);
        }
    }
    return fail_usage("gradcheck: there is no layer '%s' to check; it may be one of %s", name,
                      names);
}

static int gradcheck_run(const void *parsed) {
    const struct gradcheck_arguments *arguments = parsed;
    const struct run_options run = {.device = arguments->device, .threads = arguments->threads};
    uf_context *context;
    TRY(check_layer(arguments->only));
    TRY(runtime_open(&run, arguments->seed, &context));
    struct json json = json_begin(stdout);
    if (!arguments->json) {
        say("%-16s %-52s %6s %4s  %8s  %s", "layer", "case", "checked", "skip", "worst",
            "where (1 is the limit)");
    } else {
        json_open(&json, NULL, '[');
    }
    const int status = run_cases(arguments, context, &json);
    if (arguments->json) {
        json_close(&json, ']');
    }
    uf_context_destroy(context);
    return status;
}

static const struct option gradcheck_options[] = {
    {.kind = OPTION_CHOICE,
     .name = "device",
     .help = "where to compute",
     .choices = runtime_devices,
     .offset = offsetof(struct gradcheck_arguments, device)},
    {.kind = OPTION_INTEGER,
     .name = "threads",
     .value = "N",
     .help = "CPU threads; all usable cores unless given",
     .minimum = 1,
     .maximum = 1024,
     .fallback = -1,
     .offset = offsetof(struct gradcheck_arguments, threads)},
    {.kind = OPTION_INTEGER,
     .name = "seed",
     .value = "N",
     .help = "of the inputs, the parameters and the upstream gradients",
     .minimum = 0,
     .maximum = INT32_MAX,
     .fallback = 0,
     .offset = offsetof(struct gradcheck_arguments, seed)},
    {.kind = OPTION_TEXT,
     .name = "layer",
     .value = "NAME",
     .help = "only the cases of this layer",
     .offset = offsetof(struct gradcheck_arguments, only)},
    {.kind = OPTION_FLAG,
     .name = "fast",
     .help = "random directions in place of every element",
     .offset = offsetof(struct gradcheck_arguments, fast)},
    {.kind = OPTION_FLAG,
     .name = "json",
     .help = "print the table as JSON",
     .offset = offsetof(struct gradcheck_arguments, json)},
};

const struct command command_gradcheck = {
    .name = "gradcheck",
    .summary = "Check every layer's gradients against central differences.",
    .details =
        "Each case is a small graph. Its analytic gradients by every input and parameter, under a\n"
        "random upstream gradient, are compared with central differences in double precision\n"
        "(eps 1e-6, atol 1e-5, rtol 1e-3). Exits with 1 if one is wrong.",
    .example = "unfurl gradcheck --layer conv_transpose2d",
    .options = gradcheck_options,
    .option_count = sizeof gradcheck_options / sizeof gradcheck_options[0],
    .arguments_size = sizeof(struct gradcheck_arguments),
    .run = gradcheck_run,
};
