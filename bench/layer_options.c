/* layer_options.c - the command line of bench_layers. */
#include "layer_options.h"

#include <stdio.h>
#include <string.h>

const char bench_layers_usage[] =
    "bench_layers [--layer NAME] [--dtype f32|bf16] [--device auto|cpu|cuda] [--budget-ms MS]\n"
    "             [--quick] [--json] [--list] [--help]\n"
    "Times single layers that are bound by memory, forward and backward: milliseconds of the "
    "step alone, the bytes\n"
    "that it must read and write, each once, over this time, and that as a share of the speed of "
    "a copy in the same run.\n"
    "Rows below 80 % have a \"<\"; with \"x2\" stands the share that counts bytes twice which a "
    "norm sums before it writes.\n"
    "  --layer NAME    the layer NAME, or those whose names begin with NAME_\n"
    "  --dtype         of the values; f32 by default\n"
    "  --budget-ms MS  of a step: 100 by default\n"
    "  --quick         small sizes, and a look at the results: a test, no benchmark\n"
    "  --json          a line of JSON for each step\n"
    "  --list          say the names of the layers, and time nothing\n";

static int take(void *options, const char *key, const char *value) {
    bench_layer_options *const o = options;
    static const char *const dtypes[] = {"f32", "bf16"};
    static const uf_dtype types[] = {UF_F32, UF_BF16};
    if (strcmp(key, "--layer") == 0) {
        o->layer = value;
    } else if (strcmp(key, "--budget-ms") == 0) {
        return bench_option_budget(value, &o->budget_ms);
    } else if (strcmp(key, "--device") == 0) {
        return bench_option_device(value, &o->device);
    } else if (strcmp(key, "--dtype") == 0) {
        const int found = bench_option_find(value, dtypes, 2);
        o->dtype = found < 0 ? UF_F32 : types[found];
        return found >= 0;
    } else {
        return -1;
    }
    return 1;
}

static bool take_flag(void *options, const char *key) {
    bench_layer_options *const o = options;
    const bench_flag flags[] = {{"--json", &o->json, true},
                                {"--list", &o->list, true},
                                {"--quick", &o->quick, true},
                                {"--help", &o->help, true}};
    return bench_option_flag(flags, sizeof flags / sizeof flags[0], key);
}

bool bench_layer_options_parse(int argc, char **argv, bench_layer_options *o, char *error,
                               size_t error_size) {
    memset(o, 0, sizeof *o);
    o->device = UF_DEVICE_AUTO;
    o->dtype = UF_F32;
    o->budget_ms = 100;
    if (!bench_options_walk(argc, argv, take_flag, take, o, error, error_size)) {
        return false;
    }
    for (int32_t row = 0; row < bench_layer_row_count; ++row) {
        if (bench_layer_wanted(o, &bench_layer_rows[row])) {
            return true;
        }
    }
    (void)snprintf(error, error_size, "--layer does not take \"%s\": see --list", o->layer);
    return false;
}

bool bench_layer_wanted(const bench_layer_options *o, const bench_layer_row *row) {
    return o->layer == NULL || bench_option_names(o->layer, row->name);
}
