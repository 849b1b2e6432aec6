#include "runtime.h"

#include "command.h"

const char *const runtime_devices[] = {"auto", "cpu", "cuda", NULL};
const char *const runtime_dtypes[] = {"f32", "f64", NULL};
const char *const runtime_dtypes_bf16[] = {"f32", "f64", "bf16", NULL};

const char *const runtime_maths[] = {"fp32", "tf32", "bf16", NULL};

uf_dtype runtime_dtype(const struct run_options *options) {
    static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16}; /* in the order of the words */
    return dtypes[options->dtype];
}

uf_dtype runtime_stored(const struct run_options *options) {
    return runtime_dtype(options) == UF_F64 ? UF_F64 : UF_F32;
}

int runtime_open(const struct run_options *options, int64_t seed, uf_context **context) {
    static const uf_device devices[] = {UF_DEVICE_AUTO, UF_DEVICE_CPU, UF_DEVICE_CUDA};
    uf_context_options context_options = uf_context_options_default();
    context_options.device = devices[options->device];
    context_options.seed = (uint64_t)seed;
    if (options->threads > 0) {
        context_options.threads = (int32_t)options->threads;
    }
    TRY_LIBRARY(uf_context_create(&context_options, context));
    return EXIT_DONE;
}

uf_program_options runtime_program(const struct run_options *options) {
    uf_program_options program = uf_program_options_default();
    program.dtype = runtime_dtype(options);
    program.math = (uf_math)options->math;
    return program;
}

void runtime_report(struct json *json, const uf_context *context, uf_dtype dtype) {
    json_text(json, "device", uf_context_description(context));
    json_integer(json, "threads", uf_context_threads(context));
    json_text(json, "dtype", uf_dtype_name(dtype));
}

int runtime_load(uf_store *store, const char *path, bool trust) {
    uf_weights_load_options options = uf_weights_load_options_default();
    options.untrusted = !trust;
    TRY_LIBRARY(uf_weights_load(store, path, &options));
    return EXIT_DONE;
}
