/* model_options.c - the command line of bench_models. */
#include "model_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_times.h"

const char bench_models_usage[] =
    "bench_models [--model NAME] [--batch N] [--math fp32|tf32|bf16|all] [--dtype f32|f64|bf16]\n"
    "             [--device auto|cpu|cuda] [--threads N] [--budget-ms MS] [--no-capture] "
    "[--kernels]\n"
    "             [--quick] [--json] [--list]\n"
    "Times whole models, run or trained: milliseconds of a run (many are queued, then waited for) "
    "and of a run that is\n"
    "waited for, kernels, memory, and the losses of the first and the last step; of a model that "
    "is not trained, the\n"
    "mean of the picture's absolute values.\n"
    "  --model NAME   the model NAME, or those whose names begin with NAME_\n"
    "  --batch N      this batch in place of the list's\n"
    "  --dtype        of the program's values; f32 by default\n"
    "  --no-capture   launch each kernel, so that a profiler sees them, in place of one CUDA "
    "graph\n"
    "  --kernels      the time of each kernel in a run, through CUPTI, behind each model: of runs "
    "of "
    "their own\n"
    "  --quick        small sizes: a test, no benchmark\n"
    "  --list         say what would be timed, and time nothing\n";

static bool read_number(const char *text, int64_t most, int64_t *number) {
    char *end = NULL;
    const long long value = strtoll(text, &end, 10);
    *number = (int64_t)value;
    return end != text && *end == '\0' && value >= 1 && value <= most;
}

/* The value of an option that has one: 1, 0 when the value is none of its, -1 when the key is none.
 */
static int take(void *options, const char *key, const char *value) {
    bench_model_options *const o = options;
    static const char *const dtypes[] = {"f32", "f64", "bf16"};
    static const uf_dtype types[] = {UF_F32, UF_F64, UF_BF16};
    if (strcmp(key, "--model") == 0) {
        o->model = value;
    } else if (strcmp(key, "--batch") == 0) {
        return read_number(value, 1 << 20, &o->batch);
    } else if (strcmp(key, "--threads") == 0) {
        int64_t threads = 0;
        const bool good = read_number(value, 1024, &threads);
        o->threads = (int32_t)threads;
        return good;
    } else if (strcmp(key, "--budget-ms") == 0) {
        return bench_option_budget(value, &o->budget_ms);
    } else if (strcmp(key, "--device") == 0) {
        return bench_option_device(value, &o->device);
    } else if (strcmp(key, "--math") == 0) {
        o->math = bench_option_find(value, bench_math_names, BENCH_MATHS);
        return o->math != -2;
    } else if (strcmp(key, "--dtype") == 0) {
        const int found = bench_option_find(value, dtypes, 3);
        o->dtype = found < 0 ? UF_F32 : types[found];
        return found >= 0;
    } else {
        return -1;
    }
    return 1;
}

static bool take_flag(void *options, const char *key) {
    bench_model_options *const o = options;
    const bench_flag flags[] = {
        {"--json", &o->json, true},       {"--list", &o->list, true},
        {"--quick", &o->quick, true},     {"--no-capture", &o->capture, false},
        {"--kernels", &o->kernels, true}, {"--help", &o->help, true}};
    return bench_option_flag(flags, sizeof flags / sizeof flags[0], key);
}

bool bench_model_options_parse(int argc, char **argv, bench_model_options *o, char *error,
                               size_t error_size) {
    memset(o, 0, sizeof *o);
    o->device = UF_DEVICE_AUTO;
    o->math = UF_MATH_FP32;
    o->dtype = UF_F32;
    o->capture = true;
    o->budget_ms = 400;
    if (!bench_options_walk(argc, argv, take_flag, take, o, error, error_size)) {
        return false;
    }
    if (o->dtype == UF_F64 && o->math != UF_MATH_FP32) {
        (void)snprintf(error, error_size, "--dtype f64 has --math fp32 alone");
        return false;
    }
    if (o->kernels && !bench_kernel_times_known()) {
        (void)snprintf(error, error_size,
                       "--kernels needs CUPTI, which the build of this program did not find");
        return false;
    }
    for (int32_t row = 0; row < bench_model_row_count; ++row) {
        if (bench_model_wanted(o, &bench_model_rows[row])) {
            return true;
        }
    }
    (void)snprintf(error, error_size, "--model does not take \"%s\": see --list", o->model);
    return false;
}

bool bench_model_wanted(const bench_model_options *o, const bench_model_row *row) {
    return o->model == NULL || bench_option_names(o->model, row->name);
}

bool bench_model_size_of(const bench_model_options *o, const bench_model_row *row, int index,
                         bench_model_size *size) {
    enum { MOST = (int)(sizeof row->batches / sizeof row->batches[0]) };
    const bool one = o->quick || o->batch != 0;
    if (index >= (one ? 1 : MOST) || row->batches[index] == 0) {
        return false;
    }
    *size = o->quick ? row->quick : row->size;
    if (!o->quick) {
        size->batch = row->batches[index];
    }
    if (o->batch != 0) {
        size->batch = o->batch;
    }
    return true;
}
