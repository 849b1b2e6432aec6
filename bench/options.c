/* options.c - the command line of bench_ops. */
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNSAID = -3 };

const char *const bench_math_names[BENCH_MATHS] = {"fp32", "tf32", "bf16"};

const char bench_usage[] =
    "bench_ops [--shapes FILE.json]... [--device cpu|cuda] [--math fp32|tf32|bf16|all]\n"
    "          [--op forward|grad_input|grad_weight|all] [--dtype f32|f64] [--only SHAPE]\n"
    "          [--budget-ms MS] [--variant NAME] [--no-cudnn] [--json]\n"
    "bench_ops --every-variant [--matrix FILE.jsonl] [--capability CC] [--commit TEXT] ...\n"
    "Times the transposed convolution of each shape, beside cuDNN where it was found. With "
    "--math bf16 tensors\n"
    "are bf16 on a GPU, ours as cuDNN's; --dtype f32 keeps ours in f32.\n"
    "--every-variant times every variant that takes a cell, forced, about MS (5) milliseconds "
    "each, beside the\n"
    "library's estimate and plan; FILE gets a line for each. --capability 90 says what a GPU of "
    "9.0 would get:\n"
    "it times nothing and needs no GPU.\n";

int bench_option_find(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return strcmp(name, "all") == 0 ? -1 : -2;
}

bool bench_option_device(const char *text, uf_device *device) {
    static const char *const devices[] = {"auto", "cpu", "cuda"};
    const int found = bench_option_find(text, devices, 3);
    *device = found < 0 ? UF_DEVICE_AUTO : (uf_device)found;
    return found >= 0;
}

bool bench_option_budget(const char *text, double *budget) {
    char *end = NULL;
    *budget = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*budget) && *budget > 0;
}

bool bench_option_flag(const bench_flag *flags, size_t count, const char *key) {
    for (size_t i = 0; i < count; ++i) {
        if (strcmp(flags[i].key, key) == 0) {
            *flags[i].flag = flags[i].value;
            return true;
        }
    }
    return false;
}

bool bench_option_names(const char *text, const char *name) {
    const size_t length = strlen(text);
    return strncmp(text, name, length) == 0 && (name[length] == '\0' || name[length] == '_');
}

bool bench_options_walk(int argc, char **argv, bench_take_flag *take_flag, bench_take_value *take,
                        void *options, char *error, size_t error_size) {
    for (int i = 1; i < argc; ++i) {
        if (take_flag(options, argv[i])) {
            continue;
        }
        const int taken = i + 1 < argc ? take(options, argv[i], argv[i + 1]) : -1;
        if (taken < 0) {
            (void)snprintf(error, error_size, "\"%s\" is no option, or lacks its value", argv[i]);
            return false;
        }
        if (taken == 0) {
            (void)snprintf(error, error_size, "%s does not take \"%s\"", argv[i], argv[i + 1]);
            return false;
        }
        ++i;
    }
    return true;
}

static bool read_capability(const char *text, int *capability) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    *capability = (int)value;
    return end != text && *end == '\0' && value >= 50 && value < 1000;
}

/* The value of an option that has one: 1, 0 when the value is none of its, -1 when the key is none.
 */
static int take(void *options, const char *key, const char *value) {
    bench_options *const o = options;
    static const char *const dtypes[] = {"f32", "f64"};
    if (strcmp(key, "--shapes") == 0) {
        if (o->lists == BENCH_MOST_LISTS) {
            return 0;
        }
        o->shapes[o->lists++] = value;
    } else if (strcmp(key, "--only") == 0) {
        o->only = value;
    } else if (strcmp(key, "--variant") == 0) {
        o->variant = value;
    } else if (strcmp(key, "--matrix") == 0) {
        o->matrix = value;
    } else if (strcmp(key, "--commit") == 0) {
        o->commit = value;
    } else if (strcmp(key, "--budget-ms") == 0) {
        return bench_option_budget(value, &o->budget_ms);
    } else if (strcmp(key, "--capability") == 0) {
        return read_capability(value, &o->capability);
    } else if (strcmp(key, "--device") == 0) {
        return bench_option_device(value, &o->device);
    } else if (strcmp(key, "--math") == 0) {
        o->math = bench_option_find(value, bench_math_names, BENCH_MATHS);
        return o->math != -2;
    } else if (strcmp(key, "--op") == 0) {
        o->op = bench_option_find(value, bench_op_names, BENCH_OPS);
        return o->op != -2;
    } else if (strcmp(key, "--dtype") == 0) {
        o->dtype = bench_option_find(value, dtypes, 2);
        return o->dtype != -2;
    } else {
        return -1;
    }
    return 1;
}

static bool take_flag(void *options, const char *key) {
    bench_options *const o = options;
    const bench_flag flags[] = {{"--json", &o->json, true},
                                {"--no-cudnn", &o->rival, false},
                                {"--every-variant", &o->every_variant, true},
                                {"--help", &o->help, true}};
    return bench_option_flag(flags, sizeof flags / sizeof flags[0], key);
}

bool bench_options_parse(int argc, char **argv, bench_options *o, char *error, size_t error_size) {
    memset(o, 0, sizeof *o);
    o->device = UF_DEVICE_AUTO;
    o->op = o->dtype = -1;
    o->math = UNSAID;
    o->rival = true;
    if (!bench_options_walk(argc, argv, take_flag, take, o, error, error_size)) {
        return false;
    }
    if (!o->every_variant && (o->matrix != NULL || o->capability != 0 || o->commit != NULL)) {
        (void)snprintf(error, error_size,
                       "--matrix, --capability and --commit need --every-variant");
        return false;
    }
    if (o->every_variant && (o->variant != NULL || o->json)) {
        (void)snprintf(error, error_size, "--every-variant takes neither --variant nor --json");
        return false;
    }
    if (o->math == UNSAID) {
        o->math = o->every_variant ? -1 : UF_MATH_FP32;
    }
    if (o->budget_ms == 0) {
        o->budget_ms = o->every_variant ? 5.0 : 200.0;
    }
    return true;
}

bool bench_dtype_of(const bench_options *o, int math, bool on_gpu, uf_dtype *dtype) {
    *dtype = o->dtype == 1                                    ? UF_F64
             : o->dtype < 0 && math == UF_MATH_BF16 && on_gpu ? UF_BF16
                                                              : UF_F32;
    return (o->math < 0 || o->math == math) && (*dtype != UF_F64 || math == UF_MATH_FP32);
}

bool bench_wanted(const bench_options *o, const bench_shape *shape, int op) {
    return (o->op < 0 || o->op == op) && (o->only == NULL || strcmp(o->only, shape->name) == 0);
}
