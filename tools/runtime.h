/* runtime.h - what the commands that run a network have in common: their options and the context.
 */
#ifndef UF_TOOLS_RUNTIME_H
#define UF_TOOLS_RUNTIME_H

#include <unfurl/unfurl.h>

#include "json.h"
#include "options.h"

struct run_options {
    int32_t device; /* index into runtime_devices */
    int32_t dtype;  /* index into runtime_dtypes, or runtime_dtypes_bf16 */
    int32_t math;   /* a uf_math, index into runtime_maths */
    int64_t threads;
    bool json;
};

extern const char *const runtime_devices[];     /* auto, cpu, cuda */
extern const char *const runtime_dtypes[];      /* f32, f64 */
extern const char *const runtime_dtypes_bf16[]; /* f32, f64, bf16 */
extern const char *const runtime_maths[];       /* fp32, tf32, bf16: in the order of uf_math */

/* The rows of these options in a command's table; `type` is its struct, with a member `run`. */
#define RUN_OPTION_ROWS(type) RUN_OPTION_ROWS_OF(type, runtime_dtypes)
#define RUN_OPTION_ROWS_OF(type, dtypes_)                                                          \
    {.kind = OPTION_CHOICE,                                                                        \
     .name = "device",                                                                             \
     .help = "where to compute",                                                                   \
     .choices = runtime_devices,                                                                   \
     .offset = offsetof(type, run.device)},                                                        \
        {.kind = OPTION_CHOICE,                                                                    \
         .name = "dtype",                                                                          \
         .help = "precision of the arithmetic",                                                    \
         .choices = (dtypes_),                                                                     \
         .offset = offsetof(type, run.dtype)},                                                     \
        {.kind = OPTION_INTEGER,                                                                   \
         .name = "threads",                                                                        \
         .value = "N",                                                                             \
         .help = "CPU threads; all usable cores unless given",                                     \
         .minimum = 1,                                                                             \
         .maximum = 1024,                                                                          \
         .fallback = -1,                                                                           \
         .offset = offsetof(type, run.threads)},                                                   \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "json", .help = "print the report as JSON",                   \
        .offset = offsetof(type, run.json)                                                         \
    }

/* The row of --math, for commands whose results may have its accuracy; `member` is an int32_t. */
#define MATH_OPTION_ROW(type, member)                                                              \
    {                                                                                              \
        .kind = OPTION_CHOICE, .name = "math",                                                     \
        .help = "how a GPU computes products of f32; a CPU's are fp32", .choices = runtime_maths,  \
        .offset = offsetof(type, member)                                                           \
    }

/* Load weights from anybody, or with `trust` from no stranger. */
int runtime_load(uf_store *store, const char *path, bool trust);

uf_dtype runtime_dtype(const struct run_options *options);

/* The type of the stores, and of results in files: f32 beside bf16. */
uf_dtype runtime_stored(const struct run_options *options);

/* Create the context. Prints a sentence and returns EXIT_FAILED when it cannot be had. */
int runtime_open(const struct run_options *options, int64_t seed, uf_context **context);

/* A program's options, with the command's type and math. */
uf_program_options runtime_program(const struct run_options *options);

/* "device", "threads" and "dtype" of a report. */
void runtime_report(struct json *json, const uf_context *context, uf_dtype dtype);

#endif
